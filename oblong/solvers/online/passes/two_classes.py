"""The loops over the examples of two classes, where there is but one weight vector.

They do what the loop of :mod:`~oblong.solvers.online.passes.general` does, with less to go through:
a row is read twice, once for margin and variance and once for the update, and the entries of the
table that a later row looks up are prefetched meanwhile, half of them each time. A full covariance
is read once: an update waits until the next product with the covariance needs the matrix anyway.
"""

import math

from oblong._core.compile import compiled, fast_max
from oblong.solvers.online import slots
from oblong.solvers.online.forgetting import RENEWAL, hold, renew
from oblong.solvers.online.passes.one_row import moderate, row_at
from oblong.solvers.online.round import (
    LOOK,
    answer,
    begin,
    rescale_factors,
    reset,
    skip_copies,
)
from oblong.solvers.online.rules import PHI, asks_for_deviation
from oblong.solvers.online.simd import fold, multiply, prefetch, subtract
from oblong.solvers.online.structures.full import full_product, inner, rescale
from oblong.solvers.online.units import enter, fits, room_for_row

# Rows between the one that is learned from and the one whose entries are prefetched.
_AHEAD = 3


@compiled
def _sums(columns, values, bias, table, following):
    """Output and variance; the first entries of ``following`` columns are prefetched."""
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
            prefetch(table, following[g] + 1)
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

    The entries of ``following`` columns are prefetched.
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
                prefetch(table, following[p] + 1)
        table[0, 0] += step * bias
        return 0
    if precision <= 0.0:
        for p in range(values.size):
            row = table[columns[p] + 1]
            row[0] += step * values[p] * row[1]
            if p < following.size:
                prefetch(table, following[p] + 1)
        table[0, 0] += step * bias * table[0, 1]
        return 0
    count = 0
    if floor > 0.0:
        for p in range(values.size):
            row = table[columns[p] + 1]
            count += _update_one(row, float(values[p]), step, precision, floor)
            if p < following.size:
                prefetch(table, following[p] + 1)
    else:
        for p in range(values.size):
            row = table[columns[p] + 1]
            x, variance = float(values[p]), float(row[1])
            moved = variance * x
            row[0] += step * moved
            row[1] = variance / (1.0 + precision * moved * x)
            if p < following.size:
                prefetch(table, following[p] + 1)
    return count + _update_one(table[0], bias, step, precision, floor)


@compiled
def learn_table(
    data, indices, indptr, order, labels, weights, dense,
    table, covariance, scale, total, counters, work, settings, codes, units, record,
):  # fmt: skip
    """Learn with a diagonal covariance or none; as ``learn_rows`` of the general loop."""
    if order.size == 1 and dense and not moderate(data):
        return -1
    structure, rule = codes[slots.STRUCTURE], codes[slots.RULE]
    free_factor = codes[slots.INVARIANCE] == slots.UNIT_OF_COVARIANCE
    initial = settings[slots.INITIAL_VARIANCE]
    bias, floor, limit = settings[slots.BIAS], settings[slots.FLOOR], settings[slots.LIMIT]
    scores, own = work[:1], scale[0]
    forgetting = settings[slots.FORGETTING]
    fades = forgetting < 1.0 and structure == slots.DIAGONAL
    scaled = room_for_row(indptr, units, data)
    model = slots.Model(table, covariance, scale, total, counters, work, settings, codes, units)
    for position in range(order.size):
        i = order[position]
        columns, values = row_at(i, data, indices, indptr, dense)
        n = values.size
        following, later = indices[:0], indices[:0]
        if not dense and position + _AHEAD < order.size:
            o = order[position + _AHEAD]
            middle = indptr[o] + min(n // 2, (indptr[o + 1] - indptr[o]) // 2)
            following, later = indices[indptr[o] : middle], indices[middle : indptr[o + 1]]
        if units.size > 0 and weights[i] > 0.0:
            ahead = indices[:0]
            if following.size > 0:
                ahead = indices[indptr[o] : indptr[o + 1]]
            if not fits(columns, values, units, scaled, ahead):
                enter(columns, values, scaled, model, work)
            values = scaled[:n]
        row_labels = labels[i]
        positive = row_labels[0] == 1
        remaining = weights[i]
        while remaining > 0.0:
            part = min(1.0, remaining)
            remaining -= part
            past = counters[slots.ROUNDS]
            if fades:
                hold(columns, table, scale, 0, initial)
            f, v = _sums(columns, values, bias, table, following)
            scores[0] = f
            m = f if positive else -f
            wrong = m <= 0.0
            begin(wrong, slots.SINGLE, scores, row_labels, part, scale, counters, record, position)
            alpha, tau, factor = 0.0, 0.0, 1.0
            if m < limit:
                for again in range(2):
                    v *= scale[0, slots.SIGMA]
                    alpha, tau, factor = answer(rule, m, v, part, settings, own, counters, again)
                    if factor != 0.0:
                        break
                    reset(structure, table, covariance, scale, 0, initial)
                    f, v = _sums(columns, values, bias, table, following)
            if alpha > 0.0:
                sigma = scale[0, slots.SIGMA]
                step = sigma * (alpha if positive else -alpha)
                least = floor / sigma if fades else floor
                counters[slots.FLOORED] += _update(
                    columns, values, bias, table, total, step, tau * sigma, least, past, later
                )
                scale[0, slots.SIGMA] = sigma * factor / forgetting
                if fades:
                    renew(structure, table, covariance, scale, counters, initial, 0, work)
                if free_factor:
                    rescale_factors(scale, 0)
                continue
            for q in range(later.size):
                prefetch(table, later[q] + 1)
            if remaining > 0.0:
                skip_copies(slots.SINGLE, scores, row_labels, remaining, wrong, scale, counters)
                break
    return order.size


@compiled
def _largest(S):
    """Bound of the eigenvalues of a symmetric matrix: its Frobenius norm, rounded up."""
    squares = 0.0
    for r in range(S.shape[0]):
        squares += inner(S[r], S[r])
    return math.sqrt(squares) * (1.0 + 1e-9)


@compiled
def learn_full(
    data, indices, indptr, order, labels, weights, dense,
    table, covariance, scale, total, counters, work, settings, codes, units, record,
):  # fmt: skip
    """Learn with a full covariance; as ``learn_rows`` of the general loop."""
    if order.size == 1 and dense and not moderate(data):
        return -1
    rule, invariance, initial = (
        codes[slots.RULE],
        codes[slots.INVARIANCE],
        settings[slots.INITIAL_VARIANCE],
    )
    bias, limit, phi = settings[slots.BIAS], settings[slots.LIMIT], settings[PHI]
    size = table.shape[0]
    S, w = covariance[0], table[:, 0]
    scores, own = work[:1], scale[0]
    product, pending = work[2 : 2 + size], work[2 + size : 2 + 2 * size]
    row = work[2 + 2 * size : 2 + 3 * size]
    waits = False
    # Some rules ask whether m < φ √v, and their covariance only shrinks: an earlier bound of its
    # eigenvalues says of many rows that they change nothing, without a product with the covariance.
    # The bound takes as long as a few products.
    forgetting = settings[slots.FORGETTING]
    bounded = dense and order.size > LOOK and asks_for_deviation(rule) and forgetting == 1.0
    bound = phi * phi * _largest(S) * scale[0, slots.SIGMA] if bounded else 0.0
    for r in range(size):
        row[r] = 0.0
    row[0] = bias
    scaled = room_for_row(indptr, units, data)
    model = slots.Model(table, covariance, scale, total, counters, work, settings, codes, units)
    for position in range(order.size):
        i = order[position]
        columns, values = row_at(i, data, indices, indptr, dense)
        n = values.size
        if units.size > 0 and weights[i] > 0.0:
            if not fits(columns, values, units, scaled, indices[:0]):
                if waits:
                    subtract(S, pending)
                    waits = False
                enter(columns, values, scaled, model, product)
                if bounded:
                    bound = phi * phi * _largest(S) * scale[0, slots.SIGMA]
            values = scaled[:n]
        if dense:
            entries = row[1 : n + 1]
            for r in range(n):
                entries[r] = values[r]
        row_labels = labels[i]
        positive = row_labels[0] == 1
        remaining = weights[i]
        while remaining > 0.0:
            part = min(1.0, remaining)
            remaining -= part
            past = counters[slots.ROUNDS]
            if dense:
                f = inner(row, w)
            else:
                f = bias * w[0]
                for r in range(n):
                    f += values[r] * w[columns[r] + 1]
            scores[0] = f
            m = f if positive else -f
            wrong = m <= 0.0
            begin(wrong, slots.SINGLE, scores, row_labels, part, scale, counters, record, position)
            alpha, tau, factor, v = 0.0, 0.0, 1.0, 0.0
            sure = bounded and m > 0.0 and m * m >= bound * inner(row, row)
            if m < limit and not sure:
                for again in range(2):
                    if not dense:
                        v = full_product(columns, values, bias, S, product)
                    else:
                        if waits:
                            fold(S, pending, row, product)
                        else:
                            multiply(S, row, product)
                        waits = False
                        v = inner(row, product)
                    v *= scale[0, slots.SIGMA]
                    alpha, tau, factor = answer(rule, m, v, part, settings, own, counters, again)
                    if factor != 0.0:
                        break
                    reset(slots.FULL, table, covariance, scale, 0, initial)
            if alpha > 0.0:
                sigma = scale[0, slots.SIGMA]
                step = sigma * (alpha if positive else -alpha)
                shrink = sigma * tau / (1.0 + tau * v)
                scale[0, slots.SIGMA] = sigma * factor / forgetting
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
                if forgetting < 1.0 and scale[0, slots.SIGMA] >= RENEWAL:
                    if waits:
                        subtract(S, pending)
                        waits = False
                    renew(slots.FULL, table, covariance, scale, counters, initial, 0, product)
                if counters[slots.UPDATES] % LOOK == 0:
                    if invariance != slots.UNIT_FIXED:
                        if waits:
                            subtract(S, pending)
                            waits = False
                        rescale(invariance, table, covariance, total, scale, counters)
                    if bounded:
                        bound = phi * phi * _largest(S) * scale[0, slots.SIGMA]
            elif remaining > 0.0:
                skip_copies(slots.SINGLE, scores, row_labels, remaining, wrong, scale, counters)
                break
    if waits:
        subtract(S, pending)
    return order.size
