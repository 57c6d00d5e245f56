"""Decimal numbers to the nearest double, compiled.

Of an integer ``m`` of at most 19 digits and a power of ten ``e``,

- if ``m < 2⁵³`` and ``|e| ≤ 22``, both ``m`` and ``10^|e|`` are doubles, and one product or
  quotient is the nearest double to the exact value (Clinger 1990), as its callers know;
- otherwise 128 bits of ``10^e`` are multiplied by ``m``; the few products that do not decide about
  the last bit are recognised (Lemire 2021), and left to Python's ``float``.

References
----------
W. D. Clinger, "How to Read Floating Point Numbers Accurately", Programming Language Design and
Implementation, 1990. D. Lemire, "Number Parsing at a Gigabyte per Second", Software: Practice and
Experience 51, 2021.
"""

from __future__ import annotations

import math

import numpy as np

from oblong._core.compile import compiled

__all__ = ["HIGHEST", "LOWEST", "SMALL_POWERS", "nearest"]

# Powers of ten for which no product of at most 19 digits leaves the normal doubles.
LOWEST, HIGHEST = -290, 146
SMALL_POWERS = 10.0 ** np.arange(23)
_U = np.uint64
_LOW_HALF = _U(0xFFFFFFFF)
_HALF = _U(32)
_TAIL = _U(0x1FF)
_ZERO, _ONE, _THREE, _NINE = _U(0), _U(1), _U(3), _U(9)


def _powers() -> np.ndarray:
    """The leading 128 bits of powers of ten, cut off below, as (high, low)."""
    table = np.empty((HIGHEST - LOWEST + 1, 2), dtype=np.uint64)
    for e in range(LOWEST, HIGHEST + 1):
        if e >= 0:
            power = 10**e
            excess = power.bit_length() - 128
            top = power >> excess if excess > 0 else power << -excess
        else:
            power = 10**-e
            top = (1 << (power.bit_length() + 128)) // power
            top >>= top.bit_length() - 128
        table[e - LOWEST] = top >> 64, top & (2**64 - 1)
    return table


_POWERS = _powers()


@compiled
def _product(a, b):
    """The high and the low half of a product of 64-bit integers."""
    a_high, a_low = a >> _HALF, a & _LOW_HALF
    b_high, b_low = b >> _HALF, b & _LOW_HALF
    low = a_low * b_low
    middle = a_high * b_low + (low >> _HALF)
    other = a_low * b_high + (middle & _LOW_HALF)
    high = a_high * b_high + (middle >> _HALF) + (other >> _HALF)
    return high, (other << _HALF) | (low & _LOW_HALF)


@compiled
def nearest(mantissa, exponent):
    """The double nearest to ``mantissa * 10**exponent``, or -1 if the product does not decide."""
    shift = 0
    while mantissa >> _U(63) == _ZERO:
        mantissa = mantissa << _ONE
        shift += 1
    # 217706 / 2^16 is log2(10), to more digits than the range of exponents can tell.
    binary = ((217706 * exponent) >> 16) + 64 - shift
    power = _POWERS[exponent - LOWEST]
    high, low = _product(mantissa, power[0])
    if high & _TAIL == _TAIL and low + mantissa < mantissa:
        more, rest = _product(mantissa, power[1])
        merged = low + more
        if merged < low:
            high = high + _ONE
        low = merged
        if high & _TAIL == _TAIL and low + _ONE == _ZERO and rest + mantissa < mantissa:
            return -1.0
    top = high >> _U(63)
    bits = high >> (top + _NINE)
    if top == _ZERO:
        binary -= 1
    # Halfway between two doubles, as far as these bits can tell.
    if low == _ZERO and high & _TAIL == _ZERO and bits & _THREE == _ONE:
        return -1.0
    bits = (bits + (bits & _ONE)) >> _ONE
    return math.ldexp(float(bits), binary - 52)
