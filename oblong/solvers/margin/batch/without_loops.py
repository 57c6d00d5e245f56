"""The compiled loop over all groups and folds of margin problems without some of their rows.

Where rows are left out, the coefficients of the free rows first go where they would go if none of
them passed a kink, see :func:`_respond`. Pair steps do the rest.
"""

from __future__ import annotations

import numpy as np

from oblong._core.compile import compiled
from oblong.solvers.margin.batch.loops import (
    BIAS,
    CONVERGED,
    SCALE,
    STATUS,
    STEPS,
    UNSOLVED,
    _appraise,
    _solve,
)  # fmt: skip
from oblong.solvers.margin.batch.tiles import TINY, GroupRows, _mapped, have_row
from oblong.solvers.margin.block import balance, interval, snap_distance
from oblong.solvers.margin.pair_steps import _place, ascend

__all__ = ["TIGHT", "UNCHANGED", "kernel_rows", "shift_weight", "solve_groups_without"]

# Status of a problem whose rows left out have no coefficient: the solution with all rows is its.
UNCHANGED = -1
# Tolerance below which the outputs of rows left out are wanted in double precision.
TIGHT = 1e-3
# Problems of a group whose starts are computed at once.
_CHUNK = 64
# The matrix of the free rows is inverted if that costs no more than so many pair steps per problem.
_WORTH = 1000
# Ridge of that matrix over its largest value: rounding of single precision.
_RIDGE = 1e-6


@compiled
def kernel_rows(source, some, values):
    """Write the kernel values of some rows with all rows, in single precision."""
    if some.size > 0:
        np.dot(source.X[some], source.XT, values)
    for a in range(some.size):
        _mapped(
            source.kind, source.degree, np.float32(source.coef0), values[a], source.half[some[a]],
            source.half,
        )  # fmt: skip


@compiled
def shift_weight(p, s, c, room):
    """Bring ``Σc`` back to zero, inside the domains.

    The surplus is taken from free coefficients, each of which gives half of its ``room`` up to the
    next breakpoint: the fewer that change, the fewer kernel rows change the image. What is left
    then goes in proportion to what room they have, and at last by scaling the heavier sign down.
    """
    surplus = 0.0
    for i in range(c.size):
        surplus += c[i]
    sign = 1.0 if surplus > 0.0 else -1.0
    total = 0.0
    for i in range(c.size):
        right, left, above, below = _place(p, s, i, c[i])
        room[i] = 0.0
        if right == left:
            # Where a piece has no end, a coefficient moves by about its own size.
            room[i] = min(c[i] - below if surplus > 0.0 else above - c[i], abs(c[i]) + 1.0)
            part = min(0.5 * room[i], sign * surplus)
            if part > 0.0:
                c[i] -= sign * part
                room[i] -= part
                surplus -= sign * part
            total += room[i]
    share = sign * min(sign * surplus / total, 1.0) if total > 0.0 and sign * surplus > 0.0 else 0.0
    high = low = 0.0
    for i in range(c.size):
        c[i] -= share * room[i]
        high += max(c[i], 0.0)
        low += max(-c[i], 0.0)
    # Every domain holds zero, so that smaller coefficients stay inside.
    if abs(high - low) > 1e-14 * high:
        up = low / high if high > low else 1.0
        down = high / low if low > high else 1.0
        for i in range(c.size):
            c[i] *= up if c[i] > 0.0 else down


@compiled
def _add_row(image, change, row):
    for k in range(image.size):
        image[k] += change * row[k]


@compiled
def _sort_by_fold(folds, start, ends, order):
    """Write the rows of each fold one after the other; return the folds with a coefficient."""
    ends[:] = 0
    changed = np.zeros(ends.size - 1, dtype=np.bool_)
    for i in range(folds.size):
        ends[folds[i]] += 1
        changed[folds[i]] |= start[i] != 0.0
    for fold in range(ends.size - 1):
        ends[fold + 1] += ends[fold]
    for i in range(folds.size - 1, -1, -1):
        ends[folds[i]] -= 1
        order[ends[folds[i]]] = i
    return np.flatnonzero(changed)


@compiled
def _free_rows(p, s, c, K, worth):
    """Find the free rows; return them, their kernel rows and the inverse of their bordered matrix.

    There are none where the inverse costs more than it is ``worth``, in cubes of their number.
    """
    free = np.empty(c.size, dtype=np.int64)
    count = 0
    for i in range(c.size):
        right, left, _, _ = _place(p, s, i, c[i])
        if right == left and c[i] != 0.0:
            free[count] = i
            count += 1
    if count < 2 or float(count) ** 3 > worth:
        count = 0
    free = free[:count]
    values = np.empty((count, c.size if count else 0))
    bordered = np.ones((count + 1, count + 1))
    bordered[count, count] = 0.0
    largest = 0.0
    for a in range(count):
        for k in range(c.size):
            values[a, k] = K[free[a], k]
        for b in range(count):
            bordered[a, b] = values[a, free[b]]
        largest = max(largest, abs(bordered[a, a]))
    for a in range(count):
        bordered[a, a] += _RIDGE * largest
    if count > 0:
        bordered = np.ascontiguousarray(np.linalg.inv(bordered))
    return free, values, bordered


@compiled
def _respond(p, s, start, K, free, inverse, order, ends, folds, changes):
    """Find where the free coefficients go when the rows of each of some folds are left out.

    As long as no kink is passed, the outputs on the free rows ``F`` stay as they are. With the
    coefficients ``c_T`` of the other rows left out that is ::

        K_FF Δ + Δb = K_FT c_T,   ΣΔ = Σ c_T

    and the equations of free rows that are left out give way to ``Δ_i = -c_i``. Coefficients that
    pass a kink are stopped there, and the rest is taken from the others. Returns for which folds
    that leaves a sum of zero.
    """
    count, q = free.size, start.size
    place = np.full(q, -1)
    for a in range(count):
        place[free[a]] = a
    pull = np.zeros((folds.size, count + 1))
    for k in range(folds.size):
        for i in order[ends[folds[k]] : ends[folds[k] + 1]]:
            if place[i] < 0 and start[i] != 0.0:
                row = K[i]
                for a in range(count):
                    pull[k, a] += start[i] * row[free[a]]
                pull[k, count] += start[i]
    response = np.dot(pull, inverse)
    gone = np.empty(count, dtype=np.int64)
    room = np.empty(count)
    good = np.zeros(folds.size, dtype=np.bool_)
    for k in range(folds.size):
        size = 0
        for i in order[ends[folds[k]] : ends[folds[k] + 1]]:
            if place[i] >= 0:
                gone[size] = place[i]
                size += 1
        change = changes[k]
        if count - size < 2:
            continue
        for a in range(count):
            change[a] = response[k, a]
        if size > 0:
            own = np.empty((size, size))
            rest = np.empty(size)
            for a in range(size):
                rest[a] = -start[free[gone[a]]] - change[gone[a]]
                for b in range(size):
                    own[a, b] = inverse[gone[a], gone[b]]
                own[a, a] *= 1.0 + 1e-9
            force = np.linalg.solve(own, rest)
            for b in range(size):
                _add_row(change, force[b], inverse[gone[b], :count])
        surplus = -pull[k, count]
        for a in range(count):
            now = start[free[a]]
            _, _, above, below = _place(p, s, free[a], now)
            change[a] = min(max(change[a], below - now), above - now)
        for a in gone[:size]:
            change[a] = -start[free[a]]
        for a in range(count):
            surplus += change[a]
        total = 0.0
        for a in range(count):
            now = start[free[a]]
            _, _, above, below = _place(p, s, free[a], now)
            room[a] = now + change[a] - below if surplus > 0.0 else above - now - change[a]
            room[a] = min(room[a], abs(now) + 1.0)
        for a in gone[:size]:
            room[a] = 0.0
        for a in range(count):
            total += room[a]
        good[k] = abs(surplus) <= total
        if total > 0.0:
            for a in range(count):
                change[a] -= room[a] * (surplus / total)
    return good


@compiled
def solve_groups_without(
    groups, source, exact, base, place, memory, filled, all_p, all_s, all_c, fold_of, first, last,
    tol, limit, patience, promise, own_size, d, outputs, coefs, directions, table,
):  # fmt: skip
    """Solve the groups ``first`` to ``last`` without each fold, where that changes something.

    ``memory`` is for the matrix of a group; ``filled`` says that it has the rows of ``base``.
    """
    big = 0
    for g in range(first, last):
        big = max(big, groups.ends[g + 1] - groups.ends[g])
    flags = np.zeros((3, big), dtype=np.bool_)
    own = np.empty(own_size, dtype=np.float32)
    own_have = np.zeros(exact.diagonal.size, dtype=np.bool_)
    numbers = np.empty((11, big))
    terms = np.empty((big, 4))
    gains = np.empty(big)
    some = (
        np.empty(big, dtype=np.int64), np.empty(big, dtype=np.bool_),
        np.empty((big // 2) ** 2, dtype=np.float32),
        np.empty((5, big)), np.empty((big, 4)), np.empty((big, 3)),
    )  # fmt: skip
    order, ends = np.empty(big, dtype=np.int64), np.empty(table.shape[1] + 1, dtype=np.int64)
    w = np.empty(d)
    checked = np.empty(0 if d else big * exact.rows.shape[1])
    tight = tol < TIGHT or d > 0
    # With several groups and models kept, outputs are products of all groups at once.
    alone = len(groups.parts) == 1 or coefs.size == 0
    for g in range(first, last):
        begin, end = groups.ends[g], groups.ends[g + 1]
        q = end - begin
        index, s, start = groups.rows[begin:end], all_s[begin:end], all_c[begin:end]
        K = memory[: q * q].reshape(q, q)
        diagonal, y, image = numbers[0, :q], numbers[1, :q], numbers[4, :q]
        c, u = numbers[2, :q], numbers[3, :q]
        right, left = numbers[5, :q], numbers[6, :q]
        rows = GroupRows(
            source, groups.parts[g], flags[0, :q], own, own_have, diagonal, False,
            some[0][:0], flags[0, :0], K,
        )  # fmt: skip
        p, full = terms[:q], all_p[begin:end]
        work = (numbers[7, :q], numbers[8, :q], numbers[9, :q], numbers[10, :q], gains)
        for i in range(q):
            diagonal[i], y[i], image[i] = exact.diagonal[index[i]], groups.y[begin + i], 0.0
            p[i] = full[i]
            row = place[index[i]] if start[i] != 0.0 else -1
            rows.have[i] = row >= 0
            if row >= 0 and not filled:
                for part in groups.parts[g]:
                    size = part[1] - part[0]
                    K[i, part[2] : part[2] + size] = base[row, part[0] : part[1]]
        for i in range(q):
            if start[i] != 0.0:
                if not rows.have[i]:
                    have_row(rows, K, i)
                _add_row(image, start[i], K[i])
        mean = np.abs(diagonal).mean() + 1e-300
        snap = snap_distance(p, start, tol, max(diagonal.max(), 1e-300))
        folds = _sort_by_fold(fold_of[index], start, ends[:], order)
        free, free_values, inverse = _free_rows(full, s, start, K, _WORTH * float(q) * folds.size)
        changes = np.zeros((min(_CHUNK, folds.size), free.size))
        good = np.zeros(_CHUNK, dtype=np.bool_)
        moves = changes
        for k in range(folds.size):
            fold, at = folds[k], k % _CHUNK
            if at == 0 and free.size > 0:
                together = folds[k : k + _CHUNK]
                good = _respond(full, s, start, K, free, inverse, order, ends, together, changes)
                moves = np.dot(changes[: together.size], free_values)
            out = order[ends[fold] : ends[fold + 1]]
            c[:] = start
            u[:] = image
            for i in out:
                p[i] = 0.0
                # Rows without a loss matter all the same where their outputs have to be exact.
                y[i] *= not tight
            if good[at]:
                for a in range(free.size):
                    c[free[a]] += changes[at, a]
                for i in range(q):
                    u[i] += moves[at, i]
                for i in out:
                    # Those that were not free.
                    if c[i] == start[i] and c[i] != 0.0:
                        _add_row(u, -c[i], K[i])
                    c[i] = 0.0
            else:
                for i in out:
                    c[i] = 0.0
                shift_weight(p, s, c, work[0])
                for i in range(q):
                    if c[i] != start[i]:
                        if not rows.have[i]:
                            have_row(rows, K, i)
                        _add_row(u, c[i] - start[i], K[i])
            values = table[g, fold]
            values[STATUS] = UNSOLVED
            steps = 0
            if not tight:
                steps, violation = ascend(
                    K, diagonal, p, s, c, u, right, left, work, 0.95 * tol, TINY * mean,
                    snap, min(limit, patience * q), max(50, q // 2), rows,
                )  # fmt: skip
                balance(c, right, left)
                m, M = interval(right, left, u)
                bias = 0.5 * (m + M) if abs(m + M) < np.inf else 0.0
                # Outputs in single precision, rounding counted, mostly prove a small enough gap.
                gap = _appraise(
                    exact, index, y, p, s, c, u, bias, flags[1], work, w, promise, values
                )
                if violation <= tol and gap <= promise:
                    values[STEPS], values[STATUS] = steps, CONVERGED
            if values[STATUS] == UNSOLVED:
                # A literal has a type of its own, for which the loop would be compiled once more.
                only_theta = np.bool_(False)
                _solve(
                    rows, exact, K, diagonal, index, y, p, s, c, u, work, numbers[5:], some,
                    flags[2], w, checked, tol, limit - steps, patience, promise, only_theta, values,
                )  # fmt: skip
                values[STEPS] += steps
            scale = values[SCALE]
            if not tight and alone:
                for i in out:
                    u[i] = 0.0
                for j in range(q):
                    if c[j] != 0.0:
                        row = K[j]
                        for i in out:
                            u[i] += c[j] * row[i]
            for i in out:
                outputs[begin + i] = scale * u[i] + values[BIAS]
                p[i] = full[i]
                y[i] = groups.y[begin + i]
            if coefs.size > 0:
                for i in range(q):
                    coefs[fold, begin + i] = scale * c[i]
                for i in range(d):
                    directions[g, fold, i] = scale * w[i]
