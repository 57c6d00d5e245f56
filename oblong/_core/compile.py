"""The one compile decorator of the package, and two functions that let loops vectorise.

Set the environment variable ``OBLONG_DISABLE_JIT=1`` before importing oblong to run every
compiled function as plain Python, for debugging and for coverage.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import numba
from numba.extending import intrinsic

__all__ = ["compiled", "fast_max", "fast_min"]

F = TypeVar("F", bound=Callable)

_DISABLED = os.environ.get("OBLONG_DISABLE_JIT", "0") not in ("", "0")

# Reassociation stays out: loops here look for the index of an extremum by comparing values that
# were computed twice, and these must come out equal. Infinite slopes are ordinary values, so
# `ninf` stays out as well.
_FASTMATH = {"nnan", "nsz", "contract"}


def compiled(function: F) -> F:
    """Compile a scalar loop with Numba: cached on disk, without the GIL."""
    if _DISABLED:
        return function
    return numba.njit(cache=True, nogil=True, fastmath=_FASTMATH, error_model="numpy")(function)


def _extremum(order: str, plain: Callable) -> Callable:
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
