"""Expectation propagation: matched moments, digits of tails."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from oblong.solvers.bayes_point.propagation import normal_hazard, propagate
from oblong.solvers.bayes_point.sites import find_sites
from tests.solvers.bayes_point.test_solve import noisy


def test_moments_are_matched():
    """A converged factor has the moments of the true one, by quadrature."""
    F, y = noisy(6, n=10)
    sites = find_sites(F, y, 0.4, np.ones(10))
    found = propagate(sites, tol=1e-11, max_iter=1000)
    covariance = found.root() @ found.root().T
    i = 3
    mean, variance = F[i] @ found.w, F[i] @ covariance @ F[i]
    precision = 1.0 / variance - found.tau[i]
    centre = (mean / variance - found.nu[i]) / precision

    def tilted(f, power):
        weight = norm.pdf(f, centre, precision**-0.5) * norm.cdf(y[i] * f / np.sqrt(0.4))
        return weight * f**power

    moments = [quad(tilted, -20, 20, args=(k,), points=[0.0], limit=200)[0] for k in range(3)]
    assert moments[1] / moments[0] == pytest.approx(mean, abs=1e-8)
    assert moments[2] / moments[0] - mean**2 == pytest.approx(variance, abs=1e-8)


def test_normal_hazard_keeps_its_digits():
    u = np.array([-1e8, -1e4, -100.001, -99.999, -30.0, 0.0, 5.0, 50.0])
    hazard, rest = normal_hazard(u)
    assert hazard[5] == pytest.approx(np.sqrt(2 / np.pi))
    assert rest[5] == pytest.approx(1 - 2 / np.pi)
    assert hazard[-1] == 0.0
    assert rest[-1] == 1.0
    np.testing.assert_allclose(hazard[:3], -u[:3], rtol=1e-3)
    np.testing.assert_allclose(rest[:3] * u[:3] ** 2, 1.0, rtol=1e-3)
    assert rest[2] == pytest.approx(rest[3], rel=1e-4)
    assert (np.diff(rest) > 0).all()
