"""Powers of two of compiled loops."""

from __future__ import annotations

import numpy as np
import pytest

from oblong._core.exp2 import raise_two


@pytest.mark.parametrize(("dtype", "units"), [(np.float32, 1.0), (np.float64, 2.0)])
def test_against_numpy(dtype, units):
    values = -np.abs(np.random.default_rng(0).normal(0.0, 30.0, (7, 1003))).astype(dtype)
    values[0, :5] = [0.0, -0.5, -1.0, -1.5, -125.0]
    exact = np.exp2(values.astype(np.longdouble))
    outside = values.copy()
    raise_two(values, 3, 1000)
    wrong = np.abs(values[:, 3:1000] / exact[:, 3:1000] - 1.0)
    assert wrong.max() <= units * np.finfo(dtype).eps
    np.testing.assert_array_equal(values[:, :3], outside[:, :3])
    np.testing.assert_array_equal(values[:, 1000:], outside[:, 1000:])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ends(dtype):
    values = np.array([[0.0, 1e-6, 3.0, -1e4, -1e30, -np.inf]], dtype=dtype)
    raise_two(values, 0, 6)
    np.testing.assert_array_equal(values[0, :3], 1.0)
    np.testing.assert_array_equal(values[0, 3:], 0.0)
