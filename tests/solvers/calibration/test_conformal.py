"""Cross-conformal p-values."""

from __future__ import annotations

import numpy as np

from oblong.solvers.calibration.conformal import (
    conformity_of_pairs,
    conformity_of_rest,
    p_values,
)


def test_p_values_are_their_definition():
    rng = np.random.default_rng(0)
    # Whole numbers, so that there are ties.
    own = rng.integers(0, 10, 60).astype(float)
    labels, fold_of = rng.integers(0, 3, 60), np.arange(60) % 4
    new = [rng.integers(0, 10, (15, 3)).astype(float) for _ in range(4)]
    found = p_values(own, labels, fold_of, new)
    for row in range(15):
        for cls in range(3):
            mine = np.flatnonzero(labels == cls)
            count = sum(own[i] <= new[fold_of[i]][row, cls] for i in mine)
            assert found[row, cls] == (1 + count) / (mine.size + 1)


def test_p_values_of_exchangeable_scores_cover():
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(400):
        own = rng.normal(size=99)
        p = p_values(own, np.zeros(99, dtype=int), np.arange(99) % 3, [rng.normal(size=(1, 1))] * 3)
        covered.append(p[0, 0] > 0.1)
    # Of a single model the coverage is exact; four standard errors.
    assert abs(np.mean(covered) - 0.9) < 4 * np.sqrt(0.09 / 400)


def test_conformity_of_pairs_is_the_least_log_odds():
    z = np.array([[1.0, -2.0, 0.5]])
    found = conformity_of_pairs(z, [(0, 1), (0, 2), (1, 2)], 3)
    np.testing.assert_array_equal(found, [[-2.0, -1.0, -0.5]])


def test_conformity_of_rest_is_the_lead():
    f = np.array([[3.0, 1.0, -1.0], [2.0, 2.0, 0.0]])
    np.testing.assert_array_equal(conformity_of_rest(f), [[2.0, -2.0, -4.0], [0.0, 0.0, -2.0]])
