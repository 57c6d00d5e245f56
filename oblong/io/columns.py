"""What the columns of a table turn out to be: numbers, categories, dates, identifiers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from oblong._core.text import quote
from oblong.io.csv import Columns
from oblong.io.dataset import Schema
from oblong.io.dates import ISO, looks_like_dates, to_days
from oblong.io.dialect import PLAIN, Dialect, Wanted, other_spelling
from oblong.io.errors import DataFileError
from oblong.io.layout import find_column
from oblong.io.mixed_array import MixedArray
from oblong.io.numbers import is_number

# Different texts that a column may hold before it looks like names and not like categories.
_MOST_CATEGORIES = 1000
# The same for a column that nobody has called one of categories.
_MOST_GUESSED = 20
# A number and a unit, such as 12 kg.
_MEASURE = re.compile(r"[+-]?[0-9][0-9.,]*\s*([^\W\d_]+)")
_IDENTIFIER = re.compile(r"(.*[_ .-])?(id|ids|uuid|guid|key|nr|no|index)|.*Id|.*ID", re.ASCII)


def side_by_side(
    layout: Columns,
    features: Sequence[int],
    numbers: Sequence[int],
    X: np.ndarray,
    words: dict[int, tuple[np.ndarray, list[str]]],
    forms: dict[int, str | None],
    source: str,
) -> np.ndarray | MixedArray:
    """One table of the columns `features` of a file.

    The columns `numbers` are in `X`, others in `words`, as codes and the different words. Those of
    `forms` are dates, which become days and leave `words`; `forms` says how they are written, and
    is told if it does not say.
    """
    days = {}
    for j, form in forms.items():
        if j not in words:
            # Columns of dates that have a type are numbers.
            forms[j] = ISO
            continue
        codes, dates = words.pop(j)
        found, forms[j] = to_days(dates, form, source, layout.label(j))
        # The last is that of the code -1.
        days[j] = np.append(found, np.nan)[codes]
    if days or not set(numbers) <= set(features):
        of = {j: X[:, k] for k, j in enumerate(numbers)} | days
        kept = [of[j] for j in features if j in of]
        X = np.column_stack(kept) if kept else X[:, :0]
    text = [k for k, j in enumerate(features) if j in words]
    if not text:
        return X
    codes_of, words_of = zip(*(words[j] for j in features if j in words))
    return MixedArray(X, codes_of, words_of, text)


def finished(
    layout: Columns,
    features: Sequence[int],
    numbers: Sequence[int],
    X: np.ndarray,
    texts: dict[int, tuple[np.ndarray, list[str]]],
    asked: Mapping[str, set[int]],
    wanted: Wanted,
    source: str,
) -> tuple[np.ndarray | MixedArray, Schema, list[str]]:
    """A training table of columns that were read, and what they are.

    `asked` has the columns of categories, of dates and of text that the user has named; other
    columns of `texts` were guessed to be categories. Empty columns are left out, with a note.
    """
    notes = []
    empty = {j for j, (c, _) in texts.items() if j not in asked["dates"] and (c < 0).all()}
    empty |= {j for k, j in enumerate(numbers) if wanted.gaps and np.isnan(X[:, k]).all()}
    features = [j for j in features if j not in empty] or features
    for j in sorted(empty.difference(features)):
        texts.pop(j, None)
        notes.append(f"column {layout.label(j)} is empty and was left out")
    forms: dict[int, str | None] = dict.fromkeys(sorted(asked["dates"]), wanted.date_format)
    table = side_by_side(layout, features, numbers, X, texts, forms, source)
    for j, (codes, words) in texts.items():
        if j not in asked["text"]:
            guessed = j not in asked["categorical"]
            check_categories(words, len(codes), layout.label(j), source, guessed)
    names, place = layout.names, {j: k for k, j in enumerate(features)}
    moved = features != [j for j in range(len(names)) if j not in (layout.target, layout.weight)]
    schema = Schema(
        len(features),
        [names[j] for j in features] if layout.header else None,
        [k for j, k in place.items() if j in texts],
        layout.target_name,
        layout.target,
        hashed=[k for j, k in place.items() if j in asked["text"] and j in texts] or None,
        dates=[[place[j], form] for j, form in forms.items() if j in place] or None,
        places=list(features) if moved else None,
        width=len(names) if moved else None,
        # What is above a table is not that of others.
        dialect=None if (said := replace(wanted.dialect, skip_rows=0)) == PLAIN else said.to_json(),
    )
    return table, schema, notes


def asked_columns(
    names: list[str], wanted: Wanted, target: int | None, source: str
) -> dict[str, set[int]]:
    """Columns that are something because the user says so."""
    asked = {
        what: {find_column(names, name, source) for name in columns}
        for what, columns in wanted.named().items()
    }
    del asked["drop"]
    for what, columns in asked.items():
        if target in columns:
            raise DataFileError(source, "the label column is not a feature; leave it out")
        for other, others in asked.items():
            if what != other and columns & others:
                name = quote(names[min(columns & others)])
                raise DataFileError(source, f"column {name} is named for {what} and for {other}")
    return asked


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
        advice = "leave the column out with drop= or split it into words with text="
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
