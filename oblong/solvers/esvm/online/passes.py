"""The compiled pass of the online ellipsoidal support vector machine.

All rows are divided by their lengths, ``u = x / t``. With ``τ = t`` for the paper's problem and
``τ = 1`` for the one that does not depend on the units of the rows, an example violates its
constraint if ``τ u'B u >= y u'w``, and then contributes ``c τ u u'`` to the inverse of the matrix
and ``y u`` to the weights.
"""

from __future__ import annotations

import math
from collections import namedtuple

import numpy as np

from oblong._core.compile import compiled

# Relative precision of the trace at its bound, and the limit on Newton steps towards it (five are
# usual).
_TRACE_PRECISION = 1e-11
_TRACE_STEPS = 50
# Rows seen before a batch for each of its own, until batches have their full size.
_ROWS_PER_BATCH_ROW = 4.0
# Length of the steps of the weights, relative to the root of the sum of their squares so far. For
# the bound on the regret one would be best; less has less noise, and is faster in most cases.
_WEIGHT_RATE = 0.3

# ``numbers``: weight of the unfinished batch, weight of all finished ones, and the largest ``τ``.
PENDING, DONE, LARGEST = range(3)
# ``settings``: value of the constant feature, ``c``, ``T`` or infinity, rows of a batch, whether
# ``τ = 1``, and whether ``T`` is one over the largest ``τ``.
BIAS, PENALTY, TRACE, BATCH, UNIT, FOLLOWS = range(6)
# ``counters``: the first of those that the other online learners have.
ROUNDS, UPDATES, MISTAKES = range(3)

# Arrays of :class:`oblong.solvers.esvm.online.state.OnlineEllipsoidalState`.
Classifiers = namedtuple(
    "Classifiers", "w mean P B mean_B G g pulls theta numbers counters settings"
)


@compiled
def _invert(P, shift, B):
    """``B = (P + shift I)⁻¹`` by elimination, which needs no exchange of rows here."""
    n = P.shape[0]
    for r in range(n):
        source, row = P[r], B[r]
        for c in range(n):
            row[c] = source[c]
        row[r] += shift
    for k in range(n):
        pivot_row = B[k]
        inverse = 1.0 / pivot_row[k]
        pivot_row[k] = 1.0
        for c in range(n):
            pivot_row[c] *= inverse
        for r in range(n):
            if r == k:
                continue
            row = B[r]
            factor = row[k]
            row[k] = 0.0
            for c in range(n):
                row[c] -= factor * pivot_row[c]
    for r in range(n):
        for c in range(r):
            mean = 0.5 * (B[r, c] + B[c, r])
            B[r, c] = mean
            B[c, r] = mean


@compiled
def project(P, B, bound, guess):
    """Add the smallest ``θ I`` to ``P`` for which the trace of ``B = P⁻¹`` is within the bound.

    ``1 / tr (P + θ I)⁻¹`` is concave in ``θ`` and close to a straight line: Newton's method on it
    comes from the left after its first step at the latest, and takes few more. Returns ``θ``.
    """
    n = P.shape[0]
    shift = guess if bound < math.inf else 0.0
    for _ in range(_TRACE_STEPS):
        _invert(P, shift, B)
        trace, square = 0.0, 0.0
        for r in range(n):
            trace += B[r, r]
            row = B[r]
            for c in range(n):
                square += row[c] * row[c]
        if (shift == 0.0 and trace <= bound) or abs(trace - bound) <= _TRACE_PRECISION * bound:
            break
        shift = max(0.0, shift + (trace - bound) / bound * trace / square)
    for r in range(n):
        P[r, r] += shift
    return shift


@compiled
def _dense_product(B, z, product):
    """Compute ``B z`` and return ``z'B z``."""
    n = z.size
    for r in range(n):
        product[r] = 0.0
    for a in range(n):
        row, x = B[a], z[a]
        for r in range(n):
            product[r] += x * row[r]
    total = 0.0
    for r in range(n):
        total += z[r] * product[r]
    return total


@compiled
def _sparse_form(B, columns, z):
    """``z'B z`` of a vector with few entries."""
    total = 0.0
    for a in range(z.size):
        row = B[columns[a]]
        part = 0.0
        for b in range(z.size):
            part += z[b] * row[columns[b]]
        total += z[a] * part
    return total


@compiled
def _add_outer(G, columns, z, factor, dense):
    """``G += factor z z'``."""
    for a in range(z.size):
        row, x = G[columns[a]], factor * z[a]
        if dense:
            for b in range(z.size):
                row[b] += x * z[b]
        else:
            for b in range(z.size):
                row[columns[b]] += x * z[b]


@compiled
def _step(model, k, eta, bound):
    """One step of classifier ``k``, with the sums of the finished batch; these are cleared."""
    w, mean, P, B, mean_B = model.w[k], model.mean[k], model.P[k], model.B[k], model.mean_B[k]
    G, g, pulls = model.G[k], model.g[k], model.pulls
    size = model.numbers[PENDING]
    n = w.size
    for r in range(n):
        row, sums = P[r], G[r]
        for c in range(n):
            row[c] = (1.0 - eta) * row[c] + eta / size * sums[c]
            sums[c] = 0.0
    model.theta[k] = project(P, B, bound, model.theta[k])
    square = 0.0
    for r in range(n):
        square += g[r] * g[r]
    pulls[k] += square / (size * size)
    rate = _WEIGHT_RATE / (math.sqrt(pulls[k]) * size) if pulls[k] > 0.0 else 0.0
    length = 0.0
    for r in range(n):
        w[r] += rate * g[r]
        g[r] = 0.0
        length += w[r] * w[r]
    factor = 1.0 / max(1.0, math.sqrt(length))
    # Means with weights 1, 2, 3, ...
    share = 2.0 / (model.counters[UPDATES] + 1.0)
    for r in range(n):
        w[r] *= factor
        mean[r] += share * (w[r] - mean[r])
        row, average = B[r], mean_B[r]
        for c in range(n):
            average[c] += share * (row[c] - average[c])


@compiled
def learn_batches(data, indices, indptr, dense, order, labels, weights, model, hits):
    """Learn from examples in batches, the last of which may stay unfinished.

    Parameters
    ----------
    data, indices, indptr : ndarray
        The rows in CSR form; for dense rows ``indices`` is the list of all columns.
    dense : bool
        Whether the rows are dense.
    order : ndarray of int
        Which rows, in which order.
    labels : ndarray of int, of shape (n_rows, 1)
        Number of the class.
    weights : ndarray of shape (n_rows,)
        Weights; what exceeds the room of a batch goes to the next one.
    model : Classifiers
        The model.
    hits : ndarray of shape (n_rows, n_outputs + 1) or (0, n_outputs + 1)
        Adds up, for each row, the weight of its visits, and for each output that of the visits
        that found its constraint violated. A visit weighs as much as the step it belongs to does
        in the means.
    """
    w, P, B, G, g = model.w, model.P, model.B, model.G, model.g
    numbers, counters, settings = model.numbers, model.counters, model.settings
    n_outputs, size = w.shape
    bias, penalty, fixed = settings[BIAS], settings[PENALTY], settings[TRACE]
    largest, unit = settings[BATCH], settings[UNIT] == 1.0
    # The constant feature comes first, if there is one.
    first = 1 if bias != 0.0 else 0
    z, columns, product = np.zeros(size), np.arange(size), np.empty(size)
    sides = np.empty(n_outputs)
    keeps = hits.shape[0] > 0
    for position in range(order.size):
        i = order[position]
        start, n = indptr[i], indptr[i + 1] - indptr[i]
        values = data[start : start + n]
        length = bias * bias
        for p in range(n):
            length += float(values[p]) * float(values[p])
        length = math.sqrt(length)
        scale = 1.0 / length if length > 0.0 else 0.0
        tau = 1.0 if unit else length
        row, places = z[: n + first], columns[: n + first]
        if first == 1:
            row[0] = scale * bias
        for p in range(n):
            row[p + first] = scale * values[p]
        if not dense:
            own = indices[start : start + n]
            for p in range(n):
                places[p + first] = own[p] + first
        label = labels[i, 0]
        remaining = weights[i]
        if remaining > 0.0 and tau > numbers[LARGEST]:
            numbers[LARGEST] = tau
            if counters[UPDATES] == 0:
                # Nothing was learned yet, and the ball with the largest trace is the start.
                bound = fixed if fixed < math.inf else 1.0 / tau
                for k in range(n_outputs):
                    for r in range(size):
                        P[k, r, r] = size / bound
                        B[k, r, r] = bound / size
        while remaining > 0.0:
            full = min(largest, 1.0 + math.floor(numbers[DONE] / _ROWS_PER_BATCH_ROW))
            # Merged learners may have more than a batch behind them.
            part = min(remaining, max(0.0, full - numbers[PENDING]))
            remaining -= part
            copies = math.ceil(part)
            counters[ROUNDS] += copies
            weight = part * (counters[UPDATES] + 1.0)
            best, right = -math.inf, 0.0
            for k in range(n_outputs):
                f = 0.0
                for p in range(row.size):
                    f += row[p] * w[k, places[p]]
                sides[k] = f
                if k == label:
                    right = f
                elif f > best:
                    best = f
            if n_outputs == 1:
                wrong = sides[0] <= 0.0 if label == 1 else sides[0] >= 0.0
            else:
                wrong = right <= best
            counters[MISTAKES] += copies * wrong
            if keeps:
                hits[i, n_outputs] += weight
            for k in range(n_outputs):
                positive = label == 1 if n_outputs == 1 else label == k
                sign = 1.0 if positive else -1.0
                if dense:
                    q = tau * _dense_product(B[k], row, product)
                else:
                    q = tau * _sparse_form(B[k], places, row)
                if q < sign * sides[k]:
                    continue
                if keeps:
                    hits[i, k] += weight
                _add_outer(G[k], places, row, part * penalty * tau, dense)
                for p in range(row.size):
                    g[k, places[p]] += part * sign * row[p]
            numbers[PENDING] += part
            if numbers[PENDING] >= full * (1.0 - 1e-12):
                total = numbers[DONE] + numbers[PENDING]
                eta = 0.5 if counters[UPDATES] == 0 else numbers[PENDING] / total
                counters[UPDATES] += 1
                bound = fixed if settings[FOLLOWS] == 0.0 else 1.0 / numbers[LARGEST]
                for k in range(n_outputs):
                    _step(model, k, eta, bound)
                numbers[DONE] = total
                numbers[PENDING] = 0.0
