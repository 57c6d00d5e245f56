"""The pass over the examples of several classes that have one shape matrix together.

A shared shape is one matrix ``S`` for the weights of every class. A joint shape is that of all
weights at once: the pair of classes ``b, a`` of an example is one vector ``z = (e_b - e_a) ⊗ x``,
and all that is done with ``x`` and the shape of a class otherwise is done with ``z``. As only
differences of classes occur, the matrix is that of the differences ``w_k - w_0`` to the first
class: with ``K`` classes, the difference of feature ``j`` and class ``k`` has the place
``j (K - 1) + k - 1``.
"""

from __future__ import annotations

import math

from oblong._core.compile import compiled
from oblong.solvers.online._shapes import (
    LOOK,
    TINY,
    full_product,
    full_shrink,
    full_update,
    rescale,
    rescale_weights,
    row_scores,
)
from oblong.solvers.online._sigmoid import calibrate, calibrate_copies
from oblong.solvers.online._tasks import JOINT, mistaken, pick
from oblong.solvers.online.rules import respond

__all__ = ["learn_pooled"]


@compiled
def _joint_product(columns, values, bias, shape, n_classes, first, second, product):
    """Compute ``S z`` and return ``z'S z``."""
    for r in range(product.size):
        product[r] = 0.0
    for p in range(values.size + 1):
        last = p == values.size
        x = bias if last else float(values[p])
        place = (0 if last else columns[p] + 1) * (n_classes - 1) - 1
        if first > 0:
            gains = shape[place + first]
            for r in range(product.size):
                product[r] += x * gains[r]
        if second > 0:
            loses = shape[place + second]
            for r in range(product.size):
                product[r] -= x * loses[r]
    v = 0.0
    for p in range(values.size + 1):
        last = p == values.size
        x = bias if last else float(values[p])
        place = (0 if last else columns[p] + 1) * (n_classes - 1) - 1
        if first > 0:
            v += x * product[place + first]
        if second > 0:
            v -= x * product[place + second]
    return v


@compiled
def _move(table, total, product, step, t):
    """Move all weights by the step of their differences; their sum over the classes stays."""
    n_classes = table.shape[1]
    for j in range(table.shape[0]):
        row = product[j * (n_classes - 1) : (j + 1) * (n_classes - 1)]
        mean = 0.0
        for k in range(row.size):
            mean += row[k]
        mean /= n_classes
        for k in range(n_classes):
            change = step * ((row[k - 1] if k > 0 else 0.0) - mean)
            table[j, k] += change
            if total.shape[0] > 0:
                total[j, k] += t * change


@compiled
def _reset(joint, shape, scale, n_classes, initial):
    """Put the shape back to its initial value."""
    scale[0, 0] = 1.0
    for r in range(shape.shape[0]):
        row = shape[r]
        for c in range(row.size):
            row[c] = 0.0
        if joint:
            first = r - r % (n_classes - 1)
            for k in range(n_classes - 1):
                row[first + k] = initial
        row[r] += initial


@compiled
def learn_pooled(
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
    """Learn from examples, one after the other; as :func:`~oblong.solvers.online._pass.learn_rows`.

    The precision of a shared shape grows by the mean of what those of all classes would grow by.
    Classes with a joint shape always come in pairs.
    """
    joint = codes[0] == JOINT
    code, task, n_steps, invariance = codes[1], codes[2], codes[3], codes[4]
    dense = codes[5] == 1
    p = settings[:4]
    bias, initial = settings[4], settings[6]
    n_classes = scale.shape[0]
    scores, taken = work[:n_classes], work[n_classes : 2 * n_classes]
    S = shape[0]
    product = work[2 * n_classes : 2 * n_classes + S.shape[0]]
    for position in range(order.size):
        i = order[position]
        start, n = indptr[i], indptr[i + 1] - indptr[i]
        values = data[start : start + n]
        columns = indices[:n] if dense else indices[start : start + n]
        row_labels = labels[i]
        remaining = weights[i]
        while remaining > 0.0:
            part = min(1.0, remaining)
            remaining -= part
            past = counters[0]
            counters[0] += 1
            row_scores(columns, values, bias, table, scores)
            for k in range(n_classes):
                taken[k] = 0.0
            wrong = mistaken(task, scores, row_labels, taken)
            counters[2] += wrong
            calibrate(task, scores, row_labels, scale, part)
            changed = False
            for step in range(n_steps):
                first, second, sign = pick(task, step, scores, row_labels, taken)
                if first < 0:
                    continue
                m = sign * scores[first] - (scores[second] if second >= 0 else 0.0)
                if m >= p[0]:
                    continue
                sides = 2 if second >= 0 and not joint else 1
                alpha, tau, factor, v = 0.0, 0.0, 1.0, 0.0
                for again in range(2):
                    if joint:
                        v = _joint_product(
                            columns, values, bias, S, n_classes, first, second, product
                        )
                    else:
                        v = full_product(columns, values, bias, S, product)
                    v *= scale[0, 0]
                    if not TINY < v < math.inf:
                        counters[3] += 1
                        break
                    memory = scale[0, 1:2]
                    alpha, tau, factor = respond(
                        code, m, sides * v, part, p, memory, past + 1, again
                    )
                    if factor > 0.0:
                        break
                    counters[4] += 1
                    if factor < 0.0:
                        break
                    _reset(joint, S, scale, n_classes, initial)
                if alpha <= 0.0:
                    continue
                changed = True
                counters[1] += 1
                sigma = scale[0, 0]
                move = sigma * sign * alpha
                if joint:
                    shrink = sigma * tau / (1.0 + tau * v)
                    _move(table, total, product, move, past)
                    full_shrink(S, product, shrink)
                else:
                    tau *= sides / n_classes
                    shrink = sigma * tau / (1.0 + tau * v)
                    if second >= 0:
                        full_update(S, table, total, second, product, -move, 0.0, past)
                    full_update(S, table, total, first, product, move, shrink, past)
                scale[0, 0] = sigma * factor
                if invariance > 0 and counters[1] % LOOK == 0:
                    # The factor of the one matrix is the first.
                    exponent = rescale(shape, table, total, scale[:1], False)
                    if invariance == 1:
                        rescale_weights(table, total, scale, n_classes, exponent)
                    counters[5] += exponent != 0
                    counters[7] += exponent
                if n_steps > 1:
                    row_scores(columns, values, bias, table, scores)
            if not changed and remaining > 0.0:
                # Further copies find the same model.
                calibrate_copies(task, scores, row_labels, scale, remaining)
                copies = math.ceil(remaining)
                counters[0] += copies
                counters[2] += copies * wrong
                break
    return order.size
