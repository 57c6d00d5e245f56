"""Compiled parsers: lines of text to rows, as far as the text is plain.

A parser stops in front of a line that it cannot read. Such a line is read with care elsewhere,
which finds out what is wrong with it or that it is right after all. All lines are complete: the
last byte of the text is a line end, at which every inner loop stops.
"""

from __future__ import annotations

import numpy as np

from oblong._core.compile import compiled
from oblong._decimals import SMALL_POWERS
from oblong.streams._hashing import START, column_of, extend_hash, tidy_row
from oblong.streams._numbers import BAD, EASY, HARD, scan_number

__all__ = ["parse_hashed_table", "parse_libsvm", "parse_table"]

_NEWLINE, _RETURN, _TAB, _SPACE, _QUOTE, _HASH, _COLON, _EQUALS = 10, 13, 9, 32, 34, 35, 58, 61
_MINUS, _POINT = 45, 46
_LARGEST_INDEX = 2**31 - 2


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
def parse_libsvm(text, start, stop, most, first, limit, bits, X, columns, indptr, labels, hard):
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
        while not _ends_field(text[p]) and text[p] != _COLON:
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


@compiled
def _label_end(text, p, delimiter):
    """End of a label without the blanks around it; -1 if there are quotes or nothing."""
    begin, end = p, p
    while text[p] != delimiter and text[p] != _NEWLINE:
        if text[p] == _QUOTE:
            return -1
        p += 1
        if text[p - 1] != _SPACE and text[p - 1] != _TAB and text[p - 1] != _RETURN:
            end = p
    return end if end > begin else -1


@compiled
def _spaces(text, p):
    while text[p] == _SPACE or text[p] == _RETURN:
        p += 1
    return p


@compiled
def parse_table(text, start, stop, most, delimiter, width, target, X, labels, hard):
    """Read rows of numbers, all but the label; see :func:`parse_libsvm`.

    ``X`` has ``width - 1`` entries a row.
    """
    row, lines, hards, entries, p = 0, 0, 0, 0, start
    while row < most and p < stop:
        begin, earlier = p, hards
        p = _spaces(text, p)
        if text[p] == _NEWLINE:
            p += 1
            lines += 1
            continue
        fine = True
        for field in range(width):
            p = _spaces(text, p)
            if field == target:
                labels[row, 0], labels[row, 1] = p, _label_end(text, p, delimiter)
                fine = labels[row, 1] >= 0
                p = max(p, labels[row, 1])
            else:
                number = p
                p, value, status = scan_number(text, p)
                fine = status != BAD and (status != HARD or hards < hard.shape[0])
                if fine and status == HARD:
                    hard[hards, 0], hard[hards, 1], hard[hards, 2] = entries, number, p
                    hards += 1
                X[entries] = value
                entries += 1
            # A tab may be a blank after a label, or the end of the field.
            while fine and text[p] != delimiter and (text[p] == _TAB or text[p] == _SPACE):
                p += 1
            p = _spaces(text, p)
            fine = fine and text[p] == (delimiter if field < width - 1 else _NEWLINE)
            if not fine:
                break
            p += 1
        if not fine:
            return row, lines, earlier, begin, 1
        row += 1
        lines += 1
    return row, lines, hards, p, 0


@compiled
def parse_hashed_table(
    text, start, stop, most, delimiter, width, target, bits, names, X, columns, indptr, labels
):
    """Read rows of numbers and words with hashed names; see :func:`parse_libsvm`.

    ``names`` has the hashed names of the columns. A word becomes a feature of its own,
    ``name=word``, with the value 1; an empty field becomes nothing.
    """
    row, lines, entries, p = 0, 0, 0, start
    indptr[0] = 0
    word = np.empty(1, dtype=np.uint8)
    word[0] = _EQUALS
    while row < most and p < stop:
        begin, n = p, 0
        p = _spaces(text, p)
        if text[p] == _NEWLINE:
            p += 1
            lines += 1
            continue
        fine = True
        for field in range(width):
            p = _spaces(text, p)
            end = _label_end(text, p, delimiter)
            if field == target:
                labels[row, 0], labels[row, 1] = p, end
                fine = end >= 0
            elif end >= 0:
                after, value, status = scan_number(text, p)
                if status != BAD and after == end:
                    fine = status != HARD
                    columns[entries + n] = column_of(names[field], bits)
                else:
                    value = 1.0
                    # Words of letters only are surely no numbers that are too large.
                    fine = not (48 <= text[p] <= 57 or text[p] == 45 or text[p] == 43)
                    state = extend_hash(extend_hash(names[field], word), text[p:end])
                    columns[entries + n] = column_of(state, bits)
                X[entries + n] = value
                n += 1
            else:
                fine = text[p] == delimiter or text[p] == _NEWLINE
            p = max(p, end)
            while fine and text[p] != delimiter and text[p] != _NEWLINE:
                p += 1
            fine = fine and text[p] == (delimiter if field < width - 1 else _NEWLINE)
            if not fine:
                break
            p += 1
        if not fine:
            return row, lines, begin, 1
        entries += tidy_row(columns[entries:], X[entries:], n)
        row += 1
        indptr[row] = entries
        lines += 1
    return row, lines, p, 0
