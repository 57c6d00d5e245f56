"""Rows of a delimited table."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any

import numpy as np

from oblong.datasets._dataset import quote
from oblong.datasets._delimited import field_problem
from oblong.streams._formats import NUMBER, Format, OneRow, Parsed, RowError, bad_weight, number
from oblong.streams._hashing import name_column, name_hash
from oblong.streams._kernels import parse_hashed_table, parse_table

__all__ = ["Table", "split_line"]


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
                elif NUMBER.fullmatch(word):
                    values.append(number(word))
                    columns.append(name_column(self.names[j].encode(), self.bits))
                elif word:
                    values.append(1.0)
                    columns.append(name_column(f"{self.names[j]}={word}".encode(), self.bits))
            except RowError as error:
                shown = quote(self.names[j]) if self.header else self.names[j]
                plain = NUMBER.fullmatch(word) or j == self.weight
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
        problem = field_problem(error)
        hint = "; a row has to end on its line" if "quoted" in problem else ""
        raise RowError(problem + hint) from None
