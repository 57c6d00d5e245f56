"""The nearest point of a polyhedron."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from oblong.bounds._least_distance import solve_least_distance


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e5])
@pytest.mark.parametrize(("m", "k"), [(1, 1), (5, 2), (40, 4), (15, 30), (300, 3)])
def test_agrees_with_a_convex_program(m, k, scale):
    rng = np.random.default_rng(m + k)
    # A hidden point makes the constraints consistent; every third passes through the origin.
    A = rng.normal(size=(m, k))
    A[A @ np.ones(k) < 0] *= -1
    h = np.where(np.arange(m) % 3 == 1, 0.0, 1.0)
    v = cp.Variable(k)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(v)), [A @ v >= h])
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    result = solve_least_distance(A * scale, h)
    assert result.status == "converged"
    np.testing.assert_allclose(result.point * scale, v.value, rtol=1e-5, atol=1e-6)
    distance = np.linalg.norm(result.point)
    assert np.min(A @ result.point * scale - h) >= -1e-9
    assert result.lower_bound == pytest.approx(distance, rel=1e-9)
    u = result.multipliers
    assert u.min() >= 0
    assert h @ u / np.linalg.norm(scale * A.T @ u) == pytest.approx(distance, rel=1e-9)


@pytest.mark.parametrize("far", [1e3, 1e5])
def test_a_far_point_keeps_its_digits(far):
    """Two rows that almost cancel put the point far away."""
    A = np.array([[1.0, 1 / far], [-1.0, 1 / far]])
    result = solve_least_distance(A, np.ones(2))
    np.testing.assert_allclose(result.point, [0.0, far], rtol=1e-8, atol=1e-4)


def test_infeasible():
    result = solve_least_distance(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.ones(2))
    assert result.status == "infeasible"
    assert result.lower_bound == np.inf
    assert solve_least_distance(np.zeros((2, 2)), np.ones(2)).status == "infeasible"


def test_the_origin_itself():
    result = solve_least_distance(np.eye(2), np.zeros(2))
    assert result.status == "converged"
    np.testing.assert_array_equal(result.point, [0.0, 0.0])
    assert result.lower_bound == 0.0
