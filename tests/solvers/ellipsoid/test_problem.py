"""Weights, caps and thresholds of the design problem."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.solvers.ellipsoid.problem import (
    balanced,
    best_threshold,
    snap_by_complementarity,
    snap_to_bounds,
)


def test_thresholds():
    q = np.array([5.0, 1.0, 4.0, 2.0, 3.0])
    assert best_threshold(q, None, np.inf) == 5.0
    # Two and a half rows outside: the third is free. Two: the third is the highest inside.
    assert best_threshold(q, None, 1 / 2.5) == 3.0
    assert best_threshold(q, None, 1 / 2) == 3.0
    assert best_threshold(q, None, 1 / 5) == 1.0
    weights = np.array([2.0, 0.0, 1.0, 1.0, 1.0])
    assert best_threshold(q, weights, 1 / 3) == 3.0
    assert best_threshold(q, weights, 1 / 2.5) == 4.0


def test_weights_are_moved_to_their_bounds():
    caps = np.full(5, 0.3)
    u = np.array([1e-12, 0.3 - 1e-12, 0.2, 0.25, 0.25])
    found = snap_to_bounds(u, caps, 1e-8)
    assert found[0] == 0.0
    assert found[1] == 0.3
    assert found.sum() == pytest.approx(1)
    for start in (np.full(5, 0.1), np.full(5, 0.3)):
        found = balanced(start, caps)
        assert found.sum() == pytest.approx(1)
        assert (found <= caps + 1e-15).all()


def test_complementarity():
    caps, q = np.full(5, 0.4), np.array([1.0, 3.0, 3.0, 3.0, 5.0])
    u = np.array([1e-9, 0.2, 0.2, 0.2, 0.4 - 1e-9])
    found = snap_by_complementarity(u, q, caps, 3.0, 1.0)
    assert found[0] == 0.0
    assert found[4] == 0.4
    assert found.sum() == pytest.approx(1)
    # Nothing to move, and nothing left to make up for what was moved.
    assert snap_by_complementarity(found, q, caps, 3.0, 1.0) is None
    assert (
        snap_by_complementarity(
            np.full(5, 0.2), np.array([1.0, 1.0, 1.0, 1.0, 5.0]), caps, 3.0, 1.0
        )
        is None
    )
