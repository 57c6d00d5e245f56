"""The one compile decorator of the package, and two functions that let loops vectorise.

Set the environment variable ``OBLONG_DISABLE_JIT=1`` before importing oblong to run every
compiled function as plain Python, for debugging and for coverage.

Compiled code is kept on disk where Numba keeps it: in ``__pycache__``, in the user's cache where
that cannot be written, or in ``NUMBA_CACHE_DIR``. Numba compares only the file of the function
itself with the one that was compiled, and so misses an edit of another compiled function that it
calls. Here the code is stale as soon as any module differs that the function's module imports from
its own package, directly or not.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import resolve_name
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.extending import intrinsic

__all__ = ["compiled", "fast_max", "fast_min"]

F = TypeVar("F", bound=Callable[..., Any])

_DISABLED = os.environ.get("OBLONG_DISABLE_JIT", "0") not in ("", "0")

# Reassociation stays out: loops here look for the index of an extremum by comparing values that
# were computed twice, and these must come out equal. Infinite slopes are ordinary values, so
# `ninf` stays out as well.
_FASTMATH = {"nnan", "nsz", "contract"}


def compiled(function: F, *, reassociate: bool = False) -> F:
    """Compile a scalar loop with Numba: cached on disk, without the GIL.

    With ``reassociate`` sums are vectorised, and their last digits depend on the processor.
    """
    if _DISABLED:
        return function
    flags = _FASTMATH | {"reassoc"} if reassociate else _FASTMATH
    dispatcher: Any = numba.njit(nogil=True, fastmath=flags, error_model="numpy")(function)
    # Numba raises where nothing can be written; compiling anew in every process still works there.
    with suppress(RuntimeError):
        dispatcher._cache = _Cache(function)
    return cast(F, dispatcher)


class _Cache(FunctionCache):
    """Numba's cache of one function, with a stamp that covers what the function may call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _CacheFile(
            self._cache_path, self._impl.filename_base, _stamp(function.__module__)
        )


class _CacheFile(IndexDataCacheFile):
    """Numba's files of one function, for several writers.

    Numba numbers the files of code. Two processes that compile different signatures at the same
    time may both write number 1, and one signature then runs the code of the other. Files named by
    their key cannot be mixed up, and an entry of the index that is lost is only compiled again.
    """

    def save(self, key: object, data: object) -> None:
        name = self._data_name(int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:6]))
        self._save_data(name, data)
        self._save_index({**self._load_index(), key: name})


@cache
def _stamp(module: str) -> str:
    """Hash of the sources of a module and of all that it imports from its own package."""
    found: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in found and name in sys.modules:
            found[name], imported = _source(name)
            waiting.extend(imported)
    return hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()


_IMPORT = re.compile(
    r"^[ \t]*(?:from\s+([\w.]+)\s+import\s+(\([^)]*\)|.*)|import\s+([\w., ]+))", re.M
)


@cache
def _source(module: str) -> tuple[str, list[str]]:
    """Hash of a module's source, and names among which are the modules of its package it imports.

    Compiled functions copy the constants of other modules, so these count whether they hold
    compiled functions or not.
    """
    loaded = vars(sys.modules[module])
    source = getattr(loaded.get("__loader__"), "get_source", lambda _: None)(module) or ""
    names = []
    for start, members, whole in _IMPORT.findall(source):
        if start.startswith("."):
            start = resolve_name(start, loaded["__package__"])
        names += [start, *(f"{start}.{member}" for member in re.findall(r"\w+", members))]
        names += re.findall(r"[\w.]+", whole)
    package = module.partition(".")[0]
    same = [name for name in names if name.partition(".")[0] == package]
    return hashlib.sha256(source.encode()).hexdigest(), same


def _extremum(order: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """Make a two-argument extremum that never sees NaN.

    LLVM turns a running maximum into vector code only when the selection itself carries the
    no-NaN flag, which Numba's own ``max`` does not set; the loops run five times as fast.
    """
    if _DISABLED:
        return plain

    def extremum(context, a, b):
        def emit(_, builder, __, arguments):
            flags = ("nnan", "nsz")
            first, second = arguments
            chosen = builder.fcmp_ordered(order, first, second, flags=flags)
            return builder.select(chosen, first, second, flags=flags)

        return numba.float64(numba.float64, numba.float64), emit

    return intrinsic(extremum)


fast_max = _extremum(">", max)
fast_min = _extremum("<", min)
