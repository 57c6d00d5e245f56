"""The interior point method for problems with one log-determinant."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from oblong.solvers.logdet.interior_point import solve_log_det
from oblong.solvers.logdet.options import LogDetOptions

X = np.array(
    [(2, 1), (1, 2), (1.5, 0.2), (-0.2, 0.4), (-1, -1), (-2, 0.5), (0.5, -1.5), (0.3, 0.6)]
)
Y = np.array([1.0, 1, 1, 1, -1, -1, -1, -1])


def rows(n, p, seed=0):
    return np.random.default_rng(seed).normal(size=(n, p))


def reference(F, *, r=1.0, M0=None, caps=None, y=None, o=0.0, total=None, direction=False):
    """The primal problem, by a general convex solver."""
    n, p = F.shape
    B, xi, w, b = cp.Variable((p, p), PSD=True), cp.Variable(n, nonneg=True), cp.Variable(p), 0.0
    y = np.ones(n) if y is None else y
    side = o * np.ones(n)
    if total is not None:
        b = cp.Variable()
        side = side + b * y
    constraints = [cp.norm(w) <= 1]
    if direction:
        side = side + cp.multiply(y, F @ w)
    if caps is None:
        constraints.append(xi == 0)
    quadratic = cp.sum(cp.multiply(F @ B, F), axis=1)
    constraints.append(quadratic <= side + xi)
    objective = -r * cp.log_det(B)
    if M0 is not None:
        objective += cp.trace(M0 @ B)
    if total is not None:
        objective += total * b
    if caps is not None:
        objective += caps @ xi
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver=cp.CLARABEL)
    return problem.value, w.value


@pytest.mark.parametrize("n", [6, 30, 80])
@pytest.mark.parametrize("cap", [None, 0.3])
@pytest.mark.parametrize("parts", ["threshold", "offset", "everything"])
def test_agrees_with_a_general_solver(n, cap, parts):
    p = 3
    F = rows(n, p, seed=n)
    caps = None if cap is None else np.full(n, cap)
    start = np.full(n, 1.0 / n)
    if parts == "threshold":
        arguments = {"total": 1.0}
    elif parts == "offset":
        arguments = {"offset": 1.0}
    else:
        y = np.where(np.arange(n) % 2, 1.0, -1.0)
        F = F + 3.0 * y[:, None]
        arguments = {"r": 0.9, "M0": 0.1 * np.eye(p), "signs": y, "total": 0.0, "direction": True}
        start = np.minimum(start, 0.1)
    result = solve_log_det(F, start, caps=caps, **arguments)
    names = {"signs": "y", "offset": "o"}
    value, w = reference(F, caps=caps, **{names.get(k, k): v for k, v in arguments.items()})
    assert result.status == "converged"
    assert 0 <= result.gap <= 1e-9
    # The dual value bounds the reference from below, and the reference is a few digits good.
    assert result.objective <= value + 1e-5
    assert result.objective == pytest.approx(value, abs=2e-5)
    if parts == "everything":
        assert np.allclose(result.w, w, atol=2e-3)


def test_ellipsoidal_machine_with_a_direction_inside_the_ball():
    length = np.linalg.norm(X, axis=1)
    caps = 2.0 / length**2
    start = np.minimum(0.05, caps / 2)
    result = solve_log_det(
        X, start, r=0.9, M0=0.1 * np.eye(2), caps=caps, signs=Y, total=0.0, direction=True
    )
    assert result.objective == pytest.approx(4.6990279002, abs=1e-8)
    assert np.allclose(result.w, [0.25159552, 0.42827638], atol=1e-6)
    assert result.b == pytest.approx(-0.07422582, abs=1e-6)
    B = 0.9 * result.factor.T @ result.factor
    assert np.allclose(B, [[0.17319142, -0.01690228], [-0.01690228, 0.23208504]], atol=1e-6)


def test_ellipsoidal_machine_with_a_direction_on_the_sphere():
    caps = 2 * 0.99 / (8 * 0.2 * np.linalg.norm(X, axis=1))
    start = np.minimum(0.05, caps / 2)
    result = solve_log_det(
        X, start, r=0.99, M0=0.01 * np.eye(2), caps=caps, signs=Y, total=0.0, direction=True
    )
    assert result.objective == pytest.approx(3.576101837, abs=1e-8)
    assert np.allclose(result.w, [0.64006311, 0.76832234], atol=1e-6)
    expected = [0, 0.19725875, 0, 2.4620991, 0, 0.60027567, 0.2143261, 1.84475608]
    assert np.allclose(result.alpha, expected, atol=1e-5)


def test_scale_multiplies_the_squares():
    F, scale = rows(20, 3), np.random.default_rng(1).uniform(0.5, 2.0, 20)
    start = np.full(20, 0.05)
    scaled = solve_log_det(F, start, scale=scale, total=1.0)
    stretched = solve_log_det(F * np.sqrt(scale)[:, None], start, total=1.0)
    assert scaled.objective == pytest.approx(stretched.objective, abs=1e-8)


@pytest.mark.parametrize("cap", [None, 0.05])
def test_both_ways_to_solve_the_newton_system_agree(cap):
    F = np.column_stack([rows(60, 4), np.ones(60)])
    caps = None if cap is None else np.full(60, cap)
    results = [
        solve_log_det(
            F, np.full(60, 1 / 60), caps=caps, total=1.0, options=LogDetOptions(dual_rows=dual_rows)
        )
        for dual_rows in (np.inf, 0.0)
    ]
    first, second = results
    assert first.status == second.status == "converged"
    assert first.objective == pytest.approx(second.objective, abs=1e-8)
    assert np.allclose(first.q, second.q, rtol=1e-3)


def test_held_rows_move_into_the_constants():
    F = np.column_stack([rows(40, 2), np.ones(40)])
    caps = np.full(40, 0.06)
    whole = solve_log_det(F, np.full(40, 1 / 40), caps=caps, total=1.0, tol=1e-11)
    high, low = whole.alpha > 0.0599, whole.alpha < 1e-4
    free = ~(high | low)
    part = solve_log_det(
        F[free],
        np.full(free.sum(), (1 - 0.06 * high.sum()) / free.sum()),
        M0=0.06 * F[high].T @ F[high],
        caps=caps[free],
        total=1 - 0.06 * high.sum(),
        tol=1e-11,
    )
    assert np.allclose(part.alpha, whole.alpha[free], atol=1e-4)


def test_limit_on_iterations():
    F = np.column_stack([rows(50, 3), np.ones(50)])
    result = solve_log_det(F, np.full(50, 0.02), total=1.0, max_iter=2)
    assert (result.status, result.n_iter) == ("max_iter", 2)
    assert result.gap > 1e-9
    best = solve_log_det(F, np.full(50, 0.02), total=1.0).objective
    assert best <= result.objective + result.gap


def test_asks_for_no_more_than_rounding_allows():
    F = np.column_stack([rows(50, 3), np.ones(50)])
    result = solve_log_det(F, np.full(50, 0.02), total=1.0, tol=0.0)
    assert result.status in ("stalled", "converged")
    assert abs(result.gap) <= 1e-11
