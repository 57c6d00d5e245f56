"""The parts of the margin solver: Newton steps, interior point, terms of a grid, certificates."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.linalg.columns import ExplicitColumns
from oblong.solvers.margin.block import DenseBlock
from oblong.solvers.margin.grid_loops import note_theta, write_terms
from oblong.solvers.margin.interior_point import interior_point
from oblong.solvers.margin.newton import newton_steps
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.problem import relative_margin_pieces, svm_pieces
from oblong.solvers.margin.result import certify, expand
from oblong.solvers.margin.svm import solve_svm
from tests.solvers.margin.problems import KERNELS, make_problem, solve


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("B", [np.inf, 1.3])
def test_interior_point_finds_the_solution(kernel, B):
    problem = make_problem(kernel, 50, 10.0, B, seed=2)
    found = interior_point(problem.K, problem.pieces, np.zeros(50), np.zeros(50), 1e-9)
    wanted = solve(problem, tol=1e-9)
    assert abs(found.sum()) <= 1e-9 * np.abs(found).sum()
    value = problem.pieces.dual(found, problem.K @ found)
    assert value == pytest.approx(wanted.dual_objective, rel=1e-8)


def test_one_newton_step_finds_the_optimum_of_free_coefficients():
    """Far from all breakpoints the dual is a quadratic with one constraint."""
    problem = make_problem("rbf", 20, 1e6, np.inf, seed=1)
    K = problem.K + np.eye(20)
    c = 0.5 * problem.y
    u, right, left = K @ c, *problem.pieces.slopes_at(c)
    np.testing.assert_array_equal(right, left)
    options = MarginOptions(newton_most=1)
    steps = newton_steps(DenseBlock(K), problem.pieces, c, u, right, left, 0.0, options)
    assert steps == 1
    # Where no coefficient met zero, y - Kc is the same for all rows.
    system = np.block([[K, np.ones((20, 1))], [np.ones((1, 20)), np.zeros((1, 1))]])
    exact = np.linalg.solve(system, np.append(problem.y, 0.0))[:20]
    if np.all(problem.y * exact > 0):
        np.testing.assert_allclose(c, exact, rtol=1e-6)
    assert problem.pieces.dual(c, K @ c) > problem.pieces.dual(
        0.5 * problem.y, K @ (0.5 * problem.y)
    )
    np.testing.assert_allclose(u, K @ c, rtol=1e-9)


def test_terms_of_a_grid_are_those_of_its_problems():
    rng = np.random.default_rng(0)
    y, v = np.where(rng.random(9) < 0.5, 1.0, -1.0), rng.uniform(0.5, 2.0, 9)
    Cs, spreads = np.array([0.1, 5.0]), np.array([1.0, 0.4, 0.0])
    images = rng.normal(size=(8, 9))
    grid = (
        y, v, Cs, spreads, np.zeros(2), np.zeros((8, 9)), images, np.zeros(8, dtype=bool),
        np.arange(8), np.empty((9, 4)), np.empty((9, 3)),
    )  # fmt: skip
    thetas, p, s = grid[4], grid[-2], grid[-1]
    for place in (0, 4):
        note_theta(*grid, place, 0.3)
    np.testing.assert_allclose(thetas, np.abs(images[[0, 4]] + 0.3).max(axis=1))
    thetas[:] = 3.0
    for place in range(8):
        a, k = divmod(place, 4)
        bound = 3.0 if k == 0 else 1.0 + spreads[k - 1] * 2.0
        # A bound that the support vector machine keeps is none.
        bounded = k > 0 and bound < 3.0
        assert write_terms(*grid, place) == bounded
        wanted = (
            relative_margin_pieces(y, Cs[a] * v, bound) if bounded else svm_pieces(y, Cs[a] * v)
        )
        np.testing.assert_allclose(p, wanted.breakpoints)
        np.testing.assert_allclose(s, wanted.slopes)


@pytest.mark.parametrize("B", [np.inf, 1.2])
def test_certificate_of_any_dual_point(B):
    problem = make_problem("rbf", 40, 5.0, B, seed=4)
    columns, best = ExplicitColumns(problem.K), solve(problem, tol=1e-9)
    c = 0.7 * best.dual_coef
    expansion = expand(columns, problem.pieces, c, problem.K @ c, 0.1)
    np.testing.assert_allclose(expansion.image, problem.K @ c, rtol=1e-12)
    assert expansion.norm == pytest.approx(c @ problem.K @ c)
    right, left = problem.pieces.slopes_at(c)
    interval = (float((right - expansion.image).max()), float((left - expansion.image).min()))
    found = certify(
        problem.pieces, c, expansion, interval, (1, 2, 3), "max_iter", DEFAULTS.largest_gap
    )
    assert (found.n_iter, found.n_newton, found.n_rounds) == (1, 2, 3)
    outputs = problem.K @ found.coef + found.bias
    np.testing.assert_allclose(found.outputs, outputs, atol=1e-9)
    if np.isfinite(B):
        assert np.abs(outputs).max() <= B * (1 + 1e-9)
    value = 0.5 * found.coef @ problem.K @ found.coef
    value += problem.C @ np.maximum(1.0 - problem.y * outputs, 0.0)
    assert found.objective == pytest.approx(value, rel=1e-9)
    assert found.dual_objective <= best.objective <= found.objective
    assert best.objective - found.dual_objective <= found.gap
    assert found.relative_gap > 1e-3


@pytest.mark.parametrize("kernel", KERNELS)
def test_support_vector_machine(kernel):
    problem = make_problem(kernel, 60, 1.0, np.inf, seed=3)
    svm = pytest.importorskip("sklearn.svm")
    peer = svm.SVC(kernel="precomputed", C=1.0, tol=1e-8)
    peer.fit(problem.K, problem.y, sample_weight=problem.C)
    found = solve_svm(ExplicitColumns(problem.K), problem.y, problem.C, tol=1e-8)
    np.testing.assert_allclose(found.outputs, peer.decision_function(problem.K), atol=1e-5)
