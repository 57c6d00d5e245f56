"""What an input looks like, decided once: its format, delimiter, header and columns."""

import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oblong._core.text import listed, no_such, quote
from oblong.io.cells import peek_records
from oblong.io.content import DELIMITERS, check_content, check_titles
from oblong.io.csv import Columns, Csv
from oblong.io.errors import DataFileError, RowError
from oblong.io.formats import Format
from oblong.io.jsonl import JSON, load_object
from oblong.io.libsvm import LIBSVM, first_index, looks_like_libsvm
from oblong.io.numbers import is_missing, is_number
from oblong.io.sources import AnyPath, LineBuffer, source_name

FORMATS = ("libsvm", "csv", "tsv", "json")
_ENDINGS = {
    "csv": ".csv",
    "tsv": ".tsv .tab",
    "libsvm": ".libsvm .svmlight .svm",
    "json": ".json .jsonl .ndjson",
    "parquet": ".parquet .pq",
    "npz": ".npz",
}
EXTENSIONS = {ending: name for name, endings in _ENDINGS.items() for ending in endings.split()}
_MAGIC = {b"PAR1": "parquet", b"PK\x03\x04": "npz"}
_TARGETS = ("label", "y", "target", "class")
# What pandas calls a column that counts the rows.
_COUNTERS = ("", "Unnamed: 0", "index", "level_0")
# Bytes in which the first row has to end.
_LONGEST_OPENING = 1 << 17
# Columns of a file that does not say how many it has.
MOST_COLUMNS = 1 << 24
_SAME = "the label and the weight are the same column"


def find_format(path: AnyPath, lines: LineBuffer | None = None) -> str | None:
    """Tell the format from the extension, or else from the content, if that is given."""
    name = Path(path)
    bare = name.with_suffix("") if name.suffix.lower() in (".gz", ".zst", ".zstd") else name
    extension = "" if path == "-" else bare.suffix.lower()
    if extension in EXTENSIONS:
        return EXTENSIONS[extension]
    if lines is None:
        return None
    for magic, kind in _MAGIC.items():
        if lines.starts_with(magic):
            return kind
    if lines.starts_with(b"PK"):
        known = ", ".join(EXTENSIONS)
        problem = (
            f"unknown file type {quote(extension)}; expected one of {known}, or any of them "
            f".gz or .zst"
        )
        raise DataFileError(source_name(path), problem)
    line = skip_to_rows(lines).lstrip()
    if line.startswith((b"{", b"[{")) or line.strip() == b"[":
        return "json"
    return "libsvm" if looks_like_libsvm(line) else "csv"


def skip_to_rows(lines: LineBuffer) -> bytes:
    """Consume blank lines and comments, and return the line behind them."""
    check_content(lines)
    while lines.fill():
        line = lines.peek_line()
        if line.strip() and not line.startswith(b"#"):
            return line
        lines.take()
    raise DataFileError(lines.source, "the file is empty", cause="empty")


def _counts_from_zero(lines: LineBuffer) -> bool:
    """Whether indices of LIBSVM rows count from 0, inferred from the first row with an index."""
    skip_to_rows(lines)
    while True:
        for line in lines.peek_lines():
            index = first_index(line)
            if index is not None:
                return index == 0
        if len(lines.peek_lines()) > 1000 or not lines.extend():
            return False


def _first_target(lines: LineBuffer) -> str:
    """Name of the label of JSON objects, inferred from the first of them."""
    line = skip_to_rows(lines)
    try:
        row = load_object(line)
    except RowError as error:
        place: Any = {"row": lines.line, "advice": error.advice}
        raise DataFileError(lines.source, str(error), **place) from None
    return json_target(list(row), lines.source)


def json_target(names: Sequence[str], source: str) -> str:
    """Name of the label among the names of JSON objects."""
    for name in _TARGETS:
        if name in names:
            return name
    shown = listed([quote(name) for name in names])
    raise DataFileError(source, f"no label among {shown}", advice="choose it with target=")


def make_format(
    name: str | None,
    lines: LineBuffer,
    *,
    bits: int = 0,
    n_features: int | None = None,
    target: str | None = None,
    weight: str | None = None,
    zero_based: bool | None = None,
    header: bool | None = None,
    texts: Sequence[str] = (),
    state: dict[str, Any] | None = None,
    vocabulary: dict[str, int] | None = None,
) -> Format:
    """Make a format; what is in front of the first row is consumed.

    `state` is that of an earlier run, which has seen the start of the input; see
    :class:`~oblong.io.rows.RowReader` for the others.
    """
    limit = 1 << bits if bits else n_features or MOST_COLUMNS
    if name in ("csv", "tsv"):
        delimiter = "\t" if name == "tsv" else None
        if state is not None:
            kept = state | {"dropped": tuple(state.get("dropped", ()))}
            return Csv(bits, Columns(**kept), texts=texts)
        columns = table_columns(
            lines, target=target, weight=weight, delimiter=delimiter, header=header
        )
        for name in texts:
            find_column(columns.names, name, lines.source)
        return Csv(bits, columns, texts=texts)
    if state is None:
        skip_to_rows(lines)
    if name == "json":
        state = state or {"target": target or _first_target(lines), "weight": weight}
        if state["target"] == state["weight"]:
            raise DataFileError(lines.source, _SAME)
        known = {} if vocabulary is None else vocabulary
        return JSON(bits, limit, vocabulary=known, texts=texts, **state)
    if name != "libsvm":
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {name!r}")
    if target is not None:
        problem = "the label of this format is the first field"
        raise DataFileError(lines.source, problem, advice="leave out target=")
    if weight is not None:
        raise DataFileError(lines.source, "this format has no weights", advice="leave out weight=")
    if state:
        zero_based = state["zero_based"]
    elif zero_based is None:
        zero_based = not bits and _counts_from_zero(lines)
    return LIBSVM(bits, limit, zero_based=zero_based)


def find_column(
    names: Sequence[str], target: str | None, source: str, *, unnamed: bool = False
) -> int:
    """Position of a column by name; the last by default.

    An error has the cause "unnamed" where columns have no names, but numbers.
    """
    if target is None:
        return len(names) - 1
    positions = [j for j, name in enumerate(names) if name == target]
    if len(positions) == 1:
        return positions[0]
    if positions:
        raise DataFileError(source, f"{len(positions)} columns are named {quote(target)}")
    shown = listed([quote(name) for name in names])
    cause = "unnamed" if unnamed else None
    raise DataFileError(source, no_such("column", target, names, [shown]), cause=cause)


def table_columns(
    lines: LineBuffer,
    *,
    target: str | None = None,
    weight: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    labelled: bool = True,
    expected: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    skip_rows: int = 0,
) -> Columns:
    """How delimited text is cut into columns; its header is consumed.

    The first row is a header if none of its cells is a number, if it has a name above a number, if
    its numbers count 0, 1, 2, … as pandas names columns, or if a column that is asked for is among
    its cells.

    A first column that counts the rows, unnamed or named as pandas does, is no feature: on sorted
    data it would give the labels away. The first two rows decide. A last column without a name and
    without content comes from delimiters at the ends of the rows. A first line such as ``sep=;``,
    as Excel writes it, says what separates columns.

    Parameters
    ----------
    lines : LineBuffer
        The text.
    target, weight : str, optional
        Names of the columns of labels and of weights, or without a header their numbers.
    delimiter : str, optional
        What separates columns; by default the most frequent of tab, semicolon, comma and ``|`` in
        the first row.
    header : bool, optional
        Whether there is a header; by default as above.
    labelled : bool, default=True
        Whether there are labels; if not, there may be one column only.
    expected : sequence of str, optional
        Names of columns that may be asked for.
    drop : sequence of str
        Columns to leave out.
    skip_rows : int, default=0
        Lines above the header, or above the first row.
    """
    for _ in range(skip_rows):
        if lines.fill():
            lines.take()
    first = skip_to_rows(lines)
    said = re.fullmatch(rb'"?sep=(.)"?\s*', first)
    if said:
        lines.take()
        first = skip_to_rows(lines)
        delimiter = delimiter or said[1].decode("latin-1")
    if not skip_rows:
        check_titles(lines, delimiter)
    delimiter = delimiter or _delimiter(lines, first)
    # The first of live rows must not wait for the second unless it may be a header.
    opening = peek_records(lines, delimiter, 1 if header is False else 2)
    if opening[0][1][0] in _COUNTERS and header is not False:
        opening = peek_records(lines, delimiter, 3)
    number = lines.line_at(opening[0][0])
    names = opening[0][1]
    rows = [cells for _, cells in opening[1:]]
    if len(names) < 2 and labelled:
        problem = "expected columns separated by comma, semicolon, tab or |, got one"
        raise DataFileError(lines.source, problem, row=number, cause="columns")
    if header is None:
        asked = {name for name in (target, weight) if name is not None and not is_number(name)}
        header = not {*asked, *(expected or ())}.isdisjoint(names) or _is_header(names, rows[:1])
    if header:
        if not rows:
            problem = "expected rows below the header, got none"
            raise DataFileError(lines.source, problem, row=number, cause="empty")
        lines.skip_to_place(opening[1][0])
    else:
        names = [str(j + 1) for j in range(len(names))]
    if header and rows and rows[0][len(names) :] == [""]:
        # Rows end with a delimiter, and the header does not.
        names = [*names, ""]
        opening[0][1].append("")
    dropped = [find_column(names, name, lines.source) for name in drop]
    if len(names) > 2 and all(cells[-1] == "" for _, cells in opening):
        dropped.append(len(names) - 1)
    weights = None if weight is None else find_column(names, weight, lines.source)
    free = [j for j in range(len(names)) if j not in (*dropped, weights)]
    labels = None
    if labelled:
        last = target is None and free
        labels = free[-1] if last else find_column(names, target, lines.source)
    if labels in dropped:
        raise DataFileError(lines.source, "the label column cannot be left out")
    if labels is not None and labels == weights:
        raise DataFileError(lines.source, _SAME)
    index = header and names[0] in _COUNTERS and 0 not in (labels, weights) and _counts(rows)
    layout = Columns(names, header, labels, delimiter, weights, index, tuple(dropped))
    if index and not layout.features:
        layout = Columns(names, header, labels, delimiter, weights, dropped=tuple(dropped))
    if labelled and not layout.features:
        raise DataFileError(lines.source, "expected features beside the label and the weight")
    return layout


def _delimiter(lines: LineBuffer, first: bytes) -> str:
    """The most frequent delimiter of the first row, which ends where quotes are in pairs."""
    while first.count(b'"') % 2:
        opening = lines.peek_lines()
        quotes = itertools.accumulate(line.count(b'"') for line in opening)
        n = next((n for n, count in enumerate(quotes, start=1) if count % 2 == 0), 0)
        if n:
            first = b"\n".join(opening[:n])
        elif sum(map(len, opening)) > _LONGEST_OPENING or not lines.extend():
            break
    bare = re.sub(rb'"[^"]*"', b"", first).decode("utf-8", "replace")
    return max(DELIMITERS, key=bare.count)


def _is_header(first: list[str], below: list[list[str]]) -> bool:
    numeric = [is_number(cell) for cell in first]
    if not any(numeric):
        return True
    counted = [cell for cell, known in zip(first, numeric) if known]
    if len(counted) > 1 and counted == [str(j) for j in range(len(counted))]:
        return True
    return any(
        not known and not is_missing(cell) and is_number(other)
        for row in below
        for cell, known, other in zip(first, numeric, row)
    )


def _counts(rows: list[list[str]]) -> bool:
    """Whether the first cells of rows count from 0 or from 1."""
    cells = [row[0] for row in rows]
    return any(cells == [str(k + begin) for k in range(len(cells))] for begin in (0, 1))
