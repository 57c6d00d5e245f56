"""The compiled loop over all groups and problems of a batch.

Each problem starts from the better of two neighbours, takes pair steps with kernel rows in single
precision, and is then appraised with outputs in double precision. If these show that it is not
solved, the steps go on from them: what is left to solve is smaller each time, and single precision
is relative to it. Problems that pair steps are slow on are left to the caller.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from oblong._core.compile import compiled, uncounted
from oblong.solvers.margin.batch.tiles import TINY, GroupRows, fill_tiles, fresh_image
from oblong.solvers.margin.batch.working_sets import ascend_rows, carry
from oblong.solvers.margin.block import balance, interval, snap_distance
from oblong.solvers.margin.pair_steps import snapped
from oblong.solvers.margin.problem import dual_objective, term
from oblong.solvers.margin.result import appraise

__all__ = [
    "AGAIN", "BIAS", "BOUND", "CONVERGED", "DONE", "FRESH", "LARGEST", "SCALE", "SOURCE", "STATUS",
    "STEPS", "THETA", "Groups", "proven", "solve_groups",
]  # fmt: skip

# Columns of the table of values.
BIAS, SCALE, OBJECTIVE, DUAL, ROUNDING, VIOLATION, BOUND, THETA, LARGEST = range(9)
STEPS, STATUS, SOURCE = range(9, 12)
CONVERGED, MAX_ITER, STALLED, UNSOLVED = range(4)
# What to do with a problem.
DONE, FRESH, AGAIN = range(3)
# Times that steps go on from outputs in double precision.
_ATTEMPTS = 8
# Times that the tolerance is tightened before outputs are computed in double precision.
_EARLY = 2


class Groups(NamedTuple):
    """The rows of all groups, one after the other.

    Attributes
    ----------
    parts : int ndarray of shape (n_groups, n_segments, 4)
        See :class:`~oblong.solvers.margin.batch.tiles.GroupRows`.
    ends : int ndarray of shape (n_groups + 1,)
        Where the rows of each group begin, and the last ones end.
    rows : int ndarray of shape (n_rows,)
        The rows by number.
    y, v : ndarray of shape (n_rows,)
        Their labels and factors of ``C``.
    """

    parts: np.ndarray
    ends: np.ndarray
    rows: np.ndarray
    y: np.ndarray
    v: np.ndarray


@uncounted
def _write_terms(y, v, C, bound, p, s):
    bounded = bound < np.inf
    for i in range(y.size):
        end = y[i] * (C * v[i])
        p[i, 1] = min(end, 0.0)
        p[i, 2] = max(end, 0.0)
        p[i, 0] = -np.inf if bounded else p[i, 1]
        p[i, 3] = np.inf if bounded else p[i, 2]
        s[i, 0] = bound if bounded else y[i]
        s[i, 1] = y[i]
        s[i, 2] = -bound if bounded else y[i]


@uncounted
def _appraise(exact, index, y, p, s, c, u, bias, matters, work, w, promise, values):
    """Write the values of a solution with fresh outputs; return its relative gap."""
    linear = w.size > 0
    norm = norm_error = far = weight = 0.0
    error, sizes, shift = work[0], exact.sizes, exact.shift
    for i in range(c.size):
        error[i] = sizes[index[i]]
        weight += abs(c[i]) * error[i]
    for i in range(w.size):
        norm += w[i] * w[i]
        far += abs(w[i] * shift[i])
    length = np.sqrt(norm)
    for i in range(c.size):
        if linear:
            error[i] = exact.double * (error[i] * length + far)
        else:
            # Rows that do not matter keep the rounding of single precision.
            error[i] *= weight * (exact.double if matters[i] else 2.0 * exact.single)
            norm += c[i] * u[i]
            norm_error += abs(c[i]) * error[i]
    if linear:
        norm_error = exact.double * weight * (2.0 * length + exact.double * weight)
    bias, scale, objective, upper, dual, doubt = appraise(
        p, s, c, u, error, norm, norm_error, not linear, bias, promise
    )
    largest = 0.0
    for i in range(c.size):
        largest = max(largest, abs(u[i] + bias))
    values[BIAS], values[SCALE], values[OBJECTIVE] = scale * bias, scale, objective
    values[DUAL], values[ROUNDING] = dual, upper - objective + doubt
    values[LARGEST] = scale * largest
    return (max(objective - dual, 0.0) + values[ROUNDING]) / max(abs(objective), 1e-300)


@uncounted
def _mark(exact, index, y, c, u, bias, bound, matters, values):
    """Mark the rows whose outputs decide: those with a coefficient, a loss, or a large output.

    Returns a bound on the rounding of the outputs, and writes the largest one, as far as known.
    """
    worst = 0.0
    weight = largest = 0.0
    sizes = exact.sizes
    for i in range(c.size):
        largest = max(largest, abs(u[i] + bias))
        weight += abs(c[i]) * sizes[index[i]]
    for i in range(c.size):
        f = u[i] + bias
        error = 2.0 * exact.single * weight * sizes[index[i]]
        worst = max(worst, error)
        matters[i] = (
            c[i] != 0.0 or y[i] * f < 1.0 + error or abs(f) >= min(largest, bound) - 2.0 * error
        )
    values[BIAS], values[SCALE], values[LARGEST] = bias, 1.0, largest
    return worst


@uncounted
def _solve(
    rows, exact, K, diagonal, index, y, p, s, c, u, work, slopes, some, matters, w, memory, tol,
    limit, patience, promise, only_theta, values,
):  # fmt: skip
    """Solve one problem from the coefficients and image at hand."""
    q = c.size
    right, left = slopes[0, :q], slopes[1, :q]
    mean = largest = 1e-300
    for i in range(q):
        mean += abs(diagonal[i]) / q
        largest = max(largest, diagonal[i])
    snap = snap_distance(p, c, tol, largest)
    bound = s[0, 0] if p[0, 0] == -np.inf else np.inf
    # Rounding must not make the violation look larger than it is allowed to be.
    target = 0.95 * tol
    steps = 0
    status = UNSOLVED
    early = 0
    # Double precision is cheap where there is a matrix, or a weight vector.
    costly = exact.rows.size > 0 and w.size == 0
    for i in range(w.size):
        w[i] = 0.0
    for _attempt in range(_ATTEMPTS):
        allowed = max(0, min(limit, patience * q) - steps)
        violation = np.inf
        for _ in range(2):
            taken, violation = ascend_rows(
                rows, K, p, s, c, u, right, left, work, some, target, TINY * mean, snap, allowed
            )
            steps += taken
            free = 0
            for i in range(q):
                free += right[i] == left[i]
            allowed = min(limit, free**3 // (10 * q)) - steps
            if not violation > target or allowed <= 0:
                break
        balance(c, right, left)
        m, M = interval(right, left, u)
        bias = 0.5 * (m + M) if abs(m + M) < np.inf else 0.0
        error = _mark(exact, index, y, c, u, bias, bound, matters, values)
        # Without a gap to prove, or for its largest output alone, single precision is often enough;
        # the bound on its rounding is a hundred times what it is.
        enough = 0.2 * tol if promise == np.inf else 0.0
        if only_theta and values[LARGEST] > 1.0 + tol:
            enough = tol
        if violation <= target and error <= enough:
            values[VIOLATION] = violation
            status = CONVERGED
            break
        if violation <= target and early < _EARLY and bound < np.inf and costly:
            # Outputs in single precision tell whether those in double can prove the gap.
            gap = _appraise(exact, index, y, p, s, c, u, bias, matters, work, w, np.inf, values)
            if gap > promise:
                early += 1
                target *= min(0.3, max(1e-3, 0.5 * promise / gap))
                continue
        fresh_image(rows.source, exact.rows, index, c, matters, u, w, memory)
        m, M = interval(right, left, u)
        bias = 0.5 * (m + M) if abs(m + M) < np.inf else 0.0
        values[VIOLATION] = m - M
        gap = _appraise(exact, index, y, p, s, c, u, bias, matters, work, w, promise, values)
        if not violation <= target:
            status = MAX_ITER if steps >= limit else UNSOLVED
            break
        if m - M > tol * (1.0 + 1e-6):
            continue
        if gap <= promise:
            status = CONVERGED
            break
        if 2.0 * values[ROUNDING] > gap * abs(values[OBJECTIVE]):
            break
        # The gap falls about as the violation does.
        target *= min(0.1, max(1e-3, 0.5 * promise / gap))
    values[STEPS], values[STATUS] = steps, status


@uncounted
def proven(values, promise):
    """Whether a problem is solved and, where a gap is promised, rounding hides nothing."""
    gap = values[OBJECTIVE] - values[DUAL] + values[ROUNDING]
    small = promise == np.inf or gap <= promise * abs(values[OBJECTIVE])
    return values[STATUS] == CONVERGED and small


@uncounted
def _stays(values, coef, v, C, bound, tol):
    """Whether a solution for the penalty ``C`` solves the problem of any larger one, too."""
    if values[STATUS] != CONVERGED or values[BOUND] != bound or not values[VIOLATION] <= tol:
        return False
    at_cap = 0
    for i in range(coef.size):
        at_cap += coef[i] != 0.0 and abs(coef[i]) >= C * v[i]
    return at_cap == 0


@uncounted
def _growth(p, s, c, u, most):
    """How many times coefficients of a smaller penalty maximise the dual, from one to ``most``.

    Those at the smaller penalty would all have to be raised one by one.
    """
    gain = norm = 0.0
    for i in range(c.size):
        gain += term(p, s, i, c[i])
        norm += c[i] * u[i]
    return min(max(gain / norm, 1.0), most) if norm > 0.0 else 1.0


@uncounted
def _start_at_caps(K, y, v, C, p, s, c, u, every):
    """Start from the largest coefficients, where the dual still rises towards them.

    With a small penalty nearly all coefficients are at their caps, and from zero each of them takes
    a step. Of the class that has the larger sum the rows farthest on their own side go without.
    """
    excess = weight = 0.0
    for i in range(c.size):
        every[i] = i
        c[i] = y[i] * (C * v[i])
        excess += c[i]
        weight += abs(c[i])
    side = 1.0 if excess > 0.0 else -1.0
    # Where one class is less than half of the other, few steps are needed from zero.
    even = side * excess <= weight / 3.0
    if even:
        carry(K, every[: c.size], c, u)
    for _ in range(c.size if even else 0):
        # A coefficient next to its cap would count as free.
        if not side * excess > 1e-12 * weight:
            break
        farthest = -1
        for i in range(c.size):
            if side * c[i] > 0.0 and (farthest < 0 or side * (u[i] - u[farthest]) > 0.0):
                farthest = i
        change = side * c[farthest]
        if change > side * excess + 1e-12 * weight:
            change = side * excess
        excess -= side * change
        c[farthest] -= side * change
        for i in range(c.size):
            u[i] -= side * change * K[farthest, i]
    if not even or _growth(p, s, c, u, 2.0) == 1.0:
        c[:] = 0.0
        u[:] = 0.0


@compiled
def solve_groups(
    groups, source, exact, Cs, spreads, bounds, all_coefs, all_images, table, directions, first,
    last, first_problem, tols, limit, patience, promise, tiled_rows, own_size, pending, todo, whole,
    kept,
):  # fmt: skip
    """Solve the problems of groups ``first`` to ``last``, each beginning with ``first_problem``.

    ``all_coefs`` and ``all_images`` hold those of all problems, group after group, ``table`` their
    values. Where pair steps are slow on a problem, its number is written to ``pending``, and the
    rest of its group waits; otherwise the number of all problems of a group. ``todo`` says which
    problems to leave as they are (``DONE``), to start from a neighbour (``FRESH``), and to go on
    with (``AGAIN``). ``whole``, unless it is empty, is the matrix of every group. ``kept`` is the
    memory of a single group: its matrix, and which rows of it are there; empty where there are
    several groups.
    """
    big = 0
    every_diagonal = exact.diagonal
    for g in range(first, last):
        big = max(big, groups.ends[g + 1] - groups.ends[g])
    m, own_m = table.shape[1], spreads.size + 1
    held = whole.size > 0
    memory, have = kept
    keep = have.size > 0
    if not keep:
        memory = np.empty(0 if held else big * big, dtype=np.float32)
        have = np.empty(big, dtype=np.bool_)
    tile = np.empty(min(big, tiled_rows) ** 2, dtype=np.float32)
    matters = np.empty(big, dtype=np.bool_)
    own = np.empty(own_size, dtype=np.float32)
    own_have = np.zeros(exact.diagonal.size, dtype=np.bool_)
    numbers = np.empty((7, big))
    terms, slopes = np.empty((big, 4)), np.empty((big, 3))
    gains = np.empty(big)
    some = (
        np.empty(big, dtype=np.int64), np.empty(big, dtype=np.bool_),
        np.empty((big // 2) ** 2, dtype=np.float32),
        np.empty((5, big)), np.empty((big, 4)), np.empty((big, 3)),
    )  # fmt: skip
    w = np.empty(directions.shape[2])
    checked = np.empty(0 if w.size else big * exact.rows.shape[1])
    for g in range(first, last):
        begin = groups.ends[g]
        q = groups.ends[g + 1] - begin
        index, y, v = groups.rows[begin:], groups.y[begin : begin + q], groups.v[begin:]
        K = whole if held else memory[: q * q].reshape(q, q)
        diagonal = numbers[0, :q]
        rows = GroupRows(
            source, groups.parts[g], have[:q], own, own_have, diagonal, held,
            some[0][:0], have[:0], K,
        )  # fmt: skip
        for i in range(q):
            have[i] = keep and have[i]
            diagonal[i] = every_diagonal[index[i]]
        # In a later stage few rows are asked for.
        whole_pays = q <= tiled_rows and (todo[g, first_problem:] == FRESH).any()
        if not held and whole_pays and not rows.have.all():
            fill_tiles(rows, K, tile)
        coefs = all_coefs[m * begin : m * (begin + q)].reshape(m, q)
        images = all_images[m * begin : m * (begin + q)].reshape(m, q)
        work = (numbers[1, :q], numbers[2, :q], numbers[3, :q], numbers[4, :q], gains)
        p, s = terms[:q], slopes[:q]
        pending[g] = m
        for k in range(first_problem, m):
            if todo[g, k] == DONE:
                continue
            a, j = divmod(k, own_m)
            values = table[g, k]
            again = todo[g, k] == AGAIN
            spent = values[STEPS] if again else 0.0
            bound = bounds[g]
            if j > 0:
                theta = values[THETA] = table[g, k - j, THETA]
                bound = max(1.0, 1.0 + spreads[j - 1] * (theta - 1.0))
            values[BOUND] = bound
            # Of a model that is not proven, rounding may hide that it breaks the bound.
            inside = j > 0 and not bound < values[THETA] and proven(table[g, k - j], promise)
            smaller = k - own_m
            start = k - 1 if j > 0 else smaller
            same = inside
            if same:
                start = k - j
            elif a > 0 and _stays(table[g, smaller], coefs[smaller], v, Cs[a - 1], bound, tols[k]):
                same, start = True, smaller
            else:
                _write_terms(y, v, Cs[a], bound, p, s)
                if again:
                    # Where the solution was that of a smaller penalty, it probably is again.
                    start = np.int64(values[SOURCE])
            if not same and a > 0 and (j > 0 or again) and start != smaller:
                other = dual_objective(p, s, coefs[smaller], images[smaller])
                if other > dual_objective(p, s, coefs[start], images[start]):
                    start = smaller
            factor = 1.0
            if start >= 0 and start != k:
                if start == smaller and not same:
                    factor = _growth(p, s, coefs[start], images[start], Cs[a] / Cs[a - 1])
                for i in range(q):
                    coefs[k, i] = coefs[start, i]
                    images[k, i] = factor * images[start, i]
                # A loop of its own: the other would do this in vain.
                for i in range(q if factor > 1.0 else 0):
                    # A coefficient next to its cap would count as free.
                    coef = factor * coefs[start, i]
                    coefs[k, i] = snapped(p, i, coef, 1e-12 * abs(coef))
            if start < 0 and rows.have.all() and not coefs[k].any():
                _start_at_caps(K, y, v, Cs[a], p, s, coefs[k], images[k], some[0])
            values[SOURCE] = k
            if same:
                for i in range(BOUND):
                    values[i] = table[g, start, i]
                for i in range(LARGEST, SOURCE + 1):
                    values[i] = table[g, start, i]
                values[STEPS] = spent
                if j == 0:
                    values[THETA] = table[g, start, THETA]
                for i in range(w.size):
                    directions[g, k, i] = directions[g, start, i]
                continue
            _solve(
                rows, exact, K, diagonal, index, y, p, s, coefs[k], images[k], work,
                numbers[5:], some, matters, w, checked, tols[k], max(0, limit - np.int64(spent)),
                patience, promise, j == 0 and spreads.size > 0 and spreads[0] < 1.0, values,
            )  # fmt: skip
            for i in range(w.size):
                directions[g, k, i] = values[SCALE] * w[i]
            if j == 0 and spreads.size > 0:
                values[THETA] = values[LARGEST]
            taken = values[STEPS]
            values[STEPS] += spent
            if values[STATUS] == UNSOLVED:
                pending[g] = k
                break
            if (
                taken == 0
                and factor == 1.0
                and start >= 0
                and start != k
                and start % own_m == j
                and values[SCALE] == table[g, start, SCALE]
            ):
                values[SOURCE] = table[g, start, SOURCE]
