"""The largest margin in units that differ from row to row."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import oblong.solvers.margin.scaled as scaled
from oblong.solvers.esvm.solve import solve_ellipsoidal_svm
from oblong.solvers.margin.hard import solve_hard_margin
from oblong.solvers.margin.options import MarginOptions
from oblong.solvers.margin.scaled import solve_scaled_margin


def problem(n=40, d=3, seed=0):
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(n, d)) * rng.uniform(0.2, 5, size=d)
    w = rng.normal(size=d)
    y = np.where(F @ w + 0.3 > 0, 1.0, -1.0)
    y[:2] = [1.0, -1.0]
    F += 0.3 * y[:, None] * w / np.linalg.norm(w)
    F[:2] += 5.0 * y[:2, None] * w / np.linalg.norm(w)
    return F, y, rng.uniform(0.5, 3, size=n)


def reference(F, y, sizes, fit_intercept):
    w, b, rho = cp.Variable(F.shape[1]), cp.Variable(), cp.Variable()
    limits = [cp.multiply(y, F @ w + b) >= rho * sizes, cp.norm(w) <= 1]
    limits += [] if fit_intercept else [b == 0]
    solved = cp.Problem(cp.Maximize(rho), limits)
    solved.solve(solver=cp.CLARABEL)
    return float(rho.value), w.value, float(b.value)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("d", [1, 3, 6])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_agrees_with_a_general_solver(seed, d, fit_intercept):
    F, y, sizes = problem(d=d, seed=seed)
    rho, w, b = reference(F, y, sizes, fit_intercept)
    if rho < 1e-3:
        pytest.skip("nothing separates these rows")
    result = solve_scaled_margin(F, y, sizes, fit_intercept=fit_intercept)
    assert result.margin == pytest.approx(rho, rel=1e-6)
    assert result.margin <= result.upper_bound * (1 + 1e-12)
    assert result.upper_bound == pytest.approx(rho, rel=1e-6)
    np.testing.assert_allclose(result.w, w, atol=1e-3)
    assert result.b == pytest.approx(b, abs=1e-3 * max(1.0, abs(b)))


def test_equal_units_are_the_widest_street():
    F, y, _ = problem()
    street = solve_hard_margin(F, y)
    result = solve_scaled_margin(1e3 * F, y, np.full(40, 10.0))
    assert result.margin == pytest.approx(100 * street.margin / 2, rel=1e-8)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_few_rows_at_a_time(fit_intercept):
    F, y, sizes = problem(300, d=4)
    whole = solve_scaled_margin(F, y, sizes, fit_intercept=fit_intercept)
    few = MarginOptions(scaled_rows=10)
    for start in (None, F @ whole.w + whole.b):
        parts = solve_scaled_margin(
            F, y, sizes, fit_intercept=fit_intercept, start=start, options=few
        )
        assert parts.margin == pytest.approx(whole.margin, rel=1e-8)


def test_a_row_without_size_only_takes_a_side():
    F, y = np.array([[1.0], [-1.0], [0.0]]), np.array([1.0, -1.0, 1.0])
    result = solve_scaled_margin(F, y, np.array([1.0, 1.0, 0.0]))
    assert result.margin == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("patience", [-1, 5])
def test_independent_rows_by_linear_systems(monkeypatch, seed, fit_intercept, patience):
    """Also with rows that are there twice, and by the interior point method instead."""
    monkeypatch.setattr(scaled, "_coefficients", None)
    F, y, sizes = problem(60, d=80, seed=seed)
    F, y, sizes = np.vstack([F, F[:3]]), np.append(y, y[:3]), np.append(sizes, sizes[:3])
    rho, w, _ = reference(F, y, sizes, fit_intercept)
    form = {"caps": np.full(len(y), np.inf), "pi": sizes, "r": 0.99}
    weights = solve_ellipsoidal_svm(F, y, **form, fit_intercept=fit_intercept).alpha
    task = {"fit_intercept": fit_intercept, "weights": weights}
    options = MarginOptions(pivot_from=0, pivot_patience=patience)
    result = solve_scaled_margin(F, y, sizes, **task, options=options)
    assert result.margin == pytest.approx(rho, rel=1e-6)
    assert result.margin <= result.upper_bound * (1 + 1e-12)
    assert result.upper_bound == pytest.approx(rho, rel=1e-6)
    np.testing.assert_allclose(result.w, w, atol=1e-3)
    sides = y * (F @ result.w + result.b) / sizes
    assert sides.min() == pytest.approx(result.margin, rel=1e-9)


def test_linear_systems_without_end_are_left():
    F, y, sizes = problem(60, d=80)
    options = MarginOptions(pivot_from=0, pivot_patience=-1)
    whole = solve_scaled_margin(F, y, sizes, options=MarginOptions(pivot_from=0))
    few = solve_scaled_margin(F, y, sizes, options=options)
    assert few.margin == pytest.approx(whole.margin, rel=1e-8)
    assert few.n_iter > whole.n_iter
    # Weights of a direction that separates nothing are no place to begin.
    lost = solve_scaled_margin(F, y, sizes, weights=np.zeros(60), options=options)
    assert lost.margin == few.margin
