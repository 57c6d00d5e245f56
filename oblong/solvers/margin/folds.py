"""Margin problems without some of their rows, solved from the solution with all of them.

A row whose four breakpoints are zero has the coefficient zero, no loss and no bound: the problem
keeps its size and its kernel columns, and every formula of the solver and of the certificate holds.
"""

from __future__ import annotations

import numpy as np

from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.batch.without_loops import shift_weight
from oblong.solvers.margin.problem import Pieces
from oblong.solvers.margin.solver import MarginResult, solve_margin

__all__ = ["image_of", "inside", "solve_without", "start_without", "without"]

# Coefficients this close to a breakpoint, relatively, were at it before they were scaled.
_NEAR = 1e-3
# A gap of more than so many tolerances is worth a more exact solution.
_LOOSE = 10.0


def without(pieces: Pieces, rows: np.ndarray) -> Pieces:
    """Return the terms of the problem in which some rows take no part."""
    breakpoints = pieces.breakpoints.copy()
    breakpoints[rows] = 0.0
    return Pieces(breakpoints, pieces.slopes)


def inside(pieces: Pieces, coef: np.ndarray) -> np.ndarray:
    """Bring the coefficients of a model, which may have been scaled, back to their breakpoints."""
    p = pieces.breakpoints
    coef = np.clip(coef, p[:, 0], p[:, 3])
    for point in p.T:
        near = np.isfinite(point) & (np.abs(coef - point) <= _NEAR * np.abs(point))
        coef = np.where(near, point, coef)
    return coef


def start_without(pieces: Pieces, coef: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Coefficients of sum zero inside the domains, near ``coef``, without those of ``rows``.

    What the rows left out leave behind is taken from the free coefficients, in proportion to
    their room up to the next breakpoint; what is left then, by scaling the heavier sign down.

    Parameters
    ----------
    pieces : Pieces
        The terms, those of ``rows`` already without effect.
    coef : ndarray of shape (n,)
        Coefficients inside the domains of the problem with all rows.
    rows : ndarray of int
        The rows that are left out.
    """
    c = coef.copy()
    c[rows] = 0.0
    shift_weight(*pieces, c, np.empty(c.size))
    return c


def image_of(columns: KernelMatrix, coef: np.ndarray) -> np.ndarray:
    """Product of the matrix with coefficients, by cached columns."""
    image = np.zeros(columns.n)
    support = np.flatnonzero(coef)
    columns.add(image, support, coef[support])
    return image


def solve_without(
    columns: KernelMatrix,
    pieces: Pieces,
    coef: np.ndarray,
    image: np.ndarray,
    rows: np.ndarray,
    *,
    tol: float = 1e-2,
    max_iter: int = -1,
) -> MarginResult:
    """Solve a margin problem without some rows.

    Parameters
    ----------
    columns : KernelMatrix
        The kernel matrix of all rows.
    pieces : Pieces
        The terms of all rows.
    coef, image : ndarray of shape (n,)
        Solution of the problem with all rows, inside its domains, and its image ``K @ coef``.
    rows : ndarray of int
        The rows to leave out. The outputs of the result are those of all rows.
    tol : float, default=1e-2
        Largest violation of the optimality conditions.
    max_iter : int, default=-1
        Limit on pair steps; -1 for none.

    Returns
    -------
    MarginResult
        The solution; the coefficients of ``rows`` are zero.
    """
    reduced = without(pieces, rows)
    start = start_without(reduced, coef, rows)
    moved = image + image_of(columns, start - coef)
    result = solve_margin(
        columns,
        reduced,
        tol=tol,
        max_iter=max_iter,
        start=start,
        start_image=moved,
        polish=tol < 1e-3,
    )
    if result.status == "converged" and result.relative_gap > _LOOSE * tol:
        result = solve_margin(
            columns,
            reduced,
            tol=tol,
            max_iter=max_iter,
            start=result.dual_coef,
            start_image=result.image,
        )
    return result
