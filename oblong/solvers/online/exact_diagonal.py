"""Confidence-weighted learning with the closest diagonal Gaussian.

The usual update of a diagonal shape takes the step of the full one and keeps the diagonal of the
new precision (Crammer, Dredze and Pereira, 2008, eq. 15). The variance of the margin then shrinks
less than the step assumes, and the constraint is not met. Here the problem is solved among
diagonal Gaussians. With ``a_j = D_j x_j²`` and ``u(τ) = Σ a_j / (1 + τ a_j)``, the variance after
``1/D_j += τ x_j²``, the constraint is one equation for ``τ``::

    m + α v = φ √u(τ),  α = τ √u(τ) / φ      (standard deviation)
    m + α v = φ u(τ),   α = τ / (2 φ)        (variance)
"""

from __future__ import annotations

import math

from oblong._core.compile import compiled
from oblong.solvers.online._shapes import TINY, row_scores, table_update, table_variance
from oblong.solvers.online._sigmoid import calibrate, calibrate_copies
from oblong.solvers.online._tasks import mistaken, pick
from oblong.solvers.online.rules import CW_STDEV, MET
from oblong.solvers.online.state import OnlineState

__all__ = ["ExactDiagonalState", "learn_exactly"]

_CLOSE = 1e-14
_ROUNDS = 60


@compiled
def _shrunk(columns, values, bias, table, column, tau):
    """The variance ``u(τ)`` and minus its derivative."""
    a = bias * bias * table[0, column]
    part = a / (1.0 + tau * a)
    u, slope = part, part * part
    for p in range(values.size):
        x = float(values[p])
        a = x * x * table[columns[p] + 1, column]
        part = a / (1.0 + tau * a)
        u += part
        slope += part * part
    return u, slope


@compiled
def _solve(columns, values, bias, table, first, second, m, v, phi, by_deviation):
    """The step ``α`` and the increment ``τ``, by Newton's method within a bracket."""
    low, high = 0.0, math.inf
    # Zero of the equation for a margin of zero.
    tau = phi * phi / v
    step = 0.0
    for _ in range(_ROUNDS):
        u, slope = _shrunk(columns, values, bias, table, first, tau)
        if second >= 0:
            other, more = _shrunk(columns, values, bias, table, second, tau)
            u += other
            slope += more
        if by_deviation:
            deviation = math.sqrt(u)
            step = tau * deviation / phi
            excess = m + step * v - phi * deviation
            growth = deviation * v / phi - 0.5 * slope / deviation * (tau * v / phi - phi)
        else:
            step = 0.5 * tau / phi
            excess = m + step * v - phi * u
            growth = 0.5 * v / phi + phi * slope
        if abs(excess) <= _CLOSE * (abs(m) + step * v):
            break
        if excess < 0.0:
            low = tau
        else:
            high = tau
        new = tau - excess / growth if growth > 0.0 else math.inf
        if not low < new < high:
            new = 2.0 * tau if high == math.inf else 0.5 * (low + high)
        if new == tau:
            break
        tau = new
    return step, tau


@compiled
def learn_exactly(
    data,
    indices,
    indptr,
    order,
    labels,
    weights,
    table,
    shape,
    scale,
    total,
    counters,
    work,
    settings,
    codes,
):
    """Learn from examples, one after the other.

    The arguments are those of :func:`oblong.solvers.online._pass.learn_rows`; weights are whole.
    """
    task, n_steps, dense = codes[2], codes[3], codes[5] == 1
    by_deviation = codes[1] == CW_STDEV
    phi, bias, floor = settings[1], settings[4], settings[5]
    n_classes = scale.shape[0]
    scores, taken = work[:n_classes], work[n_classes : 2 * n_classes]
    for position in range(order.size):
        i = order[position]
        start, n = indptr[i], indptr[i + 1] - indptr[i]
        values = data[start : start + n]
        columns = indices[:n] if dense else indices[start : start + n]
        row_labels = labels[i]
        copies = int(weights[i])
        for copy in range(copies):
            past = counters[0]
            counters[0] += 1
            row_scores(columns, values, bias, table, scores)
            for k in range(n_classes):
                taken[k] = 0.0
            wrong = mistaken(task, scores, row_labels, taken)
            counters[2] += wrong
            calibrate(task, scores, row_labels, scale, 1.0)
            changed = False
            for step in range(n_steps):
                first, second, sign = pick(task, step, scores, row_labels, taken)
                if first < 0:
                    continue
                m = sign * scores[first] - (scores[second] if second >= 0 else 0.0)
                va, vb = table_variance(columns, values, bias, table, n_classes + first), 0.0
                if second >= 0:
                    vb = table_variance(columns, values, bias, table, n_classes + second)
                v = va + vb
                if not TINY < v < math.inf:
                    counters[3] += 1
                    continue
                if m >= MET * phi * (math.sqrt(v) if by_deviation else v):
                    continue
                other = n_classes + second if second >= 0 else -1
                alpha, tau = _solve(
                    columns,
                    values,
                    bias,
                    table,
                    n_classes + first,
                    other,
                    m,
                    v,
                    phi,
                    by_deviation,
                )
                changed = True
                counters[1] += 1
                for side in range(2):
                    k = first if side == 0 else second
                    if k < 0:
                        break
                    move = sign * alpha if side == 0 else -alpha
                    scores[k] += move * (va if side == 0 else vb)
                    counters[6] += table_update(
                        columns,
                        values,
                        bias,
                        table,
                        total,
                        k,
                        n_classes + k,
                        move,
                        tau,
                        floor,
                        past,
                    )
            if not changed:
                # Further copies find the same model.
                left = copies - copy - 1
                calibrate_copies(task, scores, row_labels, scale, float(left))
                counters[0] += left
                counters[2] += left * wrong
                break
    return order.size


class ExactDiagonalState(OnlineState):
    """A model with a diagonal shape whose updates are those of the closest diagonal Gaussian."""

    __slots__ = ()

    @property
    def one_pass(self):
        """The compiled pass."""
        return learn_exactly
