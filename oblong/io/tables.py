"""Labelled tables as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong._core.text import quote
from oblong.io.arrays import read_npz
from oblong.io.arrow import arrow_labels, arrow_numbers, arrow_words, holds_text, open_parquet
from oblong.io.cells import peek_records
from oblong.io.csv import Columns, Csv
from oblong.io.dataset import Dataset, Matrix, Schema, Table
from oblong.io.errors import DataFileError
from oblong.io.formats import Format
from oblong.io.jsonl import JSON
from oblong.io.labels import LabelCodes
from oblong.io.layout import find_column, find_format, make_format, table_columns
from oblong.io.libsvm import LIBSVM
from oblong.io.mixed import MixedArray
from oblong.io.numbers import is_missing, is_number
from oblong.io.rows import Batch, Rows
from oblong.io.sources import LineBuffer, read_bytes, source_name

__all__ = [
    "Schema",
    "Table",
    "all_columns",
    "all_entries",
    "look",
    "npz",
    "parquet_features",
    "read_table",
    "read_training_table",
    "side_by_side",
]

# Different texts that a column may hold before it looks like names and not like categories.
_MOST_CATEGORIES = 1000
# Rows that are looked at before the whole is read.
_SAMPLE = 200


def read_table(
    path: str | os.PathLike[str], target: str | None = None, *, zero_based: bool | None = None
) -> Dataset:
    """Read a labelled table.

    The format follows from the extension: CSV (``.csv``, ``.tsv``), LIBSVM / SVMlight
    (``.libsvm``, ``.svmlight``, ``.svm``) and JSON lines (``.jsonl``), of which the features come
    back as a CSR matrix, Parquet (``.parquet``) or NPZ (``.npz``, see
    :func:`oblong.datasets.load`), each also compressed as ``.gz`` or ``.zst``. For other
    extensions and for standard input the content decides.

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
    kind, content = look(path)
    if kind == "npz":
        return npz(path, content, target=target)
    table = _training_table(path, kind, content, target, zero_based=zero_based)
    names = table.schema.feature_names
    return Dataset(
        table.X, table.y, None if names is None else tuple(names), table.target_names, table.name
    )


def read_training_table(
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    categorical: str | Sequence[str] = "none",
    gaps: bool = False,
    zero_based: bool | None = None,
) -> Table:
    r"""Read a labelled table for training.

    Parameters
    ----------
    path : str or path-like
        The file, in any of the formats of :func:`read_table`; ``"-"`` is standard input.
    target : str, optional
        Label column, by name or, without a header, by its number from 1; the last by default.
    categorical : {"none", "auto"} or sequence of str, default="none"
        Columns of categories: none, those of which most cells are text, or those named.
    gaps : bool, default=False
        Whether cells may be empty. Missing numbers are nan, missing text is the empty string.
    zero_based : bool, default=None
        Whether the indices of LIBSVM rows count from 0; by default they do if the first of the
        first row is 0.

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
    kind, content = look(path)
    if kind in ("libsvm", "npz", "json") and not isinstance(categorical, str):
        problem = "this format has no columns of text"
        raise DataFileError(source_name(path), problem, advice="leave out categorical=")
    if kind == "npz":
        return Table.of(npz(path, content, target=target, gaps=gaps))
    return _training_table(path, kind, content, target, categorical, gaps, zero_based)


def look(path: str | os.PathLike[str]) -> tuple[str, bytes | None]:
    """The format, and the content of what can be read only once."""
    once = path == "-" or (os.path.exists(path) and not os.path.isfile(path))
    content = read_bytes(path) if once else None
    kind = find_format(path)
    if kind is None:
        lines = LineBuffer(path, content)
        try:
            kind = find_format(path, lines)
        finally:
            lines.close()
    assert kind is not None
    return kind, content


def npz(
    path: str | os.PathLike[str], content: bytes | None, *, target: str | None = None, **how: bool
) -> Dataset:
    """Read an NPZ archive; see :func:`~oblong.io.arrays.read_npz`."""
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
    path: str | os.PathLike[str],
    kind: str,
    content: bytes | None,
    target: str | None,
    categorical: str | Sequence[str] = "none",
    gaps: bool = False,
    zero_based: bool | None = None,
) -> Table:
    labels = LabelCodes()
    X: Matrix | MixedArray
    if kind == "parquet":
        X, codes, schema = _parquet(path, content, target, categorical, gaps, labels)
    elif kind in ("csv", "tsv"):
        labels, X, codes, schema = _csv(path, kind, content, target, categorical, gaps)
    else:
        X, codes, schema = _sparse(path, kind, content, target, zero_based, labels)
    source = source_name(path)
    _check_classes(labels.spellings, source)
    return Table(X, np.array(labels.values())[codes], labels.names(), schema, source)


# Sparse rows -------------------------------------------------------------------------------------


def _sparse(
    path: str | os.PathLike[str],
    kind: str,
    content: bytes | None,
    target: str | None,
    zero_based: bool | None,
    labels: LabelCodes,
) -> tuple[sp.csr_matrix, np.ndarray, Schema]:
    vocabulary: dict[str, int] = {}
    lines = LineBuffer(path, content)
    try:
        made = make_format(kind, lines, target=target, zero_based=zero_based, vocabulary=vocabulary)
    except BaseException:
        lines.close()
        raise
    X, codes = all_entries(lines, made, labels)
    if not X.shape[1]:
        raise DataFileError(lines.source, "expected features after the labels, got none")
    if isinstance(made, JSON):
        return X, codes, Schema(X.shape[1], list(vocabulary), [], made.target)
    zero_based = made.zero_based if isinstance(made, LIBSVM) else None
    return X, codes, Schema(X.shape[1], zero_based=zero_based)


def all_entries(
    lines: LineBuffer, made: Format, labels: LabelCodes | None, width: int | None = None
) -> tuple[sp.csr_matrix, np.ndarray]:
    """All rows as a matrix of some width, or as wide as they are, and their labels."""
    with Rows(lines, made, labels) as rows:
        batches = list(rows)
    columns = _stacked(batch.columns for batch in batches)
    indptr = np.zeros(1 + sum(map(len, batches)), dtype=np.int64)
    np.cumsum(np.concatenate([np.diff(b.indptr) for b in batches]), out=indptr[1:])
    found = int(columns.max()) + 1 if columns.size else 0
    values, codes = _stacked(b.values for b in batches), _stacked(b.codes for b in batches)
    X = sp.csr_matrix((values, columns, indptr), shape=(len(codes), max(found, width or 0)))
    return (X if width is None else X[:, :width]), codes


def _stacked(parts: Iterable[Any], columns: int = 0) -> np.ndarray:
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


# Delimited text ----------------------------------------------------------------------------------


def _csv(
    path: str | os.PathLike[str],
    kind: str,
    content: bytes | None,
    target: str | None,
    categorical: str | Sequence[str],
    gaps: bool,
) -> tuple[LabelCodes, np.ndarray | MixedArray, np.ndarray, Schema]:
    """Read a table, twice if it turns out that other columns hold text than seemed to."""
    guess, sure = categorical == "auto", False
    asked: set[int] | None = None
    while True:
        lines = LineBuffer(path, content)
        try:
            delimiter = "\t" if kind == "tsv" else None
            layout = table_columns(lines, target=target, delimiter=delimiter)
            if asked is None:
                asked = _asked(layout.names, categorical, layout.target, lines.source)
                asked |= _looks_like_text(lines, layout) if guess else set()
            made = Csv(0, layout, words=asked, gaps=gaps, undecided=guess and not sure)
        except BaseException:
            lines.close()
            raise
        labels = LabelCodes()
        X, words, codes = all_columns(lines, made, labels)
        if not guess or sure:
            break
        mistaken = {
            j
            for j, known, vocabulary in zip(made.word_columns, words, made.vocabularies)
            if not _mostly_text(known, vocabulary.words)
        }
        for j, (count, error, line) in made.strays.items():
            if 2 * count <= np.isfinite(X[:, made.numbers.index(j)]).sum() + count:
                label = layout.label(j)
                place: dict[str, Any] = {"row": line, "column": label, "cause": error.cause}
                raise DataFileError(lines.source, str(error), **place)
        if not mistaken and not made.strays:
            break
        # The second time, words among numbers are an error that has a line.
        asked, sure = (asked - mistaken) | set(made.strays), True
    names, features = layout.names, made.features
    schema = Schema(
        len(features),
        [names[j] for j in features] if layout.header else None,
        [k for k, j in enumerate(features) if j in asked],
        names[layout.target] if layout.header and layout.target is not None else None,
        layout.target,
    )
    texts = [vocabulary.words for vocabulary in made.vocabularies]
    for j, text in zip(made.word_columns, texts):
        _check_categories(len(text), len(codes), layout.label(j), lines.source)
    return labels, side_by_side(X, words, texts, schema.text or []), codes, schema


def all_columns(
    lines: LineBuffer, made: Csv, labels: LabelCodes | None
) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """All rows: numbers, codes of words by column, and labels."""
    with Rows(lines, made, labels) as rows:
        batches: list[Batch] = list(rows)
    codes = _stacked(batch.codes for batch in batches)
    words = [
        _stacked(b.words[k] for b in batches if b.words is not None)
        for k in range(len(made.word_columns))
    ]
    values = [batch.values for batch in batches]
    batches.clear()
    X = _stacked(values, len(made.numbers)) if made.numbers else np.empty((len(codes), 0))
    return X, words, codes


def side_by_side(
    X: np.ndarray, words: list[np.ndarray], texts: list[list[str]], text: Sequence[int]
) -> np.ndarray | MixedArray:
    """Numbers and words as one table, at whose places `text` the words are."""
    return MixedArray(X, words, texts, text) if text else X


def _asked(
    names: list[str], categorical: str | Sequence[str], target: int | None, source: str
) -> set[int]:
    """Columns that are categories because the user says so."""
    if isinstance(categorical, str):
        return set()
    asked = {find_column(names, name, source) for name in categorical}
    if target in asked:
        raise DataFileError(source, "the label column is not a feature; leave it out")
    return asked


def _looks_like_text(lines: LineBuffer, layout: Columns) -> set[int]:
    """Features that are not all numbers in the first rows."""
    return {
        j
        for _, cells in peek_records(lines, layout.delimiter, _SAMPLE)
        for j in layout.features
        if j < len(cells) and not is_number(cells[j]) and not is_missing(cells[j])
    }


def _mostly_text(codes: np.ndarray, words: list[str]) -> bool:
    """Whether fewer than half of the cells that are not empty are numbers."""
    counts = np.bincount(codes + 1, minlength=len(words) + 1)[1:]
    numeric = np.array([is_number(word) for word in words], dtype=bool)
    return bool(2 * counts[numeric].sum() < counts.sum())


def _check_categories(count: int, n: int, label: str, source: str) -> None:
    if count > _MOST_CATEGORIES and 2 * count > n:
        problem = f"{count} different texts in {n} rows are names, not categories"
        raise DataFileError(source, f"{problem}; leave the column out", column=label)


# Parquet -----------------------------------------------------------------------------------------


def _parquet(
    path: str | os.PathLike[str],
    content: bytes | None,
    target: str | None,
    categorical: str | Sequence[str],
    gaps: bool,
    labels: LabelCodes,
) -> tuple[np.ndarray | MixedArray, np.ndarray, Schema]:
    table, source = open_parquet(path, content), source_name(path)
    names = table.column_names
    position = find_column(names, target, source)
    features = [j for j in range(len(names)) if j != position]
    if not features:
        raise DataFileError(source, f"expected features and a target, got {len(names)} columns")
    asked = _asked(names, categorical, position, source)
    if categorical == "auto":
        asked |= {j for j in features if holds_text(table.column(j))}
    codes = arrow_labels(table.column(position), labels, source, names[position])
    X = parquet_features(table, features, asked, gaps, source, _MOST_CATEGORIES)
    text = [k for k, j in enumerate(features) if j in asked]
    schema = Schema(len(features), [names[j] for j in features], text, names[position], position)
    return X, codes, schema


def parquet_features(
    table: Any, features: list[int], text: set[int], gaps: bool, source: str, most: int | None
) -> np.ndarray | MixedArray:
    """Columns of an Arrow table, those of `text` as words, of which there may be so many."""
    names = table.column_names
    numbers = [j for j in features if j not in text]
    X = np.empty((table.num_rows, len(numbers)))
    for k, j in enumerate(numbers):
        X[:, k] = arrow_numbers(table.column(j), gaps, source, names[j])
    found = [arrow_words(table.column(j), gaps, source, names[j]) for j in features if j in text]
    if most is not None:
        for j, (_, words) in zip([j for j in features if j in text], found):
            _check_categories(len(words), table.num_rows, quote(names[j]), source)
    places = [k for k, j in enumerate(features) if j in text]
    return side_by_side(X, [codes for codes, _ in found], [words for _, words in found], places)
