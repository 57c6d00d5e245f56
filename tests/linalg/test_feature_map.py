"""Coordinates whose inner products are those of a kernel."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from oblong.kernels import Kernel
from oblong.linalg.feature_map import (
    LinearMap,
    PivotMap,
    combination,
    feature_map,
    numerical_rank,
    row_norms,
)

KERNELS = [
    Kernel("linear"),
    Kernel("rbf", 0.4),
    Kernel("poly", 0.5, 2, 1.0),
    Kernel(lambda A, B: np.exp(-0.1 * np.abs(A[:, None] - B[None]).sum(axis=-1))),
]


def rows(n=20, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize("kernel", KERNELS, ids=["linear", "rbf", "poly", "called"])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("d", [3, 30])
def test_products_are_those_of_the_kernel(kernel, normalize, constant, d):
    X, new = rows(d=d), rows(7, d=d, seed=1)
    K = (
        kernel(np.vstack([X, new]))
        if not callable(kernel.name)
        else kernel.name(np.vstack([X, new]), np.vstack([X, new]))
    )
    if normalize:
        lengths = np.sqrt(K.diagonal())
        K = K / lengths / lengths[:, None]
    K = K + float(constant)
    found, F = feature_map(kernel, X, normalize=normalize, constant=constant)
    np.testing.assert_allclose(F @ F.T, K[:20, :20], atol=1e-9 * K.max())
    np.testing.assert_allclose(found.transform(X) @ F.T, K[:20, :20], atol=1e-6 * K.max())
    np.testing.assert_allclose(found.transform(new) @ F.T, K[20:, :20], atol=1e-6 * K.max())
    np.testing.assert_allclose(found.products(new, X), K[20:, :20], atol=1e-9 * K.max())
    np.testing.assert_allclose(found.squared_norms(new), K.diagonal()[20:], atol=1e-9 * K.max())
    # No row is longer than it is.
    inside = (found.transform(new) ** 2).sum(axis=1)
    assert (inside <= found.squared_norms(new) * (1 + 1e-6)).all()
    if isinstance(found, PivotMap):
        w = np.random.default_rng(2).normal(size=F.shape[1])
        outputs = found.pivot_products(new) @ found.coefficients(w)
        np.testing.assert_allclose(outputs, found.transform(new) @ w, atol=1e-6)


def test_no_copy_where_none_is_needed():
    X = rows(30).astype(np.float32)
    found, F = feature_map(Kernel("linear"), X)
    assert F is X
    assert found.complete
    # Single precision stays single precision, unless rows are divided: rounding would move them.
    assert feature_map(Kernel("linear"), X, constant=True)[1].dtype == np.float32
    unit = feature_map(Kernel("linear"), X, normalize=True)[1]
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1.0, rtol=1e-15)


@pytest.mark.parametrize("normalize", [False, True])
def test_sparse_rows(normalize):
    X = rows(12, 30)
    X[np.abs(X) < 1] = 0.0
    dense, F = feature_map(Kernel("linear"), X, normalize=normalize, constant=True)
    sparse, G = feature_map(Kernel("linear"), sp.csr_matrix(X), normalize=normalize, constant=True)
    assert isinstance(dense, LinearMap)
    assert isinstance(sparse, PivotMap)
    np.testing.assert_allclose(F @ F.T, G @ G.T, atol=1e-9)
    one, other = dense.basis(31), sparse.basis(31)
    np.testing.assert_allclose(one @ one.T, other @ other.T, atol=1e-8)
    np.testing.assert_allclose(other.T @ other, np.eye(12), atol=1e-8)


@pytest.mark.parametrize("sparse", [False, True])
def test_pivots_see_neither_order_nor_copies(sparse):
    X = rows(40)
    X[np.abs(X) < 0.2] = 0.0
    rng = np.random.default_rng(1)
    mixed = np.repeat(X, rng.integers(1, 4, size=40), axis=0)
    mixed = mixed[rng.permutation(len(mixed))]
    if sparse:
        X, mixed = sp.csr_matrix(X), sp.csr_matrix(mixed)
    maps = [feature_map(Kernel("rbf", 1.0), each, rank=7)[0] for each in (X, mixed)]
    one, other = (each.transform(X) for each in maps)
    assert one.shape == (40, 7)
    np.testing.assert_allclose(one @ one.T, other @ other.T, atol=1e-9)
    picked = (X[maps[0].pivots], mixed[maps[1].pivots])
    if sparse:
        picked = tuple(each.toarray() for each in picked)
    np.testing.assert_array_equal(*(each[np.lexsort(each.T)] for each in picked))


def test_precomputed():
    X = rows(15)
    K = Kernel("rbf", 0.5)(X)
    found, F = feature_map(Kernel("precomputed"), K)
    np.testing.assert_allclose(F @ F.T, K, atol=1e-9)
    np.testing.assert_allclose(found.transform(K), F, atol=1e-5)


def test_numerical_rank():
    X = rows(50)
    assert numerical_rank(X) == 3
    assert numerical_rank(X * [1e-9, 1.0, 1e9]) == 3
    assert numerical_rank(np.column_stack([X, X @ [1.0, 2.0, -1.0], np.zeros(50)])) == 3
    flat = np.column_stack([X, X @ [1.0, 2.0, -1.0]]).astype(np.float32)
    assert numerical_rank(flat) == 3
    assert numerical_rank(np.zeros((5, 2))) == 1


def test_row_norms():
    X = rows(10)
    np.testing.assert_allclose(row_norms(X), np.linalg.norm(X, axis=1))
    np.testing.assert_allclose(row_norms(sp.csr_matrix(X)), np.linalg.norm(X, axis=1))
    # The square of a large number in single precision is too large for it.
    np.testing.assert_allclose(row_norms(np.full((2, 1), 1e30, dtype=np.float32)), 1e30, rtol=1e-6)


def test_combination():
    X = rows(300_000, 1).astype(np.float32)
    a = np.random.default_rng(1).normal(size=300_000)
    np.testing.assert_allclose(combination(a, X), a @ X.astype(float), rtol=1e-9)
