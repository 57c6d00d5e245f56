"""The loop over examples for any task and any structure of the covariance."""

from oblong._core.compile import compiled
from oblong.solvers.online import slots
from oblong.solvers.online.forgetting import hold, renew
from oblong.solvers.online.passes.one_row import moderate, row_at
from oblong.solvers.online.round import (
    LOOK,
    answer,
    begin,
    rescale_factors,
    reset,
    skip_copies,
)
from oblong.solvers.online.structures.full import full_product, full_update, rescale
from oblong.solvers.online.structures.sketch import sketch_product, sketch_update
from oblong.solvers.online.structures.table import row_scores, table_update, table_variance
from oblong.solvers.online.tasks import mistaken, pick
from oblong.solvers.online.units import enter, fits, room_for_row


@compiled
def _variance(structure, columns, values, bias, table, covariance, scale, k, product):
    """Variance of an output; what an update needs too is left in ``product``."""
    if structure == slots.FULL:
        v = full_product(columns, values, bias, covariance[k], product)
    elif structure == slots.SKETCH:
        column, rank = scale.shape[0] + k, int(scale[k, slots.DIRECTIONS])
        v = sketch_product(columns, values, bias, table, column, covariance[k], rank, product)
    else:
        column = scale.shape[0] + k if structure == slots.DIAGONAL else -1
        v = table_variance(columns, values, bias, table, column)
    return v * scale[k, slots.SIGMA]


@compiled
def _has_room(covariance, scale, steps):
    """Whether all sketches have room for the updates of one more example."""
    most = 0.0
    for k in range(scale.shape[0]):
        most = max(most, scale[k, slots.DIRECTIONS])
    return int(most) + steps <= covariance.shape[2]


@compiled
def learn_rows(
    data, indices, indptr, order, labels, weights, dense,
    table, covariance, scale, total, counters, work, settings, codes, units, record,
):  # fmt: skip
    """Learn from examples, one after the other.

    Parameters
    ----------
    data, indices, indptr, order, labels, weights, dense
        The rows: the fields of :class:`~oblong.solvers.online.slots.Batch`. They are not in one
        tuple, since a call from Python takes three times as long with tuples as without.
    table, covariance, scale, total, counters, work, settings, codes, units
        The model: the fields of :class:`~oblong.solvers.online.slots.Model`.
    record : ndarray of shape (n_rows, n_outputs) or (0, 0)
        Gets the decision values of the rows of the order, each before it is learned from.

    Returns
    -------
    done : int
        Number of rows learned from, which is smaller than that of the order if a sketch is full;
        -1 if a single dense row has values that are too large, or none.
    """
    if order.size == 1 and dense and not moderate(data):
        return -1
    structure, rule, task, n_steps = (
        codes[slots.STRUCTURE],
        codes[slots.RULE],
        codes[slots.TASK],
        codes[slots.STEPS],
    )
    bias, limit, floor = settings[slots.BIAS], settings[slots.LIMIT], settings[slots.FLOOR]
    initial, invariance = settings[slots.INITIAL_VARIANCE], codes[slots.INVARIANCE]
    n_outputs, length = scale.shape[0], 0
    if structure == slots.FULL:
        length = table.shape[0]
    elif structure == slots.SKETCH:
        length = covariance.shape[2]
    scores, taken = work[:n_outputs], work[n_outputs : 2 * n_outputs]
    products = work[2 * n_outputs : 2 * n_outputs + 2 * length].reshape(2, length)
    back = work[2 * n_outputs + 2 * length : 2 * n_outputs + 3 * length]
    forgetting = settings[slots.FORGETTING]
    scaled = room_for_row(indptr, units, data)
    model = slots.Model(table, covariance, scale, total, counters, work, settings, codes, units)
    for position in range(order.size):
        i = order[position]
        columns, values = row_at(i, data, indices, indptr, dense)
        if (
            structure == slots.SKETCH
            and weights[i] > 0.0
            and not _has_room(covariance, scale, n_steps)
        ):
            return position
        if units.size > 0 and weights[i] > 0.0:
            if not fits(columns, values, units, scaled, indices[:0]):
                enter(columns, values, scaled, model, products[0])
            values = scaled[: values.size]
        row_labels = labels[i]
        remaining = weights[i]
        while remaining > 0.0:
            if structure == slots.SKETCH and not _has_room(covariance, scale, n_steps):
                weights[i] = remaining
                return position
            part = min(1.0, remaining)
            remaining -= part
            past = counters[slots.ROUNDS]
            row_scores(columns, values, bias, table, scores)
            for k in range(n_outputs):
                taken[k] = 0.0
            wrong = mistaken(task, scores, row_labels, taken)
            begin(wrong, task, scores, row_labels, part, scale, counters, record, position)
            changed = False
            for step in range(n_steps):
                first, second, sign = pick(task, step, scores, row_labels, taken)
                if first < 0:
                    continue
                m = sign * scores[first] - (scores[second] if second >= 0 else 0.0)
                if m >= limit:
                    continue
                sides, n_sides = (first, second), 2 if second >= 0 else 1
                own = scale[first if task == slots.EACH else 0]
                alpha, tau, factor, va, vb = 0.0, 0.0, 1.0, 0.0, 0.0
                if forgetting < 1.0 and structure == slots.DIAGONAL:
                    for side in range(n_sides):
                        hold(columns, table, scale, sides[side], initial)
                for again in range(2):
                    for side in range(n_sides):
                        k, product = sides[side], products[side]
                        v = _variance(
                            structure, columns, values, bias, table, covariance, scale, k, product
                        )
                        va, vb = (va, v) if side else (v, vb)
                    v = va + vb
                    alpha, tau, factor = answer(rule, m, v, part, settings, own, counters, again)
                    if factor != 0.0:
                        break
                    for side in range(n_sides):
                        reset(structure, table, covariance, scale, sides[side], initial)
                if alpha <= 0.0:
                    continue
                changed = True
                for side in range(n_sides):
                    k, product = sides[side], products[side]
                    v, move = (vb, -alpha) if side else (va, sign * alpha)
                    sigma = scale[k, slots.SIGMA]
                    scores[k] += move * v
                    if structure == slots.FULL:
                        shrink = sigma * tau / (1.0 + tau * v)
                        S = covariance[k]
                        full_update(S, table, total, k, product, move * sigma, shrink, past)
                    elif structure == slots.SKETCH:
                        rank = int(scale[k, slots.DIRECTIONS])
                        scale[k, slots.DIRECTIONS], held = sketch_update(
                            columns, values, bias, table, total, k, n_outputs, covariance[k], rank,
                            product, back, v / sigma, move * sigma, tau * sigma, past,
                        )  # fmt: skip
                        counters[slots.FLOORED] += held
                    else:
                        column = n_outputs + k if structure == slots.DIAGONAL else -1
                        least = floor if forgetting == 1.0 else floor / sigma
                        counters[slots.FLOORED] += table_update(
                            columns, values, bias, table, total, k, column, move * sigma,
                            tau * sigma, least, past,
                        )  # fmt: skip
                    scale[k, slots.SIGMA] = sigma * factor / forgetting
                    if forgetting < 1.0:
                        renew(structure, table, covariance, scale, counters, initial, k, product)
                # There is one unit for all classes, whose outputs are compared.
                if invariance != slots.UNIT_FIXED and counters[slots.UPDATES] % LOOK == 0:
                    if structure != slots.FULL:
                        if invariance == slots.UNIT_OF_COVARIANCE:
                            rescale_factors(scale, first)
                    elif rescale(invariance, table, covariance, total, scale, counters):
                        row_scores(columns, values, bias, table, scores)
            if not changed and remaining > 0.0:
                skip_copies(task, scores, row_labels, remaining, wrong, scale, counters)
                break
    return order.size
