"""Ellipsoids around all of many rows: working rows and screening."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.solvers.ellipsoid import active_set
from oblong.solvers.ellipsoid.coordinates import Coordinates
from oblong.solvers.ellipsoid.problem import (
    DesignProblem,
)
from oblong.solvers.ellipsoid.solve import solve_ellipsoid
from tests.solvers.ellipsoid.problems import CLOUDS, SMOOTHED, certificate


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
    screened = active_set._Candidates.screened

    def record(self, *arguments):
        found = screened(self, *arguments)
        seen.append(found)
        return found

    monkeypatch.setattr(active_set._Candidates, "screened", record)
    result = solve_ellipsoid(X, tol=1e-9)
    assert any(len(s.index) < len(X) for s in seen)
    boundary = np.flatnonzero(result.squared_distances > 1 - 1e-7)
    for s in seen:
        if len(s.index) < len(X):
            assert np.isin(boundary, s.index).all()
            assert s.X.size <= 4 * len(X)


def test_few_rows_outside():
    X = np.random.default_rng(4).normal(size=(5000, 5))
    direct = solve_ellipsoid(X, coverage=0.997)
    few = solve_ellipsoid(X, coverage=0.997, options=SMOOTHED)
    assert few.status == "converged"
    assert few.objective == pytest.approx(direct.objective, abs=1e-5)
    assert 0 < (few.squared_distances > 1 + 1e-6).sum() <= 15


def test_rows_that_do_not_span_are_joined_by_extremes():
    rng = np.random.default_rng(6)
    # The rows of largest leverage lie in a plane; the third direction has two values only.
    X = np.column_stack([rng.standard_t(2, (5000, 2)), rng.integers(0, 2, 5000)])
    result = solve_ellipsoid(X)
    assert result.status == "converged"
    assert certificate(X, result) == pytest.approx(result.gap, abs=1e-8)


def test_passes_and_steps_are_counted():
    X = np.random.default_rng(8).normal(size=(5000, 4))
    coordinates = Coordinates.of(X, None, lift=True, rank_tol=1e-10)
    problem = DesignProblem(X, coordinates, None, 1e-6, 1000)
    design = active_set.enclose(problem)
    assert design.gap <= 1e-6
    assert 2 <= problem.n_passes <= 10
    assert problem.n_iter >= 5
