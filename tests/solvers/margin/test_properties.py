"""Properties of the margin solver on random small problems."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tests.reference.margin import kernel_matrix
from tests.solvers.margin.problems import (
    Problem,
    bias_interval,
    dual_value,
    primal_value,
    solve,
)

TOL = 1e-5

_NUMBERS = st.integers(-3, 3).map(float) | st.floats(-3, 3, allow_subnormal=False)


@st.composite
def problems(draw) -> Problem:
    """Draw a problem with repeated rows, zero rows and unequal penalties likely."""
    n = draw(st.integers(2, 12))
    d = draw(st.integers(1, 3))
    distinct = draw(st.integers(1, n))
    rows = draw(
        st.lists(st.lists(_NUMBERS, min_size=d, max_size=d), min_size=distinct, max_size=distinct)
    )
    which = draw(st.lists(st.integers(0, distinct - 1), min_size=n, max_size=n))
    X = np.array(rows)[which]
    labels = draw(st.lists(st.booleans(), min_size=n - 2, max_size=n - 2))
    y = np.where([True, False, *labels], 1.0, -1.0)
    C = draw(st.sampled_from([0.01, 1.0, 30.0])) * np.array(
        draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=n, max_size=n))
    )
    B = draw(st.sampled_from([1.0, 1.05, 1.5, 3.0, np.inf]))
    kernel = draw(st.sampled_from(["linear", "poly", "rbf"]))
    K = kernel_matrix(X, X, kernel) if X.var() > 1e-3 else X @ X.T
    return Problem(K, y, C, B)


def _scale(problem: Problem) -> float:
    """Size of the rounding errors to expect in outputs."""
    return 1e-11 * (1 + np.abs(problem.K).max() * problem.C.sum())


@given(problems())
@example(Problem(np.zeros((2, 2)), np.array([1.0, -1.0]), np.ones(2), 1.0))
@example(Problem(np.ones((3, 3)), np.array([1.0, -1.0, 1.0]), np.ones(3), np.inf))
@example(Problem(np.eye(2), np.array([1.0, -1.0]), np.array([5.0, 0.1]), 1.2))
@example(Problem(np.diag([1.0, 0.0, 0.0]), np.array([1.0, -1.0, -1.0]), np.ones(3), 1.0))
def test_solution_is_feasible_optimal_and_certified(problem):
    result = solve(problem, tol=TOL)
    pieces, rounding = problem.pieces, _scale(problem)

    assert result.status == "converged"
    assert abs(result.dual_coef.sum()) <= 1e-12 * problem.C.sum()
    assert np.all(np.abs(result.outputs) <= problem.B + TOL)

    low, high = bias_interval(problem.K, pieces, result.dual_coef)
    assert low - high <= TOL + rounding
    assert min(low, high) - rounding <= result.bias <= max(low, high) + rounding

    primal = primal_value(problem, result.dual_coef, result.bias)
    dual = dual_value(problem.K, pieces, result.dual_coef)
    blur = 1e-12 + rounding * np.abs(result.dual_coef).sum()
    assert np.isclose(result.objective, primal, rtol=1e-9, atol=blur)
    assert np.isclose(result.dual_objective, dual, rtol=1e-9, atol=blur)
    assert result.gap >= -1e-9 * abs(primal)
    # Each hinge and each bound can be off by the violation, no more.
    assert result.gap <= 3 * TOL * (problem.C.sum() + np.abs(result.dual_coef).sum()) + 1e-12


@given(problems(), st.integers(0, 2**32 - 1), st.integers(0, 30))
def test_certificate_brackets_the_optimum_even_when_stopped(problem, seed, max_iter):
    """No feasible w, b does better than the dual value; no feasible c beats the primal value."""
    result = solve(problem, tol=TOL, max_iter=max_iter)
    rng = np.random.default_rng(seed)
    slack = 1e-9 * (1 + abs(result.objective))
    for size in (0.0, 0.1, 1.0):
        c = size * rng.normal(size=len(problem.y)) * problem.C
        assert primal_value(problem, c, rng.normal()) >= result.dual_objective - slack
        c -= c.mean()
        if np.isfinite(problem.B):
            assert dual_value(problem.K, problem.pieces, c) <= result.objective + slack
    assert result.gap >= -slack


@given(problems(), st.sampled_from([1e-6, 1e-3, 0.1, 7.0, 1e4, 1e9]))
def test_kernel_and_penalty_scale_together(problem, scale):
    """With K → sK and C → C/s the outputs stay and the objective is divided by s."""
    one = solve(problem, tol=TOL)
    other = solve(
        problem._replace(K=problem.K * scale, C=problem.C / scale),
        tol=TOL,
    )
    budget = 3 * TOL * (problem.C.sum() + np.abs(one.dual_coef).sum()) + 1e-12
    assert abs(other.dual_objective * scale - one.dual_objective) <= budget
    _same_function(problem, one, other.dual_coef * scale, other.bias_interval)


@given(problems(), st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(problem, random):
    order = list(range(len(problem.y)))
    random.shuffle(order)
    K, y, C, B = problem
    one = solve(problem, tol=TOL)
    other = solve(Problem(K[np.ix_(order, order)], y[order], C[order], B), tol=TOL)
    coef = np.empty_like(other.dual_coef)
    coef[order] = other.dual_coef
    _same_function(problem, one, coef, other.bias_interval)


@given(problems())
def test_swapping_the_labels_flips_the_machine(problem):
    one = solve(problem, tol=TOL)
    other = solve(problem._replace(y=-problem.y), tol=TOL)
    low, high = other.bias_interval
    _same_function(problem, one, -other.dual_coef, (-high, -low))


@given(problems(), st.floats(0.0, 5.0))
def test_constant_added_to_the_kernel_changes_nothing(problem, constant):
    """Σc = 0 hides a constant in the kernel, which is what an unpenalised bias means."""
    one = solve(problem, tol=TOL)
    other = solve(problem._replace(K=problem.K + constant), tol=TOL)
    _same_function(problem, one, other.dual_coef, other.bias_interval)


def _same_function(problem, one, coef, interval):
    """Two near-optimal machines: equal weight vectors and overlapping bias intervals.

    The objective is strongly convex in w, so ½‖w − w'‖² is at most the sum of both gaps.
    """
    difference = one.dual_coef - coef
    distance = max(difference @ problem.K @ difference, 0.0)
    mass = problem.C.sum() + np.abs(one.dual_coef).sum() + np.abs(coef).sum()
    budget = 8 * TOL * mass + 1e-9
    assert distance / 2 <= budget
    reach = TOL + np.sqrt(2 * budget * np.abs(np.diag(problem.K)).max(initial=0)) + 1e-9
    low, high = sorted(one.bias_interval)
    other_low, other_high = sorted(interval)
    assert low - reach <= other_high
    assert other_low - reach <= high
