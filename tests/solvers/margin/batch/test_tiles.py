"""Kernel rows of the groups of a batch."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.kernels import Kernel
from oblong.solvers.margin.batch.problem import MarginBatch, RowTiles
from oblong.solvers.margin.batch.solve import solve_batch
from oblong.solvers.margin.batch.tiles import GroupRows, fill_tiles, have_row, prepare

WHOLE = "oblong.solvers.margin.batch.tiles._WHOLE"


@pytest.mark.parametrize("whole", [0, 9])
def test_a_block_of_which_some_rows_are_there_is_computed(whole, monkeypatch):
    monkeypatch.setattr(WHOLE, whole)
    X = np.random.default_rng(0).normal(size=(9, 2))
    source, exact = prepare(RowTiles(Kernel("rbf", 0.5), X), matrix_of_few=True)
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
def test_one_matrix_of_few_rows_gives_the_solutions_of_tiles(kernel, spreads, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 7)) + np.repeat(rng.normal(size=(3, 7)), 30, axis=0)
    spans = np.array([[0, 30], [30, 60], [60, 90]])
    batch = MarginBatch(
        RowTiles(kernel, X), spans[[[0, 1], [0, 2], [1, 2]]], np.tile([1.0, -1.0], (3, 1)),
        np.ones(90), np.array([1.0]), np.array(spreads),
    )  # fmt: skip
    source, exact = prepare(batch.matrix, matrix_of_few=True)
    error = exact.double * np.sqrt(np.outer(exact.diagonal, exact.diagonal))
    assert (np.abs(source.gram - kernel(X)) <= error).all()
    found = solve_batch(batch)
    monkeypatch.setattr(WHOLE, 0)
    assert prepare(batch.matrix, matrix_of_few=True)[0].gram.size == 0
    tiled = solve_batch(batch)
    assert (found.status == 0).all()
    gap = found.relative_gap[:, -1] + tiled.relative_gap[:, -1]
    assert (gap <= 2e-3).all()
    assert (np.abs(found.objective / tiled.objective - 1.0)[:, -1] <= gap).all()
    np.testing.assert_allclose(found.bias[:, -1], tiled.bias[:, -1], atol=2e-3)


@pytest.mark.parametrize("kernel", [Kernel("poly", 1.0, 1, 0.0), Kernel("rbf", 1e-12)])
def test_rows_that_single_precision_cannot_tell_apart_are_left_to_the_careful_solver(kernel):
    X = np.random.default_rng(0).normal(size=(40, 3))
    assert prepare(RowTiles(Kernel(kernel.name, 0.5, 1, 0.0), X)) is not None
    # Far from the origin products differ in digits that are rounded; close rows are all alike.
    far = X + 1e6 if kernel.name == "poly" else X
    assert prepare(RowTiles(kernel, far)) is None
