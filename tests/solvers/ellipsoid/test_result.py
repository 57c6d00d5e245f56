"""What is read out of a design."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.solvers.ellipsoid.result import log_unit_ball
from oblong.solvers.ellipsoid.solve import solve_ellipsoid


@pytest.mark.parametrize(("k", "volume"), [(1, 2.0), (2, np.pi), (3, 4.0 / 3.0 * np.pi)])
def test_volume_of_the_unit_ball(k, volume):
    assert np.exp(log_unit_ball(k)) == pytest.approx(volume)


def test_factor_is_the_pseudo_inverse_on_a_hull():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 5)) + 3.0
    found = solve_ellipsoid(X)
    assert found.factor.shape == (5, 2)
    np.testing.assert_allclose(
        found.factor, np.linalg.pinv(found.inverse_factor), atol=1e-9 * np.abs(found.factor).max()
    )
    distances = (((X - found.center) @ found.factor) ** 2).sum(axis=1)
    np.testing.assert_allclose(distances, found.squared_distances, atol=1e-9)
    assert not found.is_simplex
