"""The matrix of a grid: its values, its products, its precision, its shift."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from oblong.kernels import Kernel
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.grid import Groups, solve_grid, variants_of
from oblong.solvers.margin.grid_matrix import EXACT, WHOLE, GridMatrix
from oblong.solvers.margin.problem import svm_pieces

LINEAR, POLY, RBF = Kernel("linear"), Kernel("poly", 0.2, 3, 1.0), Kernel("rbf", 0.15)
KERNELS = (LINEAR, POLY, RBF)
MANY = EXACT + 76


def named(kernel):
    return kernel.name


def rows(n, d=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def shifted(kernel, X):
    return X - X.mean(axis=0) if kernel.name == "linear" else X


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.float16])
@pytest.mark.parametrize("order", ["C", "F"])
def test_of_values__a_matrix_is_taken_as_it_is(dtype, order):
    K = np.rint(9 * RBF(rows(20))).astype(dtype, order=order)
    matrix = GridMatrix.of_values(K)
    assert matrix.single == (dtype == np.float32)
    assert matrix.values.dtype == (np.float32 if matrix.single else np.float64)
    np.testing.assert_array_equal(matrix.values, K)
    assert not matrix.definite
    assert matrix.columns == 0
    assert matrix.shift is None


@pytest.mark.parametrize("kernel", KERNELS, ids=named)
def test_of_rows__up_to_a_thousand_rows_are_in_double_precision(kernel):
    X = rows(60)
    matrix = GridMatrix.of_rows(kernel, X, 60)
    assert not matrix.single
    assert matrix.definite
    expected = kernel(shifted(kernel, X))
    np.testing.assert_allclose(matrix.values, expected, rtol=1e-12, atol=1e-12)
    assert matrix.columns == (4 if kernel.name == "linear" else 0)


@pytest.mark.parametrize("kernel", KERNELS, ids=named)
def test_of_rows__more_rows_are_in_single_precision_with_its_rounding(kernel):
    X = rows(MANY)
    matrix = GridMatrix.of_rows(kernel, X, MANY)
    assert matrix.single
    assert matrix.values.dtype == np.float32
    expected = kernel(shifted(kernel, X))
    sizes = np.sqrt(np.diagonal(expected))
    unit = matrix.source[9]
    assert (np.abs(matrix.values - expected) <= unit * np.outer(sizes, sizes)).all()
    np.testing.assert_allclose(matrix.source[5], np.diagonal(expected), rtol=1e-12)


@pytest.mark.parametrize("d", [3, 240])
@pytest.mark.parametrize("kernel", KERNELS, ids=named)
def test_of_rows__rows_of_several_groups_are_kept_unless_they_are_wide(kernel, d):
    kernel = Kernel(kernel.name, kernel.gamma * 4 / d, kernel.degree, kernel.coef0)
    matrix = GridMatrix.of_rows(kernel, rows(MANY, d), 40, shared=True)
    assert matrix.single
    assert (matrix.values.size > 0) == (d > 200)
    assert matrix.source[3].shape == (MANY, d)


@pytest.mark.parametrize(
    ("kernel", "X"),
    [
        (Kernel("rbf", 1.0), 1e3 * rows(MANY)),
        (Kernel("rbf", 1e-12), rows(MANY)),
        (Kernel("linear"), 1e-20 * rows(MANY)),
        (Kernel("linear"), 1e20 * rows(MANY)),
        (Kernel("poly", 1.0, 9, 0.0), 1e4 * rows(MANY)),
        (Kernel("poly", 1.0, 1, 0.0), rows(MANY) + 1e6),
        (Kernel("sigmoid", 0.1), rows(MANY)),
        (RBF, sp.csr_matrix(rows(MANY))),
        (Kernel(lambda X, Z: X @ Z.T), rows(MANY)),
    ],
    ids=["exponents", "alike", "tiny", "huge", "powers", "far", "sigmoid", "sparse", "callable"],
)
def test_of_rows__double_precision_where_single_would_not_do(kernel, X):
    matrix = GridMatrix.of_rows(kernel, X, MANY)
    assert not matrix.single
    assert np.isfinite(matrix.values).all()
    assert matrix.values.shape == (MANY, MANY)


@pytest.mark.parametrize("X", [rows(MANY), rows(MANY) + 1e6], ids=["near", "far"])
def test_of_rows__a_linear_kernel_far_from_the_origin_is_shifted(X):
    matrix = GridMatrix.of_rows(LINEAR, X, MANY)
    assert matrix.single
    np.testing.assert_allclose(matrix.shift, X.mean(axis=0), rtol=1e-14)
    centred = X - X.mean(axis=0)
    np.testing.assert_allclose(matrix.source[3], centred, atol=1e-9)
    assert np.abs(matrix.values - centred @ centred.T).max() <= 1e-4


def test_of_rows__too_many_rows_are_held_elsewhere():
    X = rows(WHOLE + 5, 2)
    matrix = GridMatrix.of_rows(RBF, X, WHOLE + 5)
    assert matrix.values.size == 0
    part = matrix.whole(np.arange(10, 40))
    np.testing.assert_allclose(part.values, RBF(X[10:40]), atol=1e-12)


def test_of__columns_of_one_problem_keep_their_matrix():
    columns = KernelMatrix.of_rows(RBF, rows(50))
    assert GridMatrix.of(columns, 50) is GridMatrix.of(columns, 50)
    assert GridMatrix.of(columns, 50).large is columns


def test_of__a_matrix_for_parts_is_not_that_of_the_whole():
    """Whatever was asked for before, the next problem has what it needs."""
    X = rows(MANY)
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    variants = variants_of(tol=1e-3)
    few = Groups.of([np.arange(30)], svm_pieces(y[:30], np.ones(30)))
    every = Groups.of([np.arange(MANY)], svm_pieces(y, np.ones(MANY)))
    expected = [
        solve_grid(KernelMatrix.of_rows(RBF, X), groups, variants, promise=1e-3)
        for groups in (few, every)
    ]
    for order in ((0, 1), (1, 0), (0, 1, 0)):
        columns = KernelMatrix.of_rows(RBF, X)
        for k in order:
            found = solve_grid(columns, (few, every)[k], variants, promise=1e-3)
            assert found.values["objective"][0, 0] == pytest.approx(
                expected[k].values["objective"][0, 0], rel=2e-3
            )


@pytest.mark.parametrize("n", [60, MANY])
@pytest.mark.parametrize("kernel", [*KERNELS, Kernel("sigmoid", 0.1)], ids=named)
def test_whole__is_in_double_precision(kernel, n):
    X = rows(n)
    matrix = GridMatrix.of_rows(kernel, X, n)
    members = np.array([5, 2, 50, 2])
    part = matrix.whole(members)
    assert not part.single
    expected = kernel(shifted(kernel, X)[members])
    np.testing.assert_allclose(part.values, expected, rtol=1e-12, atol=1e-12)
    given = GridMatrix.of_values(kernel(X).astype(np.float32)).whole(members)
    assert not given.single
    np.testing.assert_allclose(given.values, kernel(X)[np.ix_(members, members)], rtol=1e-6)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("n", [60, MANY])
@pytest.mark.parametrize("kernel", [*KERNELS, Kernel("sigmoid", 0.1)], ids=named)
def test_image__is_the_product(kernel, n, shared):
    X = rows(n)
    matrix = GridMatrix.of_rows(kernel, X, 40, shared)
    rng = np.random.default_rng(1)
    members = rng.permutation(n)[:40]
    coef = np.where(rng.random(40) < 0.5, rng.normal(size=40), 0.0)
    coef[0] -= coef.sum()
    image = matrix.image(members, coef)
    # It is that of the shifted rows, as the values are.
    exact = kernel(shifted(kernel, X)[members]) @ coef
    np.testing.assert_allclose(image, exact, atol=1e-4 if matrix.single else 1e-10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not matrix.image(members, np.zeros(40)).any()


@pytest.mark.parametrize("kernel", KERNELS, ids=named)
@pytest.mark.parametrize("d", [1, 4, 7, 60])
@pytest.mark.parametrize("size", [40, 450])
def test_native_images__are_in_double_precision_whatever_the_values_are(kernel, d, size):
    """Rows of groups are computed in tiles, in fours of columns, one by one or all at once."""
    kernel = Kernel(kernel.name, kernel.gamma * 4 / d, kernel.degree, kernel.coef0)
    X = rows(MANY, d)
    y = np.where(X[:, 0] + 0.3 * rows(MANY, 1, seed=1)[:, 0] > 0, 1.0, -1.0)
    members = np.random.default_rng(0).permutation(MANY)[:size]
    groups = Groups.of([members], svm_pieces(y[members], np.ones(size)))
    found = solve_grid(KernelMatrix.of_rows(kernel, X), groups, variants_of(tol=1e-3), promise=1e-3)
    c = found.coefs[0][0]
    wide = shifted(kernel, X)[members].astype(np.longdouble)
    if kernel.name == "rbf":
        support = np.flatnonzero(c)
        squares = ((wide[:, None] - wide[support]) ** 2).sum(axis=2)
        exact = np.exp(-np.longdouble(kernel.gamma) * squares) @ c[support]
    else:
        products = wide @ wide.T
        if kernel.name == "poly":
            products = (np.longdouble(kernel.gamma) * products + 1) ** 3
        exact = products @ c
    matters = (c != 0) | (y[members] * (exact + found.bias[0, 0]) < 1.0)
    sizes = np.sqrt(np.array([float(kernel(row[None])[0, 0]) for row in X[members]]))
    if kernel.name == "linear":
        sizes = np.linalg.norm(shifted(kernel, X)[members], axis=1)
    allowed = 1e-14 * (1 + d) * (np.abs(c) @ sizes) * sizes
    error = np.abs(found.images[0][0] - exact).astype(float)
    assert (error <= allowed + 1e-13)[matters].all()
    # The others have the rounding of single precision.
    assert (error <= 1e-5 * (np.abs(c) @ sizes) * sizes).all()
