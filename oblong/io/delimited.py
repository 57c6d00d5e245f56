"""Tables of delimited text: which columns hold what, settled by a second reading if need be."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from oblong._core.text import quote
from oblong.io.cells import PADDED, peek_records
from oblong.io.columns import asked_columns, finished, mostly_text
from oblong.io.csv import Columns, Csv
from oblong.io.dataset import Matrix, Schema
from oblong.io.dialect import Dialect, Wanted
from oblong.io.errors import DataFileError
from oblong.io.facts import Padded
from oblong.io.labels import LabelCodes
from oblong.io.layout import find_column, json_target, table_columns
from oblong.io.mixed_array import MixedArray
from oblong.io.objects import Survey, TranscriptLines, transcribe
from oblong.io.rows import Batch, Rows
from oblong.io.sources import AnyPath, LineBuffer, source_name

# Rows that are looked at before the whole is read.
_SAMPLE = 200


class Found(NamedTuple):
    """What was read of a labelled table.

    Attributes
    ----------
    X : ndarray, csr_matrix or MixedArray
        The features.
    codes : ndarray of int
        Codes of the labels.
    labels : LabelCodes
        The labels.
    schema : Schema
        What the columns are.
    notes : list of str
        What may not be as it was meant.
    padded : tuple of Padded
        Columns of numbers with leading zeros.
    lines : dict of int to int
        The lines in which labels first came, by code.
    """

    X: Matrix | MixedArray
    codes: np.ndarray
    labels: LabelCodes
    schema: Schema
    notes: list[str]
    padded: tuple[Padded, ...] = ()
    lines: dict[int, int] = {}  # noqa: RUF012


def _opened(
    path: AnyPath, kind: str, content: bytes | None, wanted: Wanted
) -> tuple[LineBuffer, Columns]:
    """The rows of a table, and its columns."""
    dialect = wanted.dialect
    lines = LineBuffer(path, content, dialect.encoding)
    try:
        delimiter = "\t" if kind == "tsv" else dialect.delimiter
        how: dict[str, Any] = {"target": wanted.target, "drop": wanted.drop}
        how |= {"skip_rows": dialect.skip_rows}
        return lines, table_columns(lines, delimiter=delimiter, **how)
    except BaseException:
        lines.close()
        raise


def read_delimited(path: AnyPath, kind: str, content: bytes | None, wanted: Wanted) -> Found:
    """Read a table of delimited text."""
    return read_rows_of_text(partial(_opened, path, kind, content, wanted), wanted)


def read_objects(path: AnyPath, content: bytes | None, wanted: Wanted, found: Survey) -> Found:
    """Read JSON objects as a table; `found` is a survey of them."""
    source, names = source_name(path), list(found.counts)
    transcript = transcribe(path, content, wanted.dialect.encoding, names)
    target = wanted.target or json_target(names, source)
    dropped = tuple(find_column(names, name, source) for name in wanted.drop)
    layout = Columns(names, True, find_column(names, target, source), ",", dropped=dropped)
    if layout.target in dropped:
        raise DataFileError(source, "the label column cannot be left out")
    if not layout.features:
        raise DataFileError(source, "expected features after the labels, got none")
    # Numbers are written as JSON has them.
    dialect = Dialect(missing=wanted.dialect.missing, skip_bad=wanted.dialect.skip_bad)
    wanted = replace(wanted, target=target, dialect=dialect)
    return read_rows_of_text(lambda: (TranscriptLines(path, transcript), layout), wanted)


def read_rows_of_text(opened: Callable[[], tuple[LineBuffer, Columns]], wanted: Wanted) -> Found:
    """Read a table, twice if it turns out that other columns hold text than seemed to."""
    guess, sure = wanted.categorical == "auto", False
    dialect = wanted.dialect
    asked: dict[str, set[int]] | None = None
    guessed: set[int] = set()
    while True:
        lines, layout = opened()
        with lines:
            if asked is None:
                asked = asked_columns(layout.names, wanted, layout.target, lines.source)
                known = set().union(*asked.values())
                guessed = _looks_like_text(lines, layout, dialect) - known if guess else set()
            words = guessed.union(*asked.values())
            how: dict[str, Any] = {"gaps": wanted.gaps, "dialect": dialect}
            made = Csv(0, layout, words=words, undecided=guess and not sure, **how)
            made.survey()
            labels = LabelCodes()
            rows = Rows(lines, made, labels, dialect.skip_bad)
            rows.look_for_labels(wanted.target)
            X, texts, codes = all_columns(rows, made)
        if not guess or sure:
            break
        mistaken = {j for j in guessed if not mostly_text(*texts[j], dialect)}
        _check_strays(made, X, lines.source)
        if not mistaken and not made.strays:
            break
        # The second time, words among numbers are an error that has a line.
        guessed, sure = (guessed - mistaken) | set(made.strays), True
    padded = [Padded(layout.label(j), *e) for (j, k), e in made.kinds.items() if k == PADDED]
    columns = (layout, made.features, made.numbers, X, texts)
    table, schema, notes = finished(*columns, asked, wanted, lines.source)
    notes = [*notes_on_skipped(rows), *_notes_on_points(made, lines.source), *notes]
    return Found(table, codes, labels, schema, notes, tuple(padded), rows.label_lines)


def _notes_on_points(made: Csv, source: str) -> list[str]:
    """Say how numbers such as 2.033 were read; an error where their column speaks against it."""
    notes = []
    for column, text, row, likely in made.doubtful_points():
        label, value = made.layout.label(column), text.replace(".", "")
        if likely:
            problem = f"{quote(text)} may be {value} or a number with decimals"
            advice = "thousands= . reads groups of three digits, decimal= . reads decimals"
            raise DataFileError(source, problem, row=row, column=label, advice=advice)
        notes.append(
            f"column {label}: {text} is read as a number with decimals; if it means {value}, give "
            "thousands= ."
        )
    return notes


def _check_strays(made: Csv, X: np.ndarray, source: str) -> None:
    """Refuse words in columns of which most cells are numbers."""
    for j, (count, stray, line) in made.strays.items():
        if 2 * count <= np.isfinite(X[:, made.numbers.index(j)]).sum() + count:
            place: dict[str, Any] = {"row": line, "column": made.layout.label(j)}
            place |= {"cause": stray.cause, "advice": stray.advice}
            raise DataFileError(source, str(stray), **place)


def notes_on_skipped(rows: Rows) -> list[str]:
    """How many rows were skipped, and what is wrong with the first."""
    if rows.first_skipped is None:
        return []
    count = rows.skipped
    skipped = "1 bad row was skipped" if count == 1 else f"{count:,} bad rows were skipped"
    return [f"{skipped}, the first is {rows.first_skipped}"]


def all_batches(rows: Rows) -> list[Batch]:
    """All rows; none at all is an error."""
    batches = list(rows)
    if not batches:
        problem = "all rows are bad, the first is " + (rows.first_skipped or "missing")
        raise DataFileError(rows.source, problem)
    return batches


def all_columns(
    rows: Rows, made: Csv
) -> tuple[np.ndarray, dict[int, tuple[np.ndarray, list[str]]], np.ndarray]:
    """All rows: numbers, codes of words and the different words by column, and labels."""
    batches = all_batches(rows)
    codes = stacked(batch.codes for batch in batches)
    texts = {
        j: (stacked(b.words[k] for b in batches if b.words is not None), made.vocabularies[k].words)
        for k, j in enumerate(made.word_columns)
    }
    values = [batch.values for batch in batches]
    batches.clear()
    X = stacked(values, len(made.numbers)) if made.numbers else np.empty((len(codes), 0))
    return X, texts, codes


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
