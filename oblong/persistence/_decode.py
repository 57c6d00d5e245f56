"""From JSON values and array bytes back to objects: every value is checked before it is made.

Nothing here calls what a file names. A type is looked up in a fixed list, an empty object of it is
made, and its attributes are set; no constructor, no ``__setstate__`` and no import takes place.
"""

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp

from oblong.persistence._declared import MOST_DENSE, Unsound
from oblong.persistence._encode import DTYPES, OF_THE_COMPUTER, TYPES, padded
from oblong.persistence._known import is_record, known_types
from oblong.persistence._soundness import check_attribute, check_sound

_SPARSE = {
    f"{form}_{kind}": getattr(sp, f"{form}_{kind}")
    for form in ("csr", "csc")
    for kind in ("matrix", "array")
}
# An array of strings gives each the room of the longest: at most so many times what they need.
_WASTE = 100
_SMALL = 1 << 20


class Decoder:
    """Decodes one tree.

    Parameters
    ----------
    read : callable
        ``read(offset, array)`` fills an array of bytes from the arrays of the file.
    length : int
        Bytes of all arrays.

    Attributes
    ----------
    random : bool
        Whether there was a source of random numbers.
    """

    def __init__(self, read: Callable[[int, np.ndarray], None], length: int) -> None:
        self._read = read
        self._length = length
        self.random = False
        self._next = 0
        self._announced = 0
        self._made: dict[int, tuple[Any, np.ndarray]] = {}

    def decode(self, node: Any) -> Any:
        """Turn JSON values into the value they stand for."""
        if node is None or isinstance(node, (bool, str, int, float)):
            return node
        if isinstance(node, list):
            return [self.decode(item) for item in node]
        _require(isinstance(node, dict) and len(node) == 1, "expected one kind of value")
        [(kind, body)] = node.items()
        make = getattr(self, f"_make_{kind}", None) if kind in _KINDS else None
        if make is None:
            _refuse(f"unknown kind of value {kind[:40]!r}")
        return make(body)

    def finish(self) -> None:
        """Check that all arrays of the file were used."""
        _require(self._next == self._length, "arrays that nothing refers to")

    def _make_float(self, body: Any) -> float:
        _require(body in ("nan", "inf", "-inf"), "expected nan or infinity")
        return float(body)

    def _make_tuple(self, body: Any) -> tuple:
        return tuple(self.decode(item) for item in _list(body))

    def _make_dict(self, body: Any) -> dict:
        result = {}
        for pair in _list(body):
            key, value = _list(pair, 2)
            key = self.decode(key)
            if not isinstance(key, (str, int, float, bool, tuple, type(None), np.generic)):
                _refuse("an invalid key of a dictionary")
            try:
                result[key] = self.decode(value)
            except TypeError:
                _refuse("an invalid key of a dictionary")
        return result

    def _make_slice(self, body: Any) -> slice:
        parts = [self.decode(item) for item in _list(body, 3)]
        if not all(part is None or isinstance(part, int) for part in parts):
            _refuse("expected a slice of integers")
        return slice(*parts)

    def _make_dtype(self, body: Any) -> np.dtype:
        _require(body == "|O" or _is_dtype(body), "unknown type of numbers")
        return np.dtype(body).newbyteorder("=")

    def _make_scalar(self, body: Any) -> Any:
        name, value = _list(body, 2)
        value = self.decode(value)
        if name == "<U" and isinstance(value, str):
            return np.str_(value)
        if not _is_dtype(name) or not isinstance(value, (bool, int, float)):
            _refuse("expected a number")
        try:
            return np.dtype(name).newbyteorder("=").type(value)
        except (OverflowError, ValueError):
            _refuse("a number that does not fit its type")

    def _make_array(self, body: Any) -> np.ndarray:
        node = _dict(body, {"dtype", "shape", "order", "offset"})
        shape, name, offset = _shape(node["shape"]), node["dtype"], node["offset"]
        if not _is_dtype(name) or node["order"] not in ("C", "F") or type(offset) is not int:
            _refuse("expected a description of an array")
        # Each stretch of bytes makes one array, so that all of them need no more than the file.
        known = self._made.get(offset)
        if known is not None and known[0] == node:
            return known[1]
        dtype = np.dtype(name)
        size = math.prod(shape) * dtype.itemsize
        if offset != self._next or offset + padded(size) > self._length:
            _refuse("an array that is not where it should be")
        try:
            flat = np.empty(math.prod(shape), dtype=dtype)
            if size:
                self._read(offset, flat.view(np.uint8))
            if dtype.kind == "b" and size and flat.view(np.uint8).max() > 1:
                _refuse("truth values that are neither true nor false")
            array = flat.reshape(shape, order=node["order"])
        except (ValueError, OverflowError) as error:
            _refuse(f"an array of an impossible shape ({error})")
        array = array.astype(dtype.newbyteorder("="), order="K", copy=False)
        self._next = offset + padded(size)
        if size:
            self._made[offset] = (node, array)
        return array

    def _make_strings(self, body: Any) -> np.ndarray:
        items, shape = self._items(body)
        _require(all(isinstance(item, str) for item in items), "expected strings")
        longest = max((len(item) for item in items), default=0)
        total = sum(len(item) + 1 for item in items)
        if 4 * longest * len(items) > max(_SMALL, _WASTE * total):
            _refuse("strings of too different lengths")
        return np.array(items, dtype=f"<U{max(1, longest)}").reshape(shape)

    def _make_objects(self, body: Any) -> np.ndarray:
        items, shape = self._items(body)
        array = np.empty(len(items), dtype=object)
        for k, item in enumerate(items):
            array[k] = self.decode(item)
        return array.reshape(shape)

    def _items(self, body: Any) -> tuple[list, tuple[int, ...]]:
        node = _dict(body, {"shape", "items"})
        items, shape = _list(node["items"]), _shape(node["shape"])
        _require(math.prod(shape) == len(items), "as many values as the shape says")
        return items, shape

    def _make_masked(self, body: Any) -> np.ma.MaskedArray:
        data, mask = (self.decode(part) for part in _list(body, 2))
        for part in (data, mask):
            _require(isinstance(part, np.ndarray), "expected a masked array")
        if mask.dtype != bool or mask.shape != data.shape:
            _refuse("a mask that does not fit its array")
        return np.ma.MaskedArray(data, mask=mask)

    def _make_sparse(self, body: Any) -> Any:
        node = _dict(body, {"kind", "shape", "data", "indices", "indptr"})
        shape = _shape(node["shape"])
        parts = [self.decode(node[key]) for key in ("data", "indices", "indptr")]
        kind = node["kind"]
        _require(isinstance(kind, str) and kind in _SPARSE and len(shape) == 2, "expected rows")
        if not all(isinstance(part, np.ndarray) and part.ndim == 1 for part in parts):
            _refuse("expected the arrays of a sparse matrix")
        # SciPy has no numbers of half precision, and indices of two kinds only.
        if any(part.dtype.str not in ("<i4", "<i8") for part in parts[1:]):
            _refuse("expected the indices of a sparse matrix")
        if parts[0].dtype.kind not in "fiub" or parts[0].dtype == np.float16:
            _refuse("expected the numbers of a sparse matrix")
        rows = shape[kind.startswith("csc")]
        _require(len(parts[2]) == rows + 1, "a sparse matrix of another shape")
        try:
            matrix = _SPARSE[kind](tuple(parts), shape=shape)
            matrix.check_format(full_check=True)
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            _refuse(f"a damaged sparse matrix ({error})")
        return matrix

    def _make_random_state(self, body: Any) -> np.random.RandomState:
        key, position, has_gauss, gauss = (self.decode(part) for part in _list(body, 4))
        sound = (
            isinstance(key, np.ndarray)
            and key.shape == (624,)
            and key.dtype == np.uint32
            and type(position) is int
            # Compiled code indexes with it, unchecked.
            and 0 <= position <= 624
            and type(has_gauss) is int
            and has_gauss in (0, 1)
            and isinstance(gauss, (int, float))
        )
        _require(sound, "a damaged random state")
        self.random = True
        state = np.random.RandomState(0)
        state.set_state(("MT19937", key, position, int(has_gauss), float(gauss)))
        return state

    def _make_object(self, body: Any) -> Any:
        node = _dict(body, {"class", "state"})
        kind, state = str(node["class"]), node["state"]
        _require(isinstance(state, dict), "expected the attributes of an object")
        known = known_types().get(kind)
        if known is None:
            _refuse(f"the type {kind[:80]!r}, which is not one of a model")
        attributes = {name: self._attribute(name, value) for name, value in state.items()}
        result: Any = object.__new__(known)
        if is_record(known):
            if set(attributes) != {field.name for field in fields(known)}:
                _refuse(f"a {known.__name__} with other attributes than it has")
            for name, value in attributes.items():
                object.__setattr__(result, name, value)
        else:
            for name, value in attributes.items():
                check_attribute(known, name, value)
                vars(result)[name] = value
        self._announced += check_sound(result)
        _require(self._announced <= MOST_DENSE, "more columns than the file has numbers for")
        return result

    def _attribute(self, name: str, node: Any) -> Any:
        if name in OF_THE_COMPUTER:
            return None
        if name == "dtype" and isinstance(node, dict) and set(node) == {"type"}:
            # Nowhere else: a type could be called in place of a function.
            body = node["type"]
            _require(isinstance(body, str) and body in TYPES, "unknown type")
            return TYPES[body]
        return self.decode(node)


_KINDS = frozenset(name[len("_make_") :] for name in vars(Decoder) if name.startswith("_make_"))


def _refuse(problem: str) -> NoReturn:
    raise Unsound(problem)


def _require(condition: Any, problem: str) -> None:
    if not condition:
        raise Unsound(problem)


def _is_dtype(name: Any) -> bool:
    return isinstance(name, str) and name in DTYPES


def _list(body: Any, length: int | None = None) -> list:
    if not isinstance(body, list) or (length is not None and len(body) != length):
        _refuse("expected a list")
    return body


def _dict(body: Any, keys: set[str]) -> dict:
    _require(isinstance(body, dict) and set(body) == keys, "expected other fields")
    return body


def _shape(body: Any) -> tuple[int, ...]:
    shape = _list(body)
    if len(shape) > 32 or not all(type(n) is int and 0 <= n < 2**62 for n in shape):
        _refuse("an impossible shape")
    return tuple(shape)
