"""Learners without scikit-learn, and what they record on the way."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from oblong import online
from oblong.online.incremental import IncrementalLearner
from oblong.online.plain_learner import _RULES, PlainLearner
from oblong.solvers.online.options import OnlineOptions
from oblong.solvers.online.rows import Rows
from oblong.solvers.online.slots import NOT_YET
from tests.online.learners import LEARNERS, SECOND_ORDER, clouds

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

CASES = [
    (name, covariance)
    for name in ("AROW", "CW-Stdev", "PA")
    for covariance in (["full", "diag", "sketch"] if name in SECOND_ORDER else [None])
]


@pytest.mark.parametrize("name", _RULES)
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_learners_by_name_are_the_estimators(name, covariance):
    parameters = {"normalize": True, "allow_new_classes": True}
    if name != "PassiveAggressiveClassifier":
        parameters |= {"covariance": covariance, "forgetting": 0.99}
    plain = PlainLearner.by_name(name, parameters)
    estimator = getattr(online, name)(**parameters)
    assert plain.estimator().get_params() == estimator.get_params()
    other = PlainLearner.of(estimator)
    assert plain._rule(7) == other._rule(7)
    defaults = {"steps": 1, "bias": 1.0, "variance": 1.0, "average": False}
    assert {**other._options, "sketch_size": 0} == {**plain._options, **defaults, "sketch_size": 0}


def test_what_only_the_estimator_knows_is_left_to_it():
    assert PlainLearner.by_name("AROWClassifier", {"r": 2.0}) is None
    assert PlainLearner.by_name("AROWClassifier", {"covariance": "sketch"}) is None
    assert PlainLearner.by_name("AROWClassifier", {"forgetting": 2.0}) is None
    assert PlainLearner.by_name("OnlineEllipsoidalSVC", {}) is None
    assert PlainLearner.of(online.AROWClassifier(class_weight={0: 2.0})) is None


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("calibration", [None, "platt"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("name", "covariance"), CASES)
def test_recorded_decisions_are_those_before_learning(
    name, covariance, classes, calibration, sparse
):
    X, y = clouds(n=80, d=5, classes=classes, seed=3)
    if sparse:
        X *= np.random.default_rng(0).random(X.shape) < 0.6
    options = {} if covariance is None else {"covariance": covariance}
    model = clone(LEARNERS[name]).set_params(calibration=calibration, **options)
    one_by_one = clone(model).partial_fit(X[:1], y[:1], classes=range(classes))
    expected = []
    for x, label in zip(X[1:], y[1:]):
        outputs = one_by_one._state.scores(x[None])
        expected.append(one_by_one._decisions(outputs)[0])
        one_by_one.partial_fit(x[None], [label])
    state = clone(model).partial_fit(X[:1], y[:1], classes=range(classes))._state
    record = np.full((79, state.n_outputs), NOT_YET)
    rows = Rows.of(sp.csr_matrix(X[1:]) if sparse else X[1:])
    labels = y[1:, None].astype(np.int32)
    decided = state.decisions(rows)
    np.testing.assert_allclose(decided[0], expected[0], rtol=1e-9, atol=1e-12)
    state.learn(rows, labels, np.ones(79), record=record)
    np.testing.assert_allclose(record, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("normalize", [False, True])
def test_blocks_record_what_rows_do(normalize):
    X, y = clouds(n=300, d=20, classes=2, seed=1)
    records = []
    for features in (2, 10_000):
        model = online.AROWClassifier(normalize=normalize).partial_fit(X[:1], y[:1], classes=[0, 1])
        record = np.full((299, 1), NOT_YET)
        options = OnlineOptions(block_features=features)
        labels = y[1:, None].astype(np.int32)
        weights = np.where(np.arange(299) % 7 == 3, 2.0, 1.0)
        model._state.learn(Rows.of(X[1:]), labels, weights, options=options, record=record)
        records.append(record)
    np.testing.assert_allclose(*records, rtol=1e-8)


@pytest.mark.parametrize("learner", ["AROWClassifier", "PassiveAggressiveClassifier"])
def test_predictions_of_classes_and_features_that_appear(learner):
    """As one by one: before there is a class, one class, two, more; weights of nought."""
    rng = np.random.default_rng(0)
    X = sp.random(60, 9, density=0.5, random_state=0, format="csr")
    labels = ["a", "b", "c"]
    codes = np.array([0, 0, 1] + [0, 1] * 10 + [2] + rng.integers(0, 3, 36).tolist())
    weights = np.ones(60)
    weights[[1, 30]] = 0.0
    parameters = {"allow_new_classes": True}
    model = getattr(online, learner)(**parameters)
    slow = IncrementalLearner(model)
    expected = []
    for i in range(60):
        guess = slow.predict_one(X[i])[0] if weights[i] else None
        expected.append(-1 if guess is None else labels.index(guess))
        slow.learn(X[i], codes[i : i + 1], labels, weights[i : i + 1])
    found = []
    quick = IncrementalLearner(PlainLearner.of(clone(model)))
    quick.watch = lambda predicted: found.extend(predicted.guesses.tolist())
    rows = Rows(X.data, X.indices, X.indptr.astype(np.int64), False, 9)
    quick.learn(rows.part(0, 25), codes[:25], labels, weights[:25])
    quick.learn(rows.part(25, 60), codes[25:], labels, weights[25:])
    assert found == expected
    assert quick.mistakes == slow.mistakes
    np.testing.assert_array_equal(quick.model.estimator().coef_, slow.model.coef_)


def test_a_unit_that_grows_pulls_its_weight_to_zero():
    """A tiny first value must not leave an enormous weight: AROW is ridge regression all along."""
    X = np.array([[1e-9, 1.0], [1.0, -1.0], [0.5, 0.2]])
    model = online.AROWClassifier(normalize=True, covariance="diag", r=0.1)
    model.partial_fit(X[:1], [1], classes=[0, 1])
    assert model.coef_[0, 0] > 1e7
    model.partial_fit(X[1:2], [0])
    assert abs(model.coef_[0, 0]) < 1.0


def test_units_of_rare_features_do_no_harm():
    """Sparse rows, most of whose features are rare: the errors are those of scaled rows."""
    rng = np.random.default_rng(0)
    n, d, entries = 4000, 2000, 20
    columns = np.sort(
        rng.integers(0, d // entries, (n, entries)) + d // entries * np.arange(entries)
    )
    values = rng.normal(size=(n, entries))
    y = (values * rng.normal(size=d)[columns]).sum(axis=1) > 0
    X = sp.csr_matrix((values.ravel(), columns.ravel(), np.arange(n + 1) * entries), (n, d))
    mistakes = [
        online.AROWClassifier(covariance="diag", normalize=normalize)
        .partial_fit(X, y, classes=[False, True])
        .n_mistakes_
        for normalize in (False, True)
    ]
    assert mistakes[1] < 1.15 * mistakes[0]
