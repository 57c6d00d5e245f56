"""Learners that forget: the precision goes down by a factor after every update."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import oblong
from oblong import AROWClassifier, NormalHerdClassifier, SoftConfidenceWeightedClassifier
from tests.online.learners import GAUSSIAN, clouds

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RHO = 0.97


def reference(X, y, answer, covariance):
    """Every precision explicitly, with the inverse of a matrix for every row."""
    d = X.shape[1] + 1
    w, precision, prior, left = np.zeros(d), np.eye(d), np.eye(d), 1.0
    updates = 0
    for x, sign in zip(X, 2 * y - 1):
        z = np.append(x, 1.0)
        S = np.linalg.inv(precision)
        m, v = sign * (w @ z), z @ S @ z
        step, more = answer(m, v)
        if step <= 0.0:
            continue
        updates += 1
        w = w + step * sign * (S @ z)
        precision = precision + more * (np.outer(z, z) if covariance == "full" else np.diag(z * z))
        precision *= RHO
        left *= RHO
        if covariance == "diag":
            # No variance above the initial one.
            precision = np.maximum(precision, prior)
        elif left <= 0.5:
            precision += (1.0 - left) * prior
            left = 1.0
    return w, np.linalg.inv(precision), updates


def arow(m, v):
    return ((1.0 - m) / (v + 0.8), 1.0 / 0.8) if m < 1.0 else (0.0, 0.0)


def nherd(m, v):
    return ((1.0 - m) / (v + 1.0 / 0.4), 0.4 * (2.0 + 0.4 * v)) if m < 1.0 else (0.0, 0.0)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize(
    ("model", "answer"), [(AROWClassifier(r=0.8), arow), (NormalHerdClassifier(C=0.4), nherd)]
)
def test_against_explicit_precisions(model, answer, covariance, sparse):
    X, y = clouds(n=400, noise=0.1)
    if sparse:
        X *= np.random.default_rng(1).random(X.shape) < 0.3
    w, S, updates = reference(X, y, answer, covariance)
    model = clone(model).set_params(covariance=covariance, forgetting=RHO)
    model.partial_fit(sp.csr_matrix(X) if sparse else X, y, classes=[0, 1])
    assert model.n_updates_ == updates > 150
    np.testing.assert_allclose(model.coef_[0], w[:-1], rtol=1e-8)
    np.testing.assert_allclose(model.intercept_[0], w[-1], rtol=1e-8)
    found = model.covariance_
    expected = S[:-1, :-1] if covariance == "full" else S.diagonal()[:-1]
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-10)
    z = np.append(X[3], 1.0)
    np.testing.assert_allclose(model.margin_variance(X[3:4]), z @ S @ z, rtol=1e-7)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("covariance", ["full", "diag", "sketch"])
@pytest.mark.parametrize("name", GAUSSIAN)
def test_batches_and_single_rows_are_the_same(name, covariance, classes, normalize, tmp_path):
    X, y = clouds(n=200, classes=classes, noise=0.1)
    model = clone(GAUSSIAN[name]).set_params(
        covariance=covariance, forgetting=0.95, normalize=normalize
    )
    whole = clone(model).partial_fit(X, y, classes=range(classes))
    parts = clone(model).partial_fit(X[:90], y[:90], classes=range(classes))
    oblong.save(parts, tmp_path / "model.oblong")
    parts = oblong.load(tmp_path / "model.oblong")
    for x, label in zip(X[90:], y[90:]):
        parts.learn_one(x, label)
    assert parts.n_updates_ == whole.n_updates_
    assert np.isfinite(whole.coef_).all()
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-7, atol=1e-12)
    plain = clone(model).set_params(forgetting=1.0).partial_fit(X, y, classes=range(classes))
    assert not np.allclose(plain.coef_, whole.coef_, rtol=1e-3)


def test_wide_models_are_the_same_by_rows_and_by_batches():
    X, y = clouds(n=60, d=400)
    model = AROWClassifier(forgetting=0.9)
    whole = clone(model).partial_fit(X, y, classes=[0, 1])
    parts = clone(model).partial_fit(X[:1], y[:1], classes=[0, 1])
    for x, label in zip(X[1:], y[1:]):
        parts.learn_one(x, label)
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-9)


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_a_product_takes_away_what_is_left_of_the_priors(covariance):
    X, y = clouds(n=300, noise=0.1)
    shards = [
        AROWClassifier(forgetting=RHO, covariance=covariance).partial_fit(
            X[i::2], y[i::2], classes=[0, 1]
        )
        for i in range(2)
    ]
    expected = np.zeros((7, 7))
    for shard in shards:
        state = shard._state
        S = state.matrices()[0] if covariance == "full" else np.diag(state.diagonal()[:, 0])
        left = 1.0 / state.sigma[0] if covariance == "full" else 1.0
        rest = np.linalg.inv(S) - left * np.eye(7)
        # What the examples contributed is a sum of squares.
        assert np.linalg.eigvalsh(rest).min() > -1e-9
        expected += rest
    merged = shards[0].merge(shards[1])
    found = np.linalg.inv(
        merged.covariance_ if covariance == "full" else np.diag(merged.covariance_)
    )
    S = np.linalg.inv(expected + np.eye(7))[1:, 1:]
    np.testing.assert_allclose(np.linalg.inv(found), S, rtol=1e-8, atol=1e-12)
    assert merged.score(X, y) > 0.8


def test_merges_of_sketches_and_their_rounds():
    X, y = clouds(n=600, noise=0.05)
    models = [AROWClassifier(forgetting=0.98, covariance="sketch", sketch_size=3) for _ in range(3)]
    for i, model in enumerate(models):
        model.partial_fit(X[i::3], y[i::3], classes=[0, 1])
    first = models[0].merge(*models[1:], how="mean")
    assert first.score(X, y) > 0.85
    with pytest.raises(ValueError, match='how="mean"'):
        first.merge(models[1], prior=models[2])
    with pytest.raises(ValueError, match="product"):
        first.merge(models[1], how="sum")


def test_variances_stay_bounded():
    """A feature that never occurs again, over many updates."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    y = rng.integers(0, 2, 3000)
    X[50:, 2] = 0.0
    for covariance in ("full", "diag", "sketch"):
        model = AROWClassifier(forgetting=0.9, covariance=covariance).partial_fit(
            X, y, classes=[0, 1]
        )
        assert model.n_updates_ > 2000
        variances = model.covariance_
        variances = variances.diagonal() if covariance == "full" else variances
        most = {"full": 2.0 / 0.9, "diag": 1.0, "sketch": 0.9**-35.0}[covariance]
        assert (variances <= most * (1 + 1e-9)).all()


@pytest.mark.parametrize("covariance", ["full", "diag", "sketch"])
def test_forgetting_helps_where_classes_change(covariance):
    """The hyperplane turns around every 1,000 rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 8))
    w = rng.normal(size=8)
    signs = np.where(np.arange(6000) // 1000 % 2, 1.0, -1.0)
    y = (signs * (X @ w) > 0).astype(int)
    mistakes = [
        AROWClassifier(covariance=covariance, forgetting=factor)
        .partial_fit(X, y, classes=[0, 1])
        .n_mistakes_
        for factor in (1.0, 0.98)
    ]
    assert mistakes[1] < 0.6 * mistakes[0]


@pytest.mark.parametrize("factor", [0.0, 1.1, -0.5])
def test_factors_that_make_no_sense(factor):
    with pytest.raises(ValueError, match="forgetting"):
        SoftConfidenceWeightedClassifier(forgetting=factor).fit([[0.0], [1.0]], [0, 1])
