"""Coordinate descent against the interior point, which is checked against others."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from oblong.solvers.linear.descent import _Descent, solve_descent
from oblong.solvers.linear.descent_state import DescentState
from oblong.solvers.linear.interior_point import solve_interior_point
from oblong.solvers.linear.problem import LinearProblem, LinearRows
from tests.solvers.linear.problems import FORMS, cloud, dual_value, make, primal_value


def sparse_cloud(n, d, density, seed=0):
    X, y = cloud(n, d, seed=seed, shift=0.3)
    X[np.random.default_rng(seed).random(X.shape) > density] = 0.0
    return X, y


def check(problem, X, result, best):
    primal = primal_value(problem, X, result.coef, result.bias, result.t)
    assert result.objective == pytest.approx(primal, rel=1e-9)
    dual = dual_value(problem, X, result.dual_coef)
    assert result.dual_objective == pytest.approx(dual, rel=1e-8, abs=1e-9 * primal)
    assert result.dual_objective <= best * (1 + 1e-8)
    assert result.objective >= best * (1 - 1e-8)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
@pytest.mark.parametrize(
    ("n", "d", "density", "sparse"),
    [(40, 4, 1.0, False), (100, 80, 0.2, True), (60, 300, 0.1, True), (60, 300, 0.1, False)],
)
def test_against_interior_point(n, d, density, sparse, C, form):
    X, y = sparse_cloud(n, d, density, seed=n)
    problem = make(X, y, C, FORMS[form], sparse=True)
    if not sparse:
        problem = LinearProblem(
            LinearRows(X),
            y,
            problem.C,
            problem.B,
            problem.D,
            problem.U,
            FORMS[form].get("intercept", True),
        )
    result = solve_descent(problem, tol=1e-4, max_iter=20_000)
    best = solve_interior_point(make(X, y, C, FORMS[form]), tol=1e-9).objective
    assert result.status == "converged"
    assert result.relative_gap <= 1e-4
    assert result.objective == pytest.approx(best, rel=1e-3)
    check(problem, X, result, best)


def test_far_from_the_origin():
    """Without centred products, a large mean would make every pair of rows nearly parallel."""
    X, y = cloud(100, 3, shift=100.0, seed=1)
    result = solve_descent(make(X, y, 1.0, {"B": 1.5}, sparse=True), tol=1e-6)
    best = solve_interior_point(make(X, y, 1.0, {"B": 1.5}), tol=1e-9).objective
    assert result.status == "converged"
    assert result.n_iter <= 500
    assert result.objective == pytest.approx(best, rel=1e-6)


def test_repeats_with_the_same_seed():
    X, y = sparse_cloud(80, 60, 0.2)
    problem = make(X, y, 1.0, {"B": 1.5}, sparse=True)
    first, second, third = (
        solve_descent(problem, tol=1e-3, rng=np.random.default_rng(seed)) for seed in (3, 3, 4)
    )
    assert np.array_equal(first.coef, second.coef)
    assert not np.array_equal(first.coef, third.coef)


def test_starts_where_it_is_told():
    X, y = sparse_cloud(200, 150, 0.1, seed=5)
    problem = make(X, y, 1.0, {"B": 1.5}, sparse=True)
    cold = solve_descent(problem, tol=1e-6)
    warm = solve_descent(problem, tol=1e-5, start=cold.dual_coef, start_bias=cold.bias)
    assert warm.n_iter <= 4 < cold.n_iter


def test_honest_when_stopped_early():
    X, y = sparse_cloud(100, 10, 1.0, seed=8)
    problem = make(X, y, 10.0, {"B": 1.05}, sparse=True)
    stopped = solve_descent(problem, tol=1e-8, max_iter=3)
    best = solve_interior_point(make(X, y, 10.0, {"B": 1.05}), tol=1e-9).objective
    assert stopped.status == "max_iter"
    assert stopped.n_iter == 3
    assert stopped.relative_gap > 1e-3
    check(problem, X, stopped, best)


def test_rows_of_zeros():
    X, y = sparse_cloud(60, 20, 0.3, seed=2)
    X[::3] = 0.0
    for form in ("svm", "B", "no intercept"):
        problem = make(X, y, 1.0, FORMS[form], sparse=True)
        result = solve_descent(problem, tol=1e-5)
        best = solve_interior_point(make(X, y, 1.0, FORMS[form]), tol=1e-9).objective
        assert result.objective == pytest.approx(best, rel=1e-4)


@pytest.mark.large
def test_single_precision_and_wide_indices():
    X, y = sparse_cloud(100, 60, 0.2, seed=6)
    X = X.astype(np.float32)
    expected = solve_descent(make(X.astype(float), y, 1.0, {"B": 1.5}, sparse=True), tol=1e-7)
    rows = sp.csr_array(X)
    rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    result = solve_descent(LinearProblem(LinearRows(rows), y, np.ones(100), B=1.5), tol=1e-7)
    np.testing.assert_allclose(result.coef, expected.coef, atol=1e-3)


def test_norms_that_overflow():
    X, y = cloud(20, 3)
    with pytest.raises(ValueError, match=r"not finite.*scale"):
        solve_descent(make(X * 1e170, y, 1.0, {}, sparse=True))


def test_reports_progress():
    seen = []
    X, y = sparse_cloud(60, 40, 0.3)
    solve_descent(make(X, y, 1.0, {}, sparse=True), tol=1e-6, progress=seen.append, stage="here")
    assert {report.stage for report in seen} == {"here"}
    assert seen[-1].violation < seen[0].violation


@pytest.mark.large
@pytest.mark.parametrize(("form", "passes"), [({"B": 1.3}, 180), ({"D": 100.0}, 100)])
def test_many_rows_under_a_bound(form, passes):
    """Few rows hold the bound, and thousands hang together by the bias."""
    X, y = sparse_cloud(5000, 1000, 0.01, seed=1)
    problem = make(np.abs(X), y, 1.0, form, sparse=True)
    result = solve_descent(problem, tol=1e-3)
    assert result.status == "converged"
    assert result.n_iter <= passes
    assert primal_value(problem, np.abs(X), result.coef, result.bias, result.t) == pytest.approx(
        result.objective, rel=1e-9
    )
    assert dual_value(problem, np.abs(X), result.dual_coef) == pytest.approx(
        result.dual_objective, rel=1e-8
    )


@pytest.mark.parametrize("n", [1, 5, 256, 700, 5000, 40_000])
def test_visits_every_row_once(n):
    X = sp.csr_array(np.ones((n, 1)))
    problem = LinearProblem(LinearRows(X), np.where(np.arange(n) % 2, 1.0, -1.0), np.ones(n))
    method = _Descent(DescentState(problem, None, 0.0), np.random.default_rng(0))
    rows = np.arange(0, 3 * n, 3)
    first, second = method._shuffled(rows), method._shuffled(rows)
    np.testing.assert_array_equal(np.sort(first), rows)
    np.testing.assert_array_equal(rows, np.arange(0, 3 * n, 3))
    assert n < 3 or not np.array_equal(first, second)


def test_a_slow_bias_is_pulled_harder():
    X, y = sparse_cloud(400, 50, 0.2)
    state = DescentState(make(X, y, 1.0, {}, sparse=True), None, 0.0)
    state.c[:] = 0.5 * y
    state.refresh()
    strengths = []
    for total in (10.0, 9.0, 1.0):
        state.total = total / state.R
        state.move_bias(0.1)
        strengths.append(state.R)
    assert state.bias == pytest.approx(20.0)
    assert strengths[1] == pytest.approx(4.0 * strengths[0])
    assert strengths[2] == strengths[1] <= state.strength
