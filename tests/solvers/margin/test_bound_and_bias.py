"""The best bound and bias for given weights, against a linear program."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from oblong.solvers.margin.bound_and_bias import best_bound_and_bias


def _linear_program(u, y, C, U, D):
    b, t = cp.Variable(), cp.Variable()
    over = cp.pos(cp.abs(u + b) - t)
    value = C @ cp.pos(1 - cp.multiply(y, u + b)) + D * t
    constraints = [t >= 1]
    if np.isinf(U[0]):
        constraints.append(over <= 0)
    else:
        value = value + U @ over
    problem = cp.Problem(cp.Minimize(value), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return float(problem.value)


@pytest.mark.parametrize("seed", range(12))
def test_best_bound_and_bias(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.choice([2, 7, 30]))
    u = rng.normal(size=n) * 10.0 ** rng.uniform(-1, 1) + rng.normal()
    if seed % 3 == 0:
        u = np.round(u)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    C, D = rng.uniform(0.1, 2.0, size=n), 10.0 ** rng.uniform(-1, 1)
    for U in (np.full(n, np.inf), D * rng.uniform(0.01, 1.0, size=n), np.full(n, D / 2)):
        best = best_bound_and_bias(u, y, C, U, D)
        assert best.value == pytest.approx(_linear_program(u, y, C, U, D), rel=1e-7)

        f = u + best.bias
        over = np.maximum(np.abs(f) - best.bound, 0)
        value = C @ np.maximum(1 - y * f, 0) + D * best.bound
        value += 0.0 if np.isinf(U[0]) else U @ over
        assert best.value == pytest.approx(value, rel=1e-12)
        low, high = best.bias_interval
        assert low <= best.bias <= high
        if np.isinf(U[0]):
            assert np.abs(u + best.bias).max() <= best.bound


def test_middle_of_all_optimal_biases():
    """Rows at ±1/2 with nothing to lose in between: every bias in [-1/2, 1/2] has one value."""
    u, y = np.array([0.5, -0.5]), np.array([1.0, -1.0])
    best = best_bound_and_bias(u, y, np.ones(2), np.full(2, np.inf), 1.0)
    assert best.bias_interval == pytest.approx((-0.5, 0.5))
    assert best.bias == pytest.approx(0.0)
    assert best.bound == 1.0
    assert best.value == pytest.approx(2.0)
