"""Transformers of a pipeline as operators.

skl2onnx converts most of scikit-learn's. This module covers what it does not convert in double
precision: the imputation of numbers, and one-hot encoding of numbers that are not integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, compose, shape_inference
from onnx.reference import ReferenceEvaluator
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from oblong.export._graph import ML_OPSET, OPSET, Graph, Unexportable


def write_transformer(graph: Graph, X: str, step: Any) -> str:
    """Write a fitted transformer."""
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return X
    if type(step) is SimpleImputer:
        return _imputer(graph, X, step)
    if type(step) is OneHotEncoder:
        ignores = step.handle_unknown == "ignore"
        return one_hot(graph, X, categories_of(step), ignore_unknown=ignores)
    return _converted(graph, X, step)


def _converted(graph: Graph, X: str, step: Any) -> str:
    """Convert a transformer by skl2onnx, and compare the result with the transformer itself."""
    try:
        from skl2onnx import convert_sklearn
        from skl2onnx.common.data_types import DoubleTensorType
    except ModuleNotFoundError as error:
        raise ImportError(
            'ONNX export of pipelines needs the package skl2onnx: pip install "oblong[onnx]"'
        ) from error

    name = type(step).__name__
    try:
        model = convert_sklearn(
            step,
            initial_types=[("X", DoubleTensorType([None, step.n_features_in_]))],
            target_opset={"": OPSET, "ai.onnx.ml": ML_OPSET},
        )
        typed = shape_inference.infer_shapes(model, check_type=True, strict_mode=True).graph
        kinds = {value.type.tensor_type.elem_type for value in (*typed.value_info, *typed.output)}
        if TensorProto.FLOAT in kinds:
            raise Unexportable("single precision")
        _compare(model, step)
    except Exception as error:
        # skl2onnx raises a dozen kinds of error for what it cannot convert.
        problem = "which skl2onnx does not express in double precision"
        raise Unexportable(f"a {name} in a pipeline, {problem}") from error
    part = compose.add_prefix(model, f"{graph.new_name(name)}_").graph
    graph.constants.extend(part.initializer)
    graph.join(X, part.input[0].name)
    graph.nodes.extend(part.node)
    return part.output[0].name


def _compare(model: Any, step: Any) -> None:
    """Raise if the operators and the transformer differ on rows of all magnitudes."""
    rng = np.random.default_rng(0)
    shape = (64, step.n_features_in_)
    rows = rng.normal(size=shape) * 10.0 ** rng.uniform(-3.0, 5.0, size=shape)
    (found,) = ReferenceEvaluator(model).run(None, {"X": rows})
    expected = step.transform(rows)
    expected = expected.toarray() if hasattr(expected, "toarray") else expected
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-9, atol=1e-12)


def _imputer(graph: Graph, X: str, step: SimpleImputer) -> str:
    values = np.asarray(step.statistics_, dtype=np.float64)
    if step.add_indicator or not np.isfinite(values).all():
        raise Unexportable("a SimpleImputer that drops or adds columns")
    if not (isinstance(step.missing_values, float) and np.isnan(step.missing_values)):
        raise Unexportable("a SimpleImputer of values other than nan")
    return graph.node("Where", graph.node("IsNaN", X), graph.constant(values), X)


def categories_of(step: OneHotEncoder) -> list[np.ndarray]:
    """The categories of an encoder with one column for each."""
    if step.handle_unknown not in ("ignore", "error"):
        raise Unexportable(f'a OneHotEncoder with handle_unknown="{step.handle_unknown}"')
    if step.drop_idx_ is not None or any(
        infrequent is not None for infrequent in getattr(step, "infrequent_categories_", ())
    ):
        raise Unexportable("a OneHotEncoder that drops or joins categories")
    return list(step.categories_)


def one_hot(graph: Graph, X: str, categories: Sequence[np.ndarray], *, ignore_unknown: bool) -> str:
    """One column per category, for columns of numbers; zeros for unknown values."""
    if not ignore_unknown:
        raise Unexportable('a OneHotEncoder of numbers without handle_unknown="ignore"')
    parts = []
    for j, known in enumerate(categories):
        try:
            values = np.asarray(known, dtype=np.float64)
        except (TypeError, ValueError):
            raise Unexportable("categories of text behind other steps") from None
        if np.isnan(values).any():
            raise Unexportable("a category for missing values")
        equal = graph.node("Equal", graph.part(X, j), graph.constant(values[None, :]))
        parts.append(graph.number(equal))
    return parts[0] if len(parts) == 1 else graph.node("Concat", *parts, axis=1)
