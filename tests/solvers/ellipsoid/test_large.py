"""Ellipsoids around many rows: working rows, smoothing, screening, memory."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from oblong.solvers.ellipsoid import active_set as _ellipsoid_active
from oblong.solvers.ellipsoid.capped import SmoothedDesign, _cover_directly
from oblong.solvers.ellipsoid.coordinates import Coordinates
from oblong.solvers.ellipsoid.options import EllipsoidOptions
from oblong.solvers.ellipsoid.problem import (
    DesignProblem,
    balanced,
    best_threshold,
    snap_by_complementarity,
    snap_to_bounds,
)
from oblong.solvers.ellipsoid.solve import solve_ellipsoid
from oblong.solvers.logdet.options import LogDetOptions

# Not all rows in one Newton matrix, however few they are.
SMOOTHED = EllipsoidOptions(direct_products=0)


def sphere(n, d, rng):
    X = rng.normal(size=(n, d))
    return X / np.linalg.norm(X, axis=1)[:, None]


CLOUDS = {
    "normal": lambda n, d, rng: rng.normal(size=(n, d)),
    "sphere": sphere,
    "binary": lambda n, d, rng: rng.integers(0, 2, (n, d)).astype(float),
    "lattice": lambda n, d, rng: rng.integers(-2, 3, (n, d)).astype(float),
    "cauchy": lambda n, d, rng: rng.standard_cauchy((n, d)),
    "cube": lambda n, d, rng: rng.uniform(-1, 1, (n, d)),
    "scales": lambda n, d, rng: rng.normal(size=(n, d)) * np.logspace(-5, 4, d),
    "far away": lambda n, d, rng: rng.normal(size=(n, d)) + 1e6,
    "flat": lambda n, d, rng: rng.normal(size=(n, d - 2)) @ rng.normal(size=(d - 2, d)) + 5,
}


def certificate(X, result, center=True):
    """The gap over ``D``, from scratch, in coordinates of its own."""
    mean = X.mean(axis=0) if center else np.zeros(X.shape[1])
    X = (X - mean) / (X - mean).std(axis=0)
    _, values, vt = np.linalg.svd(X, full_matrices=False)
    keep = values > 1e-9 * values[0]
    Z = X @ (vt[keep] / values[keep, None]).T
    Z = np.column_stack([Z, np.ones(len(X))]) if center else Z
    M = (Z.T * result.weights) @ Z
    q = np.einsum("ij,ji->i", Z, np.linalg.solve(M, Z.T))
    D = Z.shape[1]
    if np.isinf(result.cap):
        return q.max() / D - 1
    rho = result.threshold
    return (rho + result.cap * np.maximum(q - rho, 0).sum() - D) / D


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_working_rows_find_the_optimum(name, dtype):
    X = CLOUDS[name](6000, 7, np.random.default_rng(0)).astype(dtype)
    result = solve_ellipsoid(X)
    assert result.status == "converged"
    assert result.squared_distances.max() == 1.0
    if dtype == np.float64:
        assert certificate(X, result) == pytest.approx(result.gap, abs=1e-7)
    assert result.weights.min() >= 0
    assert result.weights.sum() == pytest.approx(1)


def test_screening_leaves_out_no_row_of_the_boundary(monkeypatch):
    X = np.random.default_rng(1).normal(size=(20_000, 6))
    seen = []
    screened = _ellipsoid_active._Candidates.screened

    def record(self, *arguments):
        found = screened(self, *arguments)
        seen.append(found)
        return found

    monkeypatch.setattr(_ellipsoid_active._Candidates, "screened", record)
    result = solve_ellipsoid(X, tol=1e-9)
    assert any(s.copied for s in seen)
    boundary = np.flatnonzero(result.squared_distances > 1 - 1e-7)
    for s in seen:
        if s.copied:
            assert np.isin(boundary, s.index).all()
            assert s.X.size <= 4 * len(X)


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("coverage", [0.2, 0.8, 0.95])
def test_smoothing_agrees_with_the_direct_method(name, coverage):
    X = CLOUDS[name](2500, 4, np.random.default_rng(2))
    direct = solve_ellipsoid(X, coverage=coverage, tol=1e-8)
    large = solve_ellipsoid(X, coverage=coverage, tol=1e-8, options=SMOOTHED)
    assert direct.status == large.status == "converged"
    assert large.objective == pytest.approx(direct.objective, abs=1e-6)
    assert certificate(X, large) <= large.gap + 1e-7
    assert large.weights.max() <= large.cap * (1 + 1e-12)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_large_problem_starts_on_a_sample(center, weighted):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(12_000, 3)) + 0.3
    weights = rng.integers(0, 3, len(X)).astype(float) if weighted else None
    arguments = {"coverage": 0.85, "center": center, "sample_weight": weights}
    direct = solve_ellipsoid(X, **arguments)
    options = replace(SMOOTHED, logdet=LogDetOptions(sample=2000, boundary_least=1500))
    large = solve_ellipsoid(X, **arguments, options=options)
    assert large.status == "converged"
    assert large.objective == pytest.approx(direct.objective, abs=1e-5)
    warm = solve_ellipsoid(X, start=large.weights, **arguments, options=options)
    assert warm.objective == pytest.approx(direct.objective, abs=1e-5)


def test_few_rows_outside():
    X = np.random.default_rng(4).normal(size=(5000, 5))
    direct = solve_ellipsoid(X, coverage=0.997)
    few = solve_ellipsoid(X, coverage=0.997, options=SMOOTHED)
    assert few.status == "converged"
    assert few.objective == pytest.approx(direct.objective, abs=1e-5)
    assert 0 < (few.squared_distances > 1 + 1e-6).sum() <= 15


def soft_value(result):
    """``ln|Σ| + 2 E Σ ξ``, to which the certificate applies if the penalty is given."""
    k = result.factor.shape[1]
    outside = np.maximum(result.squared_distances - 1, 0).sum()
    return result.objective + k * np.log(result.scale) + 2 * result.E * outside


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


def test_rows_that_do_not_span_are_joined_by_extremes():
    rng = np.random.default_rng(6)
    # The rows of largest leverage lie in a plane; the third direction has two values only.
    X = np.column_stack([rng.standard_t(2, (5000, 2)), rng.integers(0, 2, 5000)])
    result = solve_ellipsoid(X)
    assert result.status == "converged"
    assert certificate(X, result) == pytest.approx(result.gap, abs=1e-8)


@pytest.mark.parametrize("coverage", [1.0, 0.9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_memory(coverage, dtype):
    X = np.random.default_rng(7).normal(size=(200_000, 30)).astype(dtype)
    X = X[:, :6] if coverage < 1 else X
    X = np.ascontiguousarray(X)
    tracemalloc.start()
    result = solve_ellipsoid(X, coverage=coverage, options=SMOOTHED)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.status == "converged"
    # Some vectors of n numbers, and chunks.
    assert peak < 20 * 8 * len(X) + 2e7


def test_thresholds():
    q = np.array([5.0, 1.0, 4.0, 2.0, 3.0])
    assert best_threshold(q, None, np.inf) == 5.0
    # Two and a half rows outside: the third is free. Two: the third is the highest inside.
    assert best_threshold(q, None, 1 / 2.5) == 3.0
    assert best_threshold(q, None, 1 / 2) == 3.0
    assert best_threshold(q, None, 1 / 5) == 1.0
    weights = np.array([2.0, 0.0, 1.0, 1.0, 1.0])
    assert best_threshold(q, weights, 1 / 3) == 3.0
    assert best_threshold(q, weights, 1 / 2.5) == 4.0


def test_weights_are_moved_to_their_bounds():
    caps = np.full(5, 0.3)
    u = np.array([1e-12, 0.3 - 1e-12, 0.2, 0.25, 0.25])
    found = snap_to_bounds(u, caps, 1e-8)
    assert found[0] == 0.0
    assert found[1] == 0.3
    assert found.sum() == pytest.approx(1)
    for start in (np.full(5, 0.1), np.full(5, 0.3)):
        found = balanced(start, caps)
        assert found.sum() == pytest.approx(1)
        assert (found <= caps + 1e-15).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d"), [(30_000, 5), (20_000, 10)])
def test_rows_inside_have_no_weight(n, d, dtype):
    X = np.random.default_rng(9).normal(size=(n, d)).astype(dtype)
    result = solve_ellipsoid(X, coverage=0.95)
    assert result.status == "converged"
    assert certificate(X.astype(float), result) == pytest.approx(result.gap, abs=1e-9)
    inside, outside = (result.squared_distances < 1 - 1e-3), (result.squared_distances > 1 + 1e-3)
    assert (result.weights[inside] == 0).all()
    assert (result.weights[outside] == result.cap).all()


def test_copies_are_merged_if_nothing_else_helps():
    rng = np.random.default_rng(10)
    X = (rng.random((40_000, 6)) < 0.2).astype(float)
    options = EllipsoidOptions(direct_features=1e5)
    coordinates = Coordinates.of(X, None, lift=True, rank_tol=1e-10)
    problem = DesignProblem(X, coordinates, None, 1e-6, 1000, options=options)
    smoothed = SmoothedDesign(problem, 1 / 4000, None)
    direct = _cover_directly(problem, 1 / 4000, problem.present())
    tracemalloc.start()
    design = smoothed._solve_distinct_rows(64)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 8 * len(X)
    assert design.gap <= 1e-6
    assert design.metric.log_det == pytest.approx(direct.metric.log_det, abs=1e-5)
    assert design.u.max() <= 1 / 4000 * (1 + 1e-12)
    # More distinct rows than there is room for.
    assert smoothed._solve_distinct_rows(63) is None
    result = solve_ellipsoid(X, coverage=0.9, options=options)
    assert result.status == "converged"


def test_complementarity():
    caps, q = np.full(5, 0.4), np.array([1.0, 3.0, 3.0, 3.0, 5.0])
    u = np.array([1e-9, 0.2, 0.2, 0.2, 0.4 - 1e-9])
    found = snap_by_complementarity(u, q, caps, 3.0, 1.0)
    assert found[0] == 0.0
    assert found[4] == 0.4
    assert found.sum() == pytest.approx(1)
    # Nothing to move, and nothing left to make up for what was moved.
    assert snap_by_complementarity(found, q, caps, 3.0, 1.0) is None
    assert (
        snap_by_complementarity(
            np.full(5, 0.2), np.array([1.0, 1.0, 1.0, 1.0, 5.0]), caps, 3.0, 1.0
        )
        is None
    )


def test_passes_and_steps_are_counted():
    X = np.random.default_rng(8).normal(size=(5000, 4))
    coordinates = Coordinates.of(X, None, lift=True, rank_tol=1e-10)
    problem = DesignProblem(X, coordinates, None, 1e-6, 1000)
    design = _ellipsoid_active.enclose(problem)
    assert design.gap <= 1e-6
    assert 2 <= problem.n_passes <= 10
    assert problem.n_iter >= 5
