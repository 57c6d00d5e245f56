"""One block of the margin problem: pair steps with Newton steps between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from oblong._compile import compiled
from oblong.solvers._margin_loops import ascend_pairs
from oblong.solvers.pieces import Pieces

__all__ = ["BlockOutcome", "interval", "objectives", "slopes", "solve_block"]

# Newton steps in a row before pair steps get their turn.
_NEWTON_ROW = 3
# Coefficients looked at together, so that they stay in first-level cache.
_STRIP = 512
# Turns of pair steps and Newton steps before the outer loop takes stock.
_STRETCHES = 8


class BlockOutcome(NamedTuple):
    """What changed besides the coefficients, which are updated in place."""

    u: np.ndarray
    right: np.ndarray
    left: np.ndarray
    steps: int
    newton_steps: int


def solve_block(
    K: np.ndarray,
    diagonal: np.ndarray,
    pieces: Pieces,
    c: np.ndarray,
    u: np.ndarray,
    tol: float,
    final_tol: float,
    budget: int,
    whole: bool,
) -> BlockOutcome:
    """Solve the margin problem of one dense block to ``tol``.

    Parameters
    ----------
    K : ndarray of shape (q, q)
        The block of the kernel matrix.
    diagonal : ndarray of shape (q,)
        Its diagonal in double precision.
    pieces : Pieces
        Terms of the block.
    c : ndarray of shape (q,)
        Coefficients, updated in place with their sum kept.
    u : ndarray of shape (q,)
        Image of all coefficients, inside the block and outside, on the block's rows.
    tol : float
        Violation at which the block is solved.
    final_tol : float
        Violation at which the whole problem is; sets the scale below which a distance to a
        breakpoint is round-off.
    budget : int
        Most pair steps to take.
    whole : bool
        Whether the block is the whole problem. Only then is the image kept up to date to the
        end, and the solution polished by Newton steps, which make it exact once the pieces are
        right that its coefficients lie on.

    Returns
    -------
    BlockOutcome
        Slopes at the new coefficients, their image if the block is whole, and the work done.
    """
    u = np.array(u)
    right, left = slopes(*pieces, c)
    scratch = np.empty(_STRIP)
    rounding = np.finfo(K.dtype).eps
    tiny = max(4.0 * rounding * float(np.abs(diagonal).mean()), 1e-300)
    size = max(float(np.abs(c).max(initial=0.0)), _largest_finite(pieces.breakpoints))
    snap = min(1e-12 * size, 1e-4 * final_tol / max(float(diagonal.max(initial=0.0)), 1e-300))
    # Newton steps cost the cube of the block; the square over 200 keeps the two in balance.
    stretch = max(200, 4 * len(c), len(c) ** 2 // 200)
    steps = newton_steps = 0
    for _ in range(_STRETCHES):
        allowed = min(stretch, budget - steps)
        before = c.copy()
        up, low = right - u, left - u
        taken, violation = ascend_pairs(
            K, diagonal, *pieces, c, up, low, scratch, tol, tiny, snap, allowed
        )
        u += K @ (c - before).astype(K.dtype)
        right, left = slopes(*pieces, c)
        steps += taken
        if np.isnan(violation):
            raise ValueError("the kernel matrix has values that are not finite: scale the data")
        if violation <= tol or steps >= budget:
            break
        newton_steps += _newton_steps(K, pieces, c, u, right, left, snap)
    if whole and violation <= tol:
        state = (c, u, right, left)
        before = [array.copy() for array in state]
        newton_steps += _newton_steps(K, pieces, c, u, right, left, snap)
        highest, lowest = interval(right, left, u)
        if highest - lowest > violation:
            for array, old in zip(state, before):
                array[...] = old
    return BlockOutcome(u, right, left, steps, newton_steps)


def _newton_steps(K, pieces, c, u, right, left, snap) -> int:
    """Take Newton steps in a row while they meet kinks; return how many."""
    for count in range(_NEWTON_ROW):
        hit = _newton_step(K, pieces, c, u, right, left, snap)
        if not hit:
            return count + (hit is not None)
    return _NEWTON_ROW


def _largest_finite(breakpoints: np.ndarray) -> float:
    return float(np.abs(breakpoints[:, 1:3]).max(initial=0.0))


def _newton_step(
    K: np.ndarray,
    pieces: Pieces,
    c: np.ndarray,
    u: np.ndarray,
    right: np.ndarray,
    left: np.ndarray,
    snap: float,
) -> bool | None:
    """Jump to the optimum of the free coefficients, or as far towards it as pays.

    Solves ``K_FF d + β 1 = σ - u_F, 1'd = 0`` for the coefficients strictly inside a piece
    of slope ``σ`` and moves along ``d`` by an exact line search over the kinks on the way.

    Returns
    -------
    bool or None
        Whether a kink was met; None if no step was possible.
    """
    free = np.flatnonzero(right == left)
    if free.size < 2:
        return None
    target = right[free] - u[free]
    # The common part goes into the bias; left in, it swamps the rest when K_FF is singular.
    target -= target.sum() / free.size
    direction = _free_direction(K, free, target)
    if direction is None:
        return None
    rise = float(target @ direction)
    if not rise > 0.0:
        return None
    step, row, which = _line_search(*pieces, c, free, direction, rise)
    change = np.zeros(len(c), dtype=K.dtype)
    new = _move(pieces.breakpoints, c, free, direction, step, row, which, snap, change)
    image = K @ change
    if not float(change @ image) <= 2.0 * step**2 * rise:
        # The curvature differs from the one that was factored: round-off spoilt the direction.
        return None
    u += image
    c[free] = new
    right[...], left[...] = slopes(*pieces, c)
    return row >= 0 or step < 1.0


def _free_direction(K: np.ndarray, free: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    """Newton direction of sum zero on the free coefficients."""
    block = np.empty((free.size, free.size))
    mean = _gather(K, free, block)
    if not mean > 0.0:
        return None
    both = np.ones((2, free.size))
    both[0] = target
    ridge = mean * (1e-10 if K.dtype == np.float64 else 1e-6)
    for _ in range(3):
        block.flat[:: free.size + 1] += ridge
        # LAPACK itself: the checks of SciPy's functions around it cost more than small blocks.
        factor, failed = dpotrf(block.T, clean=False)
        if not failed:
            solution, _ = dpotrs(factor, both.T)
            first, second = solution.T
            direction = first - first.sum() / second.sum() * second
            return direction - direction.sum() / free.size
        ridge *= 100.0
    return None


@compiled
def slopes(p, s, c):
    """Right and left slopes of the terms at ``c``; infinite where ``c`` can go no further."""
    right = np.empty(c.size)
    left = np.empty(c.size)
    for i in range(c.size):
        value = c[i]
        right[i] = s[i, 0]
        left[i] = s[i, 2]
        if value >= p[i, 1]:
            right[i] = s[i, 1]
        if value >= p[i, 2]:
            right[i] = s[i, 2]
        if value >= p[i, 3]:
            right[i] = -np.inf
        if value <= p[i, 2]:
            left[i] = s[i, 1]
        if value <= p[i, 1]:
            left[i] = s[i, 0]
        if value <= p[i, 0]:
            left[i] = np.inf
    return right, left


@compiled
def interval(right, left, u):
    """Largest of ``right - u`` and least of ``left - u``."""
    highest = -np.inf
    lowest = np.inf
    for i in range(u.size):
        highest = max(highest, right[i] - u[i])
        lowest = min(lowest, left[i] - u[i])
    return highest, lowest


@compiled
def objectives(p, s, c, f):
    """Sums of the terms ``g(c)`` and of the losses ``h(f)`` for outputs inside the hard bounds."""
    gain = 0.0
    loss = 0.0
    for i in range(c.size):
        # Both are integrals of the slope: g from 0 to c, h over the breakpoints' values of g.
        value = 0.0
        best = -np.inf
        for k in range(3):
            low = p[i, k]
            high = p[i, k + 1]
            value += s[i, k] * (min(max(c[i], low), high) - min(max(0.0, low), high))
        for k in range(4):
            corner = p[i, k]
            if abs(corner) < np.inf:
                g = 0.0
                for j in range(3):
                    low = p[i, j]
                    high = p[i, j + 1]
                    g += s[i, j] * (min(max(corner, low), high) - min(max(0.0, low), high))
                best = max(best, g - corner * f[i])
        gain += value
        loss += best
    return gain, loss


@compiled
def _gather(K, free, out):
    """Copy the principal block of the free rows; return the mean of its diagonal."""
    total = 0.0
    for a in range(free.size):
        row = K[free[a]]
        total += row[free[a]]
        for b in range(free.size):
            out[a, b] = row[free[b]]
    return total / free.size


@compiled
def _move(p, c, free, direction, step, row, which, snap, change):
    """Coefficients after a step, with breakpoints met exactly; fills in the change of each."""
    new = np.empty(free.size)
    for a in range(free.size):
        i = free[a]
        value = min(max(c[i] + step * direction[a], p[i, 0]), p[i, 3])
        nearest = p[i, 0]
        for k in range(1, 4):
            if abs(value - p[i, k]) < abs(value - nearest):
                nearest = p[i, k]
        if abs(value - nearest) <= snap:
            value = nearest
        if a == row:
            value = p[i, which]
        new[a] = value
        change[i] = value - c[i]
    return new


@compiled
def _line_search(p, s, c, free, direction, rise):
    """Exact maximiser along a Newton direction, whose curvature equals its ``rise``.

    The derivative at ``t`` is ``rise (1 - t)`` less the drops of slope at the kinks passed.

    Returns
    -------
    step : float
        The maximiser, at most one.
    row, which : int
        Free row and breakpoint on which the maximiser lies, or -1 twice.
    """
    times = np.empty(4 * free.size)
    drops = np.empty(4 * free.size)
    places = np.empty(4 * free.size, dtype=np.int64)
    count = 0
    for a in range(free.size):
        i = free[a]
        for k in range(4):
            time = (p[i, k] - c[i]) / direction[a]
            if 0.0 < time < 1.0:
                before = np.inf if k == 0 else s[i, k - 1]
                after = -np.inf if k == 3 else s[i, k]
                times[count] = time
                drops[count] = (before - after) * abs(direction[a])
                places[count] = 4 * a + k
                count += 1
    passed = 0.0
    for k in np.argsort(times[:count], kind="mergesort"):
        if rise * (1.0 - times[k]) <= passed + drops[k]:
            if rise * (1.0 - times[k]) <= passed:
                break
            return times[k], places[k] // 4, places[k] % 4
        passed += drops[k]
    return 1.0 - passed / rise, -1, -1
