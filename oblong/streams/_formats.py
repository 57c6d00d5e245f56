"""What every format of rows has: LIBSVM, delimited tables, JSON lines.

A format reads many plain lines at once with a compiled parser, and single lines with care: those
that the parser stopped at, which are either unusual or wrong.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from oblong.datasets._dataset import quote
from oblong.streams._hashing import tidy_row
from oblong.streams._numbers import LARGEST

__all__ = ["NUMBER", "Format", "OneRow", "Parsed", "RowError", "bad_weight", "number"]

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
# Numbers of a block of text that are left to Python.
_HARD = 4096


class RowError(ValueError):
    """What is wrong with a row, and in which column."""

    def __init__(self, problem: str, column: str | None = None) -> None:
        super().__init__(problem)
        self.column = column


class OneRow(NamedTuple):
    """A row read with care: its label as text, and its entries."""

    label: bytes
    columns: np.ndarray
    values: np.ndarray
    weight: float = 1.0


class Parsed(NamedTuple):
    """What a compiled parser has read; `spans` says where the labels lie."""

    lines: int
    position: int
    stuck: bool
    values: np.ndarray
    columns: np.ndarray | None
    indptr: np.ndarray
    spans: np.ndarray
    weights: np.ndarray | None = None

    @classmethod
    def nothing(cls, start: int) -> Parsed:
        """No line, so that all are read with care."""
        none = np.empty(0, dtype=np.int32)
        return cls(0, start, True, np.empty(0), none, np.zeros(1, int), np.empty((0, 2), int))


def number(text: str) -> float:
    """Convert a field, or say why not."""
    text = text.strip()
    if not NUMBER.fullmatch(text):
        raise RowError(f"expected a number, got {quote(text) if text else 'an empty cell'}")
    value = float(text)
    if not abs(value) <= LARGEST:
        raise RowError(f"expected a number of at most {LARGEST:g}, got {quote(text)}")
    return value


def bad_weight(value: float) -> str:
    """What is wrong with a weight below zero."""
    return f"expected a weight from 0 up, got {value:g}"


class Format(ABC):
    """A format.

    Parameters
    ----------
    bits : int
        Logarithm of the number of columns of hashed names; 0 if names are not hashed.
    limit : int
        Number of columns there may be.
    """

    # Whether every row has the same number of columns.
    dense: ClassVar[bool] = False
    # Whether labels are numbers that may be spelled in several ways.
    numeric_labels: ClassVar[bool] = False

    def __init__(self, bits: int, limit: int) -> None:
        self.bits = bits
        self.limit = limit
        self._hard = np.empty((_HARD, 3), dtype=np.int64)
        self._values = np.empty(0)
        self._columns = np.empty(0, dtype=np.int32)

    @abstractmethod
    def parse(self, text: np.ndarray, start: int, stop: int, most: int) -> Parsed:
        """Read plain lines."""

    @abstractmethod
    def parse_line(self, line: bytes) -> OneRow | None:
        """Read one line with care; None for a line without a row."""

    def state(self) -> dict[str, Any]:
        """What was found out about the input, for a later run."""
        return {}

    def _room(self, entries: int) -> None:
        if len(self._values) < entries:
            self._values = np.empty(entries)
            self._columns = np.empty(entries, dtype=np.int32)

    def _settle(self, text: np.ndarray, hards: int) -> None:
        for entry, start, stop in self._hard[:hards].tolist():
            self._values[entry] = float(text[start:stop].tobytes())

    def _tidy(self, label: bytes, columns: Sequence[int], values: Sequence[float]) -> OneRow:
        """Put the entries of a row in order."""
        row_columns, row_values = np.array(columns, dtype=np.int32), np.array(values, dtype=float)
        n = tidy_row(row_columns, row_values, len(row_columns)) if len(row_columns) else 0
        return OneRow(label, row_columns[:n], row_values[:n])
