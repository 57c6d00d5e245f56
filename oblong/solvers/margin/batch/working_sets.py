"""Pair steps of one problem of a batch, among the rows that take part in a violation."""

from __future__ import annotations

import numpy as np

from oblong._core.compile import compiled, fast_max, fast_min, uncounted
from oblong.solvers.margin.batch.tiles import GroupRows
from oblong.solvers.margin.pair_steps import ascend
from oblong.solvers.margin.problem import write_slopes

__all__ = ["ascend_rows", "carry"]

# Rows from which steps are taken among these alone, and rounds of that before all rows are looked
# at again.
_SHRUNK = 128
_ROUNDS = 8


@uncounted
def ascend_rows(rows, K, p, s, c, u, right, left, work, some, target, tiny, snap, allowed):
    """Ascend by pair steps, most of them among the rows that take part in a violation.

    These are the rows with free coefficients, and those on the wrong side of the multiplier that
    the free ones have. Their block is solved on its own, and the change carried to the image of the
    others, until none is violated. Steps on all rows come where most take part, or these rounds
    have no end. Returns steps and violation.
    """
    q = c.size
    chosen, have, block, numbers, terms, slopes = some
    diagonal = rows.diagonal
    steps = 0
    burst = allowed
    if q >= _SHRUNK:
        burst = max(50, q // 12)
    write_slopes(p, s, c, right, left)
    while True:
        for _ in range(_ROUNDS if q >= _SHRUNK else 0):
            violation, level = _violation_and_level(right, left, u)
            if not violation > target or steps >= allowed:
                return steps, violation
            count = 0
            for i in range(q):
                chosen[count] = i
                count += (right[i] - u[i] > level) | (left[i] - u[i] < level)
            if 2 * count > q:
                break
            # Rows of the memory one by one: the type of a part of it would not say that they are
            # contiguous.
            coef, image, curves = numbers[0, :count], numbers[1, :count], numbers[2, :count]
            inner_right, inner_left = numbers[3, :count], numbers[4, :count]
            part = block[: count * count].reshape(count, count)
            # Rows of the block that no step asks for are not computed.
            inner = GroupRows(
                rows.source, rows.parts, have[:count], rows.own, rows.own_have, diagonal,
                rows.held, chosen[:count], rows.have, K,
            )  # fmt: skip
            for a in range(count):
                i = chosen[a]
                have[a] = False
                coef[a], image[a], curves[a] = c[i], u[i], diagonal[i]
                for b in range(4):
                    terms[a, b] = p[i, b]
                for b in range(3):
                    slopes[a, b] = s[i, b]
            short = (
                work[0][:count], work[1][:count], work[2][:count], work[3][:count], work[4],
            )  # fmt: skip
            taken, _ = ascend(
                part, curves, terms[:count], slopes[:count], coef, image, inner_right,
                inner_left, short, max(0.9 * target, 0.05 * violation), tiny, snap,
                allowed - steps, max(50, count // 2), inner,
            )  # fmt: skip
            steps += taken
            moved = 0
            for a in range(count):
                i = chosen[a]
                change = coef[a] - c[i]
                c[i], right[i], left[i] = coef[a], inner_right[a], inner_left[a]
                if change != 0.0:
                    chosen[moved], coef[moved] = i, change
                    moved += 1
            carry(K, chosen[:moved], coef[:moved], u)
            if taken == 0:
                break
        taken, violation = ascend(
            K, diagonal, p, s, c, u, right, left, work, target, tiny, snap,
            min(burst, allowed - steps), max(50, q // 2), rows,
        )  # fmt: skip
        steps += taken
        if not violation > target or steps >= allowed:
            return steps, violation
        burst = min(2 * burst, allowed)


@uncounted
def carry(K, rows, changes, u):
    """Add a change of some coefficients to the image, four rows of the matrix at a time."""
    whole = rows.size - rows.size % 4
    for a in range(0, whole, 4):
        first, second, third, fourth = K[rows[a]], K[rows[a + 1]], K[rows[a + 2]], K[rows[a + 3]]
        x, y, z, w = changes[a], changes[a + 1], changes[a + 2], changes[a + 3]
        for k in range(u.size):
            u[k] += x * first[k] + y * second[k] + z * third[k] + w * fourth[k]
    for a in range(whole, rows.size):
        row = K[rows[a]]
        for k in range(u.size):
            u[k] += changes[a] * row[k]


def _violation_and_level(right, left, u):
    """Return the violation, and the multiplier of ``Σc = 0``: its mean over free coefficients."""
    m, M = -np.inf, np.inf
    total, count = 0.0, 0
    for i in range(u.size):
        up, low = right[i] - u[i], left[i] - u[i]
        m, M = fast_max(m, up), fast_min(M, low)
        total += up if up == low else 0.0
        count += up == low
    return m - M, min(max(total / count if count else 0.5 * (m + M), M), m)


_violation_and_level = compiled(_violation_and_level, reassociate=True)
