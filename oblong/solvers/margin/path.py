"""The path of the relative margin machine, from the support vector machine to tight bounds.

At a fixed ``C`` the coefficients of the solution (Shivaswamy and Jebara, JMLR 11, 2010)
are a continuous and piecewise linear function of the bound ``B``, so that the solution for one
bound is a good start for the next smaller one.

These are problems of one batch (:mod:`oblong.solvers.margin.batch`), but they are not solved as
one: a path has any number of rows, whose columns are cached and not a matrix, and its coefficients
and outputs have the last digits of Newton steps, so that their pieces can be seen to be straight.
Steps in single precision up to the tolerance, which a search lives on, do not give these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from oblong._core.progress import Run
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.problem import relative_margin_pieces, svm_pieces
from oblong.solvers.margin.solver import MarginResult, solve_margin


@dataclass(frozen=True)
class RelativeMarginPathResult:
    """Solutions of the relative margin problem along a path of bounds.

    Attributes
    ----------
    svm : MarginResult
        The support vector machine that the path starts from.
    margins : tuple of MarginResult
        Solutions with their certificates, in the order of the spreads.
    B : ndarray of shape (n_spreads,)
        The bounds ``1 + spread (theta - 1)``.
    theta : float
        Largest absolute output of the support vector machine.
    n_iter : int
        Pair steps in all.
    """

    svm: MarginResult
    margins: tuple[MarginResult, ...]
    B: np.ndarray
    theta: float
    n_iter: int


def solve_relative_margin_path(
    columns: KernelMatrix,
    y: np.ndarray,
    C: np.ndarray,
    spreads: Sequence[float] | np.ndarray,
    **run: Unpack[Run],
) -> RelativeMarginPathResult:
    """Solve the relative margin problem for several bounds, the largest first.

    Parameters
    ----------
    columns : KernelMatrix
        The kernel matrix; all problems share it, and with it the columns it has cached.
    y : ndarray of shape (n,)
        Labels, -1 or +1.
    C : ndarray of shape (n,)
        Penalty of each sample.
    spreads : sequence of float
        Bounds relative to the support vector machine, between 0 and 1, in any order.
    **run : object
        ``tol``, ``max_iter`` of each problem, and ``progress``, as for
        :func:`~oblong.solvers.margin.solver.solve_margin`.

    Returns
    -------
    RelativeMarginPathResult
        The solutions, in the order of ``spreads``.
    """
    svm = last = solve_margin(columns, svm_pieces(y, C), stage="svm", **run)
    theta = float(np.abs(svm.outputs).max())
    shares = np.asarray(spreads, dtype=np.float64)
    B = np.maximum(1.0, 1.0 + shares * (theta - 1.0))
    margins, steps = [svm] * len(shares), svm.n_iter
    for k in np.argsort(-shares, kind="stable"):
        if shares[k] == 1.0 or (theta <= B[k] and svm.status == "converged"):
            continue
        last = margins[k] = solve_margin(
            columns,
            relative_margin_pieces(y, C, B[k]),
            start=last.dual_coef,
            start_image=last.image,
            stage="relative margin",
            **run,
        )
        steps += last.n_iter
    return RelativeMarginPathResult(svm, tuple(margins), B, theta, steps)
