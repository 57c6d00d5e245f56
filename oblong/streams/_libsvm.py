"""Rows in the format of LIBSVM."""

from __future__ import annotations

import re

import numpy as np

from oblong.datasets._dataset import quote
from oblong.streams._formats import Format, OneRow, Parsed, RowError, number
from oblong.streams._hashing import name_column
from oblong.streams._kernels import parse_libsvm

__all__ = ["LIBSVM"]


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
