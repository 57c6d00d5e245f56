"""Tables of delimited text as a whole: which columns are what, and their content."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from oblong._core.text import quote
from oblong.io.cells import peek_records
from oblong.io.columns import check_categories, dated, mostly_text, side_by_side
from oblong.io.csv import Columns, Csv
from oblong.io.dataset import Schema
from oblong.io.dialect import PLAIN, Dialect, Wanted
from oblong.io.errors import DataFileError
from oblong.io.labels import LabelCodes
from oblong.io.layout import find_column, table_columns
from oblong.io.mixed import MixedArray
from oblong.io.rows import Batch, Rows
from oblong.io.sources import AnyPath, LineBuffer

# Rows that are looked at before the whole is read.
_SAMPLE = 200


def read_delimited(
    path: AnyPath, kind: str, content: bytes | None, wanted: Wanted
) -> tuple[LabelCodes, np.ndarray | MixedArray, np.ndarray, Schema, list[str]]:
    """Read a table, twice if it turns out that other columns hold text than seemed to."""
    guess, sure = wanted.categorical == "auto", False
    dialect = wanted.dialect
    asked: dict[str, set[int]] | None = None
    guessed: set[int] = set()
    while True:
        lines = LineBuffer(path, content, dialect.encoding)
        try:
            layout = table_columns(
                lines,
                target=wanted.target,
                delimiter="\t" if kind == "tsv" else dialect.delimiter,
                drop=wanted.drop,
            )
            if asked is None:
                asked = asked_columns(layout.names, wanted, layout.target, lines.source)
                known = set().union(*asked.values())
                guessed = _looks_like_text(lines, layout, dialect) - known if guess else set()
            words = guessed.union(*asked.values())
            how: dict[str, Any] = {"gaps": wanted.gaps, "dialect": dialect}
            made = Csv(0, layout, words=words, undecided=guess and not sure, **how)
        except BaseException:
            lines.close()
            raise
        labels = LabelCodes()
        rows = Rows(lines, made, labels, dialect.skip_bad)
        rows.look_for_labels(wanted.target)
        X, found, codes = all_columns(rows, made)
        texts = {
            j: (known, vocabulary.words)
            for j, known, vocabulary in zip(made.word_columns, found, made.vocabularies)
        }
        if not guess or sure:
            break
        mistaken = {j for j in guessed if not mostly_text(*texts[j], dialect)}
        for j, (count, stray, line) in made.strays.items():
            if 2 * count <= np.isfinite(X[:, made.numbers.index(j)]).sum() + count:
                place: dict[str, Any] = {"row": line, "column": layout.label(j)}
                place |= {"cause": stray.cause, "advice": stray.advice}
                raise DataFileError(lines.source, str(stray), **place)
        if not mistaken and not made.strays:
            break
        # The second time, words among numbers are an error that has a line.
        guessed, sure = (guessed - mistaken) | set(made.strays), True
    days, forms = {}, {}
    for j in asked["dates"]:
        days[j], forms[j] = dated(*texts.pop(j), wanted.date_format, lines.source, layout.label(j))
    for j, (_, words_of) in texts.items():
        if j not in asked["text"]:
            label = layout.label(j)
            check_categories(words_of, len(codes), label, lines.source, j in guessed)
    notes = []
    if rows.first_skipped is not None:
        count = rows.skipped
        skipped = "1 bad row was skipped" if count == 1 else f"{count:,} bad rows were skipped"
        notes.append(f"{skipped}, the first is {rows.first_skipped}")
    features = _with_content(made, X, texts, layout, notes)
    schema = _schema(layout, features, texts, forms, asked["text"], dialect)
    return labels, side_by_side(features, made.numbers, X, texts, days), codes, schema, notes


def _with_content(
    made: Csv, X: np.ndarray, texts: dict[int, Any], layout: Columns, notes: list[str]
) -> list[int]:
    """The features of which some cell is not empty."""
    empty = {j for j, (codes, _) in texts.items() if (codes < 0).all()}
    if made.gaps:
        empty |= {j for k, j in enumerate(made.numbers) if np.isnan(X[:, k]).all()}
    features = [j for j in made.features if j not in empty]
    if not features:
        return made.features
    for j in sorted(empty):
        texts.pop(j, None)
        notes.append(f"column {layout.label(j)} is empty and was left out")
    return features


def _schema(
    layout: Columns,
    features: list[int],
    texts: dict[int, Any],
    forms: dict[int, str],
    hashed: set[int],
    dialect: Dialect,
) -> Schema:
    names, place = layout.names, {j: k for k, j in enumerate(features)}
    moved = features != [j for j in range(len(names)) if j not in (layout.target, layout.weight)]
    return Schema(
        len(features),
        [names[j] for j in features] if layout.header else None,
        [k for j, k in place.items() if j in texts],
        names[layout.target] if layout.header and layout.target is not None else None,
        layout.target,
        hashed=[k for j, k in place.items() if j in hashed and j in texts] or None,
        dates=[[place[j], form] for j, form in forms.items()] or None,
        places=features if moved else None,
        width=len(names) if moved else None,
        dialect=None if dialect == PLAIN else dialect.to_json(),
    )


def all_columns(reader: Rows, made: Csv) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """All rows: numbers, codes of words by column, and labels."""
    with reader as rows:
        batches: list[Batch] = list(rows)
    if not batches:
        problem = "all rows are bad, the first is " + (reader.first_skipped or "missing")
        raise DataFileError(reader.source, problem)
    codes = stacked(batch.codes for batch in batches)
    words = [
        stacked(b.words[k] for b in batches if b.words is not None)
        for k in range(len(made.word_columns))
    ]
    values = [batch.values for batch in batches]
    batches.clear()
    X = stacked(values, len(made.numbers)) if made.numbers else np.empty((len(codes), 0))
    return X, words, codes


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


def _looks_like_text(lines: LineBuffer, layout: Columns, dialect: Dialect) -> set[int]:
    """Features that are not all numbers in the first rows."""
    return {
        j
        for _, cells in peek_records(lines, layout.delimiter, _SAMPLE)
        for j in layout.features
        if j < len(cells) and not dialect.is_number(cells[j]) and not dialect.is_missing(cells[j])
    }


def stacked(parts: Iterable[Any], columns: int = 0) -> np.ndarray:
    """Join parts, each of which goes as soon as it is copied."""
    found = list(parts)
    if len(found) == 1:
        return found[0].reshape(-1, columns) if columns else found[0]
    whole = np.empty(sum(part.size for part in found), dtype=found[0].dtype)
    end = whole.size
    while found:
        part = found.pop()
        whole[end - part.size : end] = part
        end -= part.size
    return whole.reshape(-1, columns) if columns else whole
