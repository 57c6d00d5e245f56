"""What may help where a column of a table holds words and not numbers, judged by its rows."""

from oblong.io.cells import peek_records
from oblong.io.csv import Csv
from oblong.io.errors import DataFileError, RowError
from oblong.io.numbers import is_missing, is_number
from oblong.io.sources import LineBuffer

# Rows that are looked at, of those that are in the buffer.
_SAMPLE = 200


def hint(lines: LineBuffer, made: Csv, error: RowError, *, first: bool, target: bool) -> str | None:
    """What may help with a word among numbers; None if nothing is known.

    `first` says whether the rows of the buffer are the first of the table, and `target` whether
    somebody has said where the labels are.
    """
    layout = made.layout
    try:
        peeked = peek_records(lines, layout.delimiter, _SAMPLE, wait=False)
    except DataFileError:
        return None
    rows = [cells for _, cells in peeked if len(cells) == len(layout.names)]
    columns = [j for j in made.features if layout.label(j) == error.column]
    if not rows or len(columns) != 1:
        return None
    if first and layout.header and _are_units(rows):
        return "if the first row holds units, skip_bad= skips it"
    if target or layout.target is None:
        return None
    words = [row[columns[0]] for row in rows]
    labels = [row[layout.target] for row in rows]
    fewest = max(2, len(rows) // 2)
    whole = all(not is_number(label) or float(label).is_integer() for label in labels)
    if any(map(is_number, words)) or len(set(words)) > fewest:
        return None
    if whole and len(set(labels)) <= fewest:
        # The last column looks like labels itself.
        return None
    return f"if these are the labels, give target= {error.column}"


def _are_units(rows: list[list[str]]) -> bool:
    """Whether the first row has words above numbers, and no number."""
    first, below = rows[0], rows[1:4]
    return not any(map(is_number, first)) and any(
        not is_missing(cell) and all(is_number(row[j]) for row in below)
        for j, cell in enumerate(first)
        if below
    )
