"""Regression by the margin solver: the epsilon-insensitive and the quantile loss.

Both are convex and piecewise linear in the output, so that a target ``y`` is one more term::

    min_{w,b}  ½|w|² + Σ h_i(f_i),    f_i = w·φ_i + b,

    h = C_i [|f - y_i| - ε]_+                        (epsilon-insensitive: SVR)
    h = C_i (τ [y_i - f]_+ + (1 - τ) [f - y_i]_+)    (quantile τ)

The quantile loss can have hard bounds, ``low <= f <= high``, on top.

Drucker, Burges, Kaufman, Smola and Vapnik, "Support Vector Regression Machines", NIPS 9 (1996);
Takeuchi, Le, Sears and Smola, "Nonparametric Quantile Estimation", JMLR 7 (2006).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oblong._core.progress import ProgressCallback
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.grid import Groups, single, solve_grid, variants_of
from oblong.solvers.margin.grid_matrix import EXACT
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.problem import Pieces
from oblong.solvers.margin.result import MarginResult


@dataclass(frozen=True)
class RegressionResult:
    """Solution of a regression problem.

    Attributes
    ----------
    margin : MarginResult
        The solution and its certificate, for targets less ``center``.
    center : float
        What the targets were shifted by.
    n_iter : int
        Pair steps.
    offset : float
        What the columns of shifted rows add to every output.
    """

    margin: MarginResult
    center: float
    n_iter: int
    offset: float = 0.0

    @property
    def bias(self) -> float:
        """The bias for the targets and the rows as they were given."""
        return self.margin.bias + self.center - self.offset

    @property
    def outputs(self) -> np.ndarray:
        """Outputs of the model on the rows."""
        return self.margin.outputs + self.center


def epsilon_pieces(y: np.ndarray, C: np.ndarray, epsilon: float) -> Pieces:
    """Terms of epsilon-insensitive regression: ``g(c) = y c - ε|c|`` for ``|c| <= C``.

    The loss is ``C [|f - y| - ε]_+``.
    """
    return Pieces(
        np.multiply.outer(C, [-1.0, 0.0, 0.0, 1.0]),
        np.add.outer(y, [epsilon, 0.0, -epsilon]),
    )


def quantile_pieces(y: np.ndarray, C: np.ndarray, quantile: float, bound: float = np.inf) -> Pieces:
    """Terms of quantile regression: ``g(c) = y c`` for ``-(1 - τ) C <= c <= τ C``.

    The loss is ``C (τ [y - f]_+ + (1 - τ) [f - y]_+)``. A finite bound ``B`` continues the terms
    beyond their ends with the slopes ``B`` and ``-B``, which bounds the outputs: ``|f| <= B``. No
    target may be larger than that.
    """
    breakpoints = np.multiply.outer(C, [quantile - 1.0, quantile - 1.0, quantile, quantile])
    slopes = np.repeat(y[:, None], 3, axis=1)
    if np.isfinite(bound):
        breakpoints[:, 0], breakpoints[:, 3] = -np.inf, np.inf
        slopes[:, 0], slopes[:, 2] = bound, -bound
    return Pieces(breakpoints, slopes)


def solve_regression(
    columns: KernelMatrix,
    y: np.ndarray,
    C: np.ndarray,
    *,
    epsilon: float | None = None,
    quantile: float | None = None,
    bounds: tuple[float, float] | None = None,
    **run: Any,
) -> RegressionResult:
    """Solve one regression problem: :func:`solve_regressions` with one penalty and one loss."""
    epsilons = () if epsilon is None else (epsilon,)
    quantiles = () if quantile is None or epsilons else (quantile,)
    if not epsilons and not quantiles:
        raise ValueError("epsilon or quantile has to be given")
    ((found,),) = solve_regressions(
        columns, y, C, epsilons=epsilons, quantiles=quantiles, bounds=bounds, **run
    )
    return found


def solve_regressions(
    columns: KernelMatrix,
    y: np.ndarray,
    v: np.ndarray,
    Cs: Sequence[float] | np.ndarray = (1.0,),
    *,
    epsilons: Sequence[float] = (),
    quantiles: Sequence[float] = (),
    bounds: tuple[float, float] | None = None,
    tol: float = 1e-3,
    max_iter: int = -1,
    polish: bool = True,
    threads: int = 1,
    progress: ProgressCallback | None = None,
    options: MarginOptions = DEFAULTS,
) -> list[list[RegressionResult]]:
    """Solve regression problems over one kernel matrix, each from a solution nearby.

    Parameters
    ----------
    columns : KernelMatrix
        The kernel matrix.
    y, v : ndarray of shape (n,)
        Targets, and factors of the penalties.
    Cs : sequence of float, default=(1,)
        Penalties, ascending.
    epsilons : sequence of float, default=()
        Half the widths of tubes in which an error costs nothing.
    quantiles : sequence of float, default=()
        Quantiles, between zero and one, if there are no tubes.
    bounds : tuple of float, default=None
        With ``quantiles``: least and largest output on the rows. They hold all targets.
    polish : bool, default=True
        Whether solutions have to prove the gap that they promise.
    tol, max_iter, threads, progress, options
        As for :func:`~oblong.solvers.margin.grid.solve_grid`.

    Returns
    -------
    list of list of RegressionResult
        For each penalty one solution per tube or quantile.
    """
    # The certificate may scale a model towards zero, which has to be a reasonable model then, and
    # within the bounds. Digits that all targets share would be lost to rounding, too.
    center = float(np.median(y)) if bounds is None else 0.5 * (bounds[0] + bounds[1])
    shifted, limit = y - center, np.inf
    if bounds is not None:
        # A target at a bound stays within it, whatever the rounding of the shift.
        limit = max(0.5 * (bounds[1] - bounds[0]), float(np.abs(shifted).max()))
    terms = [epsilon_pieces(shifted, v, 0.0)]
    if not len(epsilons):
        terms = [quantile_pieces(shifted, v, quantile, limit) for quantile in quantiles]
    every = np.arange(columns.n)
    found = solve_grid(
        columns,
        Groups.of([every] * len(terms), Pieces(*(np.concatenate(part) for part in zip(*terms)))),
        variants_of(Cs, tol=tol, epsilons=epsilons if len(epsilons) else (np.nan,)),
        promise=options.promise(tol) if polish else np.inf,
        max_iter=max_iter,
        polish=polish and columns.n <= EXACT,
        threads=threads,
        progress=progress,
        stage="regression",
        options=options,
    )
    results = []
    for c, C in enumerate(Cs):
        row = []
        for k in range(len(epsilons) or len(quantiles)):
            place = (0, c * len(epsilons) + k) if len(epsilons) else (k, c)
            margin = single(found, *place)
            offset = columns.offset(margin.coef, margin.direction)
            if polish:
                tube = epsilons[k] if len(epsilons) else 0.0
                hidden = _hidden_by_bias(margin, y, center, offset, C * v, tube)
                rounding = margin.rounding + hidden
                margin = replace(margin, objective=margin.objective + hidden, rounding=rounding)
                if margin.status == "converged" and not margin.relative_gap <= options.promise(tol):
                    margin = replace(margin, status="stalled")
            row.append(RegressionResult(margin, center, margin.n_iter, offset))
        results.append(row)
    return results


def _hidden_by_bias(
    margin: MarginResult,
    y: np.ndarray,
    center: float,
    offset: float,
    C: np.ndarray,
    epsilon: float,
) -> float:
    """What the rounding of shifted targets and of the bias that is stored can add to the loss.

    No loss is steeper than ``C``. Where the tube is wide enough, or the sums are exact, nothing.
    """
    shifted = y - center
    error = np.abs(_sum_error(y, -center)) + abs(_sum_error(margin.bias, center))
    error += abs(_sum_error(margin.bias + center, -offset))
    excess = np.abs(shifted - margin.outputs) - epsilon
    return float(C @ (np.maximum(excess + error, 0.0) - np.maximum(excess, 0.0)))


def _sum_error(a: Any, b: float) -> Any:
    """What ``a + b`` lacks of the sum, exactly (Knuth's two-sum)."""
    total = a + b
    part = total - a
    return (a - (total - part)) + (b - part)
