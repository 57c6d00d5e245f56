"""The linear relative margin machine: which method solves it, and in which order.

The problem is that of :mod:`oblong.solvers.linear.problem`. Rows with few columns go to the
interior point, whose work a step is that of one Gram matrix; sparse and wide rows go to coordinate
descent, whose work a pass is that of one product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong._core.progress import ProgressCallback
from oblong._core.threads import own_threads_only, released_blas
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.linear.descent import solve_descent
from oblong.solvers.linear.interior_point import solve_interior_point
from oblong.solvers.linear.options import DEFAULTS, LinearOptions
from oblong.solvers.linear.problem import (
    LinearProblem,
    LinearResult,
    LinearRows,
    as_stored,
)
from oblong.solvers.margin.relative import solve_relative_margin


@dataclass(frozen=True)
class LinearRelativeMarginResult:
    """Solution of a linear relative margin problem.

    Attributes
    ----------
    solution : LinearResult
        The solution and its certificate.
    B : float
        The bound on the outputs.
    theta : float
        Largest absolute output of the support vector machine of the same ``C``; NaN where it
        was not solved.
    n_iter : int
        Steps or passes, those of the support vector machine included.
    """

    solution: LinearResult
    B: float
    theta: float
    n_iter: int

    @property
    def outputs(self) -> np.ndarray:
        """Outputs of the model on the rows."""
        return self.solution.outputs

    @property
    def largest(self) -> float:
        """Largest absolute output."""
        return float(np.abs(self.outputs).max())


def choose_method(X: Any, options: LinearOptions = DEFAULTS) -> str:
    """Choose between ``"interior-point"`` and ``"descent"`` by the shape of the rows."""
    n, d = X.shape
    if n < d and n <= options.most_columns and n * d <= options.rotated:
        return "interior-point"
    if d > options.most_columns:
        return "descent"
    if sp.issparse(X) and n * d > options.small:
        entries = max(1.0, X.nnz / n)
        return "descent" if d * d > options.dense_work * entries else "interior-point"
    return "interior-point"


@own_threads_only()
def solve_linear_relative_margin(
    X: Any,
    y: np.ndarray,
    C: np.ndarray,
    *,
    B: float | None = None,
    spread: float = 0.5,
    D: float | None = None,
    U: np.ndarray | None = None,
    intercept: bool = True,
    method: str = "auto",
    tol: float = 1e-4,
    max_iter: int = 1000,
    threads: int = 1,
    rng: np.random.Generator | None = None,
    progress: ProgressCallback | None = None,
    options: LinearOptions = DEFAULTS,
) -> LinearRelativeMarginResult:
    """Solve the linear relative margin problem in any of its forms.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        The rows.
    y : ndarray of shape (n,)
        Labels, -1 or +1.
    C : ndarray of shape (n,)
        Penalty of each sample.
    B : float, default=None
        The bound, at least one.
    spread : float, default=0.5
        With neither ``B`` nor ``D``: the bound is ``1 + spread (theta - 1)``, where ``theta`` is
        the largest absolute output of the support vector machine.
    D : float, default=None
        Penalty of the bound, which makes it a variable.
    U : ndarray of shape (n,), default=None
        With ``D``: penalties of outputs beyond the bound, which is hard without them.
    intercept : bool, default=True
        Whether there is a bias.
    method : {"auto", "interior-point", "descent"}, default="auto"
        How to solve it.
    tol : float, default=1e-4
        Largest relative gap between the primal and the dual objective.
    max_iter : int, default=1000
        Limit on steps or passes in all; -1 for none.
    threads : int, default=1
        Threads of the interior point.
    rng : numpy.random.Generator, default=None
        Source of the random orders of the descent.
    progress : callable, default=None
        Called with the state of the search.
    options : LinearOptions
        Tuning constants.

    Returns
    -------
    LinearRelativeMarginResult
        The solution.
    """
    if method == "auto":
        method = choose_method(X, options)
        few = X.shape[0] <= options.kernel_rows and X.shape[0] * X.shape[1] <= options.small
        # Pair steps do not count against max_iter, so that a small limit rules them out.
        if few and intercept and not D and not 0 <= max_iter < options.kernel_from_limit:
            bound = (B, spread) if D is None else (None, 1.0)
            few_rows = _by_kernel(X, y, C, *bound, tol, progress, options)
            if few_rows and few_rows.solution.relative_gap <= min(tol, options.kernel_gap):
                return few_rows
    rows, back = _prepared(X, intercept, method, threads, options)
    problem = LinearProblem(rows, y, C, intercept=intercept)
    rng = np.random.default_rng(0) if rng is None else rng
    # Unless a rough solution is asked for, all digits of a small problem cost nothing.
    small = X.shape[0] * min(X.shape) <= options.small and tol <= options.largest_gap
    shared: dict[str, Any] = {"progress": progress, "options": options}

    def solve(
        task: LinearProblem, limit: int, stage: str, start: LinearResult | None = None
    ) -> LinearResult:
        if method == "descent":
            begin: dict[str, Any] = {}
            if start is not None:
                begin = {"start": start.dual_coef, "start_bias": start.bias}
            with np.errstate(over="ignore", invalid="ignore"):
                return solve_descent(
                    task, tol=tol, max_iter=limit, stage=stage, rng=rng, **begin, **shared
                )
        fine = min(tol, options.small_gap) if small else tol
        found = solve_interior_point(task, tol=fine, max_iter=limit, stage=stage, **shared)
        return replace(found, status="converged") if found.relative_gap <= tol else found

    def settle(task: LinearProblem, found: LinearResult) -> LinearResult:
        """Certify the model as it is stored: rounding may be all that the certificate shows."""
        found = back(found)
        if not (np.isfinite(found.coef).all() and np.isfinite(found.bias)):
            # Coefficients that have outgrown all numbers; no weights at all are feasible.
            found = replace(found, coef=np.zeros(X.shape[1]), bias=0.0, status="stalled")
        with np.errstate(over="ignore", invalid="ignore"):
            stored = as_stored(X, task, found)
        if stored.relative_gap > max(tol, options.largest_gap) and stored.status == "converged":
            return replace(stored, status="stalled")
        return stored

    theta, svm = np.nan, None
    if D is not None and D > 0.0:
        # No excess can reach a penalty of D, as all of them together are at most D.
        task = replace(problem, D=float(D), U=None if U is not None and U.min() >= D else U)
    elif B is not None and D is None:
        task = replace(problem, B=float(B))
    else:
        svm = solve(problem, max_iter, "svm")
        theta = float(np.abs(svm.outputs).max())
        B = max(1.0, theta if D is not None else 1.0 + spread * (theta - 1.0))
        if theta <= B:
            found = settle(problem, replace(svm, t=B))
            return LinearRelativeMarginResult(found, B, theta, svm.n_iter)
        task = replace(problem, B=B)
        max_iter = max_iter if max_iter < 0 else max(0, max_iter - svm.n_iter)
    found = settle(task, solve(task, max_iter, "relative margin", svm))
    n_iter = found.n_iter + (0 if svm is None else svm.n_iter)
    return LinearRelativeMarginResult(found, found.t, theta, n_iter)


def _by_kernel(
    X: Any,
    y: np.ndarray,
    C: np.ndarray,
    B: float | None,
    spread: float,
    tol: float,
    progress: ProgressCallback | None,
    options: LinearOptions,
) -> LinearRelativeMarginResult | None:
    """Solve for few rows by their products, with compiled steps where others are calls of NumPy.

    None where pair steps would be many: large penalties of long rows.
    """
    rows = LinearRows(X.toarray() if sp.issparse(X) else X, centred=True)
    centred = rows.dense(0, rows.n)
    with np.errstate(over="ignore", invalid="ignore"):
        products = centred @ centred.T
    if not float(C.max()) * float(products.diagonal().mean()) <= options.kernel_penalty:
        return None
    found = solve_relative_margin(
        KernelMatrix(products),
        y,
        C,
        B=B,
        spread=spread,
        tol=tol,
        max_iter=options.kernel_steps * rows.n,
        progress=progress,
    )
    margin, task = found.margin, LinearProblem(rows, y, C)
    if not found.theta <= found.B:
        task = replace(task, B=found.B)
    c = task.feasible(margin.dual_coef)
    w = c @ centred
    bias = margin.bias if rows.shift is None else margin.bias - float(rows.shift @ w)
    solution = LinearResult(
        w, bias, found.B, margin.outputs, c, 0.0, 0.0, found.n_iter, "converged"
    )
    return LinearRelativeMarginResult(
        as_stored(X, task, solution), found.B, found.theta, found.n_iter
    )


def _prepared(
    X: Any, intercept: bool, method: str, threads: int, options: LinearOptions
) -> tuple[LinearRows, Callable[[LinearResult], LinearResult]]:
    """Rows to solve for, and how a solution for them becomes one for the rows as given."""
    if method == "descent":
        return LinearRows(X, threads), lambda found: found
    n, d = X.shape
    rows = LinearRows(X, threads, centred=intercept)
    if n >= d or n * d > options.rotated:
        rows.check_finite()
        return rows, lambda found: found
    # The weights lie in the span of the rows: turn it into as many columns as rows, or fewer.
    basis, factor = _span(rows.dense(0, n))
    shift, rows = rows.shift, LinearRows(factor, threads)
    rows.check_finite()

    def back(found: LinearResult) -> LinearResult:
        coef = basis(found.coef)
        bias = found.bias if shift is None else found.bias - float(shift @ coef)
        return replace(found, coef=coef, bias=bias)

    return rows, back


def _span(X: np.ndarray) -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]:
    """Rows in coordinates of their span, and the map of weights there to weights of the columns.

    Eigenvectors of ``XX'`` are the quickest, as long as no direction is so short that squares of
    its length are lost.
    """
    if np.isfinite(X).all():
        with released_blas(len(X)):
            values, vectors = np.linalg.eigh(X @ X.T)
        long, lost = values > 1e-6 * values[-1], values <= 1e-12 * values[-1]
        if long.any() and (long | lost).all():
            lengths, vectors = np.sqrt(values[long]), np.ascontiguousarray(vectors[:, long])
            return lambda w: (vectors @ (w / lengths)) @ X, vectors * lengths
    basis, factor = np.linalg.qr(X.T)
    return lambda w: basis @ w, factor.T
