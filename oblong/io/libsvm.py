"""Rows in the format of LIBSVM: ``label index:value index:value … # comment``."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from oblong._core.compile import compiled
from oblong._core.text import quote
from oblong.io.errors import RowError
from oblong.io.formats import Format, Parsed
from oblong.io.hashing import START, column_of, extend_hash, name_column, tidied, tidy_row
from oblong.io.numbers import BAD, EASY, HARD, SMALL_POWERS, number, scan_number
from oblong.io.sources import LineBuffer

_NEWLINE, _RETURN, _TAB, _SPACE, _HASH, _COLON, _COMMA = 10, 13, 9, 32, 35, 58, 44
_MINUS, _POINT = 45, 46
_LARGEST_INDEX = 2**31 - 2
# Numbers of a block of text that are left to Python.
_HARD = 4096
_ROW = re.compile(rb"\S+([ \t]+qid:\S+)?([ \t]+[^\s:,;{]+:[-+.0-9eE]+)+[ \t]*(#.*)?")
_FIRST = re.compile(rb"[ \t]*[^\s#:]+(?:[ \t]+qid:\S+)?[ \t]+([0-9]+):")


def looks_like_libsvm(line: bytes) -> bool:
    """Tell whether a line reads as a label followed by name:value pairs."""
    return _ROW.fullmatch(line.strip()) is not None


def first_index(line: bytes) -> int | None:
    """The first index of a row, if it has any."""
    found = _FIRST.match(line)
    return None if found is None else min(int(found[1][:9]), 1)


@compiled
def _skip_blanks(text, p):
    while text[p] == _SPACE or text[p] == _TAB or text[p] == _RETURN:
        p += 1
    return p


@compiled
def _line_end(text, p):
    while text[p] != _NEWLINE:
        p += 1
    return p


@compiled
def _ends_field(c):
    return c in (_SPACE, _NEWLINE, _TAB, _RETURN, _HASH)


@compiled
def _is_query(text, p):
    """Whether a field starts with ``qid:``; the line end stops the comparison."""
    return text[p] == 113 and text[p + 1] == 105 and text[p + 2] == 100 and text[p + 3] == _COLON


@compiled
def _parse(text, start, stop, most, first, limit, bits, X, columns, indptr, labels, hard):
    """Read rows of ``label index:value …``.

    Parameters
    ----------
    text : ndarray of uint8
        The text.
    start, stop : int
        Its part to read, which ends with a line end.
    most : int
        Largest number of rows.
    first, limit : int
        The index of column 0, and the number of columns there may be.
    bits : int
        Logarithm of the number of columns if names are hashed, else 0.
    X, columns, indptr : ndarray
        The rows, written; ``X`` and ``columns`` have room for a quarter of the bytes.
    labels : ndarray of int64, of shape (most, 2)
        Where the labels lie, written.
    hard : ndarray of int64, of shape (n, 3)
        Numbers left to the caller: which entry, and where they lie; written.

    Returns
    -------
    rows, lines, hards, p, stuck : int
        Rows, lines and hard numbers read, where the next line starts, and whether the parser
        cannot read it.
    """
    row, lines, hards, entries, p = 0, 0, 0, 0, start
    indptr[0] = 0
    while row < most and p < stop:
        begin, earlier = p, hards
        p = _skip_blanks(text, p)
        if text[p] == _NEWLINE or text[p] == _HASH:
            p = _line_end(text, p) + 1
            lines += 1
            continue
        labels[row, 0] = p
        while not _ends_field(text[p]) and text[p] != _COLON and text[p] != _COMMA:
            p += 1
        labels[row, 1] = p
        fine, n, last = _ends_field(text[p]), 0, -1
        while fine:
            p = _skip_blanks(text, p)
            if text[p] == _NEWLINE:
                break
            if text[p] == _HASH:
                p = _line_end(text, p)
                break
            name, column, plain = p, 0, bits == 0
            if _is_query(text, p):
                while not _ends_field(text[p]):
                    p += 1
                continue
            if plain:
                while 48 <= text[p] <= 57 and column <= _LARGEST_INDEX:
                    column = 10 * column + (int(text[p]) - 48)
                    p += 1
                column -= first
                fine = p > name and last < column < limit
                last = column
            else:
                while not _ends_field(text[p]) and text[p] != _COLON:
                    p += 1
                fine = p > name
                column = column_of(extend_hash(START, text[name:p]), bits)
            if not fine or text[p] != _COLON:
                fine = False
                break
            number = p + 1
            p = number
            # What most numbers are, without a call.
            negative = text[p] == _MINUS
            p += negative
            c = int(text[p])
            mantissa, begun = 0, p
            while 48 <= c <= 57:
                mantissa = 10 * mantissa + (c - 48)
                p += 1
                c = int(text[p])
            digits, places = p - begun, 0
            if c == _POINT:
                p += 1
                c = int(text[p])
                begun = p
                while 48 <= c <= 57:
                    mantissa = 10 * mantissa + (c - 48)
                    p += 1
                    c = int(text[p])
                places = p - begun
                digits += places
            if c <= _HASH and 0 < digits <= 15:
                value, status = float(mantissa) / SMALL_POWERS[places], EASY
                value = -value if negative and mantissa > 0 else value
            else:
                p, value, status = scan_number(text, number)
            if status == BAD or not _ends_field(text[p]) or hards == hard.shape[0]:
                fine = False
                break
            if status == HARD:
                # In hashed rows entries move.
                if not plain:
                    fine = False
                    break
                hard[hards, 0], hard[hards, 1], hard[hards, 2] = entries + n, number, p
                hards += 1
            X[entries + n] = value
            columns[entries + n] = column
            n += 1
        if not fine:
            return row, lines, earlier, begin, 1
        if bits > 0:
            n = tidy_row(columns[entries:], X[entries:], n)
        entries += n
        row += 1
        indptr[row] = entries
        p += 1
        lines += 1
    return row, lines, hards, p, 0


class LIBSVM(Format):
    """``label index:value …``, or ``label name:value …`` if names are hashed."""

    target_label = "1"

    def __init__(self, bits: int, limit: int, *, zero_based: bool) -> None:
        self.bits, self.limit, self.zero_based = bits, limit, zero_based
        self.first = 0 if zero_based else 1
        self._hard = np.empty((_HARD, 3), dtype=np.int64)
        self._values, self._columns = np.empty(0), np.empty(0, dtype=np.int32)

    def state(self) -> dict[str, Any]:
        """What was found out about the input."""
        return {"zero_based": self.zero_based}

    def parse(self, lines: LineBuffer, stop: int, most: int) -> Parsed:
        """Read plain lines."""
        text, start = lines.text, lines.start
        room = (stop - start) // 4 + 2
        most = min(most, (stop - start) // 2 + 1)
        if len(self._values) < room:
            self._values, self._columns = np.empty(room), np.empty(room, dtype=np.int32)
        indptr, spans = np.empty(most + 1, dtype=np.int64), np.empty((most, 2), dtype=np.int64)
        where = (text, start, stop, most, self.first, self.limit, self.bits)
        rows, n_lines, hards, position, stuck = _parse(
            *where, self._values, self._columns, indptr, spans, self._hard
        )
        for entry, a, b in self._hard[:hards].tolist():
            self._values[entry] = float(text[a:b].tobytes())
        entries, spans = int(indptr[rows]), spans[:rows]
        values, columns = self._values[:entries].copy(), self._columns[:entries].copy()
        found: Any = (values, spans[:, 0], {}, columns, np.diff(indptr[: rows + 1]), spans)
        return Parsed(n_lines, position, bool(stuck), *found)

    def parse_one(self, lines: LineBuffer) -> Parsed | None:
        """Read one line with care."""
        try:
            fields = lines.take().decode("utf-8").partition("#")[0].split()
        except UnicodeDecodeError:
            raise RowError("expected UTF-8 text") from None
        if not fields:
            return None
        label, *pairs = fields
        if ":" in label:
            raise RowError(f"expected a class label first, got {quote(label)}", "1")
        if "," in label:
            raise RowError(f"expected one class label, got {quote(label)}", "1")
        columns, values, last = [], [], -1
        for position, pair in enumerate(pairs, start=2):
            if pair.startswith("qid:"):
                continue
            name, colon, text = pair.rpartition(":")
            try:
                last = self._column(pair, name, colon, last)
                values.append(number(text))
            except RowError as error:
                error.column = str(position)
                raise
            columns.append(last)
        indices, numbers = tidied(columns, values)
        length, tokens = np.array([len(numbers)]), [label.encode()]
        return Parsed(1, lines.start, False, numbers, length, {}, indices, length, tokens=tokens)

    def _column(self, pair: str, name: str, colon: str, last: int) -> int:
        if self.bits:
            if not colon or not name or ":" in name:
                raise RowError(f"expected name:value, got {quote(pair)}")
            return name_column(name.encode(), self.bits)
        if not colon or not re.fullmatch(r"[0-9]+", name):
            raise RowError(f"expected index:value, got {quote(pair)}", cause="name")
        # A longer text is no number that Python would like to convert.
        column = int(name[-4000:]) - self.first
        if column < 0:
            problem = "expected an index of at least 1, got 0"
            raise RowError(problem, advice="zero_based= counts from 0")
        if column >= self.limit:
            raise RowError(
                f"expected an index of at most {self.limit - 1 + self.first}, got {quote(name)}",
                cause="index",
            )
        if column <= last:
            raise RowError(f"expected an index above {last + self.first}, got {quote(pair)}")
        return column
