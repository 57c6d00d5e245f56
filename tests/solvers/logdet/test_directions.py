"""Newton directions of smoothed problems."""

from __future__ import annotations

import numpy as np

from oblong.linalg.log_det import quadratic_features, symmetric_features, symmetric_matrix
from oblong.solvers.logdet.directions import Direction, Zone, newton_direction, sampled_hessian
from oblong.solvers.logdet.options import LogDetOptions


def test_symmetric_features_are_dual_to_those_of_vectors():
    rng = np.random.default_rng(0)
    S, Z = rng.normal(size=(4, 4)), rng.normal(size=(4, 7))
    S += S.T
    features = symmetric_features(S)
    np.testing.assert_allclose(
        features @ quadratic_features(Z), np.einsum("ij,ik,kj->j", Z, S, Z), atol=1e-12
    )
    np.testing.assert_allclose(symmetric_matrix(features, 4), S, atol=1e-12)


def hessian(zone, count, Z, extra, weights, seed=0):
    rng = np.random.default_rng(seed)
    vectors = lambda places: (Z[:, places], extra[:, places])  # noqa: E731
    return sampled_hessian(Zone(zone, weights, vectors, 1.0, np.zeros((0, 0))), count, rng)


def test_hessian_of_few_rows_is_exact():
    rng = np.random.default_rng(1)
    Z, extra, weights = rng.normal(size=(2, 1200)), rng.normal(size=(3, 1200)), rng.random(1200)
    zone = np.arange(0, 1200, 2)
    U = np.vstack([quadratic_features(Z), extra])[:, zone]
    np.testing.assert_allclose(
        hessian(zone, 600, Z, extra, weights), np.tril((U * weights[zone]) @ U.T), rtol=1e-10
    )
    assert not hessian(zone[:0], 600, Z, extra, weights).any()


def test_hessian_of_a_sample_has_the_right_mean():
    rng = np.random.default_rng(2)
    Z, extra, weights = rng.normal(size=(2, 300)), rng.normal(size=(1, 300)), rng.random(300)
    zone = np.arange(300)
    exact = hessian(zone, 300, Z, extra, weights)
    samples = [hessian(zone, 100, Z, extra, weights, seed) for seed in range(200)]
    assert np.abs(np.mean(samples, axis=0) - exact).max() < 0.05 * np.abs(exact).max()


def test_conjugate_gradients_agree_with_a_factor():
    rng = np.random.default_rng(3)
    p, n = 5, 60
    Z, extra = rng.normal(size=(p, n)), rng.normal(size=(4, n))
    bend = np.diag(rng.uniform(0.5, 2.0, 4))
    vectors = lambda places: (Z[:, places], extra[:, places])  # noqa: E731
    zone = Zone(np.arange(n), rng.random(n), vectors, 0.7, bend)
    S = rng.normal(size=(p, p))
    gradient = Direction(S + S.T, rng.normal(size=4))
    exact = newton_direction(zone, gradient, rng, LogDetOptions(sampled_rows=n))
    nearly = newton_direction(
        zone,
        gradient,
        rng,
        LogDetOptions(direct_unknowns=0, residual_left=1e-10, most_products=500),
    )
    np.testing.assert_allclose(nearly.S, exact.S, atol=1e-7)
    np.testing.assert_allclose(nearly.x, exact.x, atol=1e-7)
    assert gradient.dot(exact) < 0.0


def test_a_direction_that_nothing_bends():
    # Without rows in the zone conjugate gradients grow beyond all numbers.
    rng = np.random.default_rng(4)
    p = 6
    S = rng.normal(size=(p, p))
    bend = np.diag(np.append(rng.uniform(0.5, 2.0, p), 0.0))
    empty = Zone(
        np.empty(0, dtype=int),
        np.empty(0),
        lambda places: (np.empty((p, 0)), np.empty((p + 1, 0))),
        1.0,
        bend,
    )
    gradient = Direction(S + S.T, rng.normal(size=p + 1))
    options = LogDetOptions(direct_unknowns=0, most_products=500)
    with np.errstate(all="ignore"):
        assert newton_direction(empty, gradient, rng, options) is None
