"""Soft margins with a kernel: models of the dual agree with the interior point method."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oblong.solvers.esvm.interior_point as interior
import oblong.solvers.esvm.kernel.dual as models
from oblong.solvers.esvm.options import EsvmOptions
from oblong.solvers.esvm.solve import solve_ellipsoidal_svm
from tests.solvers.esvm.problems import NO_MODELS, TOL, coordinates, rows_of, soft


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
@pytest.mark.large
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
@pytest.mark.large
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


def test_gap_that_grows_is_left_to_the_interior_point(monkeypatch):
    # Rows in a plane are close to each other, and models of their weights lead far astray.
    rng = np.random.default_rng(1)
    angle = rng.uniform(0.0, 2.0 * np.pi, 300)
    y = np.where(np.arange(300) % 2 == 0, 1.0, -1.0)
    radius = np.where(y > 0, 0.5, 1.0)
    X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    X += 0.15 * rng.normal(size=X.shape)
    F = coordinates(X, width=5.0)
    seen = []
    before = models.KernelDual.evaluate

    def evaluate(self, *rest):
        found = before(self, *rest)
        seen.append(found.gap)
        return found

    monkeypatch.setattr(models.KernelDual, "evaluate", evaluate)
    both(monkeypatch, F, y, direct=False, **soft(F))
    assert len(seen) == 2
    assert seen[1] > max(1.0, 2.0 * seen[0])
