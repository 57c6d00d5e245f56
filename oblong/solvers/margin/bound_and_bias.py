"""The best bound and bias of the relative margin machine for given weights.

For a fixed image ``u`` the objective with a variable bound is piecewise linear in the bias ``b``
and the bound ``t``. With ``f = u + b`` it is ::

    G(b, t) = Σ C_i [1 - y_i f_i]_+ + D t + Σ U_i [|f_i| - t]_+ ,   t >= 1.

For each ``b`` the best ``t`` is a weighted quantile of ``|f|``; what remains is a convex
function ``F`` of ``b`` alone, minimised by intersecting its tangents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from oblong._native import margin as native

_MOST_STEPS = 200
# Relative differences of sums that are round-off.
_ROUNDING = 1e-14


class BoundAndBias(NamedTuple):
    """The minimiser: bound, bias, the interval of all optimal biases, and the value of ``G``."""

    bound: float
    bias: float
    bias_interval: tuple[float, float]
    value: float


class _Line(NamedTuple):
    """The function ``F`` at one bias: value, left and right derivative."""

    b: float
    value: float
    left: float
    right: float


def best_bound_and_bias(
    u: np.ndarray, y: np.ndarray, C: np.ndarray, U: np.ndarray, D: float
) -> BoundAndBias:
    """Minimise ``G`` over the bias and the bound.

    Parameters
    ----------
    u : ndarray of shape (n,)
        Outputs without their bias.
    y, C, U : ndarray of shape (n,)
        Labels, penalties of the margin and of the bound; ``U`` may be infinite.
    D : float
        Penalty of the bound, larger than zero.

    Returns
    -------
    BoundAndBias
        The midpoint of the optimal biases, and of the optimal bounds for it.
    """

    def line(b: float) -> _Line:
        low, high = bound_interval(np.abs(u + b), U, D)
        return _Line(b, *native.tangents(u, y, C, U, D, b, low, high))

    # Beyond these biases every output is on one side, and no loss can fall any further.
    low, high = line(-1.0 - float(u.max())), line(1.0 - float(u.min()))
    best = min(low, high, key=lambda end: end.value)
    slack = _ROUNDING * (float(C.sum()) + D)
    previous = np.inf
    for _ in range(_MOST_STEPS):
        if low.right >= -slack:
            best = low
            break
        if high.left <= slack:
            best = high
            break
        b = _intersection(low, high)
        if not low.b < b < high.b:
            break
        floor = low.value + low.right * (b - low.b)
        if high.b - low.b > 0.5 * previous:
            # The tangents make little headway: halve instead, every other time.
            b, previous = 0.5 * (low.b + high.b), np.inf
        else:
            previous = high.b - low.b
        middle = line(b)
        if middle.value < best.value:
            best = middle
        if best.value - floor <= _ROUNDING * abs(best.value):
            break
        if middle.right < -slack:
            low = middle
        elif middle.left > slack:
            high = middle
        else:
            best = middle
            break
    ends = (_flat_end(line, best, low, slack), _flat_end(line, best, high, slack))
    bias = 0.5 * (ends[0] + ends[1])
    final = line(bias)
    bound = 0.5 * sum(bound_interval(np.abs(u + bias), U, D))
    return BoundAndBias(bound, bias, ends, final.value)


def _intersection(low: _Line, high: _Line) -> float:
    """Where the tangents meet, reckoned from the middle so as not to lose digits."""
    middle = 0.5 * (low.b + high.b)
    half = high.b - middle
    rise = (low.value + low.right * half) - (high.value - high.left * half)
    return middle + rise / (high.left - low.right)


def _flat_end(line: Callable[[float], _Line], best: _Line, end: _Line, slack: float) -> float:
    """Follow tangents from outside to the end of the flat stretch around the minimum."""
    level = best.value + 4.0 * _ROUNDING * abs(best.value)
    upwards = end.b > best.b
    if (best.right > slack) if upwards else (best.left < -slack):
        return best.b
    for _ in range(_MOST_STEPS):
        slope = end.left if upwards else end.right
        if end.value <= level or not abs(slope) > slack:
            break
        b = end.b - (end.value - best.value) / slope
        if not (best.b < b < end.b if upwards else end.b < b < best.b):
            return best.b
        end = line(b)
    return end.b


def bound_interval(size: np.ndarray, U: np.ndarray, D: float) -> tuple[float, float]:
    """Ends of the optimal bounds for outputs of given absolute size.

    A bound ``t > 1`` is optimal if the sizes above it weigh at most ``D`` in terms of ``U`` and
    those not below it at least ``D``.
    """
    if np.isinf(U[0]):
        t = max(1.0, float(size.max()))
        return t, t
    high, weight = native.quantile(size, U, D * (1.0 - 1e-12))
    low = high if weight > D * (1.0 + 1e-12) else native.quantile(size, U, D * (1.0 + 1e-12))[0]
    return max(1.0, low), max(1.0, high)
