"""Mistake bounds of online learners: the formulas, and that they hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from oblong import (
    ClassicalEllipsoidClassifier,
    ConfidenceWeightedClassifier,
    ImprovedEllipsoidClassifier,
)
from oblong.bounds import mistake_bound_cellip, mistake_bound_cw, mistake_bound_iellip

SIGNS = [-1, 1]


def separable(rng, n, d, gamma, unit=True):
    """Draw rows of norm at most one that some ``u`` separates with the margin ``gamma``."""
    u = np.eye(d)[0]
    X = rng.normal(size=(n, d))
    # Most of an example says nothing: it lies across u, in directions of different lengths.
    X[:, 1:] *= np.geomspace(1.0, 0.1, d - 1)
    X[:, 1:] *= np.sqrt(1.0 - gamma**2) / np.linalg.norm(X[:, 1:], axis=1, keepdims=True)
    X[:, 0] = gamma * np.sign(X[:, 0])
    if not unit:
        # Shorter ones, whose margin stays.
        X[:, 1:] *= rng.uniform(0.0, 1.0, size=(n, 1))
    return X, np.sign(X[:, 0]).astype(int), u


def adversarial(make, gamma, n, d):
    """Count the mistakes on examples that the learner is always wrong on, as long as there are any.

    Each example has the margin ``gamma`` of ``u`` and, by its part across ``u``, an output of the
    learner that is wrong; the learner sees up to ``n`` of them.
    """
    rng = np.random.default_rng(0)
    start = gamma * np.eye(d)[:1] + np.sqrt(1.0 - gamma**2) * np.eye(d)[1:2]
    model = make.partial_fit(start, [1], classes=SIGNS)
    for _ in range(n - 1):
        w = model.coef_[0]
        across = w.copy()
        across[0] = 0.0
        # Where the learner's weights do not reach, so that they grow there.
        fresh = rng.normal(size=d)
        fresh[0] = 0.0
        fresh -= across * (fresh @ across) / (across @ across)
        lengths = np.sqrt(1.0 - gamma**2), np.linalg.norm(across), np.linalg.norm(fresh)
        needed = min(gamma * max(w[0], 0.0) * 1.000001 / lengths[1], lengths[0])
        side = -needed * across / lengths[1]
        side += np.sqrt(max(lengths[0] ** 2 - needed**2, 0.0)) * fresh / lengths[2]
        y = rng.choice(SIGNS)
        x = y * (side + gamma * np.eye(d)[0])
        model.partial_fit(x[None], [y])
    return model


# Classical ellipsoid ------------------------------------------------------------------------------


def test_classical_formula():
    assert mistake_bound_cellip(0.1) == pytest.approx(100.0)
    assert mistake_bound_cellip(0.5, 0.5) == pytest.approx(1.5 / 0.0625)
    assert mistake_bound_cellip(gamma=1.0, a=1.0) == 1.0


@given(st.floats(0.001, 1.0), st.floats(0.01, 1.0))
def test_classical_is_least_where_cuts_ask_for_all_of_the_margin(gamma, a):
    assert mistake_bound_cellip(gamma, a) >= mistake_bound_cellip(gamma) * (1.0 - 1e-12)


@pytest.mark.parametrize("a", [1.0, 0.8, 0.4])
@pytest.mark.parametrize("trigger", ["mistake", "margin"])
@pytest.mark.parametrize("unit", [True, False])
def test_classical_holds(a, trigger, unit):
    for seed, gamma in enumerate((0.05, 0.1, 0.3)):
        X, y, _ = separable(np.random.default_rng(seed), 3000, 12, gamma, unit)
        model = ClassicalEllipsoidClassifier(gamma=gamma, a=a, trigger=trigger, fit_intercept=False)
        model.partial_fit(X, y, classes=SIGNS)
        assert model.n_infeasible_ == 0
        assert 0 < model.n_mistakes_ <= mistake_bound_cellip(gamma, a)


def test_classical_is_nearly_reached():
    """An orthonormal sequence makes a mistake of nearly every example the bound allows for."""
    d, gamma = 256, 1.0 / 16.0
    model = ClassicalEllipsoidClassifier(
        gamma=gamma, a=0.8, trigger="mistake", fit_intercept=False
    ).partial_fit(np.eye(d), np.tile(SIGNS, d // 2), classes=SIGNS)
    # The vector of all signs, over 16, has this margin on each.
    assert model.n_mistakes_ == d
    assert model.n_mistakes_ <= mistake_bound_cellip(gamma, 0.8) <= 2 * d
    assert mistake_bound_cellip(gamma) == d
    hard = adversarial(ClassicalEllipsoidClassifier(gamma=0.1, fit_intercept=False), 0.1, 400, 120)
    assert 0.6 * 100 <= hard.n_mistakes_ <= mistake_bound_cellip(0.1)


# Improved ellipsoid -------------------------------------------------------------------------------


def test_improved_formula():
    assert mistake_bound_iellip(0.1) == pytest.approx(100.0)
    assert mistake_bound_iellip(0.2, 0.8, 0.15) == pytest.approx(25 * (1 + 0.448 / 0.2))
    # Three terms of the first sum, and infinitely many.
    c, b, gamma = 0.9, 0.6, 0.2
    steps = c * b ** np.arange(200)
    product = np.cumprod(1.0 - steps)
    terms = 0.8 * np.maximum(0.0, 1.2 * steps - 0.4) / product
    assert mistake_bound_iellip(gamma, c, b) == pytest.approx(25 * (1 + terms.sum()))
    terms = 0.64 * steps / product
    bound = mistake_bound_iellip(gamma, c, b, trigger="margin")
    assert bound == pytest.approx(25 * (1 + terms.sum()))
    # Outliers: one too close, one on the wrong side and short.
    bound = mistake_bound_iellip(gamma, 0.1, b, margins=[0.5, 0.1, -0.3], norms=[0.6, 1.0, 0.5])
    extra = (2 * 0.2 * 0.1 + (0.25 + 0.04) / 0.25) / np.prod(1.0 - 0.1 * b ** np.arange(200))
    assert bound == pytest.approx(25 * (1 + extra))


@given(
    st.floats(0.01, 0.99),
    st.floats(0.0, 0.99),
    st.floats(0.01, 1.0),
    st.sampled_from(["mistake", "margin"]),
)
def test_improved_is_at_least_that_of_the_perceptron(gamma, c, b, trigger):
    bound = mistake_bound_iellip(gamma, c, b, trigger=trigger)
    assert bound >= 1.0 / gamma**2
    # A learner that learns from more has to allow for more.
    assert mistake_bound_iellip(gamma, c, b, trigger="margin") >= bound
    if c + b < 1.0:
        # Bernoulli's inequality, as in the paper.
        largest = (1.0 - b) / (1.0 - b - c)
        limit = (1.0 + (1.0 - gamma) ** 2 * (largest - 1.0)) / gamma**2
        assert bound <= limit * (1.0 + 1e-9)


@pytest.mark.parametrize(("c", "b"), [(0.1, 0.3), (0.8, 0.15), (0.5, 0.45), (0.0, 0.5), (0.9, 0.6)])
@pytest.mark.parametrize("trigger", ["mistake", "margin"])
@pytest.mark.parametrize("unit", [True, False])
def test_improved_holds(c, b, trigger, unit):
    for seed, gamma in enumerate((0.05, 0.1, 0.3)):
        X, y, _ = separable(np.random.default_rng(seed), 3000, 12, gamma, unit)
        model = ImprovedEllipsoidClassifier(
            gamma=gamma, c=c, b=b, trigger=trigger, fit_intercept=False
        ).partial_fit(X, y, classes=SIGNS)
        assert 0 < model.n_mistakes_ <= mistake_bound_iellip(gamma, c, b, trigger=trigger)


@pytest.mark.parametrize(("c", "b"), [(0.1, 0.3), (0.8, 0.15), (0.0, 0.5)])
@pytest.mark.parametrize("trigger", ["mistake", "margin"])
def test_improved_holds_against_an_adversary(c, b, trigger):
    model = ImprovedEllipsoidClassifier(gamma=0.15, c=c, b=b, trigger=trigger, fit_intercept=False)
    model = adversarial(model, 0.15, 150, 60)
    assert 20 < model.n_mistakes_ <= mistake_bound_iellip(0.15, c, b, trigger=trigger)


def test_improved_with_a_memory_that_does_not_decay():
    """A small constant step keeps the bound for learners that learn from mistakes only."""
    gamma = 0.1
    c = 2 * gamma / (1 + gamma)
    assert mistake_bound_iellip(gamma, c, 1.0) == pytest.approx(100.0)
    assert mistake_bound_iellip(gamma, 1.01 * c, 1.0) == math.inf
    assert mistake_bound_iellip(gamma, c, 1.0, trigger="margin") == math.inf
    assert mistake_bound_iellip(gamma, 0.0, 1.0, trigger="margin") == pytest.approx(100.0)
    assert mistake_bound_iellip(gamma, c, 1.0, margins=[-0.5]) == math.inf
    for seed in range(3):
        X, y, _ = separable(np.random.default_rng(seed), 3000, 12, gamma)
        model = ImprovedEllipsoidClassifier(
            gamma=gamma, c=c, b=1.0, trigger="mistake", fit_intercept=False
        ).partial_fit(X, y, classes=SIGNS)
        assert 0 < model.n_mistakes_ <= 100


@pytest.mark.parametrize("trigger", ["mistake", "margin"])
def test_improved_holds_with_outliers(trigger):
    gamma, c, b = 0.1, 0.1, 0.3
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y, u = separable(rng, 2000, 8, gamma, unit=bool(seed % 2))
        wrong = rng.choice(2000, 12, replace=False)
        y[wrong[:6]] *= -1
        X[wrong[6:], 0] *= 0.3
        model = ImprovedEllipsoidClassifier(
            gamma=gamma, c=c, b=b, trigger=trigger, fit_intercept=False
        ).partial_fit(X, y, classes=SIGNS)
        options = {"margins": y * (X @ u), "norms": np.linalg.norm(X, axis=1)}
        bound = mistake_bound_iellip(gamma, c, b, trigger=trigger, **options)
        assert model.n_mistakes_ <= bound
        assert bound > mistake_bound_iellip(gamma, c, b, trigger=trigger)


def test_the_order_of_memory_and_extremes():
    assert mistake_bound_iellip(1.0, 0.5, 1.0, trigger="margin") == 1.0
    assert mistake_bound_iellip(0.1, 0.9, 0.9999999) == math.inf
    assert mistake_bound_iellip(0.1, 0.9, 0.999) > 1e6
    assert mistake_bound_iellip(0.1, 0.1, 0.999999, trigger="margin") == math.inf


# Confidence-weighted ------------------------------------------------------------------------------


def cw_problem(seed, confidence, n=800, d=6, gamma=0.1, variance=1.0):
    """Rows of any norm, a separating ``mu`` that meets the condition, and the trained learner."""
    rng = np.random.default_rng(seed)
    X, y, u = separable(rng, n, d, gamma)
    X *= rng.lognormal(size=(n, 1))
    model = ConfidenceWeightedClassifier(
        confidence=confidence, initial_variance=variance, fit_intercept=False
    ).partial_fit(X, y, classes=SIGNS)
    return model, norm.ppf(confidence) * np.sqrt(variance) * u / gamma


@pytest.mark.parametrize("confidence", [0.55, 0.7, 0.9, 0.99])
@pytest.mark.parametrize("variance", [1.0, 0.04])
def test_confidence_weighted_holds(confidence, variance):
    for seed in range(5):
        model, mean = cw_problem(seed, confidence, variance=variance)
        bound = mistake_bound_cw(mean, model.covariance_, confidence)
        assert 0 < model.n_mistakes_ <= bound
        # The paper's term makes it looser.
        paper = mistake_bound_cw(
            mean, model.covariance_, confidence, target_covariance=model.covariance_
        )
        assert paper >= bound


def test_confidence_weighted_chain():
    """The inequality that the bound rests on, with steps and variances from a plain loop."""
    confidence = 0.8
    phi = norm.ppf(confidence)
    rng = np.random.default_rng(3)
    X, y, u = separable(rng, 400, 5, 0.2)
    mu, S = np.zeros(5), np.eye(5)
    spent, kept, mistakes = 0.0, 0.0, 0
    for x, sign in zip(X, y):
        s = S @ x
        v, m = x @ s, sign * (mu @ x)
        mistakes += m <= 0
        if m >= phi * np.sqrt(v):
            continue
        xi, psi = 1 + phi**2, 1 + phi**2 / 2
        step = (-m * psi + np.sqrt(m**2 * phi**4 / 4 + v * phi**2 * xi)) / (v * xi)
        root = 0.5 * (-step * v * phi + np.sqrt((step * v * phi) ** 2 + 4 * v))
        mu += step * sign * s
        S -= np.outer(s, s) * step * phi / (root + v * step * phi)
        spent += step**2 * v
        kept += step * (m + step * v)
        if m <= 0:
            assert step**2 * v >= phi**2 / xi * (1 - 1e-12)
    mean = phi * u / 0.2
    distance = mean @ np.linalg.solve(S, mean)
    assert spent + phi**2 * kept <= distance * (1 + 1e-9)
    bound = mistake_bound_cw(mean, S, confidence)
    assert bound == pytest.approx((1 + phi**2) / phi**2 * distance)
    assert mistakes <= (1 + phi**2) / phi**2 * spent <= bound
    values = np.linalg.eigvalsh(S)
    paper = mistake_bound_cw(mean, S, confidence, target_covariance=S)
    extra = (values - np.log(values) - 1).sum()
    assert paper == pytest.approx((1 + phi**2) / phi**2 * (distance + extra))


def test_confidence_weighted_does_not_depend_on_the_unit():
    bounds = []
    for variance in (1.0, 0.01, 100.0):
        model, mean = cw_problem(0, 0.9, variance=variance)
        bounds.append(mistake_bound_cw(mean, model.covariance_, 0.9))
    np.testing.assert_allclose(bounds, bounds[0], rtol=1e-9)


# Bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.0, -1.0, 1.5, np.nan, "a", None, True])
def test_bad_shares(value):
    with pytest.raises(ValueError, match="gamma must be"):
        mistake_bound_cellip(value)
    with pytest.raises(ValueError, match="a must be"):
        mistake_bound_cellip(0.1, value)
    with pytest.raises(ValueError, match="gamma must be"):
        mistake_bound_iellip(value)
    with pytest.raises(ValueError, match="b must be"):
        mistake_bound_iellip(0.1, 0.1, value)


def test_bad_input():
    with pytest.raises(ValueError, match="c must be"):
        mistake_bound_iellip(0.1, 1.0)
    with pytest.raises(ValueError, match="trigger must be"):
        mistake_bound_iellip(0.1, trigger="never")
    with pytest.raises(ValueError, match="norms need margins"):
        mistake_bound_iellip(0.1, norms=[1.0])
    with pytest.raises(ValueError, match="vectors of one length"):
        mistake_bound_iellip(0.1, margins=[0.1], norms=[1.0, 1.0])
    with pytest.raises(ValueError, match="norms must lie between 0 and 1"):
        mistake_bound_iellip(0.1, margins=[0.1], norms=[2.0])
    with pytest.raises(ValueError, match="margins between -norm and norm"):
        mistake_bound_iellip(0.1, margins=[0.5], norms=[0.2])
    with pytest.raises(ValueError, match="confidence must be"):
        mistake_bound_cw([1.0], [[1.0]], 0.5)
    with pytest.raises(ValueError, match="mean must be a vector"):
        mistake_bound_cw([[1.0]], [[1.0]])
    with pytest.raises(ValueError, match=r"covariance must have shape \(2, 2\)"):
        mistake_bound_cw([1.0, 0.0], [[1.0]])
    with pytest.raises(ValueError, match="covariance is not symmetric"):
        mistake_bound_cw([1.0, 0.0], [[1.0, 0.5], [0.0, 1.0]])
    with pytest.raises(ValueError, match="target_covariance is not positive definite"):
        mistake_bound_cw([1.0, 0.0], np.eye(2), target_covariance=-np.eye(2))
    with pytest.raises(ValueError, match="NaN"):
        mistake_bound_cw([np.nan], [[1.0]])
