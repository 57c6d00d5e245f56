from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC

import oblong

from ..persistence.models import CASES, IDS, fitted, rows

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

NEW = np.random.default_rng(1).normal(scale=6.0, size=(60, 3))


def run(graph, X):
    """Labels and scores of a graph."""
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(["label", "scores"], {"X": X})


def assert_agrees(model, X=NEW, tol=1e-5):
    labels, scores = run(oblong.to_onnx(model), X)
    expected = model.decision_function(X)
    assert scores.shape == expected.shape
    assert np.abs(scores - expected).max() <= tol * max(1.0, np.abs(expected).max())
    assert labels.tolist() == model.predict(X).tolist()


@pytest.mark.parametrize(("name", "settings", "n_classes"), CASES, ids=IDS)
def test_every_estimator_agrees_with_its_graph(name, settings, n_classes):
    assert_agrees(fitted(name, settings, n_classes))


@pytest.mark.parametrize("labels", [[0, 1, 2], [-5, 3, 10**12], ["a", "é", "z z"], [1.0, 2.0, 9.0]])
def test_label_types(labels):
    X, y = rows()
    assert_agrees(oblong.RelativeMarginClassifier().fit(X, np.array(labels)[y]))


def test_truth_values_as_labels():
    X, y = rows(2)
    assert_agrees(oblong.RelativeMarginClassifier().fit(X, y == 1))


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


def test_sigmoid_kernel():
    X, y = rows()
    model = oblong.RelativeMarginClassifier(kernel="sigmoid", spread=1.0, gamma=0.01)
    assert_agrees(model.fit(X, y))


def test_sparse_support_vectors():
    X, y = rows()
    assert_agrees(oblong.RelativeMarginClassifier().fit(sp.csr_matrix(X), y))


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


def test_universum():
    X, y = rows()
    for kernel in ("linear", "rbf"):
        model = oblong.UniversumSVC(kernel=kernel)
        assert_agrees(model.fit(X, y, X_universum=X[::5] + 0.5))


def test_far_from_the_origin():
    X, y = rows()
    model = oblong.RelativeMarginClassifier(gamma=0.05).fit(X + 1e5, y)
    assert_agrees(model, NEW + 1e5)


@pytest.mark.parametrize(
    "step",
    [
        StandardScaler(),
        StandardScaler(with_mean=False),
        StandardScaler(with_std=False),
        MinMaxScaler(clip=True),
        MaxAbsScaler(),
        RobustScaler(),
        PCA(2, whiten=True),
        "passthrough",
    ],
    ids=str,
)
def test_pipelines(step):
    X, y = rows()
    assert_agrees(make_pipeline(step, oblong.RelativeMarginClassifier()).fit(X, y))


def test_gaps_are_filled():
    X, y = rows()
    X[::5, 1] = np.nan
    model = make_pipeline(SimpleImputer(), StandardScaler(), oblong.SigmaSVC()).fit(X, y)
    new = NEW.copy()
    new[::3, 2] = np.nan
    assert_agrees(model, new)


def test_nested_pipelines():
    X, y = rows()
    inner = make_pipeline(StandardScaler(), oblong.AROWClassifier(random_state=0))
    assert_agrees(make_pipeline(MinMaxScaler(), inner).fit(X, y))


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
            "a function of Python",
        ),
        (
            lambda: oblong.RelativeMarginClassifier(break_ties="random").fit(*rows()),
            'break_ties="random"',
        ),
        (
            lambda: make_pipeline(Normalizer(), oblong.SigmaSVC()).fit(*rows()),
            "a Normalizer in a pipeline",
        ),
        (lambda: StandardScaler().fit(rows()[0]), "a StandardScaler"),
    ],
)
def test_what_onnx_does_not_express_is_a_clear_error(make, message):
    with pytest.raises(ValueError, match="cannot be exported to ONNX") as error:
        oblong.to_onnx(make())
    assert message in str(error.value)


def test_text_columns_are_a_clear_error():
    from sklearn.compose import ColumnTransformer

    X = np.array([["red"], ["blue"], ["red"], ["blue"]], dtype=object)
    columns = ColumnTransformer([("text", OneHotEncoder(sparse_output=False), [0])])
    model = Pipeline([("columns", columns), ("model", oblong.SigmaSVC())]).fit(X, [0, 1, 0, 1])
    with pytest.raises(ValueError, match="ColumnTransformer, whose columns may hold text"):
        oblong.to_onnx(model)


def test_unfitted_and_wrong_arguments():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        oblong.to_onnx(oblong.RelativeMarginClassifier())
    with pytest.raises(ValueError, match="input_type"):
        oblong.to_onnx(oblong.RelativeMarginClassifier().fit(*rows()), input_type="int8")


def test_missing_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "oblong.export._graph", raising=False)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install \"oblong\[onnx\]\""):
        oblong.to_onnx(oblong.RelativeMarginClassifier().fit(*rows()))
