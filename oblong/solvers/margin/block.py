"""One block of the margin problem: pair steps and Newton steps, or an interior point method."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from oblong._native import margin as native
from oblong.solvers.margin.interior_point import interior_point
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.problem import Pieces


class NoMaximum(Exception):
    """A block whose problem has no maximum: its matrix is indefinite, or not finite."""


class BlockOutcome(NamedTuple):
    """What changed besides the coefficients, which are updated in place."""

    u: np.ndarray
    right: np.ndarray
    left: np.ndarray
    steps: int
    newton_steps: int
    violation: float


def solve_block(
    K: np.ndarray,
    pieces: Pieces,
    c: np.ndarray,
    u: np.ndarray,
    tol: float,
    final_tol: float,
    budget: int,
    interior: bool = False,
    options: MarginOptions = DEFAULTS,
) -> BlockOutcome:
    """Solve the margin problem of one dense block to ``tol``.

    Parameters
    ----------
    K : ndarray of shape (q, q or more)
        The block, in columns that come first.
    pieces : Pieces
        Terms of the block.
    c : ndarray of shape (q,)
        Coefficients, updated in place with their sums kept.
    u : ndarray of shape (q,)
        Image of all coefficients, inside the block and outside, on the block's rows.
    tol : float
        Violation at which the block is solved.
    final_tol : float
        Violation at which the whole problem is; sets the scale below which a distance to a
        breakpoint is round-off.
    budget : int
        Most pair steps to take.
    interior : bool, default=False
        Whether to begin with an interior point method, which costs some twenty Cholesky factors.
    options : MarginOptions
        Tuning constants.

    Returns
    -------
    BlockOutcome
        Slopes at the new coefficients, their image, and the work done.

    Raises
    ------
    NoMaximum
        If values are not finite.
    """
    q = len(c)
    diagonal = K[:, :q].diagonal().astype(np.float64)
    if not np.isfinite(diagonal).all():
        raise NoMaximum
    u = np.array(u)
    right, left = np.empty(q), np.empty(q)
    if interior and not _begin_inside(K[:, :q], pieces, c, u, 0.1 * tol, options):
        native.write_slopes(*pieces, c, right, left)
        return BlockOutcome(u, right, left, 0, 0, violation_of(right, left, u))
    largest = max(float(diagonal.max(initial=0.0)), 1e-300)
    tiny = 4.0 * float(np.finfo(K.dtype).eps) * float(np.abs(diagonal).mean())
    inner = np.abs(pieces.breakpoints[:, 1:3]).max(initial=0.0)
    snap = min(1e-12 * max(inner, float(np.abs(c).max(initial=0.0))), 1e-4 * final_tol / largest)
    sums = np.array([float(c.sum()), 0.0])
    taken, newton, violation = native.solve_block(
        K, diagonal, *pieces, q, sums, c, u, right, left, tol, max(tiny, 1e-300), snap, budget
    )
    if np.isnan(violation):
        raise NoMaximum
    return BlockOutcome(u, right, left, taken, newton, violation)


def violation_of(right: np.ndarray, left: np.ndarray, u: np.ndarray) -> float:
    """How far the optimality conditions are from being met."""
    highest, lowest = interval(right, left, u)
    return highest - lowest


def interval(right: np.ndarray, left: np.ndarray, u: np.ndarray) -> tuple[float, float]:
    """Largest of ``right - u`` and least of ``left - u``."""
    return float((right - u).max()), float((left - u).min())


def balance(c: np.ndarray, right: np.ndarray, left: np.ndarray) -> None:
    """Take the round-off of ``Σc`` from the largest coefficient inside a piece."""
    free = np.flatnonzero(right == left)
    if free.size:
        c[free[np.abs(c[free]).argmax()]] -= c.sum()


def check_definite(pieces: Pieces, c: np.ndarray, u: np.ndarray, tol: float) -> None:
    """Notice when the problem has no maximum: the dual is above what the outputs zero cost.

    Raises
    ------
    NoMaximum
        If so, or if the coefficients have grown beyond all numbers.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        quadratic = float(c @ u)
    if quadratic >= 0.0:
        return
    if not quadratic > -np.inf:
        raise NoMaximum
    if pieces.bounded:
        ceiling = float(pieces.loss(np.zeros(len(c))).sum())
        if pieces.dual(c, u) > ceiling * (1.0 + 1e-6) + tol:
            raise NoMaximum


def _begin_inside(
    K: np.ndarray,
    pieces: Pieces,
    c: np.ndarray,
    u: np.ndarray,
    tol: float,
    options: MarginOptions,
) -> bool:
    """Replace coefficients and image by those of the interior point method, if they are better.

    Returns False if they are inside all pieces, where pair steps and Newton steps get nowhere.
    """
    K = K.astype(np.float64, copy=False)
    found = interior_point(K, pieces, c, u, tol, options)
    if found is None:
        return True
    coef, on_breakpoints = found
    outside = u - K @ c
    image = outside + K @ coef
    # What is outside enters the dual objective of the block with all its weight. Where values are
    # so large that rounding swamps the objective, the violation tells.
    if not (
        pieces.dual(coef, image + outside) >= pieces.dual(c, u + outside)
        and violation_of(*pieces.slopes_at(coef), image)
        <= 100.0 * violation_of(*pieces.slopes_at(c), u)
    ):
        return True
    c[...], u[...] = coef, image
    return on_breakpoints
