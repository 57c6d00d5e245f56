"""Sigmoids that are learned on the way."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from oblong import (
    AROWClassifier,
    ConfidenceWeightedClassifier,
    ImprovedEllipsoidClassifier,
    KernelConfidenceWeightedClassifier,
    PassiveAggressiveClassifier,
)
from oblong.solvers.online.slots import N_PLAIN
from tests.online.learners import LEARNERS, clouds, label_sets

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def logistic(n, d=8, seed=0, length=2.0):
    """Rows whose labels are drawn with logistic probabilities."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    w = rng.normal(size=d)
    p = expit(X @ w * length / np.linalg.norm(w))
    return X, (rng.random(n) < p).astype(int), p


def numbers(model):
    return model._state.scale[:, N_PLAIN:]


def platt(name, **params):
    return clone(LEARNERS[name]).set_params(calibration="platt", **params)


@pytest.mark.parametrize("name", ["AROW", "SCW-I", "NHERD", "PA-II", "IELLIP"])
def test_the_sigmoid_is_that_of_a_batch_fit_on_progressive_outputs(name):
    X, y, p = logistic(6000)
    model, outputs = platt(name), []
    model.partial_fit(X[:1], y[:1], classes=[0, 1])
    outputs.append(0.0)
    for x, label in zip(X[1:4000], y[1:4000]):
        outputs.append(float(x @ model.coef_[0] + model.intercept_[0]))
        model.learn_one(x, label)
    # Row number i weighs i.
    outputs, weights = np.array(outputs)[:, None], np.arange(1, 4001)
    batch = LogisticRegression(C=1e6).fit(outputs, y[:4000], sample_weight=weights)
    f = (X[4000:] @ model.coef_[0] + model.intercept_[0])[:, None]
    expected, found = batch.predict_proba(f), model.predict_proba(X[4000:])
    assert np.abs(expected - found).mean() < 0.02
    best = log_loss(y[4000:], batch.predict_proba(f))
    assert log_loss(y[4000:], found) < best + 0.005
    if name in ("AROW", "NHERD"):
        # Not far from the truth, which the Gaussian of the same model is.
        raw = clone(LEARNERS[name]).partial_fit(X[:4000], y[:4000], classes=[0, 1])
        error = np.abs(found[:, 1] - p[4000:]).mean()
        assert error < 0.05
        assert error < 0.5 * np.abs(raw.predict_proba(X[4000:])[:, 1] - p[4000:]).mean()


CASES = [
    ("AROW", {}, 2),
    ("AROW", {"covariance": "diag"}, 2),
    ("AROW", {"covariance": "sketch", "sketch_size": 3}, 3),
    ("CW-Stdev", {}, 2),
    ("PA-I", {"multi_class": "ovr"}, 3),
    ("IELLIP", {"multi_class": "kbest"}, 4),
]


@pytest.mark.parametrize(("name", "params", "classes"), CASES)
def test_calibration_changes_no_weight_and_no_chunk_matters(name, params, classes):
    X, y = clouds(150, classes=classes)
    plain = clone(LEARNERS[name]).set_params(**params)
    plain.partial_fit(X, y, classes=range(classes))
    whole = platt(name, **params).partial_fit(X, y, classes=range(classes))
    np.testing.assert_array_equal(whole.coef_, plain.coef_)
    assert whole.n_mistakes_ == plain.n_mistakes_
    parts = platt(name, **params)
    for start in range(0, 150, 7):
        part = slice(start, start + 7)
        parts.partial_fit(X[part], y[part], classes=range(classes))
    np.testing.assert_allclose(numbers(parts), numbers(whole), rtol=1e-9, atol=1e-12)
    p = whole.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert p.min() >= 0.0
    rest = whole.predict_proba(sp.csr_array(X))
    np.testing.assert_allclose(rest, p, rtol=1e-9, atol=1e-12)
    assert np.array_equal(whole.predict(X), p.argmax(axis=1))
    assert [whole.predict_one(x) for x in X[:20]] == whole.predict(X[:20]).tolist()
    logits = whole.decision_function(X)
    if classes == 2:
        np.testing.assert_allclose(expit(logits), p[:, 1], rtol=1e-9)
        f = X @ whole.coef_[0] + whole.intercept_[0]
        assert (np.diff(logits[np.argsort(f)]) >= 0.0).all()
    else:
        shares = expit(logits)
        np.testing.assert_allclose(shares / shares.sum(axis=1, keepdims=True), p, rtol=1e-9)


@pytest.mark.parametrize(("name", "params", "classes"), CASES)
def test_weights_are_copies_for_the_sigmoid_too(name, params, classes):
    X, y = clouds(60, classes=classes)
    weights = np.random.default_rng(0).integers(0, 4, 60)
    options = {"classes": range(classes)}
    one = platt(name, **params).partial_fit(X, y, sample_weight=weights, **options)
    copies = np.repeat(np.arange(60), weights)
    other = platt(name, **params).partial_fit(X[copies], y[copies], **options)
    np.testing.assert_allclose(numbers(one), numbers(other), rtol=1e-9, atol=1e-12)


def test_blocks_and_single_rows_calibrate_alike():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 370))
    y = (X[:, 0] + rng.normal(size=120) > 0).astype(int)
    blocks = platt("AROW").partial_fit(X, y, classes=[0, 1])
    rows = platt("AROW").partial_fit(X[:1], y[:1], classes=[0, 1])
    for x, label in zip(X[1:], y[1:]):
        rows.learn_one(x, label)
    np.testing.assert_allclose(numbers(blocks), numbers(rows), rtol=1e-7, atol=1e-9)


def test_the_unit_of_the_outputs_does_not_matter():
    X, y, _ = logistic(400)
    one = ConfidenceWeightedClassifier(calibration="platt", initial_variance=1.0)
    other = ConfidenceWeightedClassifier(calibration="platt", initial_variance=1e4)
    for model in (one, other):
        model.partial_fit(X, y, classes=[0, 1])
    assert one._state.exponent != 0
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-6)


def test_only_the_first_pass_calibrates():
    X, y, _ = logistic(300)
    options = {"shuffle": False, "tol": None, "calibration": "platt"}
    once = AROWClassifier(max_iter=1, **options).fit(X, y)
    often = AROWClassifier(max_iter=6, **options).fit(X, y)
    np.testing.assert_array_equal(numbers(once)[:, :5], numbers(often)[:, :5])
    assert numbers(often)[0, 7] == 1.0
    often.partial_fit(X, y)
    assert (numbers(once)[:, :5] != numbers(often)[:, :5]).any()


def test_several_classes():
    X, y = clouds(6000, classes=3, noise=0.3, seed=2)
    model = platt("AROW").partial_fit(X[:4000], y[:4000], classes=range(3))
    raw = clone(LEARNERS["AROW"]).partial_fit(X[:4000], y[:4000], classes=range(3))
    found = log_loss(y[4000:], model.predict_proba(X[4000:]))
    batch = LogisticRegression().fit(X[:4000], y[:4000])
    assert found < log_loss(y[4000:], batch.predict_proba(X[4000:])) + 0.02
    assert found < 0.5 * log_loss(y[4000:], raw.predict_proba(X[4000:]))


def test_label_sets_and_kernels():
    X, Y = label_sets()
    for multilabel in ("ovr", "rank"):
        model = PassiveAggressiveClassifier(
            variant=1, C=0.1, multilabel=multilabel, calibration="platt"
        ).partial_fit(X, Y)
        p = model.predict_proba(X)
        assert p.shape == Y.shape
        assert log_loss(Y.ravel(), p.ravel()) < 0.4
    X, y = clouds(200)
    model = KernelConfidenceWeightedClassifier(calibration="platt", random_state=0).fit(X, y)
    assert log_loss(y, model.predict_proba(X)) < 0.5


def test_learners_without_probabilities():
    X, y = clouds(50)
    assert not hasattr(PassiveAggressiveClassifier().fit(X, y), "predict_proba")
    assert hasattr(ImprovedEllipsoidClassifier(calibration="platt").fit(X, y), "predict_proba")
    with pytest.raises(ValueError, match="calibration"):
        AROWClassifier(calibration="isotonic").fit(X, y)


def test_merged_sigmoids():
    X, y, p = logistic(8000)
    parts = [platt("AROW").partial_fit(X[i:6000:4], y[i:6000:4], classes=[0, 1]) for i in range(4)]
    merged = parts[0].merge(*parts[1:])
    assert numbers(merged)[0, 6] == 6000
    assert np.abs(merged.predict_proba(X[6000:])[:, 1] - p[6000:]).mean() < 0.06
    with pytest.raises(ValueError, match=r"[Mm]erge"):
        merged.merge(clone(LEARNERS["AROW"]).partial_fit(X, y, classes=[0, 1]))


def test_classes_that_come_later_have_sigmoids():
    X, y = clouds(300, classes=3, noise=0.1)
    model = platt("AROW")
    for x, label in zip(X[np.argsort(y)], np.sort(y)):
        model.learn_one(x, int(label))
    assert numbers(model).shape == (3, 8)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize(
    "model",
    [
        ConfidenceWeightedClassifier(),
        ConfidenceWeightedClassifier(covariance="diag"),
        ConfidenceWeightedClassifier(covariance="sketch"),
        ConfidenceWeightedClassifier(variant="var"),
        ImprovedEllipsoidClassifier(b=1.0),
        ImprovedEllipsoidClassifier(b=1.0, multi_class="ovr"),
    ],
)
def test_shapes_that_shrink_without_end(model):
    X, y, _ = logistic(4000, length=3.0)
    if model.get_params()["multi_class"] == "ovr":
        y = y + (X[:, 0] > 1.0)
    model = clone(model).set_params(calibration="platt")
    model.partial_fit(X[:3000], y[:3000], classes=np.unique(y))
    plain = clone(model).set_params(calibration=None)
    plain.partial_fit(X[:3000], y[:3000], classes=np.unique(y))
    chance = log_loss(y[3000:], np.tile(np.bincount(y) / len(y), (1000, 1)))
    assert log_loss(y[3000:], model.predict_proba(X[3000:])) < 0.95 * chance
    assert model.score(X[3000:], y[3000:]) > plain.score(X[3000:], y[3000:]) - 0.05


def test_units_beyond_the_range_of_numbers():
    X, y, _ = logistic(6000, d=2)
    model = ConfidenceWeightedClassifier(calibration="platt")
    model.partial_fit(X, y, classes=[0, 1])
    assert model._state.exponent > 540
    assert log_loss(y, model.predict_proba(X)) < 0.65


def test_a_third_class_leaves_the_sigmoids_of_two():
    X, y, _ = logistic(300)
    y = ((y == 1) & (X[:, 0] > 0)).astype(int)
    model = AROWClassifier(calibration="platt", multi_class="ovr", allow_new_classes=True)
    model.partial_fit(X, y, classes=[0, 1])
    before = model.predict_proba(X)
    model.learn_one(X[0], 2, sample_weight=0.0)
    after = expit(model.decision_function(X))
    assert model.classes_.tolist() == [0, 1, 2]
    np.testing.assert_allclose(after[:, :2], before, rtol=1e-10)


def test_merged_weights_of_sigmoids_add_up():
    X, y, _ = logistic(400)
    one = platt("AROW").partial_fit(X[:100], y[:100], classes=[0, 1])
    other = platt("AROW").partial_fit(X[100:], y[100:], classes=[0, 1])
    assert numbers(one.merge(other))[0, 6] == 400
