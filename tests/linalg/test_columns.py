"""Columns of a matrix in memory."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.linalg.columns import ExplicitColumns


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("support", [0, 3, 31, 100])
def test_outputs_are_sums_in_double_precision(dtype, support):
    rng = np.random.default_rng(0)
    K = rng.normal(size=(100, 100)).astype(dtype)
    K += K.T
    coef = np.zeros(100)
    coef[rng.permutation(100)[:support]] = 1e6 * rng.normal(size=support)
    expansion = ExplicitColumns(K).expand(coef, np.zeros(100), None)
    np.testing.assert_allclose(expansion.image, K.astype(np.float64) @ coef, rtol=0.0, atol=1e-7)
