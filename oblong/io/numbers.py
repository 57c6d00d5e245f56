"""Numbers in a text, to the nearest double, compiled; and the words that mean a missing value.

A number is scanned into an integer ``m`` of at most 19 digits and a power of ten ``e``.

- If ``m < 2⁵³`` and ``|e| ≤ 22``, both ``m`` and ``10^|e|`` are doubles, and one product or
  quotient is the nearest double to the exact value (Clinger 1990).
- Otherwise 128 bits of ``10^e`` are multiplied by ``m``; the few products that do not decide about
  the last bit are recognised (Lemire 2021).

What is left (more digits, powers near the ends of the range, and numbers too close to the middle of
two doubles) is marked, for the caller to convert with Python's ``float``: the result is that of
``float`` to the last bit.

References
----------
W. D. Clinger, "How to Read Floating Point Numbers Accurately", Programming Language Design and
Implementation, 1990. D. Lemire, "Number Parsing at a Gigabyte per Second", Software: Practice and
Experience 51, 2021.
"""

import math
import re

import numpy as np

from oblong._core.compile import compiled
from oblong._core.text import quote
from oblong.io.errors import RowError

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
# What spreadsheets write where a formula has no value.
_ERRORS = ("#n/a", "#null!", "#div/0!", "#value!", "#ref!", "#name?", "#num!")
_MISSING = frozenset({"", "?", "na", "n/a", "nan", "null", "none", *_ERRORS})
EASY, HARD, BAD = range(3)
# What is wrong with a cell that has no number.
MISSING = "expected a number, got a missing value"
# Larger entries are refused: learners square them.
LARGEST = 1e150

# Powers of ten for which no product of at most 19 digits leaves the normal doubles.
_LOWEST, _HIGHEST = -290, 146
SMALL_POWERS = 10.0 ** np.arange(23)
_U = np.uint64
_LOW_HALF = _U(0xFFFFFFFF)
_HALF = _U(32)
_TAIL = _U(0x1FF)
_ZERO, _ONE, _THREE, _NINE = _U(0), _U(1), _U(3), _U(9)


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


def is_number(text: str) -> bool:
    """Whether a text is a decimal number, blanks around it aside."""
    return _NUMBER.fullmatch(text.strip()) is not None


def is_missing(text: str) -> bool:
    """Whether a text stands for a missing value: nothing, ``?``, ``NA``, ``null``, ``#N/A``."""
    return text.strip().lower() in _MISSING


def number(text: str) -> float:
    """Convert a text, or raise a :class:`RowError` that says why not."""
    text = text.strip()
    if is_missing(text):
        raise RowError(MISSING, cause="missing")
    if not is_number(text):
        raise RowError(f"expected a number, got {quote(text)}", cause="text")
    return checked(float(text), text)


def checked(value: float, text: object = None) -> float:
    """A number that is neither missing nor too large; else raise a :class:`RowError`."""
    if value != value:
        raise RowError(MISSING, cause="missing")
    if not abs(value) <= LARGEST:
        got = quote(value if text is None else text)
        problem = f"expected a number of at most {LARGEST:g}, got {got}"
        raise RowError(problem, cause="infinite")
    return value


@compiled
def _lower(c):
    return c | 32 if 65 <= c <= 90 else c


_ERROR_BYTES = np.array([list(word.encode().ljust(8)) for word in _ERRORS], dtype=np.uint8)


@compiled
def _is_error(text, start, n):
    """Whether a part of a text is a word that spreadsheets write for an error."""
    for k in range(_ERROR_BYTES.shape[0]):
        same = True
        for i in range(8):
            same = same and _ERROR_BYTES[k, i] == (_lower(text[start + i]) if i < n else 32)
        if same:
            return True
    return False


@compiled
def spells_missing(text, start, stop):
    """What :func:`is_missing` says of a part of a text without blanks around it."""
    n = stop - start
    if n == 0:
        return True
    first = _lower(text[start])
    if n == 1:
        return first == 63
    if first == 35 and n <= 8:
        return _is_error(text, start, n)
    if first != 110 or n > 4:
        return False
    second = _lower(text[start + 1])
    if n == 2:
        return second == 97
    third = _lower(text[start + 2])
    if n == 3:
        return (second == 97 and third == 110) or (second == 47 and third == 97)
    fourth = _lower(text[start + 3])
    if second == 117:
        return third == 108 and fourth == 108
    return second == 111 and third == 110 and fourth == 101


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
