"""Primal-dual interior point method for problems with one log-determinant.

Given vectors ``φ_i``, signs ``y_i = ±1``, offsets ``o_i``, caps ``C_i`` (infinite ones allowed), a
matrix ``M0`` and a number ``t``, solve ::

    min  -r ln|B| + tr(M0 B) + t b + Σ C_i ξ_i
    s.t. φ_i'B φ_i <= o_i + y_i (φ_i'w + b) + ξ_i,  ξ_i >= 0,  |w| <= 1,  B positive definite

over ``B``, ``ξ`` and, where the problem has them, ``w`` and ``b``. Its dual is ::

    max  r ln|M(α)| - α'o - |Σ α_i y_i φ_i|,   M(α) = M0 + Σ α_i φ_i φ_i',   B = r M(α)^-1
    s.t. 0 <= α_i <= C_i,  Σ y_i α_i = t

Ellipsoids of least volume have no ``w``, ``y = 1``, and either ``t = 1`` with the threshold
``b`` or ``o = 1`` without one (Shivaswamy and Jebara, Ellipsoidal Kernel Machines, AISTATS 2007,
eq. 7); the ellipsoidal support vector machine has all the parts (Momma, Hatano and Nakayama,
Ellipsoidal Support Vector Machines, ACML 2010, eq. 6 and 7).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from oblong.solvers.logdet.state import LogDetState


@dataclass(frozen=True)
class LogDetResult:
    """Solution of a log-determinant problem.

    Attributes
    ----------
    alpha : ndarray of shape (n,)
        Dual solution, strictly inside its bounds.
    w : ndarray of shape (p,) or None
        Direction, where the problem has one.
    b : float
        Threshold or bias; zero where the problem has none.
    q : ndarray of shape (n,)
        ``φ_i'B φ_i``.
    factor : ndarray of shape (p, p)
        Lower triangular ``G`` with ``B = r G'G``.
    objective : float
        Value of the dual, constants included.
    gap : float
        Primal value minus dual value; infinite if no feasible primal point is known.
    n_iter : int
        Newton systems factored.
    status : {"converged", "max_iter", "stalled"}
        Why the solver stopped.
    """

    alpha: np.ndarray
    w: np.ndarray | None
    b: float
    q: np.ndarray
    factor: np.ndarray
    objective: float
    gap: float
    n_iter: int
    status: str


def solve_log_det(
    F: np.ndarray,
    start: np.ndarray,
    *,
    tol: float = 1e-9,
    max_iter: int = 100,
    **problem: Any,
) -> LogDetResult:
    """Solve a problem with a log-determinant and its dual.

    Newton steps on the optimality conditions with Mehrotra's predictor and corrector; the Newton
    matrix is ``Q∘Q / r`` plus a diagonal, factored as it is or, for many rows, through the
    quadratic features whose dot products are ``Q∘Q``.

    Parameters
    ----------
    F : ndarray of shape (n, p)
        Vectors ``φ_i`` in rows, in double precision. Their scale should be near one.
    start : ndarray of shape (n,)
        Starting point, with ``0 < start < caps`` and ``M(start)`` positive definite.
    tol : float, default=1e-9
        Largest gap.
    max_iter : int, default=100
        Limit on Newton systems.
    **problem : object
        The other parameters of :class:`~oblong.solvers.logdet.state.LogDetState`.

    Returns
    -------
    LogDetResult
        The solution with its gap.

    Examples
    --------
    The ellipsoid of least volume around four points, centred at the origin:

    >>> import numpy as np
    >>> from oblong.solvers.logdet.interior_point import solve_log_det
    >>> X = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> result = solve_log_det(X, np.full(4, 0.25), total=1.0)
    >>> shape = np.linalg.inv(result.factor.T @ result.factor / result.b)
    >>> bool(np.allclose(shape, [[4, 0], [0, 1]], atol=1e-4))
    True
    """
    state = LogDetState(F, start, **problem)
    best, merit, idle, n_iter = np.inf, np.inf, 0, 0
    kept = state.keep()
    while True:
        gap = state.gap()
        # On the way to the central path the gap need not fall, while the merit does.
        idle = 0 if gap < 0.9 * best or state.last_merit < 0.9 * merit else idle + 1
        merit = min(merit, state.last_merit)
        if gap < best:
            best, kept = gap, state.keep()
        if gap <= tol:
            status = "converged"
            break
        if idle >= state.options.patience or n_iter >= max_iter:
            status = "max_iter" if n_iter >= max_iter else "stalled"
            break
        n_iter += 1
        if not state.advance():
            status = "stalled"
            break
    state.restore(kept)
    w, values = state.w if state.direction else None, (state.dual(), state.gap(), n_iter)
    return LogDetResult(state.alpha, w, state.b, state.q, state.G, *values, status)
