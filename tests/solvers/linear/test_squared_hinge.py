"""The squared hinge problem against an interior point method."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from oblong.solvers.linear.squared_hinge import solve_squared_hinge


def problem(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    return X, y, rng.uniform(0.1, 3.0, n)


@pytest.mark.parametrize(("n", "d"), [(50, 3), (20, 40), (1, 2)])
@pytest.mark.parametrize("C", [0.01, 1.0, 1000.0])
def test_minimum(n, d, C):
    X, y, weights = problem(n, d)
    found = solve_squared_hinge(X, y, C * weights, tol=1e-9)
    w = cp.Variable(d)
    loss = cp.pos(1.0 - cp.multiply(y, X @ w))
    objective = cp.sum_squares(w) / 2 + (C * weights) @ cp.square(loss)
    reference = cp.Problem(cp.Minimize(objective))
    reference.solve(cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert found.status == "converged"
    assert found.objective == pytest.approx(reference.value, rel=1e-8)
    np.testing.assert_allclose(found.coef, w.value, atol=1e-5)


@pytest.mark.parametrize("d", [10, 1200])
def test_the_gap_bounds_the_error(d):
    X, y, C = problem(100, d)
    exact = solve_squared_hinge(X, y, C, tol=1e-10)
    for tol in (1e-1, 1e-3, 1e-6):
        found = solve_squared_hinge(X, y, C, tol=tol)
        assert found.relative_gap <= tol**2
        assert found.objective - exact.objective <= found.gap * (1.0 + 1e-9)
        distance = float(np.sum((found.coef - exact.coef) ** 2))
        assert distance <= 2.0 * found.gap * (1.0 + 1e-6) + 1e-18


def test_sparse_rows():
    X, y, C = problem(60, 8)
    X[np.abs(X) < 0.7] = 0.0
    dense = solve_squared_hinge(X, y, C, tol=1e-8)
    sparse = solve_squared_hinge(sp.csr_array(X), y, C, tol=1e-8)
    np.testing.assert_allclose(sparse.coef, dense.coef, atol=1e-10)


def test_a_limit_of_steps():
    X, y, C = problem(200, 5)
    found = solve_squared_hinge(X, y, C, tol=1e-8, max_iter=1)
    assert (found.status, found.n_iter) == ("max_iter", 1)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("offset", [1e4, 1e8])
def test_rows_far_from_the_origin(offset, container):
    """Products of the rows have no digits left, and the gap says what rounding makes of it."""
    X, y, C = problem(40, 4)
    X = X + offset
    found = solve_squared_hinge(container(X), y, C)
    exact, w = X.astype(np.longdouble), found.coef.astype(np.longdouble)
    loss = np.maximum(1.0 - y * (exact @ w), 0.0)
    gradient = w - exact.T @ (2.0 * C * loss * y)
    assert found.gap >= 0.5 * gradient @ gradient
    assert found.objective == pytest.approx(39.2468, abs=2e-4)
    assert found.status == ("converged" if offset == 1e4 else "stalled")


def test_rows_whose_squares_overflow():
    X, y, C = problem(40, 4)
    with pytest.raises(ValueError, match="scale the data"):
        solve_squared_hinge(1e160 * X, y, C)
