"""Every rule against a convex solver on the problem of one round, and the forms of one rule."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from scipy.special import ndtri

from oblong.solvers.online.rows import Rows
from oblong.solvers.online.rules import (
    arow,
    classical_ellipsoid,
    confidence_weighted,
    improved_ellipsoid,
    normal_herd,
    passive_aggressive,
    soft_confidence_weighted,
)
from oblong.solvers.online.slots import DIAGONAL, FULL, NONE, SINGLE
from oblong.solvers.online.state import OnlineState

PHI = float(ndtri(0.9))


def given(rng, rule, structure=FULL, d=4):
    """A model with some random weights and shape, and an example."""
    state = OnlineState.initial(rule, d, 1, structure=structure, task=SINGLE, bias=0.0)
    A = rng.normal(size=(d, d))
    state.table[1 : d + 1, 0] = rng.normal(size=d)
    if structure == FULL:
        state.covariance[0, 1 : d + 1, 1 : d + 1] = A @ A.T / d + 0.2 * np.eye(d)
    elif structure == DIAGONAL:
        state.table[1 : d + 1, 1] = rng.uniform(0.2, 2.0, d)
    return state, rng.normal(size=d), float(rng.choice([-1, 1]))


def parts(state):
    # There may be room for more features.
    known = slice(1, state.n_features + 1)
    S = state.covariance[0, known, known] * state.sigma[0] if state.structure == FULL else None
    return state.table[known, 0].copy(), None if S is None else S.copy()


def present(state, x, y, weight=1.0):
    labels = np.array([[int(y > 0)]], dtype=np.int32)
    state.learn(Rows.of(x[None]), labels, np.array([weight]))
    return parts(state)


def solve(problem):
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    assert problem.status in ("optimal", "optimal_inaccurate")


def root(S):
    values, vectors = np.linalg.eigh(S)
    return (vectors * np.sqrt(values)) @ vectors.T


def divergence(w, S, mu, sigma=None, deviation=None):
    """Twice the divergence of the new Gaussian from the old, in Σ or in its square root."""
    R = root(np.linalg.inv(S))
    distance = cp.sum_squares(R @ (mu - w))
    if sigma is not None:
        return distance + cp.trace(np.linalg.inv(S) @ sigma) - cp.log_det(sigma)
    return distance + cp.sum_squares(R @ deviation) - 2 * cp.log_det(deviation)


def cw_reference(w, S, x, y, kind, C=None):
    d = len(x)
    mu, matrix = cp.Variable(d), cp.Variable((d, d), PSD=True)
    margin = y * (x @ mu)
    if kind == "var":
        objective = 0.5 * divergence(w, S, mu, sigma=matrix)
        constraints = [margin >= PHI * (x @ matrix @ x)]
    else:
        objective = 0.5 * divergence(w, S, mu, deviation=matrix)
        spread = PHI * cp.norm(matrix @ x)
        constraints = [margin >= spread] if kind == "stdev" else []
        if kind == "soft1":
            objective = objective + C * cp.pos(spread - margin)
        elif kind == "soft2":
            objective = objective + C * cp.square(cp.pos(spread - margin))
    solve(cp.Problem(cp.Minimize(objective), constraints))
    return mu.value, matrix.value if kind == "var" else matrix.value @ matrix.value


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        (confidence_weighted(PHI), "stdev"),
        (confidence_weighted(PHI, of_variance=True), "var"),
        (soft_confidence_weighted(PHI, 0.4), "soft1"),
        (soft_confidence_weighted(PHI, 0.4, squared=True), "soft2"),
    ],
)
def test_confidence_weighted(rule, kind, seed):
    state, x, y = given(np.random.default_rng(seed), rule)
    w, S = parts(state)
    mu, sigma = cw_reference(w, S, x, y, kind, 0.4)
    new_w, new_S = present(state, x, y)
    np.testing.assert_allclose(new_w, mu, atol=2e-4)
    np.testing.assert_allclose(new_S, sigma, atol=3e-4)
    if kind == "stdev" and state.updates:
        assert y * (new_w @ x) == pytest.approx(PHI * np.sqrt(x @ new_S @ x), rel=1e-10)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_arow(seed, weight):
    r = 0.7
    state, x, y = given(np.random.default_rng(seed), arow(r))
    w, S = parts(state)
    mu, sigma = cp.Variable(4), cp.Variable((4, 4), PSD=True)
    hinge = cp.square(cp.pos(1 - y * (x @ mu)))
    # Without a loss the example is left alone, though its variance has a price.
    price = weight * (y * (w @ x) < 1.0)
    cost = price / (2 * r) * (hinge + x @ sigma @ x)
    solve(cp.Problem(cp.Minimize(0.5 * divergence(w, S, mu, sigma=sigma) + cost)))
    new_w, new_S = present(state, x, y, weight)
    np.testing.assert_allclose(new_w, mu.value, atol=1e-4)
    np.testing.assert_allclose(new_S, sigma.value, atol=2e-4)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("variant", [0, 1, 2])
def test_passive_aggressive(seed, variant):
    C, weight = 0.15, 0.6 if variant else 1.0
    cap, ridge = (C if variant == 1 else np.inf), (0.5 / C if variant == 2 else 0.0)
    rule = passive_aggressive(cap=cap, ridge=ridge, soft=variant > 0)
    state, x, y = given(np.random.default_rng(seed), rule, NONE)
    w, _ = parts(state)
    v, slack = cp.Variable(4), cp.Variable(nonneg=True)
    cost = {0: 0.0, 1: weight * C * slack, 2: weight * C * cp.square(slack)}[variant]
    room = slack if variant else 0.0
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(v - w) + cost), [y * (x @ v) >= 1 - room])
    solve(problem)
    np.testing.assert_allclose(present(state, x, y, weight)[0], v.value, atol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_herding_maps_the_gaussian_linearly(seed):
    C = 0.6
    state, x, y = given(np.random.default_rng(seed), normal_herd(C))
    w, S = parts(state)
    new_w, new_S = present(state, x, y)
    if not state.updates:
        pytest.skip("no update")
    v = x @ S @ x
    T = np.eye(4) - np.outer(S @ x, x) / (v + 1 / C)
    np.testing.assert_allclose(new_S, T @ S @ T.T, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(new_w, w + (1 - y * (w @ x)) * y * S @ x / (v + 1 / C), rtol=1e-12)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("smallest", [False, True])
def test_ellipsoid_contains_what_the_cut_leaves(seed, smallest):
    rng = np.random.default_rng(seed)
    cut = 0.05
    state, x, y = given(rng, classical_ellipsoid(cut, 4, limit=cut, smallest=smallest, skips=True))
    w, S = parts(state)
    w = state.table[1 : len(w) + 1, 0] = w * 0.1
    new_w, new_S = present(state, x, y)
    assert state.updates + state.health.resets <= 1
    directions = rng.normal(size=(20_000, 4))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    points = w + directions @ root(S) * rng.uniform(0.7, 1.0, (20_000, 1))
    points = points[y * (points @ x) >= cut]
    away = points - new_w
    assert np.einsum("ij,ij->i", away @ np.linalg.inv(new_S), away).max(initial=0) <= 1 + 1e-9
    if smallest and state.updates:
        assert np.linalg.det(new_S) < np.linalg.det(S)


@pytest.mark.parametrize("seed", range(4))
def test_classical_ellipsoid_by_the_formula(seed):
    state, x, y = given(
        np.random.default_rng(seed), classical_ellipsoid(0.05, 4, limit=0.05, skips=True)
    )
    state.table[1:, 0] *= 0.05
    w, S = parts(state)
    new_w, new_S = present(state, x, y)
    v = x @ S @ x
    A = (0.05 - y * (w @ x)) / np.sqrt(v)
    if not 0 < A < 1:
        pytest.skip("no cut")
    g = S @ x / np.sqrt(v)
    np.testing.assert_allclose(new_w, w + A * y * g, rtol=1e-12)
    np.testing.assert_allclose(new_S, (1 - A**2) * (S - 2 * A / (1 + A) * np.outer(g, g)))


def test_improved_ellipsoid_by_the_formula():
    rng = np.random.default_rng(0)
    c, b, gamma = 0.2, 0.5, 0.3
    state, _, _ = given(rng, improved_ellipsoid(gamma, c, b, limit=gamma))
    w, S = parts(state)
    for _ in range(30):
        x, y = rng.normal(size=4), float(rng.choice([-1, 1]))
        if y * (w @ x) < gamma:
            v = x @ S @ x
            w = w + (gamma - y * (w @ x)) / v * y * S @ x
            S = (S - c / v * np.outer(S @ x, S @ x)) / (1 - c)
            c *= b
        new_w, new_S = present(state, x, y)
        np.testing.assert_allclose(new_w, w, rtol=1e-10)
        np.testing.assert_allclose(new_S, S, rtol=1e-10)
    assert state.updates > 5


RULES = {
    "AROW": arow(0.7),
    "NHERD": normal_herd(0.6),
    "CW-Stdev": confidence_weighted(PHI),
    "CW-Var": confidence_weighted(PHI, of_variance=True),
    "SCW-I": soft_confidence_weighted(PHI, 0.5),
    "SCW-II": soft_confidence_weighted(PHI, 0.5, squared=True),
    "CELLIP": classical_ellipsoid(0.3, 4, limit=0.3),
    "IELLIP": improved_ellipsoid(0.3, 0.2, 0.9, limit=0.3),
}


@pytest.mark.parametrize("name", RULES)
def test_full_and_diagonal_agree_on_one_feature_at_a_time(name):
    """Examples along the axes keep a full shape diagonal."""
    rng = np.random.default_rng(1)
    full, _, _ = given(rng, RULES[name], FULL)
    diagonal, _, _ = given(rng, RULES[name], DIAGONAL)
    full.table[1:5, 0] = diagonal.table[1:, 0]
    full.covariance[0, 1:5, 1:5] = np.diag(diagonal.table[1:, 1])
    for _ in range(40):
        x = np.zeros(4)
        x[rng.integers(4)] = rng.normal()
        y = float(rng.choice([-1, 1]))
        present(full, x, y)
        present(diagonal, x, y)
    np.testing.assert_allclose(diagonal.weights(), full.weights(), rtol=1e-11)
    np.testing.assert_allclose(diagonal.diagonal()[1:], full.diagonal()[1:], rtol=1e-11)
    assert full.updates > 3


@pytest.mark.parametrize("name", RULES)
def test_diagonal_projects_the_precision(name):
    """The new diagonal precision is the diagonal of the precision of the full update."""
    rng = np.random.default_rng(2)
    for _ in range(10):
        diagonal, x, y = given(rng, RULES[name], DIAGONAL)
        full, _, _ = given(rng, RULES[name], FULL)
        full.table[1:5, 0] = diagonal.table[1:, 0]
        full.covariance[0, 1:5, 1:5] = np.diag(diagonal.table[1:, 1])
        present(full, x, y)
        present(diagonal, x, y)
        np.testing.assert_allclose(diagonal.weights(), full.weights(), rtol=1e-11)
        precision = np.linalg.inv(parts(full)[1]).diagonal()
        np.testing.assert_allclose(1 / diagonal.diagonal()[1:, 0], precision, rtol=1e-11)


def test_the_variance_of_soft_confidence_falls_too_fast_to_go_on_learning():
    """While the cap holds, 1/√v grows by Cφ/2 an update, and the steps add up to a finite sum."""
    C = 0.7
    state, _, _ = given(np.random.default_rng(0), soft_confidence_weighted(PHI, C), d=1)
    state.table[1, 0] = -50.0
    x, moves = np.ones(1), [-50.0]
    for _ in range(400):
        present(state, x, 1.0)
        moves.append(float(state.table[1, 0]))
    growth = np.diff([1 / np.sqrt(parts(state)[1][0, 0]) for _ in range(3) if present(state, x, 1)])
    np.testing.assert_allclose(growth, C * PHI / 2, rtol=0.01)
    # Steps C v of the order 1/n²: twice as many updates halve what is left to come.
    assert moves[-1] < -40.0
    assert moves[400] - moves[200] < 0.6 * (moves[200] - moves[100])
