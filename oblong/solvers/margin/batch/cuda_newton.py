"""Newton steps on a CUDA device, on all free coefficients of many problems at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import cuda

from oblong._core.threads import chunks
from oblong.solvers.margin.batch import cuda_kernels as kernels
from oblong.solvers.margin.batch.cuda_matrix import launch
from oblong.solvers.margin.batch.cuda_reduce import (
    SIMULATED,
    THREADS,
    kernel,
    limit_of,
    scan,
    slopes,
    total_of,
)

if TYPE_CHECKING:
    from oblong.solvers.margin.batch.cuda_matrix import DeviceMatrix
    from oblong.solvers.margin.batch.cuda_rounds import Rounds

__all__ = ["PANEL", "excess_slopes", "factor_panel", "newton_steps", "solve_definite"]

# Columns of a panel of a Cholesky factor.
PANEL = 64
# Its shared copy has a column more: the transposed inverse of L goes above the diagonal.
_PADDED = (PANEL, PANEL + 1)
# Halvings of the interval of a step. The simulator takes its time.
_STEP_HALVINGS = 20 if SIMULATED else 50
# Ridge, over the mean diagonal, of matrices in either precision.
_RIDGE = {"float32": 1e-6, "float64": 1e-10}


def newton_steps(state: Rounds, active: np.ndarray, largest: int) -> None:
    """Solve ``K_FF d + β 1 = σ - u_F, 1'd = 0`` and move along ``d`` by an exact line search.

    ``F`` are the coefficients strictly inside a piece of slope ``σ``; problems with more than
    ``largest`` of them are left out. The curvature is measured with the image of the direction, so
    that no error in it makes the dual objective fall.
    """
    for part, width in _by_size(state, active, largest):
        _step(state, part, width)


def excess_slopes(state: Rounds, places: np.ndarray) -> np.ndarray:
    """Derivatives of the total excess by the bounds; zero where too many coefficients are free.

    See :func:`oblong.solvers.margin.variable_bound._excess_slope`.
    """
    out = np.zeros(state.shape[0])
    if state.matrix.whole:
        for part, width in _by_size(state, places, state.options.newton_rows):
            active, A, rhs = _equations(state, part, width)
            launch(
                outside, part.size, state.options.tile, state.matrix.stream, active, state.cap,
                state.c, state.free, state.n_free, rhs,
            )  # fmt: skip
            direction = rhs[:, :, 0] + 0.0
            both = solve_definite(state.matrix, state.options.panel, A, rhs)
            rise, weight = (direction[:, :, None] * both).sum(axis=1), both.sum(axis=1)
            slope = weight[:, 0] / weight[:, 1] * rise[:, 1] - rise[:, 0]
            out[part] = state.matrix.arrays.get(slope)
    return np.where(np.isfinite(out), out, 0.0)[places]


def _by_size(state: Rounds, active: np.ndarray, largest: int) -> Iterator[tuple[np.ndarray, int]]:
    """Problems of about the same number of free coefficients, with room for these."""
    options = state.options
    if state.free is None:
        state.free = cuda.to_device(np.zeros(state.shape, dtype=np.int32))
        state.image = cuda.to_device(np.zeros(state.shape))
        state.rise = cuda.to_device(np.zeros(state.shape[0]))
        state.n_free = cuda.to_device(np.zeros(state.shape[0], dtype=np.int32))
    part = cuda.to_device(active.astype(np.int32))
    state.by_problem(
        find_free, part, state.sizes, state.cap, state.bound, state.limits, state.c, state.free,
        state.n_free,
    )  # fmt: skip
    sizes = state.n_free.copy_to_host()[active]
    fits = (sizes >= 2) & (sizes <= largest)
    order = np.argsort(sizes[fits], kind="stable")
    active, sizes = active[fits][order], sizes[fits][order]
    while active.size:
        widest = -(-int(sizes[-1]) // options.panel) * options.panel
        most = max(1, int(options.newton_bytes // (state.matrix.dtype.itemsize * widest**2)))
        count = min(most, int(np.count_nonzero(sizes > widest // 2 - options.panel)))
        yield active[-count:], widest
        active, sizes = active[:-count], sizes[:-count]


def _equations(state: Rounds, active: np.ndarray, width: int) -> tuple[Any, Any, Any]:
    """Problems on the device, their matrices of free coefficients, and right-hand sides."""
    options, matrix = state.options, state.matrix
    part = cuda.to_device(active.astype(np.int32))
    A = matrix.arrays.empty((active.size, width, width), matrix.dtype)
    rhs = matrix.arrays.empty((active.size, width, 2), matrix.dtype)
    ridge = _RIDGE[matrix.dtype.name] * float(np.abs(matrix.diagonal).mean())
    launch(
        gather, (-(-width // options.tile), min(width, 1024), active.size), options.tile,
        matrix.stream, part, state.rows, state.cap, state.bound, state.c, state.u, state.span,
        state.free, state.n_free, matrix.store, matrix.lines, state.base, ridge, A, rhs,
    )  # fmt: skip
    return part, A, rhs


def _step(state: Rounds, active: np.ndarray, width: int) -> None:
    matrix = state.matrix
    part, A, rhs = _equations(state, active, width)
    solution = solve_definite(matrix, state.options.panel, A, rhs)
    state.by_problem(
        direct, part, state.rows, state.cap, state.bound, state.c, state.u, state.free,
        state.n_free, matrix.lines, state.base, solution, state.moved, state.delta, state.moves,
        state.rise,
    )  # fmt: skip
    state.by_row(kernels.clear, part, state.sizes, state.image)
    state.add_columns(part, state.image)
    state.by_problem(
        walk, part, state.sizes, state.cap, state.bound, state.limits, state.c, state.u,
        state.image, state.free, state.delta, state.moves, state.rise,
    )  # fmt: skip


def solve_definite(matrix: DeviceMatrix, panel: int, A: Any, rhs: Any) -> Any:
    """Solve positive definite systems by blocks of ``panel`` columns; both are overwritten."""
    count, width, _ = A.shape
    inverses = []
    parts = list(chunks(width, panel))
    for first, last in parts:
        inverse = matrix.arrays.empty((count, panel, panel), matrix.dtype)
        launch(factor_panel, count, panel, matrix.stream, A, first, inverse)
        inverses.append(inverse)
        if last < width:
            below = A[:, last:, first:last] @ inverse.swapaxes(1, 2)
            A[:, last:, first:last] = below
            A[:, last:, last:] -= below @ below.swapaxes(1, 2)
    for (first, last), inverse in zip(parts, inverses):
        rest = rhs[:, first:last] - A[:, first:last, :first] @ rhs[:, :first]
        rhs[:, first:last] = inverse @ rest
    for (first, last), inverse in zip(parts[::-1], inverses[::-1]):
        rest = rhs[:, first:last] - A[:, last:, first:last].swapaxes(1, 2) @ rhs[:, last:]
        rhs[:, first:last] = inverse.swapaxes(1, 2) @ rest
    return rhs


@kernel
def find_free(active, sizes, cap, bound, limits, c, free, counts):
    """List the coefficients strictly inside a piece."""
    p = active[cuda.blockIdx.x]
    t = cuda.threadIdx.x
    size = cuda.blockDim.x
    sums = cuda.shared.array(THREADS, np.int32)
    count = 0
    for i in range(t, sizes[p], size):
        right, left = slopes(cap[p, i], bound[p], limit_of(limits, p, i), c[p, i])
        if right == left:
            count += 1
    place, total = scan(sums, t, size, count)
    for i in range(t, sizes[p], size):
        right, left = slopes(cap[p, i], bound[p], limit_of(limits, p, i), c[p, i])
        if right == left:
            free[p, place] = i
            place += 1
    if t == 0:
        counts[p] = total


@kernel
def gather(active, rows, cap, bound, c, u, span, free, counts, store, lines, base, ridge, A, rhs):
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
            value = store[base[p] + lines[rows[p, free[p, a]]], column]
        if a == b:
            value += ridge if a < count else 1.0
            rhs[q, a, 0] = 0.0
            rhs[q, a, 1] = 0.0
            if a < count:
                i = free[p, a]
                bias = 0.5 * (span[p, 0] + span[p, 1])
                slope = slopes(cap[p, i], bound[p], math.inf, c[p, i])[0]
                rhs[q, a, 0] = slope - u[p, i] - bias
                rhs[q, a, 1] = 1.0
        A[q, a, b] = value


@kernel
def outside(active, cap, c, free, counts, rhs):
    """Write the derivatives of the free coefficients' slopes by the bound."""
    q = cuda.blockIdx.x
    p = active[q]
    for a in range(cuda.threadIdx.x, counts[p], cuda.blockDim.x):
        i = free[p, a]
        below, above = c[p, i] < min(cap[p, i], 0.0), c[p, i] > max(cap[p, i], 0.0)
        rhs[q, a, 0] = 1.0 if below else (-1.0 if above else 0.0)


@kernel
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


@kernel
def direct(
    active, rows, cap, bound, c, u, free, counts, lines, base, solution, moved, delta, moves, rise
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
    total = total_of(sums, t, size, total)
    weight = total_of(sums, t, size, weight)
    mean = 0.0
    for a in range(t, count, size):
        delta[p, a] = solution[q, a, 0] - total / weight * solution[q, a, 1]
        moved[p, a] = base[p] + lines[rows[p, free[p, a]]]
        mean += delta[p, a]
    mean = total_of(sums, t, size, mean) / max(count, 1)
    slope = 0.0
    for a in range(t, count, size):
        i = free[p, a]
        delta[p, a] -= mean
        # Free coefficients are inside their limits.
        slope += delta[p, a] * (slopes(cap[p, i], bound[p], math.inf, c[p, i])[0] - u[p, i])
    slope = total_of(sums, t, size, slope)
    if t == 0:
        rise[p] = slope
        moves[p] = count if slope > 0.0 else 0


@cuda.jit(device=True)
def _kink(k, cap, limit):
    """The kinks of a term, and then the ends of its domain."""
    if k < 2:
        return 0.0 if k == 0 else cap
    return min(cap, 0.0) - limit if k == 2 else max(cap, 0.0) + limit


@cuda.jit(device=True)
def _drop(kinks, cap, bound, limit, value, d, time):
    """Drops of a term's slope at the kinks that it passes before a time, times its speed."""
    total = 0.0
    for k in range(kinks):
        when = (_kink(k, cap, limit) - value) / d
        if 0.0 < when < time:
            drop = bound - 1.0 if k == 0 else bound + 1.0
            total += (drop if k < 2 else math.inf) * abs(d)
    return total


@kernel
def walk(active, sizes, cap, bound, limits, c, u, image, free, delta, moves, rise):
    """Move along the direction by the exact line search over the kinks on the way.

    The derivative at a time is the rise less the time times the curvature, less the drops of
    slope at the kinks passed. ``image`` is that of the direction. Where coefficients end, as those
    of a support vector machine do at their kinks, the drop is infinite.
    """
    p = active[cuda.blockIdx.x]
    t = cuda.threadIdx.x
    size = cuda.blockDim.x
    sums = cuda.shared.array(THREADS, np.float64)
    count = moves[p]
    B = bound[p]
    # Without a bound coefficients end at the kinks, not beyond them.
    kinks = 2 if limits.ndim == 1 or math.isinf(B) else 4
    bent = 0.0
    for a in range(t, count, size):
        bent += delta[p, a] * image[p, free[p, a]]
    bent = total_of(sums, t, size, bent)
    if not (bent > 0.0 and rise[p] > 0.0 and bent < math.inf):
        return
    low, high = 0.0, rise[p] / bent
    for _ in range(_STEP_HALVINGS):
        time = 0.5 * (low + high)
        passed = 0.0
        for a in range(t, count, size):
            i = free[p, a]
            if delta[p, a] != 0.0:
                limit = limit_of(limits, p, i)
                passed += _drop(kinks, cap[p, i], B, limit, c[p, i], delta[p, a], time)
        if rise[p] - time * bent >= total_of(sums, t, size, passed):
            low = time
        else:
            high = time
    for a in range(t, count, size):
        i = free[p, a]
        d, value = delta[p, a], c[p, i]
        if d != 0.0:
            new = value + low * d
            for k in range(kinks):
                kink = _kink(k, cap[p, i], limit_of(limits, p, i))
                # The kink at which the search ended is met exactly, and none is missed by rounding.
                if low < (kink - value) / d <= high or abs(new - kink) <= 1e-14 * abs(cap[p, i]):
                    new = kink
            c[p, i] = new
    for i in range(t, sizes[p], size):
        u[p, i] += low * image[p, i]
