"""Tables column by column: numbers with gaps, or words.

The fast readers (pyarrow) and the careful one (Python's csv) give the same columns; which cell is
wrong, and in which line, is only ever looked up when there is one.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from oblong.datasets._dataset import DataFileError, quote
from oblong.datasets._delimited import MISSING, Layout, is_number, line_start, records
from oblong.datasets._plain import LargeFile, read_plain

__all__ = [
    "Column",
    "Words",
    "arrow_column",
    "csv_columns",
    "line_of",
    "numbers_of",
    "whole_of",
]

# Spellings of a missing value that the fast reader knows; the careful one ignores case.
_NULLS = sorted({form for word in MISSING for form in (word, word.upper(), word.title(), "NaN")})
# Rows that are looked at before the whole is read.
_SAMPLE = 200
# Text parsed at a time: what fits a cache is twice as fast as what does not.
_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class Words:
    """A column of text.

    Attributes
    ----------
    codes : ndarray of int
        For each row the place of its word, -1 where the cell is empty or marked as missing.
    words : list of str
        The different words, without spaces around them.
    """

    codes: np.ndarray
    words: list[str]


Column: TypeAlias = np.ndarray | Words


def csv_columns(
    data: bytes,
    source: str,
    layout: Layout,
    wanted: list[int],
    text: set[int],
    guess: bool,
    file: LargeFile | None = None,
) -> dict[int, Column]:
    """Read columns of delimited text.

    Parameters
    ----------
    data, source, layout
        The text, its name for messages, and how it is cut.
    wanted : list of int
        Positions of the columns.
    text : set of int
        Those that hold text in any case.
    guess : bool
        Whether others may hold text too, as the first rows tell.
    file : LargeFile, optional
        The whole, if the text is only its beginning; a file that is not for the compiled reader is
        an error.

    Returns
    -------
    dict
        Columns by position. One of numbers may still come as words.
    """
    known = text | (_guess_text(data, source, layout) if guess else set())
    columns = _read_plain(data, layout, wanted, known, file)
    if columns is not None:
        return columns
    if file is not None:
        raise DataFileError(source, "expected a regular table")
    for typed in (True, False):
        columns = _read_arrow(data, layout, wanted, known if typed else set(wanted))
        if columns is not None:
            return columns
    return _read_csv(data, source, layout, wanted)


def _read_plain(
    data: bytes,
    layout: Layout,
    wanted: list[int],
    text: set[int],
    file: LargeFile | None = None,
) -> dict[int, Column] | None:
    """Read a large table with compiled code; None if it is small or irregular."""
    numbers = [j for j in wanted if j not in text]
    texts = [j for j in wanted if j in text]
    start = line_start(data, layout.first_line)
    whole = data if file is None else file
    found = read_plain(whole, start, layout.delimiter, len(layout.names), numbers, texts)
    if found is None:
        return None
    X, codes, parts, ends = found
    columns: dict[int, Column] = {j: X[:, k] for k, j in enumerate(numbers)}
    for t, j in enumerate(texts):
        kept: dict[str, int] = {}
        start = 0
        for spelled, end in zip(parts, ends):
            _recode(codes[t, start:end], _places(spelled[t], kept))
            start = end
        columns[j] = Words(codes[t], list(kept))
    return columns


def _recode(codes: np.ndarray, places: list[int]) -> None:
    """Replace codes by their places, in place."""
    if places != list(range(len(places))):
        codes[...] = np.array([*places, -1], dtype=codes.dtype)[codes]


def _guess_text(data: bytes, source: str, layout: Layout) -> set[int]:
    rows = records(data, source, layout.delimiter, layout.first_line - 1)
    found: set[int] = set()
    for _, fields in itertools.islice(rows, _SAMPLE):
        for j, field in enumerate(fields[: len(layout.names)]):
            if not is_number(field) and field.strip().lower() not in MISSING:
                found.add(j)
    return found


def _read_arrow(
    data: bytes, layout: Layout, wanted: list[int], text: set[int]
) -> dict[int, Column] | None:
    """Read with pyarrow; None where only the careful reader can decide."""
    try:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv
    except ImportError:
        return None
    quoted = b'"' in data
    if quoted and data.count(b'"') % 2:
        return None
    keys = [str(j) for j in range(len(layout.names))]
    words = pa.dictionary(pa.int32(), pa.string())
    start = line_start(data, layout.first_line)
    # No row may be longer than a block.
    block = max(_BLOCK, 16 * (data.find(b"\n", start) - start))
    numbers = [j for j in wanted if j not in text]
    texts = [j for j in wanted if j in text]
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(memoryview(data)[start:]),
            read_options=arrow_csv.ReadOptions(column_names=keys, block_size=block),
            parse_options=arrow_csv.ParseOptions(
                delimiter=layout.delimiter, newlines_in_values=quoted
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types={keys[j]: words if j in text else pa.float64() for j in wanted},
                include_columns=[keys[j] for j in (*numbers, *texts)],
                null_values=_NULLS,
                strings_can_be_null=True,
            ),
        )
    except pa.ArrowException:
        return None
    if table.num_rows == 0:
        return None
    # Column by column in memory, as they come.
    X = np.empty((table.num_rows, len(numbers)), order="F")
    for k in range(len(numbers)):
        _fill(X[:, k], table.column(k))
    columns: dict[int, Column] = {j: X[:, k] for k, j in enumerate(numbers)}
    for k, j in enumerate(texts, start=len(numbers)):
        columns[j] = arrow_column(table.column(k), str(j), "")
    return columns


def _fill(column: np.ndarray, chunks: Any) -> None:
    """Copy an Arrow column of doubles, a chunk at a time; gaps become nan."""
    start = 0
    for chunk in chunks.iterchunks():
        column[start : start + len(chunk)] = chunk.to_numpy(zero_copy_only=False)
        start += len(chunk)


def whole_of(columns: list[Column]) -> np.ndarray | None:
    """The array whose columns these are, all and in order; None if there is no such array."""
    first = columns[0] if columns else None
    base = first.base if isinstance(first, np.ndarray) else None
    if base is None or base.ndim != 2 or base.shape != (len(first), len(columns)):
        return None
    for k, column in enumerate(columns):
        place = base.ctypes.data + k * base.strides[1]
        if getattr(column, "base", None) is not base or column.ctypes.data != place:
            return None
    return base


def arrow_column(column: Any, source: str, name: str) -> Column:
    """An Arrow column of numbers or of text."""
    import pyarrow as pa
    from pyarrow import types

    kind = column.type
    if types.is_dictionary(kind) and _is_text(kind.value_type):
        whole = column.unify_dictionaries().combine_chunks()
        if isinstance(whole, pa.ChunkedArray):
            whole = whole.chunk(0) if whole.num_chunks else pa.array([], kind)
        codes = whole.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return _tidy(codes, whole.dictionary.to_pylist())
    if _is_text(kind):
        return arrow_column(column.dictionary_encode(), source, name)
    numeric = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    if not any(test(kind) for test in numeric):
        raise DataFileError(source, f"expected numbers, got the type {kind}", column=quote(name))
    # Arrow has no cast from boolean to double in all versions.
    if types.is_boolean(kind):
        column = column.cast(pa.uint8())
    return column.cast(pa.float64(), safe=False).to_numpy()


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return types.is_string(kind) or types.is_large_string(kind) or _is_view(kind)


def _is_view(kind: Any) -> bool:
    from pyarrow import types

    # Younger than the oldest pyarrow that is supported.
    return getattr(types, "is_string_view", lambda kind: False)(kind)


def _places(words: Iterable[str | None], kept: dict[str, int]) -> list[int]:
    """Places of stripped words among those kept, to which they are added; -1 if they are gaps."""
    places = []
    for word in words:
        word = "" if word is None else word.strip()
        missing = word.lower() in MISSING
        places.append(-1 if missing else kept.setdefault(word, len(kept)))
    return places


def _tidy(codes: np.ndarray, words: Iterable[str | None]) -> Words:
    """Strip the words, join those that became equal, and drop those that mean nothing."""
    kept: dict[str, int] = {}
    places = _places(words, kept)
    if places == list(range(len(places))):
        return Words(codes, list(kept))
    # The last place is that of the code -1.
    return Words(np.array([*places, -1], dtype=np.int64)[codes], list(kept))


def _read_csv(data: bytes, source: str, layout: Layout, wanted: list[int]) -> dict[int, Column]:
    """Read row by row; a row with more or fewer fields is an error."""
    width = len(layout.names)
    seen: dict[int, dict[str, int]] = {j: {} for j in wanted}
    codes = {j: array("q") for j in wanted}
    for line, fields in records(data, source, layout.delimiter, layout.first_line - 1):
        if len(fields) != width:
            raise DataFileError(source, f"expected {width} fields, got {len(fields)}", row=line)
        for j in wanted:
            known = seen[j]
            codes[j].append(known.setdefault(fields[j], len(known)))
    return {j: _tidy(np.frombuffer(codes[j], dtype=np.int64), seen[j]) for j in wanted}


def line_of(data: bytes, source: str, layout: Layout, row: int) -> int:
    """Line in which a row, counted from 0, starts."""
    rows = records(data, source, layout.delimiter, layout.first_line - 1)
    return next(itertools.islice(rows, row, None))[0]


def numbers_of(column: Words) -> tuple[np.ndarray, np.ndarray]:
    """Values of a column of words, nan where there is none, and whether each word is a number."""
    numeric = np.array([is_number(word) for word in column.words], dtype=bool)
    values = [float(word) if known else np.nan for word, known in zip(column.words, numeric)]
    return np.array([*values, np.nan])[column.codes], numeric
