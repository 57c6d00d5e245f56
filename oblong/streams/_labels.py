"""Class labels as they come in a stream."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from oblong._core.compile import compiled
from oblong.datasets._dataset import quote

__all__ = ["LabelCodes", "pack_labels"]

_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")
_MISSING = {"", "?", "na", "n/a", "nan", "null", "none"}
_U = np.uint64


@compiled
def pack_labels(text, spans, keys):
    """Pack labels of up to eight printable bytes into integers; 0 for others."""
    for i in range(spans.shape[0]):
        start, n = spans[i, 0], spans[i, 1] - spans[i, 0]
        key = _U(0)
        if n <= 8:
            word = text[start : start + n]
            for j in range(n):
                if word[j] <= 32:
                    key = _U(0)
                    break
                key = (key << _U(8)) | _U(word[j])
        keys[i] = key


class LabelCodes:
    """Numbers of labels in the order of their appearance.

    The first label, or the declared ones, decide whether labels are whole numbers or words.

    Parameters
    ----------
    declared : sequence of str, optional
        All labels there are.
    numbers : bool, default=False
        Whether ``+1``, ``1`` and ``1.0`` are the same label, as in LIBSVM files.

    Attributes
    ----------
    values : list of int or str
        The labels.
    spellings : list of str
        How each was spelled when it first came.

    Examples
    --------
    >>> from oblong.streams._labels import LabelCodes
    >>> codes = LabelCodes(numbers=True)
    >>> [codes.code(word) for word in (b"-1", b"+1", b"1.0")], codes.values
    ([0, 1, 1], [-1, 1])
    """

    def __init__(self, declared: Sequence[str] | None = None, *, numbers: bool = False) -> None:
        self.numbers = numbers
        self.values: list[int | str] = []
        self.spellings: list[str] = []
        self.closed = False
        self.whole: bool | None = None
        self._codes: dict[int | str, int] = {}
        self._tokens: dict[bytes, int] = {}
        self._forget()
        if declared is not None:
            words = [self._spelled(word) for word in declared]
            values = [int(w) for w in words] if all(map(_is_whole, words)) else words
            self.restore(values, [word.strip() for word in declared])
            self.closed = True

    def restore(self, values: Sequence[int | str], spellings: Sequence[str]) -> None:
        """Take over the labels of an earlier run."""
        self.values, self.spellings = list(values), list(spellings)
        self._codes = {value: k for k, value in enumerate(self.values)}
        if self.values:
            self.whole = not isinstance(self.values[0], str)

    def _forget(self) -> None:
        self._tokens.clear()
        self._keys = np.empty(0, dtype=np.uint64)
        self._key_codes = np.empty(0, dtype=np.int32)

    def _spelled(self, word: str) -> str:
        word = word.strip()
        if self.numbers:
            try:
                number = float(word)
            except ValueError:
                return word
            if number.is_integer() and abs(number) < 1e18:
                return str(int(number))
        return word

    def code(self, token: bytes) -> int:
        """Number of a label; a ValueError says why there is none."""
        known = self._tokens.get(token)
        if known is not None:
            return known
        try:
            word = self._spelled(token.decode("utf-8"))
        except UnicodeDecodeError:
            raise ValueError("expected UTF-8 text") from None
        if word.lower() in _MISSING:
            got = quote(word) if word else "nothing"
            raise ValueError(f"expected a class label, got {got}")
        if self.numbers and "," in word:
            raise ValueError(f"expected one class label, got {quote(word)}")
        if not word.isprintable():
            raise ValueError(f"expected a class label, got {quote(word)}")
        whole = _is_whole(word)
        if self.closed:
            value = int(word) if whole and self.whole else word
            if value not in self._codes:
                raise ValueError(f"the label {quote(word)} is not among the classes")
        else:
            if self.whole is None:
                self.whole = whole
            elif self.whole and not whole:
                raise ValueError(
                    f"expected a whole number like the labels before, got {quote(word)}; "
                    "name all classes with --classes"
                )
            value = int(word) if self.whole else word
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self.values)
            # Before the value: who reads both at the same time finds one for each.
            self.spellings.append(token.decode("utf-8").strip())
            self.values.append(value)
        if len(self._tokens) > 100_000:
            # Spellings of the same few numbers could be many.
            self._forget()
        self._tokens[token] = code
        return code

    def codes(self, text: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, dict[int, str]]:
        """Numbers of the labels of rows, and what is wrong with the rows that have none."""
        keys = np.empty(len(spans), dtype=np.uint64)
        pack_labels(text, spans, keys)
        codes, problems = self._look_up(keys), {}
        for i in np.flatnonzero(codes < 0).tolist():
            if codes[i] < 0:
                token = text[spans[i, 0] : spans[i, 1]].tobytes()
                try:
                    code = self.code(token)
                except ValueError as error:
                    problems[i] = str(error)
                    continue
                if keys[i] and keys[i] not in self._keys:
                    place = np.searchsorted(self._keys, keys[i])
                    self._keys = np.insert(self._keys, place, keys[i])
                    self._key_codes = np.insert(self._key_codes, place, code)
                    later = codes[i:]
                    later[keys[i:] == keys[i]] = code
                codes[i] = code
        return codes, problems

    def _look_up(self, keys: np.ndarray) -> np.ndarray:
        if not len(self._keys):
            return np.full(len(keys), -1, dtype=np.int32)
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[places] == keys, self._key_codes[places], np.int32(-1))


def _is_whole(word: str) -> bool:
    return _INTEGER.fullmatch(word) is not None
