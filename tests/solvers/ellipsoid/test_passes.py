"""Ellipsoids around rows that are read in passes."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.solvers.ellipsoid.passes import solve_ellipsoid_passes
from oblong.solvers.ellipsoid.solve import solve_ellipsoid
from oblong.solvers.linear.passes.first import look
from oblong.solvers.linear.passes.rows import ArrayRows, LocalPasses


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
