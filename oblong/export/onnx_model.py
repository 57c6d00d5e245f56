"""Fitted models as ONNX graphs, for runtimes without Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    import onnx

__all__ = ["to_onnx"]


def to_onnx(model: Any, *, input_type: str = "float64") -> onnx.ModelProto:
    """Write the prediction of a fitted model as an ONNX graph.

    The graph has one input, ``X`` of shape (n, n_features), and two outputs: ``label``, what
    ``predict`` returns, and ``scores``, what ``decision_function`` returns. It computes in double
    precision.

    Parameters
    ----------
    model : estimator
        A fitted estimator of oblong, a :class:`sklearn.svm.SVC`, or a pipeline that ends in one
        after scalers, a principal component analysis or the imputation of numbers.
    input_type : {"float64", "float32"}, default="float64"
        Type of the input.

    Returns
    -------
    onnx.ModelProto
        The graph, checked. ``onnx.save`` writes it to a file.

    Raises
    ------
    ValueError
        If ONNX does not express the prediction: kernels that are functions or precomputed
        matrices, ties that are broken at random, text columns.
    ImportError
        Without the package ``onnx``, which comes with the extra of that name.

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
    from oblong.export._transformers import write_transformer

    if input_type not in ("float64", "float32"):
        raise ValueError(f"input_type must be 'float64' or 'float32', got {input_type!r}")
    check_is_fitted(model)
    graph = Graph()
    try:
        X = "X" if input_type == "float64" else graph.node("Cast", "X", to=11)
        first, final = None, model
        while isinstance(final, Pipeline):
            for _, step in final.steps[:-1]:
                if isinstance(step, ColumnTransformer):
                    raise Unexportable("a ColumnTransformer, whose columns may hold text")
                X = write_transformer(graph, X, step)
                if first is None and hasattr(step, "n_features_in_"):
                    first = step
            final = final.steps[-1][1]
        labels, scores = write_estimator(graph, X, final)
        n_features = (final if first is None else first).n_features_in_
        return graph.model(int(n_features), input_type, labels, scores)
    except Unexportable as error:
        raise ValueError(f"{type(model).__name__} cannot be exported to ONNX: {error}") from None
