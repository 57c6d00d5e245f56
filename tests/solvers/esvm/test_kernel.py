"""Kernel matrices: models of the dual agree with the interior point method."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oblong.solvers.esvm.interior_point as interior
import oblong.solvers.esvm.kernel.dual as models
import oblong.solvers.esvm.problem as stated
from oblong.linalg.low_rank import pivoted_cholesky
from oblong.solvers.esvm.kernel.pairs import maximise_by_pairs
from oblong.solvers.esvm.options import EsvmOptions
from oblong.solvers.esvm.problem import EsvmProblem
from oblong.solvers.esvm.solve import solve_ellipsoidal_svm

TOL = 1e-6
# The central path from the start.
NO_MODELS = EsvmOptions(models_from_limit=10**9)


def rows_of(seed, n, d=4, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + noise * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return X, y


def coordinates(X, width=1.0, rank=None):
    squares = ((X[:, None] - X) ** 2).sum(axis=2)
    K = np.exp(-width * squares / X.shape[1])
    factor = pivoted_cholesky(lambda rows: K[rows], K.diagonal(), rank or len(K))
    return np.ascontiguousarray(factor.features)


def soft(F, r=0.99, nu=0.2):
    n, p = F.shape
    length = np.linalg.norm(F, axis=1)
    return {"caps": r * p / (n * nu * length), "pi": 1.0 / length, "r": r}


def hard(F, r=1 - 1e-6):
    return soft(F, r) | {"caps": np.full(len(F), np.inf)}


def both(monkeypatch, F, y, direct=True, **problem):
    """Solve without and with the central path; the first must not need the second."""
    with monkeypatch.context() as patch:
        if direct:
            patch.setattr(interior, "solve_rows", None)
        found = solve_ellipsoidal_svm(F, y, **problem, solver="ipm")
    wanted = solve_ellipsoidal_svm(F, y, **problem, solver="ipm", options=NO_MODELS)
    assert found.status == wanted.status
    if wanted.status == "converged":
        unit = problem["r"] * F.shape[1]
        tol = problem.get("tol", TOL)
        assert found.gap <= tol
        assert found.gap >= -1e-12
        assert abs(found.objective - wanted.objective) <= 2.0 * tol * unit
        assert abs(found.dual_objective - wanted.dual_objective) <= 2.0 * tol * unit
        assert np.all(found.alpha >= 0.0)
        assert np.all(found.alpha <= problem["caps"])
        balance = found.alpha.sum() if problem.get("fit_intercept", True) else np.inf
        assert abs(y @ found.alpha) <= 1e-9 * balance
    return found, wanted


@pytest.mark.parametrize("r", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("nu", [0.1, 0.3, 0.6])
def test_models_find_the_solution(monkeypatch, r, nu):
    X, y = rows_of(int(100 * r + 10 * nu), 160)
    F = coordinates(X)
    found, wanted = both(monkeypatch, F, y, **soft(F, r, nu), tol=1e-8)
    assert found.n_iter <= 8
    np.testing.assert_allclose(found.w, wanted.w, atol=1e-4)
    np.testing.assert_allclose(found.alpha, wanted.alpha, atol=1e-3 * wanted.alpha.max())


@given(seed=st.integers(0, 10**6), width=st.floats(0.05, 5.0), nu=st.floats(0.02, 0.9))
@settings(max_examples=15, deadline=None)
def test_any_way_leads_to_the_certified_optimum(seed, width, nu):
    X, y = rows_of(seed, 110, d=3)
    F = coordinates(X, width)
    with pytest.MonkeyPatch.context() as patch:
        both(patch, F, y, direct=False, **soft(F, 0.95, nu))


@pytest.mark.parametrize("seed", [0, 1])
def test_single_precision_at_the_start_changes_nothing(monkeypatch, seed):
    X, y = rows_of(seed, 200)
    F = coordinates(X)
    kinds = []
    before = models.KernelDual.evaluate

    def evaluate(self, alpha, double, *rest):
        kinds.append(double)
        return before(self, alpha, double, *rest)

    monkeypatch.setattr(models.KernelDual, "evaluate", evaluate)
    mixed = solve_ellipsoidal_svm(F, y, **soft(F), tol=1e-9)
    assert not kinds[0]
    assert kinds[-1]
    kinds.clear()
    options = EsvmOptions(single_condition=0.0)
    double = solve_ellipsoidal_svm(F, y, **soft(F), tol=1e-9, options=options)
    assert all(kinds)
    assert mixed.objective == pytest.approx(double.objective, rel=1e-9)
    np.testing.assert_allclose(mixed.alpha, double.alpha, atol=1e-4 * double.alpha.max())


def test_single_precision_that_fails_is_left(monkeypatch):
    X, y = rows_of(3, 150)
    F = coordinates(X)
    tried = []

    def fails(matrix, **_):
        tried.append(matrix.dtype)
        return matrix, 1

    monkeypatch.setattr(models, "spotrf", fails)
    both(monkeypatch, F, y, **soft(F))
    assert tried == [np.float32]


def test_where_it_leads_nowhere_the_interior_point_method_takes_over():
    X, y = rows_of(4, 130, noise=0.0)
    F = coordinates(X)
    wanted = solve_ellipsoidal_svm(F, y, **soft(F))
    found = solve_ellipsoidal_svm(F, y, **soft(F), options=EsvmOptions(evaluations=1))
    assert found.status == wanted.status == "converged"
    assert found.n_iter > wanted.n_iter
    assert found.objective == pytest.approx(wanted.objective, abs=2e-6 * wanted.alpha.size)


@pytest.mark.parametrize("distance", [0.0, 1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("opposite", [False, True])
def test_rows_that_nearly_repeat_each_other(monkeypatch, distance, opposite):
    X, y = rows_of(5, 80)
    rng = np.random.default_rng(1)
    X = np.vstack([X, X[:50] + distance * rng.normal(size=(50, X.shape[1]))])
    y = np.concatenate([y, -y[:50] if opposite else y[:50]])
    F = coordinates(X)
    both(monkeypatch, F, y, direct=False, **soft(F))


@pytest.mark.parametrize("rank", [40, 100])
def test_fewer_columns_than_rows(monkeypatch, rank):
    X, y = rows_of(6, 150)
    F = coordinates(X, rank=rank)
    assert F.shape[1] == rank
    both(monkeypatch, F, y, **soft(F))


@pytest.mark.parametrize("r", [0.01, 1 - 1e-4, 1 - 1e-6])
def test_ridges_from_large_to_tiny(monkeypatch, r):
    X, y = rows_of(7, 140)
    F = coordinates(X)
    both(monkeypatch, F, y, direct=False, **soft(F, r))


def test_weights_are_prices_of_slack(monkeypatch):
    X, y = rows_of(8, 120)
    F = coordinates(X)
    problem = soft(F)
    weights = np.random.default_rng(0).integers(0, 4, 120).astype(float)
    weights[:2] = 1.0
    problem["caps"] = problem["caps"] * weights
    found, _ = both(monkeypatch, F, y, direct=False, **problem)
    assert np.all(found.alpha[weights == 0.0] == 0.0)


def test_weights_of_very_different_sizes_do_not_exhaust_patience():
    X, y = rows_of(0, 110)
    F = coordinates(X, 20.0)
    problem = soft(F, nu=0.0023)
    problem["caps"] *= 10.0 ** np.random.default_rng(0).uniform(-3.0, 3.0, len(y))
    found = solve_ellipsoidal_svm(F, y, **problem, solver="ipm")
    assert found.status == "converged"
    # The gap rises for a while on the way to the central path; to start afresh takes hundreds.
    assert found.n_iter <= 50


@pytest.mark.parametrize("n", [30, 120])
def test_small_caps_take_no_more_steps(n):
    X, y = rows_of(0, n)
    F = coordinates(X, 3.0)
    problem = soft(F, r=1 - 1e-9, nu=30.0)
    problem["caps"] *= 10.0 ** np.random.default_rng(0).uniform(-3.0, 0.0, n)
    found = solve_ellipsoidal_svm(F, y, **problem, solver="ipm", options=NO_MODELS)
    assert found.status == "converged"
    assert found.n_iter <= 20


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_scale_of_the_rows_does_not_matter(scale):
    X, y = rows_of(9, 120)
    F = coordinates(X)
    one = solve_ellipsoidal_svm(F, y, **soft(F))
    other = solve_ellipsoidal_svm(scale * F, y, **soft(scale * F))
    assert one.n_iter == other.n_iter
    np.testing.assert_allclose(one.w, other.w, atol=1e-5)
    assert one.gap == pytest.approx(other.gap, abs=2e-7)


def test_single_precision_rows_are_certified_in_double():
    X, y = rows_of(10, 250)
    F = coordinates(X)
    one = solve_ellipsoidal_svm(F.astype(np.float32), y, **soft(F))
    other = solve_ellipsoidal_svm(F.astype(np.float32).astype(np.float64), y, **soft(F))
    assert one.status == "converged"
    assert one.gap == pytest.approx(other.gap, abs=1e-9)
    assert one.objective == pytest.approx(other.objective, rel=1e-12)


def certified_hard(F, y, **given):
    """Solve in the kernel form, and certify by dense matrices."""
    problem = hard(F)
    found = solve_ellipsoidal_svm(F, y, **problem, **given, solver="ipm")
    assert found.status == "converged"
    r, p = problem["r"], F.shape[1]
    M = (1.0 - r) * np.eye(p) + F.T @ ((found.alpha * problem["pi"])[:, None] * F)
    dual = r * np.linalg.slogdet(M)[1] + r * p * (1.0 - np.log(r))
    dual -= np.linalg.norm((found.alpha * y) @ F)
    B = r * np.linalg.inv(M)
    q = problem["pi"] * np.einsum("ij,jk,ik->i", F, B, F)
    shrink = min(1.0, float(np.min(y * (F @ found.w + found.b) / q)))
    assert shrink > 0.0
    primal = -r * (np.linalg.slogdet(B)[1] + p * np.log(shrink)) + (1 - r) * shrink * np.trace(B)
    assert -1e-9 <= (primal - dual) / (r * p) <= 2.0 * TOL
    assert np.linalg.norm(found.w) <= 1.0 + 1e-12
    assert np.all(found.alpha >= 0.0)
    return found


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_hard_margins(noise, intercept):
    X, y = rows_of(11, 150, noise=noise)
    F = coordinates(X, width=2.0)
    found = certified_hard(F, y, fit_intercept=intercept)
    assert found.n_iter <= 40
    if intercept:
        assert abs(y @ found.alpha) <= 1e-9 * found.alpha.sum()


@pytest.mark.parametrize("distance", [1e-6, 1e-4, 1e-2])
def test_hard_margins_with_rows_that_nearly_repeat_each_other(distance):
    X, y = rows_of(12, 80, noise=0.2)
    rng = np.random.default_rng(2)
    X = np.vstack([X, X[:40] + distance * rng.normal(size=(40, X.shape[1]))])
    certified_hard(coordinates(X, width=2.0), np.concatenate([y, y[:40]]))


def test_hard_margin_where_the_kernel_form_has_no_digits_left():
    # The rounding of a kernel matrix this smooth is larger than the tolerance.
    X, y = rows_of(0, 500, d=8, noise=0.0)
    found = certified_hard(coordinates(X), y)
    assert found.n_iter <= 40


def test_hard_margins_that_do_not_exist():
    X, y = rows_of(13, 120)
    F = coordinates(np.vstack([X, X[:1]]))
    found = solve_ellipsoidal_svm(F, np.append(y, -y[0]), **hard(F), solver="ipm")
    assert found.status == "inseparable"


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_copies_of_rows_with_the_other_label(seed):
    # Their weights grow without bound, and leave the others nothing to say in the moments.
    X, y = rows_of(seed, 60)
    X[52:], y[:] = X[:8], -1.0
    y[:5] = 1.0
    F = coordinates(X, 20.0)
    found = solve_ellipsoidal_svm(F, y, **hard(F, 1 - 1e-9), solver="ipm", tol=1e-3)
    assert found.status == "inseparable"
    assert np.isfinite(found.dual_objective)


def model_slopes(coupling, alpha, start, q, r):
    move = alpha - start
    x = q * move / r
    edge = -0.4
    inner = np.maximum(x, edge)
    beta = (r / q) * (inner / (1 + inner) + np.minimum(x - edge, 0.0) / (1 + edge) ** 2)
    return q / (1 + x) - (coupling @ beta) / (1 + inner) ** 2


@given(seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_pairs_reach_the_conditions_of_the_model(seed):
    rng = np.random.default_rng(seed)
    n, r, tol = 40, 0.9, 1e-4
    F = rng.normal(size=(n, n)) / np.sqrt(n)
    y = np.where(rng.random(n) > 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    start = stated.balanced(rng.uniform(0.3, 0.6, n), y)
    K = F @ F.T
    Q = r * F @ np.linalg.solve(0.1 * np.eye(n) + F.T @ (start[:, None] * F), F.T)
    q, coupling = Q.diagonal().copy(), Q**2 / r
    np.fill_diagonal(coupling, 0.0)
    bounds = np.full(n, 1e-6), np.full(n, 1.0)
    single, products = K.astype(np.float32), Q.astype(np.float32)
    alpha, steps = maximise_by_pairs(
        single, products, y, bounds, start, start, q, K @ (y * start), r, tol, 10_000, EsvmOptions()
    )
    assert 0 < steps < 10_000
    assert np.all((alpha >= bounds[0]) & (alpha <= bounds[1]))
    assert y @ alpha == pytest.approx(0.0, abs=1e-10)
    g = K @ (y * alpha)
    h = g / np.sqrt((y * alpha) @ g) - y * model_slopes(coupling, alpha, start, q, r)
    rises, falls = alpha < bounds[1], alpha > bounds[0]
    lowest = h[np.where(y > 0, rises, falls)].min()
    highest = h[np.where(y > 0, falls, rises)].max()
    assert highest - lowest <= 2.0 * tol


def test_certificate_of_many_columns_is_that_of_few():
    X, y = rows_of(15, 260)
    F = coordinates(X)
    problem = soft(F)
    stated_problem = EsvmProblem(F, y, problem["caps"], problem["pi"], 0.99, True, TOL, 100)
    alpha = 0.3 * problem["caps"]
    alpha[::3] = 0.0
    wide = stated_problem.certify(alpha)
    plain = replace(stated_problem, options=EsvmOptions(wide=10**6)).certify(alpha)
    assert wide.dual == pytest.approx(plain.dual, rel=1e-12)
    assert wide.gap == pytest.approx(plain.gap, rel=1e-9)
    np.testing.assert_allclose(wide.q, plain.q, rtol=1e-8)
    np.testing.assert_allclose(wide.G, plain.G, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(np.triu(wide.G, 1), 0.0)
