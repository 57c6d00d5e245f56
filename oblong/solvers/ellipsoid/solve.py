"""Ellipsoids of least volume, around all rows or most of them, with a certificate.

With a free centre, ``z = (x, 1)`` and ``D = k + 1``; with the centre at the origin, ``z = x`` and
``D = k``. The weights ``u`` solve the bounded D-optimal design problem ::

    max ln|M(u)|,  M(u) = Σ u_i z_i z_i',   Σ u_i = 1,  0 <= u_i <= κ ω_i

With the leverages ``q_i = z_i'M(u)^-1 z_i`` and the threshold ``ρ`` that separates weights at the
cap from weights of zero, the ellipsoid has the centre ``μ = Σ u_i x_i``, the matrix
``Σ = s Σ u_i (x_i - μ)(x_i - μ)'`` and the squared distances ``(q_i - 1) / s`` with
``s = ρ - 1`` (or ``q_i / s`` with ``s = ρ``). This is the dual of the problems (3), (4) and (6) of
Shivaswamy and Jebara, Ellipsoidal Kernel Machines, AISTATS 2007.
"""

from __future__ import annotations

import numpy as np

from oblong._core.progress import ProgressCallback
from oblong.solvers.ellipsoid.coordinates import Coordinates
from oblong.solvers.ellipsoid.free_scale import solve_design, solve_for_penalty, solve_with_ridge
from oblong.solvers.ellipsoid.options import EllipsoidOptions
from oblong.solvers.ellipsoid.problem import DesignProblem
from oblong.solvers.ellipsoid.result import EllipsoidResult, read_out


def solve_ellipsoid(
    X: np.ndarray,
    *,
    coverage: float = 1.0,
    E: float | None = None,
    center: bool = True,
    sample_weight: np.ndarray | None = None,
    ridge: float | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    rank_tol: float = 1e-10,
    start: np.ndarray | None = None,
    progress: ProgressCallback | None = None,
    options: EllipsoidOptions | None = None,
) -> EllipsoidResult:
    """Find the ellipsoid of least volume that encloses all rows, or most of them.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Finite rows in single or double precision.
    coverage : float, default=1.0
        Fraction of the weight to enclose, in [0, 1]: at most ``1 - coverage`` of it lies strictly
        outside. With zero all weights are equal and ``Σ`` is the covariance.
    E : float, optional
        Penalty of the rows outside in ``½ ln|Σ| + E Σ ω_i ξ_i``, where
        ``(x_i - μ)'Σ^-1 (x_i - μ) <= 1 + ξ_i``; replaces ``coverage``.
    center : bool, default=True
        Whether the centre is free; otherwise it is the origin.
    sample_weight : ndarray of shape (n,), optional
        Weights ``ω``, not negative. Without a cap only those of zero matter.
    ridge : float, optional
        ``ε > 0`` adds ``ε I`` to ``Σ``.
    tol : float, default=1e-6
        Largest gap.
    max_iter : int, default=1000
        Limit on Newton systems.
    rank_tol : float, default=1e-10
        Directions whose deviation is below this fraction of the largest are not part of the hull,
        features being scaled to equal deviations.
    start : ndarray of shape (n,), optional
        Weights of an earlier solution for nearly the same rows.
    progress : callable, default=None
        Called with a :class:`~oblong._core.progress.Progress` after each round.
    options : EllipsoidOptions, default=None
        Settings of the solvers.

    Returns
    -------
    EllipsoidResult
        The ellipsoid with its certificate. With ``coverage=1`` and no ``E`` it encloses every
        row.

    Examples
    --------
    >>> import numpy as np
    >>> from oblong.solvers.ellipsoid.solve import solve_ellipsoid
    >>> result = solve_ellipsoid(np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]))
    >>> bool(np.allclose(result.inverse_factor.T @ result.inverse_factor, [[2, 0], [0, 2]]))
    True
    """
    # Weights that are all one are none.
    weights = None if sample_weight is None or (sample_weight == 1.0).all() else sample_weight
    options = options or EllipsoidOptions()
    present = None
    if weights is not None and (weights == 0).any():
        present = (weights > 0).astype(float)
    coordinates = Coordinates.of(X, present, lift=center, rank_tol=rank_tol, options=options)
    problem = DesignProblem(
        X, coordinates, weights, tol, max_iter, progress, n_passes=1, options=options
    )
    smallest = 1.0 if weights is None else float(weights[weights > 0].min())
    nu = 1.0 - coverage
    kappa = np.inf
    if nu * problem.total_weight > smallest * (1.0 + 1e-12):
        kappa = 1.0 / (nu * problem.total_weight)
    penalty = None if E is None else 2.0 * E
    if penalty is None and ridge is None:
        design = solve_design(problem, kappa, start)
        return read_out(problem, design, kappa, None if coverage > 0 else 1.0)
    if ridge is not None:
        return solve_with_ridge(problem, ridge, kappa, penalty, start)
    assert penalty is not None
    return solve_for_penalty(problem, penalty, start)
