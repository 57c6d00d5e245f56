"""The interior point method that takes over where pair steps crawl."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.interior_point import interior_point
from oblong.solvers.margin.problem import Pieces, relaxed_margin_pieces, svm_pieces
from oblong.solvers.margin.solver import solve_margin
from oblong.solvers.margin.universum import universum_pieces
from tests.reference.margin import solve_pieces
from tests.solvers.margin.problems import KERNELS, bias_interval, make_problem

TOL = 1e-5


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("B", [1.0, 1.05, 2.0, np.inf])
@pytest.mark.parametrize("kernel", KERNELS)
def test_reaches_the_optimum_whatever_the_penalty_and_the_bound(kernel, B, C):
    problem = make_problem(kernel, 60, C, B, seed=3)
    n = len(problem.y)
    found, _ = interior_point(problem.K, problem.pieces, np.zeros(n), np.zeros(n), TOL)
    p = problem.pieces.breakpoints
    assert np.all((p[:, 0] <= found) & (found <= p[:, 3]))
    assert abs(found.sum()) <= 1e-9 * max(1.0, np.abs(found).sum())
    low, high = bias_interval(problem.K, problem.pieces, found)
    # The coefficients are as large as C, and so is what rounding leaves of their products.
    assert low - high <= TOL + 1e-9 * np.abs(found).sum()


def test_agrees_with_a_general_solver():
    problem = make_problem("rbf", 40, 10.0, 1.3, seed=1)
    n = len(problem.y)
    found, _ = interior_point(problem.K, problem.pieces, np.zeros(n), np.zeros(n), 1e-8)
    reference = solve_pieces(problem.K, *problem.pieces)
    ours = problem.pieces.dual(found, problem.K @ found)
    assert ours == pytest.approx(reference.objective, rel=1e-6)


def test_terms_of_every_kind():
    """Soft bounds have ends on both sides; Universum points have no middle piece."""
    rng = np.random.default_rng(0)
    F = rng.normal(size=(50, 6))
    y = np.where(F[:30, 0] > 0, 1.0, -1.0)
    soft = relaxed_margin_pieces(y, np.full(30, 5.0), 1.2, np.full(30, 0.3))
    pieces = Pieces(*(np.concatenate(pair) for pair in zip(soft, universum_pieces(20, 0.7, 0.1))))
    K = F @ F.T
    found, _ = interior_point(K, pieces, np.zeros(50), np.zeros(50), TOL)
    low, high = bias_interval(K, pieces, found)
    assert low - high <= TOL


def test_a_block_keeps_the_sum_and_the_rest():
    """On a block, the coefficients outside stay, and those inside keep their sum."""
    problem = make_problem("rbf", 50, 3.0, 1.4, seed=2)
    start = solve_margin(KernelMatrix(problem.K), problem.pieces, tol=1e-1).dual_coef
    rows = np.arange(0, 50, 2)
    u = (problem.K @ start)[rows]
    part = problem.pieces.take(rows)
    block = problem.K[np.ix_(rows, rows)]
    found, _ = interior_point(block, part, start[rows], u, TOL)
    assert found.sum() == pytest.approx(start[rows].sum(), abs=1e-10)
    image = u + block @ (found - start[rows])
    right, left = part.slopes_at(found)
    assert (right - image).max() - (left - image).min() <= TOL


def test_indefinite_blocks_are_left_alone():
    K = np.diag([1.0, -1e3, 1.0, -1e3])
    pieces = make_problem("rbf", 4, 1.0, 1.2).pieces
    assert interior_point(K, pieces, np.zeros(4), np.zeros(4), TOL) is None


@pytest.mark.parametrize("rows", [60, 150])
def test_the_solver_takes_it_up_where_pair_steps_crawl(rows):
    """Penalties of a million and the tightest bound: without it, steps without end."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(rows, 4))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    pieces = relaxed_margin_pieces(y, np.full(rows, 1e6), 1.0, np.inf)
    K = (X @ X.T) ** 2
    found = solve_margin(KernelMatrix(K), pieces)
    assert found.status == "converged"
    assert found.relative_gap <= 1e-3
    assert found.n_iter < 100_000


@pytest.mark.large
def test_an_inner_point_is_kept_where_breakpoints_cannot_be_told():
    """Rounding of the outputs of a large matrix hides which coefficients are at their ends."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    y = np.where(rng.random(150) < 0.5, 1.0, -1.0)
    K = (5.0 * X @ X.T) ** 3
    pieces = svm_pieces(y, np.full(150, 1e7))
    found, on_breakpoints = interior_point(K, pieces, np.zeros(150), np.zeros(150), 1e-9)
    assert not on_breakpoints
    assert abs(found.sum()) <= 1e-11 * np.abs(found).sum()
    result = solve_margin(KernelMatrix(K), pieces)
    dual = pieces.dual(found, K @ found)
    assert dual == pytest.approx(result.dual_objective, rel=1e-2)
