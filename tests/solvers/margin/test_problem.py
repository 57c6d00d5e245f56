"""The concave piecewise-linear terms against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.solvers.margin.problem import (
    Pieces,
    relative_margin_pieces,
    relaxed_margin_pieces,
    svm_pieces,
)
from tests.reference.margin import piece_values, slope_interval

Y = np.array([1.0, -1.0, 1.0, -1.0])
C = np.array([0.5, 1.0, 2.0, 3.0])


def _all(B):
    return svm_pieces(Y, C) if np.isinf(B) else relative_margin_pieces(Y, C, B)


@pytest.mark.parametrize("B", [1.0, 1.7, np.inf])
def test_shape(B):
    pieces = _all(B)
    assert pieces.breakpoints.shape == (4, 4)
    assert pieces.slopes.shape == (4, 3)
    assert np.all(np.diff(pieces.breakpoints[:, 1:3], axis=1) >= 0)
    assert np.all(pieces.breakpoints[:, 0] <= pieces.breakpoints[:, 1])
    assert np.all(pieces.breakpoints[:, 2] <= pieces.breakpoints[:, 3])
    assert np.all(np.diff(pieces.slopes, axis=1) <= 0)


@pytest.mark.parametrize("a", [-2.0, -0.1, 0.0, 0.3, 0.5, 1.0, 2.5, 7.0])
def test_relative_margin_term(a):
    """g = clip(a, 0, C) − B ([−a]₊ + [a − C]₊) with a = yc."""
    B = 1.7
    expected = np.clip(a, 0, C) - B * (np.maximum(-a, 0) + np.maximum(a - C, 0))
    assert _all(B).value(Y * a) == pytest.approx(expected)


def test_svm_term_inside_its_box():
    for share in (0.0, 0.4, 1.0):
        assert _all(np.inf).value(share * Y * C) == pytest.approx(share * C)


@pytest.mark.parametrize("f", [-1.7, -1.0, -0.2, 0.0, 0.9, 1.0, 1.2, 1.7])
@pytest.mark.parametrize("B", [1.7, np.inf])
def test_loss_is_the_hinge(B, f):
    outputs = np.full(4, f)
    assert _all(B).loss(outputs) == pytest.approx(C * np.maximum(1 - Y * f, 0))


@pytest.mark.parametrize("seed", range(5))
def test_loss_is_the_conjugate(seed):
    """h(f) = max over c of g(c) − cf, here over a fine grid of c."""
    rng = np.random.default_rng(seed)
    points = np.sort(rng.uniform(-2, 2, size=(4, 4)), axis=1)
    points[:, 0] -= 2
    points[:, 3] += 2
    pieces = Pieces(points, -np.sort(-rng.normal(size=(4, 3)), axis=1))
    f = rng.normal(size=4)
    grid = np.unique(np.concatenate([np.linspace(-4, 4, 401), points.ravel()]))
    best = [
        max(
            piece_values(np.full(4, c), pieces.breakpoints, pieces.slopes)[i] - c * f[i]
            for c in grid
        )
        for i in range(4)
    ]
    assert pieces.loss(f) == pytest.approx(np.array(best))


@pytest.mark.parametrize("B", [1.0, 1.7, np.inf])
def test_slopes_on_and_beside_breakpoints(B):
    pieces = _all(B)
    low, high = np.minimum(Y * C, 0), np.maximum(Y * C, 0)
    candidates = [low, high, (low + high) / 2, np.nextafter(low, high), np.nextafter(high, low)]
    if np.isfinite(B):
        candidates += [low - 1.0, high + 1.0, np.nextafter(low, -9.0), np.nextafter(high, 9.0)]
    for c in candidates:
        right, left = pieces.slopes_at(c)
        expected_right, expected_left = slope_interval(c, pieces.breakpoints, pieces.slopes)
        assert np.array_equal(right, expected_right)
        assert np.array_equal(left, expected_left)


def test_scale_into_the_bounds():
    f = np.array([0.5, -2.0, 3.4, 0.0])
    assert _all(1.7).bound_scale(f) == pytest.approx(0.5)
    assert _all(1.7).bound_scale(-f) == pytest.approx(0.5)
    assert _all(5.0).bound_scale(f) == pytest.approx(5.0 / 3.4)
    assert _all(np.inf).bound_scale(f) == np.inf


def test_take_keeps_rows_together():
    pieces = _all(1.7)
    rows = np.array([2, 0])
    part = pieces.take(rows)
    expected = relative_margin_pieces(Y[rows], C[rows], 1.7)
    assert np.array_equal(part.breakpoints, expected.breakpoints)
    assert np.array_equal(part.slopes, expected.slopes)


@pytest.mark.parametrize("B", [1.0, 1.7, np.inf])
@pytest.mark.parametrize("f", [-1.5, -1.0, 0.0, 1.0, 3.0])
def test_attained__coefficients_attain_the_loss(B, f):
    pieces, outputs = _all(B), np.full(4, f)
    c = pieces.attained(outputs)
    inside = np.abs(outputs) <= B
    expected = pieces.loss(outputs)
    assert (pieces.value(c) - c * outputs)[inside] == pytest.approx(expected[inside])
    assert np.isfinite(c).all()
    finite = [np.isin(c[i], pieces.breakpoints[i]) for i in range(4)]
    assert all(finite)


def test_dual__is_the_sum_of_the_terms_less_half_of_the_quadratic():
    rng = np.random.default_rng(0)
    F = rng.normal(size=(4, 2))
    c = Y * rng.uniform(0, C)
    expected = piece_values(c, *_all(1.7)).sum() - c @ F @ F.T @ c / 2
    assert _all(1.7).dual(c, F @ F.T @ c) == pytest.approx(expected, rel=1e-13)


def test_bounded__only_endless_domains_are():
    assert not _all(np.inf).bounded
    assert _all(1.7).bounded
    assert not relaxed_margin_pieces(Y, C, 1.7, 2.0).bounded
    assert relaxed_margin_pieces(Y, C, 1.7, np.inf).bounded


@pytest.mark.parametrize("f", [-3.0, -1.2, 0.3, 2.5])
def test_relaxed_margin_pieces__what_is_beyond_the_bound_costs(f):
    pieces = relaxed_margin_pieces(Y, C, 1.7, 0.25)
    expected = C * np.maximum(1 - Y * f, 0) + 0.25 * max(abs(f) - 1.7, 0.0)
    assert pieces.loss(np.full(4, f)) == pytest.approx(expected)


def test_svm_pieces__a_penalty_of_zero_fixes_the_coefficient():
    pieces = svm_pieces(Y, np.zeros(4))
    right, left = pieces.slopes_at(np.zeros(4))
    assert (right == -np.inf).all()
    assert (left == np.inf).all()
    assert not pieces.loss(np.full(4, -7.0)).any()
