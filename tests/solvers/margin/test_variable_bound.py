"""The relative margin problem with a variable bound against a reference and its own laws."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.options import MarginOptions
from oblong.solvers.margin.problem import relative_margin_pieces, relaxed_margin_pieces, svm_pieces
from oblong.solvers.margin.relative import solve_relative_margin
from oblong.solvers.margin.solver import solve_margin
from oblong.solvers.margin.variable_bound import _excess_slope, solve_variable_bound
from tests.reference.margin import kernel_matrix, solve_pieces
from tests.reference.variable_bound import (
    solve_variable_primal,
    variable_dual,
    variable_objective,
)
from tests.solvers.margin.problems import KERNELS, make_problem

TOL = 1e-7
PRICES = ((0.1, 0.1), (1.0, 0.5), (1.0, 5.0), (10.0, 1.0), (10.0, 50.0), (100.0, 20.0))
NUS = (None, 0.5, 1.5, 5.0, 30.0)
N = 60


def _solve(problem, D, nu=None, **options):
    options = {"tol": TOL, **options}
    return solve_variable_bound(
        KernelMatrix(problem.K), problem.y, problem.C, D=D, nu=nu, **options
    )


def _prices(problem, D, nu, weights=None):
    weights = np.ones(len(problem.y)) if weights is None else weights
    return None if nu is None else D * nu * weights / weights.sum()


def _certificate(problem, D, U, result):
    """Recompute both objectives from the coefficients, the bias and the bound alone."""
    model = (problem.K, problem.y, problem.C, D, U)
    primal = variable_objective(*model, result.margin.coef, result.margin.bias, result.B)
    return primal, variable_dual(*model, result.margin.coef)


def _excess(problem, c):
    a = problem.y * c
    return np.abs(a - np.clip(a, 0, problem.C))


# The grid ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("C", "D"), PRICES)
def test_certificate_on_the_grid(kernel, C, D):
    problem = make_problem(kernel, N, C, 1.0, seed=3)
    for nu in NUS:
        result = _solve(problem, D, nu)
        primal, dual = _certificate(problem, D, _prices(problem, D, nu), result)
        assert result.margin.status == "converged"
        assert -1e-10 * primal <= primal - dual <= 1e-6 * primal
        assert result.margin.objective == pytest.approx(primal, rel=1e-9)
        assert result.margin.dual_objective == pytest.approx(dual, rel=1e-9)
        assert result.margin.violation <= TOL
        assert result.B >= 1.0
        np.testing.assert_allclose(
            result.margin.outputs, problem.K @ result.margin.coef + result.margin.bias, atol=1e-8
        )
        if nu is not None and nu < 1:
            assert result.B == 1.0
        if nu is not None and result.B > 1.0:
            size = np.abs(result.margin.outputs)
            beyond = np.mean(size > result.B * (1 + 1e-6))
            assert beyond <= 1.0 / nu <= np.mean(size >= result.B * (1 - 1e-6))


@pytest.mark.parametrize(
    ("kernel", "price", "nu"),
    list(itertools.product(KERNELS, PRICES, NUS))[::4],
)
def test_against_the_reference(kernel, price, nu):
    C, D = price
    problem = make_problem(kernel, 40, C, 1.0, seed=7)
    U = _prices(problem, D, nu)
    expected = solve_variable_primal(problem.K, problem.y, problem.C, D, U)
    result = _solve(problem, D, nu)
    assert result.margin.objective == pytest.approx(expected.objective, rel=1e-7)
    # The bound, and with it the bias, may not be unique; the norm of w is.
    half_norm = result.margin.coef @ problem.K @ result.margin.coef / 2
    assert half_norm == pytest.approx(expected.half_norm, rel=1e-4, abs=1e-6)
    # The reference's bound and bias are optimal for our w too.
    own = variable_objective(
        problem.K,
        problem.y,
        problem.C,
        D,
        np.full(40, 1e3) if U is None else U,
        result.margin.coef,
        expected.bias,
        max(1.0, expected.bound),
    )
    assert own == pytest.approx(expected.objective, rel=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [2, 3, 12, 150])
@pytest.mark.parametrize("nu", [None, 1.0, 3.0])
def test_sizes_conflicts_and_weights(n, nu, weighted):
    for seed, (C, D) in enumerate([(0.01, 1e-3), (1.0, 0.1), (300.0, 30.0), (1.0, 1e4)]):
        positive = (0.1, 0.5, 0.9)[seed % 3]
        kernel = KERNELS[seed % 3]
        problem = make_problem(kernel, n, C, 1.0, positive=positive, conflicts=True, seed=seed)
        weights = np.random.default_rng(seed).uniform(0.2, 3.0, size=n) if weighted else None
        result = _solve(problem, D, nu, weights=weights)
        U = _prices(problem, D, nu, weights)
        primal, dual = _certificate(problem, D, U, result)
        assert -1e-9 * primal <= primal - dual <= 1e-6 * primal


# Special cases ------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("nu", [None, 3.0])
def test_price_zero_is_the_svm(kernel, nu):
    problem = make_problem(kernel, N, 2.0, 1.0, seed=4)
    result = _solve(problem, 0.0, nu)
    svm = solve_margin(KernelMatrix(problem.K), svm_pieces(problem.y, problem.C), tol=TOL)
    assert np.array_equal(result.margin.coef, svm.coef)
    assert result.margin.objective == svm.objective
    assert result.B == result.theta == np.abs(svm.outputs).max()


@pytest.mark.parametrize("kernel", KERNELS)
def test_high_price_is_the_tightest_bound(kernel):
    problem = make_problem(kernel, N, 2.0, 1.0, seed=4)
    bounded = solve_relative_margin(
        KernelMatrix(problem.K), problem.y, problem.C, B=1.0, tol=TOL
    ).margin
    enough = _excess(problem, bounded.dual_coef).sum()
    result = _solve(problem, 1.01 * enough)
    assert result.B <= 1.0 + 1e-9
    np.testing.assert_allclose(result.margin.outputs, bounded.outputs, atol=1e-6)
    assert result.margin.objective == pytest.approx(bounded.objective + 1.01 * enough, rel=1e-7)
    assert _solve(problem, 0.8 * enough).B > 1.001


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("D", [0.3, 3.0])
@pytest.mark.parametrize("nu", [float(N), 1e5])
def test_large_nu_is_the_hard_bound(kernel, D, nu):
    problem = make_problem(kernel, N, 2.0, 1.0, seed=5)
    hard, relaxed = _solve(problem, D), _solve(problem, D, nu)
    assert relaxed.margin.objective == pytest.approx(hard.margin.objective, rel=1e-8)
    np.testing.assert_allclose(relaxed.margin.outputs, hard.margin.outputs, atol=1e-5)
    # A small one gives more away.
    assert _solve(problem, D, 2.0).margin.objective < hard.margin.objective * (1 - 1e-3)


def test_small_margins_need_no_bound():
    """Where no output of the SVM exceeds one the price is paid for the bound one."""
    problem = make_problem("rbf", N, 1e-4, 1.0, seed=6)
    assert _solve(problem, 0.0).theta <= 1.0
    result = _solve(problem, 3.0)
    assert result.B == 1.0
    assert result.margin.objective == pytest.approx(
        _solve(problem, 0.0).margin.objective + 3.0, rel=1e-9
    )


# Bound and price ----------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("D", [0.2, 1.0, 8.0])
def test_price_to_bound(kernel, D):
    """The bound that a price makes gives the same machine."""
    problem = make_problem(kernel, N, 3.0, 1.0, seed=8)
    priced = _solve(problem, D)
    columns = KernelMatrix(problem.K)
    bounded = solve_relative_margin(columns, problem.y, problem.C, B=priced.B, tol=TOL)
    assert priced.B > 1.0
    np.testing.assert_allclose(priced.margin.outputs, bounded.margin.outputs, atol=1e-5)
    total = bounded.margin.objective + D * priced.B
    assert priced.margin.objective == pytest.approx(total, rel=1e-7)


@pytest.mark.parametrize("kernel", ["poly", "rbf"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_bound_to_price_to_bound(kernel, share):
    """The excess at a bound is the price that makes this bound."""
    problem = make_problem(kernel, N, 3.0, 1.0, seed=8)
    columns = KernelMatrix(problem.K)
    bounded = solve_relative_margin(columns, problem.y, problem.C, spread=share, tol=1e-9)
    D = _excess(problem, bounded.margin.dual_coef).sum()
    priced = _solve(problem, D, tol=1e-9)
    assert abs(priced.B - bounded.B) <= 1e-6
    np.testing.assert_allclose(priced.margin.outputs, bounded.margin.outputs, atol=1e-6)


def test_total_excess_is_the_price():
    for kernel, nu in itertools.product(KERNELS, (None, 3.3)):
        problem = make_problem(kernel, N, 3.0, 1.0, seed=9)
        result = _solve(problem, 0.7, nu)
        excess = _excess(problem, result.margin.coef)
        assert result.B > 1.0
        assert excess.sum() == pytest.approx(0.7, rel=1e-6)
        if nu is not None:
            assert np.all(excess <= 0.7 * nu / N * (1 + 1e-9))


def test_jump_of_the_excess():
    """One feature and five rows: w has one number, and the excess changes by leaps.

    The SVM has w = 1, b = 0 and the outputs ±1 and ±3. As long as the price is too low for the
    margin of the rows at ±1 to give way, the bound stays at 3.
    """
    X = np.array([[1.0], [-1.0], [3.0], [3.0], [-3.0]])
    y = np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    C = np.full(5, 10.0)
    K = X @ X.T
    for D, nu in itertools.product((0.05, 0.2, 0.3, 1.0), (None, 2.5)):
        result = solve_variable_bound(KernelMatrix(K), y, C, D=D, nu=nu, tol=TOL)
        U = None if nu is None else np.full(5, D * nu / 5)
        expected = solve_variable_primal(K, y, C, D, U)
        assert result.margin.objective == pytest.approx(expected.objective, rel=1e-7)
        assert abs(result.margin.relative_gap) <= 1e-7


def test_kernel_of_zeros():
    y = np.array([1.0, 1.0, -1.0])
    for nu in (None, 2.0):
        result = solve_variable_bound(KernelMatrix(np.zeros((3, 3))), y, np.ones(3), D=1.0, nu=nu)
        assert result.margin.objective == pytest.approx(3.0)  # f = 1, one error of 2, and D
        assert result.B == 1.0


@pytest.mark.parametrize("kernel", KERNELS)
def test_weight_is_copies(kernel):
    problem = make_problem(kernel, 30, 1.0, 1.0, seed=10)
    counts = np.random.default_rng(10).integers(1, 4, size=30)
    rows = np.repeat(np.arange(30), counts)
    for nu in (None, 3.3):
        weighted = solve_variable_bound(
            KernelMatrix(problem.K),
            problem.y,
            problem.C * counts,
            D=0.5,
            nu=nu,
            weights=counts.astype(float),
            tol=TOL,
        )
        copies = solve_variable_bound(
            KernelMatrix(problem.K[np.ix_(rows, rows)]),
            problem.y[rows],
            problem.C[rows],
            D=0.5,
            nu=nu,
            tol=TOL,
        )
        assert weighted.margin.objective == pytest.approx(copies.margin.objective, rel=1e-8)
        np.testing.assert_allclose(weighted.margin.outputs[rows], copies.margin.outputs, atol=1e-5)


# The search -----------------------------------------------------------------------------------


@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-3, 1e-5])
@pytest.mark.parametrize("nu", [None, 5.0])
def test_tolerance(tol, nu):
    for kernel in KERNELS:
        problem = make_problem(kernel, 100, 5.0, 1.0, seed=11)
        result = _solve(problem, 2.0, nu, tol=tol)
        assert result.margin.status == "converged"
        assert -1e-12 <= result.margin.relative_gap <= tol
        assert result.margin.violation <= tol


@pytest.mark.parametrize("max_iter", [0, 1, 10, 100, 300])
@pytest.mark.parametrize("nu", [None, 0.5, 5.0])
def test_limit_on_steps(max_iter, nu):
    """Whatever the limit, the certificate brackets the optimum."""
    problem = make_problem("poly", 80, 100.0, 1.0, seed=12)
    exact = _solve(problem, 20.0, nu)
    stopped = _solve(problem, 20.0, nu, max_iter=max_iter, tol=1e-12)
    assert stopped.n_iter == stopped.margin.n_iter <= max_iter
    assert stopped.margin.status == "max_iter"
    primal, dual = _certificate(problem, 20.0, _prices(problem, 20.0, nu), stopped)
    assert stopped.margin.objective == pytest.approx(primal, rel=1e-9)
    assert stopped.margin.dual_objective == pytest.approx(dual, rel=1e-9, abs=1e-9)
    assert dual <= exact.margin.objective * (1 + 1e-7)
    assert primal >= exact.margin.objective * (1 - 1e-7)


def test_search_that_finds_no_end():
    """What there is when the search gives up is certified all the same."""
    problem = make_problem("linear", N, 1.0, 1.0, seed=3)
    exact = _solve(problem, 0.5).margin.objective
    result = _solve(problem, 0.5, options=MarginOptions(bound_solves=2))
    assert result.margin.status == "stalled"
    assert result.margin.dual_objective <= exact * (1 + 1e-9)
    assert result.margin.objective >= exact * (1 - 1e-9)
    assert result.margin.relative_gap > 1e-6


@pytest.mark.large
def test_search_without_derivatives():
    options = MarginOptions(bound_free=0)
    for kernel, nu in itertools.product(KERNELS, (None, 5.0)):
        problem = make_problem(kernel, N, 1.0, 1.0, seed=3)
        result = _solve(problem, 0.5, nu, options=options)
        assert result.margin.status == "converged"
        assert abs(result.margin.relative_gap) <= 1e-6


@pytest.mark.parametrize("D", [10.0, 20.0])
def test_bounds_near_one_are_found_without_the_bound_one(D):
    """With few rows of one class the excess explodes towards one, whose problem is a hard one."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(300) < 12, 1.0, -1.0)
    X = rng.normal(size=(300, 6)) + (y > 0)[:, None]
    seen = []
    result = solve_variable_bound(
        KernelMatrix(kernel_matrix(X, X, "rbf")), y, np.ones(300), D=D, progress=seen.append
    )
    assert result.margin.status == "converged"
    assert result.margin.relative_gap <= 1e-5
    assert 1.0 < result.B < 1.1
    assert "relative margin, bound 1" not in {report.stage for report in seen}


def test_progress_and_interruption():
    problem = make_problem("rbf", 80, 10.0, 1.0, seed=13)
    seen = []
    _solve(problem, 1.0, progress=seen.append)
    assert {report.stage.split(",")[0] for report in seen} == {"svm", "relative margin"}

    def interrupt(report):
        if report.stage != "svm":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _solve(problem, 1.0, progress=interrupt)


@pytest.mark.parametrize("kernel", ["poly", "rbf"])
@pytest.mark.parametrize("nu", [None, 5.0])
def test_derivative_of_the_excess(kernel, nu):
    problem = make_problem(kernel, N, 3.0, 1.0, seed=14)
    columns = KernelMatrix(problem.K)
    U = np.full(N, np.inf) if nu is None else _prices(problem, 1.0, nu)

    def solution(t):
        pieces = relaxed_margin_pieces(problem.y, problem.C, t, U)
        return pieces, solve_margin(columns, pieces, tol=1e-10).dual_coef

    for t in (1.15, 1.3):
        pieces, c = solution(t)
        step = 1e-6
        ends = [_excess(problem, solution(t + side)[1]).sum() for side in (-step, step)]
        numeric = (ends[1] - ends[0]) / (2 * step)
        assert numeric < 0
        assert _excess_slope(columns, pieces, c, N) == pytest.approx(numeric, rel=1e-3)
        # A matrix that cannot be factored gives no derivative.
        assert _excess_slope(KernelMatrix(-problem.K), pieces, c, N) == 0.0


@pytest.mark.large
@given(
    kernel=st.sampled_from(KERNELS),
    n=st.integers(2, 40),
    C=st.floats(-2.0, 2.0),
    D=st.floats(-3.0, 3.0),
    nu=st.one_of(st.none(), st.floats(0.3, 50.0), st.sampled_from([1.0, 2.0, 4.0])),
    conflicts=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_random_problems(kernel, n, C, D, nu, conflicts, seed):
    problem = make_problem(kernel, n, 10.0**C, 1.0, conflicts=conflicts, seed=seed)
    result = _solve(problem, 10.0**D, nu)
    U = _prices(problem, 10.0**D, nu)
    primal, dual = _certificate(problem, 10.0**D, U, result)
    assert result.margin.status == "converged"
    # The tolerance is on the outputs, which the penalties multiply.
    loosest = 1e-6 * primal + TOL * problem.C.sum()
    assert -1e-9 * primal <= primal - dual <= loosest
    flipped = solve_variable_bound(
        KernelMatrix(problem.K), -problem.y, problem.C, D=10.0**D, nu=nu, tol=TOL
    )
    assert flipped.margin.objective == pytest.approx(result.margin.objective, abs=2 * loosest)


# Terms of a fixed bound ---------------------------------------------------------------------


def test_relaxed_terms():
    y, C, U = np.array([1.0, -1.0]), np.array([0.5, 2.0]), np.array([0.3, 0.7])
    pieces = relaxed_margin_pieces(y, C, 1.7, U)
    np.testing.assert_allclose(pieces.breakpoints, [[-0.3, 0.0, 0.5, 0.8], [-2.7, -2.0, 0.0, 0.7]])
    np.testing.assert_array_equal(pieces.slopes, [[1.7, 1.0, -1.7], [1.7, -1.0, -1.7]])
    for f in (-3.0, -1.7, -1.0, 0.0, 0.4, 1.0, 1.5, 4.0):
        expected = C * np.maximum(1 - y * f, 0) + U * max(abs(f) - 1.7, 0)
        np.testing.assert_allclose(pieces.loss(np.full(2, f)), expected)
    assert pieces.bound_scale(np.array([5.0, -5.0])) == np.inf
    hard = relaxed_margin_pieces(y, C, 1.7, np.full(2, np.inf))
    for ours, theirs in zip(hard, relative_margin_pieces(y, C, 1.7)):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kernel", KERNELS)
def test_relaxed_problem_of_a_fixed_bound(kernel):
    problem = make_problem(kernel, 40, 2.0, 1.0, seed=15)
    pieces = relaxed_margin_pieces(problem.y, problem.C, 1.2, np.full(40, 0.1))
    ours = solve_margin(KernelMatrix(problem.K), pieces, tol=TOL)
    expected = solve_pieces(problem.K, pieces.breakpoints, pieces.slopes)
    assert ours.objective == pytest.approx(expected.objective, rel=1e-7)
    assert abs(ours.relative_gap) < 1e-7
