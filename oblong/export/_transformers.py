"""The transformers that stand before a classifier, as operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

from oblong.export._graph import Graph, Unexportable

__all__ = ["categories_of", "one_hot", "write_transformer"]


def write_transformer(graph: Graph, X: str, step: Any) -> str:
    """Write what a fitted transformer does to rows."""
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return X
    for kind, write in _WRITERS.items():
        if type(step) is kind:
            return write(graph, X, step)
    known = ", ".join(sorted({"ColumnTransformer", *(kind.__name__ for kind in _WRITERS)}))
    raise Unexportable(f"a {type(step).__name__} in a pipeline (the steps known are {known})")


def _standard(graph: Graph, X: str, step: StandardScaler) -> str:
    if step.mean_ is not None and step.with_mean:
        X = graph.plus(X, -step.mean_)
    return graph.scaled(X, 1.0 / step.scale_) if step.with_std else X


def _robust(graph: Graph, X: str, step: RobustScaler) -> str:
    X = graph.plus(X, -step.center_) if step.with_centering else X
    return graph.scaled(X, 1.0 / step.scale_) if step.with_scaling else X


def _min_max(graph: Graph, X: str, step: MinMaxScaler) -> str:
    X = graph.plus(graph.scaled(X, step.scale_), step.min_)
    if step.clip:
        low, high = (graph.constant(float(end)) for end in step.feature_range)
        X = graph.node("Min", graph.node("Max", X, low), high)
    return X


def _max_abs(graph: Graph, X: str, step: MaxAbsScaler) -> str:
    if getattr(step, "clip", False):
        raise Unexportable("a MaxAbsScaler that clips")
    return graph.scaled(X, 1.0 / step.scale_)


def _pca(graph: Graph, X: str, step: PCA) -> str:
    X = graph.times(graph.plus(X, -step.mean_), step.components_.T)
    if step.whiten:
        X = graph.scaled(X, 1.0 / np.sqrt(step.explained_variance_))
    return X


def _imputer(graph: Graph, X: str, step: SimpleImputer) -> str:
    values = np.asarray(step.statistics_, dtype=np.float64)
    if step.add_indicator or not np.isfinite(values).all():
        raise Unexportable("a SimpleImputer that drops or adds columns")
    if not (isinstance(step.missing_values, float) and np.isnan(step.missing_values)):
        raise Unexportable("a SimpleImputer of values other than nan")
    return graph.node("Where", graph.node("IsNaN", X), graph.constant(values), X)


def _function(graph: Graph, X: str, step: FunctionTransformer) -> str:
    # A column transformer puts one in place of "passthrough".
    if step.func is not None:
        raise Unexportable("a function of Python")
    return X


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
    """One column a category, for columns of numbers; zeros for values that are not known."""
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


def _one_hot(graph: Graph, X: str, step: OneHotEncoder) -> str:
    ignores = step.handle_unknown == "ignore"
    return one_hot(graph, X, categories_of(step), ignore_unknown=ignores)


_WRITERS: dict[type, Callable[[Graph, str, Any], str]] = {
    FunctionTransformer: _function,
    MaxAbsScaler: _max_abs,
    MinMaxScaler: _min_max,
    OneHotEncoder: _one_hot,
    PCA: _pca,
    RobustScaler: _robust,
    SimpleImputer: _imputer,
    StandardScaler: _standard,
}
