"""Kernel rows of the groups of a batch."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.kernels import Kernel
from oblong.solvers.margin.batch.problem import RowTiles
from oblong.solvers.margin.batch.tiles import GroupRows, fill_tiles, have_row, prepare


def test_a_block_of_which_some_rows_are_there_is_computed():
    X = np.random.default_rng(0).normal(size=(9, 2))
    source, exact = prepare(RowTiles(Kernel("rbf", 0.5), X))
    parts = np.array([[0, 6, 0, 0], [6, 9, 6, 36]])
    # Memory that was used before, as a fit may find it.
    own, K = np.full(45, np.nan, dtype=np.float32), np.full((9, 9), np.nan, dtype=np.float32)
    rows = GroupRows(
        source, parts, np.zeros(9, dtype=bool), own, np.zeros(9, dtype=bool),
        np.empty((0, 0), dtype=np.float32), exact.diagonal, False,
    )  # fmt: skip
    have_row(rows, K, 0)
    fill_tiles(rows, K, np.full(81, np.nan, dtype=np.float32))
    np.testing.assert_allclose(K, Kernel("rbf", 0.5)(X, X), atol=1e-6)


@pytest.mark.parametrize("kernel", [Kernel("poly", 1.0, 1, 0.0), Kernel("rbf", 1e-12)])
def test_rows_that_single_precision_cannot_tell_apart_are_left_to_the_careful_solver(kernel):
    X = np.random.default_rng(0).normal(size=(40, 3))
    assert prepare(RowTiles(Kernel(kernel.name, 0.5, 1, 0.0), X)) is not None
    # Far from the origin products differ in digits that are rounded; close rows are all alike.
    far = X + 1e6 if kernel.name == "poly" else X
    assert prepare(RowTiles(kernel, far)) is None
