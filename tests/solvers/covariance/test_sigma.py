"""The Σ-SVM: its kernel, its machine on new points, its three ways of being solved."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.linalg.low_rank import pivoted_cholesky
from oblong.solvers.covariance.sigma import (
    SigmaFactor,
    Whitening,
    solve_sigma_kernel,
    solve_sigma_linear,
    solve_sigma_low_rank,
)
from oblong.solvers.margin.problem import svm_pieces
from oblong.solvers.margin.solver import solve_margin
from tests.reference.margin import factor, kernel_matrix
from tests.reference.sigma import mean_and_covariance, sigma_svm

SHARES = (0.0, 1e-9, 1e-3, 0.1, 0.5, 0.9, 0.999)


def rows(n: int = 40, d: int = 3, seed: int = 0, offset: float = 0.0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    X = rng.normal(size=(n, d)) * np.geomspace(1, 5, d) + 0.6 * y[:, None] + offset
    return X, y, rng.integers(1, 4, size=n).astype(float)


def explicit_kernel(F, G, D, weights=None):
    """Kernel of equation (6) between rows of F and G, mean and covariance being those of F."""
    mean, covariance = mean_and_covariance(F, weights)
    metric = (1 - D) * np.eye(F.shape[1]) + D * covariance
    return (F - mean) @ np.linalg.solve(metric, (G - mean).T)


@pytest.mark.parametrize("D", SHARES)
@pytest.mark.parametrize("d", [3, 60])
@pytest.mark.parametrize("weighted", [False, True])
def test_kernel_equals_the_explicit_inverse(D, d, weighted):
    X, _, weights = rows(d=d)
    weights = weights if weighted else None
    K = X @ X.T
    expected = explicit_kernel(X, X, D, weights)
    computed = SigmaFactor.of(K, D, weights).matrix
    np.testing.assert_allclose(computed, expected, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_allclose(computed, computed.T, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("D", SHARES)
@pytest.mark.parametrize("weighted", [False, True])
def test_whitened_rows_have_the_same_kernel(D, weighted):
    X, _, weights = rows(offset=100.0)
    weights = weights if weighted else None
    Z = Whitening.of(X, D, weights).transform(X)
    np.testing.assert_allclose(Z @ Z.T, explicit_kernel(X, X, D, weights), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("D", SHARES)
@pytest.mark.parametrize("weighted", [False, True])
def test_new_points_by_the_kernel_itself(kernel, D, weighted):
    """f = Σ g k + b against w·(φ - μ) + b with explicit features of old and new points."""
    X, y, weights = rows()
    new = np.random.default_rng(9).normal(size=(25, 3)) * 3
    F = factor(kernel_matrix(np.concatenate([X, new]), np.concatenate([X, new]), kernel))
    old, F_new = F[:40], F[40:]
    weights = weights if weighted else None
    K, C = old @ old.T, np.full(40, 2.0)
    result = solve_sigma_kernel(SigmaFactor.of(K, D, weights), y, C, tol=1e-8)
    expected = explicit_kernel(old, F_new, D, weights).T @ result.margin.coef
    expected += result.margin.bias
    computed = F_new @ (old.T @ result.coef) + result.bias
    np.testing.assert_allclose(computed, expected, atol=1e-8 * max(1, np.abs(expected).max()))
    at_rows = old @ (old.T @ result.coef) + result.bias
    np.testing.assert_allclose(at_rows, result.margin.outputs, atol=1e-7)


@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("D", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [4, 30])
def test_objective_of_the_printed_problem(C, D, weighted, n):
    X, y, weights = rows(n, seed=n)
    penalties = C * weights if weighted else np.full(n, C)
    weights = weights if weighted else None
    value, w, b = sigma_svm(X, y, penalties, D, weights)
    linear = solve_sigma_linear(X, y, penalties, D, weights=weights, tol=1e-9)
    kernel = solve_sigma_kernel(SigmaFactor.of(X @ X.T, D, weights), y, penalties, tol=1e-9)
    for result in (linear, kernel):
        assert result.margin.objective == pytest.approx(value, rel=1e-6)
        assert result.margin.status == "converged"
        assert -1e-9 * value <= result.margin.gap <= 1e-6 * max(value, 1.0)
        np.testing.assert_allclose(X.T @ result.coef, w, atol=1e-4 * max(1, np.abs(w).max()))
    np.testing.assert_allclose(linear.direction, w, atol=1e-4 * max(1, np.abs(w).max()))
    # The bias may be free in an interval: what counts is that its value is as good.
    mean = mean_and_covariance(X, weights)[0]
    low, high = np.sort(linear.margin.bias_interval)
    if high - low < 1e-6:
        assert linear.bias + linear.direction @ mean == pytest.approx(b, abs=1e-3)


@pytest.mark.parametrize("D", SHARES)
def test_linear_coefficients_sum_to_the_direction(D):
    X, y, weights = rows(offset=3.0)
    result = solve_sigma_linear(X, y, weights, D, weights=weights, tol=1e-9)
    np.testing.assert_allclose(X.T @ result.coef, result.direction, rtol=1e-6, atol=1e-8)
    assert abs(result.coef.sum()) < 1e-8 * np.abs(result.coef).sum()
    outputs = X @ result.direction + result.bias
    margin = np.maximum(1 - y * outputs, 0) @ weights
    w = result.direction
    covariance = mean_and_covariance(X, weights)[1]
    objective = 0.5 * (1 - D) * w @ w + 0.5 * D * w @ covariance @ w + margin
    assert result.margin.objective == pytest.approx(objective, rel=1e-7)


def test_share_zero_is_the_support_vector_machine():
    X, y, _ = rows()
    K = kernel_matrix(X, X, "rbf")
    C = np.full(40, 5.0)
    svm = solve_margin(KernelMatrix(K), svm_pieces(y, C), tol=1e-8)
    sigma = solve_sigma_kernel(SigmaFactor.of(K, 0.0), y, C, tol=1e-8)
    assert sigma.margin.objective == pytest.approx(svm.objective, rel=1e-8)
    np.testing.assert_allclose(sigma.coef, svm.coef, atol=1e-5)
    assert np.array_equal(sigma.coef == 0, svm.coef == 0)
    np.testing.assert_allclose(K @ sigma.coef + sigma.bias, svm.outputs, atol=1e-6)


@pytest.mark.parametrize("D", [0.0, 0.5, 0.99])
def test_full_rank_is_the_kernel_problem(D):
    X, y, weights = rows()
    K = kernel_matrix(X, X, "rbf")
    low = pivoted_cholesky(K.__getitem__, K.diagonal(), 40)
    C = np.full(40, 2.0)
    exact = solve_sigma_kernel(SigmaFactor.of(K, D, weights), y, C, tol=1e-8)
    approximate = solve_sigma_low_rank(low, y, C, D, weights=weights, tol=1e-8)
    assert approximate.margin.objective == pytest.approx(exact.margin.objective, rel=1e-6)
    np.testing.assert_allclose(
        K @ approximate.coef + approximate.bias, K @ exact.coef + exact.bias, atol=1e-4
    )


def test_low_rank_solves_its_own_problem():
    X, y, _ = rows()
    K = kernel_matrix(X, X, "rbf")
    low = pivoted_cholesky(K.__getitem__, K.diagonal(), 6)
    C = np.full(40, 2.0)
    result = solve_sigma_low_rank(low, y, C, 0.7, tol=1e-8)
    approximated = SigmaFactor.of(low.features @ low.features.T, 0.7)
    expected = solve_sigma_kernel(approximated, y, C, tol=1e-8)
    assert result.margin.objective == pytest.approx(expected.margin.objective, rel=1e-7)
    assert set(np.flatnonzero(result.coef)) <= set(low.pivots)
    np.testing.assert_allclose(K @ result.coef + result.bias, expected.margin.outputs, atol=1e-5)


def test_no_kernel():
    X = rows()[0]
    with pytest.raises(ValueError, match="not positive semidefinite"):
        SigmaFactor.of(-100.0 * X @ X.T, 0.9)


def test_not_finite():
    X, y, _ = rows()
    X[0, 0] = 1e200
    with pytest.raises(ValueError, match="not finite"), np.errstate(over="ignore"):
        SigmaFactor.of(X @ X.T, 0.5)
    with pytest.raises(ValueError, match="not finite"), np.errstate(over="ignore"):
        solve_sigma_linear(X, y, np.ones(40), 0.5)
