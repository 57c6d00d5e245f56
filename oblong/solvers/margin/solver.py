"""The margin solver: one method for every machine that maximises a margin.

For a positive semidefinite ``K`` and concave piecewise-linear terms ``g_i`` it solves ::

    max_c  Σ g_i(c_i) - ½ c'Kc     subject to  Σ c_i = 0

whose primal is ``min_{w,b} ½|w|² + Σ h_i(w·φ_i + b)`` with the conjugate losses ``h_i`` of
:mod:`oblong.solvers.margin.problem`. With ``u = Kc`` and the right and left slopes
``R_i <= L_i`` of ``g_i`` at ``c_i``, a point is optimal if and only if some bias ``b`` satisfies
``R_i <= u_i + b <= L_i`` for all ``i``, that is if ``m = max(R - u) <= M = min(L - u)``.

The method is decomposition with a large working set. Each round takes the worst violators,
solves their problem with the others held fixed (maximal violating pairs with second-order
choice and exact steps over kinks, sped up by Newton steps on the free coefficients) and adds
the change to ``u``. It stops when ``m - M <= tol``, LIBSVM's rule.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from oblong._core.progress import Progress, ProgressCallback
from oblong.linalg.columns import SymmetricColumns, add_columns
from oblong.linalg.principal import PrincipalBlock
from oblong.solvers.margin.block import DenseBlock, check_definite, interval, solve_block
from oblong.solvers.margin.problem import Pieces
from oblong.solvers.margin.result import MarginResult, settled
from oblong.solvers.margin.small import ascend_whole, whole_block

__all__ = ["LARGEST_ERROR", "MarginResult", "solve_margin"]

_NO_LIMIT = np.iinfo(np.int64).max
# Up to this size the whole problem is one block.
_ONE_BLOCK = 1024
_WORKING_SET = 512
# A working set may have this many rows, or more as long as its block is no larger than the cache.
_LARGE_WORKING_SET = 4096
# Above this size the solution of a fraction of the rows makes the start.
_SAMPLE_ABOVE = 4096
_SAMPLE_FRACTION = 5
_SMALLEST_SAMPLE = 2048
# Rounds without progress in the dual or in the violation that count as standing still.
_PATIENCE = 10
# Recomputations in double precision before the columns themselves become double.
_REFRESHES = 8
# Rounding of the outputs, on the scale of the margin, beyond which they mean nothing.
LARGEST_ERROR = 1e-3
# Rows that tell how large the rounding of single precision is.
_ROUNDING_SAMPLE = 256
# How much larger than in the sample the rounding may be elsewhere: the largest of 10⁶ normal
# deviates is 1.5 times the largest of 256.
_BEYOND_SAMPLE = 2.0


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
    progress: ProgressCallback | None = None,
    stage: str = "margin",
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
        Whether a problem of one block ends with Newton steps, which make it more exact than
        ``tol`` asks for and can take as long as the rest.
    progress : callable, default=None
        Called with a :class:`~oblong._core.progress.Progress` after each round.
    stage : str, default="margin"
        Name of this problem in the reports.

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
    limit = _NO_LIMIT if max_iter < 0 else max_iter
    spent = 0
    if start is None and columns.n > _SAMPLE_ABOVE:
        start, spent = _sample_start(columns, pieces, tol, limit, progress)
    counts = (spent, 0, 0)
    block = whole_block(columns) if columns.n <= _ONE_BLOCK and working_set is None else None
    if block is not None:
        whole = ascend_whole(block, pieces, tol, limit, start, start_image, polish)
        c, u, right, left, violation, *counts = whole
        if progress is not None:
            progress(Progress(stage, whole.steps, violation, tol))
        if violation <= tol and block.rounding(c) <= max(tol, LARGEST_ERROR):
            return settled(pieces, c, u, right, left, counts, "converged")
        # What stands in the way, the limit or rounding, is the business of the rounds.
        start, start_image = c, u
    ascent = _Ascent(columns, pieces, tol, start, start_image, working_set, polish)
    ascent.n_iter, ascent.n_newton, ascent.n_rounds = counts
    status = ""
    while not status:
        status = ascent.round(limit)
        if progress is not None:
            progress(Progress(stage, ascent.n_iter, ascent.violation, tol))
    return ascent.result(status)


def _sample_start(
    columns: SymmetricColumns,
    pieces: Pieces,
    tol: float,
    limit: int,
    progress: ProgressCallback | None,
) -> tuple[np.ndarray, int]:
    """Coefficients from the problem of a sample of the rows, and the steps they took.

    Finding out which rows matter is cheap on a sample; on all rows it would cost columns of
    the whole length.
    """
    n = columns.n
    size = max(_SMALLEST_SAMPLE, n // _SAMPLE_FRACTION)
    # Rows are taken evenly along the middle slope, so that both classes come in proportion.
    order = np.argsort(pieces.slopes[:, 1], kind="stable")
    rows = np.sort(order[np.linspace(0, n - 1, size).astype(np.intp)])
    sample = solve_margin(
        columns.restricted(rows),
        pieces.take(rows),
        tol=10.0 * tol,
        max_iter=limit,
        progress=progress,
        stage="sample of the rows",
    )
    start = np.zeros(n)
    start[rows] = sample.coef
    return start, sample.n_iter


class _Ascent:
    """State of the outer loop: coefficients, their image, and the slopes there."""

    def __init__(
        self,
        columns: SymmetricColumns,
        pieces: Pieces,
        tol: float,
        start: np.ndarray | None,
        start_image: np.ndarray | None,
        working_set: int | None,
        polish: bool,
    ) -> None:
        n = columns.n
        self.columns = columns
        self.pieces = pieces
        self.tol = self.target = tol
        self.polish = polish
        self.c = np.zeros(n) if start is None else np.array(start, dtype=np.float64)
        self.u = np.zeros(n)
        self.right, self.left = pieces.slopes_at(self.c)
        if start_image is not None:
            self.u += start_image
        elif start is not None:
            self._add(np.flatnonzero(self.c), self.c[self.c != 0])
        if working_set is None:
            working_set = n if n <= _ONE_BLOCK else _WORKING_SET
        self.smallest_set = max(2, working_set)
        cached = int(np.sqrt(columns.capacity * n))
        self.largest_set = max(self.smallest_set, _LARGE_WORKING_SET, cached)
        # The rows of the last working set.
        self.last: np.ndarray | None = None
        self.terms = float(pieces.value(self.c).sum())
        self.best_dual = -np.inf
        self.least_violation = np.inf
        self.idle_rounds = 0
        self.refreshes = 0
        self.error = np.zeros(n)
        self.n_iter = self.n_newton = self.n_rounds = 0

    @property
    def interval(self) -> tuple[float, float]:
        return interval(self.right, self.left, self.u)

    @property
    def violation(self) -> float:
        m, M = self.interval
        return m - M

    @property
    def _drowned(self) -> bool:
        """Whether the outputs drown in rounding, which no smaller ``tol`` can be blamed for."""
        return float(self.error.max()) > max(self.tol, LARGEST_ERROR)

    def round(self, limit: int) -> str:
        """Do one round; return why to stop, or an empty string."""
        m, M = self.interval
        if m - M <= self.target:
            self._refresh(m, M)
            m, M = self.interval
            if m - M <= self.target:
                return "stalled" if self._drowned else "converged"
            if self.refreshes > _REFRESHES and self.columns.exact:
                return "stalled"
        if self.n_iter >= limit:
            return "max_iter"
        if self.idle_rounds >= _PATIENCE:
            return "stalled"
        chosen = self._choose(m, M)
        self._improve(chosen, m - M, limit - self.n_iter)
        self._watch()
        return ""

    def _choose(self, m: float, M: float) -> np.ndarray:
        """Choose the working set: the worst violators, then the last set, free ones first."""
        n = self.columns.n
        free = int(np.count_nonzero(self.right == self.left))
        size = max(self.smallest_set, int(1.1 * free) + 2)
        size = min(size, self.largest_set, n, self.columns.capacity)
        if size == n:
            return np.arange(n)
        last = np.flatnonzero(self.c) if self.last is None else self.last
        # A column that turns out to be of no use costs more than another round.
        share = max(1, size // 8) if last.size else size // 2
        taken = np.zeros(n, dtype=bool)
        taken[_largest(self.right - self.u, M, share)] = True
        taken[_largest(self.u - self.left, -m, share)] = True
        room = size - int(np.count_nonzero(taken))
        if room > 0:
            rest = last[~taken[last]]
            is_free = self.right[rest] == self.left[rest]
            taken[np.concatenate([rest[is_free], rest[~is_free]])[:room]] = True
        return np.flatnonzero(taken)

    def _improve(self, chosen: np.ndarray, violation: float, budget: int) -> None:
        """Solve the problem of the working set and carry the change to everything else."""
        new = chosen.size
        if self.last is not None:
            new -= np.intersect1d(chosen, self.last, assume_unique=True).size
        block = self._hold(chosen)
        chosen = block.rows
        whole = chosen.size == self.columns.n
        dense = DenseBlock(block.values, self.columns.inverse if whole else None, block.wide)
        if not dense.finite:
            if self.columns.exact:
                raise ValueError("the kernel matrix has values that are not finite: scale the data")
            return self._promote()
        accuracy = _accuracy(new / chosen.size)
        # All rows in their order need no list of them, and views do instead of copies.
        rows = slice(None) if block.wide is self.columns.store else chosen
        terms = self.pieces.take(rows)
        c = self.c[rows].copy()
        outcome = solve_block(
            dense,
            terms,
            c,
            self.u[rows],
            tol=self.target if whole else max(0.5 * self.target, accuracy * violation),
            final_tol=self.tol,
            budget=budget,
            whole=whole,
            polish=self.polish,
        )
        if whole:
            self.u[rows] = outcome.u
        else:
            change = c - self.c[rows]
            moved = change != 0
            self._add(chosen[moved], change[moved])
        self.terms += float((terms.value(c) - terms.value(self.c[rows])).sum())
        self.c[rows] = c
        self.right[rows] = outcome.right
        self.left[rows] = outcome.left
        self.n_iter += outcome.steps
        self.n_newton += outcome.newton_steps
        self.n_rounds += 1
        self.last = chosen
        return None

    def _hold(self, rows: np.ndarray) -> PrincipalBlock:
        """Have the block of some rows, in the memory of the problem before where there was one."""
        if self.columns.held is None:
            self.columns.held = PrincipalBlock()
        self.columns.held.hold(self.columns, rows)
        return self.columns.held

    def _watch(self) -> None:
        """Notice when nothing moves any more."""
        dual = self.terms - 0.5 * float(self.c @ self.u)
        if self.columns.held is not None:
            check_definite(self.columns.held.values, self.pieces, self.c, self.u, self.tol)
        # Near the optimum the dual is flat to the last digit while the violation still falls.
        violation = self.violation
        idle = (
            dual <= self.best_dual + 1e-15 * abs(dual) and violation >= 0.9 * self.least_violation
        )
        self.idle_rounds = self.idle_rounds + 1 if idle else 0
        self.best_dual = max(self.best_dual, dual)
        self.least_violation = min(self.least_violation, violation)

    def _refresh(self, m: float, M: float) -> None:
        """Free ``u`` of the rounding of many updates, and of single precision where it matters.

        A row farther inside its interval than the rounding of its image cannot become a
        violator, so only the rows near the ends of theirs are worth a product in double
        precision; and if some of these show that the rounding is harmless, not even they.
        """
        self.refreshes += 1
        support = np.flatnonzero(self.c)
        coef = self.c[support]
        rounding = self.columns.rounding(support, coef)
        if self.columns.exact:
            self.u[:] = 0.0
            self._add(support, coef)
            self.error = rounding
            return
        near = (self.right - self.u > M - rounding) | (self.left - self.u < m + rounding)
        rows = np.flatnonzero(near)
        if rows.size > _ROUNDING_SAMPLE:
            some = rows[:: rows.size // _ROUNDING_SAMPLE]
            fresh = self.columns.image(some, support, coef)
            error = _BEYOND_SAMPLE * float(np.abs(fresh - self.u[some]).max())
            self.u[some] = fresh
            if 2.0 * error <= 0.5 * self.tol:
                # To be surer of the cached image is cheaper than to compute another one.
                self.target = min(self.target, self.tol - 2.0 * error)
                return
        self.u[rows] = self.columns.image(rows, support, coef)
        if self.refreshes > _REFRESHES:
            self._promote()

    def _promote(self) -> None:
        self.columns = self.columns.promoted()
        self.last = None
        support = np.flatnonzero(self.c)
        self.u = self.columns.image(np.arange(self.columns.n), support, self.c[support])

    def _add(self, indices: np.ndarray, coef: np.ndarray) -> None:
        for first in range(0, indices.size, self.columns.capacity):
            part = slice(first, first + self.columns.capacity)
            slots = self.columns.fetch(indices[part])
            add_columns(self.u, self.columns, slots, coef[part])

    def result(self, status: str) -> MarginResult:
        """Settle what is left to settle, and certify it."""
        counts = (self.n_iter, self.n_newton, self.n_rounds)
        result = settled(self.pieces, self.c, self.u, self.right, self.left, counts, status)
        if not self._drowned:
            return result
        # What the rounding of the image may do to the two objectives belongs to the gap.
        lipschitz = np.abs(self.pieces.breakpoints[:, 1:3]).max(axis=1)
        doubt = 0.5 * float(np.abs(self.c) @ self.error)
        return replace(
            result,
            objective=result.objective + float(lipschitz @ self.error) + doubt,
            dual_objective=result.dual_objective - doubt,
        )


def _accuracy(fresh: float) -> float:
    """Tell to which fraction of the violation a block is worth solving.

    While fresh violators keep coming in, an accurate solution of the block is wasted; once
    the set has settled, it saves rounds.
    """
    return 0.1 * min(1.0, max(0.1, 10.0 * fresh))


def _largest(values: np.ndarray, above: float, count: int) -> np.ndarray:
    """Find the indices of the largest ``count`` values among those above a threshold."""
    candidates = np.flatnonzero(values > above)
    if candidates.size <= count:
        return candidates
    order = np.argpartition(values[candidates], candidates.size - count)
    return candidates[order[candidates.size - count :]]
