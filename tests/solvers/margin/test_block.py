"""One dense block: pair steps, Newton steps, and the interior point method before them."""

from __future__ import annotations

import numpy as np
import pytest

from oblong._native import margin as native
from oblong.solvers.margin.block import (
    NoMaximum,
    balance,
    check_definite,
    interval,
    solve_block,
    violation_of,
)
from oblong.solvers.margin.problem import Pieces, svm_pieces
from tests.reference.margin import solve_pieces
from tests.solvers.margin.problems import KERNELS, bias_interval, dual_value, make_problem

NO_LIMIT = 10**9
BOTH = (np.float32, np.float64)


def _steps(K, pieces, c, *, split=None, tol=1e-9, steps=NO_LIMIT, dtype=np.float64):
    """The compiled steps from given coefficients; returns counts, violation and the state."""
    K = np.ascontiguousarray(K, dtype=dtype)
    n = len(c)
    split = n if split is None else split
    c = np.array(c, dtype=float)
    support = np.flatnonzero(c)
    u = np.ascontiguousarray(K[:, support].astype(float) @ c[support])
    right, left = np.empty(n), np.empty(n)
    sums = np.array([c[:split].sum(), c[split:].sum()])
    tiny = 4.0 * np.finfo(dtype).eps * np.abs(K.diagonal()).mean()
    counts = native.solve_block(
        K, K.diagonal().astype(float), *pieces, split, sums, c, u, right, left, tol, tiny, 1e-13,
        steps,
    )  # fmt: skip
    return (*counts, c, u, right, left)


@pytest.mark.parametrize("n", [2, 60, 127, 128, 200, 300])
@pytest.mark.parametrize("B", [1.1, np.inf])
@pytest.mark.parametrize("kernel", KERNELS)
def test_native_solve_block__its_state_belongs_to_the_coefficients(kernel, B, n):
    """Image, slopes, sum and violation, wherever it stops."""
    problem = make_problem(kernel, n, 3.0, B, seed=2)
    for steps in (0, 1, 39, 300):
        taken, _, violation, c, u, right, left = _steps(
            problem.K, problem.pieces, np.zeros(n), steps=steps
        )
        assert taken <= steps
        scale = max(1.0, float(np.abs(problem.K).max() * np.abs(c).sum()))
        np.testing.assert_allclose(u, problem.K @ c, atol=1e-11 * scale)
        np.testing.assert_array_equal((right, left), problem.pieces.slopes_at(c))
        assert abs(c.sum()) <= 1e-9
        assert violation == pytest.approx(violation_of(right, left, u), abs=1e-10 * scale)


@pytest.mark.parametrize("B", [1.05, np.inf])
@pytest.mark.parametrize("n", [40, 150])
def test_native_solve_block__the_dual_never_falls(B, n):
    problem = make_problem("rbf", n, 30.0, B, seed=5)
    last = 0.0
    for steps in (1, 2, 5, 20, 75, 150, 600, 5000):
        c = _steps(problem.K, problem.pieces, np.zeros(n), steps=steps)[3]
        dual = dual_value(problem.K, problem.pieces, c)
        assert dual >= last - 1e-9 * abs(last)
        last = dual


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("n", [50, 220])
@pytest.mark.parametrize("seed", range(3))
def test_native_solve_block__two_groups_keep_their_sums(seed, n, dtype):
    rng = np.random.default_rng(seed)
    points = np.sort(rng.uniform(-2, 2, size=(n, 4)), axis=1)
    points[:, 0], points[:, 3] = np.minimum(points[:, 0], 0), np.maximum(points[:, 3], 0)
    pieces = Pieces(points, -np.sort(-rng.normal(size=(n, 3)), axis=1))
    split, K = int(rng.integers(1, n)), make_problem("rbf", n, 1.0, np.inf, seed=seed).K
    start = points[:, 0] + rng.random(n) * (points[:, 3] - points[:, 0])
    tol = 1e-4 if dtype == np.float32 else 1e-8
    _, _, violation, c, u, right, left = _steps(K, pieces, start, split=split, tol=tol, dtype=dtype)
    assert violation <= tol
    parts = (slice(0, split), slice(split, n))
    worst = max(violation_of(right[part], left[part], u[part]) for part in parts)
    assert violation == pytest.approx(worst, abs=1e-9)
    for part in parts:
        assert c[part].sum() == pytest.approx(start[part].sum(), abs=1e-12 * n)
    sums = [(part, start[part].sum()) for part in parts]
    optimum = solve_pieces(K, *pieces, sums).objective
    assert dual_value(K, pieces, c) == pytest.approx(optimum, rel=1e-5, abs=1e-5)


def test_native_solve_block__newton_steps_find_the_optimum_of_free_coefficients():
    """Far from all breakpoints the dual is a quadratic with one constraint."""
    problem = make_problem("rbf", 20, 1e6, np.inf, seed=1)
    K = problem.K + 10.0 * np.eye(20)
    taken, _, _, c, u, _, _ = _steps(K, problem.pieces, 0.5 * problem.y, tol=1e-10)
    system = np.block([[K, np.ones((20, 1))], [np.ones((1, 20)), np.zeros((1, 1))]])
    exact = np.linalg.solve(system, np.append(problem.y, 0.0))[:20]
    assert np.all(problem.y * exact > 0)
    np.testing.assert_allclose(c, exact, rtol=1e-6)
    np.testing.assert_allclose(u, K @ c, rtol=1e-9)
    assert taken < 2000


def test_native_solve_block__newton_steps_are_taken_where_pair_steps_are_many():
    problem = make_problem("poly", 100, 1000.0, 1.01, seed=100)
    taken, newton, violation, *_ = _steps(problem.K, problem.pieces, np.zeros(100), tol=1e-6)
    assert violation <= 1e-6
    assert newton > 0
    # Pair steps alone need millions.
    assert taken < 200_000


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("place", [(0, 0), (3, 4), (59, 2)])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_native_solve_block__values_that_are_not_finite_are_no_solution(value, place, dtype):
    problem = make_problem("rbf", 60, 3.0, 1.1, seed=2)
    K = problem.K.copy()
    K[place] = K[place[::-1]] = value
    violation, _, u = _steps(K, problem.pieces, np.zeros(60), dtype=dtype, steps=10**4)[2:5]
    assert np.isfinite(u).all() or not violation <= 1e-9


@pytest.mark.parametrize("interior", [False, True])
@pytest.mark.parametrize("extra", [0, 7])
@pytest.mark.parametrize(("dtype", "error"), [(np.float64, 1e-10), (np.float32, 2e-3)])
def test_solve_block__returns_the_image_of_its_coefficients(dtype, error, extra, interior):
    """Columns behind those of the block are not looked at."""
    problem = make_problem("rbf", 60, 10.0, 1.2)
    K = np.full((60, 60 + extra), np.nan, dtype=dtype)
    K[:, :60] = problem.K
    c = np.zeros(60)
    outcome = solve_block(K, problem.pieces, c, np.zeros(60), 1e-2, 1e-2, NO_LIMIT, interior)
    np.testing.assert_allclose(outcome.u, problem.K @ c, atol=error)
    assert outcome.violation <= 1e-2
    low, high = bias_interval(problem.K, problem.pieces, c)
    assert low - high <= 1e-2 + 2 * error


@pytest.mark.parametrize("interior", [False, True])
def test_solve_block__what_is_outside_of_the_block_stays(interior):
    problem = make_problem("rbf", 80, 3.0, 1.4, seed=2)
    start = _steps(problem.K, problem.pieces, np.zeros(80), steps=60)[3]
    rows = np.arange(0, 80, 2)
    part, c = problem.pieces.take(rows), start[rows].copy()
    u = (problem.K @ start)[rows]
    given = u.copy()
    block = np.ascontiguousarray(problem.K[np.ix_(rows, rows)])
    outcome = solve_block(block, part, c, u, 1e-8, 1e-8, NO_LIMIT, interior)
    np.testing.assert_array_equal(u, given)
    assert c.sum() == pytest.approx(start[rows].sum(), abs=1e-10)
    np.testing.assert_allclose(outcome.u, u + block @ (c - start[rows]), atol=1e-9)
    np.testing.assert_array_equal((outcome.right, outcome.left), part.slopes_at(c))
    assert violation_of(outcome.right, outcome.left, outcome.u) <= 1.1e-8


def test_solve_block__a_start_that_is_optimal_takes_nothing():
    problem = make_problem("rbf", 60, 10.0, 1.2)
    c = _steps(problem.K, problem.pieces, np.zeros(60), tol=1e-7)[3]
    before = c.copy()
    outcome = solve_block(problem.K, problem.pieces, c, problem.K @ c, 1e-3, 1e-3, NO_LIMIT)
    assert (outcome.steps, outcome.newton_steps) == (0, 0)
    np.testing.assert_allclose(c, before, atol=1e-12)


@pytest.mark.parametrize("budget", [0, 1, 17])
def test_solve_block__the_budget_is_kept(budget):
    problem = make_problem("rbf", 150, 10.0, 1.2)
    outcome = solve_block(
        problem.K, problem.pieces, np.zeros(150), np.zeros(150), 1e-8, 1e-8, budget
    )
    assert outcome.steps == budget
    assert outcome.violation > 1e-8


@pytest.mark.parametrize("interior", [False, True])
@pytest.mark.parametrize("place", [(3, 3), (3, 4)])
@pytest.mark.parametrize("dtype", BOTH)
def test_solve_block__values_that_are_not_finite_have_no_maximum(dtype, place, interior):
    problem = make_problem("rbf", 40, 1.0, 1.2)
    K = problem.K.astype(dtype)
    K[place] = K[place[::-1]] = np.nan
    with pytest.raises(NoMaximum):
        solve_block(K, problem.pieces, np.zeros(40), np.zeros(40), 1e-3, 1e-3, NO_LIMIT, interior)


def test_balance__takes_from_the_largest_free_coefficient():
    c = np.array([2.0, -1.0, 5.0, -5.0])
    balance(c, np.array([1.0, 1.0, 0.0, 0.0]), np.array([1.0, 1.0, 1.0, 1.0]))
    np.testing.assert_array_equal(c, [1.0, -1.0, 5.0, -5.0])
    fixed = np.array([1.0, 2.0])
    balance(fixed, np.zeros(2), np.ones(2))
    np.testing.assert_array_equal(fixed, [1.0, 2.0])


def test_interval__is_that_of_the_optimal_biases():
    right, left, u = np.array([1.0, -np.inf]), np.array([np.inf, 2.0]), np.array([0.5, 0.25])
    assert interval(right, left, u) == (0.5, 1.75)
    assert violation_of(right, left, u) == -1.25


def test_check_definite__notices_what_has_no_maximum():
    problem = make_problem("rbf", 4, 1.0, 1.2)
    c = np.array([1.0, -1.0, 1.0, -1.0])
    check_definite(problem.pieces, c, c, 1e-3)
    check_definite(problem.pieces, c, -1e-9 * c, 1e-3)
    with pytest.raises(NoMaximum):
        check_definite(problem.pieces, 1e3 * c, -1e3 * c, 1e-3)
    with pytest.raises(NoMaximum):
        check_definite(problem.pieces, 1e200 * c, -1e200 * c, 1e-3)
    # Without a bound every domain ends, and so does the dual.
    check_definite(svm_pieces(problem.y, problem.C), c, -1e3 * c, 1e-3)
