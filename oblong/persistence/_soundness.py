"""Checks of objects from a file, above all of what compiled code reads without checking.

NumPy refuses arrays that do not fit together, with an error at the latest when they meet. The
compiled loops of the online learners and LIBSVM do not look, and a file with wrong shapes could
make them read, or write, where they must not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

from oblong.batch import BayesPointClassifier, EllipsoidalSVC, MarginRegressor
from oblong.batch._pairwise import PairwiseKernelClassifier
from oblong.kernels import KERNELS, Kernel
from oblong.linalg.feature_map import LinearMap, PivotMap
from oblong.online._base import OnlineClassifier
from oblong.solvers.esvm.online.passes import BATCH
from oblong.solvers.esvm.online.state import OnlineEllipsoidalState
from oblong.solvers.online import slots
from oblong.solvers.online.arrays import initial_columns, scratch
from oblong.solvers.online.kernel import KernelState
from oblong.solvers.online.state import OnlineState

_MOST_FEATURES = 2**31
# Squares of larger numbers are infinite.
_LARGEST, _LARGEST_STATE = 1e154, 1e100
# Arrays that predictions are made of, and that are finite in every model.
_FINITE = (
    *("coef_", "dual_coef_", "_dual_coef_", "intercept_", "_intercept_", "support_vectors_"),
    *("_kernel_coef", "_kernel_vectors", "universum_vectors_", "universum_coef_", "outputs_"),
    *("sigmoids_", "weights_", "center_", "shape_", "table", "covariance", "total", "scale"),
    *("w", "mean", "P", "B", "G", "factor", "dictionary", "rows"),
)


class Unsound(ValueError):
    """Content that no saved model has."""


def check_sound(value: Any) -> None:
    """Raise :class:`Unsound` if an object is inconsistent.

    Parameters
    ----------
    value : object
        An object of one of the known types, with its attributes set.
    """
    try:
        for name in _FINITE:
            array: Any = vars(value).get(name) if hasattr(value, "__dict__") else None
            array = array.data if sp.issparse(array) else array
            floats = isinstance(array, np.ndarray) and array.dtype.kind == "f"
            # A comparison with nan is false.
            if floats and array.size and not float(np.abs(array).max()) <= _LARGEST:
                raise Unsound(f"{name} holds NaN, infinity or numbers that are too large")
        for kind, check in _CHECKS:
            if isinstance(value, kind):
                check(value)
    except (AttributeError, TypeError, IndexError, KeyError, ValueError) as error:
        if isinstance(error, Unsound):
            raise
        raise Unsound(f"a damaged {type(value).__name__}") from None


def _require(condition: Any, what: str) -> None:
    if not condition:
        raise Unsound(f"wrong shapes: {what}")


def _numbers(array: Any, kinds: str, *shape: int | None) -> np.ndarray:
    """Require an array of given kinds of numbers and a shape, where None is any length."""
    fits = (
        isinstance(array, np.ndarray)
        and array.dtype.kind in kinds
        and array.ndim == len(shape)
        and all(want is None or want == have for want, have in zip(shape, array.shape))
    )
    _require(fits, f"expected numbers of the shape {shape}")
    return array


def _doubles(array: Any, *shape: int | None) -> np.ndarray:
    _require(_numbers(array, "f", *shape).dtype == np.float64, "expected double precision")
    return array


def _rows(matrix: Any, width: int | None) -> Any:
    """Require rows, dense or sparse."""
    _require(sp.issparse(matrix) or isinstance(matrix, np.ndarray), "expected rows")
    _require(matrix.ndim == 2 and matrix.dtype.kind == "f", "expected rows")
    _require(width is None or matrix.shape[1] == width, "rows of another width")
    return matrix


def _classes(model: Any) -> int:
    classes = model.classes_
    _require(isinstance(classes, np.ndarray) and classes.ndim == 1, "classes")
    _require(len(classes) >= 2 or getattr(model, "multilabel_", False), "classes")
    return len(classes)


def _features(model: Any) -> int:
    n = model.n_features_in_
    _require(type(n) is int and 0 <= n < _MOST_FEATURES, "n_features_in_")
    return n


def _fitted(model: Any, mark: str) -> bool:
    return mark in vars(model)


def _check_kernel(kernel: Kernel) -> None:
    _require(kernel.name in KERNELS and isinstance(kernel.name, str), "kernel")
    _require(isinstance(kernel.gamma, (int, float, str)), "gamma")
    _require(type(kernel.degree) is int and isinstance(kernel.coef0, (int, float)), "kernel")


def _check_online_state(state: OnlineState) -> None:
    codes = _numbers(state.codes, "i", slots.N_CODES)
    structure, task, steps = state.structure, state.task, state.steps
    _require(structure in (slots.NONE, slots.DIAGONAL, slots.FULL, slots.SKETCH), "structure")
    _require(
        task in (slots.SINGLE, slots.TOP, slots.EACH, slots.RANK) and 1 <= steps < _MOST_FEATURES,
        "task",
    )
    scale = _doubles(state.scale, None, None)
    # With a sigmoid for each output, or without.
    _require(scale.shape[1] in (slots.N_PLAIN, slots.N_CALIBRATED), "numbers of the outputs")
    outputs = len(scale)
    _require(outputs >= 1 and (task != slots.SINGLE or outputs == 1), "outputs")
    _require(task not in (slots.EACH, slots.RANK) or steps <= outputs, "steps")
    groups = len(initial_columns(structure, 1.0))
    table = _numbers(state.table, "f", None, groups * outputs)
    _require(table.dtype in (np.float32, np.float64), "table")
    room = len(table)
    n = state.n_features
    _require(type(n) is int and 0 <= n < room, "n_features")
    covariance = _doubles(state.covariance, None, None, None)
    sides = covariance.shape
    if structure == slots.FULL:
        _require(sides == (outputs, room, room), "covariance")
    elif structure == slots.SKETCH:
        width = sides[2]
        _require(sides == (outputs, room + width, width) and steps <= width, "covariance")
        _require(all(0 <= rank <= width for rank in state.ranks), "directions of a sketch")
    else:
        _require(sides[1:] == (0, 0), "covariance")
    total = _doubles(state.total, None, outputs)
    _require(len(total) in (0, room), "total")
    _require(_numbers(state.counters, "i", slots.N_COUNTERS).dtype == np.int64, "counters")
    _doubles(state.work, len(scratch(structure, outputs, covariance)))
    _doubles(state.settings, slots.N_SETTINGS)
    units = _doubles(state.units, None)
    _require(len(units) in (0, room), "units")
    # The row of no feature, which tells what the prior is.
    _require(len(units) == 0 or structure in (slots.NONE, slots.FULL) or n + 1 < room, "units")
    for array in (scale, table, covariance, total, units):
        _require(np.abs(array).max(initial=0.0) <= _LARGEST_STATE, "size of numbers")
    for array in (codes, scale, table, covariance, total, state.counters, units):
        _require(array.flags.c_contiguous, "order of memory")
    _require(codes.dtype == np.int64, "codes")


def _check_kernel_state(state: KernelState) -> None:
    _require(isinstance(state.inner, OnlineState) and state.inner.structure == slots.FULL, "state")
    _require(isinstance(state.kernel, Kernel), "kernel")
    _require(type(state.budget) is int and isinstance(state.tol, float), "budget")
    factor = _doubles(state.factor, None, None)
    m = state.inner.n_features
    _require(factor.shape[0] == factor.shape[1] >= m and factor.flags.c_contiguous, "factor")
    if state.dictionary is None:
        _require(m == 0, "dictionary")
    else:
        _require(_rows(state.dictionary, None).shape[0] == m, "dictionary")


def _check_ellipsoidal_state(state: OnlineEllipsoidalState) -> None:
    outputs, size = _doubles(state.w, None, None).shape
    _require(outputs >= 1, "outputs")
    for array in (state.mean, state.g):
        _doubles(array, outputs, size)
    for array in (state.P, state.B, state.mean_B, state.G):
        _doubles(array, outputs, size, size)
    for array in (state.pulls, state.theta):
        _doubles(array, outputs)
    _doubles(state.numbers, 3)
    _doubles(state.settings, 6)
    _require(_numbers(state.counters, "i", slots.N_COUNTERS).dtype == np.int64, "counters")
    _require(isinstance(state.averaged, bool), "averaged")
    _require(state.settings[BATCH] >= 1.0, "rows of a batch")


def _check_online(model: OnlineClassifier) -> None:
    state = vars(model).get("_state")
    if state is None:
        return
    classes, n = _classes(model), _features(model)
    _require(isinstance(state, (OnlineState, KernelState, OnlineEllipsoidalState)), "state")
    _require(isinstance(model.multilabel_, bool), "labels")
    inner = state.inner if isinstance(state, KernelState) else state
    task = inner.task
    expected = {slots.SINGLE: 1, slots.RANK: classes + 1}.get(task, classes)
    _require(inner.n_outputs == expected, "a weight vector for each class")
    _require(task != slots.SINGLE or classes == 2, "classes")
    if isinstance(state, KernelState):
        if state.dictionary is not None:
            _require(state.dictionary.shape[1] == n, "dictionary")
    else:
        _require(state.n_features == n, "features")
    vocabulary = vars(model).get("_vocabulary")
    if vocabulary is not None:
        # Columns that compiled code reads.
        places = list(vocabulary.values())
        _require(all(type(place) is int and 0 <= place < n for place in places), "vocabulary")


def _check_pairwise(model: PairwiseKernelClassifier) -> None:
    _require(isinstance(model.kernel, str) and model.kernel in KERNELS, "kernel")
    if not _fitted(model, "classes_"):
        return
    k, n = _classes(model), _features(model)
    rest = isinstance(model, (EllipsoidalSVC, BayesPointClassifier))
    problems = 1 if k == 2 else k if rest else k * (k - 1) // 2
    if not hasattr(model, "spreads"):
        _numbers(model.intercept_, "f", problems)
    if model.kernel == "linear":
        _numbers(model.coef_, "f", None, n)
        _require(hasattr(model, "spreads") or len(model.coef_) == problems, "coefficients")
    if _fitted(model, "support_vectors_"):
        count = len(_numbers(model.support_, "i", None))
        _require(model.dual_coef_.shape[-1] == count, "coefficients of the support vectors")
        if model.kernel != "precomputed":
            _require(_rows(model.support_vectors_, n).shape[0] == count, "support vectors")
        if _fitted(model, "n_support_"):
            counts = _numbers(model.n_support_, "i", k)
            _require((counts >= 0).all() and int(counts.sum()) == count, "support vectors")
    if _fitted(model, "universum_vectors_"):
        count = _rows(model.universum_vectors_, None).shape[0]
        _numbers(model.universum_coef_, "f", None, count)
    if _fitted(model, "_kernel_coef") and model._kernel_coef is not None:
        count = model._kernel_vectors.shape[0]
        _numbers(model._kernel_coef, "f", None, count)
    if _fitted(model, "_map"):
        _require(isinstance(model._map, (LinearMap, PivotMap)), "map")
    if _fitted(model, "_directions"):
        _numbers(model._directions, "f", problems, None)


def _check_regressor(model: MarginRegressor) -> None:
    _require(isinstance(model.kernel, str) and model.kernel in KERNELS, "kernel")
    if not _fitted(model, "dual_coef_"):
        return
    n, k = _features(model), len(np.ravel(model.quantile)) if model._several else 1
    _numbers(model.intercept_, "f", k)
    count = len(_numbers(model.support_, "i", None))
    _numbers(model.dual_coef_, "f", k, count)
    if model.kernel == "linear":
        _numbers(model.coef_, "f", k, n)
    if model.kernel != "precomputed":
        _require(_rows(model.support_vectors_, n).shape[0] == count, "support vectors")


def _check_pivots(pivots: PivotMap) -> None:
    count = len(_numbers(pivots.pivots, "i", None))
    _numbers(pivots.factor, "f", count, count)
    _require(isinstance(pivots.kernel, Kernel), "kernel")
    _require(pivots.rows is None or _rows(pivots.rows, None).shape[0] == count, "pivots")


def _check_identity(step: FunctionTransformer) -> None:
    """A column transformer passes columns through by one without functions."""
    _require(step.func is None and step.inverse_func is None and not step.kw_args, "a function")


def _check_svc(model: SVC) -> None:
    """LIBSVM does not check these arrays."""
    _require(isinstance(model.kernel, str), "kernel")
    if not _fitted(model, "_dual_coef_"):
        return
    k, n = _classes(model), _features(model)
    pairs = k * (k - 1) // 2
    count = len(_numbers(model.support_, "i", None))
    _require(model.support_.dtype == np.int32, "support vectors")
    counts = _numbers(model._n_support, "i", k)
    _require(counts.dtype == np.int32 and (counts >= 0).all(), "support vectors")
    _require(int(counts.sum()) == count, "support vectors")
    dual = model._dual_coef_
    _require(dual.shape == (k - 1, count) and dual.dtype == np.float64, "coefficients")
    _doubles(model._intercept_, pairs)
    _numbers(model.intercept_, "f", pairs)
    if model.kernel != "precomputed":
        vectors = _rows(model.support_vectors_, n)
        _require(vectors.shape[0] == count and vectors.dtype == np.float64, "support vectors")
    _require(bool(model._sparse) == sp.issparse(dual), "sparse")
    _require(bool(model._sparse) == sp.issparse(model.support_vectors_), "sparse")
    for name in ("_probA", "_probB"):
        _require(len(_doubles(getattr(model, name), None)) in (0, pairs), "probabilities")


_CHECKS: tuple[tuple[type, Callable[[Any], None]], ...] = (
    (Kernel, _check_kernel),
    (OnlineState, _check_online_state),
    (KernelState, _check_kernel_state),
    (OnlineEllipsoidalState, _check_ellipsoidal_state),
    (OnlineClassifier, _check_online),
    (PairwiseKernelClassifier, _check_pairwise),
    (MarginRegressor, _check_regressor),
    (PivotMap, _check_pivots),
    (FunctionTransformer, _check_identity),
    (SVC, _check_svc),
)
