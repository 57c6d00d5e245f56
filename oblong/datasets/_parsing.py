"""Compiled loops over delimited text: numbers to doubles, words to codes.

A number of at most 2⁵³ in its digits and at most 22 in its exponent is one exact product or
quotient of two doubles, hence rounded correctly. One of up to 18 digits takes a product of more
bits, which almost always decides. Every other cell of a column of numbers counts as a word, which
its caller reads.
"""

from __future__ import annotations

import numpy as np

from oblong._core.compile import compiled
from oblong._decimals import HIGHEST, LOWEST, SMALL_POWERS, nearest

__all__ = ["DONE", "FULL", "SKIPPED", "UNUSUAL", "count", "parse", "place_again"]

# How a pass over the text ends.
DONE, FULL, UNUSUAL = 0, 1, 2
# The slot of a column that nobody wants; those of words start below it, those of numbers at 0.
SKIPPED = -1
_LARGEST = 2**53


@compiled
def count(data, byte):
    """How often a byte occurs."""
    total = 0
    for k in range(data.size):
        total += data[k] == byte
    return total


@compiled
def _code(data, start, stop, key, table, keys, spans, size):
    """The code of a word: its own, a new one equal to ``size``, or -1 if there is no room."""
    mask = np.uint64(table.size - 1)
    k = np.int64((key ^ (key >> np.uint64(32))) & mask)
    while table[k] > 0:
        code = table[k] - 1
        first = spans[code, 0]
        if keys[code] == key and spans[code, 1] - first == stop - start:
            same = True
            for i in range(stop - start):
                if data[start + i] != data[first + i]:
                    same = False
                    break
            if same:
                return code
        k = (k + 1) & np.int64(mask)
    if size == keys.size:
        return -1
    table[k] = size + 1
    keys[size] = key
    spans[size, 0], spans[size, 1] = start, stop
    return size


@compiled
def place_again(table, keys):
    """Fill a hash table with the codes of its keys, after it has grown."""
    mask = np.uint64(table.size - 1)
    for code in range(keys.size):
        k = np.int64((keys[code] ^ (keys[code] >> np.uint64(32))) & mask)
        while table[k] > 0:
            k = (k + 1) & np.int64(mask)
        table[k] = code + 1


@compiled
def _digits(data, i):
    """Digits with or without a point: where they end, their value, number and power of ten."""
    mantissa, first = 0, i
    while 48 <= data[i] <= 57:
        mantissa = 10 * mantissa + (np.int64(data[i]) - 48)
        i += 1
    digits, exponent = i - first, 0
    if data[i] == 46:
        i += 1
        first = i
        while 48 <= data[i] <= 57:
            mantissa = 10 * mantissa + (np.int64(data[i]) - 48)
            i += 1
        exponent = first - i
    return i, mantissa, digits - exponent, exponent


@compiled
def _number(data, start, i, mantissa, digits, exponent):
    """Go on with a number after its digits.

    Returns it without a minus and where its cell ends; the start where it is not certain.
    """
    if i == start and (data[i] == 34 or data[i] == 43):
        i += data[i] == 34
        i += data[i] == 43 or data[i] == 45
        i, mantissa, digits, exponent = _digits(data, i)
    if digits > 18:
        # Zeros in front are digits without weight.
        for k in range(start, i):
            c = data[k]
            if 49 <= c <= 57:
                break
            digits -= c == 48
        if digits > 18:
            return 0.0, start
    elif digits == 0:
        return 0.0, start
    c = data[i]
    if c == 101 or c == 69:
        i += 1
        sign = -1 if data[i] == 45 else 1
        if data[i] == 45 or data[i] == 43:
            i += 1
        shift, first = 0, i
        while 48 <= data[i] <= 57:
            shift = 10 * shift + (np.int64(data[i]) - 48)
            i += 1
        if not 0 < i - first <= 4:
            return 0.0, start
        exponent += sign * shift
    if data[start] == 34:
        if data[i] != 34:
            return 0.0, start
        i += 1
    if mantissa <= _LARGEST and -22 <= exponent <= 22:
        # One rounding of two exact numbers.
        value = float(mantissa)
        if exponent > 0:
            return value * SMALL_POWERS[exponent], i
        return value / SMALL_POWERS[-exponent], i
    if mantissa > 0 and LOWEST <= exponent <= HIGHEST:
        value = nearest(np.uint64(mantissa), exponent)
        if value >= 0.0:
            return value, i
    return 0.0, start


@compiled
def _word(data, i, delimiter):
    """Where a word ends, and its key; -1 if its quotes are not in order."""
    key = np.uint64(14695981039346656037)
    c = np.int64(data[i])
    if c != 34:
        while c != delimiter and c != 10 and c != 13:
            key = (key ^ np.uint64(c)) * np.uint64(1099511628211)
            i += 1
            c = np.int64(data[i])
        return i, key
    while True:
        i += 1
        if i == data.size:
            return -1, key
        c = np.int64(data[i])
        key = (key ^ np.uint64(c)) * np.uint64(1099511628211)
        if c == 34:
            i += 1
            c = np.int64(data[i])
            if c == delimiter or c == 10 or c == 13:
                return i, key
            if c != 34:
                return -1, key


@compiled
def parse(data, i, end, row, delimiter, slots, X, codes, tables, keys, spans, sizes, odd):
    """Parse rows from byte ``i`` on.

    Words are coded as they are spelled, quotes included, by one hash table a column; the last table
    has the cells of columns of numbers that are left to the caller, which ``odd`` lists by row,
    slot and code. The last byte is the end of a line, where every loop stops.

    Returns how it ended, the byte and the row to go on from, and the number of odd cells.
    """
    last = slots.size - 1
    n_odd, odd_table = 0, sizes.size - 1
    while i < end:
        c = np.int64(data[i])
        if c == 10 or (c == 13 and data[i + 1] == 10):
            i += 1
            continue
        if row == X.shape[0]:
            return UNUSUAL, i, row, 0
        begin, n_before = i, n_odd
        for j in range(slots.size):
            start, slot = i, slots[j]
            is_word = slot < 0
            if not is_word:
                negative = data[i] == 45
                i += negative
                c = np.int64(data[i])
                mantissa, first = 0, i
                while 48 <= c <= 57:
                    mantissa = 10 * mantissa + (c - 48)
                    i += 1
                    c = np.int64(data[i])
                digits, places = i - first, 0
                if c == 46:
                    i += 1
                    c = np.int64(data[i])
                    first = i
                    while 48 <= c <= 57:
                        mantissa = 10 * mantissa + (c - 48)
                        i += 1
                        c = np.int64(data[i])
                    places = i - first
                    digits += places
                ends = c == delimiter or c == 10 or c == 13
                # What most numbers are, without a call.
                if ends and 0 < digits <= 15:
                    value = float(mantissa) / SMALL_POWERS[places]
                    X[row, slot] = -value if negative else value
                else:
                    value, i = _number(data, start, i, mantissa, digits, -places)
                    c = np.int64(data[i])
                    is_word = c != delimiter and c != 10 and c != 13
                    if i == start:
                        # An empty cell, or a word that is yet to be read.
                        X[row, slot] = np.nan
                    else:
                        negative = negative or (data[start] == 34 and data[start + 1] == 45)
                        X[row, slot] = -value if negative else value
            if is_word:
                i, key = _word(data, start, delimiter)
                if i < 0:
                    return UNUSUAL, start, row, 0
                c = np.int64(data[i])
                if slot != SKIPPED:
                    t = odd_table if slot >= 0 else SKIPPED - 1 - slot
                    code = _code(data, start, i, key, tables[t], keys[t], spans[t], sizes[t])
                    if code < 0 or (slot >= 0 and n_odd == odd.shape[0]):
                        return FULL, begin, row, n_before
                    if code == sizes[t]:
                        sizes[t] += 1
                    if slot >= 0:
                        odd[n_odd, 0], odd[n_odd, 1], odd[n_odd, 2] = row, slot, code
                        n_odd += 1
                    else:
                        codes[t, row] = code
            if (c != delimiter) != (j == last):
                return UNUSUAL, start, row, 0
            i += 1
            if c == 13:
                if data[i] != 10:
                    return UNUSUAL, start, row, 0
                i += 1
        row += 1
    return DONE, i, row, n_odd
