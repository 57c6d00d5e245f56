"""Kernel blocks against scikit-learn's pairwise kernels, and the column cache."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC

from oblong.kernels import Kernel, resolve_gamma

NAMED = {
    "linear": {},
    "poly": {"gamma": 0.3, "degree": 3, "coef0": 0.7},
    "rbf": {"gamma": 0.3},
    "sigmoid": {"gamma": 0.1, "coef0": -0.2},
}


def _data(dtype=np.float64, rows=(37, 23), d=5, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, d)).astype(dtype) for n in rows]


def _dense(values):
    return values.toarray() if sp.issparse(values) else np.asarray(values)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMED)
def test_formulas(name, dtype, container):
    X, Z = _data(dtype)
    kernel = Kernel(name, **NAMED[name])
    expected = pairwise_kernels(
        X.astype(float), Z.astype(float), metric=name, filter_params=True, **NAMED[name]
    )
    block = _dense(kernel(container(X), container(Z)))
    assert block.shape == (37, 23)
    assert block.dtype == np.float64
    np.testing.assert_allclose(block, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4, 5, 7, 8])
def test_polynomial_degrees(degree):
    X, Z = _data()
    kernel = Kernel("poly", gamma=0.5, degree=degree, coef0=-1.0)
    np.testing.assert_allclose(kernel(X, Z), (0.5 * X @ Z.T - 1.0) ** degree, rtol=1e-11)


@pytest.mark.parametrize("name", NAMED)
def test_blocks_leave_the_rows_alone(name):
    X, Z = _data()
    X_before, Z_before = X.copy(), Z.copy()
    Kernel(name, **NAMED[name])(X, Z)
    assert np.array_equal(X, X_before)
    assert np.array_equal(Z, Z_before)


@pytest.mark.parametrize("name", NAMED)
def test_one_argument_means_both(name):
    X, _ = _data()
    kernel = Kernel(name, **NAMED[name])
    np.testing.assert_allclose(kernel(X), kernel(X, X), rtol=1e-13)


@pytest.mark.parametrize("name", NAMED)
def test_memory_order_does_not_matter(name):
    X, Z = _data()
    kernel = Kernel(name, **NAMED[name])
    expected = kernel(X, Z)
    wide = np.repeat(X, 2, axis=1)[:, ::2]
    np.testing.assert_allclose(kernel(np.asfortranarray(X), Z), expected, rtol=1e-13)
    np.testing.assert_allclose(kernel(wide, Z), expected, rtol=1e-13)


def test_many_rows_come_out_as_few_do():
    """Blocks are cut into pieces inside; the seams must not show."""
    X, Z = _data(rows=(300, 2500), d=3)
    kernel = Kernel("rbf", gamma=0.3)
    block = kernel(X, Z)
    for start in range(0, 2500, 500):
        part = kernel(X, Z[start : start + 500])
        np.testing.assert_allclose(block[:, start : start + 500], part, rtol=1e-12)


def test_callable():
    X, Z = _data()

    def manhattan(A, B):
        return np.exp(-np.abs(A[:, None, :] - B[None, :, :]).sum(-1))

    assert np.array_equal(Kernel(manhattan)(X, Z), manhattan(X, Z))


def test_callable_may_return_a_sparse_matrix():
    """Products of sparse rows are sparse."""
    X, Z = (sp.csr_array(np.where(np.abs(rows) < 0.5, 0, rows)) for rows in _data())
    block = Kernel(lambda A, B: A @ B.T)(X, Z)
    np.testing.assert_allclose(block, (X @ Z.T).toarray())


def test_callable_of_the_wrong_shape():
    X, Z = _data()
    with pytest.raises(ValueError, match=r"shape"):
        Kernel(lambda A, B: np.ones((len(A), 2)))(X, Z)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shift", [1e3, 1e4])
def test_rbf_far_from_the_origin(shift, dtype):
    """Squared distances must not drown in the norms of shifted rows."""
    X = np.round(_data()[0] * 64) / 64  # exact in single precision after the shift
    expected = Kernel("rbf", gamma=0.3)(X, X)
    shifted = (X + shift).astype(dtype)
    block = Kernel("rbf", gamma=0.3)(shifted, shifted)
    np.testing.assert_allclose(block, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scale", [1e-150, 1e-20, 1e20, 1e150])
def test_rbf_at_extreme_scales(scale):
    X, _ = _data()
    gamma = resolve_gamma("scale", X)
    expected = Kernel("rbf", gamma=gamma)(X)
    scaled = X * scale
    block = Kernel("rbf", gamma=resolve_gamma("scale", scaled))(scaled)
    np.testing.assert_allclose(block, expected, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gamma", [1e2, 1e12])
def test_rbf_where_products_have_no_digits_left(gamma, dtype):
    X = 1e9 * np.random.default_rng(5).normal(size=(40, 6)).astype(dtype)
    X = np.vstack([X, X[:7]])
    for rows in (X, sp.csr_matrix(X)):
        K = Kernel("rbf", gamma=gamma)(rows)
        assert ((K >= 0.0) & (K <= 1.0)).all()
    near = np.equal(X[:, None], X).all(axis=2)
    np.testing.assert_array_equal(Kernel("rbf", gamma=gamma)(X), near.astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rbf_of_equal_rows_is_one(dtype):
    X, _ = _data(dtype)
    K = Kernel("rbf", gamma=0.5)(np.vstack([X, X]))
    rounding = 20 * np.finfo(dtype).eps
    assert K.max() <= 1 + rounding
    np.testing.assert_allclose(np.diag(K), 1.0, atol=rounding)
    np.testing.assert_allclose(np.diag(K, len(X)), 1.0, atol=rounding)


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.25])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_gamma(gamma, container):
    X, _ = _data(rows=(60, 1))
    X[:, 0] *= 3
    X[np.abs(X) < 0.5] = 0
    y = np.arange(60) % 2
    expected = SVC(gamma=gamma).fit(container(X), y)._gamma
    assert resolve_gamma(gamma, container(X)) == pytest.approx(expected, rel=1e-10)


def test_gamma_of_constant_data_is_one():
    assert resolve_gamma("scale", np.full((4, 3), 7.0)) == 1.0


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e155, 1e300])
def test_gamma_that_is_no_number_is_an_error(scale):
    for rows in (scale * _data()[0], sp.csr_matrix(scale * _data()[0])):
        with pytest.raises(ValueError, match="variance of X cannot be represented"):
            resolve_gamma("scale", rows)


def test_gamma_counts_weights_as_copies():
    X, _ = _data(rows=(20, 1))
    counts = np.arange(20) % 4
    repeated = resolve_gamma("scale", np.repeat(X, counts, axis=0))
    assert resolve_gamma("scale", X, counts.astype(float)) == pytest.approx(repeated, rel=1e-12)


def test_gamma_of_single_precision_data():
    X, _ = _data(rows=(2000, 1))
    expected = resolve_gamma("scale", X)
    assert resolve_gamma("scale", (X + 100).astype(np.float32)) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("gamma", [0.5, 0.3, 1e-3])
def test_near_rows_far_from_the_origin(gamma, sparse):
    rng = np.random.default_rng(0)
    X = 1e9 * rng.integers(0, 3, (40, 2)) + rng.integers(0, 2, (40, 2))
    exact = np.exp(-gamma * ((X[:, None] - X) ** 2).sum(axis=2))
    kernel = Kernel("rbf", gamma)
    rows = sp.csr_matrix(X.astype(float)) if sparse else X.astype(float)
    # A shift that rounds serves the products only.
    for shift in (None, None if sparse else X.mean(axis=0) / 3.0):
        prepared = kernel.prepare(rows, np.float64, shift)
        np.testing.assert_allclose(kernel.block(prepared, prepared), exact, rtol=1e-13, atol=0)
