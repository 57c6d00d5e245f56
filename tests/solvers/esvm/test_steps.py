"""Steps of the interior point method: the same in every form of its Newton system."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oblong.linalg.log_det import quadratic_features, symmetric_features, symmetric_matrix
from oblong.solvers.esvm.kernel.state import KernelState
from oblong.solvers.esvm.options import EsvmOptions
from oblong.solvers.esvm.solve import solve_ellipsoidal_svm
from oblong.solvers.logdet.directions import Zone, sampled_hessian
from oblong.solvers.logdet.newton import DualSystem, PrimalSystem
from oblong.solvers.logdet.state import LogDetState

# As many trial steps in the kernel form as in the explicit one.
SAME_TRIALS = EsvmOptions(kernel_halvings=6, kernel_last_halvings=30)


def draw(seed, n, p, hard=False):
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(n, p))
    y = np.where(F[:, 0] + 0.4 * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    caps = np.full(n, np.inf) if hard else rng.uniform(0.5, 2.0, n)
    alpha = rng.uniform(0.1, 0.4, n)
    alpha[y > 0] *= alpha[y < 0].sum() / alpha[y > 0].sum()
    alpha *= 0.4 / alpha.max()
    return F, y, caps, rng.uniform(0.5, 2.0, n), alpha


def states(seed, n, p, hard=False, total=0.0, r=0.9):
    F, y, caps, pi, alpha = draw(seed, n, p, hard)
    M0, v0 = (1.0 - r) * np.eye(p), np.zeros(p)
    return (
        LogDetState(
            F,
            alpha,
            r=r,
            M0=M0,
            caps=caps,
            signs=y,
            total=total,
            direction=True,
            v0=v0,
            scale=pi,
        ),
        KernelState(F, alpha, r, 1.0 - r, caps, y, total, pi, SAME_TRIALS),
    )


def same(one, other, tolerance=1e-7):
    for name in ("alpha", "s", "u", "w", "gamma", "b", "q", "v"):
        mine, its = getattr(one, name), getattr(other, name)
        assert np.allclose(mine, its, rtol=tolerance, atol=tolerance), name
    assert one.gap() == pytest.approx(other.gap(), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("total", [0.0, None])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize(("n", "p"), [(5, 1), (30, 2), (31, 5), (12, 8), (150, 6)])
def test_forms_take_the_same_steps(n, p, hard, total):
    plain, kernel = states(n + p, n, p, hard, total)
    for _ in range(4):
        assert plain.advance()
        assert kernel.advance()
        # The kernel form is for many rows.
        if n >= 12:
            same(plain, kernel, 1e-5)


@given(seed=st.integers(0, 10**6), primal=st.booleans())
@settings(max_examples=20)
def test_a_newton_step_solves_the_linear_system(seed, primal):
    n, p = 14, 3
    state = states(seed, n, p)[0]
    room, ball = state.caps - state.alpha, 1.0 - state.w @ state.w
    diagonal = state.s / state.alpha + state.u / room
    system = (PrimalSystem if primal else DualSystem)(state, diagonal, ball)
    assert system.good
    rng = np.random.default_rng(seed)
    right, pull, missing = rng.normal(size=n), rng.normal(size=p), float(rng.normal())
    delta, dw, db = system.solve(right, pull, missing)
    Q = state.Z.T @ state.Z
    bend = 2.0 * state.gamma * (np.eye(p) + 2.0 / ball * np.outer(state.w, state.w))
    left = Q**2 @ delta / state.r + diagonal * delta + state.signed @ dw + state.y * db
    np.testing.assert_allclose(left, right, atol=1e-8)
    np.testing.assert_allclose(bend @ dw - state.signed.T @ delta, pull, atol=1e-8)
    assert -state.y @ delta == pytest.approx(missing, abs=1e-8)


def test_polish_goes_on_to_the_last_digits():
    F, y, caps, pi, _ = draw(1, 80, 4)
    rough = solve_ellipsoidal_svm(F, y, caps=caps, pi=pi, r=0.9, tol=1e-4)
    fine = solve_ellipsoidal_svm(F, y, caps=caps, pi=pi, r=0.9, tol=1e-4, polish=True)
    assert rough.status == fine.status == "converged"
    assert fine.gap <= 1e-10 < rough.gap


def test_direction_that_follows_v_stays_inside_the_ball():
    state = states(2, 40, 3)[0]
    for level in (1e-15, 1e-3, 10.0):
        state.slide(level)
        np.testing.assert_allclose(2.0 * state.gamma * state.w, state.v, rtol=1e-12)
        assert 1.0 - state.w @ state.w > 0.0
    assert state.gamma * (1.0 - state.w @ state.w) == pytest.approx(10.0)


def test_sequential_solver_with_more_rows_than_steps_between_products():
    F, y, _, _, _ = draw(0, 60, 3)
    length = np.linalg.norm(F, axis=1)
    # Prices so low that the weights determine the direction, which this solver needs.
    problem = {"caps": 0.9 * 3 / (60 * 0.5 * length), "pi": 1.0 / length, "r": 0.9}
    wanted = solve_ellipsoidal_svm(F, y, **problem)
    found = solve_ellipsoidal_svm(F, y, **problem, solver="smo", options=EsvmOptions(smo_refresh=7))
    assert found.status == "converged"
    assert found.objective == pytest.approx(wanted.objective, abs=1e-5)


def test_symmetric_features_are_dual_to_those_of_vectors():
    rng = np.random.default_rng(0)
    S, Z = rng.normal(size=(4, 4)), rng.normal(size=(4, 7))
    S += S.T
    features = symmetric_features(S)
    np.testing.assert_allclose(
        features @ quadratic_features(Z), np.einsum("ij,ik,kj->j", Z, S, Z), atol=1e-12
    )
    np.testing.assert_allclose(symmetric_matrix(features, 4), S, atol=1e-12)


def hessian(zone, count, Z, extra, weights, seed=0):
    rng = np.random.default_rng(seed)
    vectors = lambda places: (Z[:, places], extra[:, places])  # noqa: E731
    return sampled_hessian(Zone(zone, weights, vectors, 1.0, np.zeros((0, 0))), count, rng)


def test_hessian_of_few_rows_is_exact():
    rng = np.random.default_rng(1)
    Z, extra, weights = rng.normal(size=(2, 1200)), rng.normal(size=(3, 1200)), rng.random(1200)
    zone = np.arange(0, 1200, 2)
    U = np.vstack([quadratic_features(Z), extra])[:, zone]
    np.testing.assert_allclose(
        hessian(zone, 600, Z, extra, weights), (U * weights[zone]) @ U.T, rtol=1e-10
    )
    assert not hessian(zone[:0], 600, Z, extra, weights).any()


def test_hessian_of_a_sample_has_the_right_mean():
    rng = np.random.default_rng(2)
    Z, extra, weights = rng.normal(size=(2, 300)), rng.normal(size=(1, 300)), rng.random(300)
    zone = np.arange(300)
    exact = hessian(zone, 300, Z, extra, weights)
    samples = [hessian(zone, 100, Z, extra, weights, seed) for seed in range(200)]
    assert np.abs(np.mean(samples, axis=0) - exact).max() < 0.05 * np.abs(exact).max()
