"""What each estimator computes, as operators: ``(labels, scores)`` from rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.svm import SVC

from oblong.batch import (
    BayesPointClassifier,
    EllipsoidalKernelClassifier,
    EllipsoidalSVC,
    RelativeMarginClassifierCV,
)
from oblong.batch._one_vs_one import pairs_of, unpack_coefficients
from oblong.batch._pairwise import PairwiseKernelClassifier
from oblong.export._graph import Graph, Unexportable
from oblong.export._kernels import coordinates, kernel_diagonals, kernel_values, pivot_products
from oblong.geometry import MinimumVolumeEllipsoid
from oblong.kernels import Kernel
from oblong.online._base import OnlineClassifier
from oblong.solvers.online.kernel import _ROUND_OFF as _KERNEL_ROUND_OFF
from oblong.solvers.online.kernel import KernelState
from oblong.solvers.online.state import DIAGONAL, FULL, RANK, SINGLE, SKETCH, OnlineState

__all__ = ["write_estimator"]

_SKETCH_ROUND_OFF = 1e-15


def write_estimator(graph: Graph, X: str, model: Any) -> tuple[str, str]:
    """Write the prediction of a fitted estimator; returns its labels and scores.

    Parameters
    ----------
    graph : Graph
        Where to.
    X : str
        The rows.
    model : estimator
        Fitted, of oblong, or an SVC.
    """
    for kind, write in _WRITERS:
        if isinstance(model, kind):
            return write(graph, X, model)
    raise Unexportable(f"a {type(model).__name__}")


# One-vs-one --------------------------------------------------------------------------------------


def _one_vs_one(
    graph: Graph, outputs: str, classes: np.ndarray, shape: str, break_ties: str
) -> tuple[str, str]:
    """Votes of all pairs, with the layout of :mod:`oblong.batch._one_vs_one`."""
    k = len(classes)
    if k == 2:
        return graph.labels(graph.positive(outputs), classes), graph.column(outputs)
    if break_ties == "random":
        raise Unexportable('break_ties="random", which draws')
    pairs = pairs_of(k)
    positive, negative = (np.eye(k)[[pair[side] for pair in pairs]] for side in (0, 1))
    below = graph.number(graph.node("Less", outputs, graph.constant(0.0)))
    # A pair votes for its first class, unless its output is below zero.
    votes = graph.plus(graph.times(below, negative - positive), positive.sum(axis=0))
    confidence = graph.times(outputs, positive - negative)
    room = graph.scaled(graph.plus(graph.node("Abs", confidence), 1.0), 3.0)
    scores = graph.node("Add", votes, graph.node("Div", confidence, room))
    places = graph.largest(scores if break_ties == "confidence" else votes)
    return graph.labels(places, classes), outputs if shape == "ovo" else scores


def _pairwise(graph: Graph, X: str, model: PairwiseKernelClassifier) -> tuple[str, str]:
    if model.kernel == "linear":
        outputs = graph.times(X, np.asarray(model.coef_).T)
    else:
        if getattr(model, "_kernel_coef", None) is not None:
            vectors, coef = model._kernel_vectors, model._kernel_coef
        else:
            vectors, coef = model._expansion()
        outputs = graph.times(kernel_values(graph, X, model._kernel(), vectors), coef.T)
    outputs = graph.plus(outputs, model.intercept_)
    shape = getattr(model, "decision_function_shape", "ovr")
    return _one_vs_one(graph, outputs, model.classes_, shape, getattr(model, "break_ties", "first"))


def _precomputed_ellipsoid(graph: Graph, X: str, model: EllipsoidalKernelClassifier):
    if model.kernel == "precomputed":
        raise Unexportable("a precomputed kernel, whose rows the model does not know")
    return _pairwise(graph, X, model)


def _svc(graph: Graph, X: str, model: SVC) -> tuple[str, str]:
    kernel = Kernel(model.kernel, float(model._gamma), int(model.degree), float(model.coef0))
    if callable(model.kernel):
        raise Unexportable("a kernel that is a function of Python")
    dual = model.dual_coef_.toarray() if model._sparse else model.dual_coef_
    coef = unpack_coefficients(np.asarray(dual), model.n_support_)
    values = kernel_values(graph, X, kernel, model.support_vectors_)
    outputs = graph.plus(graph.times(values, coef.T), model.intercept_)
    ties = "confidence" if model.break_ties else "first"
    return _one_vs_one(graph, outputs, model.classes_, model.decision_function_shape, ties)


# One-vs-rest -------------------------------------------------------------------------------------


def _one_vs_rest(graph: Graph, outputs: str, classes: np.ndarray) -> tuple[str, str]:
    if len(classes) == 2:
        return graph.labels(graph.positive(outputs), classes), graph.column(outputs)
    return graph.labels(graph.largest(outputs), classes), outputs


def _ellipsoidal(graph: Graph, X: str, model: EllipsoidalSVC) -> tuple[str, str]:
    if model.kernel == "linear":
        outputs = graph.times(X, model.coef_.T)
        if model.normalize:
            lengths = graph.node("Sqrt", graph.squares(X))
            zero = graph.number(graph.node("Equal", lengths, graph.constant(0.0)))
            outputs = graph.node("Div", outputs, graph.node("Add", lengths, zero))
    else:
        outputs = graph.times(pivot_products(graph, X, model._map), model._pivot_coef.T)
    return _one_vs_rest(graph, graph.plus(outputs, model.intercept_), model.classes_)


def _bayes_point(graph: Graph, X: str, model: BayesPointClassifier) -> tuple[str, str]:
    if model.kernel == "precomputed":
        raise Unexportable("a precomputed kernel, whose rows the model does not know")
    if model.kernel == "linear":
        means = graph.plus(graph.times(X, model.coef_.T), model.intercept_)
    else:
        means = graph.times(pivot_products(graph, X, model._map), model.dual_coef_.T)
    phi, lengths = coordinates(graph, X, model._map)
    parts = [graph.squares(graph.times(phi, root)) for root in model._roots]
    variances = graph.node("Concat", *parts, axis=1)
    if lengths is not None:
        rest = graph.node("Sub", lengths, graph.squares(phi))
        variances = graph.node("Add", variances, graph.at_least(rest, 0.0))
    scores = graph.standardised(means, graph.plus(variances, model.soft_))
    if len(model.classes_) == 2:
        # The sign needs no variance.
        return graph.labels(graph.positive(means), model.classes_), graph.column(scores)
    return graph.labels(graph.largest(scores), model.classes_), scores


# Online learners ---------------------------------------------------------------------------------


def _online(graph: Graph, X: str, model: OnlineClassifier) -> tuple[str, str]:
    state = model._state
    kernelised = isinstance(state, KernelState)
    outputs = (_kernel_outputs if kernelised else _linear_outputs)(graph, X, state)
    if state.codes[2] == RANK:
        k = len(model.classes_)
        outputs = graph.times(outputs, np.vstack([np.eye(k), -np.ones((1, k))]))
    if model.multilabel_:
        above = graph.node("Greater", outputs, graph.constant(0.0))
        return graph.node("Cast", above, to=7), outputs
    if state.codes[2] != SINGLE:
        return graph.labels(graph.largest(outputs), model.classes_), outputs
    labels = graph.labels(graph.positive(outputs), model.classes_)
    if model._gaussian:
        variances = _kernel_variance if kernelised else _linear_variance
        outputs = graph.standardised(outputs, variances(graph, X, state))
    return labels, graph.column(outputs)


def _linear_outputs(graph: Graph, X: str, state: OnlineState) -> str:
    weights = state.weights().astype(np.float64)
    return graph.plus(graph.times(X, weights[1:]), state.bias * weights[0])


def _linear_variance(graph: Graph, X: str, state: OnlineState) -> str:
    """Variance of the only output, as a column; see :meth:`OnlineState.variances`."""
    n, scale = state.n_features + 1, float(state.scale[0, 0])
    row = graph.with_constant(X, state.bias, first=True)
    if state.structure == FULL:
        variance = graph.quadratic(row, state.shape[0, :n, :n])
    elif state.structure == DIAGONAL:
        return graph.times(graph.node("Mul", row, row), state.diagonal().astype(np.float64))
    elif state.structure == SKETCH:
        inverse, rank, block = state.table[:n, 1], state.ranks[0], state._block(0)
        variance = whole = graph.times(graph.node("Mul", row, row), inverse[:, None])
        if rank:
            B = block[:n, :rank] * inverse[:, None]
            image = solve_triangular(block[n : n + rank, :rank], B.T, lower=True)
            seen = graph.squares(graph.times(row, image.T))
            least = graph.scaled(whole, _SKETCH_ROUND_OFF)
            variance = graph.node("Max", graph.node("Sub", whole, seen), least)
    else:
        variance = graph.squares(row)
    return graph.at_least(graph.scaled(variance, scale), 0.0)


def _kernel_outputs(graph: Graph, X: str, state: KernelState) -> str:
    values = kernel_values(graph, X, state.kernel, _dictionary(state))
    bias = state.inner.bias * state.inner.weights()[0]
    return graph.plus(graph.times(values, state.dual_coef().T), bias)


def _kernel_variance(graph: Graph, X: str, state: KernelState) -> str:
    inner, m = state.inner, state.size
    values = kernel_values(graph, X, state.kernel, _dictionary(state))
    inverse = solve_triangular(state.factor[:m, :m], np.eye(m), lower=True)
    Q = graph.times(values, inverse.T)
    lengths = kernel_diagonals(graph, X, state.kernel)
    rest = graph.node("Sub", lengths, graph.squares(Q))
    out = graph.number(graph.node("Less", graph.scaled(lengths, _KERNEL_ROUND_OFF), rest))
    prior = float(inner.shape[0, -1, -1] * inner.scale[0, 0])
    rest = graph.scaled(graph.node("Mul", rest, out), prior)
    return graph.node("Add", _linear_variance(graph, Q, inner), rest)


def _dictionary(state: KernelState) -> Any:
    if state.size == 0:
        raise Unexportable("a learner that has learned nothing yet")
    return state.dictionary


# The ellipsoid -----------------------------------------------------------------------------------


def _ellipsoid(graph: Graph, X: str, model: MinimumVolumeEllipsoid) -> tuple[str, str]:
    known = model._kernel_rows
    if known is not None:
        if known.rows is None:
            raise Unexportable("a precomputed kernel, whose rows the model does not know")
        values = kernel_values(graph, X, known.kernel, known.rows, known.shift)
        X = graph.times(graph.plus(values, -known.basis.means), known.basis.directions)
    image = graph.times(graph.plus(X, -model.center_), model.factor_)
    scores = graph.plus(graph.scaled(graph.squares(image), -1.0), -model.offset_)
    scores = graph.column(scores)
    outside = graph.node("Cast", graph.node("Less", scores, graph.constant(0.0)), to=7)
    return graph.labels(outside, np.array([1, -1])), scores


def _best(graph: Graph, X: str, model: RelativeMarginClassifierCV) -> tuple[str, str]:
    if not hasattr(model, "best_estimator_"):
        raise Unexportable("a search that was not refitted")
    return write_estimator(graph, X, model.best_estimator_)


Writer = Callable[[Graph, str, Any], tuple[str, str]]
# The first that fits is taken.
_WRITERS: tuple[tuple[type, Writer], ...] = (
    (RelativeMarginClassifierCV, _best),
    (EllipsoidalSVC, _ellipsoidal),
    (BayesPointClassifier, _bayes_point),
    (EllipsoidalKernelClassifier, _precomputed_ellipsoid),
    (PairwiseKernelClassifier, _pairwise),
    (OnlineClassifier, _online),
    (MinimumVolumeEllipsoid, _ellipsoid),
    (SVC, _svc),
)
