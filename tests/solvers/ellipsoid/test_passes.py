"""Ellipsoids around rows that are read in passes."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.linalg.first_pass import look
from oblong.linalg.row_passes import ArrayRows, LocalPasses
from oblong.solvers.ellipsoid.options import EllipsoidOptions
from oblong.solvers.ellipsoid.passes import solve_ellipsoid_passes
from oblong.solvers.ellipsoid.solve import solve_ellipsoid


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("tails", [np.inf, 2.0])
def test_as_in_memory_whatever_the_blocks(tails, center):
    rng = np.random.default_rng(0)
    X = (
        rng.standard_normal((3000, 4)) if np.isinf(tails) else rng.standard_t(tails, (3000, 4))
    ) + 2
    exact = solve_ellipsoid(X, center=center, tol=1e-9)
    found = []
    for rows in (3000, 429, 30):
        passes = LocalPasses(ArrayRows(X, block_rows=rows))
        seen = look(passes, 0.01)
        found.append(solve_ellipsoid_passes(passes, seen, center=center, tol=1e-7))
        result = found[-1].result
        assert result.status == "converged"
        assert result.gap <= 1e-7
        assert found[-1].n_passes <= 8
        assert result.log_volume == pytest.approx(exact.log_volume, abs=1e-6)
        squares = np.einsum("ij,ij->i", *[(X - result.center) @ result.factor] * 2)
        assert squares.max() <= 1.0 + 1e-12
    np.testing.assert_allclose(found[1].result.factor, found[0].result.factor, rtol=1e-9)
    np.testing.assert_array_equal(found[2].numbers, found[0].numbers)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize(("tails", "coverage"), [(50.0, 0.9), (3.0, 0.4), (3.0, 0.998)])
def test_some_rows_stay_outside(tails, coverage, center):
    rng = np.random.default_rng(1)
    X = np.vstack([rng.standard_t(tails, (12_000, 3)), np.zeros((300, 3))])
    X += [2.0, 0.0, 9.0]
    weight = rng.integers(0, 4, len(X)).astype(float)
    exact = solve_ellipsoid(X, coverage=coverage, sample_weight=weight, center=center, tol=1e-9)
    options = EllipsoidOptions(cover_features=1e4)
    found = []
    for rows in (5000, 41):
        passes = LocalPasses(ArrayRows(X, None, weight, block_rows=rows))
        found.append(
            solve_ellipsoid_passes(
                passes, look(passes, 0.05), coverage=coverage, center=center, options=options
            )
        )
    result, D = found[0].result, 3 + center
    assert result.status == "converged"
    assert found[0].n_passes <= 8
    assert len(found[0].X) < len(X)
    # The certificate, from all rows: the weights of those outside are the cap.
    squares = np.einsum("ij,ij->i", *[(X - result.center) @ result.factor] * 2)
    over = np.maximum(squares - 1.0, 0.0) @ weight / ((1.0 - coverage) * weight.sum())
    gap = (result.scale * (1.0 + over) + center - D) / D
    assert gap == pytest.approx(result.gap, abs=1e-12)
    assert -1e-12 <= (exact.objective - result.objective) / D <= result.gap + exact.gap
    assert result.log_volume == pytest.approx(exact.log_volume, abs=1e-3)
    assert found[0].inside == pytest.approx(coverage, abs=2e-3)
    np.testing.assert_allclose(found[1].result.factor, result.factor, rtol=1e-6)
    assert found[1].n_passes == found[0].n_passes


def test_no_row_has_to_be_inside():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((4000, 3)) @ rng.standard_normal((3, 3))
    passes = LocalPasses(ArrayRows(X, block_rows=500))
    found = solve_ellipsoid_passes(passes, look(passes, 0.1), coverage=0.0)
    shape = found.result.inverse_factor.T @ found.result.inverse_factor
    np.testing.assert_allclose(shape, np.cov(X.T, bias=True), rtol=1e-9)
    exact = solve_ellipsoid(X, coverage=0.0)
    assert found.inside == np.mean(exact.squared_distances <= 1.0)
