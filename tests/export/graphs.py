"""Graphs run by ONNX Runtime, and compared with their models."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import is_regressor
from sklearn.svm import SVC

import oblong

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
