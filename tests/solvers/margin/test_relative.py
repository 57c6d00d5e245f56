"""The relative margin machine, for one bound and along a path of bounds."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.kernels import Kernel
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.problem import relative_margin_pieces, svm_pieces
from oblong.solvers.margin.relative import solve_relative_margin, solve_relative_margin_path
from oblong.solvers.margin.solver import solve_margin
from tests.reference.margin import solve_primal
from tests.solvers.margin.problems import KERNELS, make_problem

SPREADS = (1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.0)


def _path(problem, spreads=SPREADS, **options):
    options = {"tol": 1e-7, **options}
    columns = KernelMatrix(problem.K)
    return solve_relative_margin_path(columns, problem.y, problem.C, spreads, **options)


def _one(problem, **options):
    columns = KernelMatrix(problem.K)
    return solve_relative_margin(columns, problem.y, problem.C, **options)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("B", [1.0, 1.3, np.inf])
def test_solve_relative_margin__a_given_bound_is_absolute(kernel, B):
    problem = make_problem(kernel, 40, 3.0, B, seed=1)
    found = _one(problem, B=B, tol=1e-7)
    assert found.B == B
    assert np.isnan(found.theta)
    assert found.n_iter == found.margin.n_iter > 0
    assert np.abs(found.outputs).max() <= B * (1 + 1e-12)
    expected = solve_primal(*problem)
    assert found.margin.objective == pytest.approx(expected.objective, rel=1e-6)
    np.testing.assert_allclose(found.outputs, expected.outputs, atol=1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("spread", [0.0, 0.3, 0.9999, 1.0])
def test_solve_relative_margin__a_spread_is_relative_to_the_machine(kernel, spread):
    problem = make_problem(kernel, 40, 3.0, np.inf, seed=2)
    found = _one(problem, spread=spread, tol=1e-7)
    svm = solve_margin(KernelMatrix(problem.K), problem.pieces, tol=1e-9)
    theta = np.abs(svm.outputs).max()
    assert found.theta == pytest.approx(theta, rel=1e-5)
    assert pytest.approx(1.0 + spread * (found.theta - 1.0)) == found.B
    assert found.n_iter >= found.margin.n_iter
    optimum = solve_primal(problem.K, problem.y, problem.C, found.B).objective
    assert found.margin.objective == pytest.approx(optimum, rel=1e-5)
    assert np.abs(found.outputs).max() <= found.B + 1e-6


@pytest.mark.parametrize("rows", [1024, 1025, 1400])
@pytest.mark.parametrize("spread", [0.05, 0.5])
def test_solve_relative_margin__precision_changes_nothing(rows, spread):
    """On both sides of the number of rows up to which matrices are in double precision."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 3))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=rows) > 0.3, 1.0, -1.0)
    kernel = Kernel("rbf", 0.4)
    found = solve_relative_margin(KernelMatrix.of_rows(kernel, X), y, np.ones(rows), spread=spread)
    exact = solve_relative_margin(
        KernelMatrix(kernel(X)), y, np.ones(rows), spread=spread, tol=1e-6
    )
    assert found.theta == pytest.approx(exact.theta, abs=2e-3)
    assert found.margin.status == "converged"
    assert found.margin.relative_gap <= 1e-3
    assert found.margin.objective == pytest.approx(exact.margin.objective, rel=2e-3)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("seed", range(2))
def test_solve_relative_margin_path__every_point_is_the_optimum(kernel, C, seed):
    problem = make_problem(kernel, 30, C, np.inf, seed=seed)
    path = _path(problem)
    assert path.theta == pytest.approx(np.abs(path.svm.outputs).max(), rel=1e-12)
    for spread, B, margin in zip(SPREADS, path.B, path.margins):
        assert pytest.approx(max(1.0, 1.0 + spread * (path.theta - 1.0))) == B
        bound = np.inf if path.theta <= B else B
        reference = solve_primal(problem.K, problem.y, problem.C, bound)
        assert margin.status == "converged"
        assert margin.objective == pytest.approx(reference.objective, rel=2e-5)
        np.testing.assert_allclose(margin.image, reference.outputs - reference.bias, atol=2e-3)
        low, high = sorted(margin.bias_interval)
        assert low - 1e-4 <= reference.bias <= high + 1e-4
        assert -1e-9 <= margin.relative_gap <= 1e-5
        assert np.abs(margin.outputs).max() <= max(B, path.theta if spread == 1 else 0) + 1e-6


@pytest.mark.parametrize("kernel", KERNELS)
def test_solve_relative_margin_path__points_are_those_of_single_bounds(kernel):
    problem = make_problem(kernel, 40, 5.0, np.inf, seed=3)
    path = _path(problem)
    for spread, B, margin in zip(SPREADS, path.B, path.margins):
        one = _one(problem, spread=spread, tol=1e-7)
        assert pytest.approx(one.B, rel=1e-6) == B
        np.testing.assert_allclose(margin.outputs, one.outputs, atol=1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_solve_relative_margin_path__the_order_of_spreads_does_not_matter(kernel):
    problem = make_problem(kernel, 40, 5.0, np.inf)
    shuffled = (0.1, 1.0, 0.0, 0.5, 0.1)
    one, other = _path(problem), _path(problem, shuffled)
    for spread, B, margin in zip(shuffled, other.B, other.margins):
        k = SPREADS.index(spread)
        assert pytest.approx(one.B[k], rel=1e-5) == B
        np.testing.assert_allclose(margin.outputs, one.margins[k].outputs, atol=1e-4)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize("C", [1.0, 30.0])
def test_solve_relative_margin_path__coefficients_are_piecewise_linear_in_the_bound(kernel, C):
    """Between bounds so close that no row changes its piece, c(B) is on a straight line."""
    problem = make_problem(kernel, 40, C, np.inf)
    columns = KernelMatrix(problem.K)

    def at(B):
        pieces = relative_margin_pieces(problem.y, problem.C, B)
        return solve_margin(columns, pieces, tol=1e-10)

    theta = _path(problem).theta
    straight = 0
    for B in 1.0 + np.linspace(0.05, 0.9, 12) * (theta - 1.0):
        step = 1e-3 * (theta - 1.0)
        low, middle, high = at(B - step), at(B), at(B + step)
        sides = [np.sign(m.dual_coef * (np.abs(m.dual_coef) > 1e-9)) for m in (low, middle, high)]
        inside = [np.abs(np.abs(m.dual_coef) - C) > 1e-9 for m in (low, middle, high)]
        if all((s == sides[0]).all() for s in sides) and all(
            (i == inside[0]).all() for i in inside
        ):
            straight += 1
            change = np.abs(high.dual_coef - low.dual_coef).max()
            bend = np.abs(middle.dual_coef - 0.5 * (low.dual_coef + high.dual_coef)).max()
            assert change > 1e-6
            assert bend <= 1e-4 * change + 1e-9
    assert straight >= 4


def test_solve_relative_margin_path__bounds_beyond_the_outputs_give_the_machine():
    problem = make_problem("rbf", 30, 1e-3, np.inf)
    path = _path(problem)
    assert path.theta < 1.0
    assert (path.B == 1.0).all()
    for margin in path.margins:
        np.testing.assert_array_equal(margin.coef, path.svm.coef)
        assert margin.bias == path.svm.bias
        assert margin.objective == path.svm.objective


def test_solve_relative_margin_path__warm_starts_pay():
    problem = make_problem("rbf", 150, 10.0, np.inf)
    cold = sum(_one(problem, spread=spread, tol=1e-5).n_iter for spread in SPREADS)
    assert _path(problem, tol=1e-5).n_iter < cold


def test_solve_relative_margin_path__the_limit_holds_for_each_problem():
    problem = make_problem("rbf", 60, 10.0, np.inf)
    path = _path(problem, max_iter=5)
    assert {margin.n_iter for margin in path.margins} <= set(range(6))
    assert "max_iter" in {margin.status for margin in path.margins}
    assert path.n_iter <= 5 * (len(SPREADS) + 1)


def test_solve_relative_margin_path__arguments_are_left_alone_and_progress_is_told():
    problem = make_problem("rbf", 40, 1.0, np.inf)
    K, y, C = problem.K.copy(), problem.y.copy(), problem.C.copy()
    stages = set()
    _path(problem, progress=lambda report: stages.add(report.stage))
    assert stages == {"relative margin"}
    assert np.array_equal(problem.K, K)
    assert np.array_equal(problem.y, y)
    assert np.array_equal(problem.C, C)


def test_solve_relative_margin_path__two_rows():
    K, y = np.eye(2), np.array([1.0, -1.0])
    path = solve_relative_margin_path(KernelMatrix(K), y, np.full(2, 10.0), (1.0, 0.0))
    assert path.theta == pytest.approx(1.0)
    expected = solve_margin(KernelMatrix(K), svm_pieces(y, np.full(2, 10.0)))
    np.testing.assert_allclose(path.margins[1].dual_coef, expected.dual_coef, atol=1e-9)
