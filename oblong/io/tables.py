"""Labelled tables as a whole."""

import os
from collections.abc import Collection, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong._core.text import quote
from oblong.io.arrow import arrow_labels, arrow_numbers, arrow_words, holds_text, open_parquet
from oblong.io.columns import asked_columns, finished, notes_on_labels, notes_on_numbers
from oblong.io.csv import Columns
from oblong.io.dataset import Dataset, Matrix, Schema, Table
from oblong.io.delimited import (
    Found,
    all_batches,
    notes_on_skipped,
    read_delimited,
    read_objects,
    stacked,
)
from oblong.io.dialect import Dialect, Wanted
from oblong.io.errors import DataFileError, advice_for
from oblong.io.facts import Facts, Sentinel, find_sentinels, lone_classes
from oblong.io.jsonl import JSON
from oblong.io.labels import LabelCodes
from oblong.io.layout import (
    MOST_COLUMNS,
    find_column,
    find_format,
    json_target,
    make_format,
    skip_to_rows,
)
from oblong.io.libsvm import LIBSVM
from oblong.io.mixed_array import MixedArray
from oblong.io.npz import read_npz
from oblong.io.objects import survey
from oblong.io.rows import Rows
from oblong.io.sources import AnyPath, LineBuffer, read_bytes, source_name

_DIALECT = [each.name for each in fields(Dialect)]


@advice_for("target", "zero_based", *_DIALECT)
def read_table(
    path: AnyPath, target: str | None = None, *, zero_based: bool | None = None, **dialect: Any
) -> Dataset:
    """Read a labelled table.

    The format follows from the extension: CSV (``.csv``, ``.tsv``), JSON lines (``.jsonl``),
    Parquet (``.parquet``), NPZ (``.npz``, see :func:`oblong.datasets.load`), or LIBSVM / SVMlight
    (``.libsvm``, ``.svmlight``, ``.svm``), of which the features come back as a CSR matrix, as do
    those of JSON lines if most names are absent from most objects. Each may be compressed as
    ``.gz`` or ``.zst``. For other extensions and for standard input the content decides.

    Parameters
    ----------
    path : str or path-like
        The file; ``"-"`` is standard input.
    target : str, optional
        Name of the label column of a CSV or Parquet file, the last column by default. In a CSV
        file without a header it is the number of the column, counted from 1.
    zero_based : bool, default=None
        Whether the indices of LIBSVM rows count from 0; by default they do if the first of the
        first row is 0.
    **dialect
        How delimited text is written: ``delimiter``, which separates columns (inferred by default);
        ``decimal`` (".") and ``thousands`` (none), the marks in numbers; ``encoding`` ("utf-8");
        ``missing``, further words or numbers that mean a missing value; ``skip_rows``, the number
        of lines above the header; ``skip_bad``, whether rows that are wrong are left out.

    Returns
    -------
    Dataset
        Features are finite floats; labels are integers if all of them are, else strings.

    Raises
    ------
    DataFileError
        In one line: the file, the row (of text: the line, counted from 1), the column and what
        was expected there.

    Examples
    --------
    >>> import os, tempfile
    >>> from oblong import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "fruit.csv")
    ...     with open(path, "w") as file:
    ...         print("weight,length,kind", file=file)
    ...         print("150,7,apple", file=file)
    ...         print("120,19,banana", file=file)
    ...     fruit = read_table(path)
    >>> fruit.feature_names, fruit.target_names
    (('weight', 'length'), ('apple', 'banana'))
    >>> fruit.X
    array([[150.,   7.],
           [120.,  19.]])
    """
    unknown = dialect.keys() - set(_DIALECT)
    if unknown:
        raise TypeError(f"read_table() got an unexpected keyword argument {min(unknown)!r}")
    if "decimal" in dialect:
        # Who says how decimals are written has no doubts.
        dialect = {"thousands": ""} | dialect
    wanted = Wanted(target, dialect=Dialect(**dialect))
    kind, content = look(path, wanted.dialect.encoding)
    if kind == "npz":
        return npz(path, content, target=target)
    table = _training_table(path, kind, content, wanted, zero_based)
    names = table.schema.feature_names
    return Dataset(
        table.X, table.y, None if names is None else tuple(names), table.target_names, table.name
    )


def read_training_table(
    path: AnyPath, target: str | None = None, *, zero_based: bool | None = None, **columns: Any
) -> Table:
    r"""Read a labelled table for training.

    Parameters
    ----------
    path : str or path-like
        The file, in any of the formats of :func:`read_table`; ``"-"`` is standard input.
    target : str, optional
        Label column, by name or, without a header, by its number from 1; the last by default.
    zero_based : bool, default=None
        Whether the indices of LIBSVM rows count from 0; by default they do if the first of the
        first row is 0.
    **columns
        What the columns are: the other attributes of :class:`~oblong.io.dialect.Wanted`.

    Returns
    -------
    Table
        The table.

    Raises
    ------
    DataFileError
        In one line: the file, the row, the column and what was expected there.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from oblong.io.tables import read_training_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "fruit.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("weight,colour,kind\n150,red,apple\n,yellow,banana\n")
    ...     fruit = read_training_table(path, categorical="auto", gaps=True)
    >>> np.asarray(fruit.X)
    array([[150.0, 'red'],
           [nan, 'yellow']], dtype=object)
    """
    wanted = Wanted(target, **columns)
    kind, content = look(path, wanted.dialect.encoding)
    wanted.check_format(kind, source_name(path))
    if kind == "npz":
        return Table.of(npz(path, content, target=target, gaps=wanted.gaps))
    return _training_table(path, kind, content, wanted, zero_based)


def look(path: AnyPath, encoding: str | None = None) -> tuple[str, bytes | None]:
    """The format, and the content of what can be read only once."""
    once = path == "-" or (os.path.exists(path) and not os.path.isfile(path))
    content = read_bytes(path) if once else None
    kind = find_format(path)
    if kind is None:
        with LineBuffer(path, content, encoding) as lines:
            kind = find_format(path, lines)
    assert kind is not None
    return kind, content


def npz(path: AnyPath, content: bytes | None, *, target: str | None = None, **how: bool) -> Dataset:
    """Read an NPZ archive; see :func:`~oblong.io.npz.read_npz`."""
    source = source_name(path)
    if target is not None:
        problem = 'the target of this format is the array "y"'
        raise DataFileError(source, problem, advice="leave out target=")
    data = read_bytes(path) if content is None else content
    dataset = read_npz(data, source, name=source, **how)
    if how.get("labelled", True):
        _check_classes(dataset.target_names, source)
    return dataset


def _check_classes(names: Sequence[str], source: str) -> None:
    if len(names) < 2:
        raise DataFileError(source, f"expected two or more classes, got only {quote(names[0])}")


def _training_table(
    path: AnyPath, kind: str, content: bytes | None, wanted: Wanted, zero_based: bool | None = None
) -> Table:
    if kind == "parquet":
        found = _parquet(path, content, wanted)
    elif kind in ("csv", "tsv"):
        found = read_delimited(path, kind, content, wanted)
    elif kind == "json":
        found = _objects(path, content, wanted)
    else:
        found = _libsvm(path, content, wanted, zero_based)
    source, labels, X, schema = source_name(path), found.labels, found.X, found.schema
    _check_classes(labels.spellings, source)
    notes = [*found.notes, *notes_on_labels(labels.names())]
    names = schema.feature_names
    if isinstance(X, np.ndarray) and names is not None:
        notes += notes_on_numbers(X, [quote(name) for name in names], names)
    y = np.array(labels.values())[found.codes]
    lone = lone_classes(found.codes, labels, found.lines)
    facts = Facts(found.padded, _sentinels(X, schema), lone)
    return Table(X, y, labels.names(), schema, source, tuple(notes), facts)


def _sentinels(X: Matrix | MixedArray, schema: Schema) -> tuple[Sentinel, ...]:
    if sp.issparse(X) or not schema.numbers:
        return ()
    names = schema.feature_names
    labels = [str(j + 1) if names is None else quote(names[j]) for j in schema.numbers]
    numbers: Any = X[:, schema.numbers] if schema.text else X
    return find_sentinels(numbers, labels)


_SPARSE = "most names are absent from most objects, so rows are sparse: an absent name counts as 0"


# Sparse rows -------------------------------------------------------------------------------------


def _libsvm(path: AnyPath, content: bytes | None, wanted: Wanted, zero_based: bool | None) -> Found:
    labels = LabelCodes()
    with LineBuffer(path, content) as lines:
        made = make_format("libsvm", lines, target=wanted.target, zero_based=zero_based)
        rows = Rows(lines, made, labels, wanted.dialect.skip_bad)
        X, codes = all_entries(rows)
    if not X.shape[1]:
        raise DataFileError(lines.source, "expected features after the labels, got none")
    zero_based = made.zero_based if isinstance(made, LIBSVM) else None
    schema = Schema(X.shape[1], zero_based=zero_based)
    return Found(X, codes, labels, schema, notes_on_skipped(rows), lines=rows.label_lines)


def _objects(path: AnyPath, content: bytes | None, wanted: Wanted) -> Found:
    """Read JSON objects: as a table, or as sparse rows if most names are absent."""
    source, encoding = source_name(path), wanted.dialect.encoding
    found = survey(path, content, encoding, wanted.target)
    names = list(found.counts)
    target = wanted.target or json_target(names, source)
    drop, *columns = wanted.named().values()
    if any(columns) or not found.sparse(target):
        return read_objects(path, content, wanted, found)
    find_column(names, target, source)
    for name in drop:
        find_column(names, name, source)
    labels, vocabulary = LabelCodes(), dict[str, int]()
    with LineBuffer(path, content, encoding) as lines:
        skip_to_rows(lines)
        made = JSON(0, MOST_COLUMNS, target=target, vocabulary=vocabulary, drop=drop)
        rows = Rows(lines, made, labels, wanted.dialect.skip_bad)
        X, codes = all_entries(rows)
    notes = [*notes_on_skipped(rows), _SPARSE]
    schema = Schema(X.shape[1], list(vocabulary), [], target, sparse=True)
    return Found(X, codes, labels, schema, notes, lines=rows.label_lines)


def all_entries(rows: Rows, width: int | None = None) -> tuple[sp.csr_matrix, np.ndarray]:
    """All rows as a matrix of some width, or as wide as they are, and their labels."""
    batches = all_batches(rows)
    columns = stacked(batch.columns for batch in batches)
    indptr = np.zeros(1 + sum(map(len, batches)), dtype=np.int64)
    np.cumsum(np.concatenate([np.diff(b.indptr) for b in batches]), out=indptr[1:])
    found = int(columns.max()) + 1 if columns.size else 0
    values, codes = stacked(b.values for b in batches), stacked(b.codes for b in batches)
    X = sp.csr_matrix((values, columns, indptr), shape=(len(codes), max(found, width or 0)))
    return (X if width is None else X[:, :width]), codes


# Parquet -----------------------------------------------------------------------------------------


def _parquet(path: AnyPath, content: bytes | None, wanted: Wanted) -> Found:
    table, source = open_parquet(path, content), source_name(path)
    names = table.column_names
    dropped = {find_column(names, name, source) for name in wanted.drop}
    left = [j for j in range(len(names)) if j not in dropped]
    last = wanted.target is None and left
    position = left[-1] if last else find_column(names, wanted.target, source)
    layout = Columns(names, True, position, ",", dropped=tuple(dropped))
    features = layout.features
    if not features:
        raise DataFileError(source, f"expected features and a target, got {len(names)} columns")
    asked = asked_columns(names, wanted, position, source)
    words = asked["categorical"] | asked["text"]
    if wanted.categorical == "auto":
        words |= {j for j in features if holds_text(table.column(j))}
    labels = LabelCodes()
    codes = arrow_labels(table.column(position), labels, source, names[position])
    found = parquet_columns(table, features, words, asked["dates"], wanted.gaps, source)
    X, schema, notes = finished(layout, features, *found, asked, wanted, source)
    return Found(X, codes, labels, schema, notes)


def parquet_columns(
    table: Any,
    features: list[int],
    words: set[int],
    dates: Collection[int],
    gaps: bool,
    source: str,
) -> tuple[list[int], np.ndarray, dict[int, tuple[np.ndarray, list[str]]]]:
    """Columns of an Arrow table: which are numbers, these, and the words of the others."""
    names = table.column_names
    words = words | {j for j in dates if holds_text(table.column(j))}
    numbers = [j for j in features if j not in words]
    X = np.empty((table.num_rows, len(numbers)))
    for k, j in enumerate(numbers):
        X[:, k] = arrow_numbers(table.column(j), gaps, source, names[j])
    texts = {j: arrow_words(table.column(j), gaps, source, names[j]) for j in sorted(words)}
    return numbers, X, texts
