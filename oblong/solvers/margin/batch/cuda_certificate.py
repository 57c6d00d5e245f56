"""CUDA kernels that certify solutions of a batch."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda

from oblong.solvers.margin.batch.cuda_reduce import (
    THREADS,
    extremes,
    kernel,
    limit_of,
    slopes,
    total_of,
)

__all__ = ["balance", "certify"]


@kernel
def balance(active, sizes, cap, bound, limits, c):
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
        right, left = slopes(cap[p, i], bound[p], limit_of(limits, p, i), c[p, i])
        if right == left and abs(c[p, i]) > largest:
            largest, place = abs(c[p, i]), i
    total = total_of(low, t, size, total)
    _, place, _ = extremes(high, low, which, t, size, largest, place, 0.0)
    if t == 0 and place >= 0:
        c[p, place] -= total


@cuda.jit(device=True)
def _objective(p, n, t, size, cap, bound, limits, u, own, rows, bias, scale, norm, unit, far, sums):
    """Primal objective at a multiple of the model, and what rounding may make of its losses."""
    value = upper = 0.0
    for i in range(t, n, size):
        y, C = (1.0, cap[p, i]) if cap[p, i] > 0.0 else (-1.0, -cap[p, i])
        f = scale * (u[p, i] + bias)
        error = scale * (unit * own[rows[p, i]] + far)
        value += C * max(1.0 - y * f, 0.0)
        upper += C * max(1.0 - y * f + error, 0.0)
        if limits.ndim == 2:
            value += limits[p, i] * max(abs(f) - bound, 0.0)
            upper += limits[p, i] * max(abs(f) + error - bound, 0.0)
    quadratic = 0.5 * scale * scale * max(norm, 0.0)
    value = quadratic + total_of(sums, t, size, value)
    return value, quadratic + total_of(sums, t, size, upper)


@kernel
def certify(
    active, rows, sizes, cap, bound, limits, c, u, own, unit, lengths, far, promise, halvings, out
):
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
        right, left = slopes(cap[p, i], B, limit_of(limits, p, i), value)
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
    m, _, M = extremes(high, low, which, t, size, m, t, M)
    bias = 0.5 * (m + M)
    if not math.isfinite(bias):
        bias = 0.0
    total = total_of(low, t, size, total)
    absolute = total_of(low, t, size, absolute)
    weight = total_of(low, t, size, weight)
    norm = total_of(low, t, size, norm)
    terms = total_of(low, t, size, terms)
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
    farthest, _, sure = extremes(high, low, which, t, size, farthest, t, -sure)
    sure = -sure
    limit = B / sure if sure > 0.0 and limits.ndim == 1 else math.inf
    scale = min(1.0, limit)
    value, upper = _objective(
        p, n, t, size, cap, B, limits, u, own, rows, bias, scale, norm, error, beyond, low
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
                if limits.ndim == 2 and abs(f) * middle > B:
                    slope += limits[p, i] * abs(f)
            if middle * norm + total_of(low, t, size, slope) > 0.0:
                above = middle
            else:
                below = middle
        other, worst = _objective(
            p, n, t, size, cap, B, limits, u, own, rows, bias, below, norm, error, beyond, low
        )
        worst += 0.5 * below * below * model
        if not upper <= worst:
            scale, value, upper = below, other, worst
    if t == 0:
        out[p, 0], out[p, 1] = scale * bias, scale
        out[p, 2], out[p, 3] = value, dual
        out[p, 4] = max(upper - value, 0.0) + doubt
        out[p, 5], out[p, 6], out[p, 7] = m, M, scale * farthest
