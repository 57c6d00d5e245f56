"""The path of the relative margin machine, from the support vector machine to tight bounds.

At a fixed ``C`` the coefficients of the solution (Shivaswamy and Jebara, JMLR 11, 2010)
are a continuous and piecewise linear function of the bound ``B``, so that the solution for one
bound is a good start for the next smaller one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oblong._core.progress import ProgressCallback
from oblong.linalg.columns import SymmetricColumns
from oblong.solvers.margin.problem import Pieces, relative_margin_pieces, svm_pieces
from oblong.solvers.margin.solver import MarginResult, solve_margin

__all__ = ["RelativeMarginPathResult", "solve_relative_margin_path"]


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
    C : ndarray of shape (n,)
        The penalties.
    n_iter : int
        Pair steps in all.
    """

    svm: MarginResult
    margins: tuple[MarginResult, ...]
    B: np.ndarray
    theta: float
    C: np.ndarray
    n_iter: int


def solve_relative_margin_path(
    columns: SymmetricColumns,
    y: np.ndarray,
    C: np.ndarray,
    spreads: Sequence[float] | np.ndarray,
    *,
    tol: float = 1e-3,
    max_iter: int = -1,
    near: RelativeMarginPathResult | None = None,
    start: np.ndarray | None = None,
    polish: bool = True,
    progress: ProgressCallback | None = None,
) -> RelativeMarginPathResult:
    """Solve the relative margin problem for several bounds, the largest first.

    Parameters
    ----------
    columns : SymmetricColumns
        The kernel matrix; all problems share it, and with it the columns it has cached.
    y : ndarray of shape (n,)
        Labels, -1 or +1.
    C : ndarray of shape (n,)
        Penalty of each sample.
    spreads : sequence of float
        Bounds relative to the support vector machine, between 0 and 1, in any order.
    tol : float, default=1e-3
        Largest violation of the optimality conditions.
    max_iter : int, default=-1
        Limit on the pair steps of each problem; -1 for none.
    near : RelativeMarginPathResult, default=None
        The path of the same spreads at penalties no larger than these, as another start.
    start : ndarray of shape (n,), default=None
        Without ``near``: coefficients for the support vector machine to start from, between 0
        and ``y C`` and of sum zero.
    polish : bool, default=True
        Whether small problems end with Newton steps, see
        :func:`~oblong.solvers.margin.solver.solve_margin`.
    progress : callable, default=None
        Called with the state of the search.

    Returns
    -------
    RelativeMarginPathResult
        The solutions, in the order of ``spreads``.
    """

    def solve(pieces: Pieces, starts: Sequence[MarginResult], stage: str) -> MarginResult:
        best = _best_start(pieces, starts)
        return solve_margin(
            columns,
            pieces,
            tol=tol,
            max_iter=max_iter,
            start=start if best is None else best.dual_coef,
            start_image=None if best is None else best.image,
            polish=polish,
            progress=progress,
            stage=stage,
        )

    unbounded, bounded = svm_pieces(y, C), relative_margin_pieces(y, C, 1.0)
    # The path whose solutions may still hold, if its support vector machine does.
    same = near if near is not None and _holds(near.svm, y, near.C) else None
    if same is not None:
        svm = same.svm.under(unbounded)
    else:
        svm = solve(unbounded, [] if near is None else [near.svm], "svm")
    theta = float(np.abs(svm.outputs).max())
    shares = np.asarray(spreads, dtype=np.float64)
    B = np.maximum(1.0, 1.0 + shares * (theta - 1.0))
    margins: list[MarginResult] = [svm] * len(shares)
    last, steps = svm, svm.n_iter
    for k in np.argsort(-shares, kind="stable"):
        if shares[k] == 1.0 or (theta <= B[k] and svm.status == "converged"):
            continue
        # The bounds differ in the outer slopes only.
        pieces = Pieces(bounded.breakpoints, bounded.slopes.copy())
        pieces.slopes[:, 0], pieces.slopes[:, 2] = B[k], -B[k]
        if same is not None and _holds(same.margins[k], y, same.C):
            last = same.margins[k].under(pieces)
        else:
            starts = [last] if near is None else [last, near.margins[k]]
            last = solve(pieces, starts, "relative margin")
        margins[k] = last
        steps += last.n_iter
    return RelativeMarginPathResult(svm, tuple(margins), B, theta, C, steps)


def _holds(earlier: MarginResult, y: np.ndarray, C: np.ndarray) -> bool:
    """Whether a solution is one for penalties larger than ``C`` as well.

    Short of the smaller penalties the terms are the same, and so is what is optimal.
    """
    return earlier.status == "converged" and bool((y * earlier.dual_coef < C).all())


def _best_start(pieces: Pieces, starts: Sequence[MarginResult]) -> MarginResult | None:
    """Choose the start with the largest dual objective; all are inside the domains."""
    if len(starts) < 2:
        return starts[0] if starts else None

    return max(starts, key=lambda start: pieces.dual(start.dual_coef, start.image))
