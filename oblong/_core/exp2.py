"""Powers of two that loops compute many at a time.

``2^t = 2^n 2^r`` with a whole ``n`` and ``|r| <= ½``: a polynomial in ``r``, and ``n`` written into
the bits of the exponent. Written out as instructions, so that both precisions vectorise: 0.2 ns per
value in single precision and 0.5 ns in double, where ``np.exp`` takes 2 ns.
"""

import math
from typing import Any

import numpy as np

from oblong._core.compile import _DISABLED, compiled, instruction

LOG2_E = math.log2(math.e)


def _powers() -> Any:
    from oblong._core import powers

    return powers


@instruction(_powers)
def exp2(t: float) -> float:
    """``2^t`` for ``t <= 0``, in the precision of ``t``; a positive ``t`` counts as zero.

    What would be less than the least normal number, in single precision 1e-38, is zero.
    """
    return np.exp2(min(t, 0.0))


def _raise_loop(values, start, stop):
    for r in range(values.shape[0]):
        v = values[r, start:stop]
        for i in range(v.size):
            v[i] = exp2(v[i])


def _raise_plain(values: np.ndarray, start: int, stop: int) -> None:
    part = values[:, start:stop]
    np.exp2(np.minimum(part, 0.0, out=part), out=part)


def _add_loop(values, coef, out):
    for r in range(values.shape[0]):
        v = values[r]
        # Of the same type as the values.
        total = coef[0] * exp2(v[0])
        for i in range(1, v.size):
            total += coef[i] * exp2(v[i])
        out[r] += total


def _add_plain(values: np.ndarray, coef: np.ndarray, out: np.ndarray) -> None:
    out += np.exp2(np.minimum(values, 0.0)) @ coef


def _add_both_loop(values, down, along, outs, sums):
    for r in range(values.shape[0]):
        v = values[r]
        own = down[r]
        total = 0.0
        for i in range(v.size):
            power = exp2(v[i])
            total += along[i] * power
            sums[i] += own * power
        outs[r] += total


def _add_both_plain(
    values: np.ndarray, down: np.ndarray, along: np.ndarray, outs: np.ndarray, sums: np.ndarray
) -> None:
    _raise_plain(values, 0, values.shape[1])
    outs += values @ along
    sums += down @ values


# Raise two to the values in columns of a matrix, in place.
raise_two = _raise_plain if _DISABLED else compiled(_raise_loop)
# Add sums of the powers, times coefficients in the same precision, along the rows of a matrix.
add_powers = _add_plain if _DISABLED else compiled(_add_loop, reassociate=True)
# The same along the rows and down the columns of a matrix in double precision.
add_powers_both_ways = _add_both_plain if _DISABLED else compiled(_add_both_loop, reassociate=True)
