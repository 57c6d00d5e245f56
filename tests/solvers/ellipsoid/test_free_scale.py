"""Ellipsoids with a penalty of rows outside, or a ridge."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.solvers.ellipsoid.ball import solve_enclosing_ball
from oblong.solvers.ellipsoid.coordinates import Coordinates
from oblong.solvers.ellipsoid.problem import DesignProblem
from oblong.solvers.ellipsoid.solve import solve_design, solve_ellipsoid, solve_for_penalty
from tests.reference.ellipsoid import ellipsoid
from tests.solvers.ellipsoid.problems import SMOOTHED
from tests.solvers.ellipsoid.test_solve import cloud, matrix


def test_ridge_and_penalty_of_many_rows():
    X = np.random.default_rng(5).normal(size=(3000, 3))
    for arguments in ({"E": 0.002}, {"coverage": 0.9, "ridge": 0.5}):
        direct = solve_ellipsoid(X, **arguments)
        large = solve_ellipsoid(X, **arguments, options=SMOOTHED)
        assert large.status == "converged"
        assert large.objective == pytest.approx(direct.objective, abs=1e-4)
        assert np.allclose(
            large.factor @ large.factor.T, direct.factor @ direct.factor.T, atol=1e-3
        )


def test_scale_of_a_penalty_agrees_with_the_caps_it_leads_to():
    X = np.random.default_rng(11).normal(size=(300, 3))
    problem = DesignProblem(X, Coordinates.of(X, None, lift=True, rank_tol=1e-10), None, 1e-8, 1000)
    found = solve_for_penalty(problem, 0.05, None)
    assert found.status == "converged"
    # The caps of the design are the penalty over the scale.
    assert found.cap * found.scale == pytest.approx(0.05, rel=1e-6)
    design = solve_design(problem, found.cap, None)
    np.testing.assert_allclose(design.u, found.weights, atol=1e-5)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("E", [np.inf, 0.3, 0.05, 0.004])
@pytest.mark.parametrize("weighted", [False, True])
def test_penalty_agrees_with_a_general_solver(E, center, weighted):
    X = cloud(40, 3, seed=7)
    weights = np.random.default_rng(0).integers(0, 3, 40).astype(float) if weighted else None
    result = solve_ellipsoid(
        X, E=None if np.isinf(E) else E, center=center, sample_weight=weights, tol=1e-8
    )
    mean, B = ellipsoid(X, E=E, center=center, weights=weights)
    assert result.status == "converged"
    assert np.allclose(result.factor @ result.factor.T, B, atol=1e-4 * np.abs(B).max())
    assert np.allclose(result.center, mean, atol=1e-3)
    if np.isfinite(E):
        assert abs(result.E / E - 1) < 1e-12


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("E", [np.inf, 0.05])
@pytest.mark.parametrize("ridge", [0.01, 1.0])
def test_ridge_agrees_with_a_general_solver(E, center, ridge):
    X = cloud(40, 3, seed=8)
    result = solve_ellipsoid(X, E=None if np.isinf(E) else E, center=center, ridge=ridge, tol=1e-8)
    mean, B = ellipsoid(X, E=E, center=center, ridge=ridge)
    assert result.status == "converged"
    assert np.allclose(result.factor @ result.factor.T, B, atol=1e-4 * np.abs(B).max())
    assert np.allclose(result.center, mean, atol=1e-3)


def test_ridge_gives_a_flat_cloud_some_thickness():
    X = np.column_stack([cloud(30, 2), np.zeros(30)])
    result = solve_ellipsoid(X, ridge=0.25)
    assert result.factor.shape == (3, 3)
    assert matrix(result)[2, 2] == pytest.approx(0.25, rel=1e-5)
    assert result.squared_distances.max() <= 1 + 1e-9


@pytest.mark.parametrize("E", [None, 0.1])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("share", [1.001, 3.0, 1e6])
def test_ridge_wider_than_the_data(share, center, E):
    X = cloud(30, 2)
    radius = solve_enclosing_ball(X).radius if center else np.linalg.norm(X, axis=1).max()
    ridge = share * radius**2
    result = solve_ellipsoid(X, ridge=ridge, center=center, E=E)
    assert np.allclose(matrix(result), ridge * np.eye(2))
    assert result.squared_distances.max() == pytest.approx(1 / share, rel=1e-6)
    assert np.allclose(((X - result.center) ** 2).sum(axis=1) / ridge, result.squared_distances)
    assert result.log_volume == pytest.approx(np.log(np.pi * ridge))
    assert result.weights.sum() == pytest.approx(1)
    assert np.isinf(result.E) if E is None else result.E == E


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 0.9999, 1 - 1e-6])
def test_ridge_next_to_the_squared_radius(share):
    """In one dimension the sum of the two is the squared radius, whatever the ridge."""
    noise = 1e-3 * np.random.default_rng(0).normal(size=(2, 20))
    x = np.concatenate([noise[0] - 1, noise[1] + 1])[:, None]
    squared = (np.ptp(x) / 2) ** 2
    result = solve_ellipsoid(x, ridge=share * squared)
    assert result.status == "converged"
    assert matrix(result)[0, 0] == pytest.approx(squared, rel=1e-6)
    assert result.squared_distances.max() <= 1
    # Scales below the tolerance cannot be told apart.
    assert result.scale == pytest.approx(1 - share, rel=1e-4, abs=2e-6)


def test_ridge_keeps_a_ball_around_rows_of_weight_zero_out():
    X = np.vstack([cloud(20, 2), [[1e3, 1e3]]])
    weights = np.append(np.ones(20), 0.0)
    result = solve_ellipsoid(X, ridge=1e3, sample_weight=weights)
    assert np.allclose(result.center, solve_ellipsoid(X[:20], ridge=1e3).center)
    assert result.squared_distances[-1] > 1
    assert result.weights[-1] == 0


def test_ridge_on_the_covariance():
    X = cloud(30, 3)
    result = solve_ellipsoid(X, coverage=0.0, ridge=0.7)
    assert np.allclose(matrix(result), np.cov(X.T, bias=True) + 0.7 * np.eye(3))
    assert not result.is_simplex
