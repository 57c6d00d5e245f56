"""Numbers in a text, compiled.

A number is scanned into an integer of at most 19 digits and a power of ten, which make the nearest
double in almost every case. What is left (more digits, powers near the ends of the range, and
numbers too close to the middle of two doubles) is marked, for the caller to convert with Python's
``float``: the result is that of ``float`` to the last bit.
"""

from __future__ import annotations

import numpy as np

from oblong._core.compile import compiled
from oblong._decimals import LOWEST, SMALL_POWERS, nearest

__all__ = ["BAD", "EASY", "HARD", "LARGEST", "scan_number"]

EASY, HARD, BAD = range(3)
# Larger entries are refused: learners square them.
LARGEST = 1e150

_U = np.uint64
_ZERO = _U(0)


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
    if digits > 19 or exponent < LOWEST:
        return p, 0.0, HARD
    if mantissa >> _U(53) == _ZERO and -22 <= exponent <= 22:
        value = float(mantissa)
        value = value / SMALL_POWERS[-exponent] if exponent < 0 else value * SMALL_POWERS[exponent]
    else:
        value = nearest(mantissa, exponent)
        if value < 0.0:
            return p, 0.0, HARD
    return p, -value if negative else value, EASY
