"""Rows to predict: the columns of a model, wherever they are in a file."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong._core.text import quote
from oblong.io.arrow import open_parquet
from oblong.io.columns import side_by_side
from oblong.io.csv import Columns, Csv
from oblong.io.dataset import Matrix, Schema
from oblong.io.delimited import all_columns
from oblong.io.dialect import PLAIN, Dialect
from oblong.io.errors import DataFileError
from oblong.io.formats import Format
from oblong.io.jsonl import JSON
from oblong.io.layout import find_column, find_format, make_format, skip_to_rows, table_columns
from oblong.io.mixed_array import MixedArray
from oblong.io.objects import TranscriptLines, transcribe
from oblong.io.rows import Rows
from oblong.io.sources import AnyPath, LineBuffer, source_name
from oblong.io.tables import all_entries, look, npz, parquet_columns


def read_rows(
    path: AnyPath, schema: Schema, *, gaps: bool = False, dialect: Dialect | None = None
) -> Matrix | MixedArray:
    """Read rows to predict: the columns of a model, wherever they are in the file.

    Columns with names are found by them, in any order, and others are passed over. Without names
    there are as many columns as features, or one more, the labels, where they were in training.

    Parameters
    ----------
    path : str or path-like
        The file; ``"-"`` is standard input.
    schema : Schema
        The columns of the model.
    gaps : bool, default=False
        Whether cells may be empty.
    dialect : Dialect, optional
        How delimited text is written; by default as in training.

    Returns
    -------
    ndarray, csr_matrix or MixedArray of shape (n_rows, n_features)
        The rows; mixed if columns hold text.
    """
    if dialect is None:
        dialect = PLAIN if schema.dialect is None else Dialect.from_json(schema.dialect)
    # What is predicted has as many lines as there are rows.
    dialect = replace(dialect, skip_bad=False)
    kind, content = look(path, dialect.encoding)
    source = source_name(path)
    if kind == "npz":
        return of_width(npz(path, content, labelled=False, gaps=gaps).X, schema, source)
    if kind == "parquet":
        table = open_parquet(path, content)
        names = table.column_names
        places = _places(names, list(range(len(names))), schema, True, source)
        words = {places[k] for k in schema.text or ()}
        forms: dict[int, str | None] = {places[k]: form for k, form in schema.dates or ()}
        found = parquet_columns(table, places, words, forms, gaps, source)
        return side_by_side(Columns(names, True, None, ","), places, *found, forms, source)
    if kind == "json":
        return _objects(path, content, schema, gaps, dialect)
    with LineBuffer(path, content, dialect.encoding) as lines:
        if kind == "libsvm":
            if schema.target_position is not None:
                raise DataFileError(source, "expected a table, as in training, got LIBSVM rows")
            made = make_format(kind, lines, zero_based=schema.zero_based)
            # Features that the model never saw have no part in it.
            return all_entries(Rows(lines, made, None), schema.n_features)[0]
        columns = table_columns(
            lines,
            delimiter="\t" if kind == "tsv" else dialect.delimiter,
            header=False if schema.text and schema.feature_names is None else None,
            labelled=False,
            expected=schema.feature_names,
            skip_rows=dialect.skip_rows,
        )
        return _table(lines, columns, schema, gaps, dialect)


def _objects(
    path: AnyPath, content: bytes | None, schema: Schema, gaps: bool, dialect: Dialect
) -> Matrix | MixedArray:
    """JSON objects: a table, or sparse rows where those of training were sparse."""
    if schema.feature_names is None:
        source = source_name(path)
        raise DataFileError(source, "expected rows without names, as in training")
    names = list(dict.fromkeys(schema.feature_names))
    if schema.sparse:
        vocabulary = {name: j for j, name in enumerate(names)}
        with LineBuffer(path, content, dialect.encoding) as lines:
            skip_to_rows(lines)
            made = JSON(0, len(names), target=None, vocabulary=vocabulary, labelled=False)
            return all_entries(Rows(lines, made, None), schema.n_features)[0]
    # A row of one empty cell would be an empty line.
    columns = Columns([*names, ""], True, None, ",", dropped=(len(names),))
    transcript = transcribe(path, content, dialect.encoding, columns.names)
    # Numbers are written as JSON has them.
    dialect = Dialect(missing=dialect.missing)
    with TranscriptLines(path, transcript) as lines:
        return _table(lines, columns, schema, gaps, dialect)


def _table(
    lines: LineBuffer, columns: Columns, schema: Schema, gaps: bool, dialect: Dialect
) -> np.ndarray | MixedArray:
    """The rows of a table of text."""
    places = _places(columns.names, columns.features, schema, columns.header, lines.source)
    forms: dict[int, str | None] = {places[k]: form for k, form in schema.dates or ()}
    words = {places[k] for k in schema.text or ()} | forms.keys()
    made = Csv(0, columns, features=places, words=words, gaps=gaps, dialect=dialect)
    X, texts, _ = all_columns(Rows(lines, made, None), made)
    return side_by_side(columns, places, made.numbers, X, texts, forms, lines.source)


def of_width(X: Matrix, schema: Schema, source: str) -> Matrix:
    """Rows with as many features as in training; others are an error."""
    if X.shape[1] != schema.n_features:
        problem = f"expected {schema.n_features} features as in training, got {X.shape[1]}"
        raise DataFileError(source, problem)
    return X


def _places(
    names: list[str], columns: list[int], schema: Schema, named: bool, source: str
) -> list[int]:
    """Positions of the model's features among some columns of a file."""
    n, target = schema.n_features, schema.target_position
    if schema.feature_names is not None and named:
        if len(columns) == n + 1 and target in columns and names[target] == schema.target:
            columns = [j for j in columns if j != target]
        return _by_name(names, columns, schema.feature_names, source)
    if schema.places is not None and len(names) == schema.width:
        return schema.places
    if len(columns) == n + 1:
        # The labels are there too.
        place = columns[-1] if target is None else target
        return [j for j in columns if j != place]
    if len(columns) != n:
        problem = f"expected {n} columns as in training, or the labels too, got {len(columns)}"
        raise DataFileError(source, problem)
    return columns


def _by_name(names: list[str], columns: list[int], wanted: list[str], source: str) -> list[int]:
    """Positions of columns by name; those that share one are taken in their order."""
    found: dict[str, list[int]] = {}
    for j in columns:
        found.setdefault(names[j], []).append(j)
    for name, count in Counter(wanted).items():
        have = len(found.get(name, ()))
        if have != count:
            if count == 1:
                # Raises, with what is wrong.
                find_column(names, name, source)
            problem = f"expected {count} columns named {quote(name)}, got {have}"
            raise DataFileError(source, problem)
    places = {name: iter(positions) for name, positions in found.items()}
    return [next(places[name]) for name in wanted]


def read_hashed_rows(path: AnyPath, hashing: dict[str, Any]) -> Any:
    """Read rows of text as the stream did that a model has learned from.

    Parameters
    ----------
    path : str or path-like
        The file; ``"-"`` is standard input.
    hashing : dict
        The number of bits, ``"bits"``, columns of texts, ``"text"``, and the names of columns that
        are no features, ``"others"``, which may be there or not.

    Returns
    -------
    csr_matrix of shape (n_rows, 2 ** bits)
        The rows.
    """
    bits, texts, others = int(hashing["bits"]), hashing["text"], set(hashing["others"])
    with LineBuffer(path) as lines:
        kind = find_format(path, lines)
        made: Format
        if kind == "json":
            label = hashing["others"][0] if others else None
            made = JSON(bits, 0, target=label, vocabulary={}, labelled=False, texts=texts)
        elif kind == "libsvm":
            made = make_format(kind, lines, bits=bits)
        elif kind in ("csv", "tsv"):
            delimiter = "\t" if kind == "tsv" else None
            columns = table_columns(lines, delimiter=delimiter, labelled=False)
            known = [j for j in columns.features if columns.names[j] not in others]
            made = Csv(bits, columns, features=known, texts=texts)
        else:
            raise DataFileError(lines.source, f"expected rows of text, got {quote(kind)}")
        parts = [batch.matrix(1 << bits) for batch in Rows(lines, made, None)]
    if not parts:
        raise DataFileError(lines.source, "expected rows, got none")
    return sp.vstack(parts, format="csr")
