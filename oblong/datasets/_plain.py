"""A compiled reader of large tables of numbers and words.

It reads what is regular: UTF-8 text in which quotes enclose whole cells and every row has all its
fields. Whatever is unusual about the text is left to the other readers. The text is taken in pieces
that fit a cache, so that a file need not be in memory.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

import numpy as np

from oblong._core.threads import available_threads
from oblong.datasets._delimited import MISSING, is_number
from oblong.datasets._parsing import (
    FULL,
    SKIPPED,
    UNUSUAL,
    count,
    parse,
    place_again,
)

__all__ = ["LargeFile", "read_plain"]

# Text below this size is not worth a second thread, nor code that may have to be compiled first.
_SMALL = 1 << 26
# Different words of a column: at first, and at most.
_FEW, _MOST = 1 << 8, 1 << 16
# Words of all columns together, of which each takes 40 bytes.
_MOST_TOGETHER = 1 << 24
# Cells that are no plain numbers, before these are dealt with.
_ODD = 1 << 14
# Bytes read at a time, and those in which the end of a row is looked for.
_PIECE, _WINDOW = 1 << 22, 1 << 16


class LargeFile:
    """A file that is read slice by slice, as text in memory would be."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY)
        self._size = os.fstat(self._file).st_size

    @staticmethod
    def suits(path: Path) -> bool:
        """Whether a file is large, and can be read so on this system."""
        return hasattr(os, "pread") and path.is_file() and path.stat().st_size >= max(_SMALL, 1)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, key: slice) -> bytes:
        start, stop, _ = key.indices(self._size)
        found, missing = [], stop - start
        while missing > 0:
            # One call gives 2 GB at most.
            part = os.pread(self._file, missing, stop - missing)
            if not part:
                break
            found.append(part)
            missing -= len(part)
        return found[0] if len(found) == 1 else b"".join(found)

    def __enter__(self) -> LargeFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._file)


class _Unusual(Exception):
    """The text is not for this reader."""


class _Words:
    """The different words of some columns of a part of the text, as they are spelled."""

    def __init__(self, text: bytes, columns: int) -> None:
        self.text = text
        self.sizes = np.zeros(columns, dtype=np.int64)
        self.keys = np.empty((columns, 0), dtype=np.uint64)
        self.spans = np.empty((columns, 0, 2), dtype=np.int64)
        self.grow(_FEW)

    def grow(self, room: int) -> None:
        columns, before = self.keys.shape
        if room > _MOST or room * columns > max(_MOST_TOGETHER, _FEW * columns):
            raise _Unusual
        keys = np.empty((columns, room), dtype=np.uint64)
        spans = np.empty((columns, room, 2), dtype=np.int64)
        keys[:, :before], spans[:, :before] = self.keys, self.spans
        self.keys, self.spans = keys, spans
        self.tables = np.zeros((columns, 2 * room), dtype=np.int32)
        for table, known, size in zip(self.tables, keys, self.sizes):
            place_again(table, known[:size])

    def make_room(self) -> None:
        room = self.keys.shape[1]
        if self.sizes.max() == room:
            self.grow(4 * room)

    def spelled(self, column: int, first: int = 0) -> list[str]:
        """Words of a column, without their quotes."""
        found = []
        for a, b in self.spans[column, first : self.sizes[column]].tolist():
            try:
                word = self.text[a:b].decode("utf-8")
            except UnicodeDecodeError:
                raise _Unusual from None
            if "\0" in word:
                raise _Unusual
            found.append(word[1:-1].replace('""', '"') if word.startswith('"') else word)
        return found


def _read_part(
    text: bytes, delimiter: str, slots: np.ndarray, X: np.ndarray, codes: np.ndarray
) -> tuple[int, list[list[str]]]:
    """Read some rows; returns their number and the words of each column of words."""
    data = np.frombuffer(text, dtype=np.uint8)
    words = _Words(text, len(codes) + 1)
    odd = np.empty((max(_ODD, len(slots)), 3), dtype=np.int64)
    values = np.empty(0)
    row, place = 0, 0
    while True:
        status, place, row, n_odd = parse(
            data,
            place,
            len(text),
            row,
            ord(delimiter),
            slots,
            X,
            codes,
            words.tables,
            words.keys,
            words.spans,
            words.sizes,
            odd,
        )
        if status == UNUSUAL:
            raise _Unusual
        values = np.append(values, [_value(w) for w in words.spelled(len(codes), len(values))])
        rows, places, kinds = odd[:n_odd].T
        X[rows, places] = values[kinds]
        if status != FULL:
            return row, [words.spelled(t) for t in range(len(codes))]
        words.make_room()


def _value(word: str) -> float:
    """The number that a word is, nan for a gap."""
    word = word.strip()
    if is_number(word):
        return float(word)
    if word.lower() in MISSING:
        return np.nan
    raise _Unusual


def _end_of_row(text: bytes | LargeFile, place: int, inside: int) -> int:
    """Where the first row ends whose end is at the place or behind it.

    ``inside`` says whether the place is between quotes.
    """
    limit = place + 4 * _PIECE
    while place < len(text):
        window = text[place : place + _WINDOW]
        at = 0
        while following := window.find(b"\n", at) + 1:
            inside ^= window.count(b'"', at, following) & 1
            at = following
            if not inside:
                return place + at
        inside ^= window.count(b'"', at) & 1
        place += len(window)
        if not window or place > limit:
            raise _Unusual
    return len(text)


def _pieces(
    text: bytes | LargeFile, start: int, heed: bool, pool: ThreadPoolExecutor
) -> tuple[list[int], list[int], bool]:
    """Cut the text between rows.

    Returns the cuts, how many lines end before each, and whether there are quotes, which count if
    ``heed`` says so.
    """
    near = list(range(start, len(text), _PIECE))

    def look(place: int) -> tuple[int, int]:
        data = np.frombuffer(text[place : min(place + _PIECE, len(text))], dtype=np.uint8)
        return count(data, 10), count(data, 34)

    seen = np.array([*pool.map(look, near), (0, 0)], dtype=np.int64)
    lines, quotes = seen.cumsum(axis=0).T.tolist()
    cuts, before = [start], [0]
    for k, place in enumerate(near[1:]):
        inside = quotes[k] % 2 if heed else 0
        # The byte before may be the end of a row.
        ended = text[place - 1 : place] == b"\n" and not inside
        cut = place if ended else _end_of_row(text, place, inside)
        if cuts[-1] < cut < len(text):
            cuts.append(cut)
            before.append(lines[k] + text[place:cut].count(b"\n"))
    if cuts[-1] < len(text):
        cuts.append(len(text))
        before.append(lines[-1] + (text[-1:] != b"\n"))
    return cuts, before, quotes[-1] > 0


def read_plain(
    text: bytes | LargeFile,
    start: int,
    delimiter: str,
    width: int,
    numbers: Sequence[int],
    words: Sequence[int],
) -> tuple[np.ndarray, np.ndarray, list[list[list[str]]], list[int]] | None:
    """Read columns of numbers and of words.

    Parameters
    ----------
    text : bytes or LargeFile
        The table.
    start : int
        Where the first row starts.
    delimiter : str
        What separates columns.
    width : int
        Number of columns.
    numbers, words : sequence of int
        Positions of the columns of numbers, and of words.

    Returns
    -------
    X : ndarray of shape (n, len(numbers))
        The numbers, nan in gaps.
    codes : ndarray of shape (len(words), n)
        Words as places among those of their column and part.
    spelled : list of list of list of str
        For each part and column of words the different words in the order of their appearance.
    ends : list of int
        The row with which each part ends.

    or None, if the text is small or anything about it is unusual.
    """
    if len(text) - start < _SMALL:
        return None
    slots = np.full(width, SKIPPED, dtype=np.int64)
    slots[list(numbers)] = np.arange(len(numbers))
    slots[list(words)] = SKIPPED - 1 - np.arange(len(words))
    with ThreadPoolExecutor(min(available_threads(), 8)) as pool:
        # A quote inside a cell, as in 5" pipe, misleads who counts quotes. Wherever the cuts are, a
        # piece that ends with a row shows that the next one starts with one.
        for heed in (True, False):
            quoted = True
            try:
                cuts, before, quoted = _pieces(text, start, heed, pool)
                return _read_pieces(text, cuts, before, delimiter, slots, pool)
            except _Unusual:
                if not quoted:
                    break
    return None


def _read_pieces(
    text: bytes | LargeFile,
    cuts: list[int],
    before: list[int],
    delimiter: str,
    slots: np.ndarray,
    pool: ThreadPoolExecutor,
) -> tuple[np.ndarray, np.ndarray, list[list[list[str]]], list[int]]:
    """Read the text between the cuts."""
    n_words = np.count_nonzero(slots < SKIPPED)
    X = np.empty((before[-1], np.count_nonzero(slots >= 0)))
    codes = np.empty((n_words, before[-1]), dtype=np.int32)

    def read(k: int) -> tuple[int, list[list[str]]]:
        rows = slice(before[k], before[k + 1])
        part = text[cuts[k] : cuts[k + 1]]
        if len(part) < cuts[k + 1] - cuts[k]:
            raise _Unusual
        # Only the last line of the text may have no end.
        part = part if part.endswith(b"\n") else part + b"\n"
        return _read_part(part, delimiter, slots, X[rows], codes[:, rows])

    futures = [pool.submit(read, k) for k in range(len(cuts) - 1)]
    try:
        done = [future.result() for future in futures]
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    ends = np.cumsum([rows for rows, _ in done]).tolist()
    if ends != before[1:]:
        # Blank lines and ends of lines between quotes leave holes.
        kept = [np.arange(a, a + rows) for a, (rows, _) in zip(before, done)]
        kept = np.concatenate(kept)
        X, codes = X[kept], codes[:, kept]
    return X, codes, [spelled for _, spelled in done], ends
