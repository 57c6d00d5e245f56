"""The pieces of the certificate, and the choice of the method."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from oblong.solvers.linear.problem import (
    LinearRows,
    best_bias,
    best_bound,
    certified,
)
from oblong.solvers.linear.relative import choose_method, solve_linear_relative_margin
from tests.solvers.linear.problems import FORMS, cloud, dual_value, make, primal_value, reference


@pytest.mark.parametrize("form", FORMS)
@given(seed=st.integers(0, 10_000), size=st.floats(0.0, 20.0))
def test_any_point_gives_a_certificate(form, seed, size):
    """Whatever weights and coefficients come in, feasible points come out."""
    rng = np.random.default_rng(seed)
    X, y = cloud(20, 3, seed=seed)
    problem = make(X, y, 2.0, FORMS[form])
    U = np.full(20, 5.0) if problem.U is None else problem.U
    if not problem.bounded:
        U = np.zeros(20)
    c = y * rng.uniform(-U, problem.C + U)
    result = certified(problem, size * rng.normal(size=3), c, max(1.0, problem.B % 1e9), 0)
    primal = primal_value(problem, X, result.coef, result.bias, result.t)
    centred = X - X.mean(axis=0) if problem.intercept else X
    assert result.objective == pytest.approx(primal, rel=1e-9)
    dual = dual_value(problem, centred, result.dual_coef)
    assert result.dual_objective == pytest.approx(dual, rel=1e-8, abs=1e-8)
    assert result.gap >= 0.0


@pytest.mark.parametrize("form", ["svm", "B", "relaxed"])
@pytest.mark.parametrize("seed", range(5))
def test_best_bias(form, seed):
    X, y = cloud(25, 2, seed=seed)
    problem = make(X, y, np.random.default_rng(seed).uniform(0.5, 2, 25), FORMS[form])
    u = 0.3 * (X - X.mean(axis=0)) @ np.ones(2)
    t = problem.B if problem.D is None else 1.2
    found = best_bias(problem, u, t)

    def loss(b):
        return primal_value(problem, u[:, None], np.ones(1), b, t)

    low, high = (-t - u.min(), t - u.max()) if form == "B" else (-5.0, 5.0)
    assert loss(found) <= min(loss(b) for b in np.linspace(low, high, 2001)) + 1e-9


def test_best_bias_of_an_interval_is_its_middle():
    X, y = np.zeros((2, 1)), np.array([1.0, -1.0])
    assert best_bias(make(X, y, 1.0, {}), np.array([0.2, -0.4]), np.inf) == pytest.approx(0.1)


@pytest.mark.parametrize("D", [0.1, 1.0, 2.5, 30.0])
def test_best_bound(D):
    rng = np.random.default_rng(0)
    f, U = 3 * rng.normal(size=30), rng.uniform(0, 0.5, size=30)
    t = best_bound(f, D, U)

    def cost(t):
        return D * t + U @ np.maximum(np.abs(f) - t, 0)

    assert t >= 1.0
    assert cost(t) <= min(cost(s) for s in np.linspace(1, 12, 5001)) + 1e-9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["C", "F", "csr"])
def test_rows(layout, dtype):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(700, 1100)) * (rng.random((700, 1100)) < 0.1)).astype(dtype)
    given_rows = sp.csr_array(X) if layout == "csr" else np.asarray(X, order=layout)
    rows = LinearRows(given_rows, threads=2)
    assert rows.chunk < 700
    X = X.astype(float)
    w, c = rng.normal(size=1100), rng.normal(size=700)
    np.testing.assert_allclose(rows.products(w), X @ w, atol=1e-10)
    np.testing.assert_allclose(rows.combination(c), c @ X, atol=1e-10)
    np.testing.assert_allclose(rows.squared_norms, (X**2).sum(axis=1), atol=1e-10)


def test_method_follows_the_shape():
    tall, wide = np.zeros((50, 10)), np.zeros((2, 5000))
    assert choose_method(tall) == choose_method(sp.csr_array(tall)) == "interior-point"
    assert choose_method(wide) == "interior-point"
    assert choose_method(np.broadcast_to(0.0, (4000, 4000))) == "descent"
    assert choose_method(sp.random(3000, 2000, 0.01, "csr")) == "descent"
    assert choose_method(sp.random(3000, 200, 0.5, "csr")) == "interior-point"


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("form", ["B", "D", "relaxed", "no intercept"])
@pytest.mark.parametrize("method", ["interior-point", "descent"])
def test_wide_rows(method, form):
    """The interior point turns wide rows into as many columns as there are rows."""
    X, y = cloud(15, 400, seed=3)
    options = make(X, y, 1.0, FORMS[form])
    found = solve_linear_relative_margin(
        X,
        y,
        options.C,
        method=method,
        tol=1e-6,
        D=options.D,
        U=options.U,
        B=options.B if options.D is None else None,
        intercept=options.intercept,
    )
    expected = reference(X, y, 1.0, FORMS[form])
    assert found.solution.objective == pytest.approx(expected.objective, rel=1e-6)
    value = primal_value(options, X, found.solution.coef, found.solution.bias, found.solution.t)
    assert value == pytest.approx(found.solution.objective, rel=1e-9)


@pytest.mark.parametrize("method", ["interior-point", "descent"])
def test_spread_and_its_limits(method):
    X, y = cloud(80, 4, seed=3)
    C = np.ones(80)
    options = {"method": method, "tol": 1e-7, "max_iter": 20_000}
    svm = solve_linear_relative_margin(X, y, C, spread=1.0, **options)
    assert pytest.approx(svm.theta) == svm.B
    free = solve_linear_relative_margin(X, y, C, D=0.0, **options)
    assert free.solution.objective == pytest.approx(svm.solution.objective, rel=1e-6)
    half = solve_linear_relative_margin(X, y, C, spread=0.5, **options)
    assert half.theta == pytest.approx(svm.theta, rel=1e-3)
    assert 1.0 + 0.5 * (half.theta - 1.0) == half.B
    given_B = solve_linear_relative_margin(X, y, C, B=half.B, **options)
    assert np.isnan(given_B.theta)
    assert given_B.solution.objective == pytest.approx(half.solution.objective, rel=1e-6)
    assert half.n_iter > half.solution.n_iter


@pytest.mark.parametrize("B", [1.05, 1.4])
def test_bound_and_price_are_two_names(B):
    """The price D = Σe of the machine with bound B brings back the bound B."""
    X, y = cloud(60, 4, seed=3)
    C = np.ones(60)
    bounded = solve_linear_relative_margin(X, y, C, B=B)
    a = y * bounded.solution.dual_coef
    D = float(np.abs(a - np.clip(a, 0, C)).sum())
    assert D > 0.01
    priced = solve_linear_relative_margin(X, y, C, D=D)
    assert pytest.approx(B, rel=1e-6) == priced.B
    np.testing.assert_allclose(priced.solution.coef, bounded.solution.coef, atol=1e-6)


@pytest.mark.parametrize("nu", [2.9, 4.3, 11.0])
def test_nu_bounds_the_outliers(nu):
    X, y = cloud(100, 4, seed=6)
    D = 5.0
    found = solve_linear_relative_margin(X, y, np.ones(100), D=D, U=np.full(100, D * nu / 100))
    assert found.B > 1.0
    sizes = np.abs(found.solution.outputs)
    assert np.mean(sizes > found.B + 1e-6) <= 1 / nu <= np.mean(sizes >= found.B - 1e-6)
