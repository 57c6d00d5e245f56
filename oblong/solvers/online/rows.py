"""Rows of a batch as the compiled loops take them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np


def plain(array: np.ndarray) -> np.ndarray:
    """The same memory, without the mark that it must not be written to.

    No pass writes to the rows, but for arrays with the mark, such as memory-mapped ones, all passes
    would be compiled once more, which takes longer than most batches.
    """
    if array.flags.writeable:
        return array
    interface = {**array.__array_interface__}
    interface["data"] = (interface["data"][0], False)
    # The namespace keeps the memory alive.
    return np.asarray(SimpleNamespace(__array_interface__=interface, owner=array))


class Rows(NamedTuple):
    """Rows as the compiled loops take them: all sparse, dense ones sharing their columns.

    The largest column does not tell the number of columns, ``width``, of sparse rows.
    """

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    dense: bool
    width: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and of columns."""
        return len(self.indptr) - 1, self.width

    def part(self, start: int, stop: int) -> Rows:
        """Some consecutive sparse rows, which share their memory with these."""
        spans = self.indptr[start : stop + 1]
        inside = slice(spans[0], spans[-1])
        return self._replace(
            data=self.data[inside], indices=self.indices[inside], indptr=spans - spans[0]
        )

    def taken(self, which: np.ndarray) -> Rows:
        """A copy of some rows, in double precision."""
        if self.dense:
            d = len(self.indices)
            data = self.data.reshape(-1, d)[which].astype(np.float64, copy=False).ravel()
            return Rows(data, self.indices, np.arange(len(which) + 1) * d, True, self.width)
        lengths = (self.indptr[1:] - self.indptr[:-1])[which]
        spans = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(spans[-1]) + np.repeat(self.indptr[which] - spans[:-1], lengths)
        data = self.data[places].astype(np.float64, copy=False)
        return Rows(data, self.indices[places], spans, False, self.width)

    @classmethod
    def of(cls, X: Any) -> Rows:
        """Take a dense array in C order, a CSR matrix, or rows; values are not copied."""
        if isinstance(X, Rows):
            return X._replace(data=plain(X.data), indices=plain(X.indices), indptr=plain(X.indptr))
        if not isinstance(X, np.ndarray):
            if not X.has_canonical_format:
                X = X.copy()
                X.sum_duplicates()
            indices = X.indices.astype(np.int32, copy=False)
            spans = X.indptr.astype(np.int64, copy=False)
            return cls(plain(X.data), plain(indices), plain(spans), False, X.shape[1])
        n, d = X.shape
        return cls(plain(X.ravel()), np.arange(d, dtype=np.int32), np.arange(n + 1) * d, True, d)
