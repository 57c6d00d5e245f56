"""The ellipsoidal kernel machine: a support vector machine in the geometry of an ellipsoid.

Shivaswamy and Jebara, "Ellipsoidal Kernel Machines", AISTATS 2007, equation (5)::

    min_{w,b}  ½ w'Σw + Σ C_i [1 - y_i (w·(x_i - μ) + b)]_+

for the ellipsoid ``{x : (x - μ)'Σ^-1 (x - μ) <= 1}`` around the rows. With ``R R' = Σ^-1`` and
``t = R'(x - μ)`` it is the ordinary support vector machine on the rows ``t``, and ``w = R w_t``.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from oblong._core.progress import Run
from oblong._core.threads import single_threaded_blas
from oblong.kernels import Kernel
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.covariance.options import CovarianceOptions
from oblong.solvers.covariance.sigma import weighted_sum
from oblong.solvers.linear.relative import solve_linear_relative_margin
from oblong.solvers.margin.solver import solve_svm


@dataclass(frozen=True)
class UnitBallRows:
    """Rows after the map that makes the ellipsoid the unit ball.

    Attributes
    ----------
    features : ndarray of shape (n, k)
        ``t = (x - center) @ factor``.
    center : ndarray of shape (d,)
        Centre ``μ`` of the ellipsoid.
    factor : ndarray of shape (d, k)
        ``R``.
    """

    features: np.ndarray
    center: np.ndarray
    factor: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the features."""
        return self.features.shape

    def take(self, rows: np.ndarray) -> UnitBallRows:
        """Return some of the rows."""
        return UnitBallRows(self.features[rows], self.center, self.factor)


@dataclass(frozen=True)
class EllipsoidalKernelResult:
    """Solution of the support vector machine in the unit ball.

    Attributes
    ----------
    coef : ndarray of shape (n,)
        Coefficients ``c`` of the classifier ``f = Σ c_i t_i·t + const`` on the mapped rows.
    dual_coef : ndarray of shape (n,)
        The dual point that the certificate belongs to.
    direction : ndarray of shape (d,)
        Weight vector ``w`` for the rows as they were: ``f(x) = w·x + bias``.
    bias : float
        Their bias, which the centre has gone into.
    objective, relative_gap : float
        Primal objective, and by how much of it the dual objective lies below.
    n_iter : int
        Steps.
    status : {"converged", "max_iter", "stalled"}
        Why the solver stopped.
    """

    coef: np.ndarray
    dual_coef: np.ndarray
    direction: np.ndarray
    bias: float
    objective: float
    relative_gap: float
    n_iter: int
    status: str


def solve_ellipsoidal_kernel(
    rows: UnitBallRows,
    y: np.ndarray,
    C: np.ndarray,
    *,
    cache_bytes: float = 2.0**30,
    threads: int = 1,
    options: CovarianceOptions | None = None,
    **run: Unpack[Run],
) -> EllipsoidalKernelResult:
    """Solve the second step of the ellipsoidal kernel machine.

    Few rows go to the margin solver, which knows them by their kernel matrix. That of many rows
    with few coordinates is large and of low rank: they go to the solver of linear classifiers.

    Parameters
    ----------
    rows : UnitBallRows
        The mapped rows.
    y, C : ndarray of shape (n,)
        Labels, -1 or +1, and penalties.
    tol, max_iter, progress
        As for :func:`~oblong.solvers.margin.solver.solve_margin`.
    cache_bytes : float, default=2**30
        Memory limit of the kernel cache.
    threads : int, default=1
        Threads for products.
    options : CovarianceOptions, optional
        Settings.

    Returns
    -------
    EllipsoidalKernelResult
        The solution.
    """
    n, k = rows.shape
    options = options or CovarianceOptions()
    if n > options.linear_from and k <= n // options.linear_rows_per_coordinate:
        run["tol"] = min(run.get("tol", 1e-3), options.linear_gap)
        return _solve_many(rows, y, C, options.no_support, threads=threads, **run)
    thin = k < options.wide
    columns = KernelMatrix.of_rows(
        Kernel("linear"), rows.features, cache_bytes=cache_bytes, threads=1 if thin else threads
    )
    # Thin products take less time than starting the threads of BLAS.
    with single_threaded_blas() if thin else nullcontext():
        margin = solve_svm(columns, y, C, stage="ellipsoidal kernel machine", **run)
    w = rows.factor @ weighted_sum(margin.coef, rows.features)
    bias = margin.bias - columns.offset(margin.coef) - float(w @ rows.center)
    values = (margin.objective, margin.relative_gap, margin.n_iter, margin.status)
    return EllipsoidalKernelResult(margin.coef, margin.dual_coef, w, bias, *values)


def _solve_many(
    rows: UnitBallRows, y: np.ndarray, C: np.ndarray, no_support: float, **run: Any
) -> EllipsoidalKernelResult:
    """Solve a problem of many rows by an interior point, whose every step costs ``n k²``."""
    found = solve_linear_relative_margin(rows.features, y, C, spread=1.0, **{"max_iter": -1, **run})
    solution = found.solution
    w = rows.factor @ solution.coef
    c, bias = solution.dual_coef, solution.bias - float(w @ rows.center)
    # An interior point leaves something everywhere.
    coef = np.where(np.abs(c) > no_support * C, c, 0.0)
    values = (solution.objective, solution.relative_gap, found.n_iter, solution.status)
    return EllipsoidalKernelResult(coef, c, w, bias, *values)
