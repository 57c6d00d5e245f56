"""Margin problems without some of their rows."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.kernels import Kernel
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.folds import (
    image_of,
    inside,
    solve_without,
    start_without,
    without,
)
from oblong.solvers.margin.problem import (
    Pieces,
    relative_margin_pieces,
    relaxed_margin_pieces,
    svm_pieces,
)
from oblong.solvers.margin.solver import solve_margin


def problem(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + X[:, 1] ** 2 + rng.normal(scale=0.7, size=n) > 0.7, 1.0, -1.0)
    return X, y, np.full(n, 2.0)


def universum(y, C):
    """Hinge losses of most rows, an insensitive loss of the others."""
    pieces = svm_pieces(y, C)
    p, s = pieces.breakpoints.copy(), pieces.slopes.copy()
    p[::5], s[::5] = [-1.0, 0.0, 0.0, 1.0], [0.1, 0.0, -0.1]
    return Pieces(p, s)


TERMS = {
    "svm": svm_pieces,
    "relative": lambda y, C: relative_margin_pieces(y, C, 1.2),
    "relaxed": lambda y, C: relaxed_margin_pieces(y, C, 1.2, 0.3),
    "universum": universum,
}


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("n", [120, 1100])
def test_the_result_is_that_of_the_remaining_rows(terms, n):
    X, y, C = problem(n)
    pieces = TERMS[terms](y, C)
    columns = KernelMatrix.of_rows(Kernel("rbf", 0.5), X)
    full = solve_margin(columns, pieces, tol=1e-9)
    rows = np.arange(3, n, 6)
    rest = np.setdiff1d(np.arange(n), rows)
    found = solve_without(columns, pieces, full.dual_coef, full.image, rows, tol=1e-9)
    alone = solve_margin(
        KernelMatrix.of_rows(Kernel("rbf", 0.5), X[rest]), pieces.take(rest), tol=1e-9
    )
    assert found.objective == pytest.approx(alone.objective, rel=1e-8)
    assert not found.coef[rows].any()
    assert found.relative_gap < 1e-6
    K = Kernel("rbf", 0.5)(X, X[rest])
    np.testing.assert_allclose(found.outputs, K @ alone.coef + alone.bias, atol=1e-5)


def test_single_precision_columns():
    X, y, C = problem(400)
    columns = KernelMatrix.of_rows(Kernel("rbf", 0.5), X, dtype=np.float32)
    assert not columns.exact
    pieces = relative_margin_pieces(y, C, 1.5)
    full = solve_margin(columns, pieces, tol=1e-3)
    rows = np.arange(0, 400, 5)
    found = solve_without(columns, pieces, full.dual_coef, full.image, rows, tol=1e-3)
    rest = np.setdiff1d(np.arange(400), rows)
    exact = KernelMatrix.of_rows(Kernel("rbf", 0.5), X[rest])
    alone = solve_margin(exact, pieces.take(rest), tol=1e-6)
    assert found.objective == pytest.approx(alone.objective, rel=1e-3)


def check_start(pieces, c, rows):
    start = start_without(without(pieces, rows), c, rows)
    assert abs(start.sum()) <= 1e-12 * max(np.abs(start).sum(), 1e-300)
    assert (start >= pieces.breakpoints[:, 0]).all()
    assert (start <= pieces.breakpoints[:, 3]).all()
    assert not start[rows].any()
    return start


@pytest.mark.parametrize("terms", TERMS)
def test_the_start_is_feasible(terms):
    X, y, C = problem()
    pieces = TERMS[terms](y, C)
    full = solve_margin(KernelMatrix.of_rows(Kernel("rbf", 0.5), X), pieces, tol=1e-6)
    c = inside(pieces, full.coef)
    for rows in (np.arange(20), np.flatnonzero(y > 0)[:-1], np.flatnonzero(c > 0)):
        check_start(pieces, c, rows)


def test_the_start_where_free_rows_suffice_and_where_they_do_not():
    y = np.array([1.0, 1.0, -1.0, -1.0])
    pieces = svm_pieces(y, np.ones(4))
    # Without row 0 the sum is -0.5, which row 1 can take up.
    start = check_start(pieces, np.array([0.5, 0.25, -0.5, -0.25]), np.array([0]))
    assert start[1] > 0.25
    assert np.abs(start).sum() == pytest.approx(2 * start[1])
    # All at their bounds: nothing is free, the negative ones are scaled down.
    start = check_start(pieces, np.array([1.0, 1.0, -1.0, -1.0]), np.array([0]))
    np.testing.assert_allclose(start, [0.0, 1.0, -0.5, -0.5])
    # One side has gone.
    start = check_start(pieces, np.array([1.0, 0.0, -1.0, 0.0]), np.array([0]))
    assert not start[:1].any()


def test_scaled_coefficients_return_to_their_breakpoints():
    pieces = svm_pieces(np.array([1.0, -1.0, 1.0]), np.full(3, 2.0))
    np.testing.assert_array_equal(inside(pieces, np.array([1.9999, -2.001, 1.5])), [2.0, -2.0, 1.5])


def test_the_image_is_the_product():
    K = np.cov(np.random.default_rng(0).normal(size=(6, 20)))
    c = np.array([0.0, 1.0, -2.0, 0.0, 0.5, 0.5])
    np.testing.assert_allclose(image_of(KernelMatrix(K), c), K @ c)
