"""Words as numbers: class labels as they come, and columns of categories."""

import re
from collections.abc import Collection, Sequence

import numpy as np

from oblong._core.compile import compiled
from oblong._core.text import quote
from oblong.io.errors import RowError
from oblong.io.hashing import START, extend_hash
from oblong.io.numbers import is_missing

# At most 18 digits, so that the value fits an int64. Leading zeros make another name: "007".
_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"[+-]?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
# Spellings that are remembered: those of the same few numbers could be many.
_MOST_SPELLINGS = 100_000


def whole_number(word: str) -> int | None:
    """The whole number that a word spells, as ``1``, ``+1``, ``1.0`` and ``1e0`` do.

    Examples
    --------
    >>> from oblong.io.labels import whole_number
    >>> [whole_number(word) for word in ("+1", "1.0", "01", "1.5", "one")]
    [1, 1, None, None, None]
    """
    if _INTEGER.fullmatch(word):
        return int(word)
    if not _DECIMAL.fullmatch(word):
        return None
    # Beyond 2^53 different numbers may have become one.
    value = float(word)
    return int(value) if value.is_integer() and abs(value) < 2.0**53 else None


def _canonical(word: str) -> int | str:
    word = word.strip()
    whole = whole_number(word)
    return word if whole is None else whole


def as_labels(values: Sequence[int | str]) -> list[int] | list[str]:
    """Whole numbers if all labels are, else words."""
    whole = [value for value in values if not isinstance(value, str)]
    return whole if len(whole) == len(values) else [str(value) for value in values]


def decode_labels(spellings: Sequence[str], codes: np.ndarray) -> np.ndarray:
    """Turn label spellings into an array: integers if every label is one, else strings.

    Parameters
    ----------
    spellings : sequence of str
        The different spellings found.
    codes : ndarray of int
        For each row the position of its label in `spellings`.
    """
    return np.array(as_labels([_canonical(word) for word in spellings]))[codes]


def unquoted(cell: bytes) -> str:
    """Text of a cell, without the quotes of one that has doubled quotes inside."""
    if b"\0" in cell:
        raise RowError("expected text, got binary data")
    try:
        text = cell.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = cell[error.start]
        problem = f"expected UTF-8 text, got the byte 0x{byte:02x}"
        advice = "encoding= latin-1 or another reads it"
        raise RowError(problem, cause="encoding", advice=advice) from None
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1].replace('""', '"')
    return text.strip()


@compiled
def _look_up(text, spans, row, codes, table, hashes, places, arena, known):
    """Codes of the words of a row and all later ones; returns the row of the first unknown word."""
    mask = np.uint64(table.size - 1)
    for i in range(row, spans.shape[0]):
        start, n = spans[i, 0], spans[i, 1] - spans[i, 0]
        key = extend_hash(START, text[start : start + n])
        k = np.int64((key ^ (key >> np.uint64(32))) & mask)
        found = -1
        while table[k] >= 0 and found < 0:
            word = table[k]
            if hashes[word] == key and places[word + 1] - places[word] == n:
                found = word
                for j in range(n):
                    if arena[places[word] + j] != text[start + j]:
                        found = -1
                        break
            k = (k + 1) & np.int64(mask)
        if found < 0:
            return i
        codes[i] = known[found]
    return spans.shape[0]


@compiled
def _insert(table, hashes, first):
    """Enter the words after the ``first`` ones into a hash table."""
    mask = np.uint64(table.size - 1)
    for word in range(first, hashes.size):
        k = np.int64((hashes[word] ^ (hashes[word] >> np.uint64(32))) & mask)
        while table[k] >= 0:
            k = (k + 1) & np.int64(mask)
        table[k] = word


class Words:
    """Numbers of words in the order of their appearance; -1 for those that mean a missing value.

    Parameters
    ----------
    missing : collection of str
        Further words that mean a missing value.

    Attributes
    ----------
    words : list of str
        The different words, without blanks around them.

    Examples
    --------
    >>> import numpy as np
    >>> from oblong.io.labels import Words
    >>> text = np.frombuffer(b"red,NA,blue,red", dtype=np.uint8)
    >>> words = Words()
    >>> words.codes(text, np.array([[0, 3], [4, 6], [7, 11], [12, 15]]))[0], words.words
    (array([ 0, -1,  1,  0], dtype=int32), ['red', 'blue'])
    """

    def __init__(self, missing: Collection[str] = ()) -> None:
        self.words: list[str] = []
        self._missing = missing
        self._forget()

    def _forget(self) -> None:
        """Forget how words were spelled, not what they are."""
        self._n = 0
        self._table = np.full(64, -1, dtype=np.int32)
        self._hashes = np.empty(32, dtype=np.uint64)
        self._known = np.empty(32, dtype=np.int32)
        self._places = np.zeros(33, dtype=np.int64)
        self._arena = np.empty(256, dtype=np.uint8)
        self._numbers: dict[str, int] = {word: k for k, word in enumerate(self.words)}

    def codes(self, text: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, dict[int, RowError]]:
        """Numbers of the words of rows, and what is wrong with the rows that have none."""
        codes, row = np.empty(len(spans), dtype=np.int32), 0
        problems: dict[int, RowError] = {}
        while True:
            known = (self._table, self._hashes, self._places, self._arena, self._known)
            row = _look_up(text, spans, row, codes, *known)
            if row == len(spans):
                return codes, problems
            token = text[spans[row, 0] : spans[row, 1]].tobytes()
            try:
                codes[row] = self.code(token)
                self._remember(token, int(codes[row]))
            except RowError as error:
                codes[row], problems[row] = -1, error
            row += 1

    def code(self, token: bytes) -> int:
        """Number of a word; a :class:`RowError` says why there is none."""
        word = unquoted(token)
        if is_missing(word) or word in self._missing:
            return -1
        code = self._numbers.setdefault(word, len(self.words))
        if code == len(self.words):
            self.words.append(word)
        return code

    def _remember(self, token: bytes, code: int) -> None:
        n, end = self._n, int(self._places[self._n])
        if n + 1 > len(self._hashes):
            self._hashes = np.resize(self._hashes, 4 * n)
            self._known = np.resize(self._known, 4 * n)
            self._places = np.resize(self._places, 4 * n + 1)
            self._table = np.full(8 * n, -1, dtype=np.int32)
            _insert(self._table, self._hashes[:n], 0)
        if end + len(token) > len(self._arena):
            self._arena = np.resize(self._arena, 4 * (end + len(token)))
        content = np.frombuffer(token, dtype=np.uint8)
        self._arena[end : end + len(token)] = content
        self._hashes[n] = extend_hash(START, content)
        self._known[n], self._places[n + 1] = code, end + len(token)
        _insert(self._table, self._hashes[: n + 1], n)
        self._n = n + 1


class LabelCodes(Words):
    """Numbers of class labels in the order of their appearance.

    Whole numbers are the same label however they are spelled, and other words are as they are. All
    labels are words if one of them is.

    Parameters
    ----------
    declared : sequence of str, optional
        All labels there are.
    steady : bool, default=False
        Whether labels that start as whole numbers have to remain so.

    Attributes
    ----------
    spellings : list of str
        How each was spelled when it first came.

    Examples
    --------
    >>> from oblong.io.labels import LabelCodes
    >>> codes = LabelCodes()
    >>> [codes.code(word) for word in (b"-1", b"+1", b"1.0")], codes.values()
    ([0, 1, 1], [-1, 1])
    """

    def __init__(self, declared: Sequence[str] | None = None, *, steady: bool = False) -> None:
        super().__init__()
        self.spellings: list[str] = []
        self.closed, self.steady = False, steady
        self._values: list[int | str] = []
        self._codes: dict[int | str, int] = {}
        if declared is not None:
            self.restore(declared, [word.strip() for word in declared])
            self.closed = True

    def __len__(self) -> int:
        return len(self._values)

    def values(self, n: int | None = None) -> list[int] | list[str]:
        """The labels, or the first of them: integers if all of these are, else strings."""
        return as_labels(self._values[:n])

    def restore(self, values: Sequence[int | str], spellings: Sequence[str]) -> None:
        """Take over the labels of an earlier run."""
        self.spellings = list(spellings)
        self._values = [_canonical(str(value)) for value in values]
        self._codes = {value: k for k, value in enumerate(self._values)}

    def code(self, token: bytes) -> int:
        """Number of a label; a :class:`RowError` says why there is none."""
        word = unquoted(token)
        if is_missing(word):
            problem = "expected a class label, got a missing value"
            raise RowError(problem, advice="skip_bad= skips such rows")
        if _CONTROL.search(word):
            raise RowError(f"expected a class label, got {quote(word)}")
        value = _canonical(word)
        code = self._codes.get(value)
        if code is None:
            if self.closed:
                raise RowError(f"the label {quote(word)} is not among the classes")
            if self.steady and isinstance(value, str) and self._values:
                self._check_steady(word)
            code = self._codes[value] = len(self._values)
            # Before the value: who reads both at the same time finds one for each.
            self.spellings.append(word)
            self._values.append(value)
        if self._n > _MOST_SPELLINGS:
            self._forget()
        return code

    def _check_steady(self, word: str) -> None:
        if not isinstance(as_labels(self._values)[0], str):
            raise RowError(
                f"expected a whole number like the labels before, got {quote(word)}",
                advice="name all classes with classes=",
            )

    def names(self) -> tuple[str, ...]:
        """How the labels are spelled, in the order of the classes."""
        order = np.argsort(np.array(self.values()))
        return tuple(self.spellings[k] for k in order.tolist())
