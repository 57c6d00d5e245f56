"""The interior point against an independent solver and against the kernel solver."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.linear.interior_point import solve_interior_point
from oblong.solvers.linear.options import LinearOptions
from oblong.solvers.linear.problem import LinearProblem, LinearRows
from oblong.solvers.margin.problem import relative_margin_pieces, svm_pieces
from oblong.solvers.margin.solver import solve_margin
from tests.reference.linear import solve_linear
from tests.solvers.linear.problems import FORMS, cloud, dual_value, make, primal_value, reference

SHAPES = [(2, 3), (12, 4), (60, 8), (30, 50)]


def check_certificate(problem, X, result):
    """Both values are those of feasible points, recomputed from their definitions."""
    primal = primal_value(problem, X, result.coef, result.bias, result.t)
    assert result.objective == pytest.approx(primal, rel=1e-9, abs=1e-12)
    dual = dual_value(problem, X - (problem.intercept and X.mean(axis=0)), result.dual_coef)
    assert result.dual_objective == pytest.approx(dual, rel=1e-8, abs=1e-10 * result.objective)
    assert result.gap >= -1e-9 * result.objective


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("C", [0.01, 1.0, 1000.0])
@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_against_reference(n, d, C, form):
    X, y = cloud(n, d, seed=n + d)
    problem = make(X, y, C, FORMS[form])
    result = solve_interior_point(problem, tol=1e-9)
    expected = reference(X, y, C, FORMS[form])
    assert result.status == "converged"
    assert result.n_iter <= 40
    assert result.relative_gap <= 1e-9
    assert result.objective == pytest.approx(expected.objective, rel=1e-7, abs=1e-9)
    # The objective is strongly convex in the weights, so that the gap bounds their error.
    error = np.linalg.norm(result.coef - expected.coef)
    assert error <= np.sqrt(2 * result.gap) + 1e-4 * (1 + np.linalg.norm(expected.coef))
    check_certificate(problem, X, result)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("intercept", [True, False])
def test_the_compiled_step_is_that_of_numpy(form, intercept):
    X, y = cloud(61, 7, seed=3)
    problem = replace(make(X, y, 3.0, FORMS[form]), intercept=intercept)
    one, other = (
        solve_interior_point(problem, max_iter=4, options=LinearOptions(compiled=limit))
        for limit in (1 << 20, 0)
    )
    assert one.n_iter == other.n_iter
    np.testing.assert_allclose(one.coef, other.coef, rtol=1e-9)
    np.testing.assert_allclose(one.dual_coef, other.dual_coef, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("B", [np.inf, 2.0, 1.05])
@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("positive", [0.5, 0.1])
def test_against_kernel_solver(positive, C, B):
    X, y = cloud(150, 5, seed=4, positive=positive, shift=0.5)
    pieces = svm_pieces(y, np.full(150, C))
    if np.isfinite(B):
        pieces = relative_margin_pieces(y, np.full(150, C), B)
    kernel = solve_margin(KernelMatrix(X @ X.T), pieces, tol=1e-8)
    linear = solve_interior_point(make(X, y, C, {"B": B}), tol=1e-10)
    assert linear.objective == pytest.approx(kernel.objective, rel=1e-6)
    np.testing.assert_allclose(linear.outputs, kernel.outputs, atol=1e-4)


def test_unequal_penalties_and_prices():
    X, y = cloud(50, 4, seed=9)
    rng = np.random.default_rng(9)
    C, U = rng.uniform(0.01, 20, size=50), rng.uniform(0.01, 1, size=50)
    problem = LinearProblem(LinearRows(X, centred=True), y, C, D=4.0, U=U)
    result = solve_interior_point(problem, tol=1e-10)
    assert result.objective == pytest.approx(solve_linear(X, y, C, D=4.0, U=U).objective, rel=1e-8)
    check_certificate(problem, X, result)


@pytest.mark.parametrize("form", ["svm", "B", "D", "relaxed"])
@pytest.mark.parametrize(
    "case", ["constant", "duplicates", "conflicts", "mixed scales", "far away"]
)
def test_degenerate_rows(case, form):
    X, y = cloud(40, 5, seed=2)
    if case == "constant":
        X[:, 1:3] = [0.0, 7.0]
    elif case == "duplicates":
        X[1::2], y[1::2] = X[::2], y[::2]
    elif case == "conflicts":
        X[20:] = X[:20]
    elif case == "mixed scales":
        X *= [1e-6, 1e-3, 1.0, 1e3, 1e6]
    else:
        X += 1e6
    problem = make(X, y, 1.0, FORMS[form])
    result = solve_interior_point(problem, tol=1e-8)
    assert result.status == "converged"
    if case != "far away":
        check_certificate(problem, X, result)
    assert result.objective <= primal_value(problem, X, np.zeros(5), 0.0, 1.0) * (1 + 1e-12)
    if case != "mixed scales":
        centred = X - X.mean(axis=0)
        expected = reference(centred, y, 1.0, FORMS[form])
        assert result.objective == pytest.approx(expected.objective, rel=1e-7)


def test_one_row_against_many():
    X, y = cloud(60, 3, positive=0.0, seed=7)
    result = solve_interior_point(make(X, y, 1.0, {"B": 1.2}), tol=1e-9)
    assert result.relative_gap <= 1e-9
    assert np.abs(result.outputs).max() <= 1.2 * (1 + 1e-12)


@pytest.mark.parametrize(("C", "D"), [(1e5, 1e-4), (1e-4, 1e5)])
@pytest.mark.parametrize("nu", [None, 5.0])
def test_prices_far_apart(C, D, nu):
    X, y = cloud(50, 5, seed=8)
    form = {"D": D} if nu is None else {"D": D, "nu": nu}
    problem = make(X, y, C, form)
    result = solve_interior_point(problem, tol=1e-9)
    assert result.status == "converged"
    assert result.n_iter <= 40
    check_certificate(problem, X, result)


@pytest.mark.parametrize("limit", [1, 3])
def test_honest_when_stopped_early(limit):
    X, y = cloud(80, 5, seed=3)
    problem = make(X, y, 10.0, {"B": 1.1})
    stopped = solve_interior_point(problem, tol=1e-10, max_iter=limit)
    best = reference(X, y, 10.0, {"B": 1.1}).objective
    assert stopped.status == "max_iter"
    assert stopped.n_iter == limit
    assert stopped.relative_gap > 1e-3
    assert stopped.dual_objective <= best <= stopped.objective
    check_certificate(problem, X, stopped)


def test_stops_when_rounding_wins():
    X, y = cloud(60, 5, seed=3)
    # No gap is that small, not even one that rounding makes zero.
    result = solve_interior_point(make(X, y, 100.0, {"B": 1.01}), tol=-1.0)
    assert result.status == "stalled"
    assert result.relative_gap <= 1e-9


@pytest.mark.large
def test_threads_and_chunks_do_not_matter():
    X, y = cloud(5000, 60, seed=1)
    one = make(X, y, 1.0, {"B": 1.5})
    assert one.rows.chunk < 5000
    two = LinearProblem(LinearRows(X, threads=2, centred=True), y, one.C, B=1.5)
    first, second = (solve_interior_point(problem, tol=1e-6) for problem in (one, two))
    np.testing.assert_allclose(first.coef, second.coef, rtol=1e-7, atol=1e-9)
    assert first.relative_gap <= 1e-6


def test_many_columns():
    X, y = cloud(700, 600, seed=1)
    wide = solve_interior_point(make(X, y, 0.01, {"B": 1.2}), tol=1e-8)
    turned = solve_interior_point(make(np.fliplr(X), y, 0.01, {"B": 1.2}, sparse=True), tol=1e-8)
    assert wide.relative_gap <= 1e-8
    np.testing.assert_allclose(wide.coef, turned.coef[::-1], atol=1e-5)


def test_single_precision_rows():
    X, y = cloud(300, 6, seed=5)
    X = X.astype(np.float32)
    single = solve_interior_point(make(X, y, 1.0, {"B": 1.5}), tol=1e-9)
    double = solve_interior_point(make(X.astype(float), y, 1.0, {"B": 1.5}), tol=1e-9)
    np.testing.assert_allclose(single.coef, double.coef, rtol=1e-9)


def test_reports_progress():
    seen = []
    X, y = cloud(50, 3)
    solve_interior_point(make(X, y, 1.0, {}), tol=1e-6, progress=seen.append, stage="here")
    assert {report.stage for report in seen} == {"here"}
    assert [report.iteration for report in seen] == list(range(len(seen)))
    assert seen[-1].violation < 1e-5
