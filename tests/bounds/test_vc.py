"""Estimates of the VC dimension in a ball and in an ellipsoid."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from oblong import EllipsoidalKernelClassifier
from oblong.bounds import (
    shattering_margin,
    shattering_triangle,
    vc_ellipsoid,
    vc_gap_tolerant,
    vc_sphere,
)
from oblong.datasets import make_parallel_lines
from tests.reference.ellipsoidal_kernel import enclosing_ball, widest_street


def toy(seed=0):
    """Draw the separable toy of section 5.1, every feature between zero and one."""
    rng = np.random.default_rng(seed)
    spread = np.linalg.cholesky([[17.0, 15.0], [15.0, 17.0]])
    X = np.repeat([[1.0, 1.0], [50.0, 25.0]], 50, axis=0) + rng.normal(size=(100, 2)) @ spread.T
    return (X - X.min(axis=0)) / np.ptp(X, axis=0), np.repeat([0, 1], 50)


# Three points in the plane ------------------------------------------------------------------------


def smallest_street(P):
    """Width at which every labelling of a triangle can be told apart: its shortest way across."""

    def distance(p, a, b):
        along = np.clip((p - a) @ (b - a) / max((b - a) @ (b - a), 1e-300), 0, 1)
        return np.linalg.norm(p - a - along * (b - a))

    return min(distance(P[i], P[i - 1], P[i - 2]) for i in range(3))


@pytest.mark.parametrize(
    ("a", "margin"), [(1, 1.5), (1.2, 1.62406015), (2, 1.84615385), (5, 1.97368421)]
)
def test_three_points_in_an_ellipse(a, margin):
    assert shattering_margin(a, 1.0) == pytest.approx(margin, abs=1e-8)
    P = shattering_triangle(a, 1.0)
    np.testing.assert_allclose(P[:, 0] ** 2 / a**2 + P[:, 1] ** 2, 1.0, rtol=1e-12)
    sides = np.linalg.norm(P - np.roll(P, 1, axis=0), axis=1)
    np.testing.assert_allclose(sides, sides[0], rtol=1e-12)
    assert smallest_street(P) == pytest.approx(margin, abs=1e-8)
    # Nowhere on the ellipse is there a better triangle.
    rng = np.random.default_rng(0)
    best = 0.0
    for _ in range(12):
        found = minimize(
            lambda t: -smallest_street(np.column_stack([a * np.cos(t), np.sin(t)])),
            rng.uniform(0, 2 * np.pi, 3),
            method="Nelder-Mead",
            options={"xatol": 1e-8, "fatol": 1e-10, "maxiter": 2000},
        )
        best = max(best, -found.fun)
    assert best == pytest.approx(margin, abs=1e-5)


@given(a=st.floats(1e-3, 1e3), share=st.floats(1e-3, 1.0))
def test_an_ellipse_holds_less_than_its_circle(a, share):
    b = share * a
    margin = shattering_margin(a, b)
    assert margin == pytest.approx(6 * a**2 * b / (b**2 + 3 * a**2), rel=1e-12)
    assert margin <= shattering_margin(a, a) * (1 + 1e-12)
    assert shattering_margin(a, a) == pytest.approx(1.5 * a)


def test_shattering_at_a_margin_in_between():
    """At a margin between the two, the circle holds three points and the ellipse only two."""
    between = 0.5 * (shattering_margin(2.0, 1.0) + shattering_margin(2.0, 2.0))
    assert vc_gap_tolerant(diameter=4.0, margin=between, n_features=2) == 3
    for points, size in ((shattering_triangle(2.0, 2.0), 2.0), (shattering_triangle(2.0, 1.0), 1)):
        for odd in range(3):
            y = np.arange(3) == odd
            assert (vc_sphere(points, y).margin >= between) == (size == 2.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0.0, 1.0), "a must"), ((1.0, -1.0), "b must"), ((1.0, 2.0), "larger half-axis")],
)
def test_bad_axes(arguments, message):
    with pytest.raises(ValueError, match=message):
        shattering_margin(*arguments)


# Balls --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("diameter", "margin", "n_features", "expected"),
    [
        (2.0, 1.5, 10, 3),
        (2.0, 2.0, 10, 2),
        (2.0, 1.0, 10, 5),
        (2.0, 0.5, 3, 4),
        (0.0, 1.0, 3, 1),
        (1e200, 1e-200, 7, 8),
        (np.sqrt(3.0), 1.0, 9, 4),
    ],
)
def test_gap_tolerant(diameter, margin, n_features, expected):
    found = vc_gap_tolerant(diameter=diameter, margin=margin, n_features=n_features)
    assert found == expected
    assert isinstance(found, int)


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"diameter": -1.0}, "diameter"),
        ({"margin": 0.0}, "margin"),
        ({"n_features": 0}, "n_features"),
        ({"n_features": 1.5}, "n_features"),
    ],
)
def test_gap_tolerant_bad_input(changed, name):
    with pytest.raises(ValueError, match=name):
        vc_gap_tolerant(**{"diameter": 1.0, "margin": 1.0, "n_features": 2, **changed})


@pytest.mark.parametrize("seed", range(4))
def test_sphere_agrees_with_a_conic_solver(seed):
    X, y = toy(seed)
    found = vc_sphere(X, y)
    _, radius = enclosing_ball(X)
    margin = widest_street(X, 2.0 * y - 1.0)
    assert found.radius == pytest.approx(radius, rel=1e-6)
    assert found.margin == pytest.approx(margin, rel=1e-6)
    assert found.ratio == pytest.approx((2 * radius / margin) ** 2, rel=1e-5)
    assert found.value == int(found) == min(int(np.ceil(found.ratio)), 2) + 1
    assert 0 <= found.gap < 1e-7


@pytest.mark.parametrize("seed", range(4))
def test_ellipsoid_is_the_sphere_after_the_map(seed):
    X, y = toy(seed)
    found = vc_ellipsoid(X, y)
    machine = EllipsoidalKernelClassifier(kernel="linear", C=1e8, tol=1e-8, estimator_tol=1e-9)
    machine.fit(X, y)
    w = machine.coef_[0]
    assert found.radius <= 1 + 1e-9
    assert found.margin == pytest.approx(2 / np.sqrt(w @ machine.ellipsoid_.shape_ @ w), rel=1e-5)
    assert found.ratio < vc_sphere(X, y).ratio


def test_coverage_and_center():
    X, y = toy()
    tight = vc_ellipsoid(X, y, coverage=0.7)
    assert tight.radius > 1.0
    assert tight.ratio == pytest.approx((2 * tight.radius / tight.margin) ** 2, rel=1e-9)
    for kernel, rows in (("linear", X), ("precomputed", X @ X.T)):
        fixed = vc_ellipsoid(rows, y, center=False, kernel=kernel)
        machine = EllipsoidalKernelClassifier(kernel="linear", center=False, C=1e8, tol=1e-8)
        w = machine.fit(X, y).coef_[0]
        width = 2 / np.sqrt(w @ machine.ellipsoid_.shape_ @ w)
        assert fixed.radius <= 1 + 1e-9
        assert fixed.margin == pytest.approx(width, rel=1e-4)


@given(seed=st.integers(0, 10**6), exponent=st.floats(0, 3))
def test_the_ellipsoid_sees_no_affine_map(seed, exponent):
    rng = np.random.default_rng(seed)
    X, y = make_parallel_lines(40, random_state=seed)
    G = np.linalg.qr(rng.normal(size=(2, 2)))[0] @ np.diag([1.0, 10.0**exponent])
    one, other = vc_ellipsoid(X, y), vc_ellipsoid(X @ G + rng.normal(size=2), y)
    assert other.ratio == pytest.approx(one.ratio, rel=1e-4)
    assert other.value == one.value or abs(one.ratio - round(one.ratio)) < 1e-3


def test_kernel_matrices():
    X, y = toy()
    one, other = vc_sphere(X, y), vc_sphere(X @ X.T, y, kernel="precomputed")
    assert other.ratio == pytest.approx(one.ratio, rel=1e-6)
    assert other.n_features == one.n_features == 2
    assert vc_ellipsoid(X @ X.T, y, kernel="precomputed").ratio == pytest.approx(
        vc_ellipsoid(X, y).ratio, rel=1e-5
    )


def test_flat_and_inseparable_data():
    X, y = toy()
    flat = np.column_stack([X, X[:, 0] + X[:, 1], np.full(100, 3.0)])
    assert vc_sphere(flat, y).n_features == 2
    assert vc_ellipsoid(flat, y).ratio == pytest.approx(vc_ellipsoid(X, y).ratio, rel=1e-6)
    mixed = vc_sphere(X, np.arange(100) % 2)
    assert mixed.ratio == np.inf
    assert mixed.margin == 0.0
    assert mixed.value == 3


@pytest.mark.parametrize("function", [vc_sphere, vc_ellipsoid])
def test_bad_input(function):
    X, y = toy()
    with pytest.raises(ValueError, match="two classes"):
        function(X, np.zeros(100))
    with pytest.raises(ValueError, match="inconsistent numbers"):
        function(X, y[:-1])
    with pytest.raises(ValueError, match="kernel must be"):
        function(X, y, kernel="rbf")
    with pytest.raises(ValueError, match="square"):
        function(X, y, kernel="precomputed")
    with pytest.raises(ValueError, match="coverage"):
        vc_ellipsoid(X, y, coverage=1.5)
