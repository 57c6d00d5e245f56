"""CUDA kernels of the batch solver: working sets, pair steps and images.

One thread block works on one problem. A problem ``p`` has coefficients ``c[p]`` with the image
``u[p] = Kc``, the signed caps ``cap[p, i] = y_i C v_i``, a bound ``bound[p]``, infinite for a
support vector machine, and ``limits``, the prices of breaking it, see :func:`limit_of`: the terms
are those of :mod:`oblong.solvers.margin.batch.problem`. Column ``r`` of its kernel matrix is line
``base[p] + lines[r]`` of ``store``.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda

from oblong.solvers.margin.batch.cuda_reduce import (
    THREADS,
    TILE,
    extremes,
    kernel,
    largest,
    limit_of,
    scan,
    slopes,
    total_of,
)

__all__ = [
    "add_columns",
    "ascend",
    "choose",
    "clear",
    "copy_starts",
    "gather_images",
    "gather_sets",
    "kernel_values",
    "scatter",
]

# Curvature, over the diagonal, below which a pair counts as flat.
_FLAT = 1e-7


@cuda.jit(device=True)
def _level(cap, bound, limit, c, u, side, m, M, per, size):
    """Interval in which a violation to the right, or to the left, lies; -1 below all of them."""
    right, left = slopes(cap, bound, limit, c)
    above = right - u - M if side == 0 else m + u - left
    return min(int(above * per), size - 1) if above > 0.0 else -1


@kernel
def choose(active, sizes, cap, bound, limits, c, u, target, stamp, turn, chosen, counts, span):
    """Choose the working sets: the worst violators of either side, then the last set.

    Writes the interval ``(m, M)`` of every problem to ``span``, and the rows, as many as threads,
    to ``chosen`` unless the violation meets its target.
    """
    p = active[cuda.blockIdx.x]
    t = cuda.threadIdx.x
    size = cuda.blockDim.x
    n = sizes[p]
    high = cuda.shared.array(THREADS, np.float64)
    low = cuda.shared.array(THREADS, np.float64)
    which = cuda.shared.array(THREADS, np.int32)
    sums = cuda.shared.array(THREADS, np.int64)
    m, M = -math.inf, math.inf
    for i in range(t, n, size):
        right, left = slopes(cap[p, i], bound[p], limit_of(limits, p, i), c[p, i])
        m = max(m, right - u[p, i])
        M = min(M, left - u[p, i])
    m, _, M = extremes(high, low, which, t, size, m, t, M)
    if t == 0:
        span[p, 0], span[p, 1] = m, M
    if m - M <= target[p]:
        return
    if n <= size:
        if t < n:
            chosen[p, t] = t
        if t == 0:
            counts[p] = n
        return
    old = chosen[p, t] if t < counts[p] else -1
    share = size // 4 if counts[p] > 0 else size // 2
    cuda.syncthreads()
    taken = 0
    mask = (1 << 32) - 1
    # Count the violations of either side in as many equal intervals as threads.
    hist = cuda.shared.array((2, THREADS), np.int32)
    hist[0, t] = hist[1, t] = 0
    per = size / (m - M)
    cuda.syncthreads()
    for i in range(t, n, size):
        for side in range(2):
            limit = limit_of(limits, p, i)
            level = _level(cap[p, i], bound[p], limit, c[p, i], u[p, i], side, m, M, per, size)
            if level >= 0:
                cuda.atomic.add(hist, (side, level), 1)
    cuda.syncthreads()
    for side in range(2):
        # Levels with no more rows than wanted are sure; those of the next lower one fill up.
        count = hist[side, size - 1 - t]
        before, total = scan(sums, t, size, count)
        few = total_of(sums, t, size, 1 if before + count <= share else 0)
        sure = 0
        for i in range(t, n, size):
            limit = limit_of(limits, p, i)
            level = _level(cap[p, i], bound[p], limit, c[p, i], u[p, i], side, m, M, per, size)
            if stamp[p, i] != turn and level >= max(0, size - few - 1):
                # Two counts in one number.
                sure += 1 if level >= size - few else 1 << 32
        before, total = scan(sums, t, size, sure)
        place, rest = before & mask, (total & mask) + (before >> 32)
        for i in range(t, n, size):
            limit = limit_of(limits, p, i)
            level = _level(cap[p, i], bound[p], limit, c[p, i], u[p, i], side, m, M, per, size)
            if stamp[p, i] != turn and level >= max(0, size - few - 1):
                if level >= size - few:
                    here = place
                    place += 1
                else:
                    here = rest
                    rest += 1
                if here < share:
                    chosen[p, taken + here] = i
                    stamp[p, i] = turn
        taken += min(share, (total & mask) + (total >> 32))
        cuda.syncthreads()
    value = 0
    if old >= 0 and stamp[p, old] != turn:
        right, left = slopes(cap[p, old], bound[p], limit_of(limits, p, old), c[p, old])
        value = 1 if right == left else 1 << 32
    before, total = scan(sums, t, size, value)
    if value > 0:
        here = before & mask if value == 1 else (total & mask) + (before >> 32)
        if taken + here < size:
            chosen[p, taken + here] = old
    if t == 0:
        counts[p] = min(size, taken + (total & mask) + (total >> 32))


@kernel
def gather_sets(active, rows, target, span, chosen, counts, store, lines, base, sets):
    """Write the matrices of the working sets, so that pair steps read them in order."""
    q = cuda.blockIdx.y
    p = active[q]
    if span[p, 0] - span[p, 1] <= target[p]:
        return
    count = counts[p]
    for a in range(cuda.blockIdx.x, count, cuda.gridDim.x):
        line = base[p] + lines[rows[p, chosen[p, a]]]
        for b in range(cuda.threadIdx.x, count, cuda.blockDim.x):
            sets[q, a, b] = store[line, rows[p, chosen[p, b]]]


@kernel
def ascend(
    active,
    rows,
    cap,
    bound,
    limits,
    c,
    u,
    target,
    span,
    chosen,
    counts,
    sets,
    lines,
    base,
    diagonal,
    accuracy,
    budget,
    steps,
    moved,
    delta,
    moves,
):
    """Take pair steps on the working sets; write the coefficients and how far they moved.

    The pair has the largest right slope less image and, among the others, the largest rise. A step
    ends at the next kink, on it exactly. ``moved`` gets lines of columns, ``delta`` the changes.
    """
    q = cuda.blockIdx.x
    p = active[q]
    t = cuda.threadIdx.x
    size = cuda.blockDim.x
    violation = span[p, 0] - span[p, 1]
    if violation <= target[p]:
        if t == 0:
            moves[p] = 0
        return
    high = cuda.shared.array(THREADS, np.float64)
    low = cuda.shared.array(THREADS, np.float64)
    which = cuda.shared.array(THREADS, np.int32)
    own = cuda.shared.array(THREADS, np.float32)
    shared = cuda.shared.array(3, np.float64)
    on = t < counts[p]
    i = chosen[p, t] if on else 0
    r = rows[p, i]
    top = cap[p, i]
    B = bound[p]
    limit = limit_of(limits, p, i)
    first, second = min(top, 0.0), max(top, 0.0)
    value = c[p, i]
    image = u[p, i]
    start = value
    own[t] = diagonal[r]
    kept = max(0.5 * target[p], accuracy * violation)
    taken = 0
    while taken < budget:
        right, left = slopes(top, B, limit, value)
        m = right - image if on else -math.inf
        M = left - image if on else math.inf
        m, a, M = extremes(high, low, which, t, size, m, t, M)
        if not m - M > kept:
            break
        k = sets[q, a, t]
        curvature = max(own[a] + own[t] - 2.0 * k, _FLAT * (own[a] + own[t]))
        fall = m - left + image
        gain = np.float32(fall * fall / curvature) if on and fall > 0.0 else np.float32(-1.0)
        b = largest(high, which, t, size, gain)
        if t == a:
            shared[0] = second + limit - value
            if value < first:
                shared[0] = first - value
            elif value < second:
                shared[0] = second - value
        if t == b:
            shared[1] = value - (first - limit)
            if value > second:
                shared[1] = value - second
            elif value > first:
                shared[1] = value - first
            shared[2] = fall / curvature
        cuda.syncthreads()
        step = min(shared[2], min(shared[0], shared[1]))
        if t == a:
            new = value + step
            if value < first and new >= first:
                new = first
            elif first <= value < second and new >= second:
                new = second
            elif new >= second + limit:
                new = second + limit
            value = new
        if t == b:
            new = value - step
            if value > second and new <= second:
                new = second
            elif first < value <= second and new <= first:
                new = first
            elif new <= first - limit:
                new = first - limit
            value = new
        image += step * (k - sets[q, b, t])
        taken += 1
    sums = cuda.shared.array(THREADS, np.int32)
    change = value - start if on else 0.0
    before, total = scan(sums, t, size, 1 if change != 0.0 else 0)
    if change != 0.0:
        c[p, i] = value
        moved[p, before] = base[p] + lines[r]
        delta[p, before] = change
    if t == 0:
        moves[p] = total
        steps[p] += taken


@kernel
def add_columns(active, rows, sizes, store, moved, delta, moves, u):
    """Add the columns of the coefficients that moved to the images."""
    p = active[cuda.blockIdx.y]
    t = cuda.threadIdx.x
    size = cuda.blockDim.x
    i = cuda.blockIdx.x * size + t
    on = i < sizes[p]
    r = rows[p, i] if on else 0
    line = cuda.shared.array(TILE, np.int32)
    change = cuda.shared.array(TILE, np.float64)
    count = moves[p]
    total = 0.0
    for first in range(0, count, size):
        cuda.syncthreads()
        if first + t < count:
            line[t] = moved[p, first + t]
            change[t] = delta[p, first + t]
        cuda.syncthreads()
        if on:
            for k in range(min(size, count - first)):
                total += change[k] * store[line[k], r]
    if on:
        u[p, i] += total


@kernel
def kernel_values(G, left, right, kind, coef0, degree):
    """Turn products of rows into kernel values in place.

    ``kind`` is 0 for the rbf kernel, whose half norms ``left`` and ``right`` are, 1 for the
    polynomial and 2 for the sigmoid.
    """
    j = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if j >= G.shape[1]:
        return
    for i in range(cuda.blockIdx.y, G.shape[0], cuda.gridDim.y):
        if kind == 0:
            value = G[i, j] - left[i] - right[j]
            # Rounding must not make a distance negative.
            G[i, j] = math.exp(min(value, value - value))
        else:
            value = G[i, j] + coef0[0]
            if kind == 1:
                power = value
                for _ in range(degree - 1):
                    power *= value
                G[i, j] = power
            else:
                G[i, j] = math.tanh(value)


@kernel
def copy_starts(active, sources, sizes, c, u):
    """Copy the coefficients and images of solved problems to those that start from them."""
    p, source = active[cuda.blockIdx.y], sources[cuda.blockIdx.y]
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < sizes[p]:
        c[p, i] = c[source, i]
        u[p, i] = u[source, i]


@kernel
def clear(active, sizes, values):
    """Set the numbers of problems to zero."""
    p = active[cuda.blockIdx.y]
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < sizes[p]:
        values[p, i] = 0.0


@kernel
def scatter(active, rows, sizes, c, dense, used):
    """Write the coefficients of problems to columns over all rows, and which rows have some."""
    k = cuda.blockIdx.y
    p = active[k]
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < sizes[p] and c[p, i] != 0.0:
        dense[rows[p, i], k] = c[p, i]
        used[rows[p, i]] = 1


@kernel
def gather_images(active, rows, sizes, images, u):
    """Undo :func:`scatter` for images."""
    k = cuda.blockIdx.y
    p = active[k]
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < sizes[p]:
        u[p, i] = images[rows[p, i], k]
