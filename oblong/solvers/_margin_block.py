"""One block of the margin problem: pair steps with Newton steps between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from oblong.solvers._margin_loops import ascend_pairs
from oblong.solvers.pieces import Pieces

__all__ = ["BlockOutcome", "solve_block"]

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
    polish: bool,
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
    polish : bool
        Whether to end with Newton steps, which make a solution exact once the pieces are
        right that its coefficients lie on.

    Returns
    -------
    BlockOutcome
        Image and slopes at the new coefficients, and the work done.
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
    steps = newton_steps = 0
    for _ in range(_STRETCHES):
        allowed = min(stretch, budget - steps)
        before = c.copy()
        up, low = right - u, left - u
        taken, violation = ascend_pairs(
            K, diagonal, *pieces, c, up, low, scratch, tol, tiny, snap, allowed
        )
        u += K @ (c - before).astype(K.dtype)
        right, left = pieces.slopes_at(c)
        steps += taken
        if np.isnan(violation):
            raise ValueError("the kernel matrix has values that are not finite: scale the data")
        if violation <= tol or steps >= budget:
            break
        newton_steps += _newton_steps(K, pieces, c, u, right, left, snap)
    if polish and violation <= tol:
        state = (c, u, right, left)
        before = [array.copy() for array in state]
        newton_steps += _newton_steps(K, pieces, c, u, right, left, snap)
        if (right - u).max() - (left - u).min() > violation:
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
    target -= target.mean()
    direction = _free_direction(K, free, target)
    if direction is None:
        return None
    rise = float(target @ direction)
    if not rise > 0.0:
        return None
    p = pieces.breakpoints[free]
    old = c[free]
    step, kink = _line_search(pieces.slopes[free], p, old, direction, rise)
    new = np.clip(old + step * direction, p[:, 0], p[:, 3])
    distance = np.abs(new[:, None] - p)
    nearest = distance.argmin(axis=1)
    rows = np.flatnonzero(distance[np.arange(free.size), nearest] <= snap)
    new[rows] = p[rows, nearest[rows]]
    if kink is not None:
        row, which = kink
        new[row] = p[row, which]
    change = np.zeros(len(c), dtype=K.dtype)
    change[free] = new - old
    image = K @ change
    if not float(change @ image) <= 2.0 * step**2 * rise:
        # The curvature differs from the one that was factored: round-off spoilt the direction.
        return None
    u += image
    c[free] = new
    right[free], left[free] = pieces.take(free).slopes_at(new)
    return kink is not None or step < 1.0


def _free_direction(K: np.ndarray, free: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    """Newton direction of sum zero on the free coefficients."""
    block = K[np.ix_(free, free)].astype(np.float64)
    mean = float(block.diagonal().mean())
    if not mean > 0.0:
        return None
    ridge = mean * (1e-10 if K.dtype == np.float64 else 1e-6)
    for _ in range(3):
        block.flat[:: free.size + 1] += ridge
        try:
            factor = cho_factor(block, lower=True, check_finite=False)
        except LinAlgError:
            ridge *= 100.0
            continue
        both = cho_solve(factor, np.column_stack([target, np.ones(free.size)]), check_finite=False)
        direction = both[:, 0] - both[:, 0].sum() / both[:, 1].sum() * both[:, 1]
        return direction - direction.mean()
    return None


def _line_search(
    slopes: np.ndarray, p: np.ndarray, c: np.ndarray, direction: np.ndarray, rise: float
) -> tuple[float, tuple[int, int] | None]:
    """Exact maximiser along a Newton direction, whose curvature equals its ``rise``.

    The derivative at ``t`` is ``rise (1 - t)`` less the drops of slope at the kinks passed.

    Returns
    -------
    step : float
        The maximiser, at most one.
    kink : tuple of int or None
        Row and breakpoint on which the maximiser lies, if it lies on one.
    """
    ends = np.full((len(c), 1), np.inf)
    padded = np.hstack([ends, slopes, -ends])
    with np.errstate(divide="ignore", invalid="ignore"):
        when = (p - c[:, None]) / direction[:, None]
        drop = (padded[:, :-1] - padded[:, 1:]) * np.abs(direction)[:, None]
    rows, which = np.nonzero((when > 0.0) & (when < 1.0))
    if rows.size == 0:
        return 1.0, None
    order = np.argsort(when[rows, which], kind="stable")
    rows, which = rows[order], which[order]
    times = when[rows, which]
    after = np.cumsum(drop[rows, which])
    before = np.concatenate([[0.0], after[:-1]])
    stops = np.flatnonzero(rise * (1.0 - times) <= after)
    if stops.size == 0:
        return 1.0 - after[-1] / rise, None
    k = stops[0]
    if rise * (1.0 - times[k]) <= before[k]:
        return 1.0 - before[k] / rise, None
    return float(times[k]), (int(rows[k]), int(which[k]))
