"""The margin solver against an independent interior-point reference."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from oblong.solvers.margin.problem import Pieces
from tests.reference.margin import (
    kernel_matrix,
    piece_values,
    slope_interval,
    solve_dual,
    solve_pieces,
    solve_primal,
)
from tests.solvers.margin.problems import (
    KERNELS,
    TOL,
    Problem,
    bias_interval,
    dual_value,
    make_problem,
    primal_value,
    solve,
    solve_matrix,
)

PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
BOUNDS = (1.01, 1.1, 1.5, 2.0, 5.0, np.inf)
SIZES = (2, 12, 40, 80, 150)
SHAPES = (
    {"positive": 0.5},
    {"positive": 0.1},
    {"positive": 0.9},
    {"positive": 0.5, "conflicts": True},
)


def _grid():
    """Yield every (kernel, C, B) twice, with sizes and class shapes rotating underneath."""
    triples = list(itertools.product(KERNELS, PENALTIES, BOUNDS))
    for copy in range(2):
        for index, (kernel, C, B) in enumerate(triples):
            turn = index + 7 * copy
            # Coprime lengths of the two cycles: every size meets every shape.
            n, shape = SIZES[turn % len(SIZES)], turn % len(SHAPES)
            yield pytest.param(kernel, C, B, n, shape, id=f"{kernel}-C{C:g}-B{B:g}-n{n}-{shape}")


@pytest.mark.parametrize(("kernel", "C", "B", "n", "shape"), list(_grid()))
def test_agrees_with_the_reference(kernel, C, B, n, shape):
    problem = make_problem(kernel, n, C, B, seed=n, **SHAPES[shape])
    result = solve(problem, tol=TOL)
    reference = solve_primal(*problem)

    assert result.violation <= TOL
    assert result.objective == pytest.approx(reference.objective, rel=2e-5, abs=1e-12)
    assert result.dual_objective == pytest.approx(reference.objective, rel=2e-5, abs=1e-12)

    low, high = result.bias_interval
    assert min(low, high) - 1e-5 <= reference.bias <= max(low, high) + 1e-5
    assert result.bias == pytest.approx((low + high) / 2)
    assert abs(result.dual_coef.sum()) <= 1e-12 * C * n
    assert _no_residue(result.dual_coef, problem.pieces)

    assert 0.0 <= result.rounding <= 1e-8 * abs(result.objective)
    assert result.gap >= result.objective - result.dual_objective
    assert result.gap <= max(0.0, result.objective - result.dual_objective) + result.rounding
    if C <= 10:
        assert result.relative_gap <= 10 * TOL


def _no_residue(c, pieces):
    """Say whether every coefficient is on a breakpoint or clearly off it.

    A residue of rounding beside a breakpoint would pose as a free coefficient and pin the bias to
    one end of its interval.
    """
    points = pieces.breakpoints[:, 1:3]
    distance = np.abs(c[:, None] - points)
    return np.all((distance == 0) | (distance > 1e-14 * np.ptp(points, axis=1, keepdims=True)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("B", [1.0, 1.2, np.inf])
@pytest.mark.parametrize("kernel", KERNELS)
def test_result_is_consistent_with_its_coefficients(kernel, B, seed):
    problem = make_problem(kernel, 40, 3.0, B, seed=seed, conflicts=seed % 2 == 1)
    result = solve(problem, tol=TOL)

    low, high = bias_interval(problem.K, problem.pieces, result.dual_coef)
    assert low - high <= TOL
    # The recomputation differs from the solver's own u by rounding only.
    scale = 1e-10 * np.abs(problem.K).sum(axis=1).max() * problem.C.max()
    assert result.bias_interval == pytest.approx((low, high), abs=scale)
    assert result.violation == pytest.approx(low - high, abs=scale)

    f = problem.K @ result.dual_coef + result.bias
    right, left = slope_interval(
        result.dual_coef, problem.pieces.breakpoints, problem.pieces.slopes
    )
    assert np.all(right - TOL <= f)
    assert np.all(f <= left + TOL)
    assert result.outputs == pytest.approx(f, abs=scale)
    assert result.dual_objective == pytest.approx(
        dual_value(problem.K, problem.pieces, result.dual_coef), rel=1e-9
    )
    assert result.objective == pytest.approx(
        primal_value(problem, result.dual_coef, result.bias), rel=1e-9
    )


@pytest.mark.parametrize("B", [1.0, 1.1, 1.6])
@pytest.mark.parametrize("kernel", KERNELS)
def test_multipliers_are_complementary(kernel, B):
    """α, λ and λ* read off the signed coefficients satisfy the paper's optimality conditions."""
    problem = make_problem(kernel, 60, 5.0, B, seed=3, conflicts=True)
    result = solve(problem, tol=TOL)
    y, C, f = problem.y, problem.C, result.outputs
    alpha = np.clip(y * result.dual_coef, 0, C)
    rest = result.dual_coef - alpha * y
    upper, lower = np.maximum(-rest, 0), np.maximum(rest, 0)

    assert np.all(np.abs(f) <= B + TOL)
    assert np.all(np.minimum(upper, lower) == 0)
    assert np.abs(f[upper > 0] - B).max(initial=0) <= TOL
    assert np.abs(f[lower > 0] + B).max(initial=0) <= TOL
    slack = np.maximum(1 - y * f, 0)
    assert np.all(slack[alpha < C] <= TOL)
    assert np.all((y * f)[alpha > 0] <= 1 + TOL)
    assert (upper + lower).max() > 0, "no output is bounded: the test would see nothing"
    value = alpha.sum() - B * (upper + lower).sum()
    value -= result.dual_coef @ problem.K @ result.dual_coef / 2
    assert value == pytest.approx(result.dual_objective, rel=1e-9)


def test_reference_primal_and_dual_agree():
    """Guards the reference itself: three statements of one problem have one value."""
    for kernel, B in itertools.product(KERNELS, (1.1, np.inf)):
        problem = make_problem(kernel, 40, 10.0, B, seed=5)
        value = solve_primal(*problem).objective
        assert solve_dual(*problem).objective == pytest.approx(value, rel=1e-8)
        pieces = problem.pieces
        unified = solve_pieces(problem.K, pieces.breakpoints, pieces.slopes).objective
        assert unified == pytest.approx(value, rel=1e-8)


@pytest.mark.parametrize(
    ("n", "kernel", "B"), [(80, "poly", 1.01), (150, "poly", 1.5), (150, "linear", 1.01)]
)
def test_large_penalties_finish_in_few_steps(n, kernel, B):
    """Plain pairwise steps need 10⁶ to 10⁷ here; the Newton steps must bring that to 10⁵."""
    problem = make_problem(kernel, n, 1000.0, B, seed=n)
    result = solve(problem, tol=TOL, max_iter=500_000)
    assert result.violation <= TOL
    assert result.n_iter <= 200_000
    assert result.objective == pytest.approx(solve_primal(*problem).objective, rel=2e-5)


@pytest.mark.parametrize("B", [2.0, np.inf])
def test_features_in_large_units_finish_in_few_steps(B):
    """More rows are free than the matrix has ranks: a few Newton steps in a row led nowhere."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=60) > 0, 1.0, -1.0)
    result = solve(Problem(1e8 * X @ X.T, y, np.ones(60), B), tol=1e-3, max_iter=100_000)
    assert result.status == "converged"
    assert result.n_iter <= 10_000
    # Penalties that hardly matter: in units of one the machine is that of a much smaller C.
    small = solve(Problem(X @ X.T, y, np.full(60, 1e4), B), tol=1e-6)
    assert result.outputs == pytest.approx(small.outputs, abs=5e-3)


@pytest.mark.parametrize("B", [1.2, np.inf])
def test_per_sample_penalties(B):
    rng = np.random.default_rng(8)
    problem = make_problem("rbf", 50, 1.0, B, seed=8)
    problem = problem._replace(C=rng.uniform(0.05, 5.0, size=50))
    result = solve(problem, tol=TOL)
    reference = solve_primal(*problem)
    assert result.objective == pytest.approx(reference.objective, rel=1e-6)
    assert result.outputs == pytest.approx(reference.outputs, abs=1e-5)


def test_bound_beyond_the_largest_output_changes_nothing():
    free = make_problem("rbf", 60, 2.0, np.inf, seed=2)
    plain = solve(free, tol=TOL)
    theta = np.abs(plain.outputs).max()
    bounded = solve(free._replace(B=1.001 * theta), tol=TOL)
    assert bounded.outputs == pytest.approx(plain.outputs, abs=1e-5)
    tight = solve(free._replace(B=0.9 * theta), tol=TOL)
    assert tight.objective > plain.objective * (1 + 1e-6)


def _random_pieces(rng: np.random.Generator, n: int) -> Pieces:
    """Concave functions of one to three pieces with 0 inside, some ends infinite."""
    points = np.sort(rng.uniform(-2, 2, size=(n, 4)), axis=1)
    points[:, 0], points[:, 3] = np.minimum(points[:, 0], 0), np.maximum(points[:, 3], 0)
    slopes = -np.sort(-rng.normal(size=(n, 3)), axis=1)
    slopes[:, 0], slopes[:, 2] = slopes[:, 0] + 1.0, slopes[:, 2] - 1.0
    for row, kind in enumerate(rng.integers(5, size=n)):
        if kind == 0:  # no limit, as a hard bound on the output has
            points[row, 0], points[row, 3] = -np.inf, np.inf
            slopes[row, 0], slopes[row, 2] = max(slopes[row, 0], 1), min(slopes[row, 2], -1)
        elif kind == 1:  # a box
            points[row, 1], points[row, 2] = points[row, 0], points[row, 3]
        elif kind == 2:  # two pieces
            points[row, 1] = points[row, 2]
        elif kind == 3:  # fixed at zero
            points[row] = 0.0
    return Pieces(points, slopes)


@pytest.mark.parametrize("seed", range(12))
def test_general_concave_pieces(seed):
    rng = np.random.default_rng(seed)
    n = 30
    X = rng.normal(size=(n, 3))
    K = kernel_matrix(X, X, KERNELS[seed % 3])
    pieces = _random_pieces(rng, n)
    _check_pieces(K, pieces)


@pytest.mark.parametrize("t", [1.0, 1.3])
@pytest.mark.parametrize("cap", [0.05, 2.0])
@pytest.mark.parametrize("kernel", KERNELS)
def test_bounds_with_capped_multipliers(kernel, t, cap):
    """Outputs beyond t cost ``cap`` each instead of being forbidden."""
    K, y, C, _ = make_problem(kernel, 40, 1.0, t, seed=11)
    up = np.array([-cap, 0.0, 1.0, 1.0 + cap])
    points = np.where(y[:, None] > 0, up, -up[::-1])
    slopes = np.column_stack([np.full(40, t), y, np.full(40, -t)])
    result = _check_pieces(K, Pieces(points, slopes))

    f = result.outputs
    cost = C @ np.maximum(1 - y * f, 0) + cap * np.maximum(np.abs(f) - t, 0).sum()
    value = cost + result.dual_coef @ K @ result.dual_coef / 2
    assert value == pytest.approx(result.dual_objective, rel=1e-5)


def test_universum_rows():
    """Unlabelled rows that cost |f| − ε each enter with two pieces and no label."""
    K, y, *_ = make_problem("rbf", 60, 1.0, np.inf, seed=12)
    epsilon, cost, extra = 0.1, 0.5, np.arange(60) >= 40
    box = np.where(y[:, None] > 0, [[0.0, 0.0, 1.0, 1.0]], [[-1.0, -1.0, 0.0, 0.0]])
    points = np.where(extra[:, None], [[-cost, 0.0, 0.0, cost]], box)
    slopes = np.column_stack([np.where(extra, epsilon, y)] * 3)
    slopes[extra, 2] = -epsilon
    slopes[extra, 1] = 0.0
    result = _check_pieces(K, Pieces(points, slopes))

    f = result.outputs
    value = np.maximum(1 - (y * f)[~extra], 0).sum()
    value += cost * np.maximum(np.abs(f[extra]) - epsilon, 0).sum()
    value += result.dual_coef @ K @ result.dual_coef / 2
    assert value == pytest.approx(result.dual_objective, rel=1e-5)


def _check_pieces(K, pieces):
    result = solve_matrix(K, pieces, tol=TOL)
    reference = solve_pieces(K, pieces.breakpoints, pieces.slopes)
    assert result.violation <= TOL
    assert np.all(result.dual_coef >= pieces.breakpoints[:, 0])
    assert np.all(result.dual_coef <= pieces.breakpoints[:, 3])
    assert abs(result.dual_coef.sum()) <= 1e-10
    ours = (
        piece_values(result.dual_coef, *pieces[:2]).sum()
        - result.dual_coef @ K @ result.dual_coef / 2
    )
    assert ours == pytest.approx(reference.objective, rel=2e-5, abs=1e-6)
    assert result.dual_objective == pytest.approx(ours, rel=1e-9, abs=1e-12)
    low, high = bias_interval(K, pieces, result.dual_coef)
    assert low - high <= 1.01 * TOL
    return result
