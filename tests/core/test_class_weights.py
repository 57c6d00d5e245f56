from __future__ import annotations

import numpy as np
import pytest

from oblong._core.class_weights import class_factors


def test_class_factors():
    classes, codes = np.array(["a", "b", "c"]), np.array([0, 0, 0, 1])
    weights = np.array([1.0, 1.0, 2.0, 2.0])
    assert class_factors(None, classes, codes, weights).tolist() == [1.0, 1.0, 1.0]
    balanced = class_factors("balanced", classes, codes, weights)
    np.testing.assert_allclose(balanced, [6 / 12, 6 / 6, 0.0])
    named = class_factors({"b": 3.0}, classes, codes, weights)
    assert named.tolist() == [1.0, 3.0, 1.0]
    assert class_factors({"b": 0}, classes, codes, weights, allow_zero=True)[1] == 0.0
    with pytest.raises(ValueError, match="above zero"):
        class_factors({"b": 0.0}, classes, codes, weights)
    for bad in (-1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="non-negative"):
            class_factors({"b": bad}, classes, codes, weights, allow_zero=True)
    with pytest.raises(ValueError, match="are not in class_weight"):
        class_factors({"a": 1.0, "z": 1.0}, classes, codes, weights)
