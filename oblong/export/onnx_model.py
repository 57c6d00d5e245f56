"""Fitted models as ONNX graphs, for runtimes without Python."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    import onnx


def to_onnx(
    model: Any, *, input_type: str = "float64", feature_names: Sequence[str] | None = None
) -> onnx.ModelProto:
    """Write the prediction of a fitted model as an ONNX graph.

    The graph has the input ``X`` of shape (n, n_features) and the outputs ``label``, what
    ``predict`` returns, ``scores``, what ``decision_function`` returns, and ``probabilities``, what
    ``predict_proba`` returns, if the model has it. The graph of a regressor has the one output
    ``prediction``. It computes in double precision.

    If the pipeline encodes columns of text, these are the second input ``text``, of shape
    (n, n_text), and ``X`` has the other columns, both in the order of the training data. The
    properties ``columns of X`` and ``columns of text`` of the graph list their names.

    Parameters
    ----------
    model : estimator
        A fitted estimator of oblong, a :class:`sklearn.svm.SVC`, or a pipeline that ends in one
        after the imputation of numbers, the one-hot encoding of columns, and transformers that
        skl2onnx converts in double precision (scalers, principal components and others), also
        within a :class:`~sklearn.compose.ColumnTransformer`.
    input_type : {"float64", "float32"}, default="float64"
        Type of ``X``.
    feature_names : sequence of str, default=None
        Names of the columns of the training data, if the model does not have them.

    Returns
    -------
    onnx.ModelProto
        The graph, checked. ``onnx.save`` writes it to a file.

    Raises
    ------
    ValueError
        If the prediction cannot be expressed in ONNX: kernels that are functions or precomputed
        matrices, ties that are broken at random, other steps of a pipeline.
    ImportError
        Without the packages ``onnx`` and, for pipelines, ``skl2onnx``: the extra ``onnx``.

    Examples
    --------
    >>> import oblong
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = oblong.RelativeMarginClassifier().fit(X, y)
    >>> graph = oblong.to_onnx(model)  # doctest: +SKIP
    >>> [output.name for output in graph.graph.output]  # doctest: +SKIP
    ['label', 'scores']
    """
    try:
        from oblong.export._graph import Graph, Unexportable
    except ModuleNotFoundError as error:
        raise ImportError(
            'ONNX export needs the package onnx: pip install "oblong[onnx]"'
        ) from error
    from oblong.export._estimators import write_estimator
    from oblong.export._transformers import Inputs, text_columns, write_columns, write_steps

    if input_type not in ("float64", "float32"):
        raise ValueError(f"input_type must be 'float64' or 'float32', got {input_type!r}")
    check_is_fitted(model)
    *steps, final = _flat(model)
    first = next((step for step in steps if hasattr(step, "n_features_in_")), final)
    names = _names(first, feature_names)
    graph = Graph()
    try:
        inputs = Inputs(int(first.n_features_in_), text_columns(first))
        X = "X" if input_type == "float64" else graph.node("Cast", "X", to=11)
        for step in steps:
            if step is first and isinstance(step, ColumnTransformer):
                X = write_columns(graph, X, step, inputs)
            else:
                X = write_steps(graph, X, step)
        found = write_estimator(graph, X, final)
        if not inputs.numbers and input_type == "float32":
            # An input that is absent has no cast.
            del graph.nodes[0]
        outputs = found.named()
        columns = {"X": inputs.numbers, "text": inputs.text}
        notes = {
            f"columns of {key}": json.dumps([names[j] for j in columns[key]]) for key in columns
        }
        return graph.model(inputs.sizes(), input_type, outputs, notes)
    except Unexportable as error:
        raise ValueError(f"{type(model).__name__} cannot be exported to ONNX: {error}") from None


def _flat(model: Any) -> list[Any]:
    """The steps of a pipeline, including those of nested pipelines."""
    if isinstance(model, Pipeline):
        return [inner for _, step in model.steps for inner in _flat(step)]
    if isinstance(getattr(model, "estimator_", None), Pipeline):
        # What stands around a pipeline stands around its last step too.
        *steps, final = _flat(model.estimator_)
        around = copy(model)
        around.estimator_ = final
        return [*steps, around]
    return [model]


def _names(first: Any, given: Sequence[str] | None) -> list[str]:
    n = int(first.n_features_in_)
    found = given if given is not None else getattr(first, "feature_names_in_", range(n))
    names = [str(name) for name in found]
    if len(names) != n:
        raise ValueError(f"expected {n} feature_names, got {len(names)}")
    return names
