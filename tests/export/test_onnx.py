from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import log_ndtr, ndtr
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

import oblong

from ..persistence.models import CASES, IDS, fitted, rows
from .graphs import NEW, assert_agrees, run


@pytest.mark.parametrize(("name", "settings", "n_classes"), CASES, ids=IDS)
def test_every_estimator_agrees_with_its_graph(name, settings, n_classes):
    assert_agrees(fitted(name, settings, n_classes))


@pytest.mark.parametrize(
    "labels",
    [[0, 1, 2], [-5, 3, 10**12], ["a", "é", "z z"], [1.0, 2.0, 9.0], [False, True]],
    ids=str,
)
def test_label_types(labels):
    X, y = rows(len(labels))
    assert_agrees(oblong.RelativeMarginClassifier().fit(X, np.array(labels)[y]))


@pytest.mark.parametrize("shape", ["ovo", "ovr"])
@pytest.mark.parametrize("ties", ["first", "confidence"])
def test_votes_and_ties(shape, ties):
    """Outputs of little weight make many ties of votes."""
    X, y = rows(3)
    model = oblong.RelativeMarginClassifier(
        kernel="linear", C=1e-3, decision_function_shape=shape, break_ties=ties
    ).fit(X, y)
    assert_agrees(model)
    # A cycle of votes.
    model.coef_, model.intercept_ = np.zeros((3, 3)), np.array([1.0, -2.0, 3.0])
    assert_agrees(model)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "sigmoid"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_svm_of_scikit_learn(kernel, n_classes):
    X, y = rows(n_classes)
    assert_agrees(SVC(kernel=kernel, gamma=0.05).fit(X, y))


@pytest.mark.parametrize("settings", [{"normalize": True}, {"fit_intercept": "augment"}])
@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_variants_of_the_ellipsoidal_machine(settings, kernel):
    X, y = rows()
    model = oblong.EllipsoidalSVC(kernel=kernel, coef0=1.0, **settings).fit(X, y)
    assert_agrees(model, np.vstack([NEW, np.zeros(3)]))


@pytest.mark.parametrize("rank", [None, 5])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_bayes_points_in_a_part_of_the_space(rank, n_classes):
    X, y = rows(n_classes)
    wide = np.hstack([X, X**2, np.sin(X), np.cos(X)])
    for kernel in ("linear", "rbf"):
        model = oblong.BayesPointClassifier(kernel=kernel, rank=rank, soft=0.3)
        model.fit(wide[:10], y[:10])
        assert_agrees(model, np.hstack([NEW, NEW**2, np.sin(NEW), np.cos(NEW)]))


@pytest.mark.parametrize("multilabel", ["ovr", "rank"])
def test_label_sets(multilabel):
    X, y = rows()
    sets = np.eye(3, dtype=int)[y] | np.eye(3, dtype=int)[(y + 1) % 3] * (X[:, :1] > 0)
    model = oblong.ImprovedEllipsoidClassifier(random_state=0)
    if "multilabel" in model.get_params():
        model.set_params(multilabel=multilabel)
    assert_agrees(model.fit(X, sets))


def variants(X, y):
    """Fitted models that differ from those of the cases above in what they have stored."""
    margin = oblong.RelativeMarginClassifier
    yield oblong.MarginRegressor(epsilon=100.0).fit(X, y)
    yield oblong.MarginRegressor(loss="quantile", quantile=(0.9, 0.1, 0.5)).fit(X, y)
    yield margin(kernel="sigmoid", spread=1.0, gamma=0.01).fit(X, y)
    yield margin().fit(sp.csr_matrix(X), y)
    for kernel in ("linear", "rbf"):
        yield oblong.UniversumSVC(kernel=kernel).fit(X, y, X_universum=X[::5] + 0.5)
    inner = make_pipeline(StandardScaler(), oblong.AROWClassifier(random_state=0))
    yield make_pipeline(MinMaxScaler(), inner).fit(X, y)


@pytest.mark.filterwarnings("ignore:.*not positive semidefinite")
def test_variants():
    for model in variants(*rows()):
        assert_agrees(model)


def test_far_from_the_origin():
    X, y = rows()
    model = oblong.RelativeMarginClassifier(gamma=0.05).fit(X + 1e5, y)
    assert_agrees(model, NEW + 1e5)


def test_single_precision_input():
    X, y = rows()
    model = oblong.RelativeMarginClassifier().fit(X, y)
    graph = oblong.to_onnx(model, input_type="float32")
    single = NEW.astype(np.float32)
    labels, scores = run(graph, single)
    expected = model.decision_function(single.astype(np.float64))
    np.testing.assert_allclose(scores, expected, rtol=1e-10)
    assert labels.tolist() == model.predict(single.astype(np.float64)).tolist()


def test_one_row_and_no_row():
    X, y = rows()
    graph = oblong.to_onnx(oblong.RelativeMarginClassifier().fit(X, y))
    assert [len(output) for output in run(graph, NEW[:1])] == [1, 1]
    assert [len(output) for output in run(graph, NEW[:0])] == [0, 0]


def precomputed(kind, **settings):
    X, y = rows()
    return kind(kernel="precomputed", **settings).fit(X @ X.T, y)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: precomputed(oblong.RelativeMarginClassifier), "a precomputed kernel"),
        (lambda: precomputed(oblong.EllipsoidalKernelClassifier, rank=3), "a precomputed kernel"),
        (lambda: precomputed(oblong.EllipsoidalSVC), "a precomputed kernel"),
        (lambda: precomputed(oblong.BayesPointClassifier, soft=0.3), "a precomputed kernel"),
        (
            lambda: oblong.RelativeMarginClassifier(kernel=lambda A, B: A @ B.T).fit(*rows()),
            "a Python function",
        ),
        (
            lambda: oblong.RelativeMarginClassifier(break_ties="random").fit(*rows()),
            'break_ties="random"',
        ),
        (lambda: StandardScaler().fit(rows()[0]), "a StandardScaler"),
    ],
)
def test_what_onnx_does_not_express_is_a_clear_error(make, message):
    with pytest.raises(ValueError, match="cannot be exported to ONNX") as error:
        oblong.to_onnx(make())
    assert message in str(error.value)


def test_the_normal_distribution_to_its_tail():
    """Single precision ends at 1e-7."""
    from oblong.export._graph import Graph
    from oblong.export._normal import log_normal, normal

    z = np.concatenate([np.linspace(-37.0, 9.0, 400), [0.0, -0.0, 1e-300, 1e300, -1e300]])
    graph = Graph()
    outputs = {"p": normal(graph, "X"), "log_p": log_normal(graph, "X")}
    model = graph.model({"X": 1}, "float64", outputs, {})
    p, log_p = run(model, z[:, None], outputs=["p", "log_p"])
    np.testing.assert_allclose(p[:, 0], ndtr(z), rtol=1e-9)
    np.testing.assert_allclose(log_p[:-1, 0], log_ndtr(z)[:-1], rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("multi_class", ["top1", "ovr"])
def test_calibrated_learners(n_classes, multi_class):
    X, y = rows(n_classes)
    for kind in (oblong.AROWClassifier, oblong.PassiveAggressiveClassifier):
        model = kind(calibration="platt", multi_class=multi_class, random_state=0)
        assert_agrees(model.fit(X, y))


@pytest.mark.parametrize("multilabel", ["ovr", "rank"])
def test_chances_of_label_sets(multilabel):
    X, y = rows()
    sets = np.eye(3, dtype=int)[y] | np.eye(3, dtype=int)[(y + 1) % 3] * (X[:, :1] > 0)
    for kind in (oblong.AROWClassifier, oblong.ConfidenceWeightedClassifier):
        model = kind(random_state=0)
        if not model._multilabel:
            continue
        assert_agrees(model.set_params(multilabel=multilabel).fit(X, sets))


def test_unfitted_and_wrong_arguments():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        oblong.to_onnx(oblong.RelativeMarginClassifier())
    with pytest.raises(ValueError, match="expected 3 feature_names, got 1"):
        oblong.to_onnx(oblong.RelativeMarginClassifier().fit(*rows()), feature_names=["a"])
    with pytest.raises(ValueError, match="input_type"):
        oblong.to_onnx(oblong.RelativeMarginClassifier().fit(*rows()), input_type="int8")


def test_missing_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "oblong.export._graph", raising=False)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install \"oblong\[onnx\]\""):
        oblong.to_onnx(oblong.RelativeMarginClassifier().fit(*rows()))


@pytest.mark.parametrize("ties", ["first", "confidence"])
@pytest.mark.parametrize(
    "kind", [oblong.RelativeMarginClassifier, oblong.EllipsoidalSVC, oblong.BayesPointClassifier]
)
def test_probabilities_that_agree_with_predictions(kind, ties):
    X, y = rows(5, 150)
    settings = {"break_ties": ties} if kind is oblong.RelativeMarginClassifier else {}
    if kind is oblong.BayesPointClassifier:
        settings = {"soft": 0.1}
    model = oblong.CalibratedMarginClassifier(kind(kernel="linear", **settings)).fit(X, y)
    many = np.random.default_rng(0).normal(scale=8.0, size=(4000, 3))
    (chances, labels) = run(oblong.to_onnx(model), many, outputs=["probabilities", "label"])
    np.testing.assert_allclose(chances, model.predict_proba(many), rtol=0, atol=1e-9)
    np.testing.assert_array_equal(chances.argmax(axis=1), labels)


def test_a_linear_classifier_with_sparse_weights():
    X, y = rows()
    assert_agrees(oblong.svm.LinearSVC().fit(X, y).sparsify())


@pytest.mark.parametrize("labels", [[0, 1], ["a", "b"]], ids=str)
@pytest.mark.parametrize("positive", [None, 0, 1])
@pytest.mark.parametrize(
    ("calibrated", "threshold", "method"),
    [
        (True, 0.3, "auto"),
        (True, 0.2, "decision_function"),
        (True, "auto", "auto"),
        (False, -0.5, "auto"),
        (False, "auto", "auto"),
    ],
)
def test_threshold__between_two_classes(labels, positive, calibrated, threshold, method):
    X, y = rows(2)
    inner = oblong.RelativeMarginClassifier()
    model = FixedThresholdClassifier(
        oblong.CalibratedMarginClassifier(inner) if calibrated else inner,
        threshold=threshold,
        pos_label=None if positive is None else labels[positive],
        response_method=method,
    ).fit(X, np.array(labels)[y])
    assert_agrees(model)
    assert len(set(model.predict(NEW).tolist())) == 2
