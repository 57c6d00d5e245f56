"""The principal block: whatever comes and goes, it holds the values of its rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oblong.kernels import Kernel
from oblong.linalg.columns import ExplicitColumns
from oblong.linalg.kernel_columns import KernelColumns
from oblong.linalg.principal import PrincipalBlock


def _matrix(n, dtype=np.float64):
    G = np.random.default_rng(0).normal(size=(n, n)).astype(dtype)
    return G + G.T


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("threads", [1, 3])
def test_rows_come_and_go(dtype, threads):
    K = _matrix(400, dtype)
    columns = ExplicitColumns(K, threads)
    block = PrincipalBlock()
    rng = np.random.default_rng(1)
    for size in (5, 9, 60, 200, 130, 131, 399, 2, 300):
        rows = np.sort(rng.choice(400, size, replace=False))
        before = block.rows
        block.hold(columns, rows)
        np.testing.assert_array_equal(np.sort(block.rows), rows)
        np.testing.assert_array_equal(block.values, K[np.ix_(block.rows, block.rows)])
        assert block.wide.flags.c_contiguous
        assert block.values.shape == (size, size)
        # Those that were there, and still fit, are where they were.
        kept = np.isin(before[:size], rows)
        np.testing.assert_array_equal(block.rows[: before.size][kept], before[:size][kept])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kernel", [Kernel("rbf", 0.2), Kernel("poly", 0.2, 3, 1.0)])
def test_blocks_that_are_computed(kernel, threads):
    """Whether most rows stay or few do."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(700, 4))
    columns = KernelColumns(kernel, X, dtype=np.float64, direct_above=0, threads=threads)
    K, block, rows = kernel(X), PrincipalBlock(), np.arange(200)
    for share, size in ((0.0, 300), (0.9, 310), (0.1, 400), (0.5, 350), (0.95, 340), (0.2, 90)):
        stay = rng.permutation(rows)[: int(share * size)]
        others = np.setdiff1d(np.arange(700), rows)
        rows = np.sort(np.concatenate([stay, rng.permutation(others)[: size - stay.size]]))
        block.hold(columns, rows)
        np.testing.assert_array_equal(np.sort(block.rows), rows)
        np.testing.assert_allclose(block.values, K[np.ix_(block.rows, block.rows)], rtol=1e-10)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sets(st.integers(0, 24), min_size=1, max_size=25), min_size=1, max_size=6))
def test_any_sequence_of_rows(sets):
    K = _matrix(25)
    columns, block = ExplicitColumns(K), PrincipalBlock()
    for some in sets:
        block.hold(columns, np.array(sorted(some)))
        assert set(block.rows.tolist()) == some
        np.testing.assert_array_equal(block.values, K[np.ix_(block.rows, block.rows)])


def test_whole_matrix_is_not_copied():
    columns = ExplicitColumns(_matrix(30))
    block = PrincipalBlock()
    for rows in (np.arange(30), np.arange(4, 20), np.arange(30), np.arange(30)[::-1].copy()):
        block.hold(columns, rows)
        np.testing.assert_array_equal(block.values, columns.store[np.ix_(block.rows, block.rows)])
        assert (block.wide is columns.store) == (rows[0] == 0)


def test_memory_is_kept_and_the_matrix_left_alone():
    K = _matrix(200)
    columns = ExplicitColumns(K.copy())
    block = PrincipalBlock()
    block.hold(columns, np.arange(100))
    first = block.wide
    block.hold(columns, np.arange(50, 160))
    assert np.shares_memory(first, block.wide)
    assert not np.shares_memory(block.wide, columns.store)
    np.testing.assert_array_equal(columns.store, K)


def test_columns_that_make_room_for_others():
    """The block is right although the cache holds no more columns than it has rows."""
    X = np.random.default_rng(2).normal(size=(90, 4))
    kernel = Kernel("rbf", 0.3)
    columns = KernelColumns(kernel, X, cache_bytes=40 * 90 * 8, dtype=np.float64)
    assert columns.capacity == 40
    block = PrincipalBlock()
    rng = np.random.default_rng(3)
    for _ in range(8):
        rows = np.sort(rng.choice(90, rng.integers(2, 41), replace=False))
        block.hold(columns, rows)
        expected = kernel(X)[np.ix_(block.rows, block.rows)]
        np.testing.assert_allclose(block.values, expected, atol=1e-12)
