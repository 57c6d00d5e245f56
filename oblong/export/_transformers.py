"""The transformers that stand before a classifier, as operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from oblong.export._graph import Graph, Unexportable

__all__ = ["write_transformer"]


def write_transformer(graph: Graph, X: str, step: Any) -> str:
    """Write what a fitted transformer does to rows."""
    if step is None or step == "passthrough":
        return X
    for kind, write in _WRITERS.items():
        if type(step) is kind:
            return write(graph, X, step)
    known = ", ".join(sorted(kind.__name__ for kind in _WRITERS))
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


_WRITERS: dict[type, Callable[[Graph, str, Any], str]] = {
    MaxAbsScaler: _max_abs,
    MinMaxScaler: _min_max,
    PCA: _pca,
    RobustScaler: _robust,
    SimpleImputer: _imputer,
    StandardScaler: _standard,
}
