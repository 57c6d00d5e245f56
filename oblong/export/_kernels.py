"""Kernels and kernel coordinates as operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular

from oblong.export._graph import Graph, Unexportable
from oblong.kernels import Kernel
from oblong.linalg.feature_map import FeatureMap, LinearMap, kernel_diagonal


def kernel_values(
    graph: Graph, X: str, kernel: Kernel, rows: Any, shift: np.ndarray | None = None
) -> str:
    """Kernel values of ``X`` against constant rows."""
    if callable(kernel.name):
        raise Unexportable("a kernel that is a Python function")
    if kernel.name == "precomputed":
        raise Unexportable("a precomputed kernel, whose rows the model has not stored")
    rows = np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)
    if kernel.name == "rbf" and shift is None:
        # Far from the origin a squared distance is a small difference of large numbers.
        shift = rows.mean(axis=0) if len(rows) else None
    if shift is not None:
        rows, X = rows - shift, graph.plus(X, -shift)
    if kernel.name in ("poly", "sigmoid"):
        # Scaled here and not after the product: a runtime may fuse the two and keep no more than
        # single precision of the factor.
        return _pointwise(graph, graph.times(X, kernel.gamma * rows.T), kernel)
    products = graph.times(X, rows.T)
    if kernel.name == "rbf":
        norms = graph.node("Add", graph.squares(X), graph.constant((rows * rows).sum(axis=1)))
        distances = graph.node("Add", norms, graph.scaled(products, -2.0))
        return graph.node("Exp", graph.scaled(graph.at_least(distances, 0.0), -kernel.gamma))
    return products


def _pointwise(graph: Graph, products: str, kernel: Kernel) -> str:
    argument = graph.plus(products, kernel.coef0)
    if kernel.name == "sigmoid":
        return graph.node("Tanh", argument)
    return graph.node("Pow", argument, graph.constant(float(kernel.degree)))


def kernel_diagonals(graph: Graph, X: str, kernel: Kernel, shift: np.ndarray | None = None) -> str:
    """Values ``k(x, x)``, as a column."""
    X = X if shift is None else graph.plus(X, -shift)
    squares = graph.squares(X)
    if kernel.name == "linear":
        return squares
    if kernel.name == "rbf":
        return graph.plus(graph.scaled(squares, 0.0), 1.0)
    return _pointwise(graph, graph.scaled(squares, kernel.gamma), kernel)


def pivot_products(graph: Graph, X: str, pivots: Any) -> str:
    """Kernel values against the pivots, normalised and increased by one if the map does so."""
    values = kernel_values(graph, X, pivots.kernel, pivots.rows, pivots.shift)
    if pivots.normalize:
        own = np.sqrt(kernel_diagonal(pivots.kernel, pivots.rows, pivots.shift))
        values = graph.scaled(values, 1.0 / np.where(own > 0.0, own, 1.0))
        squares = kernel_diagonals(graph, X, pivots.kernel, pivots.shift)
        values = graph.node("Div", values, lengths_of(graph, squares))
    return graph.plus(values, 1.0) if pivots.constant else values


def coordinates(graph: Graph, X: str, features: FeatureMap) -> tuple[str, str | None]:
    """Coordinates of rows, and their full squared lengths if rows may lie outside the span."""
    if isinstance(features, LinearMap):
        if features.normalize:
            X = graph.node("Div", X, lengths_of(graph, graph.squares(X)))
        if features.constant:
            X = graph.with_constant(X, 1.0, first=False)
        if features.span is None:
            return X, None
        return graph.times(X, features.span), graph.squares(X)
    values = pivot_products(graph, X, features)
    inverse = solve_triangular(features.factor, np.eye(len(features.factor)), lower=True)
    lengths = kernel_diagonals(graph, X, features.kernel, features.shift)
    if features.normalize:
        lengths = graph.number(graph.node("Greater", lengths, graph.constant(0.0)))
    if features.constant:
        lengths = graph.plus(lengths, 1.0)
    return graph.times(values, inverse.T), lengths


def lengths_of(graph: Graph, squares: str) -> str:
    """Lengths to divide by, from their squares, with zeros replaced by one."""
    lengths = graph.node("Sqrt", squares)
    zero = graph.number(graph.node("Equal", lengths, graph.constant(0.0)))
    return graph.node("Add", lengths, zero)
