"""The margin solver: one method for every model that maximises a margin.

For a positive semidefinite ``K`` and concave piecewise-linear terms ``g_i`` it solves ::

    max_c  Σ g_i(c_i) - ½ c'Kc     subject to  Σ c_i = 0

whose primal is ``min_{w,b} ½|w|² + Σ h_i(w·φ_i + b)`` with the conjugate losses ``h_i`` of
:mod:`oblong.solvers.margin.problem`. With ``u = Kc`` and the right and left slopes
``R_i <= L_i`` of ``g_i`` at ``c_i``, a point is optimal if and only if some bias ``b`` satisfies
``R_i <= u_i + b <= L_i`` for all ``i``, that is if ``m = max(R - u) <= M = min(L - u)``.

The method is decomposition with a large working set. Each round takes the worst violators,
solves their problem with the others held fixed (maximal violating pairs with second-order
choice and exact steps over kinks, sped up by Newton steps on the free coefficients) and adds
the change to ``u`` (:mod:`oblong.solvers.margin.working_sets`); a small problem is one working set.
Blocks and changes of ``u`` are computed from the rows, and the start of a large problem comes from
a sample. It stops when ``m - M <= tol``, LIBSVM's rule, and the certificate of
:mod:`oblong.solvers.margin.result` proves the gap that a converged solution promises. Where pair
steps crawl, an interior point method on the block takes over; where nothing helps any more, the
solver stops as stalled, with the gap it reached.
"""

from __future__ import annotations

import numpy as np

from oblong._core.progress import Progress, ProgressCallback
from oblong._core.threads import own_threads_only
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.block import NoMaximum
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.problem import Pieces
from oblong.solvers.margin.result import MarginResult
from oblong.solvers.margin.small import ascend_whole, whole_block
from oblong.solvers.margin.working_sets import solve_large

__all__ = ["MarginResult", "solve_margin"]


# Products and kernel values have threads of their own; only large factors release those of BLAS.
@own_threads_only()
def solve_margin(
    matrix: KernelMatrix,
    pieces: Pieces,
    *,
    tol: float = 1e-3,
    max_iter: int = -1,
    start: np.ndarray | None = None,
    start_image: np.ndarray | None = None,
    polish: bool = True,
    rough: bool = False,
    proof: bool = True,
    progress: ProgressCallback | None = None,
    stage: str = "margin",
    options: MarginOptions = DEFAULTS,
) -> MarginResult:
    """Maximise ``Σ g_i(c_i) - ½ c'Kc`` over ``Σc = 0``.

    Parameters
    ----------
    matrix : KernelMatrix
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
        Whether to go beyond ``tol``: a problem of one block ends with Newton steps, and a solution
        that meets ``tol`` but proves too large a gap is made more exact.
    rough : bool, default=False
        Whether to take the image as it is, without a look at its rounding: the certificate is then
        no proof.
    proof : bool, default=True
        Whether to evaluate the solution in double precision for the certificate. Without, the
        certificate leaves out rounding, which is known to be harmless to ``tol``: enough for a
        solution that another problem starts from.
    progress : callable, default=None
        Called with a :class:`~oblong._core.progress.Progress` after each round.
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
    # Of an integer the loops would be compiled anew.
    tol = float(tol)
    matrix = matrix.latest
    counts = (0, 0, 0)
    block = whole_block(matrix) if matrix.n <= options.one_block else None
    if block is not None:
        limit = np.iinfo(np.int64).max if max_iter < 0 else max_iter
        try:
            whole = ascend_whole(block, pieces, tol, limit, start, start_image, polish, options)
        except NoMaximum:
            # The general loop below tells rounding from an indefinite kernel.
            pass
        else:
            if progress is not None:
                progress(Progress(stage, whole.steps, whole.violation, tol))
            start, start_image, counts = whole.c, whole.u, whole[5:]
    return solve_large(
        matrix,
        pieces,
        tol=tol,
        max_iter=max_iter,
        start=start,
        start_image=start_image,
        counts=counts,
        polish=polish,
        rough=rough,
        proof=proof,
        progress=progress,
        stage=stage,
        options=options,
    )
