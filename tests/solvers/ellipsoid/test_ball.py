"""The smallest enclosing ball: closed forms, a conic solver, and its certificate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oblong.solvers.ellipsoid.ball import solve_enclosing_ball
from tests.reference.ellipsoidal_kernel import enclosing_ball


def draw(n, d, kind="normal", seed=0):
    rng = np.random.default_rng(seed)
    if kind == "heavy":
        return rng.standard_cauchy(size=(n, d))
    X = rng.normal(size=(n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True) if kind == "sphere" else X


def check_certificate(X, ball):
    """Recompute both sides of the gap from the result alone."""
    distances = np.linalg.norm(X - ball.center, axis=1)
    assert distances.max() <= ball.radius * (1 + 1e-12)
    u = ball.weights
    assert u.min() >= 0
    assert u.sum() == pytest.approx(1.0, abs=1e-12)
    middle = X - X.mean(axis=0)
    dual = u @ np.sum(middle**2, axis=1) - np.sum((u @ middle) ** 2)
    # Nearly equal squares cancel, so this way is good to a few digits less.
    assert ball.lower_bound**2 == pytest.approx(dual, rel=1e-9)
    assert ball.lower_bound <= ball.radius * (1 + 1e-12)
    assert ball.objective == ball.radius**2


@pytest.mark.parametrize("kind", ["normal", "sphere", "heavy"])
@pytest.mark.parametrize(("n", "d"), [(2, 3), (6, 1), (30, 2), (40, 5), (10, 30)])
def test_agrees_with_a_conic_solver(kind, n, d):
    for seed in range(3):
        X = draw(n, d, kind, seed)
        ball = solve_enclosing_ball(X)
        _, radius = enclosing_ball(X)
        assert ball.radius == pytest.approx(radius, rel=1e-6)
        assert ball.status == "converged"
        assert ball.gap <= 1e-9
        check_certificate(X, ball)


@pytest.mark.parametrize(
    ("points", "center", "radius"),
    [
        ([[0.0], [1.0], [4.0], [3.0]], [2.0], 2.0),
        ([[1, 1], [1, -1], [-1, 1], [-1, -1]], [0, 0], np.sqrt(2)),
        (np.eye(4), [0.25] * 4, np.sqrt(0.75)),
        # An obtuse triangle: two corners make the ball.
        ([[0, 0], [10, 0], [4, 1]], [5, 0], 5.0),
        ([[3.0, 4.0]], [3, 4], 0.0),
        ([[3.0, 4.0]] * 3, [3, 4], 0.0),
        ([[0, 0], [0, 0], [2, 0], [2, 0]], [1, 0], 1.0),
    ],
)
def test_closed_forms(points, center, radius):
    X = np.array(points, dtype=float)
    ball = solve_enclosing_ball(X)
    np.testing.assert_allclose(ball.center, center, atol=1e-12)
    assert ball.radius == pytest.approx(radius, abs=1e-12)
    assert abs(ball.gap) <= 1e-12


def test_many_points_take_few_passes():
    X = draw(20_000, 10)
    ball = solve_enclosing_ball(X)
    assert ball.n_passes <= 6
    assert ball.gap <= 1e-9
    assert np.count_nonzero(ball.weights) < 200
    check_certificate(X, ball)
    sphere = solve_enclosing_ball(draw(5000, 8, "sphere"))
    assert sphere.gap <= 1e-9
    assert sphere.n_passes <= 10


def test_single_precision_far_from_the_origin():
    X = (draw(200, 3) + 1000).astype(np.float32)
    ball = solve_enclosing_ball(X)
    exact = solve_enclosing_ball(X.astype(np.float64))
    assert ball.radius == pytest.approx(exact.radius, rel=1e-12)
    assert ball.gap <= 1e-9


def test_a_limit_on_passes_is_honest():
    X = draw(5000, 8, "sphere")
    ball = solve_enclosing_ball(X, max_iter=1)
    assert ball.status == "max_iter"
    assert ball.gap > 1e-9
    check_certificate(X, ball)


def test_overflow_is_an_error():
    with pytest.raises(ValueError, match="not finite"):
        solve_enclosing_ball(np.array([[1e200], [-1e200]]))


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 25),
    d=st.integers(1, 6),
    scale=st.sampled_from([1e-8, 1.0, 1e8]),
)
def test_moves_with_the_points(seed, n, d, scale):
    rng = np.random.default_rng(seed)
    # Whole numbers make duplicates and points on one sphere.
    X = rng.integers(-3, 4, size=(n, d)).astype(float)
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    shift = rng.normal(size=d)
    one, other = solve_enclosing_ball(X), solve_enclosing_ball(scale * (X @ Q + shift))
    assert other.radius == pytest.approx(scale * one.radius, rel=1e-8, abs=1e-300)
    np.testing.assert_allclose(other.center, scale * (one.center @ Q + shift), atol=1e-5 * scale)
    assert max(one.gap, other.gap) <= 1e-8
