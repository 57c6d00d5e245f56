"""The principal block of a symmetric matrix for rows that come and go."""

from __future__ import annotations

import numpy as np

from oblong._core.compile import compiled
from oblong._core.threads import even_share, run_chunks
from oblong.linalg.columns import SymmetricColumns

# How much wider than the block its memory is made when it has to grow.
_GROWTH = 1.6
# Columns mirrored together, so that the rows they come from stay in first-level cache.
_TILE = 16
# Share of a computed block below which its rows are not kept.
_FEW = 0.4


class PrincipalBlock:
    """The values ``K[rows, rows]`` of a symmetric matrix, in an order of its own.

    Rows that stay keep their place when others come and go, for most of them stay, and the block
    is large: copying it, and touching fresh memory for the copy, would take longer than to
    compute what is new.

    Attributes
    ----------
    rows : ndarray of shape (q,)
        The rows, by place.
    wide : ndarray of shape (q, q or more)
        The values, with columns without meaning behind them, in one piece of memory.
    """

    def __init__(self) -> None:
        self.rows = np.empty(0, dtype=np.intp)
        self.wide = np.empty((0, 0))
        self._memory = np.empty(0)
        self._largest = 0

    @property
    def values(self) -> np.ndarray:
        """The block, of shape (q, q)."""
        return self.wide[:, : self.rows.size]

    def hold(self, columns: SymmetricColumns, rows: np.ndarray) -> None:
        """Become the block of ``rows``; what the block has of them already stays where it is.

        Parameters
        ----------
        columns : SymmetricColumns
            The matrix, the same one at every call.
        rows : ndarray of shape (q,)
            Different rows; where columns are fetched, as many as they have room for at most.
        """
        store = columns.store
        slots = columns.slots(rows)
        every = np.arange(rows.size)
        if rows.size == columns.n == len(store) and (rows == every).all() and (slots == rows).all():
            # The whole matrix in its own order needs no copy.
            self.rows, self.wide = rows, store
            return
        if self.wide is store:
            self.rows = self.rows[:0]
        if rows.size > self._largest:
            # As large as it may get: what is not written to costs nothing.
            cached = int(np.sqrt(columns.capacity * columns.n))
            self._largest = max(rows.size, min(columns.n, cached))
            self._memory = np.empty(self._largest**2, dtype=store.dtype)
            self.rows = self.rows[:0]
        place = np.full(columns.n, -1)
        place[self.rows] = np.arange(self.rows.size)
        at = place[rows]
        stays = (at >= 0) & (at < rows.size)
        if (slots < 0).all() and np.count_nonzero(stays) < _FEW * rows.size:
            # To write whole rows, one after the other, takes less time than to save a few.
            stays[:] = False
        fresh = np.ones(rows.size, dtype=np.bool_)
        fresh[at[stays]] = False
        into = np.flatnonzero(fresh)
        self._make_room(rows.size)
        ordered = np.empty(rows.size, dtype=np.intp)
        kept = min(rows.size, self.rows.size)
        ordered[:kept] = self.rows[:kept]
        ordered[into] = rows[~stays]
        self.rows = ordered
        wide, slots = self.wide, slots[~stays]
        computed = slots < 0
        if computed.any():
            some = into[computed]
            columns.write_rows(ordered[some], ordered, some, wide)
        known, slots = into[~computed], slots[~computed]

        # Columns are read from their beginning to their end.
        order = np.argsort(ordered)
        ascending = ordered[order]

        def gather(start: int, stop: int) -> None:
            _gather(store, slots[start:stop], known[start:stop], ascending, order, wide)

        def mirror(start: int, stop: int) -> None:
            _mirror(wide, into, fresh[start:stop], start)

        for task, size, entries in (
            (gather, known.size, rows.size),
            (mirror, rows.size, into.size),
        ):
            share = even_share(size, entries, columns.threads)
            run_chunks(task, size, share, columns.threads, blas=False)

    def _make_room(self, size: int) -> None:
        """Have room for a block of some size, with the values that there are in their place."""
        stride = self.wide.shape[1] if self.rows.size else 0
        if size > stride:
            wider = min(self._largest, max(size, int(_GROWTH * size)))
            # Rows a power of two apart would fall on the same lines of the cache.
            wider = min(self._largest, wider + -wider % 16 + 16 * (wider % 32 == 0))
            _widen(self._memory, self.rows.size, stride, wider)
            stride = wider
        self.wide = self._memory[: size * stride].reshape(size, stride)


@compiled
def _widen(memory, size, stride, wider):
    """Move the rows of a block apart, the last one first."""
    row = np.empty(size, dtype=memory.dtype)
    for k in range(size):
        r = size - 1 - k
        source = memory[r * stride : r * stride + size]
        target = memory[r * wider : r * wider + size]
        if r * (wider - stride) < size:
            # The two overlap.
            for i in range(size):
                row[i] = source[i]
            source = row
        for i in range(size):
            target[i] = source[i]


@compiled
def _gather(store, slots, into, rows, order, out):
    """Write new rows of the block: place ``order[b]`` of each from ``rows[b]`` of its column."""
    for a in range(slots.size):
        column = store[slots[a]]
        row = out[into[a]]
        for b in range(rows.size):
            row[order[b]] = column[rows[b]]


@compiled
def _mirror(out, into, fresh, start):
    """Write the new columns of the rows that are not new, beginning with ``start``."""
    for first in range(0, into.size, _TILE):
        some = into[first : min(into.size, first + _TILE)]
        for b in range(fresh.size):
            if not fresh[b]:
                row = out[start + b]
                for a in range(some.size):
                    row[some[a]] = out[some[a], start + b]
