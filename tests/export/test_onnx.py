from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import log_ndtr, ndtr
from sklearn.base import is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC

import oblong

from ..persistence.models import CASES, IDS, fitted, rows

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

NEW = np.random.default_rng(1).normal(scale=6.0, size=(60, 3))


def run(graph, X, text=None, outputs=("label", "scores")):
    """Labels and scores of a graph, or other outputs."""
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feed = {"X": X} if text is None else {"text": text} if X is None else {"X": X, "text": text}
    return session.run(list(outputs), feed)


def assert_agrees(model, X=NEW, tol=1e-5):
    graph = oblong.to_onnx(model)
    if is_regressor(model):
        (prediction,) = run(graph, X, outputs=["prediction"])
        expected = model.predict(X)
        assert prediction.shape == expected.shape
        assert np.abs(prediction - expected).max() <= tol * max(1.0, np.abs(expected).max())
        return
    labels, scores = run(graph, X)
    has_chances = "probabilities" in [output.name for output in graph.graph.output]
    # Those of the SVM of scikit-learn come from another model.
    assert has_chances == (hasattr(model, "predict_proba") and not isinstance(model, SVC))
    if has_chances:
        (chances,) = run(graph, X, outputs=["probabilities"])
        np.testing.assert_allclose(chances, model.predict_proba(X), rtol=0, atol=1e-5)
    expected = model.decision_function(X)
    assert scores.shape == expected.shape
    assert np.abs(scores - expected).max() <= tol * max(1.0, np.abs(expected).max())
    assert labels.tolist() == model.predict(X).tolist()


@pytest.mark.parametrize(("name", "settings", "n_classes"), CASES, ids=IDS)
def test_every_estimator_agrees_with_its_graph(name, settings, n_classes):
    assert_agrees(fitted(name, settings, n_classes))


def test_regressors_without_support_vectors():
    X, y = rows()
    assert_agrees(oblong.MarginRegressor(epsilon=100.0).fit(X, y))


def test_regressors_of_several_quantiles():
    X, y = rows()
    assert_agrees(oblong.MarginRegressor(loss="quantile", quantile=(0.9, 0.1, 0.5)).fit(X, y))


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


@pytest.mark.filterwarnings("ignore:.*not positive semidefinite")
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
        Normalizer(),
        FeatureUnion([("a", StandardScaler()), ("b", PCA(1))]),
        "passthrough",
    ],
    ids=str,
)
def test_pipelines(step):
    X, y = rows()
    assert_agrees(make_pipeline(step, oblong.RelativeMarginClassifier()).fit(X, y))


def test_a_conversion_that_is_wrong_is_refused():
    """skl2onnx takes the numbers of a scaler, whatever else it is told to do."""
    X, y = rows()
    model = make_pipeline(MaxAbsScaler(), oblong.SigmaSVC()).fit(X, y)
    graph = oblong.to_onnx(model)
    assert graph.graph.node[0].op_type == "Identity"
    model[0].transform = lambda X: np.clip(X / model[0].scale_, -1.0, 1.0)
    with pytest.raises(ValueError, match="a MaxAbsScaler in a pipeline"):
        oblong.to_onnx(model)


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
            lambda: make_pipeline(RBFSampler(), oblong.SigmaSVC()).fit(*rows()),
            "a RBFSampler in a pipeline",
        ),
        (
            # Single precision.
            lambda: make_pipeline(OrdinalEncoder(), oblong.SigmaSVC()).fit(*rows()),
            "a OrdinalEncoder in a pipeline",
        ),
        (lambda: StandardScaler().fit(rows()[0]), "a StandardScaler"),
    ],
)
def test_what_onnx_does_not_express_is_a_clear_error(make, message):
    with pytest.raises(ValueError, match="cannot be exported to ONNX") as error:
        oblong.to_onnx(make())
    assert message in str(error.value)


@pytest.mark.parametrize("gap", ["", None])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_columns_of_text(n_classes, gap):
    """What ``oblong train`` puts before a model."""
    X, y = rows(n_classes)
    words = np.array(["red", "blue", "a b", "é"], dtype=object)[np.arange(len(y)) % 4]
    cities = np.where(X[:, 0] > 0, "north", "" if gap == "" else "none").astype(object)
    table = np.column_stack([X[:, :1].astype(object), words, X[:, 1:].astype(object), cities])
    table[::7, 2] = np.nan
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    columns = ColumnTransformer(
        [
            ("numbers", numbers, [0, 2, 3]),
            ("text", OneHotEncoder(handle_unknown="ignore", sparse_output=False), [1, 4]),
        ]
    )
    model = Pipeline([("columns", columns), ("model", oblong.AROWClassifier(random_state=0))])
    model.fit(table, y)
    graph = oblong.to_onnx(model, feature_names=list("abcde"))
    new = table[::3].copy()
    new[0, 1] = "unknown"
    feed = new[:, [0, 2, 3]].astype(float), new[:, [1, 4]]
    labels, scores, chances = run(graph, *feed, ("label", "scores", "probabilities"))
    assert labels.tolist() == model.predict(new).tolist()
    np.testing.assert_allclose(scores, model.decision_function(new), atol=1e-5)
    np.testing.assert_allclose(chances, model.predict_proba(new), atol=1e-5)
    notes = {note.key: json.loads(note.value) for note in graph.metadata_props}
    assert notes == {"columns of X": ["a", "c", "d"], "columns of text": ["b", "e"]}


@pytest.mark.parametrize("input_type", ["float64", "float32"])
def test_nothing_but_text(input_type):
    X = np.array([["red", "x"], ["blue", "y"]] * 6, dtype=object)
    y = np.tile([0, 1], 6)
    columns = ColumnTransformer([("text", OneHotEncoder(sparse_output=False), [1, 0])])
    model = Pipeline([("columns", columns), ("model", oblong.SigmaSVC())]).fit(X, y)
    graph = oblong.to_onnx(model, input_type=input_type)
    labels, scores = run(graph, None, X)
    assert labels.tolist() == y.tolist()
    np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-5)
    # As in training, a word that is not known is an error.
    with pytest.raises(Exception, match="OneHotEncoder"):
        run(graph, None, np.array([["green", "x"]], dtype=object))


@pytest.mark.parametrize(
    "parts",
    [
        [("a", StandardScaler(), [2, 0])],
        [("a", "passthrough", [1]), ("b", MinMaxScaler(), slice(0, 1))],
        [("a", StandardScaler(), [True, False, True]), ("b", "drop", [1])],
        [("a", make_pipeline(StandardScaler(), PCA(1)), [-1, 0])],
    ],
    ids=["list", "slice", "mask", "pipeline"],
)
@pytest.mark.parametrize("remainder", ["drop", "passthrough"])
def test_columns_of_numbers(parts, remainder):
    X, y = rows()
    columns = ColumnTransformer(parts, remainder=remainder)
    assert_agrees(make_pipeline(columns, oblong.SigmaSVC()).fit(X, y))
    assert_agrees(make_pipeline(MaxAbsScaler(), columns, oblong.SigmaSVC()).fit(X, y))


def test_columns_by_name():
    pandas = pytest.importorskip("pandas")
    X, y = rows()
    frame = pandas.DataFrame(X, columns=["u", "v", "w"])
    columns = ColumnTransformer([("a", StandardScaler(), ["w", "u"])])
    model = make_pipeline(columns, oblong.SigmaSVC()).fit(frame, y)
    graph = oblong.to_onnx(model)
    new = pandas.DataFrame(NEW, columns=frame.columns)
    labels, scores = run(graph, NEW)
    np.testing.assert_allclose(scores, model.decision_function(new), atol=1e-5)
    assert labels.tolist() == model.predict(new).tolist()
    notes = {note.key: json.loads(note.value) for note in graph.metadata_props}
    assert notes["columns of X"] == ["u", "v", "w"]


def test_numbers_as_categories():
    X, y = rows(2)
    X = X.round(-1)
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    model = make_pipeline(encoder, oblong.RelativeMarginClassifier()).fit(X, y)
    assert_agrees(model, NEW.round(-1))


def words_and_numbers():
    table = np.array([["red", 1.0], ["blue", 2.0]] * 4, dtype=object)
    return table, np.tile([0, 1], 4)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([("a", OneHotEncoder(drop="first"), [0])], "drops or joins categories"),
        ([("a", OneHotEncoder(min_frequency=5), [0])], "drops or joins categories"),
        (
            [("a", OneHotEncoder(handle_unknown="infrequent_if_exist"), [0])],
            'handle_unknown="infrequent_if_exist"',
        ),
        ([("a", OneHotEncoder(), [1])], 'of numbers without handle_unknown="ignore"'),
        ([("a", OrdinalEncoder(), [0])], "a OrdinalEncoder in a pipeline"),
        (
            [("a", OneHotEncoder(), [0]), ("b", OrdinalEncoder(), [0])],
            "a OrdinalEncoder of columns of text",
        ),
    ],
)
def test_encodings_that_onnx_does_not_express(parts, message):
    X, y = words_and_numbers()
    columns = ColumnTransformer(parts, sparse_threshold=0.0)
    model = make_pipeline(columns, oblong.SigmaSVC(kernel="linear")).fit(X, y)
    with pytest.raises(ValueError, match="cannot be exported to ONNX") as error:
        oblong.to_onnx(model)
    assert message in str(error.value)


def test_text_is_a_clear_error():
    text = pytest.importorskip("sklearn.feature_extraction.text")
    model = make_pipeline(text.TfidfVectorizer(), oblong.SigmaSVC(kernel="linear"))
    model.fit(["one two", "three four"] * 3, [0, 1] * 3)
    with pytest.raises(ValueError, match="a TfidfVectorizer in a pipeline"):
        oblong.to_onnx(model)


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


def test_missing_skl2onnx(monkeypatch):
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    oblong.to_onnx(oblong.RelativeMarginClassifier().fit(*rows()))
    model = make_pipeline(StandardScaler(), oblong.SigmaSVC()).fit(*rows())
    with pytest.raises(ImportError, match=r"pip install \"oblong\[onnx\]\""):
        oblong.to_onnx(model)


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
