"""Many linear problems over the same rows: their data, their solutions, and tuning constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np


@dataclass(frozen=True)
class BatchOptions:
    """Tuning constants of the solver.

    Attributes
    ----------
    single_gap, single_bounded_gap : float
        Least relative gap that rows in single precision are good for, without and with a bound.
    safety : float
        Fraction of ``tol`` at which a problem counts as solved, before its certificate.
    target, target_of_gap : float
        A descent stops at this fraction of ``tol``, or of the gap.
    bounded_target, bounded_first, bounded_next : float
        With a bound: the fraction of ``tol``, of the objective at first, and of the last target.
    tighter, tighter_first, tightest : float
        Descent takes a bound that is tighter by what costs this fraction of ``tol``, by this where
        the bound presses on nothing yet, and by no more than this.
    call : float
        Numbers that one call of the descent may read, so that an interrupt is noticed.
    dense_work, dense_least, sparse_work : float
        Numbers that the descent of a problem may read before it counts as crawling: this multiple
        of what the Gram matrix of the columns takes, and at least so many; for sparse rows, this
        multiple of their entries.
    patience : int
        Passes without a better gap after which a problem counts as stalled.
    small : int
        Entries of the rows up to which a problem is solved to ``small_gap``.
    small_gap : float
        Relative gap of small problems.
    largest_gap : float
        Tolerance above which small problems are left at it.
    group : int
        Bytes of the weights that a pass of sparse rows has at a time.
    """

    single_gap: float = 1e-6
    single_bounded_gap: float = 5e-5
    safety: float = 0.95
    target: float = 0.3
    target_of_gap: float = 0.1
    bounded_target: float = 0.5
    bounded_first: float = 0.2
    bounded_next: float = 0.3
    tighter: float = 0.4
    tighter_first: float = 2e-3
    tightest: float = 0.02
    call: float = 1e9
    dense_work: float = 10.0
    dense_least: float = 1e7
    sparse_work: float = 3e3
    patience: int = 8
    small: int = 1 << 18
    small_gap: float = 1e-9
    largest_gap: float = 1e-3
    group: int = 1 << 28


DEFAULTS = BatchOptions()


@dataclass(frozen=True)
class LinearBatchResult:
    """Solutions of many linear problems.

    Attributes
    ----------
    coef : ndarray of shape (n_problems, d)
        Weight vectors.
    bias : ndarray of shape (n_problems,)
        Intercepts.
    objective, dual_objective : ndarray of shape (n_problems,)
        An upper bound of the primal objective of the weights as they are stored, and a lower bound
        of the least objective: what rounding may hide is on the side that makes the gap larger.
    B, theta, largest : ndarray of shape (n_problems,)
        Bounds; largest absolute outputs of the support vector machines, NaN where these were not
        solved; and those of the solutions.
    n_iter : ndarray of shape (n_problems,)
        Epochs of descent.
    status : tuple of {"converged", "max_iter", "stalled"}
        Why the solver stopped.
    n_passes : int
        Passes over the rows.
    """

    coef: np.ndarray
    bias: np.ndarray
    objective: np.ndarray
    dual_objective: np.ndarray
    B: np.ndarray
    theta: np.ndarray
    largest: np.ndarray
    n_iter: np.ndarray
    status: tuple[str, ...]
    n_passes: int

    @property
    def relative_gap(self) -> np.ndarray:
        """Primal minus dual objective, over the primal objective."""
        gap = np.maximum(self.objective - self.dual_objective, 0.0)
        return gap / np.maximum(self.objective, np.finfo(float).tiny)

    def solution(self, k: int) -> LinearBatchSolution:
        """Return the solution of one problem."""
        return LinearBatchSolution(
            self.coef[k],
            float(self.bias[k]),
            float(self.objective[k]),
            float(self.relative_gap[k]),
            float(self.B[k]),
            float(self.theta[k]),
            float(self.largest[k]),
            int(self.n_iter[k]),
            self.status[k],
        )

    def with_better(
        self, k: int, coef: np.ndarray, bias: float, objective: float, dual_objective: float
    ) -> LinearBatchResult:
        """Replace a solution by another method's, if its gap is smaller."""
        gap = (objective - dual_objective) / max(objective, np.finfo(float).tiny)
        if not gap < self.relative_gap[k]:
            return self
        better = {name: getattr(self, name).copy() for name in _OF_PROBLEMS}
        for name, value in zip(_OF_PROBLEMS, (coef, bias, objective, dual_objective)):
            better[name][k] = value
        return replace(self, **better)


@dataclass(frozen=True)
class LinearBatchSolution:
    """Solution of one of many problems; see :class:`LinearBatchResult`."""

    coef: np.ndarray
    bias: float
    objective: float
    relative_gap: float
    B: float
    theta: float
    largest: float
    n_iter: int
    status: str


_OF_PROBLEMS = ("coef", "bias", "objective", "dual_objective")


def small_tolerance(X: Any, tol: float, options: BatchOptions = DEFAULTS) -> float:
    """A tolerance at which small problems cost no more; others keep theirs."""
    small = X.shape[0] * X.shape[1] <= options.small and tol <= options.largest_gap
    return min(tol, options.small_gap) if small else tol


@dataclass(frozen=True)
class LinearBatch:
    """The problems.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        The rows, in single or double precision, finite.
    labels : ndarray of shape (n,)
        Codes of the classes, from zero on.
    C : ndarray of shape (n,)
        Penalty of each row.
    problems : sequence of (int, int or None)
        Positive class of each problem, and the negative one; None for all others.
    factors : ndarray of shape (n_problems,), default=None
        Factor of the penalties of the rows of each positive class.
    squared : bool, default=False
        Whether the loss is the squared hinge.
    intercept : {"none", "penalised", "free"}, default="free"
        Whether there is an intercept, and whether its square is penalised.
    scale : float, default=1.0
        Value of the constant column whose weight a penalised intercept is.
    """

    X: Any
    labels: np.ndarray
    C: np.ndarray
    problems: Sequence[tuple[int, int | None]]
    factors: np.ndarray | None = None
    squared: bool = False
    intercept: Literal["none", "penalised", "free"] = "free"
    scale: float = 1.0

    def problem(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Labels -1 and +1 and penalties of one problem, zero for rows of neither class."""
        positive, negative = self.problems[k]
        own = self.labels == positive
        C = self.C * np.where(own, 1.0 if self.factors is None else self.factors[k], 1.0)
        if negative is not None:
            C[~own & (self.labels != negative)] = 0.0
        return np.where(own, 1.0, -1.0), C

    def total_penalties(self) -> np.ndarray:
        """Sum of the penalties of each problem."""
        sums = np.bincount(self.labels, self.C)
        factors = np.ones(len(self.problems)) if self.factors is None else self.factors
        totals = np.empty(len(self.problems))
        for k, (positive, negative) in enumerate(self.problems):
            rest = sums.sum() - sums[positive] if negative is None else sums[negative]
            totals[k] = factors[k] * sums[positive] + rest
        return totals
