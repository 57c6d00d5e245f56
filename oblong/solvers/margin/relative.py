"""The relative margin machine: a support vector machine with bounded outputs.

Shivaswamy and Jebara, "Maximum Relative Margin and Data-Dependent Regularization", Journal
of Machine Learning Research 11 (2010), solve ::

    min_{w,b}  ½|w|² + Σ C_i [1 - y_i f_i]_+    subject to  |f_i| <= B,   f_i = w·φ_i + b.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oblong._core.progress import ProgressCallback
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.grid import SOLUTION, Groups, single, solve_grid, variants_of
from oblong.solvers.margin.grid_matrix import EXACT
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.problem import svm_pieces
from oblong.solvers.margin.result import MarginResult


@dataclass(frozen=True)
class RelativeMarginResult:
    """Solution of the relative margin problem.

    Attributes
    ----------
    margin : MarginResult
        The solution and its certificate.
    B : float
        The bound on the outputs.
    theta : float
        Largest absolute output of the support vector machine of the same ``C``; NaN if a
        bound was given, so that it was not solved.
    n_iter : int
        Pair steps, those of the support vector machine included.
    """

    margin: MarginResult
    B: float
    theta: float
    n_iter: int

    @property
    def outputs(self) -> np.ndarray:
        """Outputs of the model on the rows."""
        return self.margin.outputs


def solve_relative_margin(
    columns: KernelMatrix,
    y: np.ndarray,
    C: np.ndarray,
    *,
    B: float | None = None,
    spread: float = 0.5,
    tol: float = 1e-3,
    max_iter: int = -1,
    progress: ProgressCallback | None = None,
    options: MarginOptions = DEFAULTS,
) -> RelativeMarginResult:
    """Solve the relative margin problem for an absolute or a relative bound.

    Parameters
    ----------
    columns : KernelMatrix
        The kernel matrix.
    y : ndarray of shape (n,)
        Labels, -1 or +1.
    C : ndarray of shape (n,)
        Penalty of each sample.
    B : float, default=None
        The bound, at least one; none if infinite.
    spread : float, default=0.5
        Without ``B``: the bound is ``1 + spread (theta - 1)``, where ``theta`` is the largest
        absolute output of the support vector machine, whose solution starts the search.
    tol : float, default=1e-3
        Largest violation of the optimality conditions.
    max_iter : int, default=-1
        Limit on the pair steps of each problem; -1 for none.
    progress : callable, default=None
        Called with the state of the search.
    options : MarginOptions
        Tuning constants.

    Returns
    -------
    RelativeMarginResult
        The solution.
    """
    spreads = None if B is not None or spread == 1.0 else [spread]
    found = solve_grid(
        columns,
        Groups.of([np.arange(columns.n)], svm_pieces(y, C)),
        variants_of(tol=tol, spreads=spreads, bounds=(np.inf if B is None else B,)),
        promise=options.promise(tol),
        max_iter=max_iter,
        polish=columns.n <= EXACT,
        progress=progress,
        stage="relative margin",
        options=options,
    )
    margin, values = single(found), found.values[0, -1]
    n_iter = int(found.values["n_iter"].sum())
    if B is not None:
        return RelativeMarginResult(margin, float(B), np.nan, n_iter)
    theta = float(values["theta"] if spreads else values["largest"])
    return RelativeMarginResult(margin, max(1.0, 1.0 + spread * (theta - 1.0)), theta, n_iter)


@dataclass(frozen=True)
class RelativeMarginPathResult:
    """Solutions of the relative margin problem along a path of bounds.

    At a fixed ``C`` they are a continuous and piecewise linear function of the bound ``B``, so that
    the solution for one bound is a good start for the next smaller one.

    Attributes
    ----------
    svm : MarginResult
        The support vector machine that the path starts from.
    margins : tuple of MarginResult
        Solutions with their certificates, in the order of the spreads.
    B : ndarray of shape (n_spreads,)
        The bounds ``1 + spread (theta - 1)``.
    theta : float
        Largest absolute output of the support vector machine.
    n_iter : int
        Pair steps in all.
    """

    svm: MarginResult
    margins: tuple[MarginResult, ...]
    B: np.ndarray
    theta: float
    n_iter: int


def solve_relative_margin_path(
    columns: KernelMatrix,
    y: np.ndarray,
    C: np.ndarray,
    spreads: Sequence[float] | np.ndarray,
    *,
    tol: float = 1e-3,
    max_iter: int = -1,
    progress: ProgressCallback | None = None,
    options: MarginOptions = DEFAULTS,
) -> RelativeMarginPathResult:
    """Solve the relative margin problem for several bounds, the largest first.

    Parameters
    ----------
    columns, y, C, tol, max_iter, progress, options
        As for :func:`solve_relative_margin`.
    spreads : sequence of float
        Bounds relative to the support vector machine, between 0 and 1, in any order.

    Returns
    -------
    RelativeMarginPathResult
        The solutions, in the order of ``spreads``.
    """
    shares = np.asarray(spreads, dtype=np.float64)
    order = np.argsort(-shares, kind="stable")
    variants = variants_of(tol=tol, spreads=shares[order])
    # The support vector machine is a point of the path, whether asked for or not.
    variants["wanted"] = SOLUTION
    found = solve_grid(
        columns,
        Groups.of([np.arange(columns.n)], svm_pieces(y, C)),
        variants,
        promise=options.promise(tol),
        max_iter=max_iter,
        polish=columns.n <= EXACT,
        progress=progress,
        stage="relative margin",
        options=options,
    )
    margins = [single(found, k=k) for k in range(len(variants))]
    theta = float(found.values["largest"][0, 0])
    place = np.argsort(order)
    return RelativeMarginPathResult(
        margins[0],
        tuple(margins[1 + k] for k in place),
        np.maximum(1.0, 1.0 + shares * (theta - 1.0)),
        theta,
        int(found.values["n_iter"].sum()),
    )
