"""Decimal text to the nearest double, compiled.

A number is scanned into an integer ``m`` of at most 19 digits and a power of ten ``e``. Then

- if ``m < 2⁵³`` and ``|e| ≤ 22``, both ``m`` and ``10^|e|`` are doubles, and one product or
  quotient is the nearest double to the exact value (Clinger 1990);
- otherwise 128 bits of ``10^e`` are multiplied by ``m``; the few products that do not decide about
  the last bit are recognised (Lemire 2021);
- what is left (more than 19 digits, powers near the ends of the range, products that do not
  decide) is marked, for the caller to convert with Python's ``float``.

So the result is that of ``float`` to the last bit in every case.

References
----------
W. D. Clinger, "How to Read Floating Point Numbers Accurately", Programming Language Design and
Implementation, 1990. D. Lemire, "Number Parsing at a Gigabyte per Second", Software: Practice and
Experience 51, 2021.
"""

from __future__ import annotations

import math

import numpy as np

from oblong._compile import compiled

__all__ = ["BAD", "EASY", "HARD", "LARGEST", "SMALL_POWERS", "scan_number"]

EASY, HARD, BAD = range(3)
# Larger entries are refused: learners square them.
LARGEST = 1e150

_LOWEST, _HIGHEST = -290, 146
SMALL_POWERS = 10.0 ** np.arange(23)
_U = np.uint64
_LOW_HALF = _U(0xFFFFFFFF)
_HALF = _U(32)
_TAIL = _U(0x1FF)
_ZERO, _ONE, _TWO, _THREE, _NINE = _U(0), _U(1), _U(2), _U(3), _U(9)


def _powers() -> np.ndarray:
    """The leading 128 bits of powers of ten, cut off below, as (high, low)."""
    table = np.empty((_HIGHEST - _LOWEST + 1, 2), dtype=np.uint64)
    for e in range(_LOWEST, _HIGHEST + 1):
        if e >= 0:
            power = 10**e
            excess = power.bit_length() - 128
            top = power >> excess if excess > 0 else power << -excess
        else:
            power = 10**-e
            top = (1 << (power.bit_length() + 128)) // power
            top >>= top.bit_length() - 128
        table[e - _LOWEST] = top >> 64, top & (2**64 - 1)
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
def _nearest(mantissa, exponent):
    """The double nearest to ``mantissa * 10**exponent``, or -1 if the product does not decide."""
    shift = 0
    while mantissa >> _U(63) == _ZERO:
        mantissa = mantissa << _ONE
        shift += 1
    # 217706 / 2^16 is log2(10), to more digits than the range of exponents can tell.
    binary = ((217706 * exponent) >> 16) + 64 - shift
    power = _POWERS[exponent - _LOWEST]
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


@compiled
def scan_number(text, p):
    """Read a number that starts at ``text[p]``; any byte other than a digit ends it.

    Parameters
    ----------
    text : ndarray of uint8
        The text, in which some byte after the number is no digit.
    p : int
        Where the number starts.

    Returns
    -------
    p : int
        First byte after the number.
    value : float
        The number, if it is easy.
    status : {EASY, HARD, BAD}
        Whether the value is the nearest double, left to the caller, or not a number of a size
        that is taken.
    """
    negative = text[p] == 45
    if negative or text[p] == 43:
        p += 1
    mantissa, digits, exponent, seen = _ZERO, 0, 0, 0
    for part in range(2):
        while True:
            digit = int(text[p]) - 48
            if digit < 0 or digit > 9:
                break
            p += 1
            seen += 1
            if digits < 19:
                mantissa = mantissa * _U(10) + _U(digit)
                if mantissa != _ZERO:
                    digits += 1
                exponent -= part
            else:
                digits += 1
                exponent += 1 - part
        if part == 0:
            if text[p] != 46:
                break
            p += 1
    if seen == 0:
        return p, 0.0, BAD
    if text[p] == 101 or text[p] == 69:
        p += 1
        below = text[p] == 45
        if below or text[p] == 43:
            p += 1
        power, seen = 0, 0
        while True:
            digit = int(text[p]) - 48
            if digit < 0 or digit > 9:
                break
            p += 1
            seen += 1
            if power < 100000:
                power = 10 * power + digit
        if seen == 0:
            return p, 0.0, BAD
        exponent += -power if below else power
    if mantissa == _ZERO:
        return p, 0.0, EASY
    if min(digits, 19) + exponent > 145:
        return p, 0.0, BAD
    if digits > 19 or exponent < _LOWEST:
        return p, 0.0, HARD
    if mantissa >> _U(53) == _ZERO and -22 <= exponent <= 22:
        value = float(mantissa)
        value = value / SMALL_POWERS[-exponent] if exponent < 0 else value * SMALL_POWERS[exponent]
    else:
        value = _nearest(mantissa, exponent)
        if value < 0.0:
            return p, 0.0, HARD
    return p, -value if negative else value, EASY
