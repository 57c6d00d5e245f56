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

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from oblong._progress import ProgressCallback
from oblong.solvers._ellipsoid_active import enclose
from oblong.solvers._ellipsoid_capped import cover
from oblong.solvers._ellipsoid_coordinates import Coordinates
from oblong.solvers._ellipsoid_problem import Design, DesignProblem, capped_gap

__all__ = ["EllipsoidResult", "solve_ellipsoid"]

# Scales tried for one that agrees with its solution, and how many of them by interpolation.
_SCALES = 60
_INTERPOLATED = 12
# Smallest scale, per dimension.
_POINT = 1e-12


@dataclass(frozen=True)
class EllipsoidResult:
    """An ellipsoid ``{x : |(x - center) @ factor| <= 1}`` on the affine hull of the rows.

    Attributes
    ----------
    center : ndarray of shape (d,)
        ``μ``; zero for an ellipsoid centred at the origin.
    factor : ndarray of shape (d, k)
        ``R`` with ``R R' = Σ⁺``; ``k`` is the rank.
    inverse_factor : ndarray of shape (k, d)
        ``x = center + t @ inverse_factor`` on the hull, so that ``inverse_factor`` times itself
        from the left, transposed, is ``Σ``.
    weights : ndarray of shape (n,)
        ``u``, of sum one.
    squared_distances : ndarray of shape (n,)
        ``|(x_i - center) @ factor|²``.
    threshold : float
        ``ρ``.
    scale : float
        ``s``.
    cap : float
        ``κ``; infinite if every row is enclosed.
    E : float
        Penalty ``κ s / 2`` of the soft problem with the same solution.
    log_volume : float
        Logarithm of the volume on the hull.
    objective : float
        ``ln|Σ u_i (x_i - μ)(x_i - μ)'|`` on the hull, in the units of the data.
    gap : float
        Bound on what ``ln|M(u)|`` lacks to its maximum, over ``D``.
    n_iter : int
        Newton systems.
    n_passes : int
        Passes over all rows: one for their covariance, the others for their leverages.
    status : {"converged", "max_iter", "stalled"}
        Why the solver stopped.
    is_simplex : bool
        Whether there are no more distinct rows than dimensions, so that every row is on the
        boundary and the ellipsoid says nothing about the shape.
    """

    center: np.ndarray
    factor: np.ndarray
    inverse_factor: np.ndarray
    weights: np.ndarray
    squared_distances: np.ndarray
    threshold: float
    scale: float
    cap: float
    E: float
    log_volume: float
    objective: float
    gap: float
    n_iter: int
    n_passes: int
    status: str
    is_simplex: bool = False


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
) -> EllipsoidResult:
    """Find the ellipsoid of least volume that encloses all rows, or most of them.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Finite rows in single or double precision.
    coverage : float, default=1.0
        Share of the weight to enclose, in [0, 1]: at most ``1 - coverage`` of it lies strictly
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
        Directions whose deviation is below this share of the largest are not part of the hull,
        features being scaled to equal deviations.
    start : ndarray of shape (n,), optional
        Weights of an earlier solution for nearly the same rows.
    progress : callable, default=None
        Called with a :class:`~oblong._progress.Progress` after each round.

    Returns
    -------
    EllipsoidResult
        The ellipsoid with its certificate. With ``coverage=1`` and no ``E`` it encloses every
        row.

    Examples
    --------
    >>> import numpy as np
    >>> from oblong.solvers.ellipsoid import solve_ellipsoid
    >>> result = solve_ellipsoid(np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]))
    >>> bool(np.allclose(result.inverse_factor.T @ result.inverse_factor, [[2, 0], [0, 2]]))
    True
    """
    weights = _checked(X, coverage, E, sample_weight, ridge, start)
    absent = weights is not None and bool((weights == 0).any())
    coordinates = Coordinates.of(
        X, (weights > 0).astype(float) if absent else None, lift=center, rank_tol=rank_tol
    )
    problem = DesignProblem(X, coordinates, weights, tol, max_iter, progress, n_passes=1)
    smallest = 1.0 if weights is None else float(weights[weights > 0].min())
    nu = 1.0 - coverage
    kappa = np.inf
    if nu * problem.total_weight > smallest * (1.0 + 1e-12):
        kappa = 1.0 / (nu * problem.total_weight)
    if E is None and ridge is None:
        design = _solve(problem, kappa, start)
        return _read_out(problem, design, kappa, None if coverage > 0 else 1.0)
    if ridge is None:
        return _for_penalty(problem, 2.0 * E, start)
    return _with_ridge(problem, ridge, kappa, None if E is None else 2.0 * E, start)


def _solve(problem: DesignProblem, kappa: float, start: np.ndarray | None) -> Design:
    if np.isinf(kappa):
        return enclose(problem, start)
    return cover(problem, kappa, start)


def _for_penalty(problem: DesignProblem, bound: float, start: np.ndarray | None) -> EllipsoidResult:
    """Solve with weights ``s u_i`` of at most ``bound ω_i``, where ``s`` depends on them."""
    lift, total = problem.coordinates.lift, problem.total_weight
    whole = enclose(problem, start)
    s = whole.rho - lift
    caps = 1.0 if problem.weights is None else problem.weights
    if (s * whole.u <= bound * caps).all():
        return _read_out(problem, whole, bound / s, None)

    def solve(s: float, start: np.ndarray | None) -> tuple[Design, float]:
        kappa = max(bound / s, 1.0 / total)
        return cover(problem, kappa, start), kappa

    return _fixed_point(problem, solve, min(s, bound * total), whole.u)


def _with_ridge(
    problem: DesignProblem,
    ridge: float,
    kappa: float,
    bound: float | None,
    start: np.ndarray | None,
) -> EllipsoidResult:
    """Solve with ``Σ + ε I`` in the place of ``Σ``: the moments gain ``(ε / s) I``."""
    X, total = problem.X, problem.total_weight
    coordinates = problem.coordinates.unwhitened()
    scale = coordinates.forward[0, 0]

    def solve(s: float, start: np.ndarray | None) -> tuple[Design, float]:
        problem.coordinates = coordinates
        problem.M0 = (ridge * scale**2 / s) * np.eye(X.shape[1])
        cap = kappa if bound is None else max(bound / s, 1.0 / total)
        return _solve(problem, cap, start), cap

    if bound is None and kappa * total <= 1.0 + 1e-12:
        design, cap = solve(1.0, start)
        return _read_out(problem, design, cap, 1.0)
    highest = float(X.shape[1]) if bound is None else min(X.shape[1], bound * total)
    return _fixed_point(problem, solve, highest, start)


def _fixed_point(
    problem: DesignProblem,
    solve: Callable[[float, np.ndarray | None], tuple[Design, float]],
    highest: float,
    start: np.ndarray | None,
) -> EllipsoidResult:
    """Find the scale ``s`` at which the solution's own scale ``ρ - 1`` (or ``ρ``) is ``s``.

    Thresholds of one solution can be an interval, in which case the difference jumps across
    zero; then the gap at the threshold that belongs to ``s`` is as small as at any other.
    """
    lift = problem.coordinates.lift
    low, high = np.log(1e-9 * highest), np.log(highest)
    f_low = f_high = last = None
    x = high
    tol, step = problem.tol, 0.0
    for tried in range(_SCALES):
        s = float(np.exp(x))
        problem.tol = 0.3 * tol
        design, kappa = solve(s, start)
        problem.tol = tol
        start = design.u
        own = max(design.rho - lift, 1e-300)
        gap = _gap_at(problem, design, kappa, s + lift)
        if gap <= problem.tol:
            break
        f = np.log(own) - x
        side = 1 if f > 0 else -1
        if side > 0:
            if x == high:
                # All weights are at their caps; only the scale can still shrink.
                break
            low, f_low = x, f
        else:
            high, f_high = x, f
        if side == last and f_low is not None and f_high is not None:
            # The end that stays loses weight, so that it does not stay for ever.
            f_low, f_high = (f_low, 0.5 * f_high) if side > 0 else (0.5 * f_low, f_high)
        last = side
        if high - low < 1e-14 or problem.n_iter >= problem.max_iter:
            break
        if f_low is None:
            step = max(-2.0 * f, 2.0 * step)
            x = max(x - step, low)
        elif f_high is None or f_high == f_low or tried > _INTERPOLATED:
            x = 0.5 * (low + high)
        else:
            x = (low * f_high - high * f_low) / (f_high - f_low)
    status = "converged"
    if gap > problem.tol:
        status = "max_iter" if problem.n_iter >= problem.max_iter else "stalled"
    if np.isinf(kappa):
        # Every row is to be inside, whatever is left of the difference.
        s = max(s, own)
    return _read_out(problem, replace(design, gap=gap, status=status), kappa, s)


def _gap_at(problem: DesignProblem, design: Design, kappa: float, rho: float) -> float:
    """Gap over ``D`` of a threshold other than the best; without a cap, no lower one is allowed."""
    D = problem.coordinates.D
    if np.isinf(kappa):
        return design.gap + abs(design.rho - rho) / D
    mass = float(design.u @ design.q)
    return capped_gap(design.q, problem.weights, kappa, mass, rho)[1] / D


def _checked(X, coverage, E, sample_weight, ridge, start) -> np.ndarray | None:
    """Raise for bad input; return the weights, None if all are one."""
    if X.ndim != 2 or X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(f"X must have rows and columns; got an array of shape {X.shape}")
    if X.dtype not in (np.float32, np.float64):
        raise ValueError(f"X must be in single or double precision; got {X.dtype}")
    if not 0.0 <= coverage <= 1.0:
        raise ValueError(f"coverage must be in [0, 1]; got {coverage!r}")
    if E is not None and not E > 0.0:
        raise ValueError(f"E must be above zero; got {E!r}")
    if ridge is not None and not (ridge > 0.0 and np.isfinite(ridge)):
        raise ValueError(f"ridge must be above zero and finite; got {ridge!r}")
    if start is not None and np.shape(start) != (X.shape[0],):
        raise ValueError(f"start must have shape ({X.shape[0]},); got {np.shape(start)}")
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (X.shape[0],):
        raise ValueError(f"sample_weight must have shape ({X.shape[0]},); got {weights.shape}")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError("sample_weight must be finite, not negative, and not all zero")
    return None if (weights == 1.0).all() else weights


def _read_out(
    problem: DesignProblem, design: Design, kappa: float, scale: float | None
) -> EllipsoidResult:
    coordinates, q = problem.coordinates, design.q
    k, lift = coordinates.k, coordinates.lift
    s = design.rho - lift if scale is None else scale
    # More rows in the centre than there are to be inside: a point, as good as.
    s = max(s, _POINT * coordinates.D)
    root = np.sqrt(s)
    metric = design.metric
    objective = metric.log_det + 2.0 * coordinates.log_volume
    log_volume = 0.5 * (objective + k * np.log(s))
    log_volume += 0.5 * k * np.log(np.pi) - float(gammaln(0.5 * k + 1.0))
    return EllipsoidResult(
        metric.center,
        metric.T / root,
        metric.inverse * root,
        design.u,
        (q - lift) / s,
        s + lift,
        s,
        kappa,
        0.5 * kappa * s,
        log_volume,
        objective,
        design.gap,
        problem.n_iter,
        problem.n_passes,
        design.status,
        _is_simplex(problem, design),
    )


def _is_simplex(problem: DesignProblem, design: Design) -> bool:
    """Whether the distinct rows are no more than the dimensions."""
    present = problem.present()
    D = problem.coordinates.D
    if problem.M0 is not None:
        return False
    if len(present) <= D:
        return True
    q = design.q if len(present) == problem.n else design.q[present]
    if q.min() < (1.0 - 1e-3) * q.max():
        return False
    return len(np.unique(problem.X[present], axis=0)) <= D
