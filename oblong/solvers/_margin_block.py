"""One block of the margin problem: pair steps with Newton steps between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from oblong._compile import compiled
from oblong.solvers._margin_loops import ascend_pairs
from oblong.solvers._margin_newton import newton_steps
from oblong.solvers.pieces import Pieces, write_slopes

__all__ = ["BlockOutcome", "interval", "solve_block"]

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
    polish: bool = True,
    inverse: np.ndarray | None = None,
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
        end.
    polish : bool, default=True
        Whether to end the whole problem with Newton steps, which make the solution exact once
        the pieces are right that its coefficients lie on.
    inverse : ndarray of shape (q, q), default=None
        Inverse of ``K``, which makes Newton steps cheaper when most coefficients are free.

    Returns
    -------
    BlockOutcome
        Slopes at the new coefficients, their image if the block is whole, and the work done.
    """
    u = np.array(u)
    right, left = pieces.slopes_at(c)
    scratch = np.empty(_STRIP)
    rounding = np.finfo(K.dtype).eps
    tiny = max(4.0 * rounding * float(np.abs(diagonal).mean()), 1e-300)
    size = max(float(np.abs(c).max(initial=0.0)), _largest_finite(pieces.breakpoints))
    snap = min(1e-12 * size, 1e-4 * final_tol / max(float(diagonal.max(initial=0.0)), 1e-300))
    # Newton steps cost the cube of the block; the square over 200 keeps the two in balance.
    stretch = max(200, 4 * len(c), len(c) ** 2 // 200)
    steps = newton = 0
    if inverse is not None:
        # With the inverse at hand Newton steps are cheap, and the start is likely a good one.
        newton += newton_steps(K, inverse, pieces, c, u, right, left, snap)
    for _ in range(_STRETCHES):
        allowed = min(stretch, budget - steps)
        before = c.copy()
        up, low = right - u, left - u
        taken, violation = ascend_pairs(
            K, diagonal, *pieces, c, up, low, scratch, tol, tiny, snap, allowed
        )
        steps += taken
        write_slopes(*pieces, c, right, left)
        if np.isnan(violation):
            raise ValueError("the kernel matrix has values that are not finite: scale the data")
        finished = violation <= tol or steps >= budget
        if whole or not finished:
            u += K @ (c - before).astype(K.dtype)
        if finished:
            break
        newton += newton_steps(K, inverse, pieces, c, u, right, left, snap)
    if whole and polish and violation <= tol:
        state = (c, u, right, left)
        before = [array.copy() for array in state]
        newton += newton_steps(K, inverse, pieces, c, u, right, left, snap)
        highest, lowest = interval(right, left, u)
        if highest - lowest > violation:
            for array, old in zip(state, before):
                array[...] = old
    return BlockOutcome(u, right, left, steps, newton)


def _largest_finite(breakpoints: np.ndarray) -> float:
    return float(np.abs(breakpoints[:, 1:3]).max(initial=0.0))


@compiled
def interval(right, left, u):
    """Largest of ``right - u`` and least of ``left - u``."""
    highest = -np.inf
    lowest = np.inf
    for i in range(u.size):
        highest = max(highest, right[i] - u[i])
        lowest = min(lowest, left[i] - u[i])
    return highest, lowest
