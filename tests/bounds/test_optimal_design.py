"""The A-optimal design and its certificate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oblong.bounds._optimal_design import _Search, solve_optimal_design
from tests.reference.bounds import complexity_rmm


def clouds(n, m, d, seed=0, decay=1.0):
    rng = np.random.default_rng(seed)
    lengths = np.logspace(0, -decay, d)
    return rng.normal(size=(n, d)) * lengths, rng.normal(size=(m, d)) * lengths


def value(V, G, D, p):
    M = (1 - D) * np.eye(V.shape[1]) + D * (V.T * p) @ V
    return np.trace(np.linalg.solve(M, G))


@pytest.mark.parametrize("D", [0.01, 0.5, 0.9, 0.999])
@pytest.mark.parametrize(("n", "m", "d"), [(1, 1, 2), (7, 3, 2), (30, 30, 4), (20, 60, 15)])
def test_agrees_with_a_semidefinite_program(n, m, d, D):
    X, V = clouds(n, m, d, seed=m)
    result = solve_optimal_design(V, X.T @ X, D)
    # With E = 1/2 the optimal multipliers are p √a, and n T2 = 2 √a.
    reference = (n * complexity_rmm(X, V, D, 0.5) / 2) ** 2
    assert result.status == "converged"
    assert result.objective == pytest.approx(reference, rel=1e-6)


@pytest.mark.parametrize("D", [0.3, 0.9, 0.999])
@pytest.mark.parametrize(("n", "m", "d"), [(50, 200, 3), (300, 300, 10), (100, 100, 60)])
def test_certificate(n, m, d, D):
    X, V = clouds(n, m, d)
    G = X.T @ X
    result = solve_optimal_design(V, G, D)
    assert result.status == "converged"
    assert 0 <= result.gap <= 1e-10
    p = result.weights
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert value(V, G, D, p) == pytest.approx(result.objective, rel=1e-12)
    # The derivative test, from scratch: no landmark promises more than those in use.
    M = (1 - D) * np.eye(d) + D * (V.T * p) @ V
    N = np.linalg.solve(M, np.linalg.solve(M, G).T)
    d_j = (1 - D) * np.trace(N) + D * np.einsum("ij,jk,ik->i", V, N, V)
    assert d_j.max() <= result.objective * (1 + 1e-9)
    assert result.lower_bound == pytest.approx(result.objective**2 / d_j.max(), rel=1e-9)


@given(
    seed=st.integers(0, 10**6),
    m=st.integers(1, 12),
    d=st.integers(1, 4),
    D=st.floats(0.0, 0.9999),
)
def test_no_other_weights_are_better_than_the_lower_bound(seed, m, d, D):
    X, V = clouds(5, m, d, seed=seed)
    G = X.T @ X
    rough = solve_optimal_design(V, G, D, max_iter=0)
    assert rough.objective == pytest.approx(value(V, G, D, np.full(m, 1 / m)), rel=1e-10)
    fine = solve_optimal_design(V, G, D)
    assert fine.gap <= 1e-10
    assert rough.lower_bound <= fine.objective * (1 + 1e-12)
    others = np.random.default_rng(seed).dirichlet(np.full(m, 0.5), size=20)
    best = min(value(V, G, D, p) for p in others)
    assert best >= fine.lower_bound * (1 - 1e-10)


def test_exchange_is_the_best_along_its_line():
    X, V = clouds(30, 8, 3, seed=4)
    G, D = X.T @ X, 0.9
    search = _Search(V, G, D, 0.0)
    search.evaluate()
    before, d = search.p.copy(), search.d.copy()
    assert search.exchange()
    k, j = d.argmax(), d.argmin()
    direction = np.zeros(8)
    direction[[k, j]] = 1, -1
    steps = np.linspace(0, before[j], 1001)
    values = [value(V, G, D, before + step * direction) for step in steps]
    assert value(V, G, D, search.p) <= min(values) * (1 + 1e-12)
    assert min(values) < values[0]
    # The update of rank two against a fresh start.
    inverse, N, t, a = search.inverse.copy(), search.N.copy(), search.t.copy(), search.a
    search.evaluate()
    assert a == pytest.approx(search.a, rel=1e-12)
    np.testing.assert_allclose(t, search.t, rtol=1e-9)
    np.testing.assert_allclose(inverse, search.inverse, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(N, search.N, rtol=1e-9, atol=1e-12)


def test_multiplicative_steps_descend():
    X, V = clouds(30, 40, 5, seed=5)
    search = _Search(V, X.T @ X, 0.99, 0.0)
    values = []
    for _ in range(30):
        search.evaluate()
        values.append(search.a)
        search.multiply()
    assert np.all(np.diff(values) < 0)


def test_the_rest_lies_outside_the_span():
    """Directions without landmarks, folded into a number, change nothing."""
    X, V = clouds(20, 9, 6, seed=6)
    V[:, 4:] = 0
    D = 0.95
    whole = solve_optimal_design(V, X.T @ X, D)
    rest = float(np.sum(X[:, 4:] ** 2))
    folded = solve_optimal_design(V[:, :4], X[:, :4].T @ X[:, :4], D, rest=rest)
    assert folded.objective == pytest.approx(whole.objective, rel=1e-9)


def test_duplicates_share_their_weight():
    X, V = clouds(20, 6, 3, seed=7)
    single = solve_optimal_design(V, X.T @ X, 0.9)
    double = solve_optimal_design(np.repeat(V, 3, axis=0), X.T @ X, 0.9)
    assert double.objective == pytest.approx(single.objective, rel=1e-9)
    pooled = double.weights.reshape(-1, 3).sum(axis=1)
    np.testing.assert_allclose(pooled, single.weights, atol=1e-4)


@pytest.mark.parametrize("D", [0.0, 0.7])
def test_nothing_to_choose(D):
    X, V = clouds(20, 5, 3, seed=8)
    nothing = solve_optimal_design(np.zeros((5, 3)), X.T @ X, D)
    assert nothing.objective == pytest.approx(np.sum(X**2) / (1 - D))
    assert (nothing.gap, nothing.n_iter) == (0.0, 0)
    no_rows = solve_optimal_design(V, np.zeros((3, 3)), D)
    assert (no_rows.objective, no_rows.gap) == (0.0, 0.0)


def test_limit_on_the_rounds():
    X, V = clouds(50, 200, 20)
    result = solve_optimal_design(V, X.T @ X, 0.999, max_iter=1)
    assert (result.status, result.n_iter) == ("max_iter", 1)
    assert result.gap > 1e-10
    finished = solve_optimal_design(V, X.T @ X, 0.999)
    assert result.lower_bound <= finished.objective <= result.objective
    impossible = solve_optimal_design(V, X.T @ X, 0.999, tol=-1.0)
    assert impossible.status == "stalled"
    assert impossible.gap <= 1e-12
