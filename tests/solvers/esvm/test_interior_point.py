"""The interior point method: hard margins with a kernel, its forms and its last digits."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.solvers.esvm.options import EsvmOptions
from oblong.solvers.esvm.solve import solve_ellipsoidal_svm
from tests.solvers.esvm.problems import NO_MODELS, TOL, coordinates, drawn, hard, rows_of, soft


def certified_hard(F, y, **given):
    """Solve in the kernel form, and certify by dense matrices."""
    problem = hard(F)
    found = solve_ellipsoidal_svm(F, y, **problem, **given, solver="ipm")
    assert found.status == "converged"
    r, p = problem["r"], F.shape[1]
    M = (1.0 - r) * np.eye(p) + F.T @ ((found.alpha * problem["pi"])[:, None] * F)
    dual = r * np.linalg.slogdet(M)[1] + r * p * (1.0 - np.log(r))
    dual -= np.linalg.norm((found.alpha * y) @ F)
    B = r * np.linalg.inv(M)
    q = problem["pi"] * np.einsum("ij,jk,ik->i", F, B, F)
    shrink = min(1.0, float(np.min(y * (F @ found.w + found.b) / q)))
    assert shrink > 0.0
    primal = -r * (np.linalg.slogdet(B)[1] + p * np.log(shrink)) + (1 - r) * shrink * np.trace(B)
    assert -1e-9 <= (primal - dual) / (r * p) <= 2.0 * TOL
    assert np.linalg.norm(found.w) <= 1.0 + 1e-12
    assert np.all(found.alpha >= 0.0)
    return found


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_hard_margins(noise, intercept):
    X, y = rows_of(11, 150, noise=noise)
    F = coordinates(X, width=2.0)
    found = certified_hard(F, y, fit_intercept=intercept, options=NO_MODELS)
    assert found.n_iter <= 40
    if intercept:
        assert abs(y @ found.alpha) <= 1e-9 * found.alpha.sum()


@pytest.mark.parametrize("distance", [1e-6, 1e-4, 1e-2])
def test_hard_margins_with_rows_that_nearly_repeat_each_other(distance):
    X, y = rows_of(12, 80, noise=0.2)
    rng = np.random.default_rng(2)
    X = np.vstack([X, X[:40] + distance * rng.normal(size=(40, X.shape[1]))])
    certified_hard(coordinates(X, width=2.0), np.concatenate([y, y[:40]]))


def test_hard_margin_where_the_kernel_form_has_no_digits_left():
    # The rounding of a kernel matrix this smooth is larger than the tolerance.
    X, y = rows_of(0, 500, d=8, noise=0.0)
    found = certified_hard(coordinates(X), y, options=NO_MODELS)
    assert found.n_iter <= 40


@pytest.mark.large
def test_hard_margins_that_do_not_exist():
    X, y = rows_of(13, 120)
    F = coordinates(np.vstack([X, X[:1]]))
    found = solve_ellipsoidal_svm(F, np.append(y, -y[0]), **hard(F), solver="ipm")
    assert found.status == "inseparable"


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_copies_of_rows_with_the_other_label(seed):
    # Their weights grow without bound, and leave the others nothing to say in the moments.
    X, y = rows_of(seed, 60)
    X[52:], y[:] = X[:8], -1.0
    y[:5] = 1.0
    F = coordinates(X, 20.0)
    found = solve_ellipsoidal_svm(F, y, **hard(F, 1 - 1e-9), solver="ipm", tol=1e-3)
    assert found.status == "inseparable"
    assert np.isfinite(found.dual_objective)


@pytest.mark.parametrize("n", [30, 120])
def test_small_caps_take_no_more_steps(n):
    X, y = rows_of(0, n)
    F = coordinates(X, 3.0)
    problem = soft(F, r=1 - 1e-9, nu=30.0)
    problem["caps"] *= 10.0 ** np.random.default_rng(0).uniform(-3.0, 0.0, n)
    found = solve_ellipsoidal_svm(F, y, **problem, solver="ipm", options=NO_MODELS)
    assert found.status == "converged"
    assert found.n_iter <= 20


def test_weights_of_very_different_sizes_do_not_exhaust_patience():
    X, y = rows_of(0, 110)
    F = coordinates(X, 20.0)
    problem = soft(F, nu=0.0023)
    problem["caps"] *= 10.0 ** np.random.default_rng(0).uniform(-3.0, 3.0, len(y))
    found = solve_ellipsoidal_svm(F, y, **problem, solver="ipm")
    assert found.status == "converged"
    # The gap rises for a while on the way to the central path; to start afresh takes hundreds.
    assert found.n_iter <= 50


def test_polish_goes_on_to_the_last_digits():
    F, y, caps, pi, _ = drawn(1, 80, 4)
    rough = solve_ellipsoidal_svm(F, y, caps=caps, pi=pi, r=0.9, tol=1e-4)
    fine = solve_ellipsoidal_svm(F, y, caps=caps, pi=pi, r=0.9, tol=1e-4, polish=True)
    assert rough.status == fine.status == "converged"
    assert fine.gap <= 1e-10 < rough.gap


@pytest.mark.parametrize("r", [0.9, 1 - 1e-6])
@pytest.mark.parametrize("margin", ["soft", "hard"])
def test_kernel_form_is_the_explicit_form(r, margin):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(120, 3))
    y = np.where(rows[:, 0] + 0.3 * rng.normal(size=120) > 0, 1.0, -1.0)
    squares = ((rows[:, None] - rows) ** 2).sum(axis=2)
    F = np.linalg.cholesky(np.exp(-squares) + 1e-10 * np.eye(120))
    pi = rng.uniform(0.5, 2.0, 120)
    caps = np.full(120, 2.0 if margin == "soft" else np.inf)
    first = solve_ellipsoidal_svm(F, y, caps=caps, pi=pi, r=r, tol=1e-8, solver="ipm")
    explicit = EsvmOptions(kernel_from=10**9)
    second = solve_ellipsoidal_svm(
        F, y, caps=caps, pi=pi, r=r, tol=1e-8, solver="ipm", options=explicit
    )
    assert first.status == second.status == "converged"
    assert first.objective == pytest.approx(second.objective, rel=1e-7)
    assert np.allclose(first.w, second.w, atol=1e-4)
