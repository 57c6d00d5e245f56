"""Vectors, powers of two and products of the compiled core."""

import numpy as np
import pytest

from oblong._native import base

SIZES = [1, 2, 3, 7, 8, 9, 15, 16, 31, 32, 33, 63, 64, 65, 100, 257]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", SIZES)
def test_extrema__wherever_they_are(size, dtype):
    rng = np.random.default_rng(size)
    for k in range(size):
        values = rng.normal(size=size).astype(dtype)
        values[k] = 100.0
        values[(k + size // 2) % size] -= 200.0
        assert base.extrema(values) == (values.min(), values.max())
        assert base.plain_extrema(values) == (values.min(), values.max())


@pytest.mark.parametrize("size", SIZES)
def test_extrema__infinities_are_numbers(size):
    values = np.zeros(size)
    values[-1] = np.inf
    assert base.extrema(values) == (0.0 if size > 1 else np.inf, np.inf)
    values[0] = -np.inf
    assert base.extrema(values)[0] == -np.inf


@pytest.mark.parametrize("size", SIZES)
def test_index_of__is_the_first_one(size):
    values = np.arange(size, dtype=float)
    assert [base.index_of(values, float(k)) for k in range(size)] == list(range(size))
    assert base.index_of(values, -1.0) == size
    values = np.concatenate([values, values])
    assert [base.index_of(values, float(k)) for k in range(size)] == list(range(size))


@pytest.mark.parametrize(("dtype", "tol"), [(np.float32, 2e-7), (np.float64, 4e-16)])
def test_raise_two__is_exact_to_the_last_digits(dtype, tol):
    rng = np.random.default_rng(0)
    low = -120.0 if dtype == np.float32 else -1000.0
    t = np.concatenate([rng.uniform(low, 0.0, 10_000), np.linspace(-3.0, 0.0, 97)]).astype(dtype)
    found = t.copy()
    base.raise_two(found)
    np.testing.assert_allclose(found, np.exp2(t.astype(np.longdouble)).astype(dtype), rtol=tol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_raise_two__at_the_ends(dtype):
    whole = -np.arange(100.0).astype(dtype)
    found = whole.copy()
    base.raise_two(found)
    assert np.array_equal(found, np.exp2(whole))
    ends = np.array([0.0, 1.0, np.inf, -np.inf, -1e30, -1200.0], dtype)
    base.raise_two(ends)
    assert ends[:3].tolist() == [1.0, 1.0, 1.0]
    assert np.all(ends[3:] <= np.finfo(dtype).tiny)


@pytest.mark.parametrize(("dtype", "tol"), [(np.float32, 1e-5), (np.float64, 1e-13)])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 4, 5), (1, 7, 2), (6, 1, 3), (17, 9, 30)])
def test_product__is_that_of_numpy(shape, dtype, tol):
    n, m, k = shape
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(n, k)).astype(dtype), rng.normal(size=(m, k)).astype(dtype)
    out = np.empty((n, m), dtype)
    base.product(A, B, True, out)
    np.testing.assert_allclose(out, A @ B.T, atol=tol)
    base.product(A, np.ascontiguousarray(B.T), False, out)
    np.testing.assert_allclose(out, A @ B.T, atol=tol)


@pytest.mark.parametrize("shape", [(0, 3, 2), (3, 0, 2), (3, 2, 0), (0, 0, 0)])
def test_product__of_empty_matrices(shape):
    n, m, k = shape
    for transposed, right in ((True, (m, k)), (False, (k, m))):
        out = np.full((n, m), np.nan)
        base.product(np.empty((n, k)), np.empty(right), transposed, out)
        assert np.array_equal(out, np.zeros((n, m)))


def test_product__of_other_shapes_is_refused():
    for A, B, out in [((2, 3), (4, 2), (2, 4)), ((2, 3), (4, 3), (4, 2)), ((2, 3), (4, 3), (3, 4))]:
        with pytest.raises(ValueError, match="shapes"):
            base.product(np.ones(A), np.ones(B), True, np.ones(out))
