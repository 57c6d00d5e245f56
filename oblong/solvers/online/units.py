"""Units of features: models in which nothing depends on the units of the columns.

The unit ``s_j`` of a feature is the largest ``|x_j|`` so far, and a model with units is kept in the
coordinates ``x_j / s_j``, with weights ``s_j w_j`` and covariances ``s_i s_j S_ij``. There the
prior precision of every feature is the same, so it is proportional to ``s_j²`` in the coordinates
of the rows. The first value of a feature changes nothing else. When a later one is larger, by the
factor ``ρ``, the prior becomes tighter: ``1 - 1/ρ²`` of a prior precision is added, as the Gaussian
around zero that the prior is. So it pulls the weights to zero as well, and AROW is the ridge
regression whose penalties are the squares of the last units. Without that pull a feature whose
first value happens to be tiny would keep an enormous weight.

A model without units has an array of none.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from oblong._core.compile import compiled
from oblong.solvers.online import slots
from oblong.solvers.online.options import OnlineOptions
from oblong.solvers.online.rows import Rows
from oblong.solvers.online.simd import prefetch
from oblong.solvers.online.structures.full import add_precision
from oblong.solvers.online.structures.sketch import downdate

if TYPE_CHECKING:
    from oblong.solvers.online.state import OnlineState

# Beyond, a unit was that of noise; squares are still numbers.
_LARGEST_RATIO = 1e100


@compiled
def room_for_row(indptr, units, data):
    """Memory for a row in units, if there are any."""
    longest = 0
    if units.size > 0:
        for i in range(indptr.size - 1):
            longest = max(longest, indptr[i + 1] - indptr[i])
    return np.empty(longest, data.dtype)


@compiled
def fits(columns, values, units, scaled, ahead):
    """Divide a row by the units, and say whether it has outgrown none of them.

    The units of columns ``ahead`` are prefetched.
    """
    fine = True
    for p in range(values.size):
        x, unit = values[p], units[columns[p] + 1]
        fine = fine and abs(x) <= unit and unit > 0.0
        scaled[p] = x / unit
        if p < ahead.size:
            prefetch(units, ahead[p] + 1)
    return fine


@compiled
def _enlarge(model, j, ratio, spare):
    """Make the unit of a feature larger, and its prior tighter; ``spare`` is destroyed."""
    table, covariance, scale, total = model.table, model.covariance, model.scale, model.total
    counters, settings, structure = model.counters, model.settings, model.codes[slots.STRUCTURE]
    n_outputs, initial = scale.shape[0], settings[slots.INITIAL_VARIANCE]
    ratio = min(ratio, _LARGEST_RATIO)
    square = ratio * ratio
    slack = 1.0 - 1.0 / square
    last, past, averaged = table.shape[0] - 1, counters[slots.ROUNDS], total.shape[0] > 0
    for k in range(n_outputs):
        # What is left of the weight, in the new unit: the tighter prior pulls it to zero.
        left = 1.0 / ratio
        weight = float(table[j, k])
        if structure == slots.FULL:
            # The unit of the covariance may have been changed.
            prior = initial * 4.0 ** max(-350, min(350, counters[slots.EXPONENT]))
            S = covariance[k]
            # Nothing here overflows, however large the ratio.
            scaled = slack / prior * S[j, j]
            beta = slack / prior / (1.0 / square + scaled)
            own = 1.0 / (1.0 / (S[j, j] * square) + slack / prior)
            factor = 1.0 / (1.0 / ratio + ratio * scaled)
            add_precision(S, j, beta, spare)
            for r in range(S.shape[0]):
                change = -beta * weight * spare[r] if r != j else 0.0
                table[r, k] += change
                if averaged:
                    total[r, k] += past * change
                S[j, r] = spare[r] * factor
                S[r, j] = S[j, r]
            S[j, j] = own
            left = factor
        elif structure == slots.DIAGONAL:
            # The last row is that of no feature, and changes its unit with the others.
            prior = float(table[last, n_outputs + k])
            if settings[slots.FORGETTING] < 1.0:
                prior = min(prior, initial / scale[k, slots.SIGMA])
            old = float(table[j, n_outputs + k])
            new = 1.0 / (1.0 / old / square + slack / prior)
            table[j, n_outputs + k] = new
            left = new / old / ratio
        elif structure == slots.SKETCH:
            more = slack * table[last, 2 * n_outputs + k]
            old = table[j, n_outputs + k]
            new = 1.0 / (1.0 / old / square + more)
            table[j, n_outputs + k] = new
            table[j, 2 * n_outputs + k] = table[j, 2 * n_outputs + k] / square + more
            row, rank = covariance[k, j], int(scale[k, slots.DIRECTIONS])
            root = math.sqrt(max(0.0, old - new / square))
            for q in range(rank):
                spare[q] = root * row[q]
            for q in range(row.size):
                row[q] /= ratio
            downdate(covariance[k, table.shape[0] :], rank, spare)
            # As if the directions were none.
            left = new / old / ratio
        table[j, k] = left * weight
        if averaged:
            total[j, k] = ratio * total[j, k] + past * (left - ratio) * weight


@compiled
def enter(columns, values, scaled, model, spare):
    """Divide a row by the units, of which those that it has outgrown are made larger."""
    units = model.units
    for p in range(values.size):
        x = values[p]
        scaled[p] = 0.0
        if x == 0.0:
            continue
        j, size = columns[p] + 1, abs(x)
        unit = units[j]
        if size > unit:
            if unit > 0.0:
                _enlarge(model, j, size / unit, spare)
            units[j] = size
            scaled[p] = 1.0 if x > 0.0 else -1.0
        else:
            scaled[p] = x / unit


@compiled
def scale_until(data, indices, indptr, dense, start, units):
    """Divide rows by the units, in place, until one outgrows the unit of a known feature."""
    for i in range(start, indptr.size - 1):
        first, n = indptr[i], indptr[i + 1] - indptr[i]
        values = data[first : first + n]
        columns = indices[:n] if dense else indices[first : first + n]
        for p in range(n):
            unit = units[columns[p] + 1]
            if unit > 0.0 and abs(values[p]) > unit:
                return i
        for p in range(n):
            j, x = columns[p] + 1, values[p]
            if units[j] == 0.0:
                # New features have been zero in all rows before.
                units[j] = abs(x)
            values[p] = x / units[j] if x != 0.0 else 0.0
    return indptr.size - 1


def learn_scaled(
    state: OnlineState, rows: Rows, labels: np.ndarray, weights: np.ndarray, order: np.ndarray,
    options: OnlineOptions, record: np.ndarray = slots.NOTHING,
) -> None:  # fmt: skip
    """Learn with units where blocks of rows would be learned from at once.

    Rows are taken one by one as long as units grow, and together where they do not.
    """
    rows, labels, weights = rows.taken(order), labels[order], weights[order]
    start, n = 0, len(order)
    while start < n:
        stop = scale_until(rows.data, rows.indices, rows.indptr, rows.dense, start, state.units)
        if stop > start:
            units, state.units = state.units, state.units[:0]
            try:
                inside = np.arange(start, stop)
                state.learn(rows, labels, weights, inside, options, record[start:stop])
            finally:
                state.units = units
        if stop < n:
            one = np.array([stop])
            part = record[stop : stop + 1]
            state.learn(rows.taken(one), labels[one], weights[one], None, options, part)
        start = stop + 1


def divided(X: Any, units: np.ndarray) -> Any:
    """Rows divided by the units; a value of a feature that has none is a unit."""
    units = units[1 : X.shape[1] + 1]
    if not isinstance(X, np.ndarray):
        values, own = X.data.astype(np.float64), units[X.indices]
        found = np.divide(values, own, out=np.sign(values), where=own > 0.0)
        return type(X)((found, X.indices, X.indptr), shape=X.shape)
    known = units > 0.0
    return np.where(known, X / np.where(known, units, 1.0), np.sign(X))


def in_units(state: OnlineState, units: np.ndarray) -> OnlineState:
    """A copy of a model with units that are no smaller."""
    state = state.copy()
    n = state.n_features + 1
    grown = np.flatnonzero((units[:n] > state.units[:n]) & (state.units[:n] > 0.0))
    spare = np.zeros(max(len(state.table), len(state.work)))
    model = state.model
    for j in grown:
        _enlarge(model, int(j), units[j] / state.units[j], spare)
    state.units[:n] = np.maximum(units[:n], state.units[:n])
    return state


def in_rows(state: OnlineState) -> OnlineState:
    """A copy of a model in the coordinates of the rows, which has no units.

    A feature that has never been seen has no weight and no variance there.
    """
    state = state.copy()
    if not state.units.size:
        return state
    units, outputs = state.units, state.n_outputs
    inverse = np.divide(1.0, units, out=np.zeros_like(units), where=units > 0.0)
    table = state.table.astype(np.float64)
    if state.structure == slots.DIAGONAL and state.forgetting < 1.0:
        # Variances are held at the initial one, which is not the same for all features there.
        table[:, outputs:] = np.minimum(table[:, outputs:] * state.sigma, state.initial_variance)
        state.scale[:, slots.SIGMA] = state.settings[slots.FORGETTING] = 1.0
    table[:, :outputs] *= inverse[:, None]
    table[:, outputs : 2 * outputs] *= inverse[:, None] ** 2
    table[:, 2 * outputs :] *= units[:, None] ** 2
    state.table = table
    if state.total.shape[0]:
        state.total *= inverse[:, None]
    if state.structure == slots.FULL:
        state.covariance *= inverse[:, None] * inverse
    elif state.structure == slots.SKETCH:
        state.covariance[:, : len(table)] *= units[:, None]
    state.units = units[:0]
    return state
