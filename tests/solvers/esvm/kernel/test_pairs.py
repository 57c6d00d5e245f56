"""Pairs of weights maximise a model of the dual."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oblong.solvers.esvm.kernel.pairs import move_pairs
from oblong.solvers.esvm.options import EsvmOptions
from oblong.solvers.esvm.problem import balanced


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
    start = balanced(rng.uniform(0.3, 0.6, n), y)
    K = F @ F.T
    Q = r * F @ np.linalg.solve(0.1 * np.eye(n) + F.T @ (start[:, None] * F), F.T)
    q, coupling = Q.diagonal().copy(), Q**2 / r
    np.fill_diagonal(coupling, 0.0)
    bounds = np.full(n, 1e-6), np.full(n, 1.0)
    single, products = K.astype(np.float32), Q.astype(np.float32)
    options, alpha = EsvmOptions(), start.copy()
    rules = options.pair_steps, options.pair_precision, options.linear_below
    model = single, products, y, *bounds, start
    steps = move_pairs(*model, alpha, q, K @ (y * start), r, tol, 10_000, rules)
    assert 0 < steps < 10_000
    assert np.all((alpha >= bounds[0]) & (alpha <= bounds[1]))
    assert y @ alpha == pytest.approx(0.0, abs=1e-10)
    g = K @ (y * alpha)
    h = g / np.sqrt((y * alpha) @ g) - y * model_slopes(coupling, alpha, start, q, r)
    rises, falls = alpha < bounds[1], alpha > bounds[0]
    lowest = h[np.where(y > 0, rises, falls)].min()
    highest = h[np.where(y > 0, falls, rises)].max()
    assert highest - lowest <= 2.0 * tol
