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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oblong._core.progress import ProgressCallback
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.options import DEFAULTS
from oblong.solvers.margin.problem import Pieces
from oblong.solvers.margin.small import SharedColumns
from oblong.solvers.margin.solver import MarginResult, solve_margin


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
    tol: float = 1e-3,
    max_iter: int = -1,
    progress: ProgressCallback | None = None,
) -> RegressionResult:
    """Solve a regression problem.

    Parameters
    ----------
    columns : KernelMatrix
        The kernel matrix.
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
    tol, max_iter, progress
        As for :func:`~oblong.solvers.margin.solver.solve_margin`.

    Returns
    -------
    RegressionResult
        The solution.
    """
    pieces, center = _terms(y, C, epsilon, quantile, bounds)
    margin = solve_margin(
        columns, pieces, tol=tol, max_iter=max_iter, progress=progress, stage="regression"
    )
    offset = columns.offset(margin.coef, margin.direction)
    hidden = _hidden_by_bias(margin, y, center, offset, C, epsilon or 0.0)
    margin = replace(margin, objective=margin.objective + hidden, rounding=margin.rounding + hidden)
    if margin.status == "converged" and not margin.relative_gap <= DEFAULTS.promise(tol):
        margin = replace(margin, status="stalled")
    return RegressionResult(margin, center, margin.n_iter, offset)


def _terms(
    y: np.ndarray,
    C: np.ndarray,
    epsilon: float | None,
    quantile: float | None,
    bounds: tuple[float, float] | None,
) -> tuple[Pieces, float]:
    """The terms of a problem, and what its targets are shifted by."""
    # The certificate may scale a model towards zero, which has to be a reasonable model then, and
    # within the bounds. Digits that all targets share would be lost to rounding, too.
    center = float(np.median(y)) if bounds is None else 0.5 * (bounds[0] + bounds[1])
    shifted = y - center
    if epsilon is not None:
        return epsilon_pieces(shifted, C, epsilon), center
    if quantile is None:
        raise ValueError("epsilon or quantile has to be given")
    bound = np.inf
    if bounds is not None:
        # A target at a bound stays within it, whatever the rounding of the shift.
        bound = max(0.5 * (bounds[1] - bounds[0]), float(np.abs(shifted).max()))
    return quantile_pieces(shifted, C, quantile, bound), center


def solve_regressions(
    K: np.ndarray,
    y: np.ndarray,
    v: np.ndarray,
    Cs: np.ndarray,
    losses: Sequence[Mapping[str, Any]],
    *,
    definite: bool = False,
    threads: int = 1,
    tol: float = 1e-3,
    max_iter: int = -1,
) -> list[list[RegressionResult]]:
    """Solve the problems of a grid of penalties and losses over one kernel matrix.

    They share the matrix and what follows from it, and each starts from the better of two solutions
    nearby.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The kernel matrix.
    y, v : ndarray of shape (n,)
        Targets, and factors of the penalties.
    Cs : ndarray
        Penalties, ascending.
    losses : sequence of mappings
        The arguments ``epsilon``, ``quantile`` and ``bounds`` of :func:`solve_regression`; those of
        quantiles are of one quantile.
    definite : bool, default=False
        Whether the matrix is positive semidefinite but for rounding.
    threads : int, default=1
        Threads for products with it.
    tol, max_iter
        As for :func:`~oblong.solvers.margin.solver.solve_margin`.

    Returns
    -------
    list of list of RegressionResult
        For each penalty one solution per loss. Their gaps may be larger than converged ones of
        :func:`solve_regression`.
    """
    columns = SharedColumns(K, definite=definite, threads=threads)
    # The matrix is there: one block of all rows saves the search for those that matter.
    options = replace(DEFAULTS, one_block=DEFAULTS.batch_rows)
    found: list[list[RegressionResult]] = []
    for C in Cs:
        row: list[RegressionResult] = []
        for k, loss in enumerate(losses):
            given = {"epsilon": None, "quantile": None, "bounds": None, **loss}
            pieces, center = _terms(y, C * v, **given)
            near = [one.margin for one in row[-1:] + [last[k] for last in found[-1:]]]
            best = max(near, key=lambda m: pieces.dual(m.dual_coef, m.image), default=None)
            margin = solve_margin(
                columns,
                pieces,
                tol=tol,
                max_iter=max_iter,
                start=None if best is None else best.dual_coef,
                start_image=None if best is None else best.image,
                polish=False,
                options=options,
            )
            row.append(RegressionResult(margin, center, margin.n_iter))
        found.append(row)
    return found


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
