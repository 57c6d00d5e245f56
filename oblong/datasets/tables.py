"""Tables for training and prediction: columns by name, gaps, and columns of text."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oblong.datasets._assembly import assemble
from oblong.datasets._binary import labels_of, open_parquet, read_npz
from oblong.datasets._columns import (
    Column,
    Words,
    arrow_column,
    csv_columns,
    line_of,
    numbers_of,
)
from oblong.datasets._dataset import (
    DataFileError,
    Matrix,
    class_names,
    decode_labels,
    quote,
)
from oblong.datasets._delimited import (
    find_column,
    find_layout,
    find_rows,
    is_number,
    refuse_binary,
)
from oblong.datasets._mixed import MixedArray
from oblong.datasets._plain import LargeFile
from oblong.datasets._schema import Schema, Table
from oblong.datasets._svmlight import read_svmlight, svmlight_labels
from oblong.datasets.files import EXTENSIONS, fetch, is_compressed, sniff

__all__ = ["Schema", "Table", "of_width", "read_rows", "read_training_table"]

# Different texts that a column may hold before it looks like names and not like categories.
_MOST_CATEGORIES = 1000
# Bytes of a large file that tell how it is cut into columns.
_OPENING = 1 << 20


def read_training_table(
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    categorical: str | Sequence[str] = "none",
    gaps: bool = False,
) -> Table:
    r"""Read a labelled table for training.

    Parameters
    ----------
    path : str or path-like
        The file, in any of the formats of :func:`read_table`; ``"-"`` is standard input.
    target : str, optional
        Label column, by name or, without a header, by its number from 1; the last by default.
    categorical : {"none", "auto"} or sequence of str, default="none"
        Columns of categories: none, those that hold text, or those named.
    gaps : bool, default=False
        Whether cells may be empty. Missing numbers are nan, missing text is the empty string.

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
    >>> from oblong.datasets.tables import read_training_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "fruit.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("weight,colour,kind\n150,red,apple\n,yellow,banana\n")
    ...     fruit = read_training_table(path, categorical="auto", gaps=True)
    >>> np.asarray(fruit.X)
    array([[150.0, 'red'],
           [nan, 'yellow']], dtype=object)
    """
    table = _large_table(path, target, categorical, gaps)
    if table is not None:
        return table
    source, extension, data = fetch(path)
    kind = EXTENSIONS[extension] or sniff(data)
    if target is not None and kind in ("svmlight", "npz"):
        where = "the first field" if kind == "svmlight" else 'the array "y"'
        raise DataFileError(source, f"the target of this format is {where}; leave --target out")
    if kind in ("svmlight", "npz") and not isinstance(categorical, str):
        raise DataFileError(source, "this format has no columns of text; leave --categorical out")
    if kind == "npz":
        table = Table.of(read_npz(data, source, name=source, gaps=gaps))
    elif kind == "svmlight":
        X, y = read_svmlight(data, source)
        table = Table(X, y, svmlight_labels(data, y), Schema(X.shape[1]), source)
    elif kind == "parquet":
        table = _parquet_table(data, source, target, categorical, gaps)
    else:
        table = _csv_table(data, source, target, categorical, gaps, _delimiter(kind))
    if len(table.target_names) < 2:
        problem = f"expected two or more classes, got only {quote(table.target_names[0])}"
        raise DataFileError(source, problem)
    return table


def read_rows(
    path: str | os.PathLike[str], schema: Schema, *, gaps: bool = False
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

    Returns
    -------
    ndarray, csr_matrix or MixedArray of shape (n_rows, n_features)
        The rows; mixed if columns hold text.
    """
    source, extension, data = fetch(path)
    kind = EXTENSIONS[extension] or sniff(data)
    if kind == "npz":
        X = read_npz(data, source, name=source, labelled=False, gaps=gaps).X
        return of_width(X, schema, source)
    if kind == "svmlight":
        if schema.target_position is not None:
            raise DataFileError(source, "expected a table, as in training, got LIBSVM rows")
        X, _ = read_svmlight(data, source)
        if X.shape[1] > schema.n_features:
            # Features that the model never saw have no part in it.
            return X[:, : schema.n_features]
        X.resize(X.shape[0], schema.n_features)
        return X
    text = set(schema.text or ())
    if kind == "parquet":
        table = open_parquet(data, source)
        places = _places(table.column_names, schema, True, source)
        columns = [arrow_column(table.column(j), source, table.column_names[j]) for j in places]
        labels = [quote(table.column_names[j]) for j in places]
        return assemble(columns, labels, text, gaps, source, lambda row: row + 1)
    refuse_binary(data, source)
    layout = find_rows(data, source, _delimiter(kind), schema.feature_names, bool(text))
    places = _places(list(layout.names), schema, layout.has_header, source)
    found = csv_columns(data, source, layout, places, {places[k] for k in text}, False)
    labels = [layout.label(j) for j in places]
    lines = _lines(data, source, layout)
    return assemble([found[j] for j in places], labels, text, gaps, source, lines)


def _delimiter(kind: str) -> str | None:
    return "\t" if kind == "tsv" else None


def _lines(data: bytes, source: str, layout: Any) -> Callable[[int], int]:
    return lambda row: line_of(data, source, layout, row)


def of_width(X: Matrix, schema: Schema, source: str) -> Matrix:
    """Rows with as many features as in training; others are an error."""
    if X.shape[1] != schema.n_features:
        problem = f"expected {schema.n_features} features as in training, got {X.shape[1]}"
        raise DataFileError(source, problem)
    return X


def _places(names: list[str], schema: Schema, named: bool, source: str) -> list[int]:
    """Positions of the model's features among the columns of a file."""
    if schema.feature_names is not None and named:
        return _by_name(names, schema.feature_names, source)
    n, target = schema.n_features, schema.target_position
    if len(names) == n + 1:
        # The labels are there too.
        target = n if target is None else target
        return [j for j in range(n + 1) if j != target]
    if len(names) != n:
        problem = f"expected {n} columns as in training, or the labels too, got {len(names)}"
        raise DataFileError(source, problem)
    return list(range(n))


def _by_name(names: list[str], wanted: list[str], source: str) -> list[int]:
    """Positions of columns by name; those that share one are taken in their order."""
    found: dict[str, list[int]] = {}
    for j, name in enumerate(names):
        found.setdefault(name, []).append(j)
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


def _large_table(
    path: str | os.PathLike[str],
    target: str | None,
    categorical: str | Sequence[str],
    gaps: bool,
) -> Table | None:
    """Read a large CSV file without having it in memory; None if it is another, or irregular."""
    kind = EXTENSIONS.get(Path(path).suffix.lower())
    if path == "-" or kind not in ("csv", "tsv") or not LargeFile.suits(Path(path)):
        return None
    try:
        with LargeFile(Path(path)) as file:
            data = file[:_OPENING]
            data = data[: data.rfind(b"\n") + 1]
            if is_compressed(data):
                return None
            source, delimiter = Path(path).name, _delimiter(kind)
            table = _csv_table(data, source, target, categorical, gaps, delimiter, file)
    except (DataFileError, OSError):
        # Messages come from who has the whole before him, and knows the lines.
        return None
    return table if len(table.target_names) > 1 else None


def _csv_table(
    data: bytes,
    source: str,
    target: str | None,
    categorical: str | Sequence[str],
    gaps: bool,
    delimiter: str | None,
    file: LargeFile | None = None,
) -> Table:
    refuse_binary(data, source)
    layout = find_layout(data, source, target, delimiter)
    names = list(layout.names)
    position = layout.target
    features = [j for j in range(len(names)) if j != position]
    asked = _asked(names, categorical, position, source)
    guess = categorical == "auto"
    wanted, words = [*features, position], asked | {position}
    found = csv_columns(data, source, layout, wanted, words, guess, file)
    lines = _lines(data, source, layout) if file is None else lambda row: 0
    y, target_names = _decoded(found.pop(position), layout.label(position), source, lines)
    if layout.has_header and len(features) > 1:
        features = _without_counter(features, names, found)
    columns = [found[j] for j in features]
    labels = [layout.label(j) for j in features]
    if guess:
        asked |= {j for j in features if _mostly_text(found[j])}
    text = {k for k, j in enumerate(features) if j in asked}
    X = assemble(columns, labels, text, gaps, source, lines, _MOST_CATEGORIES)
    schema = Schema(
        len(features),
        [names[j] for j in features] if layout.has_header else None,
        sorted(text),
        names[position] if layout.has_header else None,
        position,
    )
    return Table(X, y, target_names, schema, source)


def _parquet_table(
    data: bytes, source: str, target: str | None, categorical: str | Sequence[str], gaps: bool
) -> Table:
    table = open_parquet(data, source)
    names = table.column_names
    position = find_column(names, target, source)
    features = [j for j in range(len(names)) if j != position]
    if not features:
        raise DataFileError(source, f"expected features and a target, got {len(names)} columns")
    asked = _asked(names, categorical, position, source)
    columns = [arrow_column(table.column(j), source, names[j]) for j in features]
    y = labels_of(table.column(position), source, names[position])
    if categorical == "auto":
        asked |= {j for j, column in zip(features, columns) if isinstance(column, Words)}
    text = {k for k, j in enumerate(features) if j in asked}
    labels = [quote(names[j]) for j in features]
    X = assemble(columns, labels, text, gaps, source, lambda row: row + 1, _MOST_CATEGORIES)
    schema = Schema(
        len(features), [names[j] for j in features], sorted(text), names[position], position
    )
    return Table(X, y, tuple(str(label) for label in np.unique(y)), schema, source)


def _without_counter(features: list[int], names: list[str], found: dict[int, Column]) -> list[int]:
    """Leave out an unnamed first column that counts the rows, as pandas writes it."""
    first = found[features[0]]
    if names[features[0]] != "":
        return features
    values = numbers_of(first)[0] if isinstance(first, Words) else first
    counting = np.arange(len(values), dtype=float)
    counts = np.array_equal(values, counting) or np.array_equal(values, counting + 1)
    return features[1:] if counts else features


def _asked(
    names: list[str], categorical: str | Sequence[str], target: int, source: str
) -> set[int]:
    """Columns that are categories because the user says so."""
    if isinstance(categorical, str):
        return set()
    asked = {find_column(names, name, source) for name in categorical}
    if target in asked:
        raise DataFileError(source, "the label column is not a feature; leave it out")
    return asked


def _decoded(
    column: Column, label: str, source: str, lines: Callable[[int], int]
) -> tuple[np.ndarray, tuple[str, ...]]:
    missing = np.flatnonzero(column.codes < 0)
    if missing.size:
        problem = "expected a class label, got a missing value"
        raise DataFileError(source, problem, row=lines(int(missing[0])), column=label)
    return decode_labels(column.words, column.codes), class_names(column.words)


def _mostly_text(column: Column) -> bool:
    """Whether fewer than half of the cells that are not empty are numbers."""
    if not isinstance(column, Words) or not column.words:
        return False
    counts = np.bincount(column.codes + 1, minlength=len(column.words) + 1)[1:]
    numeric = [is_number(word) and math.isfinite(float(word)) for word in column.words]
    return bool(2 * counts[numeric].sum() < counts.sum())
