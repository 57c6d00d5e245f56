"""Kinds of parameters: which numbers they admit."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from oblong import EllipsoidalSVC, RelativeMarginClassifier
from oblong._core.estimator import Count, NotNegative, constraints_of

X, Y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1]


@pytest.mark.parametrize("value", [10**400, Fraction(10**400), True, np.nan, -1, "1", 1j])
def test_numbers__what_no_array_can_hold_is_refused(value):
    assert not constraints_of(NotNegative)[0].is_satisfied_by(value)


@pytest.mark.parametrize("value", [0, 1, 2**70, 1e300, Fraction(1, 3), np.float32(2), np.int8(3)])
def test_numbers__what_an_array_can_hold_is_admitted(value):
    assert constraints_of(NotNegative)[0].is_satisfied_by(value)


@pytest.mark.parametrize(("value", "right"), [(1, True), (2**63 - 1, True), (2**63, False)])
def test_numbers__integers_have_64_bits(value, right):
    assert constraints_of(Count)[0].is_satisfied_by(value) == right


@pytest.mark.parametrize(
    "model", [RelativeMarginClassifier(C=10**400), EllipsoidalSVC(rank=True), EllipsoidalSVC(r=10)]
)
def test_fit__names_the_parameter_that_is_no_number(model):
    with pytest.raises(ValueError, match="parameter of"):
        model.fit(X, Y)
