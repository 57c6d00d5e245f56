"""The relative margin machine: a support vector machine with bounded outputs.

Shivaswamy and Jebara, "Maximum Relative Margin and Data-Dependent Regularization", Journal
of Machine Learning Research 11 (2010), solve ::

    min_{w,b}  ½|w|² + Σ C_i [1 - y_i f_i]_+    subject to  |f_i| <= B,   f_i = w·φ_i + b.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oblong._core.progress import ProgressCallback
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.problem import relative_margin_pieces, svm_pieces
from oblong.solvers.margin.solver import MarginResult, solve_margin


@dataclass(frozen=True)
class RelativeMarginResult:
    """Solution of the relative margin problem.

    Attributes
    ----------
    margin : MarginResult
        The solution and its certificate.
    B : float
        The bound on the outputs.
    theta : float
        Largest absolute output of the support vector machine of the same ``C``; NaN if a
        bound was given, so that it was not solved.
    n_iter : int
        Pair steps, those of the support vector machine included.
    """

    margin: MarginResult
    B: float
    theta: float
    n_iter: int

    @property
    def outputs(self) -> np.ndarray:
        """Outputs of the model on the rows."""
        return self.margin.outputs


def solve_relative_margin(
    columns: KernelMatrix,
    y: np.ndarray,
    C: np.ndarray,
    *,
    B: float | None = None,
    spread: float = 0.5,
    tol: float = 1e-3,
    max_iter: int = -1,
    progress: ProgressCallback | None = None,
    starts: np.ndarray | None = None,
) -> RelativeMarginResult:
    """Solve the relative margin problem for an absolute or a relative bound.

    Parameters
    ----------
    columns : KernelMatrix
        The kernel matrix.
    y : ndarray of shape (n,)
        Labels, -1 or +1.
    C : ndarray of shape (n,)
        Penalty of each sample.
    B : float, default=None
        The bound, at least one; none if infinite.
    spread : float, default=0.5
        Without ``B``: the bound is ``1 + spread (theta - 1)``, where ``theta`` is the largest
        absolute output of the support vector machine, whose solution starts the search.
    tol : float, default=1e-3
        Largest violation of the optimality conditions.
    max_iter : int, default=-1
        Limit on pair steps in all; -1 for none.
    progress : callable, default=None
        Called with the state of the search.
    starts : ndarray of shape (2, n), default=None
        Without ``B``: coefficients of sum zero for the support vector machine, between 0 and
        ``y C``, and for the solution to start from.

    Returns
    -------
    RelativeMarginResult
        The solution.
    """
    if B is not None:
        pieces = relative_margin_pieces(y, C, B) if np.isfinite(B) else svm_pieces(y, C)
        bounded = solve_margin(
            columns, pieces, tol=tol, max_iter=max_iter, progress=progress, stage="relative margin"
        )
        return RelativeMarginResult(bounded, float(B), np.nan, bounded.n_iter)
    pieces = svm_pieces(y, C)
    svm = solve_margin(
        columns,
        pieces,
        tol=tol,
        max_iter=max_iter,
        start=None if starts is None else starts[0],
        proof=spread == 1.0,
        progress=progress,
        stage="svm",
    )
    theta = float(np.abs(svm.outputs).max())
    B = max(1.0, 1.0 + spread * (theta - 1.0))
    if spread == 1.0:
        return RelativeMarginResult(svm, B, theta, svm.n_iter)
    # If no output exceeds the bound, only the proof is missing. Rounding may hide that one does; of
    # an indefinite matrix, however, the bounded problem may have no solution.
    if theta > B or svm.status != "converged" or columns.definite:
        pieces = relative_margin_pieces(y, C, B)
    bounded = solve_margin(
        columns,
        pieces,
        tol=tol,
        max_iter=max_iter if max_iter < 0 else max_iter - svm.n_iter,
        start=svm.dual_coef if starts is None else starts[1],
        start_image=svm.image if starts is None else None,
        progress=progress,
        stage="relative margin",
    )
    return RelativeMarginResult(bounded, B, theta, svm.n_iter + bounded.n_iter)
