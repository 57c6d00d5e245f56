"""CUDA kernels of the batch solver: working sets, pair steps, images and Newton steps.

One thread block works on one problem. A problem ``p`` has coefficients ``c[p]`` with the image
``u[p] = Kc``, the signed caps ``cap[p, i] = y_i C v_i`` and a bound ``bound[p]``, infinite for a
support vector machine: see :mod:`oblong.solvers.margin.batch.problem` for the terms. ``lines[r]``
is the line of ``store`` that has column ``r`` of the kernel matrix.

Numba's simulator runs these kernels, too, but for the exchange inside warps, which it lacks. Blocks
of the kernels with reductions have a power of two of threads, :data:`THREADS` at most. The order of
every sum is fixed: a fit on a device gives the same model each time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import config, cuda

__all__ = [
    "PANEL",
    "SIMULATED",
    "THREADS",
    "TILE",
    "add_columns",
    "ascend",
    "balance",
    "certify",
    "choose",
    "clear",
    "copy_starts",
    "direct",
    "factor_panel",
    "find_free",
    "gather",
    "gather_images",
    "gather_sets",
    "kernel_values",
    "scatter",
    "walk",
]

# Whether kernels run in Numba's simulator.
SIMULATED = bool(getattr(config, "ENABLE_CUDASIM", 0))
# Most threads of a block that reduces, and with that coefficients of a working set.
THREADS = 1024
# Threads of the kernels that do not reduce.
TILE = 256
# Columns of a panel of a Cholesky factor.
PANEL = 64
# Its shared copy has a column more: the transposed inverse of L goes above the diagonal.
_PADDED = (PANEL, PANEL + 1)
# Halvings of the interval in which the smallest chosen violation lies, and of that of a step. The
# simulator takes its time.
_HALVINGS = 2 if SIMULATED else 10
_STEP_HALVINGS = 20 if SIMULATED else 50
# Curvature, over the diagonal, below which a pair counts as flat.
_FLAT = 1e-7


# A block of 1024 threads has 64 registers for each of them.
_jit: Any = cuda.jit
_kernel = _jit if SIMULATED else _jit(max_registers=64)


@cuda.jit(device=True)
def _slopes(cap, bound, c):
    """Right and left slope of a term."""
    y = 1.0 if cap > 0.0 else -1.0
    low = min(cap, 0.0)
    high = max(cap, 0.0)
    right = bound if c < low else (y if c < high else -bound)
    left = bound if c <= low else (y if c <= high else -bound)
    return right, left


@cuda.jit(device=True)
def _extremes_in_shared_memory(high, low, which, t, size, value, place, other):
    """Largest value of all threads and its place, the first of equal ones, and the least other."""
    high[t], which[t], low[t] = value, place, other
    cuda.syncthreads()
    half = size // 2
    while half > 0:
        if t < half:
            k = t + half
            if high[k] > high[t] or (high[k] == high[t] and which[k] < which[t]):
                high[t] = high[k]
                which[t] = which[k]
            low[t] = min(low[t], low[k])
        cuda.syncthreads()
        half //= 2
    value, place, other = high[0], which[0], low[0]
    cuda.syncthreads()
    return value, place, other


@cuda.jit(device=True)
def _extremes_of_warp(value, place, other):
    distance = 16
    while distance > 0:
        rival = cuda.shfl_xor_sync(0xFFFFFFFF, value, distance)
        there = cuda.shfl_xor_sync(0xFFFFFFFF, place, distance)
        other = min(other, cuda.shfl_xor_sync(0xFFFFFFFF, other, distance))
        if rival > value or (rival == value and there < place):
            value = rival
            place = there
        distance //= 2
    return value, place, other


@cuda.jit(device=True)
def _extremes_by_warps(high, low, which, t, size, value, place, other):
    """Do the same with two barriers instead of a dozen."""
    value, place, other = _extremes_of_warp(value, np.int32(place), other)
    lane = t % 32
    if lane == 0:
        high[t // 32], which[t // 32], low[t // 32] = value, place, other
    cuda.syncthreads()
    value, place, other = -math.inf, np.int32(THREADS), math.inf
    if lane < size // 32:
        value, place, other = high[lane], which[lane], low[lane]
    value, place, other = _extremes_of_warp(value, place, other)
    cuda.syncthreads()
    return value, place, other


@cuda.jit(device=True)
def _largest_in_shared_memory(high, which, t, size, value):
    """Thread of the largest value, the first of equal ones."""
    high[t], which[t] = value, t
    cuda.syncthreads()
    half = size // 2
    while half > 0:
        if t < half:
            k = t + half
            if high[k] > high[t] or (high[k] == high[t] and which[k] < which[t]):
                high[t] = high[k]
                which[t] = which[k]
        cuda.syncthreads()
        half //= 2
    place = which[0]
    cuda.syncthreads()
    return place


@cuda.jit(device=True)
def _largest_of_warp(value, place):
    distance = 16
    while distance > 0:
        rival = cuda.shfl_xor_sync(0xFFFFFFFF, value, distance)
        there = cuda.shfl_xor_sync(0xFFFFFFFF, place, distance)
        if rival > value or (rival == value and there < place):
            value = rival
            place = there
        distance //= 2
    return value, place


@cuda.jit(device=True)
def _largest_by_warps(high, which, t, size, value):
    """Do the same with two barriers."""
    value, place = _largest_of_warp(value, np.int32(t))
    lane = t % 32
    if lane == 0:
        high[t // 32], which[t // 32] = value, place
    cuda.syncthreads()
    value, place = np.float32(-2.0), np.int32(THREADS)
    if lane < size // 32:
        value, place = np.float32(high[lane]), which[lane]
    value, place = _largest_of_warp(value, place)
    cuda.syncthreads()
    return place


# The simulator knows no exchange between the threads of a warp.
_extremes = _extremes_in_shared_memory if SIMULATED else _extremes_by_warps
_largest = _largest_in_shared_memory if SIMULATED else _largest_by_warps


@cuda.jit(device=True)
def _total(sums, t, size, value):
    """Sum of a value of every thread."""
    sums[t] = value
    cuda.syncthreads()
    half = size // 2
    while half > 0:
        if t < half:
            sums[t] += sums[t + half]
        cuda.syncthreads()
        half //= 2
    total = sums[0]
    cuda.syncthreads()
    return total


@cuda.jit(device=True)
def _scan(sums, t, size, value):
    """Sum of a value over the threads before this one, and over all."""
    sums[t] = value
    cuda.syncthreads()
    distance = 1
    while distance < size:
        other = sums[t - distance] if t >= distance else 0
        cuda.syncthreads()
        sums[t] += other
        cuda.syncthreads()
        distance *= 2
    before, total = sums[t] - value, sums[size - 1]
    cuda.syncthreads()
    return before, total


@cuda.jit(device=True)
def _violation(cap, bound, c, u, side):
    """How far the slope to one side lies above the image: right for 0, left for 1."""
    right, left = _slopes(cap, bound, c)
    return right - u if side == 0 else u - left


@_kernel
def choose(active, sizes, cap, bound, c, u, target, stamp, turn, chosen, counts, span):
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
        right, left = _slopes(cap[p, i], bound[p], c[p, i])
        m = max(m, right - u[p, i])
        M = min(M, left - u[p, i])
    m, _, M = _extremes(high, low, which, t, size, m, t, M)
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
    for side in range(2):
        # Halve until hardly more rows than wanted lie above; rows in the last interval fill up.
        below, above = (M, m) if side == 0 else (-m, -M)
        middle = below
        for _ in range(_HALVINGS):
            count = 0
            for i in range(t, n, size):
                if _violation(cap[p, i], bound[p], c[p, i], u[p, i], side) > middle:
                    count += 1
            if _total(sums, t, size, count) <= share:
                above = middle
            else:
                below = middle
            middle = 0.5 * (below + above)
        sure = 0
        for i in range(t, n, size):
            value = _violation(cap[p, i], bound[p], c[p, i], u[p, i], side)
            if stamp[p, i] != turn and value > below:
                # Two counts in one number.
                sure += 1 if value > above else 1 << 32
        before, total = _scan(sums, t, size, sure)
        place, rest = before & mask, (total & mask) + (before >> 32)
        for i in range(t, n, size):
            value = _violation(cap[p, i], bound[p], c[p, i], u[p, i], side)
            if stamp[p, i] != turn and value > below:
                if value > above:
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
        right, left = _slopes(cap[p, old], bound[p], c[p, old])
        value = 1 if right == left else 1 << 32
    before, total = _scan(sums, t, size, value)
    if value > 0:
        here = before & mask if value == 1 else (total & mask) + (before >> 32)
        if taken + here < size:
            chosen[p, taken + here] = old
    if t == 0:
        counts[p] = min(size, taken + (total & mask) + (total >> 32))


@_kernel
def gather_sets(active, rows, target, span, chosen, counts, store, lines, sets):
    """Write the matrices of the working sets, so that pair steps read them in order."""
    q = cuda.blockIdx.y
    p = active[q]
    if span[p, 0] - span[p, 1] <= target[p]:
        return
    count = counts[p]
    for a in range(cuda.blockIdx.x, count, cuda.gridDim.x):
        line = lines[rows[p, chosen[p, a]]]
        for b in range(cuda.threadIdx.x, count, cuda.blockDim.x):
            sets[q, a, b] = store[line, rows[p, chosen[p, b]]]


@_kernel
def ascend(
    active,
    rows,
    cap,
    bound,
    c,
    u,
    target,
    span,
    chosen,
    counts,
    sets,
    lines,
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
    ends at the next kink, on it exactly. ``moved`` gets lines of the columns, ``delta`` the changes.
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
    first, second = min(top, 0.0), max(top, 0.0)
    value = c[p, i]
    image = u[p, i]
    start = value
    own[t] = diagonal[r]
    kept = max(0.5 * target[p], accuracy * violation)
    taken = 0
    while taken < budget:
        right, left = _slopes(top, B, value)
        m = right - image if on else -math.inf
        M = left - image if on else math.inf
        m, a, M = _extremes(high, low, which, t, size, m, t, M)
        if not m - M > kept:
            break
        k = sets[q, a, t]
        curvature = max(own[a] + own[t] - 2.0 * k, _FLAT * (own[a] + own[t]))
        fall = m - left + image
        gain = np.float32(fall * fall / curvature) if on and fall > 0.0 else np.float32(-1.0)
        b = _largest(high, which, t, size, gain)
        if t == a:
            shared[0] = math.inf
            if value < first:
                shared[0] = first - value
            elif value < second:
                shared[0] = second - value
        if t == b:
            shared[1] = math.inf
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
            value = new
        if t == b:
            new = value - step
            if value > second and new <= second:
                new = second
            elif first < value <= second and new <= first:
                new = first
            value = new
        image += step * (k - sets[q, b, t])
        taken += 1
    sums = cuda.shared.array(THREADS, np.int32)
    change = value - start if on else 0.0
    before, total = _scan(sums, t, size, 1 if change != 0.0 else 0)
    if change != 0.0:
        c[p, i] = value
        moved[p, before] = lines[r]
        delta[p, before] = change
    if t == 0:
        moves[p] = total
        steps[p] += taken


@_kernel
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


@_kernel
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


@_kernel
def copy_starts(active, sources, sizes, c, u):
    """Copy the coefficients and images of solved problems to those that start from them."""
    p, source = active[cuda.blockIdx.y], sources[cuda.blockIdx.y]
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < sizes[p]:
        c[p, i] = c[source, i]
        u[p, i] = u[source, i]


@_kernel
def clear(active, sizes, values):
    """Set the numbers of problems to zero."""
    p = active[cuda.blockIdx.y]
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < sizes[p]:
        values[p, i] = 0.0


@_kernel
def scatter(active, rows, sizes, c, dense, used):
    """Write the coefficients of problems to columns over all rows, and which rows have some."""
    k = cuda.blockIdx.y
    p = active[k]
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < sizes[p] and c[p, i] != 0.0:
        dense[rows[p, i], k] = c[p, i]
        used[rows[p, i]] = 1


@_kernel
def gather_images(active, rows, sizes, images, u):
    """Undo :func:`scatter` for images."""
    k = cuda.blockIdx.y
    p = active[k]
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < sizes[p]:
        u[p, i] = images[rows[p, i], k]


@_kernel
def balance(active, sizes, cap, bound, c):
    """Take the round-off of ``Σc`` from the largest coefficient inside a piece."""
    p = active[cuda.blockIdx.x]
    t = cuda.threadIdx.x
    size = cuda.blockDim.x
    high = cuda.shared.array(THREADS, np.float64)
    low = cuda.shared.array(THREADS, np.float64)
    which = cuda.shared.array(THREADS, np.int32)
    total, largest, place = 0.0, -1.0, -1
    for i in range(t, sizes[p], size):
        total += c[p, i]
        right, left = _slopes(cap[p, i], bound[p], c[p, i])
        if right == left and abs(c[p, i]) > largest:
            largest, place = abs(c[p, i]), i
    total = _total(low, t, size, total)
    _, place, _ = _extremes(high, low, which, t, size, largest, place, 0.0)
    if t == 0 and place >= 0:
        c[p, place] -= total


@cuda.jit(device=True)
def _objective(p, n, t, size, cap, u, own, rows, bias, scale, norm, unit, far, sums):
    """Primal objective at a multiple of the model, and what rounding may make of its losses."""
    value = upper = 0.0
    for i in range(t, n, size):
        y, C = (1.0, cap[p, i]) if cap[p, i] > 0.0 else (-1.0, -cap[p, i])
        slack = 1.0 - scale * y * (u[p, i] + bias)
        value += C * max(slack, 0.0)
        upper += C * max(slack + scale * (unit * own[rows[p, i]] + far), 0.0)
    quadratic = 0.5 * scale * scale * max(norm, 0.0)
    value = quadratic + _total(sums, t, size, value)
    return value, quadratic + _total(sums, t, size, upper)


@_kernel
def certify(active, rows, sizes, cap, bound, c, u, own, unit, lengths, far, promise, halvings, out):
    """Certify solutions: see :func:`oblong.solvers.margin.result.certify`.

    ``own`` are the square roots of the kernel's diagonal, ``lengths`` those of the weight vectors
    of the linear kernel, and negative for the others. Writes the bias, the factor, the primal and
    the dual objective, what rounding hides, ``m``, ``M`` and the largest absolute output.
    """
    p = active[cuda.blockIdx.x]
    t = cuda.threadIdx.x
    size = cuda.blockDim.x
    n = sizes[p]
    B = bound[p]
    high = cuda.shared.array(THREADS, np.float64)
    low = cuda.shared.array(THREADS, np.float64)
    which = cuda.shared.array(THREADS, np.int32)
    m, M = -math.inf, math.inf
    total = weight = norm = terms = absolute = 0.0
    for i in range(t, n, size):
        value = c[p, i]
        right, left = _slopes(cap[p, i], B, value)
        m = max(m, right - u[p, i])
        M = min(M, left - u[p, i])
        total += value
        absolute += abs(value)
        weight += abs(value) * own[rows[p, i]]
        norm += value * u[p, i]
        a = value if cap[p, i] > 0.0 else -value
        C = abs(cap[p, i])
        terms += min(max(a, 0.0), C)
        excess = max(-a, 0.0) + max(a - C, 0.0)
        if excess > 0.0:
            terms -= B * excess
    m, _, M = _extremes(high, low, which, t, size, m, t, M)
    bias = 0.5 * (m + M)
    if not math.isfinite(bias):
        bias = 0.0
    total = _total(low, t, size, total)
    absolute = _total(low, t, size, absolute)
    weight = _total(low, t, size, weight)
    norm = _total(low, t, size, norm)
    terms = _total(low, t, size, terms)
    length = lengths[cuda.blockIdx.x]
    # Rounding of an output is ``error own_i + beyond``; ``hidden`` is that of the norm.
    error, beyond, hidden = unit * weight, 0.0, unit * weight * weight
    model = hidden
    if length >= 0.0:
        norm = length * length
        error, beyond = unit * length, unit * far[cuda.blockIdx.x]
        hidden, model = unit * weight * (2.0 * length + unit * weight), 0.0
    dual = terms - 0.5 * norm
    # A sum of coefficients other than zero meets every bias, the optimal one too.
    doubt = 0.5 * hidden + (abs(total) + 1e-15 * absolute) * 2.0 * max(1.0, abs(bias))
    if not math.isfinite(dual) or dual - doubt < 0.0:
        # Zero coefficients are a dual point too.
        dual, doubt = 0.0, 0.0
    farthest = sure = 0.0
    for i in range(t, n, size):
        f = abs(u[p, i] + bias)
        farthest = max(farthest, f)
        sure = max(sure, f + error * own[rows[p, i]] + beyond)
    farthest, _, sure = _extremes(high, low, which, t, size, farthest, t, -sure)
    sure = -sure
    limit = B / sure if sure > 0.0 else math.inf
    scale = min(1.0, limit)
    value, upper = _objective(
        p, n, t, size, cap, u, own, rows, bias, scale, norm, error, beyond, low
    )
    upper += 0.5 * scale * scale * model
    if not upper - dual + doubt <= promise * abs(value):
        below, above = 0.0, min(limit, 4.0)
        for _ in range(halvings):
            middle = 0.5 * (below + above)
            slope = 0.0
            for i in range(t, n, size):
                f = u[p, i] + bias
                if (f if cap[p, i] > 0.0 else -f) * middle < 1.0:
                    slope -= cap[p, i] * f
            if middle * norm + _total(low, t, size, slope) > 0.0:
                above = middle
            else:
                below = middle
        other, worst = _objective(
            p, n, t, size, cap, u, own, rows, bias, below, norm, error, beyond, low
        )
        worst += 0.5 * below * below * model
        if not upper <= worst:
            scale, value, upper = below, other, worst
    if t == 0:
        out[p, 0], out[p, 1] = scale * bias, scale
        out[p, 2], out[p, 3] = value, dual
        out[p, 4] = max(upper - value, 0.0) + doubt
        out[p, 5], out[p, 6], out[p, 7] = m, M, scale * farthest


@_kernel
def find_free(active, sizes, cap, bound, c, free, counts):
    """List the coefficients strictly inside a piece."""
    p = active[cuda.blockIdx.x]
    t = cuda.threadIdx.x
    size = cuda.blockDim.x
    sums = cuda.shared.array(THREADS, np.int32)
    count = 0
    for i in range(t, sizes[p], size):
        right, left = _slopes(cap[p, i], bound[p], c[p, i])
        if right == left:
            count += 1
    place, total = _scan(sums, t, size, count)
    for i in range(t, sizes[p], size):
        right, left = _slopes(cap[p, i], bound[p], c[p, i])
        if right == left:
            free[p, place] = i
            place += 1
    if t == 0:
        counts[p] = total


@_kernel
def gather(active, rows, cap, bound, c, u, span, free, counts, store, lines, ridge, A, rhs):
    """Write the matrices of the free coefficients and the right-hand sides of Newton's equations.

    These are the slopes less the outputs, and ones. Missing rows are those of the unit matrix.
    """
    q = cuda.blockIdx.z
    p = active[q]
    b = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if b >= A.shape[2]:
        return
    count = counts[p]
    column = rows[p, free[p, b]] if b < count else 0
    for a in range(cuda.blockIdx.y, A.shape[1], cuda.gridDim.y):
        value = 0.0
        if a < count and b < count:
            value = store[lines[rows[p, free[p, a]]], column]
        if a == b:
            value += ridge if a < count else 1.0
            rhs[q, a, 0] = 0.0
            rhs[q, a, 1] = 0.0
            if a < count:
                i = free[p, a]
                bias = 0.5 * (span[p, 0] + span[p, 1])
                rhs[q, a, 0] = _slopes(cap[p, i], bound[p], c[p, i])[0] - u[p, i] - bias
                rhs[q, a, 1] = 1.0
        A[q, a, b] = value


@_kernel
def factor_panel(A, first, inverse):
    """Factor the block of A on its diagonal, ``LL'``, and invert ``L``; one row per thread."""
    q = cuda.blockIdx.x
    t = cuda.threadIdx.x
    size = cuda.blockDim.x
    L = cuda.shared.array(_PADDED, np.float64)
    for j in range(size):
        L[t, j] = A[q, first + t, first + j]
    cuda.syncthreads()
    for j in range(size):
        if t == j:
            # A pivot lost to rounding: the line search still measures what the direction is worth.
            L[j, j] = math.sqrt(max(L[j, j], 1e-14))
        cuda.syncthreads()
        if t > j:
            L[t, j] /= L[j, j]
        cuda.syncthreads()
        if t > j:
            for k in range(j + 1, t + 1):
                L[t, k] -= L[t, j] * L[k, j]
        cuda.syncthreads()
    for j in range(t + 1):
        A[q, first + t, first + j] = L[t, j]
    # Column t of the inverse by forward substitution, into row t, above the diagonal.
    for i in range(t, size):
        value = 1.0 if i == t else 0.0
        for k in range(t, i):
            value -= L[i, k] * L[t, k + 1]
        L[t, i + 1] = value / L[i, i]
    for i in range(size):
        inverse[q, i, t] = L[t, i + 1] if i >= t else 0.0


@_kernel
def direct(
    active, rows, cap, bound, c, u, free, counts, lines, solution, moved, delta, moves, rise
):
    """Make the Newton direction, of sum zero, of the solutions for the two right-hand sides."""
    q = cuda.blockIdx.x
    p = active[q]
    t = cuda.threadIdx.x
    size = cuda.blockDim.x
    count = counts[p]
    sums = cuda.shared.array(THREADS, np.float64)
    total = weight = 0.0
    for a in range(t, count, size):
        total += solution[q, a, 0]
        weight += solution[q, a, 1]
    total = _total(sums, t, size, total)
    weight = _total(sums, t, size, weight)
    mean = 0.0
    for a in range(t, count, size):
        delta[p, a] = solution[q, a, 0] - total / weight * solution[q, a, 1]
        moved[p, a] = lines[rows[p, free[p, a]]]
        mean += delta[p, a]
    mean = _total(sums, t, size, mean) / max(count, 1)
    slope = 0.0
    for a in range(t, count, size):
        i = free[p, a]
        delta[p, a] -= mean
        slope += delta[p, a] * (_slopes(cap[p, i], bound[p], c[p, i])[0] - u[p, i])
    slope = _total(sums, t, size, slope)
    if t == 0:
        rise[p] = slope
        moves[p] = count if slope > 0.0 else 0


@cuda.jit(device=True)
def _drop(cap, bound, value, d, time):
    """Drops of a term's slope at the kinks that it passes before a time, times its speed."""
    total = 0.0
    for k in range(2):
        kink = 0.0 if k == 0 else cap
        when = (kink - value) / d
        if 0.0 < when < time:
            total += (bound - 1.0 if k == 0 else bound + 1.0) * abs(d)
    return total


@_kernel
def walk(active, sizes, cap, bound, c, u, image, free, delta, moves, rise):
    """Move along the direction by the exact line search over the kinks on the way.

    The derivative at a time is the rise less the time times the curvature, less the drops of
    slope at the kinks passed. ``image`` is that of the direction. A support vector machine's
    coefficients end at their kinks: there the drop is infinite.
    """
    p = active[cuda.blockIdx.x]
    t = cuda.threadIdx.x
    size = cuda.blockDim.x
    sums = cuda.shared.array(THREADS, np.float64)
    count = moves[p]
    B = bound[p]
    bent = 0.0
    for a in range(t, count, size):
        bent += delta[p, a] * image[p, free[p, a]]
    bent = _total(sums, t, size, bent)
    if not (bent > 0.0 and rise[p] > 0.0 and bent < math.inf):
        return
    low, high = 0.0, rise[p] / bent
    for _ in range(_STEP_HALVINGS):
        time = 0.5 * (low + high)
        passed = 0.0
        for a in range(t, count, size):
            i = free[p, a]
            if delta[p, a] != 0.0:
                passed += _drop(cap[p, i], B, c[p, i], delta[p, a], time)
        if rise[p] - time * bent >= _total(sums, t, size, passed):
            low = time
        else:
            high = time
    for a in range(t, count, size):
        i = free[p, a]
        d, value = delta[p, a], c[p, i]
        if d != 0.0:
            new = value + low * d
            for k in range(2):
                kink = 0.0 if k == 0 else cap[p, i]
                # The kink at which the search ended is met exactly, and none is missed by rounding.
                if low < (kink - value) / d <= high or abs(new - kink) <= 1e-14 * abs(cap[p, i]):
                    new = kink
            c[p, i] = new
    for i in range(t, sizes[p], size):
        u[p, i] += low * image[p, i]
