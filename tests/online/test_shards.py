"""Models of shards whose units, features or classes came up on the way, put together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import log_loss

from oblong import (
    AROWClassifier,
    ClassicalEllipsoidClassifier,
    ConfidenceWeightedClassifier,
    ImprovedEllipsoidClassifier,
    PassiveAggressiveClassifier,
)
from oblong.solvers.online.slots import EXPONENT

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def noisy(n, d=5, seed=0, flipped=0.1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = (X[:, 0] + 0.5 * X[:, 1] > 0) ^ (rng.random(n) < flipped)
    return X, y.astype(int)


@pytest.mark.parametrize("covariance", ["full", "diag", "sketch"])
def test_the_scale_of_an_ellipsoid_has_no_say(covariance):
    X, y = noisy(8000)
    models = [
        ImprovedEllipsoidClassifier(b=1.0, covariance=covariance).partial_fit(
            X[part], y[part], classes=[0, 1]
        )
        for part in (slice(0, 3000), slice(3000, 6000), slice(6000, 6400))
    ]
    lengths = [np.linalg.norm(model.coef_) for model in models]
    scores = [model.score(X[6400:], y[6400:]) for model in models]
    twins = [clone(model).partial_fit(X[:1], y[:1], classes=[0, 1]) for model in models]
    for twin, model in zip(twins, models):
        twin._state = model._state.copy()
    merged = models[0].merge(*models[1:])
    assert min(lengths) / 2 < np.linalg.norm(merged.coef_) < 2 * max(lengths)
    assert merged.score(X[6400:], y[6400:]) > min(scores)
    # The order does not matter, and learning goes on.
    other = twins[2].merge(twins[0], twins[1])
    np.testing.assert_allclose(other.coef_, merged.coef_, rtol=1e-6, atol=1e-9)
    assert merged.partial_fit(X[:200], y[:200]).score(X[6400:], y[6400:]) > 0.7


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_the_scale_of_ellipsoids_of_several_classes_has_no_say(covariance):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    X = rng.normal(size=(400, 4)) + 2.0 * np.eye(4)[y]
    model = ImprovedEllipsoidClassifier(b=1.0, covariance=covariance)
    one = clone(model).partial_fit(X[:300], y[:300], classes=[0, 1, 2])
    other = clone(model).partial_fit(X[300:], y[300:], classes=[0, 1, 2])
    # The same ellipsoid with another scale.
    scaled = clone(model).partial_fit(X[:300], y[:300], classes=[0, 1, 2])
    scaled._state.sigma[:] *= 2.0**60
    scaled._state.counters[EXPONENT] += 7
    expected = one.merge(other).coef_
    np.testing.assert_allclose(scaled.merge(other).coef_, expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_confident_shards_of_very_different_length(covariance):
    X, y = noisy(9000, d=2, flipped=0.2)
    model = ConfidenceWeightedClassifier(covariance=covariance, calibration="platt")
    long = clone(model).partial_fit(X[:8000], y[:8000], classes=[0, 1])
    short = clone(model).partial_fit(X[8000:], y[8000:], classes=[0, 1])
    if covariance == "full":
        # One over the largest variance is no number in the other's unit.
        assert long._state.exponent - short._state.exponent > 540
    best = long.score(X, y)
    merged = long.merge(short)
    assert merged.score(X, y) > best - 0.05
    assert log_loss(y, merged.predict_proba(X)) < 0.69


def rows_of(X, names):
    return [dict(zip(names, row)) for row in X.tolist()]


@pytest.mark.parametrize(
    "model",
    [
        AROWClassifier(),
        AROWClassifier(covariance="diag"),
        AROWClassifier(covariance="sketch", sketch_size=2),
        AROWClassifier(average=True),
        ClassicalEllipsoidClassifier(),
        PassiveAggressiveClassifier(),
    ],
)
def test_features_are_told_by_their_names(model):
    X, y = noisy(200, d=4)
    names = list("abcd")
    one = clone(model)
    for x, label in zip(rows_of(X[:100, :3], names), y):
        one.learn_one(x, int(label))
    # The same with all features in the order of the first, and in another.
    straight, turned = clone(model), clone(model)
    for row, label in zip(X[100:], y[100:].tolist()):
        straight.learn_one(dict(zip("abcd", row.tolist())), label)
        turned.learn_one(dict(zip("dbca", row[[3, 1, 2, 0]].tolist())), label)
    wide = clone(model)
    for row, label in zip(X[:100], y.tolist()):
        wide.learn_one({**dict(zip("abc", row[:3].tolist())), "d": 0.0}, label)
    expected = wide.merge(straight)
    found = one.merge(turned)
    assert list(found._vocabulary) == names
    assert found.n_features_in_ == 4
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-8, atol=1e-10)
    x = dict(zip("cadb", X[0, [2, 0, 3, 1]].tolist()))
    assert found.predict_one(x) == found.predict(X[:1])[0]
    assert found.predict_one(X[1]) == found.predict(X[1:2])[0]
    found.learn_one({**x, "new": 1.0}, 1)
    assert found.coef_.shape == (1, 5)


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_features_of_several_classes_are_told_by_their_names(covariance):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 150)
    X = rng.normal(size=(150, 3)) + np.eye(3)[y]
    models = []
    for order in ("abc", "cab"):
        pair = [AROWClassifier(covariance=covariance) for _ in range(2)]
        for i, (row, label) in enumerate(zip(X, y.tolist())):
            x = dict(zip("abc", row.tolist()))
            second = i >= 75
            pair[second].learn_one({name: x[name] for name in order} if second else x, label)
        models.append(pair[0].merge(pair[1]))
    np.testing.assert_allclose(models[1].coef_, models[0].coef_, rtol=1e-8, atol=1e-10)


def test_classes_that_came_up_on_the_way_have_their_own_prior():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    X = rng.normal(size=(60, 3)) + np.eye(3)[y]
    shards = []
    for part in (slice(0, 30), slice(30, 60)):
        model = AROWClassifier()
        for row, label in zip(X[part], y[part].tolist()):
            model.learn_one(row, label)
        shards.append(model)
    # Classes have half of the initial variance of the difference of the first two.
    whole = [np.linalg.inv(model._state.covariance[:, :4, :4]) for model in shards]
    merged = shards[0].merge(shards[1])
    expected = whole[0] + whole[1] - 2.0 * np.eye(4)
    np.testing.assert_allclose(
        np.linalg.inv(merged._state.covariance[:, :4, :4]), expected, rtol=1e-8
    )


def test_frames_with_other_columns_are_not_merged():
    X, y = noisy(50, d=3)
    frame = pd.DataFrame(X, columns=list("abc"))
    one = AROWClassifier().fit(frame, y)
    with pytest.raises(ValueError, match="same features"):
        one.merge(AROWClassifier().fit(frame[list("cab")], y))
    with pytest.raises(ValueError, match="same features"):
        one.merge(AROWClassifier().fit(X, y))
    with pytest.raises(ValueError, match="Cannot merge"):
        one.merge(one, prior=PassiveAggressiveClassifier().fit(frame, y))


@pytest.mark.parametrize("covariance", ["full", "diag", "sketch"])
def test_features_that_come_late_start_in_the_unit_of_the_others(covariance):
    X, y = noisy(900, d=4)
    late = ImprovedEllipsoidClassifier(b=1.0, c=0.5, covariance=covariance)
    early = clone(late)
    # More than there is room for.
    zeros = {f"zero {j}": 0.0 for j in range(20)}
    for row, label in zip(X[:600], y.tolist()):
        x = dict(zip("abc", row.tolist()))
        late.learn_one(x, label)
        early.learn_one({**x, "d": 0.0, **zeros}, label)
    for row, label in zip(X[600:], y[600:].tolist()):
        x = {**dict(zip("abcd", row.tolist())), **zeros}
        late.learn_one(x, label)
        early.learn_one(x, label)
    # Sketches magnify rounding.
    rtol = 1e-6 if covariance != "sketch" else 5e-3
    np.testing.assert_allclose(late.coef_, early.coef_, rtol=rtol, atol=1e-9)


def test_features_and_classes_that_come_very_late():
    rng = np.random.default_rng(0)
    model = ConfidenceWeightedClassifier()
    X, y = noisy(6000, d=2, flipped=0.25)
    for row, label in zip(X, y.tolist()):
        model.learn_one(dict(zip("ab", row.tolist())), label)
    assert model._state.exponent > 512
    right = 0
    for value in rng.normal(size=200).tolist():
        x = {"a": 1.0, "c": value}
        right += model.predict_one(x) == (value > 0)
        model.learn_one(x, int(value > 0))
    assert right > 150
    model.learn_one({"a": 1.0}, 2)
    assert model.classes_.tolist() == [0, 1, 2]
    assert np.isfinite(model.coef_).all()
