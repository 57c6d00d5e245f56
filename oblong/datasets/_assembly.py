"""Checked columns side by side: the array that a classifier takes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oblong.datasets._columns import Column, Words, numbers_of, whole_of
from oblong.datasets._dataset import DataFileError, quote
from oblong.datasets._delimited import cell_problem
from oblong.datasets._mixed import MixedArray

__all__ = ["assemble"]

# Rows that are checked at a time.
_ROWS = 1024


def assemble(
    columns: list[Column],
    labels: list[str],
    text: set[int],
    gaps: bool,
    source: str,
    lines: Callable[[int], int],
    most: int | None = None,
) -> np.ndarray | MixedArray:
    """Put columns side by side, each checked."""
    numbers = [k for k in range(len(columns)) if k not in text]
    whole = whole_of([columns[k] for k in numbers])
    checked = whole is not None and _sound(whole, gaps)
    first = columns[0]
    n = len(first.codes if isinstance(first, Words) else first)
    X = whole if checked else np.empty((n, len(numbers)))
    words: list[Words] = []
    for k, column in enumerate(columns):

        def fail(row: int, problem: str, cause: str, k: int = k) -> None:
            raise DataFileError(source, problem, row=lines(row), column=labels[k], cause=cause)

        if k in text:
            words.append(_text(column, gaps, fail))
            if most is not None and isinstance(column, Words):
                _check_categories(column, labels[k], source, n, most)
        elif not checked:
            X[:, k - len(words)] = _numbers(column, gaps, fail)
        # Each column goes as soon as it is copied.
        columns[k] = None
    if not text:
        return X
    return MixedArray(X, [w.codes for w in words], [w.words for w in words], sorted(text))


def _sound(X: np.ndarray, gaps: bool) -> bool:
    """Whether an array may be taken as it is; it may also be where this says no."""
    if not gaps:
        # A finite sum has finite terms; those of others are looked at one by one.
        with np.errstate(all="ignore"):
            return bool(np.isfinite(X.sum()))
    X = X if X.flags.c_contiguous else X.T
    return not any(np.isinf(X[k : k + _ROWS]).any() for k in range(0, len(X), _ROWS))


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


def _text(column: Column, gaps: bool, fail: Callable) -> Words:
    if not isinstance(column, Words):
        # Missing values are as many different ones, and the last.
        values, codes = np.unique(column, return_inverse=True)
        values = values[~np.isnan(values)]
        codes = np.where(codes < len(values), codes, -1)
        words = [str(int(v)) if float(v).is_integer() else repr(float(v)) for v in values]
        column = Words(codes, words)
    missing = np.flatnonzero(column.codes < 0)
    if missing.size and not gaps:
        fail(int(missing[0]), "expected a category, got a missing value", "missing")
    return column


def _check_categories(column: Words, label: str, source: str, n: int, most: int) -> None:
    if len(column.words) > most and 2 * len(column.words) > n:
        problem = (
            f"{len(column.words)} different texts in {n} rows are names, not categories; "
            f"leave the column out"
        )
        raise DataFileError(source, problem, column=label)
