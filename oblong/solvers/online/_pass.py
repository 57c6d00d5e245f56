"""The one compiled pass over the examples that all second-order online learners share."""

from __future__ import annotations

import math

from oblong._core.compile import compiled
from oblong.solvers.online._shapes import (
    LN_2,
    LOOK,
    TINY,
    full_product,
    full_update,
    rescale,
    row_scores,
    table_update,
    table_variance,
)
from oblong.solvers.online._sigmoid import calibrate, calibrate_copies
from oblong.solvers.online._sketch import sketch_product, sketch_update
from oblong.solvers.online._tasks import DIAGONAL, EACH, FULL, SKETCH, mistaken, pick
from oblong.solvers.online.rules import respond

__all__ = ["learn_rows", "reset"]


@compiled
def reset(structure, table, shape, scale, k, initial):
    """Put the shape of a class back to its initial value."""
    n_classes = scale.shape[0]
    scale[k, 0] = 1.0
    scale[k, 2] = 0.0
    if structure == FULL:
        for r in range(shape.shape[1]):
            row = shape[k, r]
            for c in range(row.size):
                row[c] = 0.0
            row[r] = initial
        return
    for j in range(table.shape[0]):
        table[j, n_classes + k] = initial
    if structure == SKETCH:
        for j in range(table.shape[0]):
            table[j, 2 * n_classes + k] = 1.0 / initial
        for r in range(shape.shape[1]):
            for c in range(shape.shape[2]):
                shape[k, r, c] = 0.0


@compiled
def _variance(structure, columns, values, bias, table, shape, scale, k, product):
    if structure == FULL:
        v = full_product(columns, values, bias, shape[k], product)
    elif structure == SKETCH:
        column, rank = scale.shape[0] + k, int(scale[k, 2])
        v = sketch_product(columns, values, bias, table, column, shape[k], rank, product)
    else:
        column = scale.shape[0] + k if structure == DIAGONAL else -1
        v = table_variance(columns, values, bias, table, column)
    return v * scale[k, 0]


@compiled
def _has_room(shape, scale, steps):
    """Whether all sketches have room for the updates of one more example."""
    most = 0.0
    for k in range(scale.shape[0]):
        most = max(most, scale[k, 2])
    return int(most) + steps <= shape.shape[2]


@compiled
def learn_rows(
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

    Parameters
    ----------
    data, indices, indptr : ndarray
        The rows in CSR form; for dense rows ``indices`` is the list of all columns.
    order : ndarray of int
        Which rows, in which order.
    labels : ndarray of int, of shape (n_rows, 1) or (n_rows, n_labels)
        Number of the class, or whether each label is relevant.
    weights : ndarray of shape (n_rows,)
        Weights: as many copies of the row, the last one with a fraction of its cost. What is left
        of the weight of a row is written back if the pass stops there.
    table, shape, scale, total, counters, work, settings, codes : ndarray
        The model, see :class:`oblong.solvers.online.state.OnlineState`.

    Returns
    -------
    done : int
        Number of rows learned from, which is smaller than that of the order if a sketch is full.
    """
    structure, code, task, n_steps, invariance = codes[0], codes[1], codes[2], codes[3], codes[4]
    dense = codes[5] == 1
    p = settings[:4]
    bias, floor, initial = settings[4], settings[5], settings[6]
    n_classes, size = scale.shape[0], table.shape[0]
    scores, taken = work[:n_classes], work[n_classes : 2 * n_classes]
    length = size if structure == FULL else (shape.shape[2] if structure == SKETCH else 0)
    first_product = work[2 * n_classes : 2 * n_classes + length]
    second_product = work[2 * n_classes + length : 2 * n_classes + 2 * length]
    back = work[2 * n_classes + 2 * length : 2 * n_classes + 3 * length]
    for position in range(order.size):
        i = order[position]
        start, n = indptr[i], indptr[i + 1] - indptr[i]
        values = data[start : start + n]
        columns = indices[:n] if dense else indices[start : start + n]
        row_labels = labels[i]
        remaining = weights[i]
        while remaining > 0.0:
            if structure == SKETCH and not _has_room(shape, scale, n_steps):
                weights[i] = remaining
                return position
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
                q = first if task == EACH else 0
                alpha, tau, factor, va, vb = 0.0, 0.0, 0.0, 0.0, 0.0
                for again in range(2):
                    va = _variance(
                        structure, columns, values, bias, table, shape, scale, first, first_product
                    )
                    if second >= 0:
                        vb = _variance(
                            structure,
                            columns,
                            values,
                            bias,
                            table,
                            shape,
                            scale,
                            second,
                            second_product,
                        )
                    if not TINY < va + vb < math.inf:
                        counters[3] += 1
                        factor = 1.0
                        break
                    memory = scale[q, 1:2]
                    alpha, tau, factor = respond(code, m, va + vb, part, p, memory, past + 1, again)
                    if factor > 0.0:
                        break
                    counters[4] += 1
                    if factor < 0.0:
                        break
                    reset(structure, table, shape, scale, first, initial)
                    if second >= 0:
                        reset(structure, table, shape, scale, second, initial)
                if alpha <= 0.0:
                    continue
                changed = True
                counters[1] += 1
                for side in range(2):
                    k = first if side == 0 else second
                    if k < 0:
                        break
                    v, move = (va, sign * alpha) if side == 0 else (vb, -alpha)
                    sigma = scale[k, 0]
                    scores[k] += move * v
                    if structure == FULL:
                        product = first_product if side == 0 else second_product
                        shrink = sigma * tau / (1.0 + tau * v)
                        full_update(shape[k], table, total, k, product, move * sigma, shrink, past)
                    elif structure == SKETCH:
                        scale[k, 2], held = sketch_update(
                            columns,
                            values,
                            bias,
                            table,
                            total,
                            k,
                            n_classes + k,
                            2 * n_classes + k,
                            shape[k],
                            int(scale[k, 2]),
                            first_product if side == 0 else second_product,
                            back,
                            v / sigma,
                            move * sigma,
                            tau * sigma,
                            past,
                        )
                        counters[6] += held
                    else:
                        column = n_classes + k if structure == DIAGONAL else -1
                        counters[6] += table_update(
                            columns,
                            values,
                            bias,
                            table,
                            total,
                            k,
                            column,
                            move * sigma,
                            tau * sigma,
                            floor,
                            past,
                        )
                    scale[k, 0] = sigma * factor
                if invariance > 0 and counters[1] % LOOK == 0:
                    # One unit for all classes, whose outputs are compared.
                    if structure == FULL:
                        exponent = rescale(shape, table, total, scale, invariance == 1)
                        if exponent != 0:
                            counters[5] += 1
                            counters[7] += exponent
                            row_scores(columns, values, bias, table, scores)
                    elif invariance == 2 and not 2.0**-200 < scale[first, 0] < 2.0**200:
                        power = 2.0 ** -math.floor(math.log(scale[first, 0]) / LN_2)
                        for k in range(n_classes):
                            scale[k, 0] *= power
            if not changed and remaining > 0.0:
                # Further copies find the same model.
                calibrate_copies(task, scores, row_labels, scale, remaining)
                copies = math.ceil(remaining)
                counters[0] += copies
                counters[2] += copies * wrong
                break
    return order.size
