"""Ellipsoids with a penalty of rows outside, or a ridge."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.solvers.ellipsoid.coordinates import Coordinates
from oblong.solvers.ellipsoid.free_scale import solve_design, solve_for_penalty
from oblong.solvers.ellipsoid.problem import (
    DesignProblem,
)
from oblong.solvers.ellipsoid.solve import solve_ellipsoid
from tests.solvers.ellipsoid.problems import SMOOTHED


def test_ridge_and_penalty_of_many_rows():
    X = np.random.default_rng(5).normal(size=(3000, 3))
    for arguments in ({"E": 0.002}, {"coverage": 0.9, "ridge": 0.5}):
        direct = solve_ellipsoid(X, **arguments)
        large = solve_ellipsoid(X, **arguments, options=SMOOTHED)
        assert large.status == "converged"
        assert large.objective == pytest.approx(direct.objective, abs=1e-4)
        assert np.allclose(
            large.factor @ large.factor.T, direct.factor @ direct.factor.T, atol=1e-3
        )


def test_scale_of_a_penalty_agrees_with_the_caps_it_leads_to():
    X = np.random.default_rng(11).normal(size=(300, 3))
    problem = DesignProblem(X, Coordinates.of(X, None, lift=True, rank_tol=1e-10), None, 1e-8, 1000)
    found = solve_for_penalty(problem, 0.05, None)
    assert found.status == "converged"
    # The caps of the design are the penalty over the scale.
    assert found.cap * found.scale == pytest.approx(0.05, rel=1e-6)
    design = solve_design(problem, found.cap, None)
    np.testing.assert_allclose(design.u, found.weights, atol=1e-5)
