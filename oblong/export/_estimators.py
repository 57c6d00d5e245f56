"""Predictions of each estimator as operators: labels, scores and probabilities."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.svm import SVC

from oblong.batch import (
    BayesPointClassifier,
    CalibratedMarginClassifier,
    EllipsoidalSVC,
    MarginRegressor,
    MarginRegressorCV,
    RelativeMarginClassifierCV,
)
from oblong.batch._one_vs_one import pairs_of, unpack_coefficients
from oblong.batch._pairwise import PairwiseKernelClassifier
from oblong.export import _kernels, _normal
from oblong.export._calibration import pair_scores, pooled, two_class_chances
from oblong.export._graph import Graph, Unexportable
from oblong.geometry import MinimumVolumeEllipsoid
from oblong.kernels import Kernel
from oblong.online._base import OnlineClassifier
from oblong.solvers.online.calibration import logits
from oblong.solvers.online.kernel import _ROUND_OFF as _KERNEL_ROUND_OFF
from oblong.solvers.online.kernel import KernelState
from oblong.solvers.online.slots import DIAGONAL, EACH, FULL, NONE, RANK, SINGLE, SKETCH, TOP
from oblong.solvers.online.state import OnlineState
from oblong.solvers.online.units import in_rows
from oblong.svm import LinearSVC

_SKETCH_ROUND_OFF = 1e-15


class Outputs(NamedTuple):
    """Outputs of a model: labels, scores, and probabilities if it has any; or numbers.

    One-vs-one and one-vs-rest classifiers also give the outputs of every binary problem and the
    indices of the predicted classes.
    """

    labels: str | None = None
    scores: str | None = None
    probabilities: str | None = None
    outputs: str | None = None
    places: str | None = None
    prediction: str | None = None

    def named(self) -> dict[str, str]:
        """Tensors by the names of the graph's outputs."""
        named = {
            "label": self.labels,
            "scores": self.scores,
            "probabilities": self.probabilities,
            "prediction": self.prediction,
        }
        return {name: tensor for name, tensor in named.items() if tensor is not None}


def write_estimator(graph: Graph, X: str, model: Any) -> Outputs:
    """Write the prediction of a fitted estimator.

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
) -> Outputs:
    """Votes of all pairs, with the layout of :mod:`oblong.batch._one_vs_one`."""
    k = len(classes)
    if k == 2:
        return _two_classes(graph, outputs, classes)
    if break_ties == "random":
        raise Unexportable('break_ties="random", which draws at random')
    pairs = pairs_of(k)
    positive, negative = (np.eye(k)[[pair[side] for pair in pairs]] for side in (0, 1))
    below = graph.number(graph.node("Less", outputs, graph.constant(0.0)))
    # A pair votes for its first class, unless its output is below zero.
    votes = graph.plus(graph.times(below, negative - positive), positive.sum(axis=0))
    confidence = graph.times(outputs, positive - negative)
    room = graph.scaled(graph.plus(graph.node("Abs", confidence), 1.0), 3.0)
    scores = graph.node("Add", votes, graph.node("Div", confidence, room))
    places = graph.largest(scores if break_ties in (True, "confidence") else votes)
    scores = outputs if shape == "ovo" else scores
    return Outputs(graph.labels(places, classes), scores, None, outputs, places)


def _two_classes(graph: Graph, outputs: str, classes: np.ndarray) -> Outputs:
    places = graph.positive(outputs)
    return Outputs(graph.labels(places, classes), graph.column(outputs), None, outputs, places)


def _expansion(graph: Graph, X: str, model: Any) -> str:
    """Outputs of a kernel expansion, one column per binary problem."""
    if model.kernel == "linear":
        outputs = graph.times(X, np.asarray(model.coef_).T)
    else:
        if getattr(model, "_kernel_coef", None) is not None:
            vectors, coef = model._kernel_vectors, model._kernel_coef
        else:
            vectors, coef = model._expansion()
        if model.kernel != "precomputed" and vectors.shape[0] == 0:
            # No support vectors: a constant.
            vectors, coef = np.zeros((1, model.n_features_in_)), np.zeros((len(coef), 1))
        outputs = graph.times(_kernels.kernel_values(graph, X, model._kernel(), vectors), coef.T)
    return graph.plus(outputs, model.intercept_)


def _regressor(graph: Graph, X: str, model: MarginRegressor) -> Outputs:
    outputs = _expansion(graph, X, model)
    if not model._several:
        return Outputs(prediction=graph.column(outputs))
    count = graph.constant([np.size(model.quantile)], np.int64)
    ordered, _ = graph.nodes_of("TopK", 2, outputs, count, axis=1, largest=0, sorted=1)
    ranks = np.argsort(np.argsort(model.quantile, kind="stable"))
    return Outputs(prediction=graph.part(ordered, *ranks.tolist()))


def _pairwise(graph: Graph, X: str, model: PairwiseKernelClassifier) -> Outputs:
    outputs = _expansion(graph, X, model)
    if not model._votes:
        return _one_vs_rest(graph, outputs, model.classes_)
    shape = getattr(model, "decision_function_shape", "ovr")
    return _one_vs_one(graph, outputs, model.classes_, shape, getattr(model, "break_ties", "first"))


def _svc(graph: Graph, X: str, model: SVC) -> Outputs:
    kernel = Kernel(model.kernel, float(model._gamma), int(model.degree), float(model.coef0))
    dual = model.dual_coef_.toarray() if model._sparse else model.dual_coef_
    coef = unpack_coefficients(np.asarray(dual), model.n_support_)
    values = _kernels.kernel_values(graph, X, kernel, model.support_vectors_)
    outputs = graph.plus(graph.times(values, coef.T), model.intercept_)
    ties = "confidence" if model.break_ties else "first"
    return _one_vs_one(graph, outputs, model.classes_, model.decision_function_shape, ties)


# One-vs-rest -------------------------------------------------------------------------------------


def _one_vs_rest(graph: Graph, outputs: str, classes: np.ndarray) -> Outputs:
    if len(classes) == 2:
        return _two_classes(graph, outputs, classes)
    places = graph.largest(outputs)
    return Outputs(graph.labels(places, classes), outputs, None, outputs, places)


def _linear_svc(graph: Graph, X: str, model: LinearSVC) -> Outputs:
    coef: Any = model.coef_
    coef = coef.toarray() if sp.issparse(coef) else coef
    outputs = graph.plus(graph.times(X, coef.T), model.intercept_)
    return _one_vs_rest(graph, outputs, model.classes_)


def _ellipsoidal(graph: Graph, X: str, model: EllipsoidalSVC) -> Outputs:
    if model.kernel == "linear":
        outputs = graph.times(X, model.coef_.T)
        if model.normalize:
            outputs = graph.node("Div", outputs, _kernels.lengths_of(graph, graph.squares(X)))
    else:
        outputs = graph.times(_kernels.pivot_products(graph, X, model._map), model._pivot_coef.T)
    return _one_vs_rest(graph, graph.plus(outputs, model.intercept_), model.classes_)


def _bayes_point(graph: Graph, X: str, model: BayesPointClassifier) -> Outputs:
    if model.kernel == "linear":
        means = graph.plus(graph.times(X, model.coef_.T), model.intercept_)
    else:
        means = graph.times(_kernels.pivot_products(graph, X, model._map), model.dual_coef_.T)
    phi, lengths = _kernels.coordinates(graph, X, model._map)
    parts = [graph.squares(graph.times(phi, root)) for root in model._roots]
    variances = graph.node("Concat", *parts, axis=1)
    if lengths is not None:
        rest = graph.node("Sub", lengths, graph.squares(phi))
        variances = graph.node("Add", variances, graph.at_least(rest, 0.0))
    scores = graph.standardised(means, graph.plus(variances, model.soft_))
    if len(model.classes_) == 2:
        # The sign needs no variance.
        places, found = graph.positive(means), graph.column(scores)
        chances = _normal.both_sides(graph, scores)
    else:
        places, found = graph.largest(scores), scores
        chances = _normal.shares(graph, _normal.log_normal(graph, scores))
    return Outputs(graph.labels(places, model.classes_), found, chances, scores, places)


# Online learners ---------------------------------------------------------------------------------


def _online(graph: Graph, X: str, model: OnlineClassifier) -> Outputs:
    state: Any = model._state
    kernelised = isinstance(state, KernelState)
    outputs = (_kernel_outputs if kernelised else _linear_outputs)(graph, X, state)
    variances = None
    if model._gaussian and not model._is_calibrated():
        variances = (_kernel_variances if kernelised else _linear_variances)(graph, X, state)
    k = len(model.classes_)
    if state.task == RANK:
        outputs = graph.times(outputs, np.vstack([np.eye(k), -np.ones((1, k))]))
        if variances is not None:
            variances = graph.times(variances, np.vstack([np.eye(k), np.ones((1, k))]))
    scores, chances, single = outputs, None, state.task == SINGLE
    if model._is_calibrated():
        outputs, chances = _calibrated(graph, outputs, model)
        scores = outputs
    elif variances is not None and model.multilabel_:
        chances = _normal.normal(graph, graph.standardised(outputs, variances))
    elif variances is not None and not single:
        chances = _normal.against_best_other(graph, outputs, variances, k)
    elif variances is not None:
        scores = graph.standardised(outputs, variances)
        chances = _normal.both_sides(graph, scores)
    if model.multilabel_:
        above = graph.node("Greater", outputs, graph.constant(0.0))
        return Outputs(graph.node("Cast", above, to=7), scores, chances)
    # The sign needs no variance.
    places = graph.positive(outputs) if single else graph.largest(outputs)
    scores = graph.column(scores) if single else scores
    return Outputs(graph.labels(places, model.classes_), scores, chances)


def _calibrated(graph: Graph, outputs: str, model: OnlineClassifier) -> tuple[str, str]:
    """Logits and probabilities; see :func:`oblong.solvers.online.calibration.logits`."""
    state: Any = getattr(model._state, "inner", model._state)
    n = 1 if state.task == SINGLE else len(model.classes_)
    # The logits of unit outputs, and of zeros, give the slopes and the offsets.
    offsets = logits(np.zeros((1, n)), state.scale, EACH)
    slopes = logits(np.ones((1, n)), state.scale, EACH) - offsets
    if state.task == TOP:
        top, _ = graph.nodes_of("TopK", 2, outputs, graph.constant([2], np.int64), axis=1)
        best, second = graph.part(top, 0), graph.part(top, 1)
        rival = graph.node("Where", graph.node("Equal", outputs, best), second, best)
        outputs = graph.node("Sub", outputs, rival)
    scores = graph.plus(graph.scaled(outputs, slopes), offsets)
    p = _normal.sigmoid(graph, scores)
    if model.multilabel_:
        return scores, p
    if state.task == SINGLE:
        other = _normal.sigmoid(graph, graph.node("Neg", scores))
        return scores, graph.node("Concat", other, p, axis=1)
    return scores, graph.node("Div", p, graph.sum(p))


def _linear_outputs(graph: Graph, X: str, state: OnlineState) -> str:
    weights = state.weights().astype(np.float64)
    return graph.plus(graph.times(X, weights[1:]), state.bias * weights[0])


def _linear_variances(graph: Graph, X: str, state: OnlineState) -> str:
    """Variances of the outputs, one column each; see :meth:`OnlineState.variances`."""
    row = graph.with_constant(X, state.bias, first=True)
    state = in_rows(state)
    if state.structure == DIAGONAL:
        return graph.times(graph.node("Mul", row, row), state.diagonal().astype(np.float64))
    parts = [_linear_variance(graph, row, state, k) for k in range(state.n_outputs)]
    variances = graph.node("Concat", *parts, axis=1)
    return graph.at_least(graph.scaled(variances, state.sigma), 0.0)


def _linear_variance(graph: Graph, row: str, state: OnlineState, k: int) -> str:
    """Variance of one output, up to its scale."""
    n = state.n_features + 1
    if state.structure == FULL:
        return graph.quadratic(row, state.covariance[k, :n, :n])
    if state.structure == NONE:
        return graph.squares(row)
    if state.structure != SKETCH:
        raise Unexportable("a learner with a covariance of a new kind")
    block, inverse, rank = state.sketch(k)
    whole = graph.times(graph.node("Mul", row, row), inverse[:, None])
    if not rank:
        return whole
    B = block[:n, :rank] * inverse[:, None]
    image = solve_triangular(block[n : n + rank, :rank], B.T, lower=True)
    seen = graph.squares(graph.times(row, image.T))
    least = graph.scaled(whole, _SKETCH_ROUND_OFF)
    return graph.node("Max", graph.node("Sub", whole, seen), least)


def _kernel_outputs(graph: Graph, X: str, state: KernelState) -> str:
    values = _kernels.kernel_values(graph, X, state.kernel, _dictionary(state))
    bias = state.inner.bias * state.inner.weights()[0]
    return graph.plus(graph.times(values, state.dual_coef().T), bias)


def _kernel_variances(graph: Graph, X: str, state: KernelState) -> str:
    inner, m = state.inner, state.size
    values = _kernels.kernel_values(graph, X, state.kernel, _dictionary(state))
    inverse = solve_triangular(state.factor[:m, :m], np.eye(m), lower=True)
    Q = graph.times(values, inverse.T)
    lengths = _kernels.kernel_diagonals(graph, X, state.kernel)
    rest = graph.node("Sub", lengths, graph.squares(Q))
    out = graph.number(graph.node("Less", graph.scaled(lengths, _KERNEL_ROUND_OFF), rest))
    priors = inner.prior().astype(np.float64)
    rest = graph.scaled(graph.node("Mul", rest, out), priors)
    return graph.node("Add", _linear_variances(graph, Q, inner), rest)


def _dictionary(state: KernelState) -> Any:
    if state.size == 0:
        raise Unexportable("a learner that has learned nothing yet")
    return state.dictionary


# The ellipsoid -----------------------------------------------------------------------------------


def _ellipsoid(graph: Graph, X: str, model: MinimumVolumeEllipsoid) -> Outputs:
    known = model._kernel_rows
    if known is not None:
        values = _kernels.kernel_values(graph, X, known.kernel, known.rows, known.shift)
        X = graph.times(graph.plus(values, -known.basis.means), known.basis.directions)
    image = graph.times(graph.plus(X, -model.center_), model.factor_)
    scores = graph.plus(graph.scaled(graph.squares(image), -1.0), -model.offset_)
    scores = graph.column(scores)
    outside = graph.node("Cast", graph.node("Less", scores, graph.constant(0.0)), to=7)
    return Outputs(graph.labels(outside, np.array([1, -1])), scores)


def _best(graph: Graph, X: str, model: RelativeMarginClassifierCV) -> Outputs:
    if not hasattr(model, "best_estimator_"):
        raise Unexportable("a search that was not refitted")
    return write_estimator(graph, X, model.best_estimator_)


def _calibrated_margin(graph: Graph, X: str, model: CalibratedMarginClassifier) -> Outputs:
    found = write_estimator(graph, X, model.estimator_)
    if found.outputs is None or found.places is None:
        raise Unexportable(f"probabilities of a {type(model.estimator_).__name__}")
    k = len(model.classes_)
    if k == 2:
        slope, offset = model.sigmoids_[0]
        chances = two_class_chances(graph, found.outputs, slope, offset)
        return found._replace(probabilities=chances)
    scores = found.outputs
    if model._one_vs_one:
        scores = pair_scores(graph, scores, model.sigmoids_, model._sizes, pairs_of(k))
    chances = _normal.shares(graph, graph.scaled(scores, 1.0 / model.temperature_))
    return found._replace(probabilities=pooled(graph, chances, found.places, k))


def _threshold(graph: Graph, X: str, model: FixedThresholdClassifier) -> Outputs:
    """The second class from a threshold on; scikit-learn counts the classes from `pos_label`."""
    found = write_estimator(graph, X, model.estimator_)
    classes, positive = model.classes_, 1
    if model.pos_label is not None:
        positive = int(np.flatnonzero(classes == model.pos_label)[0])
    if found.probabilities is not None and model.response_method != "decision_function":
        values, usual = graph.column(graph.part(found.probabilities, positive)), 0.5
    elif found.scores is not None:
        values, usual = found.scores, 0.0
        if positive == 0:
            values = graph.node("Neg", values)
    else:
        raise Unexportable(f"a threshold of a {type(model.estimator_).__name__}")
    threshold = usual if model.threshold == "auto" else float(model.threshold)
    above = graph.node("GreaterOrEqual", values, graph.constant(threshold))
    places = graph.node("Cast", above, to=7)
    labels = graph.labels(places, classes[[1 - positive, positive]])
    return Outputs(labels, found.scores, found.probabilities)


Writer = Callable[[Graph, str, Any], Outputs]
# The first match is used.
_WRITERS: tuple[tuple[type, Writer], ...] = (
    (CalibratedMarginClassifier, _calibrated_margin),
    (RelativeMarginClassifierCV, _best),
    (MarginRegressorCV, _best),
    (EllipsoidalSVC, _ellipsoidal),
    (BayesPointClassifier, _bayes_point),
    (PairwiseKernelClassifier, _pairwise),
    (MarginRegressor, _regressor),
    (LinearSVC, _linear_svc),
    (OnlineClassifier, _online),
    (MinimumVolumeEllipsoid, _ellipsoid),
    (SVC, _svc),
    (FixedThresholdClassifier, _threshold),
)
