"""The widest street: closed forms, a conic solver, and its certificate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oblong.solvers.margin.hard import solve_hard_margin
from tests.reference.ellipsoidal_kernel import widest_street


def street(n, d, width, seed=0):
    """Draw two classes with a street along some direction, far from the origin."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.logspace(0, 1, d)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    X[:, 0] = y * (0.5 * width + np.abs(X[:, 0]))
    return X @ np.linalg.qr(rng.normal(size=(d, d)))[0] + 20.0, y


def check(X, y, found):
    assert found.status == "converged"
    assert (y * (X @ found.coef + found.bias)).min() >= 1 - 1e-6
    assert found.margin == pytest.approx(2 / np.linalg.norm(found.coef), rel=1e-9)
    assert found.objective == pytest.approx(0.5 * found.coef @ found.coef, rel=1e-9)
    assert found.margin <= found.upper_bound * (1 + 1e-12)
    assert found.gap <= 1e-8


@pytest.mark.parametrize("width", [1e-3, 0.3, 5.0])
@pytest.mark.parametrize(("n", "d"), [(2, 2), (20, 2), (60, 5), (300, 20)])
def test_agrees_with_a_conic_solver(n, d, width):
    X, y = street(n, d, width)
    found = solve_hard_margin(X, y)
    check(X, y, found)
    assert found.margin >= width * (1 - 1e-9)
    assert found.margin == pytest.approx(widest_street(X, y), rel=1e-5)


def test_two_points():
    found = solve_hard_margin(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([-1.0, 1.0]))
    assert found.margin == pytest.approx(5.0, rel=1e-12)
    np.testing.assert_allclose(found.coef, [0.24, 0.32], rtol=1e-9)


@pytest.mark.parametrize(
    "X",
    [
        [[0.0], [1.0], [2.0], [3.0]],
        # The diagonals of a square, touching classes, rows that are all the same.
        [[0, 0], [0, 1], [1, 1], [1, 0]],
        [[0, 0], [0, 0], [1, 1], [2, 1]],
        [[1, 1]] * 4,
    ],
)
def test_no_street(X):
    found = solve_hard_margin(np.array(X, dtype=float), np.array([-1.0, 1.0, -1.0, 1.0]))
    assert found.status == "inseparable"
    assert found.margin == 0.0
    assert found.objective == np.inf
    assert found.gap == 0.0
    assert not found.coef.any()


@pytest.mark.large
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1e-6, 1.0, 1e6]))
def test_moves_with_the_points(seed, scale):
    X, y = street(20, 3, 0.5, seed)
    one, other = solve_hard_margin(X, y), solve_hard_margin(scale * X, -y)
    assert other.margin == pytest.approx(scale * one.margin, rel=1e-7)
    np.testing.assert_allclose(other.coef, -one.coef / scale, rtol=1e-4, atol=1e-6 / scale)
