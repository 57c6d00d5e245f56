"""What is no table of text, or has something above it: recognised by its first lines."""

import re
from collections.abc import Sequence

from oblong._core.text import quote
from oblong.io.errors import DataFileError
from oblong.io.numbers import is_number
from oblong.io.sources import LineBuffer

# The most frequent in the first row separates columns; among equals the first: in "1,5;2,3" the
# commas are decimal ones.
DELIMITERS = ("\t", ";", ",", "|")
_WORKBOOK = ("an Excel workbook", "save it as CSV")
_PAGE = ("an HTML page", "download the data itself")
_PICKLE = ("a pickle, which is a program", "save the data as CSV or Parquet")
_OTHERS: tuple[tuple[bytes, tuple[str, str]], ...] = (
    (rb"PK\x03\x04", ("a ZIP archive", "unpack it; gzip and Zstandard can be read")),
    (rb"\xd0\xcf\x11\xe0", _WORKBOOK),
    (rb"PAR1", ("a Parquet file", "give it the extension .parquet")),
    (rb"ARROW1", ("an Arrow file", "write it as Parquet, or read it with oblong.io.open_rows")),
    (rb"\x93NUMPY", ("an NPY array", "save X and y together with numpy.savez")),
    (rb"\x89HDF", ("an HDF5 file", "save the table as CSV or Parquet")),
    (rb"SQLite format 3", ("an SQLite database", "save the table as CSV")),
    (rb"%PDF", ("a PDF document", "save the table as CSV")),
    (rb"\x80[\x02-\x05][\x8a-\x98}\]c(]", _PICKLE),
    (rb"(?i)\s*<(!doctype html|html|head)\b", _PAGE),
    (rb"\s*<\?xml\b", ("an XML document", "save the table as CSV")),
    (rb"version https://git-lfs", ("a pointer of Git LFS", "git lfs pull fetches the file itself")),
    (rb"(?i)(\s*(%[^\n]*)?\n)*\s*@relation\s", ("an ARFF file", "save the table as CSV")),
)
_QUOTED = re.compile(rb'"[^"]*"')
# Lines in which a table has to begin.
_OPENING = 30


def check_content(lines: LineBuffer) -> None:
    """Refuse other kinds of files, by what they begin with."""
    for pattern, (kind, advice) in _OTHERS:
        if lines.begins_like(pattern):
            raise DataFileError(lines.source, f"expected rows of text, got {kind}", advice=advice)


def check_titles(lines: LineBuffer, delimiter: str | None) -> None:
    """Refuse titles above a table: lines of one cell, and then lines of several, equally many."""
    marks = [mark.encode() for mark in ((delimiter,) if delimiter else DELIMITERS)]
    first = lines.peek_line()
    title = first.decode("utf-8", "replace").strip("".join(DELIMITERS) + ' "\r')
    several = any(_filled(_QUOTED.sub(b"x", first), mark) > 1 for mark in marks)
    if several or is_number(title) or first.count(b'"') % 2 or b"\0" in first:
        return
    opening = lines.peek_lines()[:_OPENING]
    # Live rows must not wait for others.
    while len(opening) < _OPENING and not lines.live and lines.extend():
        opening = lines.peek_lines()[:_OPENING]
    for mark in marks:
        n = _titles([_QUOTED.sub(b"x", line) for line in opening], mark)
        if n:
            problem = f"expected the names of columns, got {quote(title)}, which looks like a title"
            advice = f"skip_rows= {n + lines.line - 1} skips what is above row {n + lines.line}"
            raise DataFileError(lines.source, problem, row=lines.line, advice=advice)


def _filled(line: bytes, mark: bytes) -> int:
    """Cells of a line that are not empty."""
    return sum(bool(cell.strip(b' "\r')) for cell in line.split(mark))


def _titles(opening: Sequence[bytes], mark: bytes) -> int:
    """How many of the lines are above a table."""
    filled = [_filled(line, mark) for line in opening]
    n = next((k for k, count in enumerate(filled) if count > 1), 0)
    table = [line.count(mark) for line in opening[n:] if line.strip()]
    if len(table) < 2 or len(set(table)) > 1 or filled[n] < filled[min(n + 1, len(filled) - 1)]:
        return 0
    padded = opening[0].count(mark) == table[0]
    # A row of a table may have gaps in all cells but one.
    return 0 if padded and n == 1 and b" " not in opening[0].strip() else n
