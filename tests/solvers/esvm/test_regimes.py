"""The ellipsoidal support vector machine in its limits, with many rows, and unrelaxed."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import oblong.solvers.esvm.exact as exact_module
from oblong.solvers.esvm.exact import solve_exact_ellipsoidal_svm
from oblong.solvers.esvm.options import EsvmOptions
from oblong.solvers.esvm.problem import EsvmProblem, balanced
from oblong.solvers.esvm.solve import solve_ellipsoidal_svm
from oblong.solvers.logdet.options import LogDetOptions
from oblong.solvers.margin.hard import solve_hard_margin
from tests.solvers.esvm.test_solve import X, Y, consistent, draw, hard, shape


def separable(seed, n, d, room=0.3):
    F, y = draw(seed, n, d, noise=0.0)
    F[:, 0] += room * y
    return F, y


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def test_overlapping_classes_and_dear_slack_leave_the_ball_inactive():
    F, y = draw(1, 150, 3, noise=1.0)
    found = [
        solve_ellipsoidal_svm(F, y, **consistent(F, 0.999, nu), r=0.999, tol=1e-9)
        for nu in (2e-3, 1e-3)
    ]
    lengths = [np.linalg.norm(result.w) for result in found]
    assert lengths[0] < 0.1
    assert lengths[0] / lengths[1] == pytest.approx(2, rel=0.02)
    assert cosine(found[0].w, found[1].w) > 0.99999
    assert found[0].b / lengths[0] == pytest.approx(found[1].b / lengths[1], abs=1e-3)
    for result in found:
        assert result.status == "converged"
        assert np.linalg.norm((result.alpha * y) @ F) <= 1e-6 * result.alpha.sum()


def test_small_r_has_no_weights_and_larger_ones_start_at_the_widest_street():
    F, y = separable(2, 40, 3)
    F /= np.linalg.norm(F, axis=1)[:, None]
    street = solve_hard_margin(F, y)
    margin = street.margin / 2
    limit = margin / (1 + margin)
    below = hard(F, y, 0.9 * limit)
    assert below.status == "converged"
    assert below.alpha.sum() <= 1e-5
    above = hard(F, y, limit + 1e-3, tol=1e-9)
    assert above.alpha.sum() > 1e-4
    assert cosine(above.w, street.coef) > 0.999


def test_large_r_with_a_nonsingular_kernel_is_the_analytic_centre():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 3))
    y = np.where(rows[:, 0] > 0, 1.0, -1.0)
    squares = ((rows[:, None] - rows) ** 2).sum(axis=2)
    F = np.linalg.cholesky(np.exp(-squares))
    result = hard(F, y, 1 - 1e-9, fit_intercept=False, tol=1e-9)
    # Σ ln y_i f_i has the gradient F'(y / f), which is along w at the centre.
    gradient = F.T @ (1 / (F @ result.w))
    assert cosine(gradient, result.w) > 1 - 1e-7
    assert np.allclose(result.alpha * result.q, 1, atol=1e-5)


def test_slack_is_paid_by_a_share_of_the_rows():
    F, y = draw(3, 400, 4)
    r, nu = 0.999, 0.2
    problem = consistent(F, r, nu)
    result = solve_ellipsoidal_svm(F, y, **problem, r=r, fit_intercept=False, tol=1e-9)
    length = np.linalg.norm(F, axis=1)
    margins = result.q / length
    excess = result.q - y * result.outputs
    bound = nu * (result.alpha @ result.q / r) / 4
    # Sums of q over rows with slack, and over rows with weight, have the bound between them.
    low = np.mean(margins * (excess > 1e-7))
    high = np.mean(margins * (result.alpha > 1e-7))
    assert low - 1e-6 <= np.mean(result.alpha / problem["caps"] * margins) <= high + 1e-6
    assert np.mean(result.alpha / problem["caps"] * margins) == pytest.approx(bound)


def test_cheap_slack_without_intercept_is_the_centroid():
    F, y = draw(4, 60, 3)
    problem = consistent(F, 0.9999, 1.5)
    result = solve_ellipsoidal_svm(F, y, **problem, r=0.9999, fit_intercept=False, tol=1e-10)
    assert np.allclose(result.alpha, problem["caps"])
    assert cosine(result.w, (problem["caps"] * y) @ F) > 1 - 1e-12


@pytest.mark.parametrize("shape_", [(8, 2), (120, 3), (3000, 2), (150, 60)])
def test_no_hard_margin(shape_):
    n, d = shape_
    F, y = (X, Y) if n == 8 else draw(5, n, d, noise=1.0)
    if d > 10:
        F[:10] = F[10:20]
        y[:10] = -y[10:20]
    result = hard(F, y, 0.9, solver="newton" if n > 1000 else "ipm")
    assert result.status == "inseparable"
    assert result.gap == np.inf
    assert result.objective == np.inf
    # The proof: a margin is at most |v| / Σ α.
    bound = np.linalg.norm((result.alpha * y) @ F) / result.alpha.sum()
    assert bound <= 1e-4 * np.linalg.norm(F, axis=1).max()


def test_opposite_labels_at_one_place():
    F = np.array([[1.0, 0.5], [1.0, 0.5]])
    y = np.array([1.0, -1.0])
    result = solve_ellipsoidal_svm(F, y, caps=np.ones(2), pi=np.ones(2), r=0.9, tol=1e-9)
    assert result.status == "converged"
    assert np.allclose(result.outputs, 0, atol=1e-6)
    assert hard(F, y, 0.9).status == "inseparable"


def test_row_at_the_origin_and_columns_of_nothing():
    F, y = draw(6, 50, 3)
    F[0] = 0.0
    F = np.column_stack([F, np.zeros(50)])
    caps = np.full(50, 0.1)
    result = solve_ellipsoidal_svm(F, y, caps=caps, pi=np.ones(50), r=0.9)
    assert result.status == "converged"
    assert result.q[0] == 0
    assert result.w[3] == 0
    assert shape(result, 0.9)[3, 3] == pytest.approx(9)
    fewer = solve_ellipsoidal_svm(F[:, :3], y, caps=caps, pi=np.ones(50), r=0.9)
    assert np.allclose(fewer.w, result.w[:3], atol=1e-4)


def test_fewer_rows_than_columns_reduce_to_their_span():
    F, y = draw(7, 12, 30)
    problem = consistent(F, 0.9, 0.2)
    # Prices contain the number of columns: keep them.
    basis, coordinates = np.linalg.qr(F.T)
    whole = solve_ellipsoidal_svm(F, y, **problem, r=0.9, tol=1e-9)
    part = solve_ellipsoidal_svm(coordinates.T, y, **problem, r=0.9, tol=1e-9)
    assert np.allclose(whole.w, basis @ part.w, atol=1e-5)
    assert whole.b == pytest.approx(part.b, abs=1e-5)


def test_caps_of_very_different_sizes():
    F, y = draw(9, 800, 1, noise=1.0)
    caps = 1.0 / (1e-3 * F[:, 0] ** 2)
    result = solve_ellipsoidal_svm(F, y, caps=caps, pi=np.ones(800), r=1 - 1e-6)
    assert result.status == "converged"


@pytest.mark.parametrize("r", [0.9, 1 - 1e-6])
@pytest.mark.parametrize("margin", ["soft", "hard"])
def test_kernel_form_is_the_explicit_form(r, margin):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(120, 3))
    y = np.where(rows[:, 0] + 0.3 * rng.normal(size=120) > 0, 1.0, -1.0)
    squares = ((rows[:, None] - rows) ** 2).sum(axis=2)
    F = np.linalg.cholesky(np.exp(-squares) + 1e-10 * np.eye(120))
    pi = rng.uniform(0.5, 2.0, 120)
    caps = np.full(120, 2.0 if margin == "soft" else np.inf)
    first = solve_ellipsoidal_svm(F, y, caps=caps, pi=pi, r=r, tol=1e-8, solver="ipm")
    explicit = EsvmOptions(kernel_from=10**9)
    second = solve_ellipsoidal_svm(
        F, y, caps=caps, pi=pi, r=r, tol=1e-8, solver="ipm", options=explicit
    )
    assert first.status == second.status == "converged"
    assert first.objective == pytest.approx(second.objective, rel=1e-7)
    assert np.allclose(first.w, second.w, atol=1e-4)


def test_many_rows_soft():
    F, y = draw(10, 30_000, 6)
    problem = {**consistent(F, 0.99, 0.2), "r": 0.99}
    newton = solve_ellipsoidal_svm(F, y, **problem)
    exact = solve_ellipsoidal_svm(F, y, **problem, solver="ipm")
    assert newton.status == exact.status == "converged"
    assert newton.objective == pytest.approx(exact.objective, abs=1e-5)
    assert np.allclose(newton.w, exact.w, atol=1e-3)
    again = solve_ellipsoidal_svm(F, y, **problem, start=newton)
    assert again.status == "converged"
    assert again.n_iter < newton.n_iter


def test_many_rows_from_a_sample():
    options = EsvmOptions(logdet=LogDetOptions(sample=1000))
    F, y = draw(11, 8000, 3)
    result = solve_ellipsoidal_svm(
        F, y, **consistent(F, 0.9, 0.1), r=0.9, solver="newton", options=options
    )
    assert result.status == "converged"
    exact = solve_ellipsoidal_svm(F, y, **consistent(F, 0.9, 0.1), r=0.9, solver="ipm")
    assert result.objective == pytest.approx(exact.objective, abs=1e-5)


def test_many_rows_hard():
    F, y = separable(12, 6000, 3)
    newton, exact = (hard(F, y, 0.9, solver=solver, tol=1e-8) for solver in ("newton", "ipm"))
    assert newton.status == exact.status == "converged"
    assert newton.objective == pytest.approx(exact.objective, abs=1e-6)
    assert np.allclose(newton.w, exact.w, atol=1e-4)


def test_sequential_solver_stalls_where_weights_do_not_determine_the_direction():
    F, y = draw(13, 60, 3, noise=1.0)
    problem = {**consistent(F, 0.9, 1e-3), "r": 0.9}
    best = solve_ellipsoidal_svm(F, y, **problem, tol=1e-9)
    assert np.linalg.norm(best.w) < 0.5
    result = solve_ellipsoidal_svm(F, y, **problem, solver="smo", max_iter=20_000)
    assert result.status in ("stalled", "max_iter")
    assert result.dual_objective <= best.objective + 1e-9
    with pytest.raises(ValueError, match="intercept"):
        solve_ellipsoidal_svm(F, y, **problem, solver="smo", fit_intercept=False)


def test_balance():
    y = np.array([1.0, 1.0, -1.0])
    assert np.allclose(balanced(np.array([1.0, 3.0, 2.0]), y), [0.5, 1.5, 2.0])
    assert np.allclose(balanced(np.array([0.5, 0.5, 2.0]), y), [0.5, 0.5, 1.0])
    assert np.all(balanced(np.array([1.0, 1.0, 0.0]), y) == 0)


def test_rows_with_and_without_slack():
    F, y = separable(14, 40, 2)
    caps = np.full(40, 0.2)
    caps[::2] = np.inf
    result = solve_ellipsoidal_svm(F, y, caps=caps, pi=np.ones(40), r=0.9, tol=1e-8)
    assert result.status == "converged"
    assert np.all((y * result.outputs)[::2] >= result.q[::2] * (1 - 1e-3))
    problem = EsvmProblem(F, y, caps, np.ones(40), 0.9, True, 1e-8, 1)
    assert problem.certify(result.alpha, result.w, result.b).gap <= 1e-7


@pytest.mark.parametrize("seed", range(6))
def test_exact_problem_is_above_its_relaxation(seed):
    F, y = draw(seed, 50, 1 + seed % 4, scale=3.0)
    length = np.linalg.norm(F, axis=1)
    caps = 0.9 * F.shape[1] / (50 * 0.3 * length)
    intercept = seed % 2 == 0
    exact = solve_exact_ellipsoidal_svm(F, y, caps=caps, r=0.9, fit_intercept=intercept)
    relaxed = solve_ellipsoidal_svm(F, y, caps=caps, pi=1 / length, r=0.9, fit_intercept=intercept)
    assert exact.status == "converged"
    assert -1e-9 <= exact.gap <= 1e-5
    assert relaxed.dual_objective <= exact.objective + 1e-9
    assert cosine(exact.w, relaxed.w) > 0.99
    # Nothing better next to it.
    assert exact.dual_objective <= exact.objective


@pytest.mark.parametrize("intercept", [True, False])
def test_exact_problem_of_many_rows_takes_those_that_matter(monkeypatch, intercept):
    F, y = draw(5, 120, 3, scale=2.0)
    caps = 0.9 * 3 / (120 * 0.1 * np.linalg.norm(F, axis=1))
    taken = []
    solve = exact_module._conic_solution
    monkeypatch.setattr(
        exact_module,
        "_conic_solution",
        lambda cp, rows, *rest: taken.append(len(rows)) or solve(cp, rows, *rest),
    )
    whole = solve_exact_ellipsoidal_svm(F, y, caps=caps, r=0.9, fit_intercept=intercept)
    part = solve_exact_ellipsoidal_svm(
        F, y, caps=caps, r=0.9, fit_intercept=intercept, options=EsvmOptions(conic_rows=20)
    )
    assert taken[0] == 120 > max(taken[1:])
    assert whole.status == part.status == "converged"
    assert part.objective == pytest.approx(whole.objective, abs=1e-6)
    assert np.allclose(part.w, whole.w, atol=1e-4)
    # What the relaxed problem does not point to is found nevertheless.
    monkeypatch.setattr(exact_module, "_likely", lambda rows, side, *_: np.arange(120) < 30)
    again = solve_exact_ellipsoidal_svm(F, y, caps=caps, r=0.9, fit_intercept=intercept)
    assert again.objective == pytest.approx(whole.objective, abs=1e-6)


def test_exact_problem_with_a_hard_margin_has_its_ellipsoid_inside():
    F, y = separable(3, 40, 3)
    exact = solve_exact_ellipsoidal_svm(F, y, caps=np.full(40, np.inf), r=0.9)
    assert exact.status == "converged"
    assert np.all(y * exact.outputs >= exact.q * (1 - 1e-3))
    F, y = draw(3, 40, 3, noise=2.0)
    assert solve_exact_ellipsoidal_svm(F, y, caps=np.full(40, np.inf), r=0.9).status == (
        "inseparable"
    )


def test_exact_problem_leaves_rows_out():
    F, y = draw(2, 30, 2)
    caps = np.full(30, 0.2)
    caps[20:] = 0.0
    some = solve_exact_ellipsoidal_svm(F, y, caps=caps, r=0.9)
    fewer = solve_exact_ellipsoidal_svm(F[:20], y[:20], caps=caps[:20], r=0.9)
    assert some.objective == pytest.approx(fewer.objective, abs=1e-6)
    assert len(some.outputs) == 30
    with pytest.raises(ValueError, match="both classes"):
        solve_exact_ellipsoidal_svm(F, np.ones(30), caps=caps, r=0.9)


def test_exact_problem_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(ImportError, match=r"oblong\[conic\]"):
        solve_exact_ellipsoidal_svm(X, Y, caps=np.ones(8), r=0.9)
