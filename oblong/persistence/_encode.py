"""From objects to a tree of JSON values and one run of array bytes.

JSON's own values stand for themselves. All else is an object with one key, the kind::

    {"float": "nan"}   {"tuple": […]}   {"dict": [[key, value], …]}   {"slice": [a, b, c]}
    {"array": {"dtype", "shape", "order", "offset"}}   {"strings": …}   {"objects": …}
    {"masked": …}   {"sparse": …}   {"scalar": …}   {"dtype": name}   {"random_state": …}
    {"object": {"class": name, "state": {attribute: value, …}}}

An attribute ``dtype`` may also be ``{"type": name}``.
"""

import math
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong.persistence._declared import MOST_DENSE, Unsound
from oblong.persistence._known import is_record, known_types, name_of
from oblong.persistence._soundness import check_attribute, check_sound

ALIGNMENT = 64
# Little-endian numbers of fixed size, which NumPy and the file agree on everywhere.
DTYPES = frozenset({"|b1", "|i1", "|u1", *(f"<{k}{n}" for k in "iu" for n in (2, 4, 8))}) | {
    "<f2",
    "<f4",
    "<f8",
}
TYPES: dict[str, type] = {
    **{t.__name__: t for t in (np.float64, np.float32, np.float16, np.int64, np.int32, np.uint8)},
    **{t.__name__: t for t in (bool, int, float, str, object)},
}
# What is said to this computer and not to the next one: how many processes to start, and which
# folder to keep results in. A model file holds None.
OF_THE_COMPUTER = frozenset({"n_jobs", "memory"})
_DEEPEST = 100


class Unsaveable(ValueError):
    """A value that a file cannot hold, and where in the model it is."""

    def __init__(self, place: str, problem: str) -> None:
        self.place = place
        super().__init__(f"{place or 'the model'}: {problem}")


def padded(size: int) -> int:
    """Round up to where the next array starts."""
    return -(-size // ALIGNMENT) * ALIGNMENT


class Encoder:
    """Encodes one model; its arrays are kept to be written after it."""

    def __init__(self) -> None:
        self.length = 0
        self.types: set[str] = set()
        self._announced = 0
        self._arrays: list[np.ndarray] = []
        # With each array itself: only while it lives is its id its own.
        self._places: dict[int, tuple[np.ndarray, dict]] = {}

    def chunks(self) -> Iterator[memoryview | bytes]:
        """The bytes of the arrays, one after the other."""
        for array in self._arrays:
            flat = array.reshape(-1, order="A") if array.ndim != 1 else array
            data = np.ascontiguousarray(flat).view(np.uint8)
            yield data.data
            yield bytes(padded(data.size) - data.size)

    def encode(self, value: Any, place: str = "", depth: int = 0) -> Any:
        """Turn a value into JSON values.

        Parameters
        ----------
        value : object
            What to encode.
        place : str
            Where in the model it is, for messages.
        depth : int
            How deep in the tree.
        """
        if depth > _DEEPEST:
            raise Unsaveable(place, "holds itself, or is nested too deeply")
        if value is None or type(value) in (bool, str, int):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if type(value) is list:
            return [self.encode(v, f"{place}[{k}]", depth + 1) for k, v in enumerate(value)]
        if type(value) is tuple:
            return {
                "tuple": [self.encode(v, f"{place}[{k}]", depth + 1) for k, v in enumerate(value)]
            }
        if isinstance(value, dict):
            return {
                "dict": [
                    [self.encode(k, place, depth + 1), self.encode(v, f"{place}[{k!r}]", depth + 1)]
                    for k, v in value.items()
                ]
            }
        if isinstance(value, (np.ndarray, np.generic, np.dtype)) or sp.issparse(value):
            return self._numeric(value, place, depth)
        if isinstance(value, slice):
            return {"slice": [self.encode(v, place) for v in (value.start, value.stop, value.step)]}
        if isinstance(value, np.random.RandomState):
            return {"random_state": self._random_state(value, place, depth)}
        if isinstance(value, type):
            if TYPES.get(value.__name__) is value and place.rpartition(".")[2] == "dtype":
                return {"type": value.__name__}
            raise Unsaveable(place, f"the type {value.__name__} cannot be saved")
        return {"object": self._object(value, place, depth)}

    def _object(self, value: Any, place: str, depth: int) -> dict:
        kind = type(value)
        name = name_of(kind)
        if known_types().get(name) is not kind:
            if callable(value) and not hasattr(value, "get_params"):
                what = "a function, which is code, and a model file holds none"
            else:
                what = f"a {kind.__module__}.{kind.__qualname__}, which a model file cannot hold"
            raise Unsaveable(place, f"expected data, got {what}")
        self.types.add(name)
        if is_record(kind):
            state = {field.name: getattr(value, field.name) for field in fields(value)}
        else:
            # What pickle would keep: caches that an object can do without are left out there.
            # An object without attributes has no state.
            state = dict(value.__getstate__() or {})
            state.pop("_sklearn_version", None)
        prefix = f"{place}." if place else ""
        state |= dict.fromkeys(OF_THE_COMPUTER & state.keys())
        nodes = {k: self.encode(v, f"{prefix}{k}", depth + 1) for k, v in state.items()}
        try:
            self._check(kind, state)
        except Unsound as error:
            raise Unsaveable(place, str(error)) from None
        return {"class": name, "state": nodes}

    def _check(self, kind: type, state: dict[str, Any]) -> None:
        """Write nothing that would be refused."""
        loaded: Any = object.__new__(kind)
        for name, value in state.items():
            if not is_record(kind):
                check_attribute(kind, name, value)
            object.__setattr__(loaded, name, value)
        self._announced += check_sound(loaded)
        if self._announced > MOST_DENSE:
            raise Unsound(f"steps with more than {MOST_DENSE:,} columns, and no numbers for them")

    def _numeric(self, value: Any, place: str, depth: int) -> dict:
        if isinstance(value, np.dtype):
            return {"dtype": self._dtype(value, place)}
        if sp.issparse(value):
            if value.format not in ("csr", "csc"):
                raise Unsaveable(place, f"a sparse matrix in the format {value.format}")
            parts = {
                key: self.encode(getattr(value, key), place)
                for key in ("data", "indices", "indptr")
            }
            kind = "array" if isinstance(value, sp.sparray) else "matrix"
            return {
                "sparse": {"kind": f"{value.format}_{kind}", "shape": list(value.shape)} | parts
            }
        if isinstance(value, np.ma.MaskedArray):
            mask = np.ma.getmaskarray(value)
            return {"masked": [self.encode(p, place, depth + 1) for p in (value.data, mask)]}
        if isinstance(value, np.generic):
            name = "<U" if isinstance(value, np.str_) else self._dtype(value.dtype, place)
            return {"scalar": [name, self.encode(value.item(), place)]}
        if type(value) is not np.ndarray:
            raise Unsaveable(place, f"a {type(value).__name__}")
        if value.dtype.kind == "U":
            return {"strings": {"shape": list(value.shape), "items": value.ravel().tolist()}}
        if value.dtype.kind == "O":
            items = [self.encode(v, place, depth + 1) for v in value.ravel().tolist()]
            return {"objects": {"shape": list(value.shape), "items": items}}
        return {"array": self._array(value, place)}

    def _dtype(self, dtype: np.dtype, place: str) -> str:
        name = dtype.newbyteorder("<").str
        if dtype.kind == "O":
            return "|O"
        if name not in DTYPES:
            raise Unsaveable(place, f"numbers of the type {dtype} cannot be saved")
        return name

    def _array(self, array: np.ndarray, place: str) -> dict:
        known = self._places.get(id(array))
        if known is not None:
            return known[1]
        name = self._dtype(array.dtype, place)
        stored = array.astype(name, order="K", copy=False)
        # The order of memory decides the order of sums, so it is kept.
        fortran = stored.flags.f_contiguous and not stored.flags.c_contiguous
        if not fortran:
            stored = np.ascontiguousarray(stored)
        node = {
            "dtype": name,
            "shape": list(array.shape),
            "order": "F" if fortran else "C",
            "offset": self.length,
        }
        self.length += padded(stored.nbytes)
        self._arrays.append(stored)
        self._places[id(array)] = (array, node)
        return node

    def _random_state(self, value: np.random.RandomState, place: str, depth: int) -> list:
        name, key, position, has_gauss, gauss = value.get_state()
        if name != "MT19937":
            raise Unsaveable(place, f"a random state of the kind {name}")
        return [self.encode(v, place, depth + 1) for v in (key, position, has_gauss, gauss)]
