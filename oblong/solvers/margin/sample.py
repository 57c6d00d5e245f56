"""The start of a large margin problem: the solution of a sample, spread over all rows.

With penalties multiplied by the number of rows that a row of the sample stands for, the function of
the sample estimates that of the whole problem. Its outputs tell which coefficients are at a
breakpoint, and on noisy data these are most of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.options import MarginOptions
from oblong.solvers.margin.problem import Pieces
from oblong.solvers.margin.result import MarginResult


def sample_start(
    solve: Callable[..., MarginResult],
    matrix: KernelMatrix,
    pieces: Pieces,
    options: MarginOptions,
    **run: Any,
) -> tuple[np.ndarray | None, np.ndarray | None, int]:
    """Coefficients from the problem of a sample of the rows, their image, and the steps they took.

    To find out which rows matter is cheap on a sample. Where noise holds coefficients at their
    breakpoints, its outputs tell where those of all rows are; where most are inside a piece, they
    say nothing about those of other rows, and there is no start.

    Parameters
    ----------
    solve : callable
        The solver of the sample, with the arguments ``run``.
    matrix, pieces
        The problem of all rows.
    options : MarginOptions
        Tuning constants.
    """
    steps, least = 0, options.smallest_sample
    # A small sample shows that a larger one would be no start.
    for size in sorted({least, max(least, matrix.n // options.sample_fraction)}):
        rows = sample_rows(pieces, size)
        some = scaled(pieces.take(rows), matrix.n / size)
        sample = solve(
            matrix.restricted(rows),
            some,
            polish=False,
            rough=True,
            stage="sample of the rows",
            options=options,
            **run,
        )
        steps += sample.n_iter
        right, left = some.slopes_at(sample.dual_coef)
        free, support = np.count_nonzero(right == left), np.count_nonzero(sample.dual_coef)
        if 2 * free > support:
            return None, None, steps
    bias = 0.5 * sum(sample.bias_interval)
    return *spread_solution(matrix, pieces, rows, sample.dual_coef, bias), steps


def sample_rows(pieces: Pieces, size: int) -> np.ndarray:
    """Rows evenly along the middle slope, so that both classes come in proportion."""
    order = np.argsort(pieces.slopes[:, 1], kind="stable")
    return np.sort(order[np.linspace(0, len(order) - 1, size).astype(np.intp)])


def scaled(pieces: Pieces, factor: float) -> Pieces:
    """Terms with penalties multiplied by a factor."""
    return Pieces(factor * pieces.breakpoints, pieces.slopes)


def spread_solution(
    matrix: KernelMatrix, pieces: Pieces, rows: np.ndarray, coef: np.ndarray, bias: float
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients to start from, and their image.

    Parameters
    ----------
    matrix : KernelMatrix
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
    image = np.zeros(matrix.n)
    support = np.flatnonzero(coef)
    matrix.add(image, rows[support], coef[support])
    f = image + bias
    # The dual may be lower here than at the sample's coefficients alone, but nearly all that is
    # wrong is few rows near the margin, which a few rounds put right.
    start = pieces.attained(f)
    start[rows] = _snapped(pieces.take(rows), coef * (rows.size / matrix.n))
    _balance(pieces, start, f)
    image[:] = 0.0
    support = np.flatnonzero(start)
    matrix.add(image, support, start[support])
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
