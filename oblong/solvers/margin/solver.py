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
the change to ``u``. With many dense rows no columns are stored: blocks and changes of ``u`` are
computed from the rows, the start comes from a sample, and rows far inside their intervals get the
changes of many rounds at once. It stops when ``m - M <= tol``, LIBSVM's rule, and the certificate
of :mod:`oblong.solvers.margin.result` proves the gap that a converged solution promises. Where pair
steps crawl, an interior point method on the block takes over; where nothing helps any more, the
solver stops as stalled, with the gap it reached.
"""

from __future__ import annotations

import numpy as np

from oblong._core.progress import Progress, ProgressCallback
from oblong._core.threads import own_threads_only
from oblong.linalg.columns import SymmetricColumns
from oblong.solvers.margin.ascent import Ascent
from oblong.solvers.margin.block import NoMaximum
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.problem import Pieces
from oblong.solvers.margin.result import MarginResult
from oblong.solvers.margin.sample import AT_BREAKPOINTS, sample_rows, scaled, spread_solution
from oblong.solvers.margin.small import ascend_whole, whole_block

__all__ = ["MarginResult", "solve_margin"]

_NO_LIMIT = np.iinfo(np.int64).max


# Products and kernel values have threads of their own; only large factors release those of BLAS.
@own_threads_only()
def solve_margin(
    columns: SymmetricColumns,
    pieces: Pieces,
    *,
    tol: float = 1e-3,
    max_iter: int = -1,
    start: np.ndarray | None = None,
    start_image: np.ndarray | None = None,
    working_set: int | None = None,
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
    columns : SymmetricColumns
        The matrix ``K``, by its columns.
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
    working_set : int, default=None
        Smallest number of coefficients in a working set. By default the whole problem up to
        1024 rows and 512 beyond. It grows with the number of free coefficients.
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
    limit = _NO_LIMIT if max_iter < 0 else max_iter
    columns = columns.latest
    spent = 0
    if start is None and columns.n > options.sample_above:
        start, start_image, spent = _sample_start(columns, pieces, tol, limit, progress, options)
    counts: tuple[int, ...] = (spent, 0, 0)
    if columns.n <= options.one_block and working_set is None:
        block = whole_block(columns)
        if block is not None:
            try:
                whole = ascend_whole(block, pieces, tol, limit, start, start_image, polish, options)
            except NoMaximum:
                # The general loop below tells rounding from an indefinite kernel.
                pass
            else:
                if progress is not None:
                    progress(Progress(stage, whole.steps, whole.violation, tol))
                start, start_image, counts = whole.c, whole.u, whole[5:]
    wishes = (polish, rough, proof)
    ascent = Ascent(columns, pieces, tol, start, start_image, working_set, *wishes, options)
    ascent.n_iter, ascent.n_newton, ascent.n_rounds = counts
    while True:
        result = ascent.round(limit)
        if result is not None:
            return result
        if progress is not None:
            progress(Progress(stage, ascent.n_iter, ascent.violation, tol))


def _sample_start(
    columns: SymmetricColumns,
    pieces: Pieces,
    tol: float,
    limit: int,
    progress: ProgressCallback | None,
    options: MarginOptions,
) -> tuple[np.ndarray | None, np.ndarray | None, int]:
    """Coefficients from the problem of a sample of the rows, their image, and the steps they took.

    Finding out which rows matter is cheap on a sample; on all rows it would cost products of
    the whole length. Where most coefficients are free, they say nothing about those of other rows;
    a few rows show that.
    """
    size = max(options.smallest_sample, columns.n // options.sample_fraction)
    spent = 0
    for count in (options.smallest_sample // 4, size):
        rows = sample_rows(pieces, count)
        own = scaled(pieces.take(rows), columns.n / count)
        sample = solve_margin(
            columns.restricted(rows),
            own,
            tol=options.sample_tol * tol,
            max_iter=limit,
            polish=False,
            rough=True,
            progress=progress,
            stage="sample of the rows",
            options=options,
        )
        spent += sample.n_iter
        right, left = own.slopes_at(sample.dual_coef)
        free, support = np.count_nonzero(right == left), np.count_nonzero(sample.dual_coef)
        # Few rows with large penalties are free in any case, unless noise holds some of them back.
        if 2 * free > count and free > (1.0 - AT_BREAKPOINTS) * support:
            return None, None, spent
    bias = 0.5 * sum(sample.bias_interval)
    start, image = spread_solution(columns, pieces, rows, sample.dual_coef, bias)
    return start, image, spent
