"""The partial Cholesky factor with pivots."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.linalg.low_rank import pivoted_cholesky
from tests.reference.margin import kernel_matrix


def rbf(n: int = 200, d: int = 3, seed: int = 0) -> np.ndarray:
    X = np.random.default_rng(seed).normal(size=(n, d))
    return kernel_matrix(X, X, "rbf")


@pytest.mark.parametrize("rank", [1, 5, 64, 100])
def test_the_columns_of_the_pivots_are_exact(rank):
    K = rbf()
    low = pivoted_cholesky(K.__getitem__, K.diagonal(), rank)
    assert len(set(low.pivots)) == low.pivots.size == rank
    approximation = low.features @ low.features.T
    np.testing.assert_allclose(approximation[:, low.pivots], K[:, low.pivots], atol=1e-8)
    left = K - approximation
    assert np.linalg.eigvalsh(left)[0] > -1e-9
    assert low.residual == pytest.approx(np.trace(left) / np.trace(K), abs=1e-12)


def test_new_rows_by_the_pivots():
    X = np.random.default_rng(0).normal(size=(80, 3))
    K = kernel_matrix(X, X, "rbf")
    low = pivoted_cholesky(K.__getitem__, K.diagonal(), 20)
    w = np.random.default_rng(1).normal(size=20)
    g = low.coefficients(w)
    np.testing.assert_allclose(K[:, low.pivots] @ g, low.features @ w, atol=1e-8)


def greedy_residual(K: np.ndarray, rank: int) -> float:
    """Trace left by the textbook method, one pivot at a time."""
    rest = K.copy()
    for _ in range(rank):
        pivot = np.argmax(rest.diagonal())
        rest = rest - np.outer(rest[:, pivot], rest[:, pivot]) / rest[pivot, pivot]
    return np.trace(rest) / np.trace(K)


@pytest.mark.parametrize("rank", [10, 30, 100])
def test_blocks_choose_pivots_about_as_well_as_single_steps(rank):
    K = rbf(300, 2)
    low = pivoted_cholesky(K.__getitem__, K.diagonal(), rank)
    best = np.sort(np.linalg.eigvalsh(K))[:-rank].sum() / np.trace(K)
    assert best - 1e-12 <= low.residual <= 1.5 * greedy_residual(K, rank)


def test_it_stops_at_the_rank_of_the_matrix():
    X = np.random.default_rng(0).normal(size=(150, 4))
    X = np.concatenate([X, X])
    K = X @ X.T
    low = pivoted_cholesky(K.__getitem__, K.diagonal(), 100)
    assert low.pivots.size == 4
    np.testing.assert_allclose(low.features @ low.features.T, K, atol=1e-10)


def test_precision_is_that_of_the_columns():
    K = rbf().astype(np.float32)
    low = pivoted_cholesky(K.__getitem__, K.diagonal(), 30, tolerance=1e-5)
    assert low.features.dtype == np.float32
    np.testing.assert_allclose(
        (low.features @ low.features.T)[:, low.pivots], K[:, low.pivots], atol=1e-3
    )


@pytest.mark.parametrize(
    ("K", "why"), [(np.zeros((5, 5)), "all rows are the same"), (-np.eye(5), "not positive")]
)
def test_nothing_to_factor(K, why):
    with pytest.raises(ValueError, match=why):
        pivoted_cholesky(K.__getitem__, K.diagonal(), 3)


def test_not_finite():
    with pytest.raises(ValueError, match="not finite"):
        pivoted_cholesky(np.eye(3).__getitem__, np.array([1.0, np.inf, 1.0]), 2)
    K = np.eye(3)
    K[0, 1] = K[1, 0] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        pivoted_cholesky(K.__getitem__, K.diagonal(), 3)
