"""Grids of penalties and spreads: the solutions of problems that were solved one at a time."""

from __future__ import annotations

import numpy as np
import pytest

import oblong.solvers.margin.grid as grids
from oblong.solvers.margin.grid import solve_margin_grid
from oblong.solvers.margin.options import MarginOptions
from oblong.solvers.margin.problem import relative_margin_pieces, svm_pieces
from oblong.solvers.margin.small import SharedColumns
from oblong.solvers.margin.solver import solve_margin
from tests.reference.margin import solve_primal
from tests.solvers.margin.problems import KERNELS, bias_interval, make_problem

CS = np.array([0.01, 0.1, 1.0, 10.0, 1000.0])
SPREADS = np.array([0.25, 1.0, 0.05, 0.0])
TOL = 1e-6


def _solve(problem, Cs=CS, spreads=SPREADS, **options):
    columns = SharedColumns(problem.K)
    options = {"tol": TOL, **options}
    return solve_margin_grid(columns, problem.y, problem.C, Cs, spreads, **options)


def _thetas(problem, Cs):
    for C in Cs:
        svm = solve_margin(SharedColumns(problem.K), svm_pieces(problem.y, C * problem.C), tol=1e-9)
        yield float(np.abs(svm.outputs).max())


def _pieces(problem, C, theta, spread):
    B = max(1.0, 1.0 + spread * (theta - 1.0))
    if theta <= B:
        return svm_pieces(problem.y, C * problem.C), np.inf
    return relative_margin_pieces(problem.y, C * problem.C, B), B


def _check(problem, grid, Cs=CS, spreads=SPREADS, violation=TOL):
    """Every problem of the grid is solved, by the coefficients and bias that are said to."""
    assert grid.which.shape == (len(Cs), len(spreads))
    for a, theta in enumerate(_thetas(problem, Cs)):
        for k, spread in enumerate(spreads):
            pieces, B = _pieces(problem, Cs[a], theta, spread)
            place = grid.which[a, k]
            c = grid.coefs[place]
            assert abs(c.sum()) <= 1e-9 * max(1.0, np.abs(c).max())
            exact = solve_margin(SharedColumns(problem.K), pieces, tol=1e-9)
            outputs = problem.K @ c + grid.biases[place]
            # The bound hangs on the outputs of a machine that is solved to a tolerance.
            np.testing.assert_allclose(outputs - grid.biases[place], exact.image, atol=2e-3)
            assert grid.largest[place] == pytest.approx(np.abs(outputs).max(), rel=1e-9)
            assert np.abs(outputs).max() <= B + 1e-3
            low, high = sorted(exact.bias_interval)
            assert low - 1e-2 <= grid.biases[place] <= high + 1e-2


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("seed", range(3))
def test_every_problem_is_solved(kernel, seed):
    problem = make_problem(kernel, 40, 1.0, np.inf, seed=seed)
    grid = _solve(problem, CS[:4])
    assert np.isnan(grid.gap)
    assert grid.n_iter > 0
    _check(problem, grid, CS[:4])


@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_an_independent_solver(seed):
    problem = make_problem("rbf", 25, 1.0, np.inf, seed=seed)
    grid = _solve(problem, np.array([0.5, 5.0]), np.array([0.2]), tol=1e-8)
    for a, C in enumerate((0.5, 5.0)):
        theta = np.abs(solve_primal(problem.K, problem.y, C * problem.C, np.inf).outputs).max()
        bound = 1.0 + 0.2 * (theta - 1.0) if theta > 1.0 else np.inf
        reference = solve_primal(problem.K, problem.y, C * problem.C, bound)
        image = problem.K @ grid.coefs[grid.which[a, 0]]
        np.testing.assert_allclose(image, reference.outputs - reference.bias, atol=3e-3)


def test_violations_are_below_the_tolerance():
    problem = make_problem("rbf", 60, 1.0, np.inf, seed=4)
    grid = _solve(problem, np.array([1.0, 30.0]), np.array([1.0]), tol=1e-4)
    for a, C in enumerate((1.0, 30.0)):
        pieces = svm_pieces(problem.y, C * problem.C)
        low, high = bias_interval(problem.K, pieces, grid.coefs[grid.which[a, 0]])
        assert low - high <= 1e-4
        assert grid.biases[grid.which[a, 0]] == pytest.approx(0.5 * (low + high), abs=1e-9)


def test_solutions_are_shared_where_problems_are_the_same():
    """Beyond the largest coefficient the penalty changes nothing; a wide bound is none."""
    problem = make_problem("rbf", 30, 1.0, np.inf, d=10)
    grid = _solve(problem, np.array([1e4, 1e5]))
    np.testing.assert_array_equal(grid.which[0], grid.which[1])
    small = _solve(problem, np.array([1e-4]))
    assert len(small.coefs) == 1
    np.testing.assert_array_equal(small.which, 0)
    _check(problem, small, np.array([1e-4]))


@pytest.mark.large
@pytest.mark.parametrize("after", [0, 1])
def test_with_the_inverse_of_the_matrix(after):
    """Problems left to Newton steps, and those after the matrix has been inverted."""
    problem = make_problem("rbf", 150, 1.0, np.inf, d=6, seed=5)
    problem = problem._replace(K=problem.K + 0.01 * np.eye(150))
    options = MarginOptions(inverted_after=after)
    columns = SharedColumns(problem.K)
    if after == 0:
        columns.invert()
        assert columns.inverse is not None
    Cs = np.array([1.0, 100.0])
    grid = solve_margin_grid(columns, problem.y, problem.C, Cs, SPREADS, tol=1e-8, options=options)
    assert np.isnan(grid.gap)
    _check(problem, grid, Cs)


def test_limit_on_the_steps():
    problem = make_problem("rbf", 60, 1.0, np.inf)
    grid = _solve(problem, max_iter=3)
    assert grid.n_iter <= 3 * CS.size * (SPREADS.size + 1)
    assert grid.gap > 0.0
    assert np.isfinite(grid.coefs).all()


def test_rounding_that_pair_steps_do_not_see(monkeypatch):
    """What a fresh product calls unsolved is solved again."""
    problem = make_problem("rbf", 40, 1.0, np.inf)
    certify = grids.certify

    def doubtful(*arguments):
        certify(*arguments)
        arguments[-1][::2, 0] = 1.0

    expected = _solve(problem)
    monkeypatch.setattr(grids, "certify", doubtful)
    again = _solve(problem)
    np.testing.assert_array_equal(again.which, expected.which)
    np.testing.assert_allclose(again.coefs @ problem.K, expected.coefs @ problem.K, atol=1e-4)
    np.testing.assert_allclose(again.biases, expected.biases, atol=1e-4)


def test_indefinite_matrices_are_found_out():
    problem = make_problem("rbf", 40, 1.0, np.inf)
    v = np.random.default_rng(0).normal(size=40)
    problem = problem._replace(K=problem.K - 5.0 * np.outer(v, v) / (v @ v))
    with pytest.raises(ValueError, match="not positive semidefinite"):
        _solve(problem)


def test_weights_of_the_rows():
    problem = make_problem("rbf", 40, 1.0, np.inf)
    weights = np.random.default_rng(0).uniform(0.1, 3.0, 40)
    problem = problem._replace(C=weights)
    _check(problem, _solve(problem, CS[1:4]), CS[1:4])
