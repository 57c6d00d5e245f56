"""Random walks through a version space."""

from __future__ import annotations

import numpy as np

from oblong.solvers.bayes_point.options import BayesPointOptions
from oblong.solvers.bayes_point.propagation import propagate
from oblong.solvers.bayes_point.sampling import sample
from oblong.solvers.bayes_point.sites import find_sites


def test_draws_of_a_quadrant_have_its_moments():
    # Two half-spaces at a right angle: the coordinates are independent half normals.
    sites = find_sites(np.eye(2), np.ones(2), 0.0, np.ones(2))
    guide = propagate(sites, tol=1e-8, max_iter=100)
    rng = np.random.default_rng(0)
    found = sample(sites, np.ones(2), guide, 40_000, rng, tol=0.1)
    np.testing.assert_allclose(found.w, np.sqrt(2.0 / np.pi), atol=0.02)
    np.testing.assert_allclose(found.covariance, (1.0 - 2.0 / np.pi) * np.eye(2), atol=0.02)
    assert found.standard_error < 0.02


def test_number_of_chains_does_not_change_the_mean():
    sites = find_sites(np.array([[1.0, 0.3], [0.2, 1.0]]), np.ones(2), 0.5, np.ones(2))
    guide = propagate(sites, tol=1e-8, max_iter=100)
    few, many = (
        sample(
            sites,
            np.zeros(2),
            guide,
            20_000,
            np.random.default_rng(1),
            tol=0.1,
            options=BayesPointOptions(chains=chains),
        )
        for chains in (5, 50)
    )
    assert few.n_iter == 10 * many.n_iter
    np.testing.assert_allclose(few.w, many.w, atol=0.05)
