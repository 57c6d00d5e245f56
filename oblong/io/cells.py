"""The compiled tokenizer of delimited text.

A cell is either quoted, when it starts with a quote, or ends at the next delimiter or line end.
Inside quotes there may be delimiters, line ends and doubled quotes. Blanks around cells and rows
without anything else do not count.
"""

import numpy as np

from oblong._core.compile import compiled
from oblong.io.errors import DataFileError, RowError
from oblong.io.hashing import column_of, extend_hash, is_letter, tidy_row, word_column
from oblong.io.labels import unquoted
from oblong.io.numbers import EASY, SMALL_POWERS, scan_number, spells_missing
from oblong.io.sources import LineBuffer

_NEWLINE, _SPACE, _QUOTE, _MINUS, _POINT = 10, 32, 34, 45, 46
# How a cell or a pass ends: well; between quotes at the end of the text; at bad quotes; at a row
# with the wrong number of cells.
WELL, OPEN, _QUOTES, WIDTH = range(4)
# Longest cell between quotes: a quote that is never closed must not swallow a file.
_LONGEST_CELL = 1 << 17
SKIPPED = -1
# Kinds of numbers that were seen in a column: with leading zeros; three digits behind a point and
# one to three before it, which may be thousands; other decimals; whole numbers, above 999 or not.
N_KINDS = 5
PADDED, GROUPED, DECIMAL, LARGE, SMALL = range(N_KINDS)


@compiled
def _is_blank(c):
    return c == _SPACE or 9 <= c <= 13


@compiled
def scan_cell(text, p, stop, delimiter):
    """Find the ends of a cell.

    Returns where its content starts and stops, without blanks around it and without quotes unless
    there are doubled ones inside; where the cell ends; how many line ends are in it; and how the
    scan ended.
    """
    if text[p] == _QUOTE:
        start, breaks, doubled = p + 1, 0, False
        last = min(stop, start + _LONGEST_CELL)
        end = start
        while end < last and (text[end] != _QUOTE or text[end + 1] == _QUOTE):
            if text[end] == _QUOTE:
                doubled = True
                end += 1
            breaks += text[end] == _NEWLINE
            end += 1
        if end >= last:
            return start, start, p, 0, (OPEN if last == stop else _QUOTES)
        after = end + 1
        while text[after] != delimiter and text[after] != _NEWLINE:
            if not _is_blank(text[after]):
                return start, start, p, 0, _QUOTES
            after += 1
        if doubled:
            return p, end + 1, after, breaks, WELL
    else:
        start, breaks, after = p, 0, p
        while text[after] != delimiter and text[after] != _NEWLINE:
            after += 1
        end = after
    while start < end and _is_blank(text[start]):
        start += 1
    while start < end and _is_blank(text[end - 1]):
        end -= 1
    return start, end, after, breaks, WELL


@compiled
def _kind_of(first, whole, places):
    """The kind of a number by its first digit and how many digits are before and behind a point."""
    if first == 48 and whole > 1:
        return PADDED
    if places > 0:
        return GROUPED if places == 3 and 0 < whole <= 3 and first != 48 else DECIMAL
    return LARGE if whole > 3 else SMALL


@compiled
def _kind(text, p, end):
    """The kind of a number; -1 if it has more than digits and a point."""
    p += text[p] == _MINUS or text[p] == 43
    begin = p
    while p < end and 48 <= text[p] <= 57:
        p += 1
    whole = p - begin
    p += p < end and text[p] == _POINT
    places = end - begin - whole - 1
    while p < end and 48 <= text[p] <= 57:
        p += 1
    return _kind_of(text[begin], whole, max(0, places)) if p == end else -1


@compiled
def parse_cells(
    text, p, stop, limit, most, delimiter, point, slots, gaps, X, cells, starts, odd, seen
):
    """Read the rows that start before ``stop``; none goes on behind ``limit``.

    ``slots`` says what the columns are: from 0 up the columns of ``X``, from -2 down those of
    ``cells``, which get the ends of words, and -1 for columns that are not needed. ``odd`` gets the
    row, the slot and the ends of cells of ``X`` that are not plain numbers. ``point`` separates
    decimals. ``seen`` gets the row, the start and the end of the first number of every kind in each
    column of ``X``, where the row is -1, unless it is empty.

    Returns the numbers of rows, lines and odd cells, where the next row starts, how the pass ended,
    and the number of cells of the row at which it ended.
    """
    row, lines, n_odd, width, surveyed = 0, 0, 0, slots.size, seen.size > 0
    while row < most and p < stop:
        c = int(text[p])
        if c <= _SPACE and c != delimiter:
            blank = p
            while _is_blank(text[blank]) and text[blank] != delimiter and text[blank] != _NEWLINE:
                blank += 1
            if text[blank] == _NEWLINE:
                p = blank + 1
                lines += 1
                continue
        begin, odd_before, breaks = p, n_odd, 0
        starts[row] = p
        for j in range(width):
            slot = slots[j]
            plain = False
            if slot >= 0:
                # What most numbers are, without a call, which would take a fifth longer.
                first = p
                negative = text[p] == _MINUS
                p += negative
                c = int(text[p])
                mantissa, begun = 0, p
                while 48 <= c <= 57:
                    mantissa = 10 * mantissa + (c - 48)
                    p += 1
                    c = int(text[p])
                digits, places = p - begun, 0
                if c == point:
                    p += 1
                    c = int(text[p])
                    begun = p
                    while 48 <= c <= 57:
                        mantissa = 10 * mantissa + (c - 48)
                        p += 1
                        c = int(text[p])
                    places = p - begun
                    digits += places
                plain = c in (delimiter, _NEWLINE) and 0 < digits <= 15
                if plain:
                    value = float(mantissa) / SMALL_POWERS[places]
                    X[row, slot] = -value if negative else value
                    if surveyed:
                        kind = _kind_of(text[first + negative], digits - places, places)
                        if seen[slot, kind, 0] < 0:
                            seen[slot, kind, 0], seen[slot, kind, 1] = row, first
                            seen[slot, kind, 2] = p
                else:
                    p = first
            if not plain:
                start, end, p, more, status = scan_cell(text, p, limit, delimiter)
                if status != WELL:
                    return row, lines, odd_before, begin, status, 0
                breaks += more
                c = int(text[p])
                if slot >= 0:
                    after, value, status = scan_number(text, start)
                    # Where decimals have another mark, a point is for the caller to judge.
                    if status == EASY and after == end and point == _POINT:
                        X[row, slot] = value
                        kind = _kind(text, start, end) if surveyed else -1
                        if kind >= 0 and seen[slot, kind, 0] < 0:
                            seen[slot, kind, 0], seen[slot, kind, 1] = row, start
                            seen[slot, kind, 2] = end
                    elif gaps and spells_missing(text, start, end):
                        X[row, slot] = np.nan
                    elif n_odd == odd.shape[0]:
                        return row, lines, odd_before, begin, WELL, 0
                    else:
                        odd[n_odd, 0], odd[n_odd, 1] = row, slot
                        odd[n_odd, 2], odd[n_odd, 3] = start, end
                        n_odd += 1
                elif slot < SKIPPED:
                    cells[row, SKIPPED - 1 - slot, 0] = start
                    cells[row, SKIPPED - 1 - slot, 1] = end
            if (c != delimiter) != (j == width - 1):
                found = j + 1
                while text[p] == delimiter:
                    _, _, p, _, status = scan_cell(text, p + 1, limit, delimiter)
                    if status != WELL:
                        return row, lines, odd_before, begin, status, 0
                    found += 1
                return row, lines, odd_before, begin, WIDTH, found
            p += 1
        row += 1
        lines += 1 + breaks
    return row, lines, n_odd, p, WELL, 0


@compiled
def _may_be_number(c):
    return 48 <= c <= 57 or c in (_QUOTE, 43, _MINUS, _POINT)


@compiled
def hash_cells(text, cells, names, own, texts, bits, values, columns, counts, odd):
    """Give cells of numbers and words their columns; missing ones become nothing.

    Numbers have the columns ``own`` of their names. A word becomes a feature of its own,
    ``name=word``, with the value 1, and so does each word of a cell of ``texts``. ``odd`` gets the
    entry, the column and the ends of cells that are not plain.
    """
    entries, n_odd = 0, 0
    equals = np.full(1, 61, dtype=np.uint8)
    for row in range(cells.shape[0]):
        before = entries
        for field in range(cells.shape[1]):
            start, end = cells[row, field, 0], cells[row, field, 1]
            if spells_missing(text, start, end):
                continue
            if texts[field]:
                state, p = extend_hash(names[field], equals), start
                while p < end:
                    begin = p
                    while p < end and is_letter(text[p]):
                        p += 1
                    if p > begin:
                        columns[entries] = word_column(state, text[begin:p], bits)
                        values[entries] = 1.0
                        entries += 1
                    p += 1
                continue
            after, value, status = scan_number(text, start)
            if status == EASY and after == end:
                columns[entries], values[entries] = own[field], value
            else:
                state = extend_hash(extend_hash(names[field], equals), text[start:end])
                columns[entries], values[entries] = column_of(state, bits), 1.0
                # Quotes inside, blanks beyond ASCII, and what may be a number after all.
                c = int(text[start])
                if c > 126 or text[end - 1] > 126 or _may_be_number(c):
                    odd[n_odd, 0], odd[n_odd, 1] = entries, field
                    odd[n_odd, 2], odd[n_odd, 3] = start, end
                    n_odd += 1
            entries += 1
        counts[row] = entries - before
    return n_odd


@compiled
def tidy_rows(columns, values, counts):
    """Put the entries of all rows in order; returns how many are left."""
    read, kept = 0, 0
    for row in range(counts.size):
        n = counts[row]
        left = tidy_row(columns[read:], values[read:], n)
        for k in range(left):
            columns[kept + k], values[kept + k] = columns[read + k], values[read + k]
        read += n
        kept += left
        counts[row] = left
    return kept


BAD_QUOTES = "badly quoted field: expected a closing quote, and behind it the end of the field"


def peek_records(
    lines: LineBuffer, delimiter: str, count: int, *, wait: bool = True
) -> list[tuple[int, list[str]]]:
    """The next rows, with their places in the buffer; fewer at the end of the input.

    If not to wait, fewer also at the end of what is in the buffer.
    """
    while True:
        found: list[tuple[int, list[str]]] = []
        place, status = lines.start, WELL
        while len(found) < count and place < lines.stop and status == WELL:
            begin, more = place, True
            cells: list[str] = []
            while more:
                place, status = _peek_cell(lines, place, delimiter, cells)
                more = status == WELL and lines.text[place - 1] != _NEWLINE
            if status == _QUOTES or (status == OPEN and lines.ended):
                raise DataFileError(lines.source, BAD_QUOTES, row=lines.line_at(begin))
            blank = len(cells) == 1 and not lines.text[begin:place].tobytes().strip()
            if status == WELL and not blank:
                found.append((begin, cells))
        if len(found) == count or not wait or not lines.extend():
            return found


def _peek_cell(lines: LineBuffer, place: int, delimiter: str, cells: list[str]) -> tuple[int, int]:
    start, end, after, _, status = scan_cell(lines.text, place, lines.stop, ord(delimiter))
    try:
        cells.append(unquoted(lines.text[start:end].tobytes()))
    except RowError as error:
        raise DataFileError(
            lines.source,
            str(error),
            row=lines.line_at(place),
            cause=error.cause,
            advice=error.advice,
        ) from None
    return after + 1, status
