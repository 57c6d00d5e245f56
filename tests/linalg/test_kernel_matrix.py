"""Kernel matrices by their products: the same numbers, however the values come about."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from oblong.kernels import Kernel
from oblong.linalg.kernel_matrix import KernelMatrix

N = 240
RBF = Kernel("rbf", 0.02)


def _laplace(A, B):
    return np.exp(-0.1 * np.abs(A[:, None] - B[None]).sum(axis=2))


def _rows(width=6, n=N, seed=0):
    return 2.0 + np.random.default_rng(seed).normal(size=(n, width))


def _sparse():
    X = _rows(30)
    X[np.abs(X - 2.0) < 1.0] = 0.0
    return X


def _far():
    """Near rows far from all others: only differences have digits."""
    X = _rows(3)
    X[N // 2 :] += 1e7
    return X


CASES = {
    "narrow": (RBF, _rows()),
    "wide": (RBF, _rows(70)),
    "poly": (Kernel("poly", 0.1, 3, 1.0), _rows(65)),
    "sigmoid": (Kernel("sigmoid", 0.01), _rows()),
    "linear": (Kernel("linear"), _rows()),
    "sparse": (Kernel("poly", 0.1, 2, 1.0), sp.csr_matrix(_sparse())),
    "far": (RBF, _far()),
    "callable": (Kernel(_laplace), _rows()),
}


def _expected(kernel, X):
    """The matrix in double precision; that of the linear kernel is of centred rows."""
    dense = X.toarray() if sp.issparse(X) else X
    if kernel.name == "linear":
        dense = dense - dense.mean(axis=0)
    if kernel.name == "rbf":
        return np.exp(-kernel.gamma * ((dense[:, None] - dense) ** 2).sum(axis=2))
    return kernel(dense)


@pytest.fixture(params=CASES, name="case")
def _case(request):
    kernel, X = CASES[request.param]
    return kernel, X, _expected(kernel, X)


def _tolerance(matrix, K):
    # The centre of rows that are far away rounds.
    return (3e-5 if matrix.dtype == np.float32 else 1e-8) * max(1.0, np.abs(K).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("room", [2, 50, N])
@pytest.mark.parametrize("threads", [1, 2])
def test_add_and_block__are_those_of_the_matrix(case, dtype, room, threads):
    kernel, X, K = case
    if callable(kernel.name):
        dtype = np.float64
    bytes_ = room * N * np.dtype(dtype).itemsize
    matrix = KernelMatrix.of_rows(kernel, X, dtype=dtype, cache_bytes=bytes_, threads=threads)
    atol, rng = _tolerance(matrix, K), np.random.default_rng(1)
    image, expected = np.zeros(N), np.zeros(N)
    # The same rows again and again, so that some are kept and some are not.
    for _ in range(5):
        rows, coef = rng.permutation(N)[: rng.integers(1, 90)], rng.normal(size=N)
        coef = coef[: rows.size]
        matrix.add(image, rows, coef, rng.random(rows.size) < 0.3)
        expected += K[:, rows] @ coef
        np.testing.assert_allclose(image, expected, atol=60.0 * atol)
        some, others = rng.permutation(N)[:60], rng.permutation(N)[:31]
        np.testing.assert_allclose(matrix.block(some, others), K[np.ix_(some, others)], atol=atol)
        np.testing.assert_allclose(matrix.block(some, some), K[np.ix_(some, some)], atol=atol)


def test_image64__is_in_double_precision(case):
    kernel, X, K = case
    rng = np.random.default_rng(2)
    rows, cols, coef = rng.permutation(N)[:100], rng.permutation(N)[:70], rng.normal(size=70)
    size = np.abs(K).max() * np.abs(coef).sum()
    for dtype in (np.float32, np.float64):
        matrix = KernelMatrix.of_rows(kernel, X, dtype=dtype)
        for some in (rows, cols):
            found = matrix.image64(some, cols, coef)
            np.testing.assert_allclose(found, K[np.ix_(some, cols)] @ coef, atol=1e-9 * size)


def test_products__of_no_rows_and_no_coefficients():
    matrix = KernelMatrix.of_rows(RBF, _rows(), dtype=np.float32)
    none, some = np.empty(0, dtype=np.intp), np.arange(3)
    assert matrix.image64(none, some, np.ones(3)).shape == (0,)
    np.testing.assert_array_equal(matrix.image64(some, none, np.empty(0)), 0.0)
    image = np.ones(N)
    matrix.add(image, none, np.empty(0))
    np.testing.assert_array_equal(image, 1.0)
    for some_matrix in (matrix, KernelMatrix(RBF(_rows()))):
        assert some_matrix.block(none, some).shape == (0, 3)
        assert some_matrix.block(some, none).shape == (3, 0)


def test_whole__is_the_matrix_from_then_on(case):
    kernel, X, K = case
    matrix = KernelMatrix.of_rows(kernel, X)
    # Some are kept before, in another order.
    matrix.add(np.zeros(N), np.arange(40)[::-1], np.ones(40), np.ones(40, dtype=np.bool_))
    whole = matrix.whole()
    np.testing.assert_allclose(whole, K, atol=_tolerance(matrix, K))
    assert matrix.whole() is whole
    np.testing.assert_array_equal(matrix.block(np.arange(5), np.arange(9)), whole[:5, :9])
    assert KernelMatrix.of_rows(kernel, X, cache_bytes=8.0 * N * (N - 1)).whole() is None


@pytest.mark.parametrize("threads", [1, 2])
def test_restricted__of_runs_and_of_any_rows(case, threads):
    kernel, X, K = case
    matrix = KernelMatrix.of_rows(kernel, X, dtype=np.float64, threads=threads)
    runs = np.concatenate([np.arange(20, 90), np.arange(150, 220)])
    mixed = np.random.default_rng(3).permutation(N)[:80]
    given = X.toarray() if sp.issparse(X) else X
    for rows in (runs, mixed, runs[:40], mixed[::-1]):
        part = matrix.restricted(rows)
        own, every = K[np.ix_(rows, rows)], np.arange(rows.size)
        atol = _tolerance(part, K)
        np.testing.assert_allclose(part.block(every, every[::3]), own[:, ::3], atol=atol)
        image = np.zeros(rows.size)
        part.add(image, every[::3], np.ones(every[::3].size))
        np.testing.assert_allclose(image, own[:, ::3].sum(axis=1), atol=80.0 * atol)
        taken = part.given.toarray() if sp.issparse(X) else part.given
        np.testing.assert_array_equal(taken, given[rows])
        again = part.restricted(every[::-1])
        np.testing.assert_allclose(again.block(every, every), own[::-1, ::-1], atol=atol)


def test_restricted__of_a_matrix_in_memory():
    K = RBF(_rows())
    part = KernelMatrix(K, definite=True).restricted(np.array([7, 3]))
    np.testing.assert_array_equal(part.whole(), K[np.ix_([7, 3], [7, 3])])
    assert part.definite


def test_precision__is_single_for_many_rows_where_that_suffices():
    X = np.random.default_rng(4).normal(size=(2100, 3))
    assert KernelMatrix.of_rows(Kernel("rbf", 0.3), X).dtype == np.float32
    assert KernelMatrix.of_rows(Kernel("rbf", 0.3), X[:2000]).exact
    assert KernelMatrix.of_rows(Kernel("rbf", 3e4), X).exact
    assert KernelMatrix.of_rows(Kernel("rbf", 1.0), 1e3 * X).exact
    assert KernelMatrix.of_rows(Kernel("linear"), 1e-20 * X).exact
    assert KernelMatrix.of_rows(Kernel(_laplace), X).exact


def test_promoted__is_exact_and_the_latest():
    kernel, X = CASES["wide"]
    matrix = KernelMatrix.of_rows(kernel, X, dtype=np.float32)
    assert matrix.latest is matrix
    double = matrix.promoted()
    assert not matrix.exact
    assert double.exact
    assert double.promoted() is double
    assert matrix.latest is matrix.promoted() is double
    some = np.arange(0, N, 7)
    np.testing.assert_allclose(
        double.block(some, some), _expected(kernel, X)[np.ix_(some, some)], rtol=1e-12
    )


def test_release__gives_up_what_can_be_computed_again():
    kernel, X = CASES["narrow"]
    matrix = KernelMatrix.of_rows(kernel, X)
    before = matrix.whole().copy()
    matrix.release()
    assert matrix._store.size == 0
    np.testing.assert_allclose(matrix.whole(), before, rtol=1e-13)
    given = KernelMatrix(before)
    given.release()
    np.testing.assert_array_equal(given.whole(), before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("support", [0, 3, 31, 100])
def test_expand__of_a_matrix_in_memory_sums_in_double_precision(dtype, support):
    rng = np.random.default_rng(0)
    K = rng.normal(size=(100, 100)).astype(dtype)
    K += K.T
    coef = np.zeros(100)
    coef[rng.permutation(100)[:support]] = 1e6 * rng.normal(size=support)
    expansion = KernelMatrix(K).expand(coef, np.zeros(100), None)
    np.testing.assert_allclose(expansion.image, K.astype(np.float64) @ coef, rtol=0.0, atol=1e-7)


def test_expand__bounds_its_rounding(case):
    kernel, X, K = case
    rng = np.random.default_rng(5)
    coef = np.where(rng.random(N) < 0.5, rng.normal(size=N), 0.0)
    coef -= coef.mean() * (kernel.name == "linear")
    matrix = KernelMatrix.of_rows(kernel, X, dtype=np.float32)
    image = np.zeros(N)
    support = np.flatnonzero(coef)
    matrix.add(image, support, coef[support])
    expansion = matrix.expand(coef, image, None)
    off = np.abs(expansion.image - K @ coef)
    unknown = 1e-12 if callable(kernel.name) else 0.0
    # The reference rounds as well.
    assert (off <= expansion.error + unknown + 1e-13 * np.abs(K).max() * np.abs(coef).sum()).all()
    assert expansion.norm == pytest.approx(coef @ K @ coef, rel=1e-8)
    # Rows that do not matter keep what they had.
    kept = matrix.expand(coef, image, lambda rounding: np.zeros(N, dtype=np.bool_))
    if kernel.name != "linear" and not matrix.exact:
        np.testing.assert_array_equal(kept.image[coef == 0.0], image[coef == 0.0])


def test_expand__of_the_linear_kernel_has_its_direction_and_offset():
    kernel, X = CASES["linear"]
    matrix = KernelMatrix.of_rows(kernel, X)
    coef = np.random.default_rng(6).normal(size=N)
    coef -= coef.mean()
    expansion = matrix.expand(coef, np.zeros(N), None)
    np.testing.assert_allclose(expansion.direction, coef @ X, atol=1e-10)
    offset = matrix.offset(coef, expansion.direction)
    np.testing.assert_allclose(expansion.image + offset, X @ expansion.direction, atol=1e-9)
    assert matrix.offset(coef) == pytest.approx(offset, abs=1e-10)


def test_of_rows__says_which_rows_overflow():
    X = _rows()
    X[5] *= 1e200
    with pytest.raises(ValueError, match="row 5 is not finite"):
        KernelMatrix.of_rows(Kernel("poly", 1.0, 3, 1.0), X)
