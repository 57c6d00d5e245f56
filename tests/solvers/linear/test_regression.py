"""Linear regression by the interior point method: against a conic solver, and the kernel solver."""

from __future__ import annotations

from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import QuantileRegressor
from sklearn.svm import LinearSVR

from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.linear.regression import solve_linear_regression, suits_linear_regression
from oblong.solvers.margin.regression import solve_regression

LOSSES = [
    {"epsilon": 0.0},
    {"epsilon": 0.3},
    {"quantile": 0.1},
    {"quantile": 0.75},
    {"quantile": 0.5, "bounds": (4.0, 6.5)},
]


def problem(n=120, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 2.0
    y = X @ rng.normal(size=d) + rng.standard_t(3, size=n)
    return X, np.clip(5.0 + 0.4 * (y - y.mean()), 4.0, 6.5), rng.uniform(0.2, 2.0, n)


def losses(y, f, C, *, epsilon=None, quantile=None, bounds=None):
    """The sum of losses as a formula, for CVXPY."""
    if epsilon is not None:
        return C @ cp.pos(cp.abs(f - y) - epsilon)
    return C @ (quantile * cp.pos(y - f) + (1.0 - quantile) * cp.pos(f - y))


@pytest.mark.parametrize(
    ("loss", "intercept"),
    [(loss, True) for loss in LOSSES] + [(loss, False) for loss in LOSSES[:4]],
)
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_against_a_conic_solver(loss, C, intercept):
    X, y, weights = problem()
    bounds = loss.get("bounds")
    C = C * weights
    w, b = cp.Variable(X.shape[1]), cp.Variable() if intercept else 0.0
    f = X @ w + b
    limits = [] if bounds is None else [f >= bounds[0], f <= bounds[1]]
    task = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + losses(y, f, C, **loss)), limits)
    task.solve(solver=cp.CLARABEL, tol_gap_rel=1e-11, tol_gap_abs=1e-11, tol_feas=1e-11)
    found = solve_linear_regression(X, y, C, **loss, intercept=intercept)
    assert found.status == "converged"
    assert found.objective == pytest.approx(task.value, rel=1e-8)
    assert found.relative_gap <= 1e-9
    np.testing.assert_allclose(found.coef, w.value, rtol=0, atol=1e-5)
    outputs = X @ found.coef + found.bias
    if bounds is not None:
        assert bounds[0] - 1e-12 <= outputs.min() <= outputs.max() <= bounds[1] + 1e-12


@pytest.mark.parametrize("loss", LOSSES[:4])
def test_the_dual_point_is_exact(loss):
    """In exact arithmetic: the coefficients are feasible and their value bounds the objective."""
    X, y, C = problem(60, 3)
    found = solve_linear_regression(X, y, C, **loss)
    c = [Fraction(value) for value in found.dual_coef]
    up, over = C, C
    if "quantile" in loss:
        up, over = loss["quantile"] * C, (1.0 - loss["quantile"]) * C
    assert all(-Fraction(q) <= v <= Fraction(p) for v, p, q in zip(c, up, over))
    assert abs(sum(c)) < 1e-13
    direction = [sum(v * Fraction(x) for v, x in zip(c, column)) for column in X.T]
    epsilon = Fraction(loss.get("epsilon", 0.0))
    center = Fraction(float(np.median(y)))
    value = sum(v * (Fraction(t) - center) - epsilon * abs(v) for v, t in zip(c, y))
    value -= sum(x * x for x in direction) / 2
    assert float(value) == pytest.approx(found.dual_objective, rel=1e-12)
    assert found.objective * (1.0 - found.relative_gap) <= float(value) <= found.objective
    np.testing.assert_allclose([float(x) for x in direction], found.coef, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES[1::3])
def test_equals_the_kernel_solver_on_many_rows(loss):
    X, y, C = problem(1200, 6)
    X[X < 1.0] = 0.0
    kernel = solve_regression(KernelMatrix(X @ X.T), y, C, **loss, tol=1e-8)
    for rows in (X, sp.csr_array(X)):
        found = solve_linear_regression(rows, y, C, **loss)
        assert suits_linear_regression(rows)
        assert found.objective == pytest.approx(kernel.margin.objective, rel=1e-7)
        np.testing.assert_allclose(X @ found.coef + found.bias, kernel.outputs, atol=1e-4)


def test_rows_inside_the_tube_have_no_coefficient():
    X, y, C = problem(2000, 5)
    found = solve_linear_regression(X, y, C, epsilon=0.3)
    error = np.abs(y - X @ found.coef - found.bias)
    np.testing.assert_array_equal(found.dual_coef[error < 0.3 - 1e-6], 0.0)
    outside = error > 0.3 + 1e-6
    np.testing.assert_allclose(np.abs(found.dual_coef[outside]), C[outside], rtol=1e-14)


def test_equals_linear_svr():
    """Whose bias has a penalty: here it is the weight of a column of ones, without an intercept."""
    X, y, _ = problem(400)
    with_ones = np.c_[X, np.ones(len(X))]
    found = solve_linear_regression(with_ones, y, np.ones(400), epsilon=0.1, intercept=False)
    peer = LinearSVR(epsilon=0.1, tol=1e-10, max_iter=10**6, random_state=0).fit(X, y)
    np.testing.assert_allclose(found.coef, [*peer.coef_, peer.intercept_[0]], atol=1e-5)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_equals_the_linear_program_of_scikit_learn(quantile):
    """Without a penalty of the weights, which a large one of the errors amounts to."""
    X, y, _ = problem(400)
    found = solve_linear_regression(X, y, np.full(400, 1e6), quantile=quantile)
    peer = QuantileRegressor(quantile=quantile, alpha=0.0).fit(X, y)
    np.testing.assert_allclose(X @ found.coef + found.bias, peer.predict(X), atol=1e-6)


@pytest.mark.parametrize("shift", [1e6, -1e9])
def test_targets_and_rows_far_from_zero(shift):
    X, y, C = problem()
    near = solve_linear_regression(X, y, C, epsilon=0.1)
    far = solve_linear_regression(X, y + shift, C, epsilon=0.1, tol=1e-3)
    assert far.status == "converged"
    assert near.rounding < far.rounding
    assert far.objective == pytest.approx(near.objective, rel=1e-5)
    moved = solve_linear_regression(X + shift, y, C, epsilon=0.1, tol=1e-2)
    assert moved.objective * (1.0 - moved.relative_gap) <= near.objective <= 1.01 * moved.objective


def test_constant_targets_and_a_limit_of_steps():
    X, y, C = problem()
    constant = solve_linear_regression(X, np.full(120, 7.25), C, quantile=0.2)
    assert constant.status == "converged"
    assert constant.bias == 7.25
    assert not constant.coef.any()
    assert not constant.dual_coef.any()
    wide = solve_linear_regression(X, y, C, epsilon=10.0)
    assert wide.objective == 0.0
    short = solve_linear_regression(X, y, C, epsilon=0.1, max_iter=2)
    assert short.status == "max_iter"
    assert short.relative_gap > 1e-6
    with pytest.raises(ValueError, match="epsilon or quantile"):
        solve_linear_regression(X, y, C)
