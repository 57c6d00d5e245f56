"""Typed columns: Parquet and Arrow."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from oblong._core.text import quote
from oblong.io.errors import DataFileError, RowError, damaged
from oblong.io.labels import LabelCodes, Words
from oblong.io.numbers import LARGEST, checked, number
from oblong.io.sources import AnyPath, read_bytes, source_name
from oblong.linalg.row_passes import Block


@contextmanager
def arrow_errors(source: str, what: str = "damaged or unreadable") -> Iterator[None]:
    """Turn errors of Arrow into ours, with the name of the file."""
    try:
        import pyarrow as pa
    except ImportError:
        problem = 'this format needs pyarrow: pip install "oblong[cli]"'
        raise DataFileError(source, problem) from None
    try:
        yield
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise damaged(source, error, what) from None


def open_parquet(path: AnyPath, content: bytes | None) -> Any:
    """Read a Parquet file into an Arrow table, without the index column that pandas adds."""
    source = source_name(path)
    data = read_bytes(path) if content is None else content
    with arrow_errors(source, "damaged Parquet file"):
        import pyarrow as pa
        import pyarrow.parquet as pq

        # Threads of Arrow must not outlive memory that Python owns.
        table = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
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
    codes = whole.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
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
    found = [-1 if v is None or v != v else words.code(_as_cell(v)) for v in values] + [-1]
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
                found[k] = number(word)
            except RowError as error:
                if error.cause != "missing":
                    raise fail(_first_row(codes, k), error) from None
        values = found[codes]
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
