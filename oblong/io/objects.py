"""JSON objects as a table: a column per name, written as delimited text and read as such."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oblong.io.errors import DataFileError, RowError
from oblong.io.jsonl import flat_items, load_object
from oblong.io.layout import skip_to_rows
from oblong.io.sources import AnyPath, LineBuffer

_DELIMITER = ","
# Longest text of a cell, in bytes.
_LONGEST = 1 << 16
# Cells of a table most of which are empty; a larger one is no table.
_MOST_CELLS = 1 << 27


def _objects(lines: LineBuffer) -> Iterator[tuple[int, Any]]:
    """Line numbers, and objects or what is wrong with them."""
    skip_to_rows(lines)
    while lines.fill():
        number = lines.line
        text = lines.take()
        if not text.strip():
            continue
        try:
            yield number, _flat(load_object(text))
        except RowError as error:
            yield number, error


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """An object with those inside flattened; a name that comes twice is an error."""
    if not any(isinstance(value, (dict, list)) for value in row.values()):
        return row
    flat: dict[str, Any] = {}
    for name, value in flat_items(row):
        if name in flat:
            raise RowError("expected every name once", f'"{name}"')
        flat[name] = value
    return flat


@dataclass
class Survey:
    """Names of the objects of a file.

    Attributes
    ----------
    counts : dict of str to int
        In how many objects every name is.
    n_rows : int
        Number of objects.
    words : bool
        Whether any value is a word.
    problem : tuple of int and RowError, or None
        The first line that is no object, and what is wrong with it.
    """

    counts: dict[str, int] = field(default_factory=dict)
    n_rows: int = 0
    words: bool = False
    problem: tuple[int, RowError] | None = None

    def sparse(self, target: str) -> bool:
        """Whether most names are absent from most objects, which hold numbers only."""
        counts = [count for name, count in self.counts.items() if name != target]
        n_cells = self.n_rows * len(counts)
        return 2 * sum(counts) < n_cells and (not self.words or n_cells > _MOST_CELLS)


def survey(
    path: AnyPath, content: bytes | None, encoding: str | None, target: str | None
) -> Survey:
    """Names in the order of columns: a new name follows the one before it in its object."""
    found = Survey()
    after: dict[str | None, str | None] = {None: None}
    counts: dict[str, int] = {}
    with LineBuffer(path, content, encoding) as lines:
        for number, row in _objects(lines):
            if isinstance(row, RowError):
                found.problem = found.problem or (number, row)
                continue
            found.n_rows += 1
            if not found.words:
                found.words = any(
                    isinstance(value, str) and name != target for name, value in row.items()
                )
            before = None
            for name in row:
                if name not in after:
                    after[name], after[before] = after[before], name
                counts[name] = counts.get(name, 0) + 1
                before = name
    if len(counts) < 2 and found.problem is not None:
        number, error = found.problem
        raise DataFileError(lines.source, str(error), row=number, advice=error.advice)
    name = after[None]
    while name is not None:
        found.counts[name] = counts[name]
        name = after[name]
    return found


@dataclass(frozen=True)
class Transcript:
    """Objects as delimited text without a header.

    Attributes
    ----------
    names : list of str
        The columns.
    text : bytes
        The text, which begins with an empty line.
    starts, lines : array of int
        Where the rows start in the text, and the lines of their objects.
    problems : dict of int to RowError
        What is wrong with lines that are no objects, by their number; as rows they have one cell.
    """

    names: list[str]
    text: bytes
    starts: array[int]
    lines: array[int]
    problems: dict[int, RowError]


def transcribe(
    path: AnyPath, content: bytes | None, encoding: str | None, names: Sequence[str]
) -> Transcript:
    """Write the values of these names as delimited text; others are passed over."""
    places = {name: j for j, name in enumerate(names)}
    # A first line end, by which all others are recognised, whatever a text has inside.
    text = bytearray(b"\n")
    starts, numbers = array("q"), array("q")
    problems: dict[int, RowError] = {}
    with LineBuffer(path, content, encoding) as lines:
        for number, row in _objects(lines):
            starts.append(len(text))
            numbers.append(number)
            try:
                text += _written(row, places) + b"\n"
            except RowError as error:
                problems[number] = error
                text += b"?\n"
    return Transcript(list(names), bytes(text), starts, numbers, problems)


def _written(row: dict[str, Any] | RowError, places: dict[str, int]) -> bytes:
    if isinstance(row, RowError):
        raise row
    cells = [""] * len(places)
    for name, value in row.items():
        place = places.get(name)
        if place is None or value is None:
            continue
        if isinstance(value, str):
            if len(value) > _LONGEST:
                raise RowError(f"expected a text of at most {_LONGEST} letters", f'"{name}"')
            cells[place] = '"' + value.replace('"', '""') + '"'
        elif isinstance(value, bool):
            cells[place] = "true" if value else "false"
        else:
            cells[place] = repr(value)
    return _DELIMITER.join(cells).encode("utf-8", "replace")


class TranscriptLines(LineBuffer):
    """A transcript as the lines of a table; rows have the line numbers of the objects."""

    def __init__(self, path: AnyPath, transcript: Transcript) -> None:
        self._transcript = transcript
        self._starts = np.frombuffer(transcript.starts, dtype=np.int64)
        super().__init__(path, transcript.text)
        self.skip_to_place(1)

    def line_at(self, place: int) -> int:
        """Number of the line of the object at a place in the buffer."""
        row = int(np.searchsorted(self._starts, self._base + place, side="right")) - 1
        return self._transcript.lines[max(row, 0)]

    def problem_at(self, place: int) -> RowError | None:
        """What is wrong with the line of the object at a place, if that is known."""
        return self._transcript.problems.get(self.line_at(place))
