from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.svm import SVC

from oblong.datasets import (
    make_bound_toys,
    make_parallel_lines,
    make_rotated_stripe,
    make_tilted_gaussians,
)

MEANS = np.array([[19.0, 13.0], [1.0, 1.0]])
COVARIANCE = np.array([[17.0, 15.0], [15.0, 17.0]])


@pytest.mark.parametrize("make", [make_parallel_lines, make_tilted_gaussians])
def test_conventions(make):
    X, y = make(7, random_state=3)
    assert X.shape == (7, 2)
    assert np.bincount(y).tolist() == [4, 3]
    again, _ = make(7, random_state=3)
    other, _ = make(7, random_state=4)
    np.testing.assert_array_equal(X, again)
    assert not np.array_equal(X, other)
    for bad in ({"n_samples": 1}, {"stretch": 0.0}, {"stretch": -1.0}):
        with pytest.raises(ValueError, match="=="):
            make(**bad)


def test_parallel_lines_geometry():
    X, y = make_parallel_lines(400, gap=0.7, offset=0.5, stretch=3.0, random_state=0)
    sign = 2 * y - 1
    np.testing.assert_allclose(X[:, 1] * sign, 0.7)
    along = X[:, 0] * sign / 3.0
    assert 0.5 <= along.min() < 0.52
    assert 1.48 < along.max() <= 1.5


@pytest.mark.parametrize("stretch", [1.0, 4.0])
def test_parallel_lines_turn_the_largest_margin(stretch):
    X, y = make_parallel_lines(100, stretch=stretch, random_state=0)
    w = SVC(kernel="linear", C=1e6, tol=1e-6).fit(X, y).coef_[0]
    nearest = [X[y == k][np.argmin(np.abs(X[y == k, 0]))] for k in (0, 1)]
    normal = nearest[1] - nearest[0]
    cosine = w @ normal / np.linalg.norm(w) / np.linalg.norm(normal)
    assert cosine == pytest.approx(1.0, abs=1e-6)


def test_tilted_gaussians_moments():
    X, y = make_tilted_gaussians(40_000, random_state=0)
    for k in (0, 1):
        part = X[y == k]
        np.testing.assert_allclose(part.mean(axis=0), MEANS[k], atol=5 * np.sqrt(17 / 20_000))
        np.testing.assert_allclose(np.cov(part.T), COVARIANCE, rtol=0.05)


@pytest.mark.parametrize("stretch", [1.0, 5.0])
def test_stretching_keeps_the_best_boundary_and_its_error(stretch):
    plain, _ = make_tilted_gaussians(40_000, random_state=1)
    X, y = make_tilted_gaussians(40_000, stretch=stretch, random_state=1)
    w = np.linalg.solve(COVARIANCE, MEANS[1] - MEANS[0])
    v = np.array([-w[1], w[0]])
    np.testing.assert_allclose(X @ w, plain @ w, atol=1e-9)
    np.testing.assert_allclose(X @ v, stretch * (plain @ v), atol=1e-8)
    wrong = ((X - MEANS.mean(axis=0)) @ w > 0) != (y == 1)
    best = norm.cdf(-np.sqrt(w @ COVARIANCE @ w) / 2)
    if stretch == 1.0:
        assert best == pytest.approx(0.00817, abs=5e-6)
        assert wrong.mean() == pytest.approx(best, abs=4 * np.sqrt(best / 40_000))


def test_bound_toys():
    X, y = make_bound_toys(1)
    same, across = make_bound_toys(2)
    np.testing.assert_array_equal(X, same)
    np.testing.assert_array_equal(y, X[:, 0] > 0)
    np.testing.assert_array_equal(across, X[:, 1] > 0)
    assert X.shape == (800, 2)
    np.testing.assert_allclose(np.abs(X).max(axis=0), [1.0, 0.23043])
    np.testing.assert_allclose(np.abs(X).min(axis=0), 0.12452)
    corner = {tuple(row) for row in np.sign(X[[0, 200, 400, 600]])}
    assert len(corner) == 4
    assert len(np.unique(np.abs(X).round(12), axis=0)) == 200
    for toy in (0, 3, "1", True, None):
        with pytest.raises(ValueError, match="toy must be 1 or 2"):
            make_bound_toys(toy)


def test_rotated_stripe():
    X, y = make_rotated_stripe(40_000, length=3.0, noise_variance=5.0, random_state=0)
    assert X.shape == (40_000, 20)
    np.testing.assert_array_equal(y, (X[:, 1] > X[:, 0]).astype(int))
    assert y.mean() == pytest.approx(0.5, abs=0.01)
    covariance = np.cov(X.T)
    np.testing.assert_allclose(covariance[:2, :2], [[5.0, 4.0], [4.0, 5.0]], rtol=0.05)
    np.testing.assert_allclose(covariance[2:, 2:], 5.0 * np.eye(18), atol=0.2)
    np.testing.assert_allclose(covariance[:2, 2:], 0.0, atol=0.15)
    again, labels = make_rotated_stripe(40_000, length=3.0, noise_variance=5.0, random_state=0)
    np.testing.assert_array_equal(X, again)
    np.testing.assert_array_equal(y, labels)
    assert make_rotated_stripe(3, n_noise=0)[0].shape == (3, 2)
    for bad in ({"n_samples": 0}, {"n_noise": -1}, {"length": 0.0}, {"noise_variance": -1.0}):
        with pytest.raises(ValueError, match="=="):
            make_rotated_stripe(**bad)
