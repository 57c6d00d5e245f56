"""A compiled reader of tables of plain numbers.

A decimal number of at most 2⁵³ in its digits and at most 22 in its exponent is one exact product or
quotient of two doubles, hence rounded correctly. Whatever else is in a cell, such as more digits,
spaces or a gap, is left to Python, cell by cell; whatever is unusual about the text, such as
quotes, is left to the other readers.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from oblong._compile import compiled
from oblong._threads import available_threads
from oblong.datasets._delimited import MISSING, is_number

__all__ = ["read_numbers"]

_POWERS = 10.0 ** np.arange(23)
_LARGEST = 2**53
# Text below this size is not worth a second thread, nor code that may have to be compiled first.
_SMALL = 1 << 26
_LABEL, _SKIPPED = -1, -2
_UNUSUAL = -1


@compiled
def _parse(data, begin, end, delimiter, slots, powers, X, labels, hard):
    """Parse rows; returns their number and that of the cells left to Python.

    The last byte is the end of a line, where every loop stops.
    """
    i, row, n_hard = begin, 0, 0
    last = slots.size - 1
    while i < end:
        if data[i] == 10:
            i += 1
            continue
        if row == X.shape[0]:
            return _UNUSUAL, 0
        for j in range(slots.size):
            start, slot = i, slots[j]
            c = np.int64(data[i])
            if slot >= 0:
                negative = c == 45
                if c == 45 or c == 43:
                    i += 1
                    c = np.int64(data[i])
                mantissa, first = 0, i
                while 48 <= c <= 57:
                    mantissa = 10 * mantissa + (c - 48)
                    i += 1
                    c = np.int64(data[i])
                digits, exponent = i - first, 0
                if c == 46:
                    i += 1
                    c = np.int64(data[i])
                    first = i
                    while 48 <= c <= 57:
                        mantissa = 10 * mantissa + (c - 48)
                        i += 1
                        c = np.int64(data[i])
                    digits += i - first
                    exponent = first - i
                plain = 0 < digits <= 18 and mantissa <= _LARGEST
                if plain and (c == 101 or c == 69):
                    i += 1
                    c = np.int64(data[i])
                    sign = -1 if c == 45 else 1
                    if c == 45 or c == 43:
                        i += 1
                        c = np.int64(data[i])
                    shift, first = 0, i
                    while 48 <= c <= 57:
                        shift = 10 * shift + (c - 48)
                        i += 1
                        c = np.int64(data[i])
                    plain = 0 < i - first <= 4
                    exponent += sign * shift
                plain = plain and -22 <= exponent <= 22
                if plain and (c == delimiter or c == 10 or c == 13):
                    value = float(mantissa)
                    value = value * powers[exponent] if exponent > 0 else value / powers[-exponent]
                    X[row, slot] = -value if negative else value
                else:
                    while c != delimiter and c != 10 and c != 13:
                        i += 1
                        c = np.int64(data[i])
                    if n_hard == hard.shape[0]:
                        return _UNUSUAL, 0
                    hard[n_hard, 0], hard[n_hard, 1] = row, slot
                    hard[n_hard, 2], hard[n_hard, 3] = start, i
                    n_hard += 1
            else:
                while c != delimiter and c != 10 and c != 13:
                    i += 1
                    c = np.int64(data[i])
                if slot == _LABEL:
                    labels[row, 0], labels[row, 1] = start, i
            if (c != delimiter) != (j == last):
                return _UNUSUAL, 0
            if c == 13:
                i += 1
                if data[i] != 10:
                    return _UNUSUAL, 0
            i += 1
        row += 1
    return row, n_hard


@compiled
def _hash(data, spans, hashes):
    """Numbers that differ where words do, but for accidents that are checked for."""
    for row in range(hashes.size):
        value = np.uint64(14695981039346656037)
        for i in range(spans[row, 0], spans[row, 1]):
            value = (value ^ np.uint64(data[i])) * np.uint64(1099511628211)
        hashes[row] = value


@compiled
def _same(data, spans, codes, firsts):
    """Whether every word is that of its code."""
    for row in range(codes.size):
        first = firsts[codes[row]]
        length = spans[row, 1] - spans[row, 0]
        if spans[first, 1] - spans[first, 0] != length:
            return False
        for k in range(length):
            if data[spans[row, 0] + k] != data[spans[first, 0] + k]:
                return False
    return True


def read_numbers(
    text: bytes, start: int, delimiter: str, width: int, wanted: list[int], label: int | None
) -> tuple[np.ndarray, np.ndarray | None, list[str]] | None:
    """Read a table of numbers and, if there is one, its column of labels.

    Parameters
    ----------
    text : bytes
        The table; it has no quotes.
    start : int
        Where the first row starts.
    delimiter : str
        What separates columns.
    width : int
        Number of columns.
    wanted : list of int
        Positions of the columns of numbers.
    label : int or None
        That of the labels.

    Returns
    -------
    X : ndarray of shape (n, len(wanted))
        The numbers, nan in gaps.
    codes, words
        The labels as places among the different words, in the order of their appearance.

    or None, if the text is small or anything about it is unusual.
    """
    if len(text) - start < _SMALL or not text.endswith(b"\n"):
        return None
    data = np.frombuffer(text, dtype=np.uint8)
    slots = np.full(width, _SKIPPED, dtype=np.int64)
    slots[wanted] = np.arange(len(wanted))
    if label is not None:
        slots[label] = _LABEL
    threads = min(available_threads(), 8)
    cuts = [start]
    for k in range(1, threads):
        place = text.find(b"\n", start + k * (len(text) - start) // threads) + 1
        cuts.append(max(place, cuts[-1]))
    cuts.append(len(text))
    with ThreadPoolExecutor(threads) as pool:
        counts = list(pool.map(lambda a, b: text.count(b"\n", a, b), cuts, cuts[1:]))
        ends = np.concatenate([[0], np.cumsum(counts)])
        X = np.empty((int(ends[-1]), len(wanted)))
        spans = np.empty((len(X) if label is not None else 0, 2), dtype=np.int64)
        hards = [np.empty((1000 + n * len(wanted) // 40, 4), dtype=np.int64) for n in counts]

        def part(k: int) -> tuple[int, int]:
            rows = slice(ends[k], ends[k + 1])
            own = spans[rows] if label is not None else spans
            return _parse(
                data, cuts[k], cuts[k + 1], ord(delimiter), slots, _POWERS, X[rows], own, hards[k]
            )

        done = list(pool.map(part, range(threads)))
    # Blank lines leave holes between the parts.
    if any(rows != count for (rows, _), count in zip(done, counts)):
        return None
    for k, (_, n_hard) in enumerate(done):
        for row, slot, begin, stop in hards[k][:n_hard].tolist():
            word = text[begin:stop].decode("utf-8", "replace").strip()
            if is_number(word):
                X[ends[k] + row, slot] = float(word)
            elif word.lower() in MISSING:
                X[ends[k] + row, slot] = np.nan
            else:
                return None
    if label is None:
        return X, None, []
    hashes = np.empty(len(X), dtype=np.uint64)
    _hash(data, spans, hashes)
    _, firsts, codes = np.unique(hashes, return_index=True, return_inverse=True)
    if not _same(data, spans, codes, firsts):
        return None
    try:
        words = [text[a:b].decode("utf-8") for a, b in spans[firsts].tolist()]
    except UnicodeDecodeError:
        return None
    return X, codes, words
