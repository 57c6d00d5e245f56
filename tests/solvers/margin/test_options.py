"""Warm starts, limits, progress, interruption and precision of the margin solver."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.solver import solve_margin
from tests.reference.margin import (
    kernel_matrix,
    solve_primal,
)
from tests.solvers.margin.problems import (
    KERNELS,
    TOL,
    Problem,
    bias_interval,
    make_problem,
    solve,
    solve_matrix,
)


def test_warm_start_at_the_solution_takes_no_steps():
    problem = make_problem("rbf", 80, 10.0, 1.2, seed=4)
    cold = solve(problem, tol=TOL)
    warm = solve(problem, tol=TOL, start=cold.dual_coef)
    assert warm.n_iter <= 1
    assert warm.objective == pytest.approx(cold.objective, rel=1e-9)


def test_warm_start_from_the_svm():
    """From the unbounded solution a mild bound is reached sooner, at the same objective."""
    steps = np.zeros(2, dtype=int)
    for kernel in KERNELS:
        free = make_problem(kernel, 120, 1.0, np.inf, seed=6)
        svm = solve(free, tol=TOL)
        theta = np.abs(svm.outputs).max()
        bounded = free._replace(B=1 + 0.8 * (theta - 1))
        cold = solve(bounded, tol=TOL)
        warm = solve(bounded, tol=TOL, start=svm.dual_coef)
        assert warm.violation <= TOL
        assert warm.objective == pytest.approx(cold.objective, rel=1e-5)
        known = solve(bounded, tol=TOL, start=svm.dual_coef, start_image=free.K @ svm.dual_coef)
        assert known.objective == pytest.approx(cold.objective, rel=1e-5)
        steps += warm.n_iter, cold.n_iter
    assert steps[0] < steps[1]


def test_max_iter_stops_early_with_an_honest_gap():
    problem = make_problem("rbf", 100, 10.0, 1.2, seed=1)
    best = solve_primal(*problem).objective
    previous = np.inf
    for steps in (1, 10, 40):
        result = solve(problem, tol=TOL, max_iter=steps)
        assert result.status == "max_iter"
        assert result.n_iter <= steps
        assert result.violation > TOL
        assert abs(result.dual_coef.sum()) <= 1e-9
        assert result.dual_objective <= best * (1 + 1e-9)
        assert result.objective >= best * (1 - 1e-9)
        assert result.gap == pytest.approx(result.objective - result.dual_objective)
        assert -result.dual_objective <= previous
        previous = -result.dual_objective
    assert solve(problem, tol=TOL).status == "converged"


def test_looser_tolerance_takes_fewer_steps():
    problem = make_problem("rbf", 150, 10.0, 1.3, seed=1)
    results = [solve(problem, tol=tol) for tol in (1e-1, 1e-3, 1e-6)]
    steps = [result.n_iter for result in results]
    gaps = [result.relative_gap for result in results]
    assert steps == sorted(steps)
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 1e-5


@pytest.mark.parametrize("B", [1.01, 1.1, np.inf])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kernel", KERNELS)
def test_tight_tolerance_is_reached(kernel, seed, B):
    """Well-scaled problems allow ten digits; rounding must not be taken for a violation."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(100, 2)), rng.choice([-1.0, 1.0], size=100)
    problem = Problem(kernel_matrix(X, X, kernel), y, np.ones(100), B)
    result = solve(problem, tol=1e-10)
    assert result.status == "converged"
    low, high = bias_interval(problem.K, problem.pieces, result.dual_coef)
    assert low - high <= 2e-10
    assert result.relative_gap <= 1e-9


@pytest.mark.large
def test_progress_reports_and_stays_within_its_target():
    reports = []
    problem = make_problem("poly", 150, 100.0, 1.1, seed=1)
    result = solve(problem, tol=TOL, progress=reports.append)
    assert reports
    steps = [report.iteration for report in reports]
    assert steps == sorted(steps)
    assert all(report.target == TOL for report in reports)
    assert reports[-1].violation <= reports[0].violation
    assert result.violation <= TOL


@pytest.mark.large
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_interruption_leaves_the_inputs_alone(error):
    problem = make_problem("poly", 150, 100.0, 1.1, seed=1)
    start = solve(problem, tol=1e-1).dual_coef.copy()
    start_before, K_before = start.copy(), problem.K.copy()
    pieces = problem.pieces
    points_before = pieces.breakpoints.copy()

    def stop(report):
        raise error("stop")

    columns = KernelMatrix(problem.K)
    with pytest.raises(error):
        solve_margin(columns, pieces, tol=TOL, start=start, progress=stop)
    assert np.array_equal(start, start_before)
    assert np.array_equal(problem.K, K_before)
    assert np.array_equal(pieces.breakpoints, points_before)
    again = solve_margin(columns, pieces, tol=TOL, start=start)
    assert again.objective == pytest.approx(solve(problem, tol=TOL).objective, rel=1e-6)


def test_completed_solve_leaves_the_inputs_alone():
    problem = make_problem("rbf", 40, 1.0, 1.2)
    start = np.zeros(40)
    K = problem.K.copy()
    K.setflags(write=False)
    start.setflags(write=False)
    assert solve_matrix(K, problem.pieces, start=start).status == "converged"


# Precision and memory -------------------------------------------------------------------------


@pytest.mark.parametrize("B", [1.2, np.inf])
def test_single_precision_blocks(B):
    problem = make_problem("rbf", 200, 1.0, B, seed=10)
    pieces = problem.pieces
    exact = solve(problem, tol=1e-3)
    single = solve_matrix(problem.K.astype(np.float32), pieces, tol=1e-3)
    assert single.dual_coef.dtype == np.float64
    assert single.violation <= 1e-3
    low, high = bias_interval(problem.K, pieces, single.dual_coef)
    assert low - high <= 1e-3 + 1e-4
    assert single.objective == pytest.approx(exact.objective, rel=1e-3)


def test_memory_order_of_the_matrix_does_not_matter():
    problem = make_problem("poly", 60, 1.0, 1.3, seed=2)
    row_major = solve(problem, tol=1e-4)
    column_major = solve_matrix(np.asfortranarray(problem.K), problem.pieces, tol=1e-4)
    assert np.array_equal(row_major.dual_coef, column_major.dual_coef)


@pytest.mark.large
def test_repeated_runs_are_identical():
    problem = make_problem("poly", 120, 100.0, 1.1, seed=2)
    first, second = solve(problem), solve(problem)
    assert np.array_equal(first.dual_coef, second.dual_coef)
    assert first.bias == second.bias
    assert first.n_iter == second.n_iter


def test_result_cannot_be_changed():
    result = solve(make_problem("linear", 12, 1.0, 1.5))
    with pytest.raises(AttributeError):
        result.bias = 0.0
