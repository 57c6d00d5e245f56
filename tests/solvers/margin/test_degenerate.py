"""Margin problems with closed forms, extreme scales, duplicates and little to learn."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference.margin import (
    solve_primal,
)
from tests.solvers.margin.problems import (
    TOL,
    Problem,
    make_problem,
    solve,
)


@pytest.mark.parametrize("B", [1.0, 1.5, np.inf])
def test_two_points_have_a_closed_form(B):
    """Two unit steps apart, w halves the distance until C stops it; b is the midpoint."""
    x = np.array([-1.0, 1.0])
    for C, slope in ((0.1, 0.2), (10.0, 1.0)):
        problem = Problem(np.outer(x, x), x, np.full(2, C), B)
        result = solve(problem, tol=1e-9)
        assert result.dual_coef @ x == pytest.approx(slope)
        assert result.bias == pytest.approx(0.0, abs=1e-9)
        low, high = sorted(result.bias_interval)
        # With C exhausted every b keeping both hinges active, |f| <= 1, is optimal.
        width = max(0.0, 1 - slope)
        assert (low, high) == pytest.approx((-width, width), abs=1e-8)


@pytest.mark.parametrize("B", [1.5, np.inf])
@pytest.mark.parametrize("C", [(0.3, 0.1, 0.2), (0.7, 0.1, 0.6), (0.3, 0.2, 0.1)])
def test_rounding_of_penalties_does_not_pin_the_bias(C, B):
    """In floating point 0.1 + 0.2 is not 0.3, yet all three coefficients end at their limits."""
    y = np.array([1.0, -1.0, -1.0])
    problem = Problem(1e-3 * np.eye(3), y, np.array(C), B)
    result = solve(problem, tol=1e-6)
    assert np.array_equal(np.abs(result.dual_coef), C)
    assert result.bias_interval == pytest.approx((-1.0, 1.0), abs=2e-3)
    assert result.bias == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("B", [1.0, 1.5, np.inf])
@pytest.mark.parametrize("level", [0.0, 1.0, 1e6])
def test_constant_kernels_leave_only_the_bias(level, B):
    """All rows coincide: w = 0 and the bias follows the heavier class."""
    y = np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    problem = Problem(np.full((5, 5), level), y, np.ones(5), B)
    result = solve(problem, tol=1e-6)
    assert result.violation <= 1e-6
    assert result.dual_coef @ problem.K @ result.dual_coef == pytest.approx(0.0, abs=1e-6)
    assert result.objective == pytest.approx(4.0, rel=1e-5)
    assert result.bias == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("B", [1.1, np.inf])
@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e150])
def test_extreme_kernel_scales(scale, B):
    """Scaling K by s and C by 1/s leaves the outputs alone."""
    problem = make_problem("rbf", 30, 1.0, B, seed=13)
    expected = solve(problem, tol=1e-6)
    scaled = solve(Problem(problem.K * scale, problem.y, problem.C / scale, B), tol=1e-6)
    assert scaled.violation <= 1e-6
    assert scaled.outputs == pytest.approx(expected.outputs, abs=1e-4)
    assert scaled.objective * scale == pytest.approx(expected.objective, rel=1e-5)


@pytest.mark.parametrize("B", [1.2, np.inf])
def test_extreme_imbalance(B):
    """One row against 149."""
    problem = make_problem("rbf", 150, 1.0, B, positive=0.0, seed=14)
    assert (problem.y > 0).sum() == 1
    result = solve(problem, tol=TOL)
    assert result.objective == pytest.approx(solve_primal(*problem).objective, rel=2e-5)


def test_every_row_duplicated_with_the_other_label():
    """Nothing can be learnt: the best is w = 0 with the whole hinge paid."""
    half = make_problem("rbf", 20, 1.0, 1.5, seed=15)
    K = np.tile(half.K, (2, 2))
    y = np.concatenate([half.y, -half.y])
    result = solve(Problem(K, y, np.ones(40), 1.5), tol=TOL)
    assert result.objective == pytest.approx(40.0, rel=1e-5)
    assert result.dual_coef @ K @ result.dual_coef == pytest.approx(0.0, abs=1e-5)


def test_duplicate_rows_equal_heavier_ones():
    problem = make_problem("rbf", 30, 1.0, 1.2, seed=16)
    counts = np.random.default_rng(16).integers(1, 4, size=30)
    rows = np.repeat(np.arange(30), counts)
    copies = solve(
        Problem(problem.K[np.ix_(rows, rows)], problem.y[rows], np.ones(len(rows)), 1.2), tol=TOL
    )
    weighted = solve(problem._replace(C=counts.astype(float)), tol=TOL)
    assert copies.objective == pytest.approx(weighted.objective, rel=1e-6)
    assert copies.outputs == pytest.approx(weighted.outputs[rows], abs=1e-5)
