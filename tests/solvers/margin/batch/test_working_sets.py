"""Which rows take part in a violation, and what their change does to the others."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.solvers.margin.batch.working_sets import _violation_and_level, carry
from oblong.solvers.margin.block import interval


@pytest.mark.parametrize("count", range(10))
def test_changes_are_carried_to_all_rows(count):
    rng = np.random.default_rng(count)
    K = rng.normal(size=(12, 12)).astype(np.float32)
    rows, changes, u = rng.permutation(12)[:count], rng.normal(size=count), rng.normal(size=12)
    expected = u + changes @ K[rows].astype(np.float64)
    carry(K, rows, changes, u)
    np.testing.assert_allclose(u, expected, atol=1e-12)


@pytest.mark.parametrize("free", [0, 3])
@pytest.mark.parametrize("seed", range(5))
def test_the_level_is_between_the_ends_of_the_violation(seed, free):
    rng = np.random.default_rng(seed)
    left = rng.normal(size=20)
    right = left - rng.uniform(0.0, 1.0, size=20)
    right[:free] = left[:free]
    u = rng.normal(size=20)
    m, M = interval(right, left, u)
    violation, level = _violation_and_level(right, left, u)
    assert violation == m - M > 0.0
    assert M <= level <= m
    if free:
        mean = float((right - u)[:free].mean())
        assert level == pytest.approx(min(max(mean, M), m))
