"""The start of a large margin problem: the solution of a sample, spread over all rows.

With penalties multiplied by the number of rows that a row of the sample stands for, the function of
the sample estimates that of the whole problem. Its outputs tell which coefficients are at a
breakpoint, and on noisy data these are most of them.
"""

from __future__ import annotations

import numpy as np

from oblong.linalg.columns import SymmetricColumns
from oblong.solvers.margin.problem import Pieces

# Of the coefficients that are not zero, the share at a breakpoint that is worth another product.
AT_BREAKPOINTS = 0.2


def sample_rows(pieces: Pieces, size: int) -> np.ndarray:
    """Rows evenly along the middle slope, so that both classes come in proportion."""
    order = np.argsort(pieces.slopes[:, 1], kind="stable")
    return np.sort(order[np.linspace(0, len(order) - 1, size).astype(np.intp)])


def scaled(pieces: Pieces, factor: float) -> Pieces:
    """Terms with penalties multiplied by a factor."""
    return Pieces(factor * pieces.breakpoints, pieces.slopes)


def spread_solution(
    columns: SymmetricColumns, pieces: Pieces, rows: np.ndarray, coef: np.ndarray, bias: float
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients to start from, and their image.

    Parameters
    ----------
    columns : SymmetricColumns
        The whole matrix.
    pieces : Pieces
        The terms of all rows.
    rows : ndarray of shape (size,)
        The sample.
    coef : ndarray of shape (size,)
        Solution of the sample, with the terms :func:`scaled` by ``n / size``.
    bias : float
        Its bias.
    """
    n = columns.n
    own = pieces.take(rows)
    start, image = np.zeros(n), np.zeros(n)
    start[rows] = _snapped(own, coef * (rows.size / n))
    right, left = own.slopes_at(start[rows])
    support = np.flatnonzero(coef)
    if np.count_nonzero((right != left)[support]) > AT_BREAKPOINTS * support.size:
        columns.add(image, rows[support], coef[support], None)
        f = image + bias
        shares = start[rows]
        # The dual may be lower here than at the shares alone, but nearly all that is wrong is few
        # rows near the margin, which a few rounds put right.
        start = pieces.attained(f)
        start[rows] = shares
        _balance(pieces, start, f)
        image[:] = 0.0
    support = np.flatnonzero(start)
    right, left = pieces.slopes_at(start)
    columns.add(image, support, start[support], (right == left)[support])
    return start, image


def _snapped(pieces: Pieces, c: np.ndarray) -> np.ndarray:
    """Put coefficients that rounding has moved off their breakpoints back on them."""
    far = np.abs(pieces.breakpoints - c[:, None])
    nearest = far.argmin(axis=1)
    every = np.arange(len(c))
    place = pieces.breakpoints[every, nearest]
    return np.where(far[every, nearest] <= 1e-12 * np.abs(place), place, c)


def _balance(pieces: Pieces, c: np.ndarray, f: np.ndarray) -> None:
    """Move coefficients to their next breakpoints until the sum is zero, in place.

    First those that it costs least: the nearest to the output at which they would move anyway.
    """
    total = float(c.sum())
    sign = -1.0 if total > 0.0 else 1.0
    right, left = pieces.slopes_at(c)
    p = pieces.breakpoints
    if sign < 0.0:
        cost = left - f
        ahead = np.where(p < c[:, None], p, -np.inf).max(axis=1)
    else:
        cost = f - right
        ahead = np.where(p > c[:, None], p, np.inf).min(axis=1)
    order = np.argsort(cost, kind="stable")
    room = np.cumsum(np.abs(ahead - c)[order])
    count = int(np.searchsorted(room, abs(total)))
    full = order[:count]
    c[full] = ahead[full]
    if count < order.size:
        c[order[count]] -= float(c.sum())
