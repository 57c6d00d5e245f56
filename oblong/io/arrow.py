"""Typed columns: Parquet and Arrow."""

import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np

from oblong._core.text import quote
from oblong.io.errors import DataFileError, RowError, foreign_errors
from oblong.io.formats import bad_weight
from oblong.io.hashing import name_column, text_columns, tidied
from oblong.io.labels import LabelCodes, Words
from oblong.io.layout import find_column
from oblong.io.numbers import LARGEST, checked, number
from oblong.io.reader import Batch, Position, Reader
from oblong.io.sources import AnyPath, read_bytes, source_name
from oblong.linalg.row_passes import Block

# Typed columns may take so many times more memory than their encoded form, once it is much at all.
_MOST_EXPANSION = 1000
_HARMLESS = 1 << 28


@contextmanager
def arrow_errors(source: str, what: str = "damaged or unreadable") -> Iterator[None]:
    """Turn errors of Arrow into ours, with the name of the file."""
    if find_spec("pyarrow") is None:
        raise DataFileError(source, 'this format needs pyarrow: pip install "oblong[cli]"')
    with foreign_errors(source, what):
        yield


def sound(columns: Any) -> Any:
    """Columns from outside, once they are checked: offsets and indices beyond the data crash."""
    columns.validate(full=True)
    return columns


def check_expansion(meta: Any, size: int) -> None:
    """Refuse a Parquet file that is small and would fill the memory."""
    if 8 * meta.num_rows * meta.num_columns > max(_HARMLESS, _MOST_EXPANSION * size):
        raise ValueError(f"it expands to more than {_MOST_EXPANSION} times its size")


def open_parquet(path: AnyPath, content: bytes | None) -> Any:
    """Read a Parquet file into an Arrow table, without the index column that pandas adds."""
    source = source_name(path)
    data = read_bytes(path) if content is None else content
    with arrow_errors(source, "damaged Parquet file"):
        import pyarrow as pa
        import pyarrow.parquet as pq

        file = pq.ParquetFile(pa.BufferReader(data))
        check_expansion(file.metadata, len(data))
        # Threads of Arrow must not outlive memory that Python owns.
        table = sound(file.read(use_threads=False))
        table = table.select(feature_names(table.column_names, ()))
    if table.num_rows == 0:
        raise DataFileError(source, "the table has no rows")
    return table


def feature_names(names: Sequence[str], others: Collection[Any]) -> list[str]:
    """Names of features: neither others nor those of the index of a pandas table."""
    return [name for name in names if not (name in others or name.startswith("__index_level_"))]


def holds_text(column: Any) -> bool:
    """Whether an Arrow column is one of text."""
    from pyarrow import types

    kind = column.type
    if types.is_dictionary(kind):
        kind = kind.value_type
    # Younger than the oldest pyarrow that is supported.
    is_view = getattr(types, "is_string_view", lambda kind: False)
    return types.is_string(kind) or types.is_large_string(kind) or is_view(kind)


def _encoded(column: Any) -> tuple[list[Any], np.ndarray]:
    """Different values of a column, and for each row the place of its own; -1 for none."""
    import pyarrow as pa
    from pyarrow import types

    if not types.is_dictionary(column.type):
        column = column.dictionary_encode()
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0)
    # Polars counts its categories without a sign.
    codes = whole.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    codes = codes.astype(np.int32)
    return whole.dictionary.to_pylist(), codes


def _first_row(codes: np.ndarray, code: int) -> int:
    return int(np.flatnonzero(codes == code)[0]) + 1


def _as_cell(value: Any) -> bytes:
    """A value as a cell of a table would have it."""
    text = str(value)
    if text.startswith('"'):
        text = '"' + text.replace('"', '""') + '"'
    return text.encode("utf-8", "replace")


def arrow_labels(column: Any, labels: LabelCodes, source: str, name: str) -> np.ndarray:
    """Codes of an Arrow column of class labels."""
    import pyarrow as pa

    kind = f"expected class labels, got the type {column.type}"
    try:
        values, codes = _encoded(column)
    except pa.ArrowException:
        raise DataFileError(source, kind, column=quote(name)) from None
    missing, found = "expected a class label, got a missing value", [-1] * (len(values) + 1)
    if (codes < 0).any():
        row = _first_row(codes, -1)
        raise DataFileError(source, missing, row=row, column=quote(name))
    for k, value in enumerate(values):
        if isinstance(value, (list, dict, bytes)):
            raise DataFileError(source, kind, column=quote(name))
        try:
            found[k] = labels.code(_as_cell(value))
        except RowError as error:
            row = _first_row(codes, k)
            raise DataFileError(source, str(error), row=row, column=quote(name)) from None
    return np.array(found, dtype=np.int32)[codes]


def arrow_words(column: Any, gaps: bool, source: str, name: str) -> tuple[np.ndarray, list[str]]:
    """Codes and words of an Arrow column of categories."""
    values, codes = _encoded(column)
    words = Words()
    # The last is that of a missing value.
    found = [-1] * (len(values) + 1)
    for k, value in enumerate(values):
        try:
            found[k] = -1 if value is None or value != value else words.code(_as_cell(value))
        except RowError as error:
            row = _first_row(codes, k)
            raise DataFileError(source, str(error), row=row, column=quote(name)) from None
    result = np.array(found, dtype=np.int32)[codes]
    if not gaps and (result < 0).any():
        problem, row = "expected a category, got a missing value", _first_row(result, -1)
        raise DataFileError(source, problem, row=row, column=quote(name), cause="missing")
    return result, words.words


def arrow_numbers(column: Any, gaps: bool, source: str, name: str) -> np.ndarray:
    """An Arrow column of numbers, nan in gaps; words may spell numbers."""
    import pyarrow as pa
    from pyarrow import types

    kind = column.type
    numeric = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)

    def fail(row: int, error: RowError) -> DataFileError:
        place: dict[str, Any] = {"row": row, "column": quote(name), "cause": error.cause}
        return DataFileError(source, str(error), **place)

    if holds_text(column):
        words, codes = _encoded(column)
        found = np.full(len(words) + 1, np.nan)
        for k, word in enumerate(words):
            try:
                found[k] = np.nan if word is None else number(word)
            except RowError as error:
                if error.cause != "missing":
                    raise fail(_first_row(codes, k), error) from None
        values = found[codes]
    elif types.is_null(kind.value_type if types.is_dictionary(kind) else kind):
        values = np.full(len(column), np.nan)
    elif types.is_temporal(kind) and not types.is_time(kind) and not types.is_duration(kind):
        # Days since 1970, like dates of delimited text.
        micros = column.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False)
        whole = micros.cast(pa.int64())
        values = whole.cast(pa.float64(), safe=False).to_numpy() / 86_400e6
    elif not any(test(kind) for test in numeric):
        raise DataFileError(source, f"expected numbers, got the type {kind}", column=quote(name))
    else:
        # Arrow has no cast from boolean to double in all versions.
        column = column.cast(pa.uint8()) if types.is_boolean(kind) else column
        values = column.cast(pa.float64(), safe=False).to_numpy()
    wrong = np.flatnonzero(np.abs(values) > LARGEST if gaps else ~(np.abs(values) <= LARGEST))
    if wrong.size:
        row = int(wrong[0])
        try:
            checked(float(values[row]))
        except RowError as error:
            raise fail(row + 1, error) from None
    return values


def arrow_block(
    table: Any, features: Sequence[str], target: Any, weight: Any, source: str, first: int = 1
) -> Block:
    """Columns of an Arrow table as rows, whose first one is row `first` of the file."""
    from pyarrow import types

    plain = [types.is_floating, types.is_integer]

    def numbers(name: str) -> np.ndarray:
        column = table.column(name)
        if any(test(column.type) for test in plain):
            return column.to_numpy()
        return arrow_numbers(column, True, source, name)

    single = all(table.schema.field(name).type == "float" for name in features)
    X = np.empty((len(features), table.num_rows), np.float32 if single else np.float64).T
    y = weights = None
    try:
        for j, name in enumerate(features):
            X[:, j] = numbers(name)
        if target is not None:
            labels = LabelCodes(steady=True)
            codes = arrow_labels(table.column(target), labels, source, target)
            y = np.array(labels.values())[codes]
        if weight is not None:
            weights = numbers(weight)
    except DataFileError as error:
        row = None if error.row is None else error.row + first - 1
        raise DataFileError(source, error.problem, row=row, column=error.column) from None
    return Block(X, y, weights)


# Rows that are decoded at once.
_CHUNK = 1 << 16


class ArrowReader(Reader):
    """Rows of a Parquet or Arrow file, or of anything that gives an Arrow stream.

    It is to such rows what :class:`~oblong.io.rows.RowReader` is to rows of text, and has its
    attributes and methods.

    Parameters
    ----------
    source : str, path-like, or object with ``__arrow_c_stream__``
        A file of Parquet or of Arrow's IPC format, or a table or reader of pyarrow, polars, pandas,
        DuckDB and others.
    target, weight, classes, hash_bits, text, steady_labels, state
        As for :class:`~oblong.io.rows.RowReader`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from oblong.streams import ArrowReader
    >>> table = pa.table({"size": [1.0, 2.5], "label": ["small", "large"]})
    >>> with ArrowReader(table) as reader:
    ...     batch = reader.read(10)
    >>> batch.matrix(1).ravel(), reader.labels
    (array([1. , 2.5]), ['small', 'large'])
    """

    format = "arrow"
    notes: Sequence[str] = ()
    _most = _CHUNK

    def __init__(
        self,
        source: Any,
        *,
        target: str | None = None,
        weight: str | None = None,
        classes: Sequence[str] | None = None,
        hash_bits: int = 0,
        text: Sequence[str] = (),
        steady_labels: bool = False,
        state: dict[str, Any] | None = None,
    ) -> None:
        is_file = isinstance(source, (str, os.PathLike))
        self.source = source_name(source) if is_file else type(source).__name__
        with arrow_errors(self.source):
            schema, self._batches = _open_file(source) if is_file else _open_stream(source)
            names = feature_names(schema.names, ())
        if len(names) < 2:
            raise DataFileError(self.source, "expected a label and features, got one column")
        others = [name for name in names if name != weight]
        self._target = names[find_column(names, target, self.source)] if target else others[-1]
        self._weight = weight if weight is None else names[find_column(names, weight, self.source)]
        if self._target == self._weight:
            raise DataFileError(self.source, "the label and the weight are the same column")
        self._features = [name for name in names if name not in (self._target, self._weight)]
        twice = [name for name, count in Counter(names).items() if count > 1]
        for name in [*text, *twice]:
            # Raises where there are several.
            find_column(names, name, self.source)
        self._bits, self._texts = hash_bits, set(text)
        self._labels = LabelCodes(classes, steady=steady_labels)
        self.rows, self.skipped, self.dense = 0, 0, not hash_bits
        self.n_columns = 1 << hash_bits if hash_bits else len(self._features)
        self.names = None if hash_bits else self._features
        self.target_name = self._target
        self._rest: Any = None
        self._fingerprint = f"{self._target} of {', '.join(names)}"
        if state is not None:
            if state["fingerprint"] != self._fingerprint:
                problem = "not the input of the checkpoint, whose columns are others"
                raise DataFileError(self.source, problem)
            self._labels.restore(state["labels"], state["spellings"])
            left = int(state["rows"])
            while left and (part := self._take(left)) is not None:
                left -= part.num_rows
            self.rows = int(state["rows"])

    def close(self) -> None:
        """Close the file."""
        self._batches.close()

    def vocabulary(self, position: Position) -> list[str]:
        """Names of columns that were found in the rows: none, since all are known."""
        return []

    def state(self, position: Position) -> dict[str, Any]:
        """Everything it takes to go on after a batch, as JSON values."""
        return self._state(position, self.format, {}, self._fingerprint)

    def _take(self, n: int) -> Any:
        """So many rows, or fewer at the end of a chunk; None at the end."""
        while self._rest is None or not self._rest.num_rows:
            with arrow_errors(self.source):
                self._rest = next(self._batches, None)
                if self._rest is not None:
                    sound(self._rest)
            if self._rest is None:
                return None
        part, self._rest = self._rest.slice(0, n), self._rest.slice(n)
        return part

    def read(self, n: int, *, wait: bool = True) -> Batch | None:
        """Read this many rows, or fewer at the end of a chunk; None at the end of the input."""
        import pyarrow as pa

        part = self._take(n)
        if part is None:
            return None
        table = pa.Table.from_batches([part])
        columns = {name: table.column(name) for name in table.column_names}
        codes = arrow_labels(columns[self._target], self._labels, self.source, self._target)
        weights = None
        if self._weight is not None:
            weights = arrow_numbers(columns[self._weight], False, self.source, self._weight)
            if (weights < 0.0).any():
                row = int(np.flatnonzero(weights < 0.0)[0])
                problem = bad_weight(float(weights[row]))
                column = quote(self._weight)
                raise DataFileError(self.source, problem, row=self.rows + row + 1, column=column)
        self.rows += len(codes)
        counts = (self.rows, 0, len(self._labels), 0)
        position = Position(0, self.rows + 1, *counts)
        if self._bits:
            values, entries, spans = self._hashed(columns, len(codes))
            return Batch(values, entries, spans, codes, position, weights)
        numbers = [arrow_numbers(columns[f], False, self.source, f) for f in self._features]
        X = np.ascontiguousarray(np.column_stack(numbers))
        spans = np.arange(len(codes) + 1, dtype=np.int64) * X.shape[1]
        return Batch(X.ravel(), None, spans, codes, position, weights)

    def _hashed(self, columns: dict[str, Any], n: int) -> tuple[np.ndarray, ...]:
        """Rows of hashed names; as for tables of text."""
        rows: list[tuple[list[int], list[float]]] = [([], []) for _ in range(n)]
        for name in self._features:
            column = columns[name]
            if not holds_text(column):
                own = name_column(name.encode(), self._bits)
                numbers = arrow_numbers(column, True, self.source, name)
                for i in np.flatnonzero(~np.isnan(numbers)).tolist():
                    rows[i][0].append(own)
                    rows[i][1].append(float(numbers[i]))
                continue
            seen: dict[str, list[int]] = {}
            for i, word in enumerate(column.to_pylist()):
                if word is None or word == "":
                    continue
                if word not in seen:
                    whole = f"{name}={word}".encode("utf-8", "replace")
                    one = [name_column(whole, self._bits)]
                    is_text = name in self._texts
                    seen[word] = text_columns(name, word, self._bits) if is_text else one
                rows[i][0].extend(seen[word])
                rows[i][1].extend([1.0] * len(seen[word]))
        tidy = [tidied(*row) for row in rows]
        spans = np.zeros(n + 1, dtype=np.int64)
        np.cumsum([len(entries) for entries, _ in tidy], out=spans[1:])
        return np.concatenate([v for _, v in tidy]), np.concatenate([c for c, _ in tidy]), spans


def _open_file(path: Any) -> tuple[Any, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with open(path, "rb") as file:
        magic = file.read(6)
    if magic[:4] == b"PAR1":
        found = pq.ParquetFile(path)
        # Threads of Arrow must not outlive memory that Python owns.
        return found.schema_arrow, found.iter_batches(_CHUNK, use_threads=False)
    if magic == b"ARROW1":
        reader = pa.ipc.open_file(pa.OSFile(os.fspath(path)))
        count = reader.num_record_batches
        return reader.schema, (reader.get_batch(i) for i in range(count))
    # Not by way of the C interface, which follows offsets before anybody can check them.
    stream = pa.ipc.open_stream(pa.OSFile(os.fspath(path)))
    return stream.schema, iter(stream)


def _open_stream(source: Any) -> tuple[Any, Any]:
    import pyarrow as pa

    reader = pa.RecordBatchReader.from_stream(source)
    return reader.schema, (batch for batch in reader)
