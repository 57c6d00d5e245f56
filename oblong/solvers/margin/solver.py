"""The margin solver: one method for every model that maximises a margin.

For a positive semidefinite ``K`` and concave piecewise-linear terms ``g_i`` it solves ::

    max_c  Σ g_i(c_i) - ½ c'Kc     subject to  Σ c_i = 0

whose primal is ``min_{w,b} ½|w|² + Σ h_i(w·φ_i + b)`` with the conjugate losses ``h_i`` of
:mod:`oblong.solvers.margin.problem`. With ``u = Kc`` and the right and left slopes
``R_i <= L_i`` of ``g_i`` at ``c_i``, a point is optimal if and only if some bias ``b`` satisfies
``R_i <= u_i + b <= L_i`` for all ``i``, that is if ``m = max(R - u) <= M = min(L - u)``. The solver
stops at ``m - M <= tol``, LIBSVM's rule, where the certificate of
:mod:`oblong.solvers.margin.result` proves the gap that a converged solution promises.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oblong._core.progress import ProgressCallback
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.grid import LARGEST, Groups, single, solve_grid, variants_of
from oblong.solvers.margin.grid_matrix import EXACT
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.problem import Pieces, svm_pieces
from oblong.solvers.margin.result import MarginResult

__all__ = ["MarginResult", "solve_margin", "solve_svm"]


def solve_margin(
    columns: KernelMatrix,
    pieces: Pieces,
    *,
    tol: float = 1e-3,
    max_iter: int = -1,
    start: np.ndarray | None = None,
    start_image: np.ndarray | None = None,
    polish: bool = True,
    proof: bool = True,
    progress: ProgressCallback | None = None,
    stage: str = "margin",
    options: MarginOptions = DEFAULTS,
) -> MarginResult:
    """Maximise ``Σ g_i(c_i) - ½ c'Kc`` over ``Σc = 0``: a grid of one problem.

    Parameters
    ----------
    columns : KernelMatrix
        The matrix ``K``.
    pieces : Pieces
        The terms ``g_i``.
    tol : float, default=1e-3
        Largest violation ``m - M`` of the optimality conditions.
    max_iter : int, default=-1
        Limit on the number of pair steps; -1 for none.
    start : ndarray of shape (n,), default=None
        Coefficients to start from, inside the domains and of sum zero. Zero by default.
    start_image : ndarray of shape (n,), default=None
        ``K @ start``, if known.
    polish : bool, default=True
        Whether to go beyond ``tol``: a solution that meets it but proves too large a gap is made
        more exact, and a small problem ends with Newton steps.
    proof : bool, default=True
        Whether a certificate is wanted, or only the outputs.
    progress : callable, default=None
        Called with a :class:`~oblong._core.progress.Progress`.
    stage : str, default="margin"
        Name of this problem in the reports.
    options : MarginOptions
        Tuning constants.

    Returns
    -------
    MarginResult
        The solution; the arguments are never modified.

    Raises
    ------
    ValueError
        If ``K`` has values that are not finite, or proves to be indefinite while some ``g_i``
        is unbounded.
    """
    variant = variants_of(tol=float(tol))
    if not proof:
        variant["wanted"] = LARGEST
    found = solve_grid(
        columns,
        Groups.of([np.arange(columns.n)], pieces),
        variant,
        promise=options.promise(tol) if polish else np.inf,
        max_iter=max_iter,
        starts=start,
        start_images=start_image,
        polish=polish and columns.n <= EXACT,
        progress=progress,
        stage=stage,
        options=options,
    )
    return single(found)


def solve_svm(matrix: KernelMatrix, y: np.ndarray, C: np.ndarray, **options: Any) -> MarginResult:
    """Solve ``min ½|w|² + Σ C_i [1 - y_i f_i]_+``, the support vector machine.

    Parameters
    ----------
    matrix : KernelMatrix
        The kernel matrix.
    y : ndarray of shape (n,)
        Labels, -1 or +1.
    C : ndarray of shape (n,)
        Penalty of each row.
    **options : object
        Those of :func:`solve_margin`.

    Returns
    -------
    MarginResult
        The solution and its certificate.
    """
    return solve_margin(matrix, svm_pieces(y, C), **options)
