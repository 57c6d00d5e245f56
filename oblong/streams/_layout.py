"""What a stream looks like: its format, and the columns of a table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from oblong.datasets import DataFileError
from oblong.datasets._dataset import quote
from oblong.datasets._delimited import find_column
from oblong.streams._formats import NUMBER, Format, RowError
from oblong.streams._json_lines import JSON, load_object
from oblong.streams._libsvm import LIBSVM
from oblong.streams._source import LineBuffer
from oblong.streams._table import Table, split_line

__all__ = ["FORMATS", "detect_format", "make_format"]

FORMATS = ("libsvm", "csv", "tsv", "json")
_EXTENSIONS = {
    ".libsvm": "libsvm",
    ".svmlight": "libsvm",
    ".svm": "libsvm",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_LIBSVM_ROW = re.compile(rb"\S+([ \t]+qid:\S+)?([ \t]+[^\s:,;{]+:[-+.0-9eE]+)+[ \t]*(#.*)?")
_DELIMITERS = ("\t", ";", ",")
_TARGETS = ("label", "y", "target", "class")


def detect_format(lines: LineBuffer) -> str:
    """Tell the format from the extension or else from the first row."""
    path = Path(lines.path)
    if path.suffix.lower() in (".gz", ".zst", ".zstd"):
        path = path.with_suffix("")
    if lines.path != "-" and path.suffix.lower() in _EXTENSIONS:
        return _EXTENSIONS[path.suffix.lower()]
    for line in _rows(lines):
        if line.lstrip().startswith(b"{"):
            return "json"
        return "libsvm" if _LIBSVM_ROW.fullmatch(line.strip()) else "csv"
    return "csv"


def make_format(
    name: str,
    lines: LineBuffer,
    *,
    bits: int,
    limit: int,
    target: str | None,
    weight: str | None,
    zero_based: bool,
    header: bool | None,
    state: dict[str, Any] | None,
    vocabulary: dict[str, int],
) -> Format:
    """Make the format; a header is consumed.

    `state` is that of an earlier run, which has seen the start of the input.
    """
    if name == "libsvm":
        if target is not None:
            problem = "the label of this format is the first field; leave --target out"
            raise DataFileError(lines.source, problem)
        if weight is not None:
            raise DataFileError(lines.source, "this format has no weights; leave --weight out")
        return LIBSVM(bits, limit, zero_based=zero_based)
    if name == "json":
        if state is None:
            state = {"target": target or _default_target(lines), "weight": weight}
            _check_different(state["target"], weight, lines.source)
        return JSON(bits, limit, vocabulary=vocabulary, **state)
    if state is None:
        delimiter = "\t" if name == "tsv" else None
        state = _table_layout(lines, target, weight, delimiter, header)
    return Table(bits, limit, **state)


def _rows(lines: LineBuffer) -> Iterator[bytes]:
    """The lines at the start that are neither blank nor comments, as far as the buffer goes."""
    for line in lines.peek_lines():
        if line.strip() and not line.lstrip().startswith(b"#"):
            yield line


def _default_target(lines: LineBuffer) -> str:
    line = next(_rows(lines), None)
    if line is None:
        raise DataFileError(lines.source, "the file is empty")
    try:
        row = load_object(line)
    except RowError as error:
        raise DataFileError(lines.source, str(error), row=lines.line) from None
    for name in _TARGETS:
        if name in row:
            return name
    shown = ", ".join(quote(name) for name in list(row)[:12])
    problem = f"no label among {shown}; choose it with --target"
    raise DataFileError(lines.source, problem, row=lines.line)


def _check_different(target: str | int, weight: str | int | None, source: str) -> None:
    if target == weight:
        raise DataFileError(source, "the label and the weight are the same column")


def _table_layout(
    lines: LineBuffer,
    target: str | None,
    weight: str | None,
    delimiter: str | None,
    header: bool | None,
) -> dict[str, Any]:
    found = False
    while lines.fill():
        line = lines.peek_line()
        if line.strip() and not line.startswith(b"#"):
            found = True
            break
        lines.take_line()
    if not found:
        raise DataFileError(lines.source, "the file is empty")
    number = lines.line
    if delimiter is None:
        bare = re.sub(rb'"[^"]*"', b"", line).decode("utf-8", "replace")
        delimiter = max(_DELIMITERS, key=bare.count)
    try:
        names = [field.strip() for field in split_line(line, delimiter)]
        later = [row for _, row in zip(range(2), _rows(lines))][1:]
        second = [f.strip() for f in split_line(later[0], delimiter)] if later else None
    except RowError as error:
        raise DataFileError(lines.source, str(error), row=number) from None
    if len(names) < 2:
        problem = "expected columns separated by comma, semicolon or tab, got one"
        raise DataFileError(lines.source, problem, row=number)
    if header is None:
        asked = any(name in names and not _is_number(str(name)) for name in (target, weight))
        header = asked or _is_header(names, second)
    if header:
        lines.take_line()
    else:
        names = [str(j + 1) for j in range(len(names))]
    weights = None if weight is None else find_column(names, weight, lines.source)
    labels = find_column(names, target, lines.source)
    if target is None and labels == weights:
        # The labels are in the last column that is not taken.
        labels -= 1
    _check_different(labels, weights, lines.source)
    if weights is not None and len(names) < 3:
        raise DataFileError(lines.source, "expected features beside the label and the weight")
    return {
        "names": names,
        "header": header,
        "target": labels,
        "delimiter": delimiter,
        "weight": weights,
    }


def _is_number(field: str) -> bool:
    return NUMBER.fullmatch(field) is not None


def _is_header(first: list[str], second: list[str] | None) -> bool:
    """Whether the first row has names: no number at all, or a word above a number."""
    if not any(map(_is_number, first)):
        return True
    if second is None:
        return False
    return any(not _is_number(a) and a and _is_number(b) for a, b in zip(first, second))
