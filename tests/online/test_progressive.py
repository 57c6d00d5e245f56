"""Progressive validation against a loop that is written out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import balanced_accuracy_score, log_loss, make_scorer, roc_auc_score

from oblong import (
    AROWClassifier,
    KernelConfidenceWeightedClassifier,
    OnlineEllipsoidalSVC,
    PassiveAggressiveClassifier,
)
from oblong.online import progressive_validation
from oblong.online.growing import TooLarge
from oblong.online.incremental import IncrementalLearner
from tests.online.learners import LEARNERS, clouds

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def written_out(model, X, y, delay=0):
    """Predictions of all rows, each made before the labels of the last ``delay`` rows and its own.

    None stands for no prediction. The model is left as it is after the last label.
    """
    predictions, late = [], []
    for x, label in zip(X, y):
        if vars(model).get("_state") is None and not hasattr(model, "_only"):
            predictions.append(None)
        else:
            predictions.append(model.predict_one(x))
        late.append((x, label))
        if len(late) > delay:
            model.learn_one(*late.pop(0))
    for pair in late:
        model.learn_one(*pair)
    return predictions


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("name", LEARNERS)
def test_batches_rows_and_metrics_count_the_same(name, classes):
    X, y = clouds(250, classes=classes)
    results, models = [], []
    for rows, options in (
        ([(X[:90], y[:90]), (X[90:], y[90:])], {}),
        (zip(X, y), {}),
        ([(X, y)], {"metrics": "accuracy"}),
        ([(sp.csr_matrix(X), y)], {}),
        ([(pd.DataFrame(X, columns=list("abcdef")), y)], {}),
    ):
        models.append(clone(LEARNERS[name]))
        results.append(progressive_validation(models[-1], rows, window=100, **options))
    assert len({r.mistakes for r in results}) == 1
    assert all(r.rows == r.examples == 250 for r in results)
    assert [w.length for w in results[0].windows] == [100, 100, 50]
    for other, model in zip(results[1:], models[1:]):
        assert [w.mistakes for w in other.windows] == [w.mistakes for w in results[0].windows]
        np.testing.assert_allclose(model.coef_, models[0].coef_, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("delay", [0, 1, 7, 1000])
@pytest.mark.parametrize("classes", [2, 3])
def test_labels_that_come_late(delay, classes):
    X, y = clouds(200, classes=classes)
    model, reference = AROWClassifier(), AROWClassifier()
    found = progressive_validation(model, [(X, y)], delay=delay, metrics=balanced_accuracy_score)
    predictions = written_out(reference, X, y.tolist(), delay)
    np.testing.assert_array_equal(model.coef_, reference.coef_)
    known = [i for i, label in enumerate(predictions) if label is not None]
    assert len(known) == max(0, 200 - 1 - delay)
    wrong = sum(label != truth for label, truth in zip(predictions, y.tolist()))
    # An output of exactly zero is a mistake whatever is predicted.
    assert 0 <= found.mistakes - wrong <= delay + 1
    if not known:
        assert np.isnan(found.scores["balanced_accuracy_score"])
        return
    expected = balanced_accuracy_score(y[known], [predictions[i] for i in known])
    assert found.scores["balanced_accuracy_score"] == pytest.approx(expected)


def test_metrics_of_probabilities_and_of_windows():
    X, y = clouds(300, noise=0.2)
    scorers = {
        "auc": make_scorer(roc_auc_score, response_method="decision_function"),
        "loss": "neg_log_loss",
    }
    model = AROWClassifier(calibration="platt").partial_fit(X[:50], y[:50], classes=[0, 1])
    twin = clone(model).partial_fit(X[:50], y[:50], classes=[0, 1])
    found = progressive_validation(model, [(X[50:], y[50:])], metrics=scorers, window=125)
    p, f = np.empty((250, 2)), np.empty(250)
    for i, (x, label) in enumerate(zip(X[50:], y[50:])):
        p[i], f[i] = twin.predict_proba(x[None])[0], twin.decision_function(x[None])[0]
        twin.learn_one(x, label)
    truth = y[50:]
    assert found.scores["loss"] == pytest.approx(-log_loss(truth, p))
    assert found.scores["auc"] == pytest.approx(roc_auc_score(truth, f))
    for k, window in enumerate(found.windows):
        part = slice(125 * k, 125 * (k + 1))
        assert window.scores["loss"] == pytest.approx(-log_loss(truth[part], p[part]))
        assert window.error == pytest.approx(np.mean((p[part, 1] > 0.5) != truth[part]))


def test_probabilities_before_all_classes_are_known():
    X, y = clouds(120, classes=3)
    order = np.argsort(y, kind="stable")
    order[10:] = np.random.default_rng(0).permutation(order[10:])
    found = progressive_validation(
        AROWClassifier(), [(X[order], y[order])], metrics=["neg_log_loss", "accuracy"]
    )
    assert np.isfinite(found.scores["neg_log_loss"])
    assert found.scores["accuracy"] * 119 == pytest.approx(120 - found.mistakes, abs=2)


def test_weights_stand_for_copies():
    X, y = clouds(150)
    weights = np.random.default_rng(0).integers(0, 4, 150).astype(float)
    repeated = np.repeat(np.arange(150), weights.astype(int))
    model, other = AROWClassifier(), AROWClassifier()
    found = progressive_validation(model, [(X, y, weights)])
    expected = progressive_validation(other, [(X[repeated], y[repeated])])
    assert (found.rows, found.examples) == (150, len(repeated))
    assert found.mistakes == expected.mistakes
    np.testing.assert_allclose(model.coef_, other.coef_)
    single = AROWClassifier()
    assert progressive_validation(single, zip(X, y, weights)).mistakes == found.mistakes
    np.testing.assert_allclose(single.coef_, model.coef_)


def test_dicts_with_features_and_classes_that_appear():
    X, y = clouds(160, classes=3)
    rows = [{f"f{j}": v for j, v in enumerate(x[: 2 + i // 40])} for i, x in enumerate(X)]
    model, reference = AROWClassifier(), AROWClassifier()
    seen = []
    found = progressive_validation(model, zip(rows, y), window=40, on_window=seen.append)
    predictions = written_out(reference, rows, y.tolist())
    np.testing.assert_array_equal(model.coef_, reference.coef_)
    wrong = sum(label != truth for label, truth in zip(predictions, y.tolist()))
    assert 0 <= found.mistakes - wrong <= 2
    assert found.windows == tuple(seen)
    assert found.windows[-1].total_error == found.error
    late = progressive_validation(AROWClassifier(), zip(rows, y), delay=5, metrics="accuracy")
    assert late.rows == 160
    assert late.mistakes > found.mistakes


def test_sparse_rows_that_grow_wider():
    X, y = clouds(200, d=9)
    X[np.abs(X) < 0.8] = 0.0
    X[:100, 6:] = 0.0
    narrow = (sp.csr_matrix(X[:100, :6]), y[:100])
    model, whole = AROWClassifier(covariance="diag"), AROWClassifier(covariance="diag")
    found = progressive_validation(model, [narrow, (sp.csr_matrix(X[100:]), y[100:])])
    expected = progressive_validation(whole, [(sp.csr_matrix(X), y)], metrics="accuracy")
    assert model.n_features_in_ == 9
    assert found.mistakes == expected.mistakes
    np.testing.assert_allclose(model.coef_, whole.coef_)


@pytest.mark.parametrize("kind", [KernelConfidenceWeightedClassifier, OnlineEllipsoidalSVC])
def test_learners_that_do_not_grow(kind):
    X, y = clouds(120)
    model = kind().partial_fit(X[:60], y[:60], classes=[0, 1])
    other = kind().partial_fit(X[:60], y[:60], classes=[0, 1])
    found = progressive_validation(model, [(X[60:], y[60:])])
    slow = progressive_validation(other, zip(X[60:], y[60:]), metrics="accuracy")
    assert found.rows == slow.rows == 60
    np.testing.assert_allclose(
        model.decision_function(X), other.decision_function(X), rtol=1e-6, atol=1e-8
    )
    with pytest.raises(ValueError, match="classes"):
        progressive_validation(model, [(X[:2], [0, 7])])


def test_a_learner_goes_on_from_what_it_knows():
    X, y = clouds(200)
    model = PassiveAggressiveClassifier().partial_fit(X[:100], y[:100], classes=[0, 1])
    before = model.n_mistakes_
    found = progressive_validation(model, [(X[100:], y[100:])])
    assert (found.rows, found.mistakes) == (100, model.n_mistakes_ - before)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"drift": "adwim"}, ValueError, "drift"),
        ({"window": 0}, ValueError, "window"),
        ({"window": 2.5}, ValueError, "window"),
        ({"delay": -1}, ValueError, "delay"),
        ({"metrics": "no such scorer"}, ValueError, "no such scorer"),
        ({"metrics": [3]}, TypeError, "metric"),
        ({"metrics": [log_loss, log_loss]}, ValueError, "log_loss"),
    ],
)
def test_what_is_refused_before_any_row(options, error, message):
    def rows():
        raise AssertionError("a row was read")
        yield

    with pytest.raises(error, match=message):
        progressive_validation(AROWClassifier(), rows(), **options)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([np.zeros((2, 3))], TypeError, "pairs"),
        ([(np.zeros((2, 3)), [1])], ValueError, "labels"),
        ([(np.zeros((2, 3)), np.eye(2))], ValueError, "one label per row"),
        ([(np.zeros((2, 3)), [0, 1], [1.0])], ValueError, "weights"),
        ([(np.array([[0.0, 1.0], [np.nan, 1.0]]), [0, 1])], ValueError, "NaN"),
    ],
)
def test_rows_that_are_refused(rows, error, message):
    with pytest.raises(error, match=message):
        progressive_validation(AROWClassifier(), rows)


def test_other_models_are_refused():
    with pytest.raises(TypeError, match="SGDClassifier"):
        progressive_validation(SGDClassifier(), [])


def test_a_stream_that_outgrows_memory(monkeypatch):
    monkeypatch.setattr(AROWClassifier, "_most_bytes", 1e5)
    learner = IncrementalLearner(AROWClassifier(covariance="full"))
    X = sp.csr_matrix(([1.0, 1.0, 1.0], ([0, 1, 2], [0, 1, 500])), shape=(3, 501))
    with pytest.raises(TooLarge, match="501 features") as found:
        learner.learn(X, np.array([0, 1, 0]), ["a", "b"])
    assert found.value.n_features == 501
    assert learner.model.n_features_in_ == 2


def test_drift_is_found_where_the_rule_changes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    y = X[:, 0] > 0
    y[1500:] = ~y[1500:]
    calm = progressive_validation(AROWClassifier(), [(X[:1500], y[:1500])], drift="adwin")
    assert calm.drifts == ()
    found = progressive_validation(AROWClassifier(), [(X, y)], drift="adwin", window=500)
    assert 1500 < found.drifts[0] < 1600
    # What is counted stays the same.
    plain = progressive_validation(AROWClassifier(), [(X, y)], window=500)
    assert (found.mistakes, found.windows) == (plain.mistakes, plain.windows)


def test_detectors_of_river_find_drift():
    detectors = pytest.importorskip("river.drift")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    y = X[:, 0] > 0
    y[1500:] = ~y[1500:]
    for detector in (detectors.ADWIN(), detectors.binary.DDM()):
        found = progressive_validation(AROWClassifier(), zip(X, y), drift=detector)
        assert any(1500 < row < 1700 for row in found.drifts)


@pytest.mark.parametrize("missing", [None, np.nan])
def test_progressive_validation__refuses_a_label_that_is_missing(missing):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(10, 2)), np.array([0, 1] * 5, dtype=object)
    y[3] = missing
    with pytest.raises(ValueError, match=r"y has a missing value, .*, in row 3"):
        progressive_validation(AROWClassifier(), [(X, y)])
    with pytest.raises(ValueError, match="the label of row 3 is missing"):
        progressive_validation(AROWClassifier(), zip(X, y))
