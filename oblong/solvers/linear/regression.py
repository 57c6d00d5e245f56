"""Linear regression with the epsilon-insensitive or the quantile loss, for many rows.

The problem is that of :mod:`oblong.solvers.margin.regression` with ``f_i = w·x_i + b``, in one form
for both losses::

    min_{w,b}  ½|w|² + Σ p_i [y_i - ε - f_i]_+ + q_i [f_i - y_i - ε]_+     (|f_i| <= B)

    max_c  Σ y_i c_i - ε |c_i| - ½|Σ c_i x_i|²,    -q_i <= c_i <= p_i,    Σ c_i = 0

with ``p = q = C``, or ``ε = 0``, ``p = τ C`` and ``q = (1 - τ) C``. A bound continues the terms of
the dual beyond their ends with the slopes ``∓B``. The interior point method is that of the
classifiers. A loss without a tube has one kink, and one inequality per row is enough: it is
``(p + q) [y - f]_+ + q f`` but for a constant (Portnoy and Koenker, "The Gaussian Hare and the
Laplacian Tortoise", Statistical Science 12, 1997).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong._core.progress import ProgressCallback
from oblong._core.threads import own_threads_only
from oblong.solvers.linear.interior_point import Kind, solve_interior_point
from oblong.solvers.linear.options import DEFAULTS, LinearOptions
from oblong.solvers.linear.problem import (
    UNIT,
    LinearProblem,
    LinearResult,
    LinearRows,
    as_stored,
    certified,
)
from oblong.solvers.linear.relative import choose_method

# Shares of a penalty by which a coefficient may miss a kink of its term and be moved to it: the
# best is taken.
_SNAPS = (1e-2, 1e-4, 1e-6)
# Coefficients between kinks, per column, for which a system of equations is solved.
_MOST_FREE = 8
# Share of entries from which sparse rows are made dense.
_DENSE_ENOUGH = 0.5
# Rows, and rows per column, from which the kernel solver takes longer.
_LEAST_ROWS, _ROWS_PER_COLUMN = 400, 3


@dataclass(frozen=True)
class _Regression(LinearProblem):
    """The problem: ``y`` are targets, ``C`` the penalties ``p`` of outputs that are too low.

    Attributes
    ----------
    over : ndarray of shape (n,)
        Penalties ``q`` of outputs that are too high.
    epsilon : float
        Errors up to this size cost nothing.
    """

    over: np.ndarray = field(kw_only=True)
    epsilon: float = field(kw_only=True)

    @property
    def offset(self) -> np.ndarray | None:
        return -self.over if self.epsilon == 0.0 else None

    @property
    def unit(self) -> float:
        return float(np.abs(self.y).max())

    def kinks_of_terms(self) -> list[np.ndarray]:
        """Coefficients at which the terms of the dual change their slope."""
        middle = [np.zeros(len(self.y))] if self.epsilon > 0.0 else []
        return [-self.over, *middle, self.C]

    def room(self, c: np.ndarray) -> np.ndarray:
        room = np.min([np.abs(c - kink) for kink in self.kinks_of_terms()], axis=0)
        return room if self.bounded else np.where((c > -self.over) & (c < self.C), room, 0.0)

    def dual(self, c: np.ndarray, norm: float) -> float:
        inside = np.clip(c, -self.over, self.C)
        value = self.y @ inside - self.epsilon * np.abs(inside).sum() - 0.5 * norm
        if self.bounded:
            value -= self.B * np.abs(c - inside).sum()
        return float(value)

    def primal(self, f: np.ndarray, norm: float, t: float) -> float:
        low, high = self.y - self.epsilon - f, f - self.y - self.epsilon
        return float(0.5 * norm + self.C @ np.maximum(low, 0.0) + self.over @ np.maximum(high, 0.0))

    def rounding(self, f: np.ndarray, error: np.ndarray, t: float) -> float:
        low, high = self.y - self.epsilon - f, f - self.y - self.epsilon
        rise = self.C * np.clip(low + error, 0.0, error) + self.over * np.clip(
            high + error, 0.0, error
        )
        return float(rise.sum())

    def kinks(self, u: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray, float]:
        kinks = np.concatenate([self.y - self.epsilon - u, self.y + self.epsilon - u])
        return kinks, np.concatenate([self.C, self.over]), -float(self.C.sum())


def _start(problem: LinearProblem, t: float, options: LinearOptions) -> list[Kind]:
    """Start at weights and coefficients of zero, which are stationary."""
    assert isinstance(problem, _Regression)
    y, epsilon, n = problem.y, problem.epsilon, problem.rows.n
    size = float(np.abs(y).mean()) + epsilon

    def soft(side: float, a: np.ndarray, v: np.ndarray) -> Kind:
        beyond = -side * y + epsilon
        slacks = np.maximum(beyond, 0.0) + size, np.maximum(-beyond, 0.0) + size
        return Kind((True, 0.0, side, 0.0), a, slacks[0], v, slacks[1])

    if epsilon == 0.0:
        kinds = [soft(1.0, problem.over.copy(), problem.C.copy())]
    else:
        a = 0.5 * np.minimum(problem.C, problem.over)
        kinds = [soft(1.0, a, problem.C - a), soft(-1.0, a.copy(), problem.over - a)]
    if problem.bounded:
        share = np.full(n, options.bound_start * size * float(kinds[0].a.mean()) / t)
        for side in (-1.0, 1.0):
            bound, slack = share.copy(), np.full(n, t)
            kinds.append(Kind((False, 0.0, side, 0.0), bound, slack, bound, slack))
    return kinds


def suits_linear_regression(
    X: Any, options: LinearOptions = DEFAULTS, *, stalled: bool = False
) -> bool:
    """Whether rows are many and narrow enough for the interior point method.

    If the kernel solver has ``stalled``, as many rows as columns are enough.
    """
    n, d = X.shape
    many = n >= (d if stalled else max(_LEAST_ROWS, _ROWS_PER_COLUMN * d))
    return many and choose_method(X, options) == "interior-point"


@own_threads_only()
@np.errstate(over="ignore", invalid="ignore")
def solve_linear_regression(
    X: Any,
    y: np.ndarray,
    C: np.ndarray,
    *,
    epsilon: float | None = None,
    quantile: float | None = None,
    bounds: tuple[float, float] | None = None,
    intercept: bool = True,
    tol: float = 1e-6,
    max_iter: int = -1,
    threads: int = 1,
    progress: ProgressCallback | None = None,
    options: LinearOptions = DEFAULTS,
) -> LinearResult:
    """Solve a linear regression problem by the interior point method.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        The rows.
    y : ndarray of shape (n,)
        Targets.
    C : ndarray of shape (n,)
        Penalty of each row.
    epsilon : float, default=None
        Half the width of the tube in which an error costs nothing.
    quantile : float, default=None
        The quantile, between zero and one, if ``epsilon`` is not given.
    bounds : tuple of float, default=None
        With ``quantile``: least and largest output on the rows. They hold all targets.
    intercept : bool, default=True
        Whether there is a bias; it has no penalty.
    tol : float, default=1e-6
        Largest relative gap between the primal and the dual objective.
    max_iter : int, default=-1
        Limit on Newton steps; -1 for none but a safeguard.
    threads : int, default=1
        Threads to use.
    progress : callable, default=None
        Called with the state of the search.
    options : LinearOptions
        Tuning constants.

    Returns
    -------
    LinearResult
        The solution; ``outputs`` are those for targets less their middle.
    """
    if epsilon is not None:
        up = over = C
    elif quantile is not None:
        up, over = quantile * C, (1.0 - quantile) * C
    else:
        raise ValueError("epsilon or quantile has to be given")
    epsilon = 0.0 if epsilon is None else float(epsilon)
    # Without an intercept no constant can be taken out of the targets.
    center = float(np.median(y)) if intercept else 0.0
    if bounds is not None:
        center = 0.5 * (bounds[0] + bounds[1])
    given, y = y, y - center
    if sp.issparse(X) and X.nnz > _DENSE_ENOUGH * X.shape[0] * X.shape[1]:
        # Sparse rows cannot be centred, which costs digits where they are far from the origin.
        X = X.toarray()
    rows = LinearRows(X, threads, centred=intercept)
    rows.check_finite()
    B = np.inf
    if bounds is not None:
        B = max(0.5 * (bounds[1] - bounds[0]), float(np.abs(y).max()))
    problem = _Regression(rows, y, up, B=B, intercept=intercept, over=over, epsilon=epsilon)
    nothing = np.zeros(len(y))
    found = certified(problem, np.zeros(rows.d), nothing, B, 0)
    if found.objective > 0.0:
        small = rows.n * rows.d <= options.small
        found = solve_interior_point(
            problem,
            tol=min(tol, options.small_gap) if small else 0.5 * tol,
            max_iter=max_iter,
            progress=progress,
            stage="regression",
            options=options,
            start=_start,
        )
        found = _snapped(problem, found, tol)
    stored = as_stored(X, problem, found)
    stored = replace(stored, bias=stored.bias + center)
    if stored.coef.any():
        # The center is part of the bias that a prediction adds.
        hidden = UNIT * abs(center) * float(np.maximum(up, over).sum())
        stored = replace(stored, rounding=stored.rounding + hidden)
    else:
        # The outputs are the bias: what is left of the targets is exact but for its last digit.
        left = replace(problem, y=given - stored.bias)
        value = left.primal(np.zeros(len(y)), 0.0, B)
        stored = replace(stored, objective=value, rounding=UNIT * value)
    if stored.status != "max_iter":
        proved = stored.relative_gap <= max(tol, options.largest_gap)
        enough = proved and stored.gap - stored.rounding <= tol * abs(stored.objective)
        stored = replace(stored, status="converged" if enough else "stalled")
    return stored


def _snapped(problem: _Regression, found: LinearResult, tol: float) -> LinearResult:
    """Move coefficients that an interior point keeps off their kinks to them.

    Those in between are moved so that the coefficients combine the rows to the weights of the
    model, which are far more exact than the coefficients where penalties are large.
    """
    best = None
    for share in _SNAPS:
        c = found.dual_coef
        for kink in problem.kinks_of_terms():
            near = np.abs(found.dual_coef - kink) <= share * (problem.C + problem.over)
            c = np.where(near, kink, c)
        c = problem.feasible(_matched(problem, found.coef, c))
        combined = problem.rows.combination(c)
        dual = problem.dual(c, float(combined @ combined))
        if best is None or dual > best.dual_objective:
            best = replace(found, dual_coef=c, dual_objective=dual)
    assert best is not None
    return best if best.gap <= max(0.5 * tol * abs(found.objective), found.gap) else found


def _matched(problem: _Regression, w: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Change coefficients between kinks so that ``Σ c_i x_i = w``, where they have the room."""
    rows, room = problem.rows, problem.room(c)
    free = np.flatnonzero(room)
    if not 0 < free.size <= _MOST_FREE * (rows.d + 1):
        return c
    A = rows.X[free]
    A = A.toarray() if rows.sparse else np.asarray(A, dtype=np.float64)
    A = A if rows.shift is None else A - rows.shift
    missing = w - rows.combination(c)
    if problem.intercept:
        A, missing = np.c_[A, np.ones(free.size)], np.append(missing, -c.sum())
    weighted = A * room[free, None]
    change = room[free] * np.linalg.lstsq(weighted.T, missing, rcond=None)[0]
    if not (np.abs(change) <= room[free]).all():
        return c
    c = c.copy()
    c[free] += change
    return c
