"""Rows of delimited text: what its columns are, and what the tokenizer leaves to be settled."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from oblong._core.text import quote
from oblong.io.cells import (
    BAD_QUOTES,
    DECIMAL,
    GROUPED,
    LARGE,
    N_KINDS,
    OPEN,
    SKIPPED,
    SMALL,
    WELL,
    WIDTH,
    hash_cells,
    parse_cells,
    scan_cell,
    tidy_rows,
)
from oblong.io.dialect import PLAIN, Dialect
from oblong.io.errors import RowError
from oblong.io.formats import Format, Parsed, bad_weight
from oblong.io.hashing import name_column, name_hash
from oblong.io.labels import Words, unquoted
from oblong.io.numbers import MISSING, is_number, number
from oblong.io.sources import LineBuffer

# Cells of a block of text that are left to Python.
_ODD = 4096


@dataclass(frozen=True)
class Columns:
    """How text is cut into columns, and what they are.

    Attributes
    ----------
    names : list of str
        Names of all columns, or their numbers counted from 1.
    header : bool
        Whether the names are those of the file.
    target : int or None
        The column of the labels.
    delimiter : str
        What separates columns.
    weight : int or None
        The column of the weights.
    index : bool
        Whether the first column only counts the rows.
    dropped : tuple of int
        Columns that are left out.
    """

    names: list[str]
    header: bool
    target: int | None
    delimiter: str
    weight: int | None = None
    index: bool = False
    dropped: tuple[int, ...] = ()

    def label(self, column: int) -> str:
        """How a message refers to a column."""
        return quote(self.names[column]) if self.header else self.names[column]

    @property
    def target_name(self) -> str | None:
        """Name of the column of the labels, where the file has such."""
        return self.names[self.target] if self.header and self.target is not None else None

    @property
    def features(self) -> list[int]:
        """The columns of the features."""
        others = (self.target, self.weight, 0 if self.index else None, *self.dropped)
        return [j for j in range(len(self.names)) if j not in others]


class Csv(Format):
    """Rows of delimited text.

    Parameters
    ----------
    layout : Columns
        What the columns are.
    features : sequence of int, optional
        Columns to read, in this order; by default all features.
    words : collection of int
        Those that hold words.
    texts : collection of str
        Names of columns whose words are hashed one by one.
    gaps : bool
        Whether features may be missing.
    undecided : bool
        Whether words among numbers are counted, in ``strays``, and not an error.
    dialect : Dialect
        How numbers and missing values are written.
    """

    def __init__(
        self,
        bits: int,
        layout: Columns,
        *,
        features: list[int] | None = None,
        words: Any = (),
        texts: Any = (),
        gaps: bool = False,
        undecided: bool = False,
        dialect: Dialect = PLAIN,
    ) -> None:
        self.bits, self.layout, self.gaps, self.undecided = bits, layout, gaps, undecided
        self.dialect = dialect
        self.features = layout.features if features is None else features
        hashed = self.features if bits else []
        self.word_columns = [j for j in self.features if j in words]
        self.numbers = [j for j in self.features if j not in words and not bits]
        self.vocabularies = [Words(dialect.missing) for _ in self.word_columns]
        self.strays: dict[int, tuple[int, RowError, int]] = {}
        # The first number of every kind, by column and kind, and its line.
        self.kinds: dict[tuple[int, int], tuple[str, int]] = {}
        self.dense = not bits
        self.target_label = None if layout.target is None else layout.label(layout.target)
        if layout.weight is not None:
            self.numbers.append(layout.weight)
        # The first cells are the labels.
        labels = [] if layout.target is None else [layout.target]
        self._cells = [*labels, *self.word_columns, *hashed]
        self._slots = np.full(len(layout.names), SKIPPED, dtype=np.int64)
        self._slots[self.numbers] = np.arange(len(self.numbers))
        self._slots[self._cells] = SKIPPED - 1 - np.arange(len(self._cells))
        names = [layout.names[j].encode() for j in hashed]
        self._hashes = np.array([name_hash(name) for name in names], dtype=np.uint64)
        own = [name_column(name, bits) for name in names]
        self._own = np.array(own, dtype=np.int32)
        self._texts = np.array([layout.names[j] in texts for j in hashed], dtype=bool)
        self._spans = np.empty((0, len(self._cells), 2), dtype=np.int64)
        self._odd = np.empty((max(_ODD, len(layout.names)), 4), dtype=np.int64)
        self._seen = np.empty((0, N_KINDS, 3), dtype=np.int64)

    def state(self) -> dict[str, Any]:
        """What was found out about the input."""
        return asdict(self.layout) | {"dropped": list(self.layout.dropped)}

    def parse(self, lines: LineBuffer, stop: int, most: int) -> Parsed:
        """Read rows from the buffer."""
        width, text, start = len(self._slots), lines.text, lines.start
        most = min(most, (stop - start) // max(1, 2 * width - 1) + 1)
        X = np.empty((most, len(self.numbers)))
        if len(self._spans) < most:
            self._spans = np.empty((most, len(self._cells), 2), dtype=np.int64)
        starts = np.empty(most, dtype=np.int64)
        separator = ord(self.layout.delimiter)
        marks = (separator, ord(self.dialect.decimal))
        where = (text, start, stop, lines.stop, most, *marks, self._slots, self.gaps)
        rows, n_lines, n_odd, place, status, found = parse_cells(
            *where, X, self._spans, starts, self._odd, self._seen
        )
        X, cells, starts = X[:rows], self._spans[:rows], starts[:rows]
        problems: dict[int, RowError] = {}
        parsed = Parsed(n_lines, place, status != WELL, X, starts, problems)
        for row, slot, a, b in self._odd[:n_odd].tolist():
            self._settle(row, slot, text[a:b].tobytes(), parsed, lines.line_at)
        self._take_out_missing(parsed)
        self._failure = (status, found)
        self._note_kinds(text, starts, lines.line_at)
        if self.layout.weight is not None:
            weights, X = X[:, -1].copy(), X[:, :-1]
            label = self.layout.label(self.numbers[-1])
            for row in np.flatnonzero(weights < 0.0).tolist():
                problems.setdefault(row, RowError(bad_weight(weights[row]), label))
            parsed = parsed._replace(weights=weights, values=X)
        if self.layout.target is not None:
            parsed = parsed._replace(spans=cells[:, 0].copy())
        first = 0 if self.layout.target is None else 1
        if self.bits:
            return self._hashed(parsed, text, cells[:, first:])
        if self.word_columns:
            codes = np.empty((len(self.word_columns), rows), dtype=np.int32)
            for k, vocabulary in enumerate(self.vocabularies):
                codes[k], wrong = vocabulary.codes(text, cells[:, first + k].copy())
                label = self.layout.label(self.word_columns[k])
                for row, error in wrong.items():
                    problems.setdefault(row, RowError(str(error), label, advice=error.advice))
                if not self.gaps:
                    for row in np.flatnonzero(codes[k] == -1).tolist():
                        problem = "expected a category, got a missing value"
                        problems.setdefault(row, RowError(problem, label, cause="missing"))
            parsed = parsed._replace(words=codes)
        return parsed

    def _take_out_missing(self, parsed: Parsed) -> None:
        """Numbers that mean a missing value become gaps, or are wrong."""
        n_features = len(self.numbers) - (self.layout.weight is not None)
        for value in self.dialect.missing_numbers:
            rows, slots = np.nonzero(parsed.values[:, :n_features] == value)
            parsed.values[rows, slots] = np.nan
            if not self.gaps:
                for row, slot in zip(rows.tolist(), slots.tolist()):
                    label = self.layout.label(self.numbers[slot])
                    error = RowError(MISSING, label, cause="missing")
                    parsed.problems.setdefault(row, error)

    def survey(self) -> None:
        """Note which kinds of numbers there are, in ``kinds``; reading takes a third longer."""
        self._seen = np.full((len(self.numbers), N_KINDS, 3), -1, dtype=np.int64)

    def doubtful_points(self) -> list[tuple[int, str, int, bool]]:
        """Columns of numbers such as 2.033, in which points may separate groups of three digits.

        That may be so where columns are separated by semicolons and nobody has said how numbers are
        written. Each comes with its first such number, the line of that, and whether it is likely:
        all others are whole and below 1000, and no column has other decimals.
        """
        if self.layout.delimiter != ";" or self.dialect.thousands is not None:
            return []
        kinds = self.kinds
        decimals = {column for column, kind in kinds if kind == DECIMAL}
        return [
            (column, *found, (column, SMALL) in kinds and not decimals)
            for (column, kind), found in kinds.items()
            if kind == GROUPED and column not in decimals and (column, LARGE) not in kinds
        ]

    def _note_kinds(self, text: np.ndarray, starts: np.ndarray, line_at: Any) -> None:
        """Remember the first number of every kind that was not seen before."""
        here = self._seen[:, :, 0] >= 0
        if np.count_nonzero(here) == len(self.kinds):
            return
        for slot, kind in np.argwhere(here).tolist():
            row, a, b = self._seen[slot, kind].tolist()
            place = self.numbers[slot], kind
            if row >= len(starts):
                # Of a row that could not be read to its end.
                self._seen[slot, kind] = -1
            elif place not in self.kinds:
                self.kinds[place] = text[a:b].tobytes().decode(), line_at(int(starts[row]))

    def _settle(self, row: int, slot: int, cell: bytes, parsed: Parsed, line_at: Any) -> None:
        """Read a cell that is not a plain number."""
        X, column = parsed.values, self.numbers[slot]
        try:
            X[row, slot] = self.dialect.number(unquoted(cell))
        except RowError as error:
            X[row, slot] = np.nan
            if self.gaps and error.cause == "missing":
                return
            if self.undecided and error.cause in ("text", "spelling", "prose"):
                count, first, line = self.strays.get(column, (0, error, 0))
                line = line or line_at(int(parsed.starts[row]))
                self.strays[column] = count + 1, first, line
                return
            if column == self.layout.weight:
                error.cause = None
            error.column = self.layout.label(column)
            parsed.problems.setdefault(row, error)

    def _hashed(self, parsed: Parsed, text: np.ndarray, cells: np.ndarray) -> Parsed:
        """Rows of hashed names."""
        rows, fields = cells.shape[:2]
        # Every other byte of a text may be a word.
        lengths = np.diff(cells[:, self._texts], axis=2).sum() if self._texts.any() else 0
        room = rows * fields + int(lengths) // 2
        values, columns = np.empty(room), np.empty(room, dtype=np.int32)
        counts = np.zeros(rows, dtype=np.int64)
        odd = np.empty((rows * fields, 4), dtype=np.int64)
        where = (text, cells, self._hashes, self._own, self._texts, self.bits)
        n_odd = hash_cells(*where, values, columns, counts, odd)
        row_of = np.repeat(np.arange(rows), counts)
        names = [self.layout.names[j] for j in self._cells[-fields:]]
        for entry, field, a, b in odd[:n_odd].tolist():
            try:
                word = unquoted(text[a:b].tobytes())
                if is_number(word):
                    values[entry], name = number(word), names[field]
                else:
                    values[entry], name = 1.0, f"{names[field]}={word}"
                columns[entry] = name_column(name.encode(), self.bits)
            except RowError as error:
                error.column = self.layout.label(self._cells[-fields:][field])
                error.advice = None
                parsed.problems.setdefault(int(row_of[entry]), error)
        kept = tidy_rows(columns, values, counts)
        return parsed._replace(values=values[:kept], columns=columns[:kept], lengths=counts)

    def parse_one(self, lines: LineBuffer) -> Parsed | None:
        """Say what is wrong with the row that the parser stopped at, and pass over it."""
        status, found = self._failure
        if status == OPEN and lines.extend():
            return None
        if status != WIDTH:
            lines.take()
            raise RowError(BAD_QUOTES)
        place, separator = lines.start, ord(self.layout.delimiter)
        problem = lines.problem_at(place)
        for _ in range(found):
            *_, place, _, _ = scan_cell(lines.text, place, lines.stop, separator)
            place += 1
        lines.take(place - 1)
        if problem is not None:
            raise problem
        width = len(self.layout.names)
        # A row that ends with a delimiter, unlike the first, or text below the table.
        raise RowError(f"expected {width} fields, got {found}", cause="width")
