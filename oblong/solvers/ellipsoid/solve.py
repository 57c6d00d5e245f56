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

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from oblong._core.progress import ProgressCallback
from oblong.solvers.ellipsoid.active_set import enclose
from oblong.solvers.ellipsoid.ball import solve_enclosing_ball
from oblong.solvers.ellipsoid.capped import cover
from oblong.solvers.ellipsoid.coordinates import Coordinates
from oblong.solvers.ellipsoid.options import DEFAULTS, EllipsoidOptions
from oblong.solvers.ellipsoid.problem import Design, DesignProblem, capped_gap
from oblong.solvers.ellipsoid.result import EllipsoidResult, log_unit_ball, read_out


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
    options: EllipsoidOptions = DEFAULTS,
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
    options : EllipsoidOptions
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


def solve_design(problem: DesignProblem, kappa: float, start: np.ndarray | None) -> Design:
    """Solve the design problem, with caps unless ``κ`` is infinite."""
    if np.isinf(kappa):
        return enclose(problem, start)
    return cover(problem, kappa, start)


def solve_for_penalty(
    problem: DesignProblem, bound: float, start: np.ndarray | None
) -> EllipsoidResult:
    """Solve with weights ``s u_i`` of at most ``bound ω_i``, where ``s`` depends on them."""
    lift, total = problem.coordinates.lift, problem.total_weight
    whole = enclose(problem, start)
    s = whole.rho - lift
    caps = 1.0 if problem.weights is None else problem.weights
    if (s * whole.u <= bound * caps).all():
        return read_out(problem, whole, bound / s, None)

    def solve(s: float, start: np.ndarray | None) -> tuple[Design, float]:
        kappa = max(bound / s, 1.0 / total)
        return cover(problem, kappa, start), kappa

    return _fixed_point(problem, solve, min(s, bound * total), whole.u)


def solve_with_ridge(
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
        return solve_design(problem, cap, start), cap

    if bound is None and kappa * total <= 1.0 + 1e-12:
        design, cap = solve(1.0, start)
        return read_out(problem, design, cap, 1.0)
    if bound is not None or np.isinf(kappa):
        ball = _ball(problem, ridge, bound)
        if ball is not None:
            return ball
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
    f_low: float | None = None
    f_high: float | None = None
    last: int | None = None
    best: tuple[float, Design, float, float] | None = None
    x = high
    tol, step = problem.tol, 0.0
    for tried in range(problem.options.scales):
        s = float(np.exp(x))
        # With a ridge, leverages are in proportion to the scale, and so have errors to be.
        problem.tol = 0.3 * tol
        if problem.M0 is not None:
            problem.tol = max(0.3 * tol * min(1.0, s), problem.options.finest_gap)
        design, kappa = solve(s, start)
        problem.tol = tol
        start = design.u
        own = max(design.rho - lift, 1e-300)
        gap = _gap_at(problem, design, kappa, s)
        if best is None or gap < best[0]:
            best = gap, design, kappa, s
        f = np.log(own) - x
        # Without a cap the ellipsoid will touch the rows, for which a small gap is not enough.
        if gap <= tol and (np.isfinite(kappa) or abs(f) <= tol):
            best = gap, design, kappa, s
            break
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
        elif f_high is None or f_high == f_low or tried > problem.options.interpolated_scales:
            x = 0.5 * (low + high)
        else:
            x = (low * f_high - high * f_low) / (f_high - f_low)
    assert best is not None
    gap, design, kappa, s = best
    status = "converged"
    if gap > tol:
        status = "max_iter" if problem.n_iter >= problem.max_iter else "stalled"
    if np.isinf(kappa):
        # Every row is to be inside, whatever is left of the difference.
        s = max(s, design.rho - lift)
    return read_out(problem, replace(design, gap=gap, status=status), kappa, s)


def _gap_at(problem: DesignProblem, design: Design, kappa: float, s: float) -> float:
    """Gap over ``D`` of a scale ``s``, for the problem in which the scale is free."""
    D, lift = problem.coordinates.D, problem.coordinates.lift
    mass = float(design.u @ design.q)
    if np.isfinite(kappa):
        return capped_gap(design.q, problem.weights, kappa, mass, s + lift)[1] / D
    # The ellipsoid grows until all rows are inside; ``Σ + ε I`` as a whole is what grows.
    k, mass = problem.coordinates.k, mass - lift
    grow = max(1.0, (design.rho - lift) / s)
    return max(0.0, k * np.log(grow) + (k - mass) * (1.0 / grow - 1.0) + s - mass) / D


def _ball(problem: DesignProblem, ridge: float, bound: float | None) -> EllipsoidResult | None:
    """Solution ``ε I`` if a ball of that squared radius holds all rows, else None."""
    X, present, lift = problem.X, problem.present(), problem.coordinates.lift
    d = X.shape[1]
    u, center = np.zeros(problem.n), np.zeros(d)
    if lift:
        deviation = float(np.sum(problem.coordinates.backward**2))
        if deviation > ridge * (1.0 + 1e-9):
            # The mean of the squared distances is never above that of the smallest ball.
            return None
        found = solve_enclosing_ball(
            X if len(present) == problem.n else X[present], options=problem.options
        )
        u[present], center = found.weights, found.center
        problem.n_iter, problem.n_passes = found.n_iter, problem.n_passes + found.n_passes
    frame = np.eye(d)
    flat = Coordinates(center, frame, frame, 0.0, lift)
    squares = flat.squares(X, frame / np.sqrt(ridge), np.zeros(d))
    farthest = int(present[np.argmax(squares[present])])
    if squares[farthest] > 1.0:
        return None
    if not lift:
        u[farthest] = 1.0
    objective = d * np.log(ridge)
    return EllipsoidResult(
        center=center,
        factor=frame / np.sqrt(ridge),
        inverse_factor=frame * np.sqrt(ridge),
        weights=u,
        squared_distances=squares,
        threshold=float(lift),
        scale=0.0,
        cap=np.inf,
        E=np.inf if bound is None else 0.5 * bound,
        log_volume=0.5 * objective + log_unit_ball(d),
        objective=objective,
        gap=0.0,
        n_iter=problem.n_iter,
        n_passes=problem.n_passes,
        status="converged",
    )
