"""Pipelines as graphs: scalers, columns of numbers, and columns of text."""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
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

import oblong

from ..persistence.models import rows
from .graphs import NEW, assert_agrees, run


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
        ([("a", HashingVectorizer(n_features=8), 0)], "texts split into words, by a Hashing"),
    ],
)
def test_encodings_that_onnx_does_not_express(parts, message):
    X, y = words_and_numbers()
    columns = ColumnTransformer(parts, sparse_threshold=0.0)
    model = make_pipeline(columns, oblong.SigmaSVC(kernel="linear")).fit(X, y)
    with pytest.raises(ValueError, match="cannot be exported to ONNX") as error:
        oblong.to_onnx(model)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("step", "X"),
    [
        (RBFSampler(), rows()[0]),
        # Single precision.
        (OrdinalEncoder(), rows()[0]),
        (TfidfVectorizer(), ["one two", "three four"] * (len(rows()[0]) // 2)),
    ],
)
def test_steps_that_onnx_does_not_express(step, X):
    model = make_pipeline(step, oblong.SigmaSVC(kernel="linear")).fit(X, np.arange(len(X)) % 2)
    with pytest.raises(ValueError, match=f"a {type(step).__name__} in a pipeline"):
        oblong.to_onnx(model)


def test_names_of_columns_are_no_warning():
    X, y = rows()
    frame = pd.DataFrame(X).add_prefix("x")
    model = make_pipeline(StandardScaler(), oblong.SigmaSVC(kernel="linear")).fit(frame, y)
    with warnings.catch_warnings(action="error"):
        oblong.to_onnx(model)


def test_missing_skl2onnx(monkeypatch):
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    oblong.to_onnx(oblong.RelativeMarginClassifier().fit(*rows()))
    model = make_pipeline(StandardScaler(), oblong.SigmaSVC()).fit(*rows())
    with pytest.raises(ImportError, match=r"pip install \"oblong\[onnx\]\""):
        oblong.to_onnx(model)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_around_a_pipeline(n_classes):
    X, y = rows(n_classes)
    inner = make_pipeline(
        SimpleImputer(), make_pipeline(StandardScaler(), oblong.RelativeMarginClassifier())
    )
    model = oblong.CalibratedMarginClassifier(inner).fit(X, y)
    assert_agrees(model)
    assert isinstance(model.estimator_, Pipeline)
