"""Factors and quadratic features."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import LinAlgError

from oblong.linalg.log_det import (
    inverse_factor,
    invert_triangle,
    moments,
    quadratic_features,
    symmetric_matrix,
)


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(5000, 7)) + 3.0


def test_inverse_factor():
    A = np.random.default_rng(1).normal(size=(9, 6))
    M = A.T @ A
    G, log_det = inverse_factor(M)
    assert np.allclose(G, np.tril(G))
    assert np.allclose(G.T @ G, np.linalg.inv(M))
    assert log_det == pytest.approx(np.linalg.slogdet(M)[1], rel=1e-12)


@pytest.mark.parametrize("M", [np.zeros((3, 3)), -np.eye(3), np.diag([1.0, np.nan, 1.0])])
def test_inverse_factor_needs_a_definite_matrix(M):
    with pytest.raises(LinAlgError):
        inverse_factor(M)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 64, 65, 129, 300])
@pytest.mark.parametrize("order", ["C", "F"])
def test_invert_triangle(n, dtype, order):
    rng = np.random.default_rng(n)
    above = np.triu(rng.normal(size=(n, n)), 1)
    L = np.tril(rng.normal(size=(n, n))) / n + 2.0 * np.eye(n)
    found = np.array(L + above, dtype=dtype, order=order)
    invert_triangle(found)
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(np.tril(found) @ L, np.eye(n), atol=tolerance)
    np.testing.assert_array_equal(np.triu(found, 1), above.astype(dtype))


def test_inverse_factor_reads_below_the_diagonal_only():
    A = np.random.default_rng(4).normal(size=(400, 200))
    M = np.asfortranarray(A.T @ A)
    wanted = np.linalg.inv(M)
    G, _ = inverse_factor(np.tril(M))
    np.testing.assert_allclose(G.T @ G, wanted, rtol=1e-8, atol=1e-12)
    np.testing.assert_array_equal(np.triu(G, 1), 0.0)
    kept = M.copy()
    inverse_factor(M)
    np.testing.assert_array_equal(M, kept)


@pytest.mark.parametrize("share", [None, 0.1, 1.0])
def test_moments(X, share):
    rng = np.random.default_rng(3)
    weights = None if share is None else rng.random(len(X)) * (rng.random(len(X)) < share)
    center = np.full(7, 2.0)
    first, second = moments(X, center, weights)
    w = np.ones(len(X)) if weights is None else weights
    assert np.allclose(first, w @ (X - center))
    assert np.allclose(second, (X - center).T @ ((X - center) * w[:, None]))


def test_quadratic_features():
    rng = np.random.default_rng(4)
    Z = rng.normal(size=(5, 40))
    U = quadratic_features(Z)
    assert U.shape == (15, 40)
    assert np.allclose(U.T @ U, (Z.T @ Z) ** 2)
    for features, z in zip(U.T, Z.T, strict=True):
        assert np.allclose(symmetric_matrix(features, 5), np.outer(z, z))
