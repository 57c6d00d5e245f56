"""Checks of online learners, whose compiled loops look at no bounds."""

from typing import Any

import numpy as np

from oblong.kernels import Kernel
from oblong.persistence._declared import Unsound, check_finite
from oblong.solvers.esvm.online import passes
from oblong.solvers.esvm.online.state import (
    LARGEST_TRACE,
    LEAST_TRACE,
    OnlineEllipsoidalState,
)
from oblong.solvers.online import slots
from oblong.solvers.online.arrays import initial_columns, scratch
from oblong.solvers.online.kernel import KernelState
from oblong.solvers.online.state import OnlineState

_MOST_FEATURES, _MOST_ROUNDS = 2**31, 2**53
# Loops multiply several numbers.
_LARGEST = 1e100


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


def _check_counters(counters: Any) -> None:
    _require(_numbers(counters, "i", slots.N_COUNTERS).dtype == np.int64, "counters")
    _require(counters.min() > -_MOST_ROUNDS and counters.max() < _MOST_ROUNDS, "counters")


def check_state(state: OnlineState) -> None:
    """The arrays of the learners that have a table."""
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
    _check_counters(state.counters)
    _doubles(state.work, len(scratch(structure, outputs, covariance)))
    settings = _doubles(state.settings, slots.N_SETTINGS)
    _require(not np.isnan(settings).any() and abs(state.bias) <= _LARGEST, "settings")
    _require(slots.LEAST_FORGETTING <= state.forgetting <= 1.0, "settings")
    _require(state.initial_variance > 0.0, "settings")
    units = _doubles(state.units, None)
    _require(len(units) in (0, room), "units")
    # The row of no feature, which tells what the prior is.
    _require(len(units) == 0 or structure in (slots.NONE, slots.FULL) or n + 1 < room, "units")
    for array in (scale, table, covariance, total, units):
        check_finite(array, "the state", _LARGEST)
    for array in (codes, scale, table, covariance, total, state.counters, units):
        _require(array.flags.c_contiguous, "order of memory")
    _require(codes.dtype == np.int64, "codes")


def check_kernel_state(state: KernelState) -> None:
    """The dictionary, and the learner in its coordinates."""
    inner = state.inner
    _require(isinstance(inner, OnlineState) and inner.structure == slots.FULL, "state")
    _require(isinstance(state.kernel, Kernel), "kernel")
    factor, m = _doubles(state.factor, None, None), inner.n_features
    _require(len(factor) >= m and factor.flags.c_contiguous, "factor")
    # The last coordinates are room for what comes.
    _require(m + 2 <= len(inner.table) and not inner.units.size, "room")
    count = 0 if state.dictionary is None else state.dictionary.shape[0]
    _require(count == m, "dictionary")


def check_ellipsoidal_state(state: OnlineEllipsoidalState) -> None:
    """The arrays of the online ellipsoidal support vector machine."""
    for name in ("w", "mean", "g", "P", "B", "mean_B", "G", "pulls", "theta"):
        _require(getattr(state, name).dtype == np.float64, "expected double precision")
    _require(len(state.w) >= 1, "outputs")
    numbers, settings = _doubles(state.numbers, 3), _doubles(state.settings, 6)
    _check_counters(state.counters)
    check_finite(numbers, "numbers", _LARGEST)
    _require(numbers.min() >= 0.0, "numbers")
    check_finite(np.delete(settings, passes.TRACE), "settings", _LARGEST)
    trace = settings[passes.TRACE]
    _require(LEAST_TRACE <= trace <= LARGEST_TRACE or trace == np.inf, "settings")
    _require(settings[passes.PENALTY] > 0.0, "settings")
    _require(settings[passes.BATCH] >= 1.0, "rows of a batch")
