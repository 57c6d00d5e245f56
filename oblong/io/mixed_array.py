"""A table of numbers and words that holds both as numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np


class MixedArray:
    """Columns of floats and of words side by side.

    An array of objects has a Python float for each number, which takes four times the memory of the
    float and longer to make than to read from a file. This one gives columns of numbers as floats
    and columns of words as objects, when asked for them; scikit-learn's ``ColumnTransformer`` does
    no more than that, and ``np.asarray`` gives the array of objects.

    Parameters
    ----------
    numbers : ndarray of shape (n, n_numbers)
        The columns of numbers.
    codes : sequence of ndarray of shape (n,)
        For each column of words the places of its words, -1 for the empty one.
    words : sequence of sequence of str
        For each column of words the different ones.
    text : sequence of int
        Places of the columns of words in the table, in order.

    Examples
    --------
    >>> import numpy as np
    >>> from oblong.io.mixed_array import MixedArray
    >>> X = MixedArray(np.array([[150.0], [120.0]]), [np.array([0, -1])], [["red"]], [1])
    >>> X[:, [0]]
    array([[150.],
           [120.]])
    >>> np.asarray(X)
    array([[150.0, 'red'],
           [120.0, '']], dtype=object)
    """

    dtype = np.dtype(object)
    ndim = 2

    def __init__(
        self,
        numbers: np.ndarray,
        codes: Sequence[np.ndarray],
        words: Sequence[Sequence[str]],
        text: Sequence[int],
    ) -> None:
        self._numbers = numbers
        self._codes = list(codes)
        self._words = words
        self._text = list(text)
        self.shape = (len(numbers), numbers.shape[1] + len(self._codes))
        # Places of the columns among those of their kind.
        self._is_text = np.zeros(self.shape[1], dtype=bool)
        self._is_text[self._text] = True
        self._places = np.where(self._is_text, self._is_text.cumsum(), (~self._is_text).cumsum())
        self._places -= 1

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"MixedArray({np.asarray(self)!r})"

    def __getitem__(self, key: Any) -> Any:
        """Some rows of all columns as such a table, else an array of floats or objects."""
        rows, columns = key if isinstance(key, tuple) else (key, Ellipsis)
        whole = columns is Ellipsis or (isinstance(columns, slice) and columns == slice(None))
        if whole and not isinstance(rows, (int, np.integer)):
            codes = [codes[rows] for codes in self._codes]
            return MixedArray(self._numbers[rows], codes, self._words, self._text)
        chosen = np.arange(self.shape[1])[columns]
        if chosen.ndim == 0:
            return self._column(int(chosen), rows)
        if self._is_text[chosen].any() or not chosen.size:
            found = [self._column(j, rows) for j in chosen.tolist()]
            result = np.empty((*np.shape(self._numbers[rows, :0])[:-1], len(found)), object, "F")
            for k, column in enumerate(found):
                result[..., k] = column
            return result
        places = self._places[chosen]
        if np.array_equal(places, np.arange(self._numbers.shape[1])):
            return self._numbers[rows]
        return self._numbers[rows][..., places]

    def _column(self, j: int, rows: Any) -> Any:
        place = self._places[j]
        if not self._is_text[j]:
            return self._numbers[rows, place]
        # The last is that of the code -1.
        return np.array([*self._words[place], ""], dtype=object)[self._codes[place][rows]]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a copy is needed to make one array of it")
        return self[:, np.arange(self.shape[1])].astype(dtype or object, order="C", copy=False)
