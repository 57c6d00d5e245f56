"""The pass over the examples of two classes, where there is but one weight vector.

It does what the pass of :mod:`~oblong.solvers.online._pass` does, with less to go through: a row
is read twice, once for margin and variance and once for the update, and the entries of the table
that a later row looks up are called for meanwhile, half of them each time. A full shape is read
once: an update waits until the next product with the shape needs the matrix anyway.
"""

from __future__ import annotations

import math

from oblong._core.compile import compiled, fast_max
from oblong.solvers.online._pass import reset
from oblong.solvers.online._shapes import LN_2, LOOK, TINY, full_product, rescale
from oblong.solvers.online._sigmoid import calibrate, calibrate_copies
from oblong.solvers.online._tasks import FULL, SINGLE
from oblong.solvers.online._vector import fold, multiply, subtract, touch
from oblong.solvers.online.rules import CW_STDEV, SCW_1, SCW_2, respond

__all__ = ["learn_full", "learn_table"]

# Rows between the one that is learned from and the one whose entries are called for.
_AHEAD = 3


@compiled
def _sums(columns, values, bias, table, following):
    """Output and variance; the first entries of ``following`` columns are called for."""
    n = values.size
    paired = table.shape[1] > 1
    a, b, c, d = bias * table[0, 0], 0.0, bias * bias, 0.0
    if paired:
        c *= table[0, 1]
    half = n // 2
    for g in range(half):
        p = 2 * g
        x, z = float(values[p]), float(values[p + 1])
        first, second = table[columns[p] + 1], table[columns[p + 1] + 1]
        a += x * first[0]
        b += z * second[0]
        if paired:
            c += x * x * first[1]
            d += z * z * second[1]
        else:
            c += x * x
            d += z * z
        if g < following.size:
            touch(table, following[g] + 1)
    for p in range(2 * half, n):
        x = float(values[p])
        row = table[columns[p] + 1]
        a += x * row[0]
        c += x * x * (row[1] if paired else 1.0)
    return a + b, c + d


@compiled
def _update_one(row, x, step, precision, floor):
    """``w += step D x`` and ``1/D += τ x²`` for one feature; whether ``D`` is at the floor."""
    variance = float(row[1])
    moved = variance * x
    row[0] += step * moved
    shrunk = fast_max(variance / (1.0 + precision * moved * x), floor)
    row[1] = shrunk
    return shrunk == floor


@compiled
def _update(columns, values, bias, table, total, step, precision, floor, past, following):
    """Update weights and variances; returns how many variances are at the floor.

    The entries of ``following`` columns are called for.
    """
    paired = table.shape[1] > 1
    if total.shape[0] > 0:
        for p in range(values.size + 1):
            last = p == values.size
            j = 0 if last else columns[p] + 1
            change = step * (bias if last else float(values[p]))
            total[j, 0] += past * (change * table[j, 1] if paired else change)
    if not paired:
        for p in range(values.size):
            table[columns[p] + 1, 0] += step * values[p]
            if p < following.size:
                touch(table, following[p] + 1)
        table[0, 0] += step * bias
        return 0
    if precision <= 0.0:
        for p in range(values.size):
            row = table[columns[p] + 1]
            row[0] += step * values[p] * row[1]
            if p < following.size:
                touch(table, following[p] + 1)
        table[0, 0] += step * bias * table[0, 1]
        return 0
    count = 0
    if floor > 0.0:
        for p in range(values.size):
            row = table[columns[p] + 1]
            count += _update_one(row, float(values[p]), step, precision, floor)
            if p < following.size:
                touch(table, following[p] + 1)
    else:
        for p in range(values.size):
            row = table[columns[p] + 1]
            x, variance = float(values[p]), float(row[1])
            moved = variance * x
            row[0] += step * moved
            row[1] = variance / (1.0 + precision * moved * x)
            if p < following.size:
                touch(table, following[p] + 1)
    return count + _update_one(table[0], bias, step, precision, floor)


@compiled
def learn_table(
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
    """Learn with a diagonal shape or none; as :func:`~oblong.solvers.online._pass.learn_rows`."""
    structure, code, invariance = codes[0], codes[1], codes[4]
    dense = codes[5] == 1
    p = settings[:4]
    bias, floor, initial = settings[4], settings[5], settings[6]
    memory, scores, calibrated = scale[0, 1:2], work[:1], scale.shape[1] > 3
    for position in range(order.size):
        i = order[position]
        start, n = indptr[i], indptr[i + 1] - indptr[i]
        values = data[start : start + n]
        columns = indices[:n] if dense else indices[start : start + n]
        following, later = indices[:0], indices[:0]
        if not dense and position + _AHEAD < order.size:
            o = order[position + _AHEAD]
            middle = indptr[o] + min(n // 2, (indptr[o + 1] - indptr[o]) // 2)
            following, later = indices[indptr[o] : middle], indices[middle : indptr[o + 1]]
        positive = labels[i, 0] == 1
        remaining = weights[i]
        while remaining > 0.0:
            part = min(1.0, remaining)
            remaining -= part
            past = counters[0]
            counters[0] += 1
            f, v = _sums(columns, values, bias, table, following)
            m = f if positive else -f
            counters[2] += m <= 0.0
            if calibrated:
                scores[0] = f
                calibrate(SINGLE, scores, labels[i], scale, part)
            alpha, tau, factor = 0.0, 0.0, 1.0
            if m < p[0]:
                v *= scale[0, 0]
                for again in range(2):
                    if not TINY < v < math.inf:
                        counters[3] += 1
                        break
                    alpha, tau, factor = respond(code, m, v, part, p, memory, past + 1, again)
                    if factor > 0.0:
                        break
                    counters[4] += 1
                    if factor < 0.0:
                        break
                    reset(structure, table, shape, scale, 0, initial)
                    f, v = _sums(columns, values, bias, table, following)
            if alpha > 0.0:
                counters[1] += 1
                sigma = scale[0, 0]
                step = sigma * (alpha if positive else -alpha)
                counters[6] += _update(
                    columns, values, bias, table, total, step, tau * sigma, floor, past, later
                )
                scale[0, 0] = sigma * factor
                if invariance == 2 and not 2.0**-200 < scale[0, 0] < 2.0**200:
                    scale[0, 0] *= 2.0 ** -math.floor(math.log(scale[0, 0]) / LN_2)
                continue
            for q in range(later.size):
                touch(table, later[q] + 1)
            if remaining > 0.0:
                # Further copies find the same model.
                calibrate_copies(SINGLE, scores, labels[i], scale, remaining)
                copies = math.ceil(remaining)
                counters[0] += copies
                counters[2] += copies * (m <= 0.0)
                break
    return order.size


@compiled
def _inner(a, b):
    """Inner product, in four sums that do not wait for each other."""
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    for g in range(a.size // 4):
        p = 4 * g
        first += a[p] * b[p]
        second += a[p + 1] * b[p + 1]
        third += a[p + 2] * b[p + 2]
        fourth += a[p + 3] * b[p + 3]
    return (first + second) + (third + fourth)


@compiled
def _largest(S):
    """Bound of the eigenvalues of a symmetric matrix: its Frobenius norm, rounded up."""
    squares = 0.0
    for r in range(S.shape[0]):
        squares += _inner(S[r], S[r])
    return math.sqrt(squares) * (1.0 + 1e-9)


@compiled
def learn_full(
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
    """Learn with a full shape; as :func:`~oblong.solvers.online._pass.learn_rows`."""
    code, invariance = codes[1], codes[4]
    dense = codes[5] == 1
    p = settings[:4]
    bias, initial = settings[4], settings[6]
    size = table.shape[0]
    S, w = shape[0], table[:, 0]
    product, pending = work[2 : 2 + size], work[2 + size : 2 + 2 * size]
    row = work[2 + 2 * size : 2 + 3 * size]
    memory, scores, calibrated = scale[0, 1:2], work[:1], scale.shape[1] > 3
    waits = False
    # Confident rules ask whether m < φ √v. Their shape only shrinks, so an earlier bound of its
    # eigenvalues says of many rows that they change nothing, without a product with the shape. It
    # takes as long as a few products.
    confident = dense and order.size > LOOK and (code in (CW_STDEV, SCW_1, SCW_2))
    bound = p[1] * p[1] * _largest(S) * scale[0, 0] if confident else 0.0
    for r in range(size):
        row[r] = 0.0
    row[0] = bias
    for position in range(order.size):
        i = order[position]
        start, n = indptr[i], indptr[i + 1] - indptr[i]
        values = data[start : start + n]
        columns = indices[:n] if dense else indices[start : start + n]
        if dense:
            entries = row[1 : n + 1]
            for r in range(n):
                entries[r] = values[r]
        positive = labels[i, 0] == 1
        remaining = weights[i]
        while remaining > 0.0:
            part = min(1.0, remaining)
            remaining -= part
            past = counters[0]
            counters[0] += 1
            if dense:
                f = _inner(row, w)
            else:
                f = bias * w[0]
                for r in range(n):
                    f += values[r] * w[columns[r] + 1]
            m = f if positive else -f
            counters[2] += m <= 0.0
            if calibrated:
                scores[0] = f
                calibrate(SINGLE, scores, labels[i], scale, part)
            alpha, tau, factor, v = 0.0, 0.0, 1.0, 0.0
            sure = confident and m > 0.0 and m * m >= bound * _inner(row, row)
            if m < p[0] and not sure:
                for again in range(2):
                    if not dense:
                        v = full_product(columns, values, bias, S, product)
                    else:
                        if waits:
                            fold(S, pending, row, product)
                        else:
                            multiply(S, row, product)
                        waits = False
                        v = _inner(row, product)
                    v *= scale[0, 0]
                    if not TINY < v < math.inf:
                        counters[3] += 1
                        break
                    alpha, tau, factor = respond(code, m, v, part, p, memory, past + 1, again)
                    if factor > 0.0:
                        break
                    counters[4] += 1
                    if factor < 0.0:
                        break
                    reset(FULL, table, shape, scale, 0, initial)
            if alpha > 0.0:
                counters[1] += 1
                sigma = scale[0, 0]
                step = sigma * (alpha if positive else -alpha)
                shrink = sigma * tau / (1.0 + tau * v)
                scale[0, 0] = sigma * factor
                for r in range(size):
                    w[r] += step * product[r]
                if total.shape[0] > 0:
                    for r in range(size):
                        total[r, 0] += past * step * product[r]
                if shrink > 0.0:
                    # Its root goes into the vector, so that both sides of the diagonal of S are
                    # the same products: S would lose its definiteness after some thousand
                    # updates otherwise.
                    root = math.sqrt(shrink)
                    for r in range(size):
                        pending[r] = root * product[r]
                    waits = dense
                    if not dense:
                        subtract(S, pending)
                if invariance > 0 and counters[1] % LOOK == 0:
                    if waits:
                        subtract(S, pending)
                        waits = False
                    exponent = rescale(shape, table, total, scale, invariance == 1)
                    counters[5] += exponent != 0
                    counters[7] += exponent
                if confident and counters[1] % LOOK == 0:
                    bound = p[1] * p[1] * _largest(S) * scale[0, 0]
            elif remaining > 0.0:
                # Further copies find the same model.
                calibrate_copies(SINGLE, scores, labels[i], scale, remaining)
                copies = math.ceil(remaining)
                counters[0] += copies
                counters[2] += copies * (m <= 0.0)
                break
    if waits:
        subtract(S, pending)
    return order.size
