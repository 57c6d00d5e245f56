"""Ellipsoids around most of many rows: smoothing, copies of rows, memory."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from oblong.solvers.ellipsoid.capped import SmoothedDesign, _cover_directly
from oblong.solvers.ellipsoid.coordinates import Coordinates
from oblong.solvers.ellipsoid.options import EllipsoidOptions
from oblong.solvers.ellipsoid.problem import (
    DesignProblem,
)
from oblong.solvers.ellipsoid.solve import solve_ellipsoid
from oblong.solvers.logdet.options import LogDetOptions
from tests.solvers.ellipsoid.problems import CLOUDS, SMOOTHED, certificate


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
