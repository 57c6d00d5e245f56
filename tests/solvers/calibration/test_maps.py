"""Maps from outputs to probabilities."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_expit, logsumexp, softmax

from oblong.solvers.calibration.maps import (
    agreeing_log_odds,
    fit_sigmoid,
    fit_temperature,
    pair_log_odds,
    pool,
    summed_logarithms,
    two_class_probabilities,
)


def outputs_and_labels(seed=0, n=200, shift=0.5):
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.4
    return rng.normal(size=n) + np.where(positive, 1.0, -1.0) + shift, positive


def platt_entropy(parameters, f, positive, weights):
    heavy, light = weights[positive].sum(), weights[~positive].sum()
    t = np.where(positive, (heavy + 1) / (heavy + 2), 1 / (light + 2))
    z = parameters[0] * f + parameters[1]
    return -(weights * (t * log_expit(z) + (1 - t) * log_expit(-z))).sum()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_sigmoid_is_the_minimum_of_the_cross_entropy(scale):
    f, positive = outputs_and_labels()
    weights = np.random.default_rng(1).random(f.size) + 0.1
    found = fit_sigmoid(scale * f, positive, weights)
    best = minimize(
        platt_entropy,
        [1.0, 0.0],
        (f, positive, weights),
        method="Nelder-Mead",
        options={"xatol": 1e-10, "fatol": 1e-12, "maxiter": 5000},
    )
    np.testing.assert_allclose([found[0] * scale, found[1]], best.x, rtol=1e-5)


def test_sigmoid_of_separable_outputs_is_finite():
    f = np.r_[np.linspace(-2, -1, 50), np.linspace(1, 2, 30)]
    slope, offset = fit_sigmoid(f, f > 0, np.ones(80))
    assert 0 < slope < 100
    assert abs(offset) < 10


def test_sigmoid_has_no_negative_slope():
    f, positive = outputs_and_labels()
    slope, offset = fit_sigmoid(-f, positive, np.ones(f.size))
    assert slope == 0.0
    # Smoothed targets: the share of the positive class, nearly.
    assert expit(offset) == pytest.approx(positive.mean(), abs=0.01)


@pytest.mark.parametrize("weight", [1e-300, 1e100, 1e300])
@pytest.mark.parametrize("of_all", [True, False])
def test_sigmoid_of_rows_of_any_weight(weight, of_all):
    f, positive = outputs_and_labels()
    weights = np.where(positive | of_all, weight, 1.0)
    slope, offset = fit_sigmoid(f, positive, weights)
    assert slope >= 0.0
    assert np.isfinite([slope, offset]).all()
    if of_all and weight > 1.0:
        limit = fit_sigmoid(f, positive, np.full(f.size, 1e9))
        np.testing.assert_allclose([slope, offset], limit, rtol=1e-6)


def test_a_weight_of_two_is_a_copy():
    f, positive = outputs_and_labels()
    weights = np.ones(f.size)
    weights[:20] = 2.0
    copied = fit_sigmoid(np.r_[f, f[:20]], np.r_[positive, positive[:20]], np.ones(f.size + 20))
    np.testing.assert_allclose(fit_sigmoid(f, positive, weights), copied, rtol=1e-8)
    scores = np.random.default_rng(0).normal(size=(f.size, 3))
    labels = scores.argmax(axis=1)
    labels[::3] = 0
    again = fit_temperature(
        np.r_[scores, scores[:20]], np.r_[labels, labels[:20]], np.ones(f.size + 20)
    )
    assert fit_temperature(scores, labels, weights) == pytest.approx(again, rel=1e-8)


finite = st.floats(-1e9, 1e9)


@given(arrays(np.float64, 20, elements=finite), st.floats(0, 1e3), st.floats(-50, 50))
def test_two_classes_agree_with_the_sign(f, slope, offset):
    P = two_class_probabilities(f, slope, offset)
    np.testing.assert_array_equal(P.argmax(axis=1), f > 0)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)
    assert (P >= 0).all()
    assert (P <= 1).all()
    order = np.argsort(f)
    assert (np.diff(P[order, 1]) >= 0).all()


@pytest.mark.parametrize("offset", [-3.0, 0.0, 2.0])
def test_two_classes_never_contradict_in_a_million_rows(offset):
    rng = np.random.default_rng(0)
    f = rng.normal(size=1_000_000) * 10.0 ** rng.uniform(-300, 5, size=1_000_000)
    f[::1000] = 0.0
    P = two_class_probabilities(f, 1.7, offset)
    np.testing.assert_array_equal(P.argmax(axis=1), f > 0)


def test_log_odds_are_the_sigmoids_where_these_agree():
    f = np.array([-2.0, -0.1, 0.0, 0.1, 2.0])
    np.testing.assert_allclose(
        agreeing_log_odds(f, 2.0, 1.0), [-3.0, -0.002, 0.0, 1.2, 5.0], rtol=1e-12
    )


def random_probabilities(n, k, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(k, 0.5), size=n), rng.integers(0, k, n)


def test_pooling_never_contradicts_in_a_million_rows():
    P, leader = random_probabilities(1_000_000, 5)
    pooled = pool(P, leader[:, None] == np.arange(5))
    np.testing.assert_array_equal(pooled.argmax(axis=1), leader)
    # Strictly, so that no tie depends on the order of the classes.
    rest = np.where(leader[:, None] == np.arange(5), -1.0, pooled).max(axis=1)
    assert (np.take_along_axis(pooled, leader[:, None], axis=1)[:, 0] > rest).all()
    np.testing.assert_allclose(pooled.sum(axis=1), 1.0, atol=1e-12)
    assert pooled.min() >= 0.0
    agrees = P.argmax(axis=1) == leader
    np.testing.assert_array_equal(pooled[agrees], P[agrees])


def test_pooling_is_the_nearest_point_at_which_the_class_leads():
    P, leader = random_probabilities(20, 4)
    pooled = pool(P, leader[:, None] == np.arange(4))
    for p, found, k in zip(P, pooled, leader):
        bounds = [{"type": "eq", "fun": lambda q: q.sum() - 1.0}] + [
            {"type": "ineq", "fun": lambda q, j=j, k=k: q[k] - q[j]} for j in range(4) if j != k
        ]
        best = minimize(lambda q, p=p: ((q - p) ** 2).sum(), np.full(4, 0.25), constraints=bounds)
        np.testing.assert_allclose(found, best.x, atol=1e-4)


@given(
    arrays(np.float64, (5, 4), elements=st.floats(0, 1)),
    arrays(np.bool_, (5, 4)),
)
def test_pooled_leaders_are_equal_and_largest(values, leaders):
    leaders[:, 0] |= ~leaders.any(axis=1)
    P = softmax(50.0 * values, axis=1)
    pooled = pool(P, leaders)
    np.testing.assert_allclose(pooled.sum(axis=1), 1.0, atol=1e-12)
    for p, ahead in zip(pooled, leaders):
        assert np.ptp(p[ahead]) == 0.0
        assert (p[~ahead] < p[ahead][0]).all()


def test_temperature_is_the_minimum_of_the_cross_entropy():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 500)
    scores = rng.normal(size=(500, 3)) + 2.0 * np.eye(3)[labels]
    weights = rng.random(500)

    def entropy(factor):
        Z = factor * scores - logsumexp(factor * scores, axis=1, keepdims=True)
        share = 1 / (weights.sum() + 1)
        own = (1 - share) * Z[np.arange(500), labels] + share * Z.mean(axis=1)
        return -(weights * own).sum()

    best = minimize_scalar(entropy, bounds=(0.01, 100), method="bounded", options={"xatol": 1e-9}).x
    assert fit_temperature(scores, labels, weights) == pytest.approx(best, rel=1e-6)
    assert fit_temperature(1e6 * scores, labels, weights) == pytest.approx(
        1e-6 * fit_temperature(scores, labels, weights), rel=1e-8
    )


def test_temperature_of_scores_that_never_err_is_finite():
    labels = np.arange(60) % 3
    factor = fit_temperature(np.eye(3)[labels], labels, np.ones(60))
    # One row in 61 may be of any class.
    assert softmax(factor * np.eye(3), axis=1)[0, 0] == pytest.approx(1 - 2 / (3 * 61), abs=1e-9)


def test_temperature_without_information():
    labels = np.arange(30) % 3
    assert fit_temperature(np.zeros((30, 3)), labels, np.ones(30)) == 1.0


def test_pairs_are_clipped_and_summed():
    outputs = np.array([[100.0, -1.0, 0.5]])
    z = pair_log_odds(outputs, np.tile([1.0, 0.0], (3, 1)), np.array([9.0, 9.0, 9.0]))
    np.testing.assert_allclose(z, [[np.log(10.0), -1.0, 0.5]])
    pairs = list(combinations(range(3), 2))
    expected = [
        log_expit(np.log(10.0)) + log_expit(-1.0),
        log_expit(-np.log(10.0)) + log_expit(0.5),
        log_expit(1.0) + log_expit(-0.5),
    ]
    np.testing.assert_allclose(summed_logarithms(z, pairs, 3), [expected])
