"""Kernel rows of the groups of a batch."""

from __future__ import annotations

import numpy as np

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
