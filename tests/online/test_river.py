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
    **{name: LEARNERS[name] for name in ("PA", "AROW", "CW-Stdev", "CELLIP", "IELLIP-b1")},
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
@pytest.mark.parametrize("name", CHECKED)
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
