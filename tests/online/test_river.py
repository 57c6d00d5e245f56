"""The adapter to River."""

from __future__ import annotations

import doctest
import pickle
import random
import subprocess
import sys

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier

from oblong import (
    AROWClassifier,
    KernelConfidenceWeightedClassifier,
    PassiveAggressiveClassifier,
)
from oblong.online.river import RiverClassifier
from tests.online.learners import LEARNERS, clouds

try:
    import river
except ImportError:
    river = None

needs_river = pytest.mark.skipif(river is None, reason="River is not installed")

CHECKED = {
    **{name: LEARNERS[name] for name in ("PA", "AROW", "CW-Stdev")},
    "AROW-diag": AROWClassifier(covariance="diag"),
    "AROW-sketch": AROWClassifier(covariance="sketch", sketch_size=4),
    "AROW-ovr": AROWClassifier(multi_class="ovr"),
    "AROW-average": AROWClassifier(average=True),
}


def dicts(X):
    """Rows as dictionaries."""
    return [{f"x{j}": float(value) for j, value in enumerate(row)} for row in X]


@needs_river
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["PA", "AROW-sketch"])
def test_checks_of_river(name):
    from river.checks import check_estimator

    adapter = RiverClassifier(CHECKED[name])
    assert adapter._unit_test_skips() == set()
    random.seed(0)  # the checks shuffle features
    check_estimator(adapter)


@needs_river
@pytest.mark.parametrize("name", ["AROW", "CW-Stdev", "AROW-diag", "AROW-ovr", "AROW-average"])
@pytest.mark.parametrize("classes", [2, 3])
def test_same_as_the_learner(name, classes):
    X, y = clouds(classes=classes, noise=0.0)
    adapter, learner = RiverClassifier(CHECKED[name]), CHECKED[name].__class__()
    learner.set_params(**CHECKED[name].get_params())
    for x, label in zip(dicts(X), y.tolist()):
        adapter.learn_one(x, label)
        learner.learn_one(x, label)
    assert adapter.model_.n_mistakes_ == learner.n_mistakes_
    np.testing.assert_array_equal(adapter.model_.coef_, learner.coef_)
    p = learner.predict_proba(X[:20])
    for i, x in enumerate(dicts(X[:20])):
        found = adapter.predict_proba_one(x)
        assert list(found) == list(range(classes))
        np.testing.assert_allclose(list(found.values()), p[i], rtol=1e-9, atol=1e-12)
        assert adapter.predict_one(x) == learner.predict(X[i : i + 1])[0]
        assert type(adapter.predict_one(x)) is int


@needs_river
def test_before_there_are_two_classes():
    adapter = RiverClassifier(AROWClassifier())
    assert adapter.predict_one({"a": 1.0}) is None
    assert adapter.predict_proba_one({"a": 1.0}) == {}
    adapter.learn_one({"a": 1.0}, "red")
    assert adapter.predict_one({"b": 1.0}) == "red"
    assert adapter.predict_proba_one({"b": 1.0}) == {"red": 1.0}
    adapter.learn_one({"b": 1.0}, "blue")
    adapter.learn_one({"a": 1.0}, "red")
    assert adapter.predict_one({"b": 1.0}) == "blue"
    assert adapter.predict_one({"a": 1.0, "unknown": 7.0}) == "red"
    p = adapter.predict_proba_one({"a": 1.0, "unknown": 7.0})
    assert set(p) == {"blue", "red"}
    assert p == adapter.predict_proba_one({"a": 1.0})
    adapter.learn_one({"c": 1.0}, "green")
    assert set(adapter.predict_proba_one({"a": 1.0})) == {"blue", "red", "green"}
    assert type(adapter.predict_one({"a": 1.0})) is str


@needs_river
def test_weights():
    X, y = clouds(n=60)
    once, often = RiverClassifier(AROWClassifier()), RiverClassifier(AROWClassifier())
    for x, label in zip(dicts(X), y.tolist()):
        once.learn_one(x, label, w=0.5)
        often.learn_one(x, label)
    assert not np.array_equal(once.model_.coef_, often.model_.coef_)
    with pytest.raises(ValueError, match="sample_weight"):
        once.learn_one({"x0": 1.0}, 0, w=-1.0)


@needs_river
def test_no_probabilities_without_a_gaussian():
    adapter = RiverClassifier(PassiveAggressiveClassifier())
    with pytest.raises(NotImplementedError, match="has no probabilities"):
        adapter.predict_proba_one({"a": 1.0})


@needs_river
def test_learner_given_stays_as_it_is():
    learner = AROWClassifier(r=3.0)
    adapter = RiverClassifier(learner)
    for x, label in zip(dicts(clouds(n=20)[0]), clouds(n=20)[1].tolist()):
        adapter.learn_one(x, label)
    assert not hasattr(learner, "classes_")
    assert adapter.clone().predict_one({"x0": 1.0}) is None
    assert adapter.clone().model_.r == 3.0
    again = pickle.loads(pickle.dumps(adapter))
    x = {"x0": 0.3, "x1": -1.0}
    assert again.predict_proba_one(x) == adapter.predict_proba_one(x)
    again.learn_one(x, 1)
    for other in (SGDClassifier(), KernelConfidenceWeightedClassifier()):
        with pytest.raises(TypeError, match=f"expected a linear .*, got {type(other).__name__}"):
            RiverClassifier(other)


@needs_river
def test_in_a_pipeline_it_does_better_than_passive_aggressive():
    from river import datasets, evaluate, linear_model, metrics, preprocessing

    scores = []
    for model in (RiverClassifier(AROWClassifier()), linear_model.PAClassifier(C=1.0, mode=1)):
        pipeline = preprocessing.StandardScaler() | model
        metric = metrics.Accuracy()
        evaluate.progressive_val_score(datasets.Phishing(), pipeline, metric)
        scores.append(metric.get())
    assert scores[0] > 0.86
    assert scores[0] > scores[1]


@needs_river
def test_example_of_the_docstring():
    text = RiverClassifier.__doc__.replace("# doctest: +SKIP", "")
    example = doctest.DocTestParser().get_doctest(text, {}, "RiverClassifier", None, 0)
    assert doctest.DocTestRunner().run(example).failed == 0


def test_without_river():
    """The module can be imported where River is missing, and says what to do."""
    program = """
import sys
sys.modules["river"] = sys.modules["river.base"] = None
import oblong
from oblong.online.river import RiverClassifier
try:
    RiverClassifier(oblong.AROWClassifier())
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert 'pip install "oblong[river]"' in done.stdout


def test_river_is_not_loaded_by_the_package():
    program = "import sys, oblong, oblong.online; print('river' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


@needs_river
@pytest.mark.parametrize("name", ["AROW", "CW-Stdev", "PA"])
def test_many_rows_are_one_after_the_other(name):
    """Also when features and classes come up within a batch, and between batches."""
    pd = pytest.importorskip("pandas")
    X, y = clouds(240, classes=3, d=6)
    order = np.argsort(y == 2, kind="stable")
    X, y = X[order], np.array(["x", "y", "z"])[y[order]]
    many, single = RiverClassifier(LEARNERS[name]), RiverClassifier(LEARNERS[name])
    empty = pd.DataFrame({"a": [1.0, 2.0]})
    assert many.predict_many(empty).empty
    for start, names in ((0, list("dcb")), (60, list("abcd")), (120, list("abcdef"))):
        stop = {0: 60, 60: 120, 120: 240}[start]
        rows = X[start:stop, ["abcdef".index(c) for c in names]]
        frame = pd.DataFrame(rows, columns=names, index=np.arange(start, stop) + 7)
        many.learn_many(frame, pd.Series(y[start:stop]))
        for row, label in zip(rows, y[start:stop]):
            single.learn_one(dict(zip(names, row.tolist())), str(label))
    assert many.model_.classes_.tolist() == ["x", "y", "z"]
    assert many.model_.t_ == single.model_.t_ == 240
    assert many.model_.n_mistakes_ == single.model_.n_mistakes_
    np.testing.assert_allclose(many.model_.coef_, single.model_.coef_, rtol=1e-6, atol=1e-9)
    frame = pd.DataFrame(X, columns=list("abcdef"), index=np.arange(240) + 7).assign(new=1.0)
    rows = frame.to_dict("records")
    assert many.predict_many(frame).tolist() == [many.predict_one(row) for row in rows]
    assert many.predict_many(frame).index.equals(frame.index)
    if name != "PA":
        found = many.predict_proba_many(frame)
        expected = pd.DataFrame([many.predict_proba_one(row) for row in rows])
        np.testing.assert_allclose(found.to_numpy(), expected.to_numpy(), rtol=1e-6)
    else:
        with pytest.raises(NotImplementedError, match="no probabilities"):
            many.predict_proba_many(frame)


@needs_river
def test_many_rows_of_one_class_and_bad_rows():
    pd = pytest.importorskip("pandas")
    model = RiverClassifier(LEARNERS["AROW"])
    frame = pd.DataFrame({"a": [1.0, 2.0, -1.0]})
    model.learn_many(frame, pd.Series([1, 1, 1]))
    assert model.predict_many(frame).tolist() == [1, 1, 1]
    assert model.predict_proba_many(frame)[1].tolist() == [1.0, 1.0, 1.0]
    model.learn_many(frame, pd.Series([1, 0, 0]))
    with pytest.raises(ValueError, match="NaN"):
        model.learn_many(pd.DataFrame({"a": [np.nan]}), pd.Series([1]))
    assert model.model_.t_ == 6
    # Arrays, batches and dicts in turn.
    model.model_.learn_one(np.array([1.0]), 1)
    model.learn_many(frame, pd.Series([0, 1, 0]))
    model.model_.learn_one(np.array([2.0]), 1)
    model.learn_one({"b": 1.0}, 0)
    assert model.model_.t_ == 12
