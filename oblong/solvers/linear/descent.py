"""Dual coordinate descent for linear margin problems with sparse or wide rows.

The dual of :mod:`oblong.solvers.linear.problem` is maximised over one coefficient at a time, in
random order, while the weights ``w = Σ c_i x_i`` are kept up to date (Hsieh et al., "A dual
coordinate descent method for large-scale linear SVM", ICML 2008). Its two joint constraints are
left to the method of multipliers: an inner problem has the bias ``b + R Σc`` in place of ``Σc = 0``
and the bound ``max(1, t + R (Σe - D))`` in place of ``Σe <= D``, and once it is solved well enough
its bias and bound become the multipliers ``b`` and ``t`` of the next. So the bias is exact, not
regularised like that of an appended constant feature.

A hard bound is only as good as its worst row, so rows with excess, few as they are, are visited
several times for each visit of the others. Single coefficients make slow progress where rows are
nearly dependent, above all under a tight bound, whose multipliers no box holds: where the sweeps
get on slowly, all free coefficients, those between two kinks of the dual, move at once, in a
direction of ascent from conjugate gradients.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from oblong._core.progress import Progress, ProgressCallback
from oblong.solvers.linear.descent_state import DescentState
from oblong.solvers.linear.joint_step import joint_step
from oblong.solvers.linear.options import DEFAULTS, LinearOptions
from oblong.solvers.linear.problem import LinearProblem, LinearResult, certified


def solve_descent(
    problem: LinearProblem,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    start: np.ndarray | None = None,
    start_bias: float = 0.0,
    rng: np.random.Generator | None = None,
    progress: ProgressCallback | None = None,
    stage: str = "descent",
    options: LinearOptions = DEFAULTS,
) -> LinearResult:
    """Solve a linear margin problem by dual coordinate descent.

    Parameters
    ----------
    problem : LinearProblem
        The problem; its rows are not centred.
    tol : float, default=1e-4
        Largest relative gap between the primal and the dual objective.
    max_iter : int, default=1000
        Limit on passes over the rows; -1 for none but a safeguard.
    start : ndarray of shape (n,), default=None
        Coefficients to start from; zero by default.
    start_bias : float, default=0.0
        Bias to start from.
    rng : numpy.random.Generator, default=None
        Source of the random orders.
    progress : callable, default=None
        Called with a :class:`~oblong._core.progress.Progress` after each pass; the violation is
        that of the optimality conditions.
    stage : str, default="descent"
        Name of this problem in the reports.
    options : LinearOptions
        Tuning constants.

    Returns
    -------
    LinearResult
        The solution, with a certificate that does not depend on the method.
    """
    limit = options.most_passes if max_iter < 0 else max_iter
    state = DescentState(problem, start, start_bias, options)
    method = _Descent(state, rng or np.random.default_rng(0), options)
    best: LinearResult | None = None
    passes, next_check = 0, min(4, limit)
    promise = -np.inf if start is None else np.inf
    while True:
        # The estimate comes with the pass; the certificate costs two more.
        if passes >= next_check or method.gap <= promise:
            t = state.bound(state.excess) if state.rho > 0.0 else problem.B
            result = certified(problem, None, state.c, t, passes)
            if best is None or result.relative_gap < best.relative_gap:
                best = result
            if best.relative_gap <= tol:
                return replace(best, n_iter=passes, status="converged")
            if passes >= limit:
                status = "max_iter" if limit == max_iter else "stalled"
                return replace(best, n_iter=passes, status=status)
            next_check = min(limit, max(passes + 4, int(options.certificate_growth * passes)))
            # What the estimate falls short of the gap by now, it is likely to do again.
            estimate = method.gap if np.isfinite(method.gap) else result.gap
            promise = options.certificate_gap * tol * estimate / result.relative_gap
        method.sweep()
        passes += 1
        if progress is not None:
            progress(Progress(stage, passes, method.violation, tol))


class _Descent:
    """Which rows to visit, in which order, and when to do something else."""

    def __init__(
        self, state: DescentState, rng: np.random.Generator, options: LinearOptions = DEFAULTS
    ) -> None:
        self.options = options
        self.state = state
        self.rng = rng
        self.rows = np.arange(state.problem.rows.n)
        self.violation = self.gap = self.aim = self.shrink = np.inf
        self.gaps: list[float] = []
        self.sweeps = 0
        # Whether the bias has yet to move for the first time.
        self.first = True

    def sweep(self) -> None:
        """Visit the active rows once; move the multipliers when they are done."""
        state, n, options = self.state, self.state.problem.rows.n, self.options
        whole, before = self.rows.size == n, state.total
        order = self._shuffled(self.rows)
        kept, self.violation, self.gap = state.visit(order, self.shrink)
        self.gaps = [*self.gaps[-2:], self.gap]
        if kept < self.rows.size:
            self.rows = np.sort(order[:kept])
        # Rows well inside their intervals stay out until the others are done.
        self.shrink = max(self.violation, 1e-12)
        if np.isinf(self.aim):
            self.aim = options.inner_violation * self.violation
        total = state.total
        if self.violation <= self.aim:
            if whole:
                moved = max(state.move_bias(self.violation), state.move_bound())
                # There is no use in solving an inner problem better than it tells the next one.
                self.aim = max(options.inner_violation * max(self.violation, moved), 1e-13)
            self.rows = np.arange(n)
            self.shrink = np.inf
            self.first = False
        elif self.first and whole and abs(total - before) <= options.settled_bias * abs(total):
            state.move_bias(self.violation)
            self.first = False
        self.sweeps += 1
        if self.sweeps % options.refresh == 0:
            state.refresh()
        slow = self.sweeps > options.long or self.gap > options.slow * self.gaps[0]
        if slow and self.sweeps % options.joint_every == 0:
            # The longer it takes, the more effort a joint step is worth.
            joint_step(state, 1.0 + self.sweeps / options.joint_patience, options)
        if state.problem.bounded:
            self._settle_bound()

    def _settle_bound(self) -> None:
        """Visit the rows with excess until they keep the bound well."""
        state = self.state
        rows = np.flatnonzero(state.problem.excess(state.c))
        aim = -np.inf
        most = min(self.options.bound_turns, state.problem.rows.n // max(1, rows.size))
        for turn in range(most):
            _, violation, _ = state.visit(self._shuffled(rows), np.inf)
            aim = self.options.bound_violation * violation if turn == 0 else aim
            if violation <= aim:
                break

    def _shuffled(self, rows: np.ndarray) -> np.ndarray:
        """Put ascending rows in random order, but for neighbours that stay together."""
        together = min(self.options.together, max(1, rows.size // self.options.groups))
        groups = rows.size // together
        rest = rows.size - groups * together
        order = np.empty_like(rows)
        order[:rest] = rows[:rest]
        body = rows[rest:].reshape(groups, together)
        order[rest:] = body[self.rng.permutation(groups)].ravel()
        return order
