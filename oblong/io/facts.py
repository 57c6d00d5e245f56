"""What is odd about a table that was read: facts, which the commands put into words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from oblong.io.labels import LabelCodes

# Rows below which nothing can be said of a value that stands apart.
_FEWEST = 10
# Values that mean "unknown": nines.
_NINES = 10.0 ** np.arange(2, 10) - 1.0


class Padded(NamedTuple):
    """A column of numbers, one of which has leading zeros: a code, such as a postal code.

    Attributes
    ----------
    column : str
        How a message refers to the column.
    text : str
        The first such number, as it is written.
    row : int
        Its line.
    """

    column: str
    text: str
    row: int


class Sentinel(NamedTuple):
    """A number such as -999 that stands apart from all others of its column.

    Attributes
    ----------
    column : str
        How a message refers to the column.
    value : int
        The number.
    n_rows : int
        How many rows have it.
    """

    column: str
    value: int
    n_rows: int


class LoneClass(NamedTuple):
    """A class of one row, which may be a footer.

    Attributes
    ----------
    name : str
        The class.
    row : int
        The line of the row in a text file, else its number; both count from 1.
    last : bool
        Whether no row comes after it.
    """

    name: str
    row: int
    last: bool


@dataclass(frozen=True)
class Facts:
    """What may not be as it was meant, although it can be read.

    Attributes
    ----------
    padded : tuple of Padded
        Columns of numbers with leading zeros.
    sentinels : tuple of Sentinel
        Numbers that may stand for missing ones.
    lone_classes : tuple of LoneClass
        Classes of one row.
    """

    padded: tuple[Padded, ...] = ()
    sentinels: tuple[Sentinel, ...] = ()
    lone_classes: tuple[LoneClass, ...] = ()


def find_sentinels(X: np.ndarray, labels: Iterable[str]) -> tuple[Sentinel, ...]:
    """Numbers of nines, twice or more in a column, that stand apart from its other numbers.

    They are farther from these than these are from each other; below zero, they may also be the
    only ones.
    """
    found = []
    for column, label in zip(X.T, labels):
        low, high = np.nanmin(column, initial=np.inf), np.nanmax(column, initial=-np.inf)
        for value in (low, high):
            if abs(value) not in _NINES:
                continue
            with np.errstate(invalid="ignore"):
                same = column == value
            rest = column[~same & ~np.isnan(column)]
            count = int(same.sum())
            if count < 2 or len(rest) < _FEWEST:
                continue
            smallest, largest = rest.min(), rest.max()
            distance = smallest - value if value == low else value - largest
            if distance > largest - smallest or (value < 0.0 <= smallest):
                found.append(Sentinel(label, int(value), count))
    return tuple(found)


def lone_classes(
    codes: np.ndarray, labels: LabelCodes, lines: Mapping[int, int]
) -> tuple[LoneClass, ...]:
    """Classes of one row; `lines` has the lines in which labels first came, by code."""
    found = []
    counts = np.bincount(codes, minlength=len(labels))
    if len(counts) > max(2, len(codes) // 2):
        # The labels are no classes, but numbers or names.
        return ()
    for code in np.flatnonzero(counts == 1).tolist():
        index = int(np.flatnonzero(codes == code)[0])
        row = lines.get(code, index + 1)
        found.append(LoneClass(labels.spellings[code], row, index == len(codes) - 1))
    return tuple(found)
