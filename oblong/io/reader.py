"""Rows that were read together, and where the reader is after them."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from oblong.io.labels import LabelCodes


@dataclass(frozen=True)
class Position:
    """How far a reader has come.

    Attributes
    ----------
    offset, line : int
        Bytes consumed, decompressed, and the number of the next line.
    rows, skipped : int
        Rows taken, and rows left out because they were wrong.
    n_labels, n_names : int
        Labels and names of columns that were known then.
    """

    offset: int
    line: int
    rows: int
    skipped: int
    n_labels: int
    n_names: int


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of a stream.

    Attributes
    ----------
    values : ndarray of float
        Entries of the rows.
    columns : ndarray of int32, or None
        Their columns, sorted and different within a row; None for rows with all columns.
    indptr : ndarray of int64, of shape (n_rows + 1,)
        Where the rows start.
    codes : ndarray of int32, of shape (n_rows,)
        Numbers of the labels in :attr:`RowReader.labels`.
    position : Position
        Where the reader is after the batch.
    weights : ndarray of float of shape (n_rows,), or None
        Weights of the rows; None for rows without.
    words : ndarray of int32 of shape (n_columns, n_rows), or None
        Codes of words in columns of categories, -1 where they are missing.
    """

    values: np.ndarray
    columns: np.ndarray | None
    indptr: np.ndarray
    codes: np.ndarray
    position: Position
    weights: np.ndarray | None = None
    words: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def width(self) -> int:
        """Columns up to the last that has an entry."""
        if self.columns is None:
            return len(self.values) // max(1, len(self))
        return max(1, int(self.columns.max(initial=-1)) + 1)

    def matrix(self, n_columns: int) -> Any:
        """The rows as an array, or as a sparse matrix."""
        if self.columns is None:
            return self.values.reshape(len(self), n_columns)
        import scipy.sparse as sp

        parts = (self.values, self.columns, self.indptr)
        return sp.csr_matrix(parts, shape=(len(self), n_columns))


class Reader(ABC):
    """What all readers of rows have: batches, the labels so far, and a place to go on from."""

    _labels: LabelCodes
    # Most rows of a batch of those that iteration gives.
    _most: ClassVar[int]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Batch]:
        """The rows that are left, in batches."""
        while (batch := self.read(self._most)) is not None:
            yield batch

    @abstractmethod
    def close(self) -> None:
        """Close the file."""

    @abstractmethod
    def read(self, n: int, *, wait: bool = True) -> Batch | None:
        """Read at most this many rows; None at the end of the input."""

    @property
    def labels(self) -> list[int] | list[str]:
        """The labels seen so far, or declared."""
        return self._labels.values()

    @property
    def spellings(self) -> list[str]:
        """How each of the labels was spelled when it first came."""
        return self._labels.spellings

    def close_labels(self) -> None:
        """Take no more labels than there are now."""
        self._labels.closed = True

    def _state(
        self, position: Position, format: str | None, layout: dict[str, Any], fingerprint: str
    ) -> dict[str, Any]:
        """Everything it takes to go on after a batch, as JSON values."""
        return {
            "format": format,
            "layout": layout,
            "labels": self._labels.values(position.n_labels),
            "spellings": self.spellings[: position.n_labels],
            **{name: getattr(position, name) for name in ("offset", "line", "rows", "skipped")},
            "fingerprint": fingerprint,
        }
