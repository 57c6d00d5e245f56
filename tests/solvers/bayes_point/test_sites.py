"""Half-spaces of a version space."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from oblong.solvers.bayes_point.sites import find_sites, interior_direction, signed_outputs
from oblong.solvers.bayes_point.solve import solve_bayes_point
from tests.solvers.bayes_point.test_solve import separable


@given(seed=st.integers(0, 10_000), d=st.integers(2, 6), n=st.integers(2, 400))
def test_interior_direction(seed, d, n):
    F, y = separable(seed, n=n, d=d)
    sites = find_sites(F, y, 0.0, np.ones(n))
    rng = np.random.default_rng(seed)
    inside = interior_direction(sites, rng.normal(size=d))
    assert signed_outputs(sites, inside).min() > 0.0
    # Every row and its opposite: nothing is inside.
    both = find_sites(np.vstack([F, -F]), np.append(y, y), 0.0, np.ones(2 * n))
    assert interior_direction(both, rng.normal(size=d)) is None


def test_half_spaces_that_coincide_are_one():
    F, y = separable(4)
    found = solve_bayes_point(F, y)
    more = solve_bayes_point(
        np.vstack([F, -2.0 * F, F, np.zeros((1, 3))]), np.concatenate([y, -y, y, [1.0]])
    )
    np.testing.assert_allclose(more.w, found.w, atol=1e-9)
