"""Kernel rows of the groups of a batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oblong.kernels import Kernel
from oblong.solvers.margin.batch.problem import MarginBatch, RowTiles
from oblong.solvers.margin.batch.solve import solve_batch
from oblong.solvers.margin.batch.tiles import GroupRows, fill_tiles, fresh_image, have_row, prepare
from oblong.solvers.margin.options import DEFAULTS


@pytest.mark.parametrize("matrix_rows", [0, 9])
def test_a_block_of_which_some_rows_are_there_is_computed(matrix_rows):
    X = np.random.default_rng(0).normal(size=(9, 2))
    source, exact = prepare(RowTiles(Kernel("rbf", 0.5), X), matrix_rows)
    parts = np.array([[0, 6, 0, 0], [6, 9, 6, 36]])
    # Memory that was used before, as a fit may find it.
    own, K = np.full(45, np.nan, dtype=np.float32), np.full((9, 9), np.nan, dtype=np.float32)
    rows = GroupRows(
        source, parts, np.zeros(9, dtype=bool), own, np.zeros(9, dtype=bool),
        exact.diagonal, False, np.empty(0, dtype=np.int64),
        np.zeros(0, dtype=bool), K,
    )  # fmt: skip
    have_row(rows, K, 0)
    fill_tiles(rows, K, np.full(81, np.nan, dtype=np.float32))
    np.testing.assert_allclose(K, Kernel("rbf", 0.5)(X, X), atol=1e-6)


@pytest.mark.parametrize("kernel", [Kernel("poly", 0.1, 3, 1.0), Kernel("rbf", 0.1)])
@pytest.mark.parametrize("spreads", [[], [0.5]])
def test_one_matrix_of_few_rows_gives_the_solutions_of_tiles(kernel, spreads):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 7)) + np.repeat(rng.normal(size=(3, 7)), 30, axis=0)
    spans = np.array([[0, 30], [30, 60], [60, 90]])
    batch = MarginBatch(
        RowTiles(kernel, X), spans[[[0, 1], [0, 2], [1, 2]]], np.tile([1.0, -1.0], (3, 1)),
        np.ones(90), np.array([1.0]), np.array(spreads),
    )  # fmt: skip
    source, exact = prepare(batch.matrix, 90)
    error = exact.double * np.sqrt(np.outer(exact.diagonal, exact.diagonal))
    assert (np.abs(source.gram - kernel(X)) <= error).all()
    found = solve_batch(batch)
    assert prepare(batch.matrix, 89)[0].gram.size == 0
    tiled = solve_batch(batch, options=replace(DEFAULTS, matrix_rows=0))
    assert (found.status == 0).all()
    gap = found.relative_gap[:, -1] + tiled.relative_gap[:, -1]
    assert (gap <= 2e-3).all()
    assert (np.abs(found.objective / tiled.objective - 1.0)[:, -1] <= gap).all()
    np.testing.assert_allclose(found.bias[:, -1], tiled.bias[:, -1], atol=2e-3)


@pytest.mark.parametrize("gamma", [0.01, 1.0, 3.0])
@pytest.mark.parametrize("d", [2, 70])
def test_rounding_of_outputs_in_double_precision_is_bounded(d, gamma):
    """Also for rows far from the origin, whose distances come from large norms."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(150, d)) * np.sqrt(3.0 / d)
    source, exact = prepare(RowTiles(Kernel("rbf", gamma), X))
    c = np.where(np.arange(150) % 4 > 0, rng.normal(size=150), 0.0)
    u = np.empty(150)
    matters, none = np.ones(150, dtype=bool), np.empty(0)
    fresh_image(source, exact.rows, np.arange(150), c, matters, u, none, np.empty(X.size))
    wide = X.astype(np.longdouble)
    squares = ((wide[:, None] - wide) ** 2).sum(axis=2)
    error = np.abs(u - np.exp(-gamma * squares) @ c).max()
    assert error <= exact.double * np.abs(c).sum()


@pytest.mark.parametrize("kernel", [Kernel("poly", 1.0, 1, 0.0), Kernel("rbf", 1e-12)])
def test_rows_that_single_precision_cannot_tell_apart_are_left_to_the_careful_solver(kernel):
    X = np.random.default_rng(0).normal(size=(40, 3))
    assert prepare(RowTiles(Kernel(kernel.name, 0.5, 1, 0.0), X)) is not None
    # Far from the origin products differ in digits that are rounded; close rows are all alike.
    far = X + 1e6 if kernel.name == "poly" else X
    assert prepare(RowTiles(kernel, far)) is None
