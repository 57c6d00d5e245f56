"""Columns of named features by hashing, and rows put in order."""

import re
from collections.abc import Sequence

import numpy as np

from oblong._core.compile import compiled

_U = np.uint64
START = _U(0xCBF29CE484222325)
_PRIME = _U(0x100000001B3)
_FIRST_MIX, _SECOND_MIX = _U(0xFF51AFD7ED558CCD), _U(0xC4CEB9FE1A85EC53)
_SHIFT = _U(33)


@compiled
def extend_hash(state, text):
    """Take in more bytes of a name (FNV-1a, 64 bits)."""
    for i in range(text.size):
        state = (state ^ _U(text[i])) * _PRIME
    return state


@compiled
def column_of(state, bits):
    """Column of a hashed name, of ``2**bits``; the last bits of FNV alone are not mixed well."""
    state = (state ^ (state >> _SHIFT)) * _FIRST_MIX
    state = (state ^ (state >> _SHIFT)) * _SECOND_MIX
    return np.int32((state ^ (state >> _SHIFT)) >> _U(64 - bits))


_WORD = re.compile(rb"[0-9A-Za-z_\x80-\xff]+")


@compiled
def is_letter(c):
    """Whether a byte belongs to a word: letters, digits, and all beyond ASCII."""
    return c >= 128 or 48 <= c <= 57 or 65 <= c <= 90 or 97 <= c <= 122 or c == 95


@compiled
def word_column(state, text, bits):
    """Column of a word after the bytes that a state has taken in; capitals count as small."""
    for i in range(text.size):
        c = int(text[i])
        state = (state ^ _U(c + 32 if 65 <= c <= 90 else c)) * _PRIME
    return column_of(state, bits)


def text_columns(name: str, text: str, bits: int) -> list[int]:
    """Columns of the words of a text, as :func:`word_column` has them.

    Examples
    --------
    >>> from oblong.io.hashing import name_column, text_columns
    >>> text_columns("title", "Cheap pills!", 10) == [
    ...     name_column(b"title=cheap", 10), name_column(b"title=pills", 10)
    ... ]
    True
    """
    words = _WORD.findall(text.encode("utf-8", "replace").lower())
    return [name_column(name.encode("utf-8", "replace") + b"=" + word, bits) for word in words]


def name_column(name: bytes, bits: int) -> int:
    """Column of a name.

    Examples
    --------
    >>> from oblong.io.hashing import name_column
    >>> 0 <= name_column(b"colour=red", 10) < 1024
    True
    """
    return int(column_of(name_hash(name), bits))


def name_hash(name: bytes) -> np.uint64:
    """Hash a name, so that more bytes can be taken in."""
    return _U(extend_hash(START, np.frombuffer(bytearray(name), dtype=np.uint8)))


@compiled
def tidy_row(columns, values, n):
    """Sort the first ``n`` entries of a row by column, and add up those of the same column.

    Returns the number of entries that are left.
    """
    ordered = True
    for i in range(n - 1):
        if columns[i] >= columns[i + 1]:
            ordered = False
            break
    if ordered:
        return n
    gap = 1
    while 3 * gap + 1 < n:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            column, value, j = columns[i], values[i], i
            while j >= gap and columns[j - gap] > column:
                columns[j], values[j] = columns[j - gap], values[j - gap]
                j -= gap
            columns[j], values[j] = column, value
        gap //= 3
    kept = 0
    for i in range(1, n):
        if columns[i] == columns[kept]:
            values[kept] += values[i]
        else:
            kept += 1
            columns[kept], values[kept] = columns[i], values[i]
    return kept + 1


def tidied(columns: Sequence[int], values: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """The entries of a row as arrays, sorted by column, those of the same column added up."""
    row_columns, row_values = np.array(columns, dtype=np.int32), np.array(values, dtype=float)
    n = tidy_row(row_columns, row_values, len(row_columns)) if len(row_columns) else 0
    return row_columns[:n], row_values[:n]
