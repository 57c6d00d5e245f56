"""Newton's method on smoothed problems, for both families that use it."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.solvers.ellipsoid.capped import SmoothedDesign
from oblong.solvers.ellipsoid.coordinates import Coordinates
from oblong.solvers.ellipsoid.problem import DesignProblem
from oblong.solvers.esvm.many_rows import SmoothedEsvm
from oblong.solvers.esvm.problem import EsvmProblem
from oblong.solvers.logdet.options import LogDetOptions
from oblong.solvers.logdet.smoothed_newton import (
    SmoothedNewton,
    _root_of_slope,
    rows_near_boundary,
    solve_smoothed,
)


def machine(n=300, intercept=True):
    rng = np.random.default_rng(0)
    F = rng.normal(size=(n, 3))
    y = np.where(F[:, 0] + 0.7 * rng.normal(size=n) > 0, 1.0, -1.0)
    length = np.linalg.norm(F, axis=1)
    caps = 0.9 * 3 / (n * 0.2 * length)
    return SmoothedEsvm(EsvmProblem(F, y, caps, 1.0 / length, 0.9, intercept, 1e-8, 500))


def design(n=300, center=True, weighted=False):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 3)) * [1.0, 2.0, 0.1] + 5.0
    weights = rng.integers(0, 3, n).astype(float) if weighted else None
    present = None if weights is None else (weights > 0).astype(float)
    coordinates = Coordinates.of(X, present, lift=center, rank_tol=1e-10)
    problem = DesignProblem(X, coordinates, weights, 1e-8, 500)
    return SmoothedDesign(problem, 1.0 / (0.2 * problem.total_weight), None)


PROBLEMS = {
    "machine": machine,
    "machine without intercept": lambda: machine(intercept=False),
    "design": design,
    "design at the origin": lambda: design(center=False),
    "weighted design": lambda: design(weighted=True),
}


def value(problem, newton, R, w, b):
    """The smoothed objective, as it is stated."""
    m, width = problem.excess(R, w, b), newton.width
    rounded = np.clip(m + 0.5 * width, 0.0, None) ** 2 / (2.0 * width)
    loss = problem.caps @ np.where(m < 0.5 * width, rounded, m)
    B = R @ R.T
    found = -problem.r * np.linalg.slogdet(B)[1] + np.sum(problem.constant * B)
    return found + problem.total * b + loss - newton._kappa() * np.log(1.0 - w @ w)


@pytest.mark.parametrize("name", PROBLEMS)
def test_change_of_the_excess_is_linear(name):
    problem = PROBLEMS[name]()
    R, w, b = problem.start()
    rng = np.random.default_rng(2)
    step = rng.normal(size=R.shape)
    new_R, dw, db = R + 0.1 * step, 0.1 * rng.normal(size=w.shape), 0.3
    change = problem.change(new_R @ new_R.T - R @ R.T, dw, db)
    expected = problem.excess(new_R, w + dw, b + db) - problem.excess(R, w, b)
    np.testing.assert_allclose(change, expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("name", PROBLEMS)
def test_moments_are_the_gradient(name):
    problem = PROBLEMS[name]()
    newton = SmoothedNewton(problem)
    newton.begin()
    R, w, b = newton.R, newton.w, newton.b
    rng, eps = np.random.default_rng(3), 1e-6
    D, dw = rng.normal(size=R.shape), rng.normal(size=w.shape)
    db = 1.0 if problem.has_bias else 0.0
    high, low = (
        value(problem, newton, R @ (np.eye(len(R)) + t * D), w + t * dw, b + t * db)
        for t in (eps, -eps)
    )
    excess = R.T @ newton.M @ R - problem.r * np.eye(len(R))
    pull = 2.0 * newton._kappa() / (1.0 - w @ w) * w - newton.v
    balance = problem.total - np.sum(problem.signs * newton.alpha)
    slope = np.sum(excess * (D + D.T)) + pull @ dw + balance * db
    assert slope == pytest.approx((high - low) / (2.0 * eps), rel=1e-5)


@pytest.mark.parametrize("name", PROBLEMS)
def test_steps_lower_the_smoothed_objective_to_its_minimum(name):
    problem = PROBLEMS[name]()
    newton = SmoothedNewton(problem)
    newton.begin()
    values = [value(problem, newton, newton.R, newton.w, newton.b)]
    for _ in range(25):
        decrement, moved = newton._step()
        values.append(value(problem, newton, newton.R, newton.w, newton.b))
        if decrement < 1e-13 or not moved:
            break
    assert np.all(np.diff(values) <= 1e-10)
    assert decrement <= 1e-8
    # What was updated step by step is what a pass from scratch finds.
    m = problem.excess(newton.R, newton.w, newton.b)
    np.testing.assert_allclose(newton.m, m, atol=1e-9 * np.abs(m).max())
    np.testing.assert_allclose(newton.M, problem.moments(newton.alpha)[0] + problem.constant)


@pytest.mark.parametrize("name", PROBLEMS)
def test_smoothed_problem_and_boundary_rows_reach_the_certificate(name):
    problem = PROBLEMS[name]()
    found = solve_smoothed(problem)
    assert found.gap + 1e-12 >= 0.0
    assert found.gap <= problem.tol * problem.unit
    start = SmoothedNewton(problem)
    start.begin()
    again = solve_smoothed(PROBLEMS[name](), (start.R, start.w, start.b), 0.5)
    assert again.gap <= problem.tol * problem.unit


@pytest.mark.parametrize("make", [machine, design])
def test_sample_has_the_same_sum_of_caps(make):
    problem = make()
    sample = problem.sample(np.arange(0, 300, 3))
    assert sample.caps.sum() == pytest.approx(problem.caps.sum())
    assert len(sample.caps) == 100


def test_rows_near_the_boundary_are_free_and_the_others_held():
    excess = np.array([-3.0, -0.1, 0.0, 0.2, 2.0, 0.05])
    caps = np.array([1.0, 1.0, 1.0, 2.0, 3.0, 0.0])
    alpha = np.array([0.9, 0.0, 0.5, 1.0, 3.0, 0.0])
    options = LogDetOptions(boundary_rows=2, boundary_least=0)
    rows, held = rows_near_boundary(excess, alpha, caps, 1, options)
    # The row far inside with a weight has the largest term of the gap; absent rows never count.
    assert rows.tolist() == [0, 2]
    assert held.tolist() == [0.0, 0.0, 0.0, 2.0, 3.0, 0.0]
    rows, held = rows_near_boundary(excess, alpha, caps, 100, options)
    assert rows.tolist() == [0, 1, 2, 3, 4]
    assert not held.any()


def test_root_of_a_slope():
    assert _root_of_slope(lambda t: t - 0.5, 10.0) == pytest.approx(0.5, abs=0.05)
    assert _root_of_slope(lambda t: t - 3.0, 10.0) == pytest.approx(3.0, abs=0.31)
    assert _root_of_slope(lambda t: t + 1.0, 10.0) == 0.0
    # Never as far as the boundary.
    assert 0.9 <= _root_of_slope(lambda t: -1.0, 1.0) < 1.0
