"""What every reader and loader returns, and the one error they raise."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from oblong._core.text import quote

__all__ = ["DataFileError", "Dataset", "Matrix", "class_names", "decode_labels", "quote"]

Matrix: TypeAlias = np.ndarray | sp.csr_matrix


class DataFileError(ValueError):
    """Data that cannot be used, and where in it the trouble is.

    The message is one line: source, row, column and what was expected there.

    Parameters
    ----------
    source : str
        File name, set name or ``"standard input"``.
    problem : str
        What was expected and what was found.
    row : int, optional
        Line of a text file, or row of a binary one, counted from 1.
    column : str, optional
        Column, as :func:`quote` writes it.
    cause : str, optional
        Kind of trouble, for who can give advice: ``"missing"``, ``"text"`` or ``"infinite"``.
    """

    def __init__(
        self,
        source: str,
        problem: str,
        *,
        row: int | None = None,
        column: str | None = None,
        cause: str | None = None,
    ) -> None:
        self.source = source
        self.cause = cause
        self.problem = problem
        self.row = row
        self.column = column
        place = [source]
        if row is not None:
            place.append(f"row {row}")
        if column is not None:
            place.append(f"column {column}")
        super().__init__(f"{', '.join(place)}: {problem}")


@dataclass(frozen=True, eq=False)
class Dataset:
    """A classification data set.

    Attributes
    ----------
    X : ndarray or csr_matrix of shape (n_samples, n_features)
        Features, floating point and finite.
    y : ndarray of shape (n_samples,)
        Labels: integers or strings.
    feature_names : tuple of str, or None
        One name a column; None where the source names none.
    target_names : tuple of str
        ``target_names[k]`` is how to print ``np.unique(y)[k]``.
    name : str
        Short name of the set.
    description : str
        One sentence on where the data comes from.
    X_test, y_test : as `X` and `y`, or None
        The set's own test part, where it has one.
    """

    X: Matrix
    y: np.ndarray
    feature_names: tuple[str, ...] | None
    target_names: tuple[str, ...]
    name: str
    description: str = ""
    X_test: Matrix | None = None
    y_test: np.ndarray | None = None


# At most 18 digits, so that the value fits an int64; no leading zeros, since "007" and "7" are
# different names.
_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")


def decode_labels(spellings: Sequence[str], codes: np.ndarray) -> np.ndarray:
    """Turn label spellings into an array: integers if every label is one, else strings.

    Parameters
    ----------
    spellings : sequence of str
        The different spellings found.
    codes : ndarray of int
        For each row the position of its label in `spellings`.
    """
    stripped = [s.strip() for s in spellings]
    if all(_INTEGER.fullmatch(s) for s in stripped):
        return np.array([int(s) for s in stripped], dtype=np.int64)[codes]
    return np.array(stripped)[codes]


def class_names(spellings: Sequence[str]) -> tuple[str, ...]:
    """How the labels of :func:`decode_labels` are spelled, in the order of the classes.

    Parameters
    ----------
    spellings : sequence of str
        The different spellings found; of ``+1`` and ``1`` the first counts.
    """
    stripped = [s.strip() for s in spellings]
    if not all(_INTEGER.fullmatch(s) for s in stripped):
        return tuple(sorted(set(stripped)))
    first: dict[int, str] = {}
    for spelling in stripped:
        first.setdefault(int(spelling), spelling)
    return tuple(first[value] for value in sorted(first))
