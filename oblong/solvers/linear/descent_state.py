"""State of coordinate descent on a linear margin problem: coefficients, weights, multipliers."""

from __future__ import annotations

import numpy as np

from oblong.solvers.linear.options import DEFAULTS, LinearOptions
from oblong.solvers.linear.problem import LinearProblem
from oblong.solvers.linear.row_loops import descend


class DescentState:
    """Coefficients, their weights, and the two multipliers of an inner problem.

    Parameters
    ----------
    problem : LinearProblem
        The problem.
    start : ndarray of shape (n,) or None
        Coefficients to start from; zero by default.
    start_bias : float
        Bias to start from.
    options : LinearOptions
        Tuning constants.

    Attributes
    ----------
    c, w : ndarray of shape (n,) and (d,)
        Coefficients and the combination of the rows with them.
    bias, t : float
        Multipliers of the bias and of the bound.
    total, excess, drift : float
        ``Σc``, ``Σe`` and ``w·m`` with the mean ``m``.
    U : ndarray of shape (n,)
        Limits of the excess: zero without a bound, infinite with a hard one.
    norms : ndarray of shape (n,)
        Squared norms of the rows, centred where there is a bias.
    R, rho : float
        Strengths of the constraints on ``Σc`` and ``Σe``; zero for none.
    """

    total: float
    drift: float

    def __init__(
        self,
        problem: LinearProblem,
        start: np.ndarray | None,
        start_bias: float,
        options: LinearOptions = DEFAULTS,
    ) -> None:
        self.options = options
        rows = problem.rows
        self.problem = problem
        self.data, self.indices, self.indptr = rows.compressed()
        rows.check_finite()
        self.norms = rows.squared_norms
        # With a bias, rows may be centred: not the rows themselves, but their products.
        self.mean = np.zeros(rows.d)
        if problem.intercept:
            self.mean = rows.combination(np.full(rows.n, 1.0 / rows.n))
        self.along = rows.products(self.mean)
        self.square = float(self.mean @ self.mean)
        self.norms = np.maximum(self.norms - 2.0 * self.along + self.square, 0.0)
        mean = float(self.norms.mean())
        self.strength = options.strength * mean if mean > 0.0 else 1.0
        # A row of zeros that nothing else holds back takes a step as long as it likes.
        self.norms = np.maximum(self.norms, 1e-12 * self.strength)
        if not problem.bounded:
            self.U = np.zeros(rows.n)
        else:
            self.U = np.full(rows.n, np.inf) if problem.U is None else problem.U
        self.c = np.zeros(rows.n) if start is None else np.array(start)
        self.t, self.D = problem.B, 0.0
        self.rho = self.excess = 0.0
        if problem.D is not None:
            self.t, self.D, self.rho = 1.0, float(problem.D), self.strength
        self.refresh()
        self.bias = start_bias + self.drift
        self._pull, self._moved = options.pull, np.inf
        free = rows.n if start is None else self.free().size
        self.R = self._bias_strength(free) if problem.intercept else 0.0

    def free(self) -> np.ndarray:
        """Rows whose coefficients lie between two kinks of the dual."""
        a, C = self.problem.y * self.c, self.problem.C
        inside = (a > 0.0) & (a < C)
        if self.problem.bounded:
            inside |= ((a > C) & (a < C + self.U)) | ((a < 0.0) & (a > -self.U))
        return np.flatnonzero(inside)

    def visit(self, order: np.ndarray, shrink: float) -> tuple[int, float, float]:
        """Visit some rows once; those worth another visit are left at the front of ``order``.

        Returns their number, the largest violation and the gap, as :func:`descend` does.
        """
        rows = (self.data, self.indices, self.indptr, order, self.problem.y, self.problem.C)
        model = (self.U, self.norms, self.along, self.c, self.w)
        sums = (self.bias, self.total, self.t, self.excess, self.drift)
        rest = (self.square, self.R, self.rho, self.D, shrink)
        kept, worst, gap, self.total, self.excess, self.drift = descend(*rows, *model, *sums, *rest)
        return kept, worst, gap

    def refresh(self) -> None:
        """Take the round-off out of what is kept up to date."""
        self.w = self.problem.rows.combination(self.c)
        self.total, self.drift = float(self.c.sum()), float(self.w @ self.mean)
        if self.rho > 0.0:
            self.excess = float(self.problem.excess(self.c).sum())

    def bound(self, excess: float) -> float:
        """Slope of the dual in the excess."""
        return max(1.0, self.t + self.rho * (excess - self.D)) if self.rho > 0.0 else self.t

    def move_bias(self, violation: float) -> float:
        """Make the bias of the inner problem the multiplier of the next.

        Returns how far it moved. If that is farther than the violation of the inner problem
        explains, and not much less than the last time, the next problem holds on to it harder.
        """
        if self.R == 0.0:
            return 0.0
        change = float(self.R * self.total)
        self.bias += change
        if abs(change) > max(self.options.slow_bias * self._moved, violation):
            self._pull *= 4.0
        self._moved = abs(change)
        self.R = self._bias_strength(self.free().size)
        return self._moved

    def move_bound(self) -> float:
        """Do the same for the bound."""
        if self.rho == 0.0:
            return 0.0
        before, self.t = self.t, self.bound(self.excess)
        return abs(self.t - before)

    def _bias_strength(self, free: int) -> float:
        return self.strength * min(1.0, self._pull / max(1, free))
