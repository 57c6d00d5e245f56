"""What the CUDA kernels of the batch solver share: slopes of the terms, and reductions in a block.

Numba's simulator runs the kernels, too, but for the exchange inside warps, which it lacks. Blocks
of the kernels with reductions have a power of two of threads, :data:`THREADS` at most. The order of
every sum is fixed: a fit on a device gives the same model each time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import config, cuda

__all__ = [
    "SIMULATED",
    "THREADS",
    "TILE",
    "extremes",
    "kernel",
    "largest",
    "limit_of",
    "scan",
    "slopes",
    "total_of",
]

# Whether kernels run in Numba's simulator.
SIMULATED = bool(getattr(config, "ENABLE_CUDASIM", 0))
# Most threads of a block that reduces, and with that coefficients of a working set.
THREADS = 1024
# Threads of the kernels that do not reduce.
TILE = 256

# A block of 1024 threads has 64 registers for each of them.
_jit: Any = cuda.jit
kernel = _jit if SIMULATED else _jit(max_registers=64)


@cuda.jit(device=True)
def limit_of(limits, p, i):
    """How far a coefficient may go beyond 0 and its cap, under a finite bound.

    One array of shape (1,) stands for infinite limits: the compiler then drops the other branch.
    """
    if limits.ndim == 1:
        return math.inf
    return limits[p, i]


@cuda.jit(device=True)
def slopes(cap, bound, limit, c):
    """Right and left slope of a term."""
    y = 1.0 if cap > 0.0 else -1.0
    low = min(cap, 0.0)
    high = max(cap, 0.0)
    right = bound if c < low else (y if c < high else -bound)
    left = bound if c <= low else (y if c <= high else -bound)
    if limit < math.inf:
        right = right if c < high + limit else -math.inf
        left = left if c > low - limit else math.inf
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
extremes = _extremes_in_shared_memory if SIMULATED else _extremes_by_warps
largest = _largest_in_shared_memory if SIMULATED else _largest_by_warps


@cuda.jit(device=True)
def total_of(sums, t, size, value):
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
def scan(sums, t, size, value):
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
