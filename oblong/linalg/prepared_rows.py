"""Rows prepared for a kernel once, of which several problems may use some."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from oblong._core.threads import chunks, run_chunks
from oblong.kernels import Kernel, KernelRows

# Rows that are prepared at a time, and rows of a span that tell where it lies.
_ROWS = 256
_SOME = 256


class PreparedRows:
    """Rows of a problem, prepared for products; indexing gives them as they were before.

    Attributes
    ----------
    rows : KernelRows
        Prepared rows, of which the problem may have only some.
    at : ndarray of shape (n,)
        Where the problem's rows are among them.
    placed : list of (KernelRows, slice)
        Slices of them that make up the problem's rows, and which of its rows they are.
    shift : ndarray of shape (d,) or None
        What was subtracted from the rows.
    diagonal : ndarray of shape (n,) or None
        The diagonal of the kernel matrix, if it is known.
    spare : list of ndarray
        Memory that columns of other problems have left: to touch fresh memory takes longer than to
        write to it.
    """

    def __init__(
        self,
        X: Any,
        rows: KernelRows,
        shift: np.ndarray | None,
        numbers: np.ndarray | None = None,
        spans: np.ndarray | None = None,
        diagonal: np.ndarray | None = None,
    ) -> None:
        self._X, self._numbers = X, numbers
        self.rows, self.shift, self.diagonal = rows, shift, diagonal
        if spans is None:
            self.at, self.placed = np.arange(rows.n), [(rows, slice(0, rows.n))]
        else:
            self.at = np.concatenate([np.arange(*span) for span in spans])
            ends = np.concatenate([[0], np.cumsum(spans[:, 1] - spans[:, 0])])
            self.placed = [
                (rows.take(slice(*span)), slice(*place))
                for span, place in zip(spans, pairwise(ends))
            ]
        self.spare: list[np.ndarray] = []
        self.shape = (self.at.size, X.shape[1])

    @classmethod
    def of(cls, kernel: Kernel, X: Any, dtype: np.dtype | type) -> PreparedRows:
        """Prepare the rows of one problem."""
        shift = kernel.centre(X)
        return cls(X, kernel.prepare(X, dtype, shift), shift)

    @classmethod
    def sorted(cls, kernel: Kernel, X: np.ndarray, order: np.ndarray, threads: int) -> PreparedRows:
        """Prepare dense rows for several problems: in some order, in single precision."""
        n, d = X.shape
        share = _ROWS * -(-n // (4 * threads * _ROWS))
        sums = np.zeros((-(-n // share), d))

        def add(start: int, stop: int) -> None:
            np.sum(X[start:stop], axis=0, dtype=np.float64, out=sums[start // share])

        shift = None
        if kernel.shift_invariant:
            run_chunks(add, n, share, threads)
            shift = sums.sum(axis=0) / n
        width = kernel.prepare(X[:1], np.float32, shift).left.shape[1]
        left, right = (np.empty((n, width), dtype=np.float32) for _ in range(2))
        half_norms = np.empty(n, dtype=np.float32) if kernel.name == "rbf" else None

        def prepare(start: int, stop: int) -> None:
            for first, last in chunks(stop - start, _ROWS):
                into = slice(start + first, start + last)
                part = kernel.prepare(X[order[into]], np.float32, shift)
                left[into], right[into] = part.left, part.right
                if half_norms is not None:
                    half_norms[into] = part.half_norms

        run_chunks(prepare, n, share, threads)
        return cls(X, KernelRows(left, right, half_norms), shift, order)

    def spans(self, spans: np.ndarray) -> PreparedRows:
        """Rows from some to others, one span after the other, without a copy."""
        some = np.concatenate([np.arange(*span) for span in spans])
        part = PreparedRows(
            self._X, self.rows, self.shift, self._number(some), spans, self._at(some)
        )
        part.spare = self.spare
        return part

    def apart(self, spans: np.ndarray) -> np.ndarray:
        """How far apart the middles of two spans are, of some rows of each.

        ``spans`` has the shape (n_pairs, 2, 2).
        """
        middles = [
            [
                self.rows.right[start : stop : max(1, (stop - start) // _SOME)].mean(axis=0)
                for start, stop in both
            ]
            for both in spans
        ]
        return np.linalg.norm(np.diff(middles, axis=1)[:, 0], axis=1)

    def memory(self, size: int, dtype: np.dtype | type) -> np.ndarray:
        """Memory for some numbers, or at least for half of them where another problem left it."""
        try:
            memory = self.spare.pop()
        except IndexError:
            memory = np.empty(0, dtype=dtype)
        return memory if 2 * memory.size >= size else np.empty(size, dtype=dtype)

    def copied(self, some: np.ndarray) -> PreparedRows:
        """Some rows, one after the other."""
        rows, numbers = self.take(some), self._number(some)
        return PreparedRows(self._X, rows, self.shift, numbers, None, self._at(some))

    def take(self, some: np.ndarray) -> KernelRows:
        """Some rows, prepared."""
        return self.rows.take(self.at[some])

    def _number(self, some: np.ndarray) -> np.ndarray:
        return some if self._numbers is None else self._numbers[some]

    def _at(self, some: np.ndarray) -> np.ndarray | None:
        return None if self.diagonal is None else self.diagonal[some]

    def __getitem__(self, some: Any) -> Any:
        return self._X[self._number(some)]

    @property
    def given(self) -> Any:
        """All rows as they were before."""
        return self._X if self._numbers is None else self._X[self._numbers]
