from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oblong.io.numbers import BAD, EASY, HARD, LARGEST, scan_number


def scan(text):
    return scan_number(np.frombuffer(text.encode() + b"\n", dtype=np.uint8), 0)


def check(text):
    end, value, status = scan(text)
    assert status != BAD
    assert end == len(text)
    if status == EASY:
        assert value == float(text)
    return status


@given(st.floats(-1e140, 1e140))
def test_what_python_writes(number):
    check(repr(number))


@given(st.integers(0, 10**19 - 1), st.integers(-280, 120))
def test_up_to_nineteen_digits(mantissa, exponent):
    text = f"{mantissa}e{exponent}"
    if len(str(mantissa)) + exponent <= 145:
        check(text)


digits = st.text("0123456789", max_size=30)


@given(st.sampled_from(["", "+", "-"]), digits, digits, st.integers(-40, 40))
def test_any_spelling(sign, before, after, exponent):
    if before or after:
        check(f"{sign}{before}.{after}")
        check(f"{sign}{before}.{after}E{exponent:+d}")


@given(st.integers(2**52, 2**53 - 1), st.integers(-30, 30), st.sampled_from([-1, 0, 1]))
def test_halfway_between_doubles(mantissa, shift, nudge):
    """The exact decimal expansion of a midpoint, and its neighbours in the last digit."""
    numerator = (2 * mantissa + 1) << max(shift, 0)
    scale = max(-shift, 0)
    whole = numerator * 5**scale + nudge
    check(f"{whole}e{-scale}")


@pytest.mark.parametrize(
    "text",
    ["0.1", "9007199254740993", "1e22", "1e23", "8.442911973260991817129021e-5", "123456789.0625"],
)
def test_classics(text):
    check(text)


def test_most_numbers_are_easy():
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal(2000) * 10.0 ** rng.integers(-9, 9, 2000)
    easy = [check(repr(x)) == EASY for x in numbers.tolist()]
    assert np.mean(easy) > 0.99
    assert check("0.1234567890123456789012") == HARD


@pytest.mark.parametrize(
    "text", ["", "+", ".", "-.", "e5", "1e", "1e+", "x", "nan", "inf", "1e151"]
)
def test_not_a_number(text):
    assert scan(text)[2] == BAD


def test_numbers_that_are_too_large_are_never_easy():
    for exponent in (140, 145, 150, 200, 400, 10**6):
        value, status = scan(f"1e{exponent}")[1:]
        assert status == BAD or value <= LARGEST
