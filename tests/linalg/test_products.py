"""Products of kernel matrices with vectors, tile by tile."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import pairwise_kernels

from oblong.kernels import Kernel
from oblong.linalg.products import add_both_products, add_product


def _times(kernel, X, Z, coef, dtype=np.float64, threads=1, start=1.0):
    shift = kernel.centre(Z)
    A, B = kernel.prepare(X, dtype, shift), kernel.prepare(Z, dtype, shift)
    out = np.full((len(X) if isinstance(X, np.ndarray) else X.shape[0], *coef.shape[1:]), start)
    add_product(kernel, A, B, coef, out, threads)
    return out - start


@pytest.mark.parametrize("name", ["rbf", "poly", "sigmoid"])
@pytest.mark.parametrize("sizes", [(1, 1), (1, 3000), (255, 513), (600, 511), (257, 0)])
@pytest.mark.parametrize("outputs", [None, 3])
def test_against_scikit_learn(name, sizes, outputs):
    rng = np.random.default_rng(0)
    X, Z = (rng.normal(3.0, 1.0, (size, 5)) for size in sizes)
    if not len(Z):
        kernel = Kernel(name)
        out = np.ones(len(X))
        rows = kernel.prepare(X, np.float64)
        add_product(kernel, rows, rows.take(slice(0, 0)), np.empty(0), out)
        np.testing.assert_array_equal(out, 1.0)
        return
    coef = rng.normal(size=len(Z) if outputs is None else (len(Z), outputs))
    kernel = Kernel(name, 0.1, 3, 0.5)
    own = {"gamma": 0.1} | ({} if name == "rbf" else {"coef0": 0.5})
    exact = pairwise_kernels(X, Z, name, **own) @ coef
    size = np.abs(exact).max() + 1.0
    for threads in (1, 3):
        found = _times(kernel, X, Z, coef, threads=threads)
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-12 * size * len(Z) ** 0.5)
    single = _times(kernel, X, Z, coef, np.float32)
    np.testing.assert_allclose(single, exact, rtol=0, atol=2e-5 * size * len(Z) ** 0.5)


@pytest.mark.parametrize("case", ["sparse", "callable", "coarse"])
def test_without_tiles(case):
    rng = np.random.default_rng(1)
    X, Z = rng.random((300, 4)), rng.random((200, 4))
    coef = rng.normal(size=200)
    name = (lambda A, B: A @ B.T) if case == "callable" else "rbf"
    if case == "coarse":
        # Near rows far from all others: only differences have digits.
        X[:150] *= 1e-3
        X[150:] += 1e7
        Z = X[100:].copy()
    exact = pairwise_kernels(X, Z, "linear") if callable(name) else pairwise_kernels(X, Z, "rbf")
    if case == "coarse":
        exact = np.exp(-0.25 * ((X[:, None] - Z) ** 2).sum(axis=2))
    if case == "sparse":
        X, Z = sp.csr_matrix(X), sp.csr_matrix(Z)
    found = _times(Kernel(name, 0.25), X, Z, coef, threads=2)
    np.testing.assert_allclose(
        found, exact @ coef, rtol=0, atol=1e-7 if case == "coarse" else 1e-11
    )


@pytest.mark.parametrize("name", ["rbf", "poly", "sigmoid"])
@pytest.mark.parametrize("threads", [1, 3])
def test_both_directions(name, threads):
    rng = np.random.default_rng(2)
    kernel = Kernel(name, 0.1, 2, 0.5)
    A, B = (kernel.prepare(rng.normal(size=(n, 4)), np.float64) for n in (700, 300))
    a, b = rng.normal(size=700), rng.normal(size=300)
    out = np.zeros(700), np.ones(300)
    add_both_products(kernel, A, B, (a, b), out, threads)
    K = kernel.block(A, B)
    np.testing.assert_allclose(out[0], K @ b, rtol=0, atol=1e-10)
    np.testing.assert_allclose(out[1], 1.0 + a @ K, rtol=0, atol=1e-10)
    own = np.zeros(700)
    add_both_products(kernel, A, A, (a, a), (own, own), threads)
    np.testing.assert_allclose(own, kernel.block(A, A) @ a, rtol=0, atol=1e-10)
