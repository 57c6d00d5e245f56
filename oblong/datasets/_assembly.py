"""Checked columns side by side: the array that a classifier takes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oblong.datasets._columns import Column, Words, numbers_of, whole_of
from oblong.datasets._dataset import DataFileError, quote
from oblong.datasets._delimited import cell_problem

__all__ = ["assemble"]


def assemble(
    columns: list[Column],
    labels: list[str],
    text: set[int],
    gaps: bool,
    source: str,
    lines: Callable[[int], int],
    most: int | None = None,
) -> np.ndarray:
    """Put columns side by side, each checked."""
    whole = None if text else whole_of(columns)
    # A finite sum has finite terms.
    if whole is not None and np.isfinite(whole.sum()):
        return whole
    first = columns[0]
    n = len(first.codes if isinstance(first, Words) else first)
    X = np.empty((n, len(columns)), dtype=object if text else np.float64)
    for k, column in enumerate(columns):

        def fail(row: int, problem: str, cause: str, k: int = k) -> None:
            raise DataFileError(source, problem, row=lines(row), column=labels[k], cause=cause)

        if k in text:
            X[:, k] = _text(column, gaps, fail)
            if most is not None and isinstance(column, Words):
                _check_categories(column, labels[k], source, n, most)
        else:
            X[:, k] = _numbers(column, gaps, fail)
        # Each column goes as soon as it is copied.
        columns[k] = None
    return X


def _numbers(column: Column, gaps: bool, fail: Callable) -> np.ndarray:
    values = column
    if isinstance(column, Words):
        values, numeric = numbers_of(column)
        if not numeric.all():
            row = int(np.flatnonzero(~np.append(numeric, True)[column.codes])[0])
            fail(row, cell_problem(column.words[column.codes[row]]), "text")
    infinite = np.isinf(values)
    if infinite.any():
        row = int(np.flatnonzero(infinite)[0])
        fail(row, f"expected a finite number, got {quote(values[row])}", "infinite")
    if not gaps:
        missing = np.isnan(values)
        if missing.any():
            row = int(np.flatnonzero(missing)[0])
            fail(row, "expected a number, got a missing value", "missing")
    return values


def _text(column: Column, gaps: bool, fail: Callable) -> np.ndarray:
    if not isinstance(column, Words):
        missing = np.isnan(column)
        words = [str(int(v)) if float(v).is_integer() else repr(float(v)) for v in column[~missing]]
        cells = np.full(len(column), "", dtype=object)
        cells[~missing] = words
    else:
        missing = column.codes < 0
        cells = np.array([*column.words, ""], dtype=object)[column.codes]
    if missing.any() and not gaps:
        fail(int(np.flatnonzero(missing)[0]), "expected a category, got a missing value", "missing")
    return cells


def _check_categories(column: Words, label: str, source: str, n: int, most: int) -> None:
    if len(column.words) > most and 2 * len(column.words) > n:
        problem = (
            f"{len(column.words)} different texts in {n} rows are names, not categories; "
            f"leave the column out"
        )
        raise DataFileError(source, problem, column=label)
