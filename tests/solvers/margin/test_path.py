"""The path of bounds: every point certified, warm starts that pay, pieces that are straight."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.path import solve_relative_margin_path
from oblong.solvers.margin.problem import relative_margin_pieces, svm_pieces
from oblong.solvers.margin.relative import solve_relative_margin
from oblong.solvers.margin.solver import solve_margin
from tests.reference.margin import solve_primal
from tests.solvers.margin.problems import KERNELS, Problem, make_problem

SPREADS = (1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.0)


def _path(problem, spreads=SPREADS, **options):
    options = {"tol": 1e-7, **options}
    columns = KernelMatrix(problem.K)
    return solve_relative_margin_path(columns, problem.y, problem.C, spreads, **options)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("seed", range(3))
def test_every_point_is_the_optimum(kernel, C, seed):
    problem = make_problem(kernel, 30, C, np.inf, seed=seed)
    path = _path(problem)
    assert path.theta == np.abs(path.svm.outputs).max()
    for spread, B, margin in zip(SPREADS, path.B, path.margins):
        assert pytest.approx(max(1.0, 1.0 + spread * (path.theta - 1.0))) == B
        bound = np.inf if margin is path.svm else B
        reference = solve_primal(problem.K, problem.y, problem.C, bound)
        assert margin.status == "converged"
        assert margin.objective == pytest.approx(reference.objective, rel=2e-5)
        np.testing.assert_allclose(margin.image, reference.outputs - reference.bias, atol=2e-3)
        low, high = sorted(margin.bias_interval)
        assert low - 1e-4 <= reference.bias <= high + 1e-4
        assert -1e-9 <= margin.relative_gap <= 1e-5
        assert np.abs(margin.outputs).max() <= B + 1e-6


@pytest.mark.parametrize("kernel", KERNELS)
def test_order_of_the_spreads_does_not_matter(kernel):
    problem = make_problem(kernel, 40, 5.0, np.inf)
    shuffled = (0.1, 1.0, 0.0, 0.5, 0.1)
    one, other = _path(problem), _path(problem, shuffled)
    for spread, B, margin in zip(shuffled, other.B, other.margins):
        k = SPREADS.index(spread)
        assert pytest.approx(one.B[k], rel=1e-5) == B
        np.testing.assert_allclose(margin.outputs, one.margins[k].outputs, atol=1e-4)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize("C", [1.0, 30.0])
def test_coefficients_are_piecewise_linear_in_the_bound(kernel, C):
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


def test_bounds_beyond_the_outputs_give_the_support_vector_machine():
    problem = make_problem("rbf", 30, 1e-3, np.inf)
    path = _path(problem)
    assert path.theta < 1.0
    assert all(margin is path.svm for margin in path.margins)
    assert (path.B == 1.0).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_start_from_solutions_of_fewer_rows_leads_to_the_same_place(kernel):
    problem = make_problem(kernel, 60, 5.0, np.inf)
    starts = np.zeros((2, 60))
    for part in (slice(0, None, 2), slice(1, None, 2)):
        own = Problem(problem.K[part, part], problem.y[part], problem.C[part], np.inf)
        few = _path(own, spreads=(0.1,))
        starts[0, part], starts[1, part] = few.svm.dual_coef, few.margins[0].dual_coef
    before = starts.copy()
    columns, how = KernelMatrix(problem.K), {"spread": 0.1, "tol": 1e-7}
    cold = solve_relative_margin(columns, problem.y, problem.C, **how)
    warm = solve_relative_margin(columns, problem.y, problem.C, **how, starts=starts)
    assert np.array_equal(starts, before)
    assert warm.margin.objective == pytest.approx(cold.margin.objective, rel=1e-6)
    np.testing.assert_allclose(warm.margin.outputs, cold.margin.outputs, atol=1e-4)
    path = _path(problem, spreads=(0.1,))
    again = solve_relative_margin(
        columns, problem.y, problem.C, **how,
        starts=np.array([path.svm.dual_coef, path.margins[0].dual_coef]),
    )  # fmt: skip
    assert again.n_iter <= 0.1 * cold.n_iter


def test_limit_on_the_steps_holds_for_each_problem():
    problem = make_problem("rbf", 60, 10.0, np.inf)
    path = _path(problem, max_iter=5)
    assert {margin.n_iter for margin in path.margins} <= set(range(6))
    assert "max_iter" in {margin.status for margin in path.margins}
    assert path.n_iter <= 5 * (len(SPREADS) + 1)


def test_arguments_are_left_alone_and_progress_is_told():
    problem = make_problem("rbf", 40, 1.0, np.inf)
    K, y, C = problem.K.copy(), problem.y.copy(), problem.C.copy()
    stages = set()
    _path(problem, progress=lambda report: stages.add(report.stage))
    assert stages == {"svm", "relative margin"}
    assert np.array_equal(problem.K, K)
    assert np.array_equal(problem.y, y)
    assert np.array_equal(problem.C, C)


def test_two_rows():
    K, y = np.eye(2), np.array([1.0, -1.0])
    path = solve_relative_margin_path(KernelMatrix(K), y, np.full(2, 10.0), (1.0, 0.0))
    assert path.theta == pytest.approx(1.0)
    expected = solve_margin(KernelMatrix(K), svm_pieces(y, np.full(2, 10.0)))
    np.testing.assert_allclose(path.margins[1].dual_coef, expected.dual_coef)
