"""The formats of rows: LIBSVM, delimited tables, JSON lines.

A format reads many plain lines at once with a compiled parser, and single lines with care: those
that the parser stopped at, which are either unusual or wrong.
"""

from __future__ import annotations

import csv
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from oblong.datasets._dataset import quote
from oblong.streams._hashing import name_column, name_hash, tidy_row
from oblong.streams._kernels import parse_hashed_table, parse_libsvm, parse_table
from oblong.streams._numbers import LARGEST

__all__ = ["JSON", "LIBSVM", "Format", "OneRow", "Parsed", "RowError", "Table", "number"]

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
# Numbers of a block of text that are left to Python.
_HARD = 4096


class RowError(ValueError):
    """What is wrong with a row, and in which column."""

    def __init__(self, problem: str, column: str | None = None) -> None:
        super().__init__(problem)
        self.column = column


class OneRow(NamedTuple):
    """A row read with care: its label as text, and its entries."""

    label: bytes
    columns: np.ndarray
    values: np.ndarray
    weight: float = 1.0


class Parsed(NamedTuple):
    """What a compiled parser has read; `spans` says where the labels lie."""

    lines: int
    position: int
    stuck: bool
    values: np.ndarray
    columns: np.ndarray | None
    indptr: np.ndarray
    spans: np.ndarray
    weights: np.ndarray | None = None

    @classmethod
    def nothing(cls, start: int) -> Parsed:
        """No line, so that all are read with care."""
        none = np.empty(0, dtype=np.int32)
        return cls(0, start, True, np.empty(0), none, np.zeros(1, int), np.empty((0, 2), int))


def number(text: str) -> float:
    """Convert a field, or say why not."""
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        raise RowError(f"expected a number, got {quote(text) if text else 'an empty cell'}")
    value = float(text)
    if not abs(value) <= LARGEST:
        raise RowError(f"expected a number of at most {LARGEST:g}, got {quote(text)}")
    return value


def bad_weight(value: float) -> str:
    """What is wrong with a weight below zero."""
    return f"expected a weight from 0 up, got {value:g}"


class Format(ABC):
    """A format.

    Parameters
    ----------
    bits : int
        Logarithm of the number of columns of hashed names; 0 if names are not hashed.
    limit : int
        Number of columns there may be.
    """

    # Whether every row has the same number of columns.
    dense: ClassVar[bool] = False
    # Whether labels are numbers that may be spelled in several ways.
    numeric_labels: ClassVar[bool] = False

    def __init__(self, bits: int, limit: int) -> None:
        self.bits = bits
        self.limit = limit
        self._hard = np.empty((_HARD, 3), dtype=np.int64)
        self._values = np.empty(0)
        self._columns = np.empty(0, dtype=np.int32)

    @abstractmethod
    def parse(self, text: np.ndarray, start: int, stop: int, most: int) -> Parsed:
        """Read plain lines."""

    @abstractmethod
    def parse_line(self, line: bytes) -> OneRow | None:
        """Read one line with care; None for a line without a row."""

    def state(self) -> dict[str, Any]:
        """What was found out about the input, for a later run."""
        return {}

    def _room(self, entries: int) -> None:
        if len(self._values) < entries:
            self._values = np.empty(entries)
            self._columns = np.empty(entries, dtype=np.int32)

    def _settle(self, text: np.ndarray, hards: int) -> None:
        for entry, start, stop in self._hard[:hards].tolist():
            self._values[entry] = float(text[start:stop].tobytes())

    def _tidy(self, label: bytes, columns: Sequence[int], values: Sequence[float]) -> OneRow:
        """Put the entries of a row in order."""
        row_columns, row_values = np.array(columns, dtype=np.int32), np.array(values, dtype=float)
        n = tidy_row(row_columns, row_values, len(row_columns)) if len(row_columns) else 0
        return OneRow(label, row_columns[:n], row_values[:n])


class LIBSVM(Format):
    """``label index:value …``, or ``label name:value …`` if names are hashed."""

    numeric_labels = True

    def __init__(self, bits: int, limit: int, *, zero_based: bool) -> None:
        super().__init__(bits, limit)
        self.first = 0 if zero_based else 1

    def parse(self, text: np.ndarray, start: int, stop: int, most: int) -> Parsed:
        """Read plain lines."""
        self._room((stop - start) // 4 + 2)
        most = min(most, (stop - start) // 2 + 1)
        indptr, spans = np.empty(most + 1, dtype=np.int64), np.empty((most, 2), dtype=np.int64)
        rows, lines, hards, position, stuck = parse_libsvm(
            text,
            start,
            stop,
            most,
            self.first,
            self.limit,
            self.bits,
            self._values,
            self._columns,
            indptr,
            spans,
            self._hard,
        )
        entries = int(indptr[rows])
        self._settle(text, hards)
        return Parsed(
            lines,
            position,
            bool(stuck),
            self._values[:entries].copy(),
            self._columns[:entries].copy(),
            indptr[: rows + 1],
            spans[:rows],
        )

    def parse_line(self, line: bytes) -> OneRow | None:
        """Read one line with care."""
        try:
            fields = line.decode("utf-8").partition("#")[0].split()
        except UnicodeDecodeError:
            raise RowError("expected UTF-8 text") from None
        if not fields:
            return None
        label, *pairs = fields
        if ":" in label:
            raise RowError(f"expected a class label first, got {quote(label)}", "1")
        columns, values, last = [], [], -1
        for position, pair in enumerate(pairs, start=2):
            if pair.startswith("qid:"):
                continue
            name, colon, text = pair.rpartition(":")
            try:
                column = self._column(pair, name, colon, last)
                values.append(number(text))
            except RowError as error:
                raise RowError(str(error), str(position)) from None
            last = column
            columns.append(column)
        return self._tidy(label.encode(), columns, values)

    def _column(self, pair: str, name: str, colon: str, last: int) -> int:
        if self.bits:
            if not colon or not name or ":" in name:
                raise RowError(f"expected name:value, got {quote(pair)}")
            return name_column(name.encode(), self.bits)
        if not colon or not re.fullmatch(r"[0-9]+", name):
            raise RowError(f"expected index:value, got {quote(pair)}; --hash-bits takes names")
        # A longer text is no number that Python would like to convert.
        column = int(name[-4000:]) - self.first
        if column < 0:
            raise RowError("expected an index from 1 up, got 0; --zero-based counts from 0")
        if column >= self.limit:
            raise RowError(
                f"expected an index of at most {self.limit - 1 + self.first}, got {quote(name)}; "
                "--features or --hash-bits takes larger ones"
            )
        if column <= last:
            raise RowError(f"expected an index above {last + self.first}, got {quote(pair)}")
        return column


class Table(Format):
    """Delimited text with numbers in every column but that of the label.

    Parameters
    ----------
    names : sequence of str
        Names of all columns.
    header : bool
        Whether these are those of the file, or only numbers.
    target : int
        The column of the label.
    delimiter : str
        What separates columns.
    weight : int, default=None
        The column of the weights of rows, if there is one.
    """

    def __init__(
        self,
        bits: int,
        limit: int,
        *,
        names: Sequence[str],
        header: bool,
        target: int,
        delimiter: str,
        weight: int | None = None,
    ) -> None:
        super().__init__(bits, limit)
        self.names, self.header, self.target = list(names), header, target
        self.weight = weight
        self.delimiter = delimiter
        self.dense = not bits
        self._hashes = np.array([name_hash(n.encode()) for n in names], dtype=np.uint64)

    def state(self) -> dict[str, Any]:
        """What was found out about the input."""
        return {
            "names": self.names,
            "header": self.header,
            "target": self.target,
            "delimiter": self.delimiter,
            "weight": self.weight,
        }

    @property
    def feature_names(self) -> list[str]:
        """Names of the features."""
        others = (self.target, self.weight)
        return [name for j, name in enumerate(self.names) if j not in others]

    def parse(self, text: np.ndarray, start: int, stop: int, most: int) -> Parsed:
        """Read plain lines."""
        if self.bits and self.weight is not None:
            return Parsed.nothing(start)
        width = len(self.names)
        most = min(most, (stop - start) // max(1, 2 * width - 1) + 1)
        self._room(most * width + width)
        spans = np.empty((most, 2), dtype=np.int64)
        where = (text, start, stop, most, ord(self.delimiter), width, self.target)
        if self.bits:
            indptr = np.empty(most + 1, dtype=np.int64)
            rows, lines, position, stuck = parse_hashed_table(
                *where, self.bits, self._hashes, self._values, self._columns, indptr, spans
            )
            columns = self._columns[: indptr[rows]].copy()
        else:
            rows, lines, hards, position, stuck = parse_table(
                *where, self._values, spans, self._hard
            )
            self._settle(text, hards)
            indptr, columns = np.arange(rows + 1) * (width - 1), None
        values, weights = self._values[: indptr[rows]].copy(), None
        if self.weight is not None:
            place = self.weight - (self.weight > self.target)
            table = values.reshape(rows, width - 1)
            weights, values = table[:, place].copy(), np.delete(table, place, axis=1).ravel()
            indptr = np.arange(rows + 1) * (width - 2)
        return Parsed(
            lines, position, bool(stuck), values, columns, indptr[: rows + 1], spans[:rows], weights
        )

    def parse_line(self, line: bytes) -> OneRow | None:
        """Read one line with care."""
        fields = split_line(line, self.delimiter)
        if len(fields) <= 1 and not "".join(fields).strip():
            return None
        width = len(self.names)
        if len(fields) != width:
            raise RowError(f"expected {width} fields, got {len(fields)}")
        columns, values, weight = [], [], 1.0
        for j, field in enumerate(fields):
            if j == self.target:
                continue
            word = field.strip()
            try:
                if j == self.weight:
                    weight = number(word)
                    if weight < 0.0:
                        raise RowError(bad_weight(weight))
                elif not self.bits:
                    values.append(number(word))
                elif _NUMBER.fullmatch(word):
                    values.append(number(word))
                    columns.append(name_column(self.names[j].encode(), self.bits))
                elif word:
                    values.append(1.0)
                    columns.append(name_column(f"{self.names[j]}={word}".encode(), self.bits))
            except RowError as error:
                shown = quote(self.names[j]) if self.header else self.names[j]
                plain = _NUMBER.fullmatch(word) or j == self.weight
                hint = "" if plain else "; --hash-bits takes words"
                raise RowError(f"{error}{hint}", shown) from None
        label = fields[self.target].strip().encode()
        if self.bits:
            return self._tidy(label, columns, values)._replace(weight=weight)
        return OneRow(label, np.empty(0, dtype=np.int32), np.array(values), weight)


def split_line(line: bytes, delimiter: str) -> list[str]:
    """Cut a line into fields, some of which may be quoted."""
    if b"\0" in line:
        raise RowError("expected text, got binary data")
    try:
        text = line.decode("utf-8").rstrip("\r")
    except UnicodeDecodeError:
        raise RowError("expected UTF-8 text") from None
    try:
        return next(csv.reader([text], delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        raise RowError(f"badly quoted field ({error}); a row has to end on its line") from None


class JSON(Format):
    """An object a line: numbers by name, one of which is the label.

    Objects and lists inside are flattened to ``outer.inner`` and ``outer.0``. True and false are
    one and zero, and what is null is missing. Words need hashing and become ``name=word``.

    Parameters
    ----------
    target : str
        The name of the label.
    vocabulary : dict of str to int
        Columns of the names that are known, to which new names are added if there is no hashing.
    weight : str, default=None
        The name of the weight, if there is one.
    """

    def __init__(
        self,
        bits: int,
        limit: int,
        *,
        target: str,
        vocabulary: dict[str, int],
        weight: str | None = None,
    ) -> None:
        super().__init__(bits, limit)
        self.target, self.vocabulary, self.weight = target, vocabulary, weight

    def state(self) -> dict[str, Any]:
        """What was found out about the input."""
        return {"target": self.target, "weight": self.weight}

    def parse(self, text: np.ndarray, start: int, stop: int, most: int) -> Parsed:
        """Leave all lines to the careful reader."""
        return Parsed.nothing(start)

    def parse_line(self, line: bytes) -> OneRow | None:
        """Read one line."""
        if not line.strip():
            return None
        row = load_object(line)
        if self.target not in row:
            raise RowError(f"expected a label {quote(self.target)}, got none")
        label = row.pop(self.target)
        if label is None or isinstance(label, (dict, list)):
            raise RowError("expected a label that is a word or a number", quote(self.target))
        weight = 1.0 if self.weight is None else self._weight(row)
        columns, values, new = [], [], {}
        for name, value in _flat(row, "", 0):
            if isinstance(value, str):
                if not self.bits:
                    raise RowError(f"expected a number, got {quote(value)}", quote(name))
                name, value = f"{name}={value}", 1.0
            if not abs(value) <= LARGEST:
                raise RowError(f"expected a finite number, got {value}", quote(name))
            if self.bits:
                columns.append(name_column(name.encode("utf-8", "replace"), self.bits))
            else:
                known = self.vocabulary.get(name)
                if known is None:
                    known = new.setdefault(name, len(self.vocabulary) + len(new))
                columns.append(known)
            values.append(float(value))
        if not self.bits and len(self.vocabulary) + len(new) > self.limit:
            raise RowError(f"more than {self.limit} names; --hash-bits takes any number")
        # A row that is wrong adds no names.
        self.vocabulary.update(new)
        text = label if isinstance(label, str) else json.dumps(label)
        found = self._tidy(text.encode("utf-8", "replace"), columns, values)
        return found._replace(weight=weight)

    def _weight(self, row: dict[str, Any]) -> float:
        """Take the weight out of a row."""
        value = row.pop(self.weight, None)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise RowError("expected a weight that is a number", quote(self.weight))
        if not abs(value) <= LARGEST:
            raise RowError(f"expected a weight of at most {LARGEST:g}", quote(self.weight))
        if value < 0:
            raise RowError(bad_weight(value), quote(self.weight))
        return float(value)


def load_object(line: bytes) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = (str(error).splitlines() or ["too deep"])[0]
        raise RowError(f"expected a JSON object ({reason})") from None
    if not isinstance(row, dict):
        raise RowError("expected a JSON object")
    return row


def _flat(row: Any, prefix: str, depth: int) -> Any:
    """Names and values of an object, those inside included."""
    if depth > 20:
        raise RowError("expected an object that is less deep")
    items = row.items() if isinstance(row, dict) else enumerate(row)
    for name, value in items:
        full = f"{prefix}{name}"
        if isinstance(value, (dict, list)):
            yield from _flat(value, f"{full}.", depth + 1)
        elif isinstance(value, int):
            # A number with hundreds of digits has no double.
            yield full, float(value) if abs(value) < 10**300 else math.inf
        elif value is not None:
            yield full, value
