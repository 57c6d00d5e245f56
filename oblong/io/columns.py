"""What the columns of a table turn out to be: numbers, categories, dates, identifiers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from oblong._core.text import quote
from oblong.io.dates import looks_like_dates, to_days
from oblong.io.dialect import Dialect, other_spelling
from oblong.io.errors import DataFileError
from oblong.io.mixed import MixedArray
from oblong.io.numbers import is_number

# Different texts that a column may hold before it looks like names and not like categories.
_MOST_CATEGORIES = 1000
# The same for a column that nobody has called one of categories.
_MOST_GUESSED = 20
# A number and a unit, such as 12 kg.
_MEASURE = re.compile(r"[+-]?[0-9][0-9.,]*\s*([^\W\d_]+)")
_IDENTIFIER = re.compile(r"(.*[_ .-])?(id|ids|uuid|guid|key|nr|no|index)|.*Id|.*ID", re.ASCII)


def side_by_side(
    features: Sequence[int],
    numbers: Sequence[int],
    X: np.ndarray,
    words: Mapping[int, tuple[np.ndarray, Sequence[str]]],
    days: Mapping[int, np.ndarray],
) -> np.ndarray | MixedArray:
    """One table of the columns `features` of a file.

    The columns `numbers` are in `X`, those of words in `words`, as codes and the different words,
    and those of dates in `days`.
    """
    text = [k for k, j in enumerate(features) if j in words]
    if days or not set(numbers) <= set(features):
        of = {j: X[:, k] for k, j in enumerate(numbers)} | dict(days)
        kept = [of[j] for j in features if j in of]
        X = np.column_stack(kept) if kept else X[:, :0]
    if not text:
        return X
    found = [words[j] for j in features if j in words]
    return MixedArray(X, [codes for codes, _ in found], [list(w) for _, w in found], text)


def dated(
    codes: np.ndarray, words: Sequence[str], form: str | None, source: str, label: str
) -> tuple[np.ndarray, str]:
    """Days of a column of dates, nan where there is none, and how they are written."""
    days, form = to_days(words, form, source, label)
    return np.append(days, np.nan)[codes], form


def mostly_text(codes: np.ndarray, words: list[str], dialect: Dialect) -> bool:
    """Whether fewer than half of the cells that are not empty are numbers."""
    counts = np.bincount(codes + 1, minlength=len(words) + 1)[1:]
    numeric = np.array([dialect.is_number(word) for word in words], dtype=bool)
    return bool(2 * counts[numeric].sum() < counts.sum())


def check_categories(words: Sequence[str], n: int, label: str, source: str, guessed: bool) -> None:
    """Refuse a column that is not one of categories.

    A column that was only guessed to be one must not be numbers or dates written another way, which
    one column per value would learn by heart.
    """
    count = len(words)
    if guessed:
        odd = [w for w in words if not is_number(w) and other_spelling(w) is not None]
        measures = [found for word in words if (found := _MEASURE.fullmatch(word))]
        if count > _MOST_GUESSED and len({found[1] for found in measures}) == 1:
            odd += [found[0] for found in measures]
        if 2 * len(odd) > count:
            problem = f"the cells look like numbers in another notation, such as {quote(odd[0])}"
            advice = other_spelling(odd[0]) or "write the number without its unit"
            advice += ", or categorical= takes them as words"
            raise DataFileError(source, problem, column=label, advice=advice)
        if looks_like_dates(words):
            problem = f"the cells look like dates, such as {quote(words[0])}"
            advice = "dates= reads them, or categorical= takes them as words"
            raise DataFileError(source, problem, column=label, advice=advice)
    if 2 * count > n and count > (_MOST_GUESSED if guessed else _MOST_CATEGORIES):
        problem = f"{count} different texts in {n} rows are names, not categories"
        advice = "leave the column out with drop= or take its words with text="
        raise DataFileError(source, problem, column=label, advice=advice)


def notes_on_numbers(X: np.ndarray, labels: Sequence[str], names: Sequence[str]) -> list[str]:
    """What is odd about columns of numbers: identifiers used as features."""
    notes = []
    for column, label, name in zip(X.T, labels, names):
        if len(column) < _MOST_GUESSED or not np.all(column == np.floor(column)):
            continue
        different = len(np.unique(column)) == len(column)
        counts = different and np.ptp(column) == len(column) - 1
        if counts or (different and _IDENTIFIER.fullmatch(name)):
            what = "counts the rows" if counts else "has another value in every row"
            notes.append(
                f"column {label} {what}, like an identifier; if it is one, leave it out with drop="
            )
    return notes


def notes_on_labels(names: Sequence[str]) -> list[str]:
    """Labels that differ in nothing but the case of their letters."""
    seen: dict[str, str] = {}
    notes = []
    for name in names:
        other = seen.setdefault(name.strip().casefold(), name)
        if other is not name:
            notes.append(f"the labels {quote(other)} and {quote(name)} are two classes")
    return notes
