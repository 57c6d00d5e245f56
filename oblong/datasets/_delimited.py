"""Comma, semicolon and tab separated text.

Two readers share one definition. The careful one goes row by row and knows where it is; the
fast one (pyarrow, typed columns) either agrees with it or steps aside, so that every error
message comes from the careful one. It is milder in one point: text right behind a closing quote is
part of the cell, as it is for pandas.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from oblong.datasets._dataset import DataFileError, decode_labels, quote

__all__ = [
    "MISSING",
    "Layout",
    "cell_problem",
    "field_problem",
    "find_column",
    "find_layout",
    "find_rows",
    "is_number",
    "line_start",
    "read_delimited",
    "records",
    "refuse_binary",
]

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
MISSING = {"", "?", "na", "n/a", "nan", "null", "none"}
# The first is taken when two occur equally often: in "1,5;2,3" the commas are decimal ones.
_DELIMITERS = ("\t", ";", ",")


@dataclass(frozen=True)
class Layout:
    """How the text is cut into columns, and where its data rows start."""

    delimiter: str
    names: tuple[str, ...]
    has_header: bool
    target: int
    first_line: int

    def label(self, column: int) -> str:
        """How a message refers to a column."""
        return quote(self.names[column]) if self.has_header else str(column + 1)


def read_delimited(
    data: bytes, source: str, target: str | None, delimiter: str | None = None
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...] | None]:
    """Read delimited text into features, labels and feature names.

    Parameters
    ----------
    data : bytes
        UTF-8 text, with or without a byte order mark. Lines that start with ``#`` before the
        first row are comments; blank lines are skipped.
    source : str
        Name for messages.
    target : str, optional
        Label column by name or, in a file without a header, by its number from 1. The last
        column by default.
    delimiter : str, optional
        Column separator; by default the most frequent of tab, semicolon and comma in the first
        row.

    Notes
    -----
    The first row is a header if none of its fields is a number, if it has text above a number,
    if its numbers count 0, 1, 2, … as pandas names columns, or if one of its fields is `target`.
    An unnamed first column that counts the rows, as pandas writes it, is left out: on sorted
    data it would give the labels away.
    """
    refuse_binary(data, source)
    layout = find_layout(data, source, target, delimiter)
    X, y = _read_fast(data, layout) or _read_carefully(data, source, layout)
    names = [name for j, name in enumerate(layout.names) if j != layout.target]
    if layout.has_header and names[0] == "" and X.shape[1] > 1:
        counting = np.arange(len(X), dtype=float)
        if np.array_equal(X[:, 0], counting) or np.array_equal(X[:, 0], counting + 1):
            X, names = np.ascontiguousarray(X[:, 1:]), names[1:]
    return X, y, tuple(names) if layout.has_header else None


def find_column(names: Sequence[str], target: str | None, source: str) -> int:
    """Position of the label column: `target` by name, the last by default."""
    if target is None:
        return len(names) - 1
    positions = [j for j, name in enumerate(names) if name == target]
    if len(positions) == 1:
        return positions[0]
    if positions:
        raise DataFileError(source, f"{len(positions)} columns are named {quote(target)}")
    close = get_close_matches(target, names, n=1)
    hint = f" (did you mean {quote(close[0])}?)" if close else ""
    shown = ", ".join(quote(name) for name in names[:12])
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    raise DataFileError(source, f"no column {quote(target)}{hint}; the columns are {shown}{more}")


def refuse_binary(data: bytes, source: str) -> None:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataFileError(source, "expected UTF-8 text, got UTF-16; save the file as UTF-8")
    position = data.find(b"\0")
    if position >= 0:
        row = data.count(b"\n", 0, position) + 1
        raise DataFileError(source, "expected text, got binary data", row=row)


def _lines(data: bytes, source: str) -> Iterator[str]:
    """Yield the lines of the text with their line ends."""
    try:
        yield from io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", newline="")
    except UnicodeDecodeError:
        pass
    else:
        return
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        row = data.count(b"\n", 0, error.start) + 1
        problem = f"expected UTF-8 text, got the byte 0x{data[error.start]:02x}"
        raise DataFileError(source, problem, row=row) from None


def records(
    data: bytes, source: str, delimiter: str, skip: int = 0
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the fields of every row that is not blank."""
    lines = itertools.islice(_lines(data, source), skip, None)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        line = skip + reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataFileError(source, field_problem(error), row=line) from None
        if len(fields) > 1 or (fields and fields[0].strip()):
            yield line, fields


def field_problem(error: csv.Error) -> str:
    """Say what Python's reader stumbled over."""
    if "field limit" in str(error):
        return f"expected fields of at most {csv.field_size_limit():,} characters"
    # The delimiter is part of it, and may be a tab.
    reason = str(error).replace("\t", "tab")
    return f"badly quoted field ({reason})"


def find_layout(data: bytes, source: str, target: str | None, delimiter: str | None) -> Layout:
    """How the text of a labelled table is cut into columns."""
    delimiter, opening = _opening(data, source, delimiter)
    line_number, fields = opening[0]
    names = tuple(field.strip() for field in fields)
    if len(names) < 2:
        problem = "expected columns separated by comma, semicolon or tab, got one"
        raise DataFileError(source, problem, row=line_number)
    second_line, second = opening[1] if len(opening) > 1 else (0, None)
    named = target in names and not is_number(target)
    if named or _is_header(names, second):
        if second is None:
            problem = "expected rows below the header, got none"
            raise DataFileError(source, problem, row=line_number)
        return Layout(delimiter, names, True, find_column(names, target, source), second_line)
    numbers = tuple(str(j + 1) for j in range(len(names)))
    return Layout(delimiter, numbers, False, find_column(numbers, target, source), line_number)


def find_rows(
    data: bytes, source: str, delimiter: str | None, expected: Sequence[str] | None, text: bool
) -> Layout:
    """How text without labels is cut into columns.

    The first row is a header if one of the names expected is in it. Where none are expected, it is
    one if it has words above numbers, unless words are what the columns hold (``text``).
    """
    delimiter, opening = _opening(data, source, delimiter)
    line_number, fields = opening[0]
    names = tuple(field.strip() for field in fields)
    second_line, second = opening[1] if len(opening) > 1 else (0, None)
    if expected is not None:
        header = not set(names).isdisjoint(expected) or _is_header(names, second)
    else:
        header = not text and _is_header(names, second)
    if not header:
        numbers = tuple(str(j + 1) for j in range(len(names)))
        return Layout(delimiter, numbers, False, -1, line_number)
    if second is None:
        problem = "expected rows below the header, got none"
        raise DataFileError(source, problem, row=line_number)
    return Layout(delimiter, names, True, -1, second_line)


def _opening(
    data: bytes, source: str, delimiter: str | None
) -> tuple[str, list[tuple[int, list[str]]]]:
    """The delimiter, and the first two rows with their line numbers."""
    skip, first = 0, ""
    for line in _lines(data, source):
        if first or (line.strip() and not line.startswith("#")):
            first += line
            # An odd quote is open, and its row goes on in the next line.
            if first.count('"') % 2 == 0:
                break
        else:
            skip += 1
    if not first:
        raise DataFileError(source, "the file is empty")
    if delimiter is None:
        bare = re.sub(r'"[^"]*"', "", first)
        delimiter = max(_DELIMITERS, key=bare.count)
    opening = list(itertools.islice(records(data, source, delimiter, skip), 2))
    if not opening:
        raise DataFileError(source, "the file is empty")
    return delimiter, opening


def is_number(field: str) -> bool:
    return _NUMBER.fullmatch(field.strip()) is not None


def _is_header(first: Sequence[str], second: Sequence[str] | None) -> bool:
    numeric = [is_number(field) for field in first]
    if not any(numeric):
        return True
    counted = [field for field, number in zip(first, numeric) if number]
    if len(counted) > 1 and counted == [str(j) for j in range(len(counted))]:
        return True
    if second is None:
        return False
    return any(
        not number and field.lower() not in MISSING and is_number(below)
        for field, number, below in zip(first, numeric, second)
    )


def _read_carefully(data: bytes, source: str, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Read row by row; raise at the first cell that is not what it should be."""
    width, target = len(layout.names), layout.target
    values, codes = array("d"), array("q")
    seen: dict[str, int] = {}
    for line, fields in records(data, source, layout.delimiter, layout.first_line - 1):
        if len(fields) != width:
            raise DataFileError(source, f"expected {width} fields, got {len(fields)}", row=line)
        label = fields[target].strip()
        if label.lower() in MISSING:
            got = quote(label) if label else "an empty cell"
            raise DataFileError(
                source,
                f"expected a class label, got {got}",
                row=line,
                column=layout.label(target),
            )
        codes.append(seen.setdefault(label, len(seen)))
        for j, field in enumerate(fields):
            if j != target:
                problem = cell_problem(field)
                if problem:
                    raise DataFileError(source, problem, row=line, column=layout.label(j))
                values.append(float(field))
    X = np.frombuffer(values, dtype=np.float64).reshape(len(codes), width - 1)
    return X, decode_labels(list(seen), np.frombuffer(codes, dtype=np.int64))


def cell_problem(field: str) -> str | None:
    """Say what is wrong with a feature cell, if anything."""
    field = field.strip()
    if is_number(field):
        if math.isfinite(float(field)):
            return None
        return f"expected a finite number, got {quote(field)}"
    if not field:
        return "expected a number, got an empty cell"
    hint = " (write decimals with a point)" if _DECIMAL_COMMA.fullmatch(field) else ""
    return f"expected a number, got {quote(field)}{hint}"


def _read_fast(data: bytes, layout: Layout) -> tuple[np.ndarray, np.ndarray] | None:
    """Read typed columns with pyarrow; None where only the careful reader can decide."""
    try:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv
    except ImportError:
        return None
    if data.count(b'"') % 2:
        return None
    # Positions as names: the file's own may repeat.
    keys = [str(j) for j in range(len(layout.names))]
    types = {key: pa.float64() for key in keys}
    types[str(layout.target)] = pa.dictionary(pa.int32(), pa.string())
    start = line_start(data, layout.first_line)
    try:
        table = arrow_csv.read_csv(
            pa.py_buffer(memoryview(data)[start:]),
            read_options=arrow_csv.ReadOptions(column_names=keys, block_size=1 << 24),
            parse_options=arrow_csv.ParseOptions(
                delimiter=layout.delimiter, newlines_in_values=b'"' in data
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types, null_values=[""], strings_can_be_null=True
            ),
        )
    except pa.ArrowException:
        return None
    if any(column.null_count for column in table.columns):
        return None
    labels = table.column(layout.target).unify_dictionaries().combine_chunks()
    if isinstance(labels, pa.ChunkedArray):
        labels = labels.chunk(0)
    spellings = labels.dictionary.to_pylist()
    if any(s.strip().lower() in MISSING for s in spellings):
        return None
    features = [j for j in range(len(keys)) if j != layout.target]
    X = np.empty((table.num_rows, len(features)))
    for k, j in enumerate(features):
        X[:, k] = table.column(j).to_numpy()
    if not np.isfinite(X).all():
        return None
    return X, decode_labels(spellings, labels.indices.to_numpy(zero_copy_only=False))


def line_start(data: bytes, line: int) -> int:
    """Byte at which a line, counted from 1, starts."""
    if line == 1:
        return 3 if data.startswith(b"\xef\xbb\xbf") else 0
    for count, match in enumerate(re.finditer(rb"\r\n|\n|\r", data), start=2):
        if count == line:
            return match.end()
    return len(data)
