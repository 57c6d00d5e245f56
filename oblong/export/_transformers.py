"""Transformers of a pipeline as operators, column transformers among them.

skl2onnx converts most of scikit-learn's. This module covers what it does not convert in double
precision: the imputation of numbers, and one-hot encoding of numbers that are not integers.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, compose, shape_inference
from onnx.reference import ReferenceEvaluator
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from oblong.export._graph import ML_OPSET, OPSET, Graph, Unexportable


class Inputs:
    """The inputs of a graph: columns of numbers in one, columns of text in the other.

    Parameters
    ----------
    n_features : int
        Columns of the table.
    text : sequence of int
        Positions of the columns of text.
    """

    def __init__(self, n_features: int, text: Sequence[int] = ()) -> None:
        self.text, among = sorted(text), set(text)
        self.numbers = [j for j in range(n_features) if j not in among]
        # Where each column of the table is in its input.
        self.places = {j: k for part in (self.text, self.numbers) for k, j in enumerate(part)}

    def sizes(self) -> dict[str, int]:
        """Number of columns of each input; an input without columns is left out."""
        sizes = {"X": len(self.numbers), "text": len(self.text)}
        return {name: n for name, n in sizes.items() if n or (name == "X" and not self.text)}


def text_columns(step: Any) -> list[int]:
    """Columns of text that the first step of a pipeline encodes."""
    if not isinstance(step, ColumnTransformer):
        return []
    found = []
    for part, columns in _parts(step):
        if isinstance(part, OneHotEncoder):
            kinds = [_is_text(categories) for categories in part.categories_]
            found += [column for column, text in zip(columns, kinds) if text]
    return found


def write_columns(graph: Graph, X: str, step: ColumnTransformer, inputs: Inputs) -> str:
    """Write a column transformer.

    Parameters
    ----------
    graph : Graph
        Where to.
    X : str
        The columns of numbers.
    step : ColumnTransformer
        Fitted.
    inputs : Inputs
        Where each column is.
    """
    text, results = set(inputs.text), []
    for part, columns in _parts(step):
        if not text & set(columns):
            chosen = graph.part(X, *(inputs.places[j] for j in columns))
            results.append(write_steps(graph, chosen, part))
        elif isinstance(part, OneHotEncoder):
            ignores = part.handle_unknown == "ignore"
            for column, known in zip(columns, categories_of(part)):
                if column in text:
                    results.append(_one_hot_text(graph, inputs.places[column], known, ignores))
                else:
                    chosen = graph.part(X, inputs.places[column])
                    results.append(one_hot(graph, chosen, [known], ignore_unknown=ignores))
        else:
            raise Unexportable(f"a {type(part).__name__} of columns of text")
    if not results:
        raise Unexportable("a ColumnTransformer that drops all columns")
    return results[0] if len(results) == 1 else graph.node("Concat", *results, axis=1)


def write_steps(graph: Graph, X: str, step: Any) -> str:
    """Write a transformer, or those of a pipeline one after the other."""
    if isinstance(step, Pipeline):
        for _, inner in step.steps:
            X = write_steps(graph, X, inner)
        return X
    if isinstance(step, ColumnTransformer):
        return write_columns(graph, X, step, Inputs(int(step.n_features_in_)))
    return write_transformer(graph, X, step)


def _parts(step: ColumnTransformer) -> list[tuple[Any, list[int]]]:
    """The transformers with the positions of their columns."""
    parts = []
    for name, part, columns in step.transformers_:
        first = part.steps[0][1] if isinstance(part, Pipeline) else part
        if hasattr(first, "build_analyzer"):
            raise Unexportable(f"texts split into words, by a {type(first).__name__}")
        if isinstance(columns, (int, np.integer, str)):
            raise Unexportable("a ColumnTransformer of single columns; name them in a list")
        places = np.asarray(step._transformer_to_input_indices[name], dtype=np.intp).tolist()
        if places and not (isinstance(part, str) and part == "drop"):
            parts.append((part, places))
    return parts


def _is_text(categories: np.ndarray) -> bool:
    return any(isinstance(category, str) for category in categories.tolist())


def _one_hot_text(graph: Graph, place: int, categories: np.ndarray, ignores: bool) -> str:
    words = categories.tolist()
    if not all(isinstance(word, str) for word in words):
        raise Unexportable("categories that are words and numbers in one column")
    column = graph.node("Gather", "text", graph.constant(place, np.int64), axis=1)
    # An unknown word gives zeros, or is an error.
    found = graph.node(
        "OneHotEncoder", column, domain="ai.onnx.ml", cats_strings=words, zeros=int(ignores)
    )
    return graph.number(found)


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
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        # The names of the columns play no part.
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
