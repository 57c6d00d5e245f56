"""The online ellipsoidal machine: projection, steps by hand, certificate, general convex solver."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from oblong.solvers.esvm.online.passes import project
from oblong.solvers.esvm.online.state import (
    OnlineEllipsoidalState,
    certify,
    largest_length,
    merge_models,
)
from oblong.solvers.online.rows import Rows


def problem(n=120, d=4, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(0.5, 2.0, d)
    y = (X @ rng.normal(size=d) + noise * rng.normal(size=n) > 0).astype(np.int32)
    return X, y[:, None]


def machine(d, n_outputs=1, **options):
    options = {"penalty": 10.0, "trace_bound": None, "unit": True, "batch_size": 5} | options
    return OnlineEllipsoidalState.initial(d, n_outputs, **options)


@given(
    seed=st.integers(0, 10_000),
    size=st.integers(1, 6),
    bound=st.floats(1e-3, 1e3),
    guess=st.sampled_from([0.0, 0.1, 10.0]),
)
@settings(max_examples=100, deadline=None)
def test_projection_restores_the_trace(seed, size, bound, guess):
    A = np.random.default_rng(seed).normal(size=(size + 2, size))
    P = A.T @ A
    before, B = P.copy(), np.empty_like(P)
    theta = project(P, B, bound, guess)
    np.testing.assert_allclose(P, before + theta * np.eye(size), rtol=1e-12)
    np.testing.assert_allclose(B @ P, np.eye(size), atol=1e-6)
    values = np.linalg.eigvalsh(before)
    if (1.0 / values).sum() <= bound:
        assert theta == 0.0
    else:
        assert np.trace(B) == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("bound", [None, 0.3, np.inf])
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_steps_by_hand(unit, bound, bias):
    """The algorithm once more, in plain NumPy."""
    X, labels = problem(60)
    Z = np.column_stack([np.ones(60), X]) if bias else X
    t = np.linalg.norm(Z, axis=1)
    U, tau, p = Z / t[:, None], (np.ones(60) if unit else t), Z.shape[1]
    y = np.where(labels[:, 0] == 1, 1.0, -1.0)
    model = machine(4, penalty=7.0, trace_bound=bound, unit=unit, batch_size=4, bias=bias)
    model.announce(float(tau.max()))
    model.learn(Rows.of(X), labels, np.ones(60))

    T = {None: 1.0 / tau.max()}.get(bound, bound)
    P = np.eye(p) * p / (T if np.isfinite(T) else 1.0 / tau.max())
    w, mean, total, pulls, steps, mistakes = np.zeros(p), np.zeros(p), 0, 0.0, 0, 0
    mean_B = np.zeros((p, p))
    while True:
        size = min(4, 1 + total // 4)
        rows = range(total, total + size)
        if rows.stop > 60:
            break
        B = np.linalg.inv(P)
        mistakes += sum(y[i] * (w @ U[i]) <= 0 for i in rows)
        hit = [i for i in rows if tau[i] * U[i] @ B @ U[i] >= y[i] * (w @ U[i])]
        total, steps = total + size, steps + 1
        eta = 0.5 if steps == 1 else size / total
        P = (1 - eta) * P + eta / size * 7.0 * sum(
            (tau[i] * np.outer(U[i], U[i]) for i in hit), np.zeros((p, p))
        )
        values = np.linalg.eigvalsh(P)
        low, high = 0.0, 1e6
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if (1 / (values + middle)).sum() > T else (low, middle)
        if (1 / values).sum() > T:
            P = P + high * np.eye(p)
        g = sum((y[i] * U[i] for i in hit), np.zeros(p)) / size
        pulls += g @ g
        w = w + 0.3 * g / np.sqrt(pulls) if pulls > 0 else w
        w = w / max(1.0, np.linalg.norm(w))
        mean += 2 / (steps + 1) * (w - mean)
        mean_B += 2 / (steps + 1) * (np.linalg.inv(P) - mean_B)
    assert model.updates == steps
    assert model.numbers[1] == total
    np.testing.assert_allclose(model.w[0], w, atol=1e-9)
    np.testing.assert_allclose(model.mean[0], mean, atol=1e-9)
    np.testing.assert_allclose(model.mean_B[0], mean_B, rtol=1e-6, atol=1e-9)
    left = y[total:] * (U[total:] @ w)
    assert model.mistakes == mistakes + (left <= 0).sum()


def solve_by_cvxpy(Z, y, tau, price, weights, bound):
    p = Z.shape[1]
    B, w = cp.Variable((p, p), PSD=True), cp.Variable(p)
    q = cp.hstack([t * (z @ B @ z) for t, z in zip(tau, Z)])
    loss = cp.pos(q - cp.multiply(y, Z @ w))
    objective = -cp.log_det(B) + price / weights.sum() * (weights @ loss)
    constraints = [cp.norm(w) <= 1]
    if np.isfinite(bound):
        constraints.append(cp.trace(B) <= bound)
    found = cp.Problem(cp.Minimize(objective), constraints)
    found.solve(solver=cp.CLARABEL)
    return found.value, w.value


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("bound", [None, 2.0, np.inf])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.large
def test_passes_reach_the_optimum(unit, bound, seed):
    """The certified values hold the optimum between them, and close in on it."""
    rng = np.random.default_rng(seed)
    X, labels = problem(40, 3, seed)
    weights = rng.integers(1, 3, 40).astype(float)
    Z = np.column_stack([np.ones(40), X])
    t = np.linalg.norm(Z, axis=1)
    tau = np.ones(40) if unit else t
    T = {None: 1.0 / tau.max()}.get(bound, bound)
    y = np.where(labels[:, 0] == 1, 1.0, -1.0)
    best, w = solve_by_cvxpy(Z / t[:, None], y, tau, 10.0, weights, T)
    model, hits = machine(3, trace_bound=bound, unit=unit), np.zeros((40, 2))
    model.announce(1.0 if unit else largest_length(X, 1.0))
    gaps = []
    for passes in (10, 90, 900):
        for _ in range(passes):
            model.learn(Rows.of(X), labels, weights, rng.permutation(40), hits)
        (found,) = certify(model, X, labels, weights, hits)
        assert found.dual_objective <= best + 1e-5
        assert found.objective >= best - 1e-5
        assert np.all((found.alpha >= 0) & (found.alpha <= 10.0 * weights / weights.sum() + 1e-12))
        gaps.append(found.gap)
    # One over the root of the number of steps, which grows tenfold.
    assert gaps[1] < gaps[0] / 2
    assert gaps[2] < gaps[1] / 2
    assert gaps[2] < 5e-3
    # The length hardly matters where the classes overlap.
    found = model.mean[0]
    assert found @ w > 0.99 * np.linalg.norm(found) * np.linalg.norm(w)


def test_sparse_rows_are_dense_rows():
    X, labels = problem(200, 8)
    X[np.random.default_rng(1).random(X.shape) < 0.6] = 0.0
    dense, sparse = machine(8), machine(8)
    dense.learn(Rows.of(X), labels, np.ones(200))
    sparse.learn(Rows.of(sp.csr_array(X)), labels, np.ones(200))
    np.testing.assert_allclose(sparse.mean, dense.mean, atol=1e-12)
    np.testing.assert_allclose(sparse.mean_B, dense.mean_B, atol=1e-12)
    hits = np.zeros((200, 2))
    dense.learn(Rows.of(X), labels, np.ones(200), hits=hits)
    one = certify(dense, X, labels, np.ones(200), hits)[0]
    other = certify(dense, sp.csr_array(X), labels, np.ones(200), hits)[0]
    assert one.gap == pytest.approx(other.gap, rel=1e-10)
    assert largest_length(sp.csr_array(X), 1.0) == pytest.approx(largest_length(X, 1.0))


def test_a_merged_machine_is_no_worse_than_the_mean_of_its_parts():
    X, labels = problem(300, 4)
    parts = []
    for i in range(3):
        part = machine(4)
        for _ in range(5):
            part.learn(Rows.of(X[i::3]), labels[i::3], np.ones(100))
        parts.append(part)
    merged = merge_models(parts)
    nothing = np.zeros((300, 2))
    values = [certify(part, X, labels, np.ones(300), nothing)[0].objective for part in parts]
    assert certify(merged, X, labels, np.ones(300), nothing)[0].objective <= np.mean(values)
    assert merged.rounds == 1500
    assert np.trace(merged.B[0]) <= 1.0 + 1e-9
    np.testing.assert_allclose(merged.B[0] @ merged.P[0], np.eye(5), atol=1e-9)
