"""Two columns of numbers and one of classes, of a table that may hold anything else."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from oblong._core.text import listed, quote
from oblong.cli.play.models import MOST_CLASSES, MOST_NUMBER, BadRequest
from oblong.cli.play.points import as_points
from oblong.io.cells import peek_records
from oblong.io.dates import looks_like_dates
from oblong.io.dialect import Dialect
from oblong.io.errors import DataFileError, RowError
from oblong.io.labels import LabelCodes
from oblong.io.layout import table_columns
from oblong.io.sources import LineBuffer
from oblong.io.tables import Table

# Rows of a table that are drawn; more would be a cloud, and slow to fit while a point is dragged.
_MOST_ROWS = 300
_LONGEST_NAME = 80
_DIALECTS = (Dialect(), Dialect(decimal=","), Dialect(decimal=",", thousands="."))


@dataclass(frozen=True)
class _Sheet:
    """What can be drawn of a table.

    Attributes
    ----------
    source : str
        Name of the table.
    numbers : dict of str to ndarray
        Columns of numbers; nan where there is none.
    target : str
        Name of the column of classes.
    codes : ndarray of int
        Class of each row; -1 where it has none.
    classes : sequence of str
        Names of the classes.
    choices : list of str
        Columns that could hold the classes.
    notes : tuple of str
        What was left out.
    """

    source: str
    numbers: dict[str, np.ndarray]
    target: str
    codes: np.ndarray
    classes: Sequence[str]
    choices: list[str]
    notes: tuple[str, ...] = ()

    def draw(self, x: str | None, y: str | None) -> dict[str, Any]:
        """Two columns of numbers as points; the first two, unless named."""
        if len(self.numbers) < 2:
            problem = f"expected two columns of numbers beside {quote(self.target)}"
            raise BadRequest(f"{self.source}: {problem}, {self._found()}")
        if len(self.classes) > MOST_CLASSES:
            problem = f"{quote(self.target)} has {len(self.classes):,} different values"
            advice = f"at most {MOST_CLASSES} classes can be drawn; choose another column"
            raise BadRequest(f"{self.source}: {problem}; {advice}")
        free = [name for name in self.numbers if name not in (x, y)]
        x, y = (free.pop(0) if name is None else name for name in (x, y))
        if not {x, y} <= set(self.numbers):
            raise BadRequest(f"expected columns among {listed(list(self.numbers))}")
        X = np.column_stack([self.numbers[x], self.numbers[y]])
        whole = np.flatnonzero(np.isfinite(X).all(axis=1) & (self.codes >= 0))
        if not len(whole):
            raise BadRequest(f"{self.source}: no row has a class and numbers in both columns")
        kept = np.sort(np.random.default_rng(0).permutation(whole)[:_MOST_ROWS])
        notes, gaps = list(self.notes), len(X) - len(whole)
        if gaps:
            rows, verb = ("1 row", "is") if gaps == 1 else (f"{gaps:,} rows", "are")
            notes.append(f"{rows} without a class or a number {verb} left out.")
        if len(kept) < len(whole):
            notes.append(f"{len(kept)} of {len(whole):,} rows are shown.")
        return {
            "source": self.source,
            "points": as_points(X[kept], self.codes[kept]),
            "classes": list(self.classes),
            "columns": list(self.numbers),
            "axes": [x, y],
            "target": self.target,
            "all": self.choices,
            "message": " ".join(notes),
        }

    def _found(self) -> str:
        return f"got only {quote(next(iter(self.numbers)))}" if self.numbers else "got none"


def _count(count: int, noun: str) -> str:
    return f"1 {noun} is" if count == 1 else f"{count:,} {noun}s are"


def columns_of(
    table: Table | Cells, x: str | None = None, y: str | None = None, target: str | None = None
) -> dict[str, Any]:
    """Two columns of numbers of what the command has read, as points.

    Other columns than that of the classes can be chosen as such among cells only.
    """
    if isinstance(table, Cells):
        return table.sheet(target).draw(x, y)
    schema, place = table.schema, table.schema.target_position
    classes = schema.target or ("label" if place is None else str(place + 1))
    every = [str(j + 1) for j in range(schema.n_features + (place is not None))]
    labels = schema.feature_names or [name for name in every if name != classes]
    numbers = {}
    for j in schema.numbers:
        column: Any = table.X[:, [j]]
        column = column.toarray() if sp.issparse(column) else column
        numbers[labels[j]] = np.asarray(column, dtype=float)[:, 0]
    codes = np.unique(table.y, return_inverse=True)[1]
    every = [*labels, classes]
    return _Sheet(table.name, numbers, classes, codes, table.target_names, every).draw(x, y)


def uploaded(node: Any, own: Table | Cells | None = None) -> dict[str, Any]:
    """Two columns of a table whose text came from the page, or of the one the command has read.

    Parameters
    ----------
    node : object
        The request: ``text`` and ``file``, the name of the file, and optionally the names
        ``target``, ``x`` and ``y`` of columns.
    own : Table or Cells, optional
        What the command has read, which is meant if there is no text.
    """
    if not isinstance(node, dict):
        raise BadRequest("expected an object")
    given = [node.get(name) for name in ("text", "file", "target", "x", "y")]
    if not all(value is None or isinstance(value, str) for value in given):
        raise BadRequest("expected text and names of columns")
    text, file, target, x, y = given
    if text is None:
        if own is None:
            raise BadRequest("expected the text of a table")
        return columns_of(own, x, y, target)
    try:
        name = (file or "table.csv")[-_LONGEST_NAME:]
        return read_cells(text.encode("utf-8", "replace"), name).sheet(target).draw(x, y)
    except DataFileError as error:
        # Its own advice is for programs.
        first = "the first line has to name the columns"
        error.advice = first if error.cause == "columns" else None
        raise BadRequest(error.message()) from None


class Cells(NamedTuple):
    """Text cut into columns: their cells and their numbers, or of what kind else they are.

    The classes are in the column ``target``; None chooses one.
    """

    source: str
    columns: dict[str, list[str]]
    values: dict[str, np.ndarray]
    others: dict[str, str]
    notes: tuple[str, ...]
    target: str | None = None

    def sheet(self, target: str | None) -> _Sheet:
        """Tell columns of numbers from others, and choose the classes."""
        target = target or self.target or self._target()
        if target not in self.columns:
            raise BadRequest(f"expected a column among {listed(list(self.columns))}")
        codes, classes = _classes(self.columns[target])
        numbers = {name: column for name, column in self.values.items() if name != target}
        notes = self.notes
        left = [f"{quote(name)} ({kind})" for name, kind in self.others.items() if name != target]
        if left:
            notes += (f"Columns left out: {listed(left)}.",)
        return _Sheet(self.source, numbers, target, codes, classes, list(self.columns), notes)

    def _target(self) -> str:
        """The last column with a few different values, so that numbers remain."""
        for name in reversed(self.columns):
            few = 2 <= len(set(self.columns[name]) - {""}) <= MOST_CLASSES
            if few and len(self.values.keys() - {name}) >= 2:
                return name
        if len(self.values) > 2:
            problem = f"no column has two to {MOST_CLASSES} different values, to be the classes"
            raise DataFileError(self.source, problem)
        return next(reversed(self.columns))


# Other columns of the same text are asked for next.
@lru_cache(maxsize=1)
def read_cells(content: bytes, file: str) -> Cells:
    """Cut the content of a file into columns, whatever they hold."""
    # A path, since the text "-" would mean standard input.
    with LineBuffer(Path(file), content) as lines:
        layout = table_columns(lines)
        while lines.extend():
            pass
        rows = peek_records(lines, layout.delimiter, len(content))
        width = len(layout.names)
        kept = [cells for _, cells in rows if len(cells) == width]
        wrong = next(((place, cells) for place, cells in rows if len(cells) != width), None)
        if not kept:
            raise DataFileError(lines.source, f"expected rows of {width} fields, got none")
        notes: tuple[str, ...] = ()
        if wrong:
            line, found = lines.line_at(wrong[0]), len(wrong[1])
            problem = f"row {line} has {found} fields instead of {width}"
            notes = (f"{_count(len(rows) - len(kept), 'row')} left out: {problem}.",)
        used = [j for j in range(width) if j not in layout.dropped and not (layout.index and j < 1)]
        columns = {}
        for j in used:
            name = layout.names[j] or f"column {j + 1}"
            name = f"{name} ({j + 1})" if name in columns else name
            columns[name] = [cells[j] for cells in kept]
        return Cells(lines.source, columns, *_numbers(columns), notes)


def _numbers(columns: dict[str, list[str]]) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Columns of numbers, however their decimals are written, and the kinds of the others."""
    counts = {name: Counter(cells) for name, cells in columns.items()}

    def read(dialect: Dialect) -> dict[str, dict[str, float]]:
        """The values of the cells of columns that are mostly numbers."""
        found = {}
        for name, words in counts.items():
            values = {word: _value(word, dialect) for word in words}
            finite = sum(n for word, n in words.items() if math.isfinite(values[word]))
            empty = sum(n for word, n in words.items() if dialect.is_missing(word))
            if 2 * finite > words.total() - empty:
                found[name] = values
        return found

    commas = any("," in word for words in counts.values() for word in words)
    found = max(map(read, _DIALECTS if commas else _DIALECTS[:1]), key=len)
    kinds = {}
    for name, words in counts.items():
        if name not in found:
            some = [word for word in words if word]
            kinds[name] = "dates" if looks_like_dates(some, 1) else "text" if some else "empty"
    numbers = {
        name: np.array([values[cell] for cell in columns[name]]) for name, values in found.items()
    }
    return numbers, kinds


def _value(cell: str, dialect: Dialect) -> float:
    try:
        value = dialect.number(cell)
    except RowError:
        return math.nan
    return value if abs(value) <= MOST_NUMBER else math.nan


def _classes(cells: list[str]) -> tuple[np.ndarray, Sequence[str]]:
    """Classes of cells in order, -1 for none, and their names."""
    labels, known = LabelCodes(), {}
    for cell in set(cells):
        try:
            known[cell] = labels.code(cell.encode())
        except RowError:
            known[cell] = -1
    order = np.argsort(np.argsort(np.array(labels.values())))
    codes = np.array([known[cell] for cell in cells])
    return np.where(codes >= 0, np.append(order, -1)[codes], -1), labels.names()
