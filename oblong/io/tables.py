"""Labelled tables as a whole."""

import os
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong._core.text import quote
from oblong.io.arrow import arrow_labels, arrow_numbers, arrow_words, holds_text, open_parquet
from oblong.io.cells import peek_records
from oblong.io.columns import finished, mostly_text, notes_on_labels, notes_on_numbers
from oblong.io.csv import Columns, Csv
from oblong.io.dataset import Dataset, Matrix, Schema, Table
from oblong.io.dialect import Dialect, Wanted
from oblong.io.errors import DataFileError
from oblong.io.formats import Format
from oblong.io.jsonl import JSON
from oblong.io.labels import LabelCodes
from oblong.io.layout import find_column, find_format, make_format, table_columns
from oblong.io.libsvm import LIBSVM
from oblong.io.mixed_array import MixedArray
from oblong.io.npz import read_npz
from oblong.io.rows import Batch, Rows
from oblong.io.sources import AnyPath, LineBuffer, read_bytes, source_name

# Rows that are looked at before the whole is read.
_SAMPLE = 200


def read_table(
    path: AnyPath, target: str | None = None, *, zero_based: bool | None = None
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
    table = _training_table(path, kind, content, Wanted(target), zero_based)
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
    labels = LabelCodes()
    notes: list[str] = []
    X: Matrix | MixedArray
    if kind == "parquet":
        codes, X, schema = _parquet(path, content, wanted, labels)
    elif kind in ("csv", "tsv"):
        labels, X, codes, schema, notes = read_delimited(path, kind, content, wanted)
    else:
        X, codes, schema = _sparse(path, kind, content, wanted.target, zero_based, labels)
    source = source_name(path)
    _check_classes(labels.spellings, source)
    notes += notes_on_labels(labels.names())
    if isinstance(X, np.ndarray) and schema.feature_names is not None:
        quoted = [quote(name) for name in schema.feature_names]
        notes += notes_on_numbers(X, quoted, schema.feature_names)
    y = np.array(labels.values())[codes]
    return Table(X, y, labels.names(), schema, source, tuple(notes))


# Sparse rows -------------------------------------------------------------------------------------


def _sparse(
    path: AnyPath,
    kind: str,
    content: bytes | None,
    target: str | None,
    zero_based: bool | None,
    labels: LabelCodes,
) -> tuple[sp.csr_matrix, np.ndarray, Schema]:
    vocabulary: dict[str, int] = {}
    with LineBuffer(path, content) as lines:
        made = make_format(kind, lines, target=target, zero_based=zero_based, vocabulary=vocabulary)
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
    batches = list(Rows(lines, made, labels))
    columns = stacked(batch.columns for batch in batches)
    indptr = np.zeros(1 + sum(map(len, batches)), dtype=np.int64)
    np.cumsum(np.concatenate([np.diff(b.indptr) for b in batches]), out=indptr[1:])
    found = int(columns.max()) + 1 if columns.size else 0
    values, codes = stacked(b.values for b in batches), stacked(b.codes for b in batches)
    X = sp.csr_matrix((values, columns, indptr), shape=(len(codes), max(found, width or 0)))
    return (X if width is None else X[:, :width]), codes


# Parquet -----------------------------------------------------------------------------------------


def _parquet(
    path: AnyPath, content: bytes | None, wanted: Wanted, labels: LabelCodes
) -> tuple[np.ndarray, np.ndarray | MixedArray, Schema]:
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
    codes = arrow_labels(table.column(position), labels, source, names[position])
    found = parquet_columns(table, features, words, asked["dates"], wanted.gaps, source)
    return codes, *finished(layout, features, *found, asked, wanted, source)


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


# Delimited text ----------------------------------------------------------------------------------


def read_delimited(
    path: AnyPath, kind: str, content: bytes | None, wanted: Wanted
) -> tuple[LabelCodes, np.ndarray | MixedArray, np.ndarray, Schema, list[str]]:
    """Read a table, twice if it turns out that other columns hold text than seemed to."""
    guess, sure = wanted.categorical == "auto", False
    dialect = wanted.dialect
    asked: dict[str, set[int]] | None = None
    guessed: set[int] = set()
    while True:
        with LineBuffer(path, content, dialect.encoding) as lines:
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
    rows: Rows, made: Csv
) -> tuple[np.ndarray, dict[int, tuple[np.ndarray, list[str]]], np.ndarray]:
    """All rows: numbers, codes of words and the different words by column, and labels."""
    batches: list[Batch] = list(rows)
    if not batches:
        problem = "all rows are bad, the first is " + (rows.first_skipped or "missing")
        raise DataFileError(rows.source, problem)
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
