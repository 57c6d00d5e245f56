"""Features and classes that appear while a model learns."""

import math

import numpy as np

from oblong.solvers.online import slots
from oblong.solvers.online.arrays import blank_covariance, initial_columns, padded, scratch
from oblong.solvers.online.calibration import fresh_sigmoid, mirror
from oblong.solvers.online.state import OnlineState

# Powers of two that leave room for squares of features.
_FAR = 700


def grow(state: OnlineState, n_features: int) -> None:
    """Make room for more features, which so far were zero."""
    new = np.arange(state.n_features + 1, n_features + 1)
    _make_room(state, n_features + 1)
    state.n_features = n_features
    if state.structure == slots.FULL:
        state.covariance[:, new, new] = _variance_of_new(state)


def keep_diagonal(state: OnlineState) -> None:
    """Replace full covariances by their diagonals."""
    known = state.n_features + 1
    # A row to spare tells how new features start, in any unit.
    _make_room(state, known + 1)
    variances = np.full((len(state.table), state.n_outputs), _variance_of_new(state))
    places = np.arange(known)
    variances[:known] = state.covariance[:, places, places].T
    state.table = np.hstack([state.table, variances.astype(state.table.dtype)])
    state.covariance = np.zeros((0, 0, 0))
    state.codes[slots.STRUCTURE] = slots.DIAGONAL
    state.work = scratch(slots.DIAGONAL, state.n_outputs, state.covariance)


def _variance_of_new(state: OnlineState) -> float:
    """Initial variance in the unit of the model, or as far from it as numbers reach."""
    return math.ldexp(state.initial_variance, max(-_FAR, min(_FAR, 2 * state.exponent)))


def _make_room(state: OnlineState, size: int) -> None:
    old = state.table.shape[0]
    # A row to spare changes its unit along with the others, and tells how new ones start.
    spare = int(state.structure in (slots.DIAGONAL, slots.SKETCH))
    if size + spare <= old:
        return
    # Twice the room, so that features that come one by one cost little; a full covariance pays
    # for its room at every update.
    room = padded(size + size // 8) if state.structure == slots.FULL else 2 * size
    fills = np.repeat(initial_columns(state.structure, state.initial_variance), state.n_outputs)
    if spare and state.n_features + 1 < old:
        fills = state.table[-1]
    if state.units.size:
        state.units = np.append(state.units, np.zeros(room - old))
    table = np.repeat(fills[None], room, axis=0).astype(state.table.dtype)
    table[:old] = state.table
    state.table = table
    if state.total.shape[0]:
        total = np.zeros((room, state.n_outputs))
        total[:old] = state.total
        state.total = total
    if state.structure == slots.FULL:
        covariance = blank_covariance(state.n_outputs, room)
        known = state.covariance.shape[1]
        covariance[:, :known, :known] = state.covariance
        state.covariance = covariance
    elif state.structure == slots.SKETCH:
        state.covariance = np.insert(state.covariance, [old] * (room - old), 0.0, axis=1)
    state.work = scratch(state.structure, state.n_outputs, state.covariance)


def placed(state: OnlineState, columns: np.ndarray, n_features: int) -> OnlineState:
    """A model of its own whose features are in other columns, among new ones.

    Parameters
    ----------
    state : OnlineState
        The model.
    columns : ndarray of int, of shape (state.n_features,)
        Where each feature goes.
    n_features : int
        Number of features then.
    """
    known, state = state.n_features + 1, state.copy()
    grow(state, n_features)
    size = n_features + 1
    source = np.full(size, -1)
    source[0] = 0
    source[columns + 1] = np.arange(1, known)
    source[source < 0] = np.arange(known, size)
    state.table[:size] = state.table[source]
    if state.total.shape[0]:
        state.total[:size] = state.total[source]
    if state.units.size:
        state.units[:size] = state.units[source]
    if state.structure == slots.SKETCH:
        state.covariance[:, :size] = state.covariance[:, source]
    elif state.structure == slots.FULL:
        state.covariance[:, :size, :size] = state.covariance[:, source[:, None], source]
    return state


def _groups(state: OnlineState) -> np.ndarray:
    """The table with an axis for its groups of columns."""
    return state.table.reshape(len(state.table), -1, state.n_outputs)


def split(state: OnlineState, *, one_vs_rest: bool, steps: int = 1) -> None:
    """Give either of two classes its own weights: half of those of their difference.

    The output of the difference, and its variance, stay what they were. One-vs-rest models
    get all of the weights, each with its sign; others take ``steps`` pairs of classes per example.
    """
    share = 1.0 if one_vs_rest else 0.5
    signs = share * np.array([-1.0, 1.0])
    groups = np.repeat(_groups(state), 2, axis=2)
    # Weights, variances, precisions.
    groups[:, 0] *= signs.astype(groups.dtype)
    groups[:, 1:2] *= groups.dtype.type(share)
    groups[:, 2:3] /= groups.dtype.type(share)
    state.table = np.ascontiguousarray(groups.reshape(len(groups), -1))
    state.total = np.ascontiguousarray(state.total * signs)
    state.scale = np.repeat(state.scale, 2, axis=0)
    if state.calibrated:
        mirror(state.scale[0])
    state.covariance = np.repeat(state.covariance, 2, axis=0)
    if state.structure == slots.FULL:
        state.covariance *= share
    elif state.structure == slots.SKETCH:
        # The factor below the rows stays what it is.
        state.covariance[:, : len(state.table)] /= np.sqrt(share)
    state.codes[slots.TASK] = slots.EACH if one_vs_rest else slots.TOP
    state.codes[slots.STEPS] = 2 if one_vs_rest else steps
    state.settings[slots.INITIAL_VARIANCE] *= share
    state.work = scratch(state.structure, 2, state.covariance)


def insert_output(state: OnlineState, place: int) -> None:
    """Insert a class with no weights and the initial covariance."""
    old, each = state.n_outputs, state.task == slots.EACH
    fills = np.array(initial_columns(state.structure, state.initial_variance))
    groups = np.insert(_groups(state), place, fills, axis=2)
    state.table = np.ascontiguousarray(groups.reshape(len(groups), -1))
    state.total = np.ascontiguousarray(np.insert(state.total, place, 0.0, axis=1))
    numbers = [1.0, state.initial_memory if each else state.scale[0, slots.MEMORY], 0.0]
    if state.calibrated:
        numbers += fresh_sigmoid(state.scale[0, slots.KIND])
    state.scale = np.insert(state.scale, place, numbers, axis=0)
    if state.structure in (slots.FULL, slots.SKETCH):
        prior = np.zeros(state.covariance.shape[1:])
        if state.structure == slots.FULL:
            known = np.arange(state.n_features + 1)
            prior[known, known] = _variance_of_new(state)
        state.covariance = np.insert(state.covariance, place, prior, axis=0)
    if each:
        state.codes[slots.STEPS] = old + 1
    state.work = scratch(state.structure, old + 1, state.covariance)
