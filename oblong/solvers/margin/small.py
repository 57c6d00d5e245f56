"""Margin problems whose whole matrix is one block in memory, with as little around it as can be.

Small problems come by the thousand (pairs of classes, times penalties, bounds and folds), and
what a round of the general method takes stock of then costs as much as the solution itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.block import DenseBlock, interval, solve_block
from oblong.solvers.margin.options import MarginOptions
from oblong.solvers.margin.problem import Pieces, write_slopes


class SharedColumns(KernelMatrix):
    """A matrix in memory that many problems share.

    Attributes
    ----------
    dense : DenseBlock or None
        The whole matrix with what follows from it alone; None in single precision.
    """

    def __init__(self, values: np.ndarray, *, definite: bool = False, threads: int = 1) -> None:
        super().__init__(values, definite=definite, threads=threads)
        whole = self.whole()
        self.dense = DenseBlock(whole) if whole is not None and whole.dtype == np.float64 else None


def whole_block(matrix: KernelMatrix) -> DenseBlock | None:
    """Return the whole matrix as one block, or None where it does not fit in double precision."""
    if isinstance(matrix, SharedColumns):
        block = matrix.dense
    else:
        whole = matrix.whole() if matrix.dtype == np.float64 else None
        block = None if whole is None else DenseBlock(whole)
    return block if block is not None and block.finite else None


class WholeAscent(NamedTuple):
    """Coefficients, their image and slopes, and the work that they took."""

    c: np.ndarray
    u: np.ndarray
    right: np.ndarray
    left: np.ndarray
    violation: float
    steps: int
    newton_steps: int
    rounds: int


def ascend_whole(
    block: DenseBlock,
    pieces: Pieces,
    tol: float,
    limit: int,
    start: np.ndarray | None,
    start_image: np.ndarray | None,
    polish: bool,
    options: MarginOptions,
) -> WholeAscent:
    """Solve the problem of a whole matrix by rounds on its one block.

    After pair steps that would have paid for an interior point method, or rounds that lead nowhere,
    one is tried.

    The image that the violation is measured with is a fresh product with the matrix.

    Parameters
    ----------
    block : DenseBlock
        The matrix, in double precision.
    pieces : Pieces
        The terms.
    tol, limit, start, start_image, polish, options
        As in :func:`~oblong.solvers.margin.solver.solve_margin`.

    Returns
    -------
    WholeAscent
        Where the ascent arrived, at a violation of ``tol`` or above.
    """
    n = len(block.K)
    c = np.zeros(n) if start is None else np.array(start, dtype=np.float64)
    u = np.zeros(n) if start is None else start_image
    right, left = np.empty(n), np.empty(n)
    write_slopes(*pieces, c, right, left)
    if u is None or _violation(right, left, u) <= tol:
        u = block.K @ c
    violation = _violation(right, left, u)
    steps = newton = rounds = idle = 0
    least = violation
    interior = False
    while violation > tol and steps < limit:
        crawling = steps >= options.crawl(n) or idle >= options.patience
        if crawling and interior:
            break
        interior = crawling
        budget = min(limit - steps, options.crawl(n))
        outcome = solve_block(
            block, pieces, c, u, tol, tol, budget, True, polish, interior, options
        )
        u, right, left, taken, more, _ = outcome
        violation = _violation(right, left, u)
        # Rounds that take no step make no progress either.
        steps += max(taken, 1)
        newton += more
        rounds += 1
        idle = 0 if violation < 0.9 * least else idle + 1
        least = min(least, violation)
        if not taken and not more and not interior:
            break
    return WholeAscent(c, u, right, left, violation, steps, newton, rounds)


def _violation(right: np.ndarray, left: np.ndarray, u: np.ndarray) -> float:
    m, M = interval(right, left, u)
    return m - M
