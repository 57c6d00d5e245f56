"""The compiled loop over all groups and problems of a batch.

Each problem starts from the better of two neighbours, takes pair steps with kernel rows in single
precision, and is then appraised with outputs in double precision. If these show that it is not
solved, the steps go on from them: what is left to solve is smaller each time, and single precision
is relative to it. Problems that pair steps are slow on are left to the caller.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from oblong._core.compile import compiled
from oblong.solvers.margin.batch.tiles import GroupRows, fill_tiles, fresh_image
from oblong.solvers.margin.block import balance, interval, snap_distance
from oblong.solvers.margin.pair_steps import ascend
from oblong.solvers.margin.problem import dual_objective, write_slopes
from oblong.solvers.margin.result import appraise

__all__ = [
    "BIAS", "BOUND", "DUAL", "LARGEST", "OBJECTIVE", "ROUNDING", "SCALE", "THETA", "VIOLATION",
    "BatchState", "begin", "copy_solution", "find_twin", "solve_groups", "write_terms",
]  # fmt: skip

# Columns of the table of values.
BIAS, SCALE, OBJECTIVE, DUAL, ROUNDING, VIOLATION, BOUND, THETA, LARGEST = range(9)
# Columns of the table of counts.
STEPS, STATUS, SOURCE = range(3)
CONVERGED, MAX_ITER, STALLED, UNSOLVED = range(4)
# Coefficients looked at together, so that they stay in first-level cache.
_STRIP = 512
# Times that steps go on from outputs in double precision.
_ATTEMPTS = 8


class BatchState(NamedTuple):
    """The problems of a batch and what is known of their solutions.

    The coefficients of the problems of group ``g`` begin at ``places[g]``, one after the other.
    """

    segments: np.ndarray
    names: np.ndarray
    own_places: np.ndarray
    signs: np.ndarray
    penalties: np.ndarray
    Cs: np.ndarray
    spreads: np.ndarray
    bounds: np.ndarray
    places: np.ndarray
    coefs: np.ndarray
    images: np.ndarray
    values: np.ndarray
    counts: np.ndarray
    directions: np.ndarray


@compiled
def write_terms(state, g, k, y, v, p, s):
    """Write the terms of problem ``k`` of a group; return whether its bound is felt."""
    m = state.spreads.size + 1
    a, j = divmod(k, m)
    values = state.values[g, k]
    bound = state.bounds[g]
    values[THETA] = np.nan
    if state.spreads.size > 0:
        bound = np.inf
        if j > 0:
            theta = values[THETA] = state.values[g, k - j, THETA]
            bound = max(1.0, 1.0 + state.spreads[j - 1] * (theta - 1.0))
    values[BOUND] = bound
    bounded = bound < np.inf and (j == 0 or bound < values[THETA])
    for i in range(y.size):
        end = y[i] * (state.Cs[a] * v[i])
        p[i, 1] = min(end, 0.0)
        p[i, 2] = max(end, 0.0)
        p[i, 0] = -np.inf if bounded else p[i, 1]
        p[i, 3] = np.inf if bounded else p[i, 2]
        s[i, 0] = bound if bounded else y[i]
        s[i, 1] = y[i]
        s[i, 2] = -bound if bounded else y[i]
    return bounded


@compiled
def find_twin(state, g, k, y, v, coefs, bounded):
    """Find an earlier problem of the group whose solution is this one's; -1 if there is none."""
    m = state.spreads.size + 1
    a, j = divmod(k, m)
    if j > 0 and not bounded:
        return k - j
    near = k - m
    if a == 0 or state.counts[g, near, STATUS] != CONVERGED:
        return -1
    if j > 0 and state.counts[g, k - j, SOURCE] == k - j:
        return -1
    # Short of the smaller penalties the terms are the same, and so is what is optimal.
    for i in range(y.size):
        if not y[i] * coefs[near, i] < state.Cs[a - 1] * v[i]:
            return -1
    return near


@compiled
def begin(state, g, k, coefs, images, p, s):
    """Copy the better of two solutions nearby as the start of a problem."""
    m = state.spreads.size + 1
    a, j = divmod(k, m)
    start = k - 1 if j > 0 else k - m
    if j > 0 and a > 0:
        other = dual_objective(p, s, coefs[k - m], images[k - m])
        if other > dual_objective(p, s, coefs[start], images[start]):
            start = k - m
    if start >= 0:
        coefs[k] = coefs[start]
        images[k] = images[start]


@compiled
def _matters(source, index, y, c, u, bias, bound, weight, matters):
    """Mark the rows whose outputs decide: those with a coefficient, a loss, or a large output."""
    q = c.size
    largest = 0.0
    for i in range(q):
        largest = max(largest, abs(u[i] + bias))
    for i in range(q):
        f = u[i] + bias
        error = 2.0 * source.single * weight * np.sqrt(abs(source.diagonal[index[i]]))
        matters[i] = (
            c[i] != 0.0 or y[i] * f < 1.0 + error or abs(f) >= min(largest, bound) - 2.0 * error
        )


@compiled
def _weight(source, index, c):
    """Sum of the absolute coefficients times the sizes of their rows."""
    total = 0.0
    for i in range(c.size):
        if c[i] != 0.0:
            total += abs(c[i]) * np.sqrt(abs(source.diagonal[index[i]]))
    return total


@compiled
def _appraise(state, source, g, k, index, p, s, c, u, error, weight, right, left, w, promise):
    """Write the values of a solution with fresh outputs; return its relative gap."""
    linear = w.size > 0
    norm = norm_error = 0.0
    if linear:
        far = 0.0
        for i in range(w.size):
            norm += w[i] * w[i]
            far += abs(w[i] * source.shift[i])
        doubt = source.double * weight
        norm_error = doubt * (2.0 * np.sqrt(norm) + doubt)
    for i in range(c.size):
        size = np.sqrt(abs(source.diagonal[index[i]]))
        if linear:
            error[i] = source.double * (size * np.sqrt(norm) + far)
        else:
            error[i] = source.double * weight * size
            norm += c[i] * u[i]
            norm_error += abs(c[i]) * error[i]
    m, M = interval(right, left, u)
    bias = 0.5 * (m + M)
    if not abs(bias) < np.inf:
        bias = 0.0
    scale, objective, upper, dual, doubt = appraise(
        p, s, c, u, error, norm, norm_error, not linear, bias, promise
    )
    values = state.values[g, k]
    values[BIAS], values[SCALE], values[OBJECTIVE] = scale * bias, scale, objective
    values[DUAL], values[ROUNDING], values[VIOLATION] = dual, upper - objective + doubt, m - M
    largest = 0.0
    for i in range(c.size):
        largest = max(largest, scale * abs(u[i] + bias))
    values[LARGEST] = largest
    if state.spreads.size > 0 and k % (state.spreads.size + 1) == 0:
        values[THETA] = largest
    if linear:
        for i in range(w.size):
            state.directions[g, k, i] = scale * w[i]
    return (max(objective - dual, 0.0) + values[ROUNDING]) / max(abs(objective), 1e-300)


@compiled
def _solve(
    state, rows, g, k, K, diagonal, index, y, p, s, c, u, right, left, error, work, matters, w,
    wide, kernel_values, tol, limit, patience, promise,
):  # fmt: skip
    """Solve one problem from the coefficients and image at hand."""
    source = rows.source
    q = c.size
    mean = largest = 1e-300
    for i in range(q):
        mean += abs(diagonal[i]) / q
        largest = max(largest, diagonal[i])
    tiny = max(4.0 * 1.2e-7 * mean, 1e-300)
    snap = snap_distance(p, c, tol, largest)
    weights = np.empty((0, 0), dtype=np.float32)
    counts = state.counts[g, k]
    bound = s[0, 0] if p[0, 0] == -np.inf else np.inf
    target = tol
    steps = 0
    status = UNSOLVED
    for _attempt in range(_ATTEMPTS):
        allowed = min(limit, patience) - steps
        violation = np.inf
        for _ in range(2):
            taken, violation = ascend(
                K, weights, diagonal, p, s, c, u, right, left, work, target, tiny, snap, allowed,
                max(50, q // 2), rows,
            )  # fmt: skip
            steps += taken
            free = 0
            for i in range(q):
                free += right[i] == left[i]
            allowed = min(limit, free**3 // (10 * q)) - steps
            if not violation > target or allowed <= 0:
                break
        balance(c, right, left)
        weight = _weight(source, index, c)
        m, M = interval(right, left, u)
        _matters(source, index, y, c, u, 0.5 * (m + M), bound, weight, matters)
        fresh_image(rows, index, c, matters, u, w, wide, kernel_values)
        gap = _appraise(
            state, source, g, k, index, p, s, c, u, error, weight, right, left, w, promise
        )
        values = state.values[g, k]
        if not violation <= target:
            status = MAX_ITER if steps >= limit else UNSOLVED
            break
        if values[VIOLATION] > tol * (1.0 + 1e-6):
            continue
        if gap <= promise:
            status = CONVERGED
            break
        if 2.0 * values[ROUNDING] > gap * abs(values[OBJECTIVE]):
            break
        # The gap falls about as the violation does.
        target *= min(0.1, max(1e-3, 0.5 * promise / gap))
    counts[STEPS], counts[STATUS], counts[SOURCE] = steps, status, k


@compiled
def copy_solution(state, g, k, twin, coefs, images):
    """Take over the solution of another problem, but for the bound."""
    values, counts = state.values[g, k], state.counts[g, k]
    theta, bound = values[THETA], values[BOUND]
    coefs[k] = coefs[twin]
    images[k] = images[twin]
    values[:] = state.values[g, twin]
    state.directions[g, k] = state.directions[g, twin]
    counts[STEPS], counts[STATUS] = 0, state.counts[g, twin, STATUS]
    counts[SOURCE] = state.counts[g, twin, SOURCE]
    if k % (state.spreads.size + 1) > 0:
        values[THETA] = theta
    values[BOUND] = bound


@compiled
def _still_good(state, source, g, k, twin, index, p, s, c, u, error, right, left, w, promise):
    """Tell whether a solution that was copied is good enough, with another penalty perhaps."""
    m = state.spreads.size + 1
    if twin // m == k // m:
        return True
    values = state.values[g, k]
    before = values[SCALE]
    write_slopes(p, s, c, right, left)
    for i in range(w.size):
        w[i] = state.directions[g, twin, i] / before
    weight = _weight(source, index, c)
    gap = _appraise(state, source, g, k, index, p, s, c, u, error, weight, right, left, w, promise)
    return gap <= promise and values[SCALE] == before


@compiled
def solve_groups(
    state, source, first, last, first_problem, tol, limit, patience, promise, tiled_rows, pending
):
    """Solve the problems of groups ``first`` to ``last``, from ``first_problem`` of each on.

    Where pair steps are slow on a problem, its number is written to ``pending``, and the rest of
    its group waits; otherwise the number of all problems of a group.
    """
    big = 0
    for g in range(first, last):
        q = 0
        for t in range(state.segments.shape[1]):
            q += state.segments[g, t, 1] - state.segments[g, t, 0]
        big = max(big, q)
    m = state.counts.shape[1]
    memory = np.empty(big * big, dtype=np.float32)
    tile = np.empty(min(big, tiled_rows) ** 2, dtype=np.float32)
    have = np.empty(big, dtype=np.bool_)
    index = np.empty(big, dtype=np.int64)
    matters = np.empty(big, dtype=np.bool_)
    y, v, right, left, error, kernel_values = np.empty((6, big))
    before = np.empty((4, big))
    scratch = np.empty(_STRIP)
    p, s = np.empty((big, 4)), np.empty((big, 3))
    w = np.empty(state.directions.shape[2])
    wide = np.empty((source.wide.shape[1] if w.size == 0 else 0, big))
    own = np.empty(state.own_places[-1], dtype=np.float32)
    own_have = np.zeros(state.penalties.size if own.size > 0 else 0, dtype=np.bool_)
    begins = np.zeros(state.segments.shape[1] + 1, dtype=np.int64)
    diagonals = np.empty(big)
    for g in range(first, last):
        segments = state.segments[g]
        q = 0
        for t in range(len(segments)):
            begins[t] = q
            for row in range(segments[t, 0], segments[t, 1]):
                index[q], y[q], v[q] = row, state.signs[g, t], state.penalties[row]
                diagonals[q] = source.diagonal[row]
                q += 1
        begins[len(segments)] = q
        K = memory[: q * q].reshape(q, q)
        rows = GroupRows(
            source, segments, begins, have, state.names[g], state.own_places, own, own_have
        )
        have[:q] = False
        if own.size > 0 and q <= tiled_rows:
            fill_tiles(rows, K, tile)
        place = state.places[g]
        coefs = state.coefs[place : place + m * q].reshape(m, q)
        images = state.images[place : place + m * q].reshape(m, q)
        work = (before[0, :q], before[1, :q], before[2, :q], before[3, :q], scratch)
        k = first_problem
        while k < m:
            bounded = write_terms(state, g, k, y[:q], v[:q], p[:q], s[:q])
            twin = find_twin(state, g, k, y[:q], v[:q], coefs, bounded)
            if twin >= 0:
                copy_solution(state, g, k, twin, coefs, images)
                if _still_good(
                    state, source, g, k, twin, index[:q], p[:q], s[:q], coefs[k], images[k],
                    error[:q], right[:q], left[:q], w, promise,
                ):  # fmt: skip
                    k += 1
                    continue
            begin(state, g, k, coefs, images, p[:q], s[:q])
            _solve(
                state, rows, g, k, K, diagonals[:q], index[:q], y[:q], p[:q], s[:q], coefs[k],
                images[k], right[:q], left[:q], error[:q], work, matters[:q], w, wide,
                kernel_values, tol, limit, patience * q, promise,
            )  # fmt: skip
            if state.counts[g, k, STATUS] == UNSOLVED:
                break
            k += 1
        pending[g] = k
