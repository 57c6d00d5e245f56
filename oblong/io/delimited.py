"""Tables of delimited text as a whole: which columns are what, and their content."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from oblong._core.text import quote
from oblong.io.cells import peek_records
from oblong.io.columns import finished, mostly_text
from oblong.io.csv import Columns, Csv
from oblong.io.dataset import Schema
from oblong.io.dialect import Dialect, Wanted
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
        X, texts, codes = all_columns(rows, made)
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
    notes = []
    if rows.first_skipped is not None:
        count = rows.skipped
        skipped = "1 bad row was skipped" if count == 1 else f"{count:,} bad rows were skipped"
        notes.append(f"{skipped}, the first is {rows.first_skipped}")
    empty = {j for j, (c, _) in texts.items() if j not in asked["dates"] and (c < 0).all()}
    if made.gaps:
        empty |= {j for k, j in enumerate(made.numbers) if np.isnan(X[:, k]).all()}
    features = [j for j in made.features if j not in empty] or made.features
    for j in sorted(empty.difference(features)):
        texts.pop(j, None)
        notes.append(f"column {layout.label(j)} is empty and was left out")
    table, schema = finished(layout, features, made.numbers, X, texts, asked, wanted, lines.source)
    return labels, table, codes, schema, notes


def all_columns(
    reader: Rows, made: Csv
) -> tuple[np.ndarray, dict[int, tuple[np.ndarray, list[str]]], np.ndarray]:
    """All rows: numbers, codes of words and the different words by column, and labels."""
    with reader as rows:
        batches: list[Batch] = list(rows)
    if not batches:
        problem = "all rows are bad, the first is " + (reader.first_skipped or "missing")
        raise DataFileError(reader.source, problem)
    codes = stacked(batch.codes for batch in batches)
    texts = {
        j: (stacked(b.words[k] for b in batches if b.words is not None), made.vocabularies[k].words)
        for k, j in enumerate(made.word_columns)
    }
    values = [batch.values for batch in batches]
    batches.clear()
    X = stacked(values, len(made.numbers)) if made.numbers else np.empty((len(codes), 0))
    return X, texts, codes


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
