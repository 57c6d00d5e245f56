"""What all learners have in common: chunks, sparse rows, precision, weights, averages, one row."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from oblong import AROWClassifier, ConfidenceWeightedClassifier, PassiveAggressiveClassifier
from oblong.online.growing import add_class
from tests.online.learners import LEARNERS, MULTILABEL, SECOND_ORDER, clouds, label_sets

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

CASES = [(name, "full") for name in LEARNERS]
CASES += [(name, covariance) for name in SECOND_ORDER for covariance in ("diag", "sketch")]
# The rules differ from each other as they do with a full shape.


def learner(name, covariance, **params):
    own = {"covariance": covariance, "sketch_size": 4} if name in SECOND_ORDER else {}
    return clone(LEARNERS[name]).set_params(**own, **params)


def stream(model, X, y, size=None, weights=None):
    size = size or X.shape[0]
    classes = np.unique(y) if np.ndim(y) == 1 else None
    for start in range(0, X.shape[0], size):
        part = slice(start, start + size)
        weight = None if weights is None else weights[part]
        model.partial_fit(X[part], y[part], classes=classes, sample_weight=weight)
    return model


def arrays(model):
    found = [model.coef_, model.intercept_]
    return [*found, model.covariance_] if hasattr(model, "covariance_") else found


def assert_same(one, other, rtol=1e-12):
    for a, b in zip(arrays(one), arrays(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.abs(a).max())
    assert (one.t_, one.n_updates_, one.n_mistakes_) == (
        other.t_,
        other.n_updates_,
        other.n_mistakes_,
    )


@pytest.mark.parametrize(("name", "covariance"), CASES)
@pytest.mark.parametrize("classes", [2, 4])
def test_chunks_of_any_size(name, covariance, classes):
    X, y = clouds(100, classes=classes)
    whole = stream(learner(name, covariance, average=True), X, y)
    assert whole.n_updates_ > 10
    for size in (1, 7, 64):
        assert_same(stream(learner(name, covariance, average=True), X, y, size), whole, 1e-13)


@pytest.mark.parametrize(("name", "covariance"), CASES)
@pytest.mark.parametrize("classes", [2, 4])
def test_sparse_is_dense(name, covariance, classes):
    # On noise the shape of hard rules collapses below what a sketch can resolve.
    X, y = clouds(200, classes=classes, d=9, noise=0.0 if covariance == "sketch" else 0.05)
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.6, 0.0, X)
    y = (X[:, 0] - X[:, 1] > 0).astype(int) if covariance == "sketch" else y
    dense = stream(learner(name, covariance), X, y)
    sparse = stream(learner(name, covariance), sp.csr_array(X), y)
    # Rounding grows where the shape collapses on noise, most with a full one.
    assert_same(sparse, dense, {"diag": 1e-12, "sketch": 1e-4}.get(covariance, 1e-8))
    np.testing.assert_allclose(
        sparse.decision_function(sp.csr_matrix(X)), dense.decision_function(X), rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize(("name", "covariance"), CASES)
def test_fit_does_not_depend_on_container_or_order(name, covariance):
    X, y = clouds(120)
    X[np.random.default_rng(0).random(X.shape) < 0.3] = 0.0
    dense = learner(name, covariance, random_state=3).fit(X, y)
    order = np.random.default_rng(1).permutation(120)
    assert_same(learner(name, covariance, random_state=3).fit(X[order], y[order]), dense)
    sparse = learner(name, covariance, random_state=3).fit(sp.csr_matrix(X), y)
    assert_same(sparse, dense, 1e-12 if covariance == "diag" else 1e-6)


@pytest.mark.parametrize(("name", "covariance"), CASES)
def test_single_precision(name, covariance):
    X, y = clouds(300, noise=0.0, seed=3)
    X = X.astype(np.float32)
    single = stream(learner(name, covariance), X, y)
    double = stream(learner(name, covariance), X.astype(np.float64), y)
    assert single.coef_.dtype == (np.float64 if covariance == "sketch" else np.float32)
    assert abs(single.n_mistakes_ - double.n_mistakes_) <= 3
    if covariance == "full":
        np.testing.assert_allclose(single.coef_, double.coef_, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(("name", "covariance"), CASES)
@pytest.mark.parametrize("classes", [2, 3])
def test_whole_weights_are_copies(name, covariance, classes):
    X, y = clouds(80, classes=classes)
    weights = np.random.default_rng(0).integers(0, 4, 80)
    weighted = stream(learner(name, covariance, average=True), X, y, weights=weights)
    copies = np.repeat(np.arange(80), weights)
    assert_same(weighted, stream(learner(name, covariance, average=True), X[copies], y[copies]))


def test_fractions_scale_the_cost_exactly_for_arow_and_pa():
    X, y = clouds(60)
    for model in (AROWClassifier(), PassiveAggressiveClassifier(variant=1, C=0.1)):
        halves = stream(clone(model), X.repeat(2, axis=0), y.repeat(2), weights=np.full(120, 0.5))
        np.testing.assert_allclose(halves.coef_, stream(clone(model), X, y).coef_, rtol=1e-10)


def test_rules_without_a_cost_take_copies_only():
    X, y = clouds(20)
    for name in ("PA", "SOP", "CW-Stdev", "CELLIP", "IELLIP"):
        with pytest.raises(ValueError, match="whole numbers"):
            learner(name, "full").fit(X, y, sample_weight=np.full(20, 0.5))


@pytest.mark.parametrize(("name", "covariance"), CASES)
def test_average_is_the_mean_over_the_rounds(name, covariance):
    X, y = clouds(60, noise=0.0)
    last = learner(name, covariance)
    coefs = []
    for i in range(60):
        last.partial_fit(X[i : i + 1], y[i : i + 1], classes=[0, 1])
        coefs.append(last.coef_.copy())
    averaged = stream(learner(name, covariance, average=True), X, y)
    np.testing.assert_allclose(averaged.coef_, np.mean(coefs, axis=0), rtol=1e-9)
    assert averaged.predict_one(X[0]) == averaged.predict(X[:1])[0]


@pytest.mark.parametrize(("name", "covariance"), CASES)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", ["array", "dict"])
def test_one_row_is_a_batch_of_one(name, covariance, classes, kind):
    X, y = clouds(60, classes=classes)
    batch = stream(learner(name, covariance), X, y)
    single = learner(name, covariance)
    single.partial_fit(X[:1], y[:1], classes=np.unique(y))
    for row, label in zip(X[1:], y[1:]):
        single.learn_one(dict(enumerate(row)) if kind == "dict" else row, label)
    assert_same(single, batch, 1e-13)
    rows = [dict(enumerate(row)) if kind == "dict" else row for row in X]
    assert [single.predict_one(row) for row in rows] == batch.predict(X).tolist()


@pytest.mark.parametrize(("name", "covariance"), CASES)
def test_features_and_classes_may_appear_over_time(name, covariance):
    X, y = clouds(150, classes=2, d=8)
    names = np.array(list("abcdefgh"))
    rng = np.random.default_rng(0)
    X[rng.random(X.shape) < 0.5] = 0.0
    X[:40, 5:] = 0.0
    stops = learner(name, covariance)
    for row, label in zip(X, y):
        stops.learn_one({names[j]: row[j] for j in np.flatnonzero(row)}, "xy"[label])
    assert stops.classes_.tolist() == ["x", "y"]
    order = [stops._vocabulary[c] for c in names]
    first = int(np.flatnonzero(y != y[0])[0])
    other = stream(learner(name, covariance), X[first:], y[first:])
    if name != "CELLIP-minvol":  # which depends on the number of features
        np.testing.assert_allclose(stops.coef_[:, order], other.coef_, rtol=1e-9, atol=1e-12)
    assert stops.t_ == 150
    assert stops.predict_one({"a": 1.0, "never seen": 3.0}) in ("x", "y")


def test_a_third_class():
    X, y = clouds(400, classes=3, noise=0.0)
    order = np.argsort(y == 1, kind="stable")
    for multi_class in ("top1", "ovr", "kbest"):
        model = AROWClassifier(multi_class=multi_class)
        for i in [*order, *range(400)]:
            model.learn_one(X[i], int(y[i]))
        assert model.classes_.tolist() == [0, 1, 2]
        assert model.score(X, y) > 0.9
        batch = AROWClassifier(multi_class=multi_class, allow_new_classes=True, covariance="diag")
        batch.partial_fit(X[order[:200]], y[order[:200]], classes=[0, 2])
        batch.partial_fit(X, y).partial_fit(X, y)
        assert batch.score(X, y) > 0.85
    model = AROWClassifier().partial_fit(X[y != 1], y[y != 1], classes=[0, 2])
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="not among"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="not among"):
        model.learn_one(X[0], 1)
    assert np.array_equal(before, model.coef_)


@pytest.mark.parametrize("covariance", ["full", "diag", "sketch"])
def test_splitting_two_classes_changes_no_margin(covariance):
    X, y = clouds(100)
    binary = stream(AROWClassifier(covariance=covariance, sketch_size=3), X, y)
    f, deviation = binary.margin_mean_std(X)
    add_class(binary, 7)
    g, deviations = binary.margin_mean_std(X)
    np.testing.assert_allclose(g[:, 1] - g[:, 0], f, rtol=1e-12)
    np.testing.assert_allclose((deviations[:, :2] ** 2).sum(axis=1), deviation**2, rtol=1e-12)


@pytest.mark.parametrize("name", ["CW-Stdev", "IELLIP", "IELLIP-b1"])
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_initial_variance_makes_no_difference(name, covariance):
    X, y = clouds(400, noise=0.0, seed=1)
    parameter = "initial_scale" if "ELLIP" in name else "initial_variance"
    models = [
        stream(learner(name, covariance, **{parameter: a}), X, y) for a in (1.0, 0.01, 37.0, 1e4)
    ]
    for model in models[1:]:
        assert model.n_mistakes_ == models[0].n_mistakes_
        assert model.n_updates_ == models[0].n_updates_
        ratio = model.coef_ / models[0].coef_
        np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-7)


def test_confidence_weighted_is_free_of_the_length_of_rows():
    X, y = clouds(300, noise=0.0)
    lengths = np.random.default_rng(0).uniform(0.1, 10.0, (300, 1))
    params = {"fit_intercept": False}
    one = stream(ConfidenceWeightedClassifier(**params), X, y)
    other = stream(ConfidenceWeightedClassifier(**params), X * lengths, y)
    np.testing.assert_allclose(other.coef_, one.coef_, rtol=1e-8)


def test_two_classes_as_several():
    """The margin of two classes is that of the difference of their weights."""
    X, y = clouds(200)
    for name in ("AROW", "CW-Stdev", "SCW-II", "NHERD"):
        for covariance in ("full", "diag"):
            binary = learner(name, covariance)
            variance = binary._variance
            binary._variance = lambda v=variance: 2.0 * v()
            stream(binary, X, y)
            several = learner(name, covariance)
            several.partial_fit(X, y, classes=[0, 1, 2])
            # The third class never wins against the others unless both are negative: compare
            # only if it was never picked.
            if not several.coef_[2].any():
                difference = several.coef_[1] - several.coef_[0]
                np.testing.assert_allclose(difference, binary.coef_[0], rtol=1e-10)


@pytest.mark.parametrize("name", MULTILABEL)
@pytest.mark.parametrize("multilabel", ["ovr", "rank"])
def test_label_sets(name, multilabel):
    X, Y = label_sets()
    model = clone(MULTILABEL[name]).set_params(multilabel=multilabel)
    chunked = stream(clone(model), X, Y, 11)
    assert_same(chunked, stream(clone(model), X, Y), 1e-13)
    model.fit(X, Y)
    assert model.predict(X).shape == Y.shape
    if name != "CELLIP-minvol":
        assert (model.predict(X) == Y).mean() > 0.8
    if multilabel == "ovr":
        single = stream(clone(MULTILABEL[name]), X, Y[:, 0])
        chunked = stream(clone(MULTILABEL[name]).set_params(multilabel="ovr"), X, Y)
        np.testing.assert_allclose(chunked.coef_[0], single.coef_[0], rtol=1e-10)


def test_counts_by_hand():
    """Progressive mistakes and updates of a learner written down in plain NumPy."""
    X, y = clouds(200, classes=3)
    model = stream(PassiveAggressiveClassifier(variant=1, C=0.1), X, y)
    W, Z = np.zeros((3, 7)), np.column_stack([X, np.ones(200)])
    mistakes = updates = 0
    for z, label in zip(Z, y):
        f = W @ z
        others = np.where(np.arange(3) == label, -np.inf, f)
        rival = others.argmax()
        m = f[label] - f[rival]
        mistakes += m <= 0
        if m < 1:
            step = min(0.1, (1 - m) / (2 * z @ z))
            W[label] += step * z
            W[rival] -= step * z
            updates += 1
    assert (model.n_mistakes_, model.n_updates_) == (mistakes, updates)
    np.testing.assert_allclose(model.coef_, W[:, :-1], rtol=1e-12)


def test_pickle_and_copy():
    X, y = clouds(100)
    model = stream(AROWClassifier(), X, y)
    model.learn_one(X[0], y[0])
    twin = pickle.loads(pickle.dumps(model))
    assert_same(stream(twin, X, y), stream(model, X, y))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        stream(twin, X, y)
