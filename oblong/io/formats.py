"""What every format of rows has: delimited text, LIBSVM, JSON lines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from oblong.io.errors import RowError
from oblong.io.sources import LineBuffer


class Parsed(NamedTuple):
    """Rows that a parser has read.

    Attributes
    ----------
    lines, position : int
        How many lines were read, and where in the buffer the next row starts.
    stuck : bool
        Whether that row is for :meth:`Format.parse_one`.
    values : ndarray
        Rows with all columns, of two dimensions, or entries of sparse rows.
    starts : ndarray of int
        Where the rows start.
    problems : dict of int to RowError
        Rows that are wrong.
    columns, lengths : ndarray or None
        Columns of the entries of sparse rows, and how many each row has.
    spans : ndarray of shape (n_rows, 2), or None
        Where the labels are.
    weights : ndarray or None
        Weights of the rows.
    words : ndarray of shape (n_columns, n_rows), or None
        Codes of words, by column.
    tokens : sequence of bytes, or None
        The labels, where they are not in the buffer.
    codes : ndarray or None
        Codes of the labels, once they have been looked up.
    """

    lines: int
    position: int
    stuck: bool
    values: np.ndarray
    starts: np.ndarray
    problems: dict[int, RowError]
    columns: np.ndarray | None = None
    lengths: np.ndarray | None = None
    spans: np.ndarray | None = None
    weights: np.ndarray | None = None
    words: np.ndarray | None = None
    tokens: Sequence[bytes] | None = None
    codes: np.ndarray | None = None


def bad_weight(value: float) -> str:
    """What is wrong with a weight below zero."""
    return f"expected a weight of at least 0, got {value:g}"


class Format(ABC):
    """A format of rows."""

    # Whether every row has the same number of columns.
    dense: bool = False
    # How a message refers to the column of the labels.
    target_label: str | None = None

    @abstractmethod
    def parse(self, lines: LineBuffer, stop: int, most: int) -> Parsed:
        """Read rows that start before a place in the buffer."""

    def parse_one(self, lines: LineBuffer) -> Parsed | None:
        """Consume the row that the parser stopped at; None if there is none."""
        return None

    def state(self) -> dict[str, Any]:
        """What was found out about the input, for a later run."""
        return {}
