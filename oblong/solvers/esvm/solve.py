"""The ellipsoidal support vector machine: the centre of a large ellipsoid in the version space.

For feature vectors ``φ_i``, labels ``y_i = ±1``, caps ``C_i`` and factors ``π_i``, solve ::

    min  -r ln|B| + (1 - r) tr B + Σ C_i ξ_i
    s.t. y_i (φ_i'w + b) + ξ_i >= π_i φ_i'B φ_i,  ξ_i >= 0,  |w| <= 1,  B positive definite

(Momma, Hatano and Nakayama, Ellipsoidal Support Vector Machines, ACML 2010, eq. 6; its rows have
``π = 1``, while a relaxation of their exact problem, eq. 5, needs ``π_i = 1 / |φ_i|``.) The dual is
stated in eq. 7. Where its ``v = Σ α_i y_i φ_i`` does not vanish, ``w = v / |v|``; it does vanish
for data that overlap and large caps, and the weights ``α`` then do not determine ``w``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from oblong._core.progress import Progress, ProgressCallback
from oblong._core.threads import blas_for_systems
from oblong.linalg.feature_map import combination, row_norms
from oblong.solvers.esvm.interior_point import solve_by_interior_point
from oblong.solvers.esvm.many_rows import (
    solve_by_newton,
    solve_by_samples,
    solve_by_working_sets,
)
from oblong.solvers.esvm.options import EsvmOptions
from oblong.solvers.esvm.problem import Certified, EsvmProblem, moment_factor, smallest_ratio

# Outputs of the model with a given direction and bias as it is stored, and their rounding errors.
Evaluate: TypeAlias = Callable[[np.ndarray, float], tuple[np.ndarray, np.ndarray]]

# Gap, over r p, up to which a solution that met its tolerance has converged.
_PROMISE = 1e-3
_EPS = 4.0 * float(np.finfo(float).eps)


@dataclass(frozen=True)
class EllipsoidalSVMResult:
    """Solution of the ellipsoidal support vector machine.

    Attributes
    ----------
    w : ndarray of shape (p,)
        Direction, of length at most one.
    b : float
        Intercept; zero if none is fitted.
    alpha : ndarray of shape (n,)
        Dual weights, ``0 <= α_i <= C_i`` and, with an intercept, ``Σ y_i α_i = 0``.
    q : ndarray of shape (n,)
        ``π_i φ_i'B φ_i``.
    factor : ndarray of shape (p, p) or None
        Lower triangular ``G`` with ``B = r G'G``. None where the kernel matrix was enough for the
        certificate; :func:`moment_factor` computes it from the weights.
    outputs : ndarray of shape (n,)
        ``φ_i'w + b``.
    objective : float
        Value of the primal; infinite if no feasible point is known.
    dual_objective : float
        Value of the dual: no feasible point has a smaller objective.
    gap : float
        Difference of the two over ``r p``.
    n_iter : int
        Newton systems; with a kernel also evaluations of the dual, which lead to the solution
        without such systems where every row has slack; or steps of the sequential solver.
    status : {"converged", "inseparable", "max_iter", "stalled"}
        Why the solver stopped. ``"inseparable"``: a hard margin was asked for, and the weights
        prove that there is none worth the name, since ``|Σ α_i y_i φ_i| / Σ α_i`` bounds it.
    """

    w: np.ndarray
    b: float
    alpha: np.ndarray
    q: np.ndarray
    factor: np.ndarray | None
    outputs: np.ndarray
    objective: float
    dual_objective: float
    gap: float
    n_iter: int
    status: str


def solve_ellipsoidal_svm(
    F: np.ndarray,
    y: np.ndarray,
    *,
    caps: np.ndarray,
    pi: np.ndarray,
    r: float,
    fit_intercept: bool = True,
    solver: str = "auto",
    tol: float = 1e-6,
    max_iter: int | None = None,
    polish: bool = False,
    start: EllipsoidalSVMResult | None = None,
    progress: ProgressCallback | None = None,
    options: EsvmOptions | None = None,
) -> EllipsoidalSVMResult:
    """Solve the ellipsoidal support vector machine, with a certificate.

    Parameters
    ----------
    F : ndarray of shape (n, p)
        Feature vectors ``φ_i`` in rows.
    y : ndarray of shape (n,)
        Labels, -1 or +1.
    caps : ndarray of shape (n,)
        Penalties ``C_i`` of slack; infinite for a hard margin. Rows with zero are left out.
    pi : ndarray of shape (n,)
        Positive factors ``π_i``.
    r : float
        Weight of the log-determinant, ``0 < r < 1``.
    fit_intercept : bool, default=True
        Whether there is a ``b``.
    solver : {"auto", "ipm", "newton", "smo"}, default="auto"
        ``"ipm"``: primal-dual interior point with all rows; with almost as many columns as rows,
        faster ways to the same solution are tried first. ``"newton"``: Newton's method on a
        smoothed problem, and the interior point method for the rows near the boundary; for many
        rows with few columns. ``"smo"``: pairs of weights on models of the dual, of ``n × n``
        numbers, and the interior point method where these lead nowhere; needs an intercept.
        ``"auto"`` takes one of the first two by the shape of ``F``; with many rows and columns,
        the first only for the rows that are near the boundary by the solution of a sample.
    tol : float, default=1e-6
        Largest gap.
    max_iter : int, default=None
        Limit on iterations; None for a limit that suits the solver.
    polish : bool, default=False
        Whether the interior point method goes on to the last digits that rounding leaves, which
        is cheap for few rows.
    start : EllipsoidalSVMResult, default=None
        A solution of a similar problem to start from, where the solver can use one.
    progress : callable, default=None
        Called with a :class:`~oblong._core.progress.Progress` now and then.
    options : EsvmOptions, default=None
        Settings of the solvers.

    Returns
    -------
    EllipsoidalSVMResult
        The solution with its gap.

    Examples
    --------
    Two points, hard margin: each has the weight ``r - 1/2``.

    >>> import numpy as np
    >>> from oblong.solvers.esvm.solve import solve_ellipsoidal_svm
    >>> result = solve_ellipsoidal_svm(
    ...     np.array([[1.0, 0.0], [-1.0, 0.0]]),
    ...     np.array([1.0, -1.0]),
    ...     caps=np.full(2, np.inf),
    ...     pi=np.ones(2),
    ...     r=0.9,
    ... )
    >>> result.alpha.round(3).tolist(), result.status
    ([0.4, 0.4], 'converged')
    """
    F = np.asarray(F, dtype=None if F.dtype == np.float32 else np.float64)
    y, caps, pi = (np.asarray(a, dtype=np.float64) for a in (y, caps, pi))
    rows = np.flatnonzero(caps > 0.0)
    everything = len(rows) == len(caps)
    parts = (F, y, caps, pi) if everything else (F[rows], y[rows], caps[rows], pi[rows])
    if len(rows) == 0 or parts[1].min() == parts[1].max():
        raise ValueError("rows of both classes with positive caps are needed")
    options = options or EsvmOptions()
    solver = _choose(solver, len(rows), F.shape[1], options)
    if solver == "smo" and not fit_intercept:
        raise ValueError("pairs of weights need an intercept")
    limit = options.iterations if max_iter is None else max_iter
    problem = EsvmProblem(*parts, r, fit_intercept, tol, limit, options=options)
    if progress is not None:

        def report(gap: float) -> None:
            progress(Progress("ellipsoidal svm", problem.n_iter, gap, tol))

        problem.report = report
    with blas_for_systems(min(problem.n, problem.p)):
        found, status = _solve(problem, solver, start, polish, max_iter is None)
    alpha, q, outputs = found.alpha, found.q, found.outputs
    if not everything:
        whole = EsvmProblem(F, y, caps, pi, r, fit_intercept, tol, 0)
        alpha = np.zeros(len(y))
        alpha[rows] = found.alpha
        G = moment_factor(F, alpha, pi, r) if found.G is None else found.G
        q, g = whole.images(np.sqrt(r) * G, found.w)
        outputs = g + found.b
    values = (found.dual + found.gap, found.dual, found.gap / problem.unit, problem.n_iter)
    return EllipsoidalSVMResult(found.w, found.b, alpha, q, found.G, outputs, *values, status)


def _choose(solver: str, n: int, p: int, options: EsvmOptions) -> str:
    if solver != "auto":
        return solver
    enough = min(options.newton_rows * p * p, options.newton_certain)
    return "newton" if n > max(options.newton_from, enough) else "samples"


def _solve(
    problem: EsvmProblem,
    solver: str,
    start: EllipsoidalSVMResult | None,
    polish: bool,
    by_default: bool,
) -> tuple[Certified, str]:
    """Solve; ``by_default`` says that the limit on iterations is that of each method."""
    if solver != "newton":
        if solver == "samples" and problem.hard is None and not polish:
            found, status = solve_by_samples(problem)
        else:
            found, status = solve_by_interior_point(problem, polish, pairs=solver == "smo")
        if status != "stalled" or problem.hard is not None:
            return found, status
        # Caps of very different sizes: smoothing copes, unless they are beyond all reason.
        try:
            other, status = solve_by_newton(problem)
        except np.linalg.LinAlgError:
            return found, "stalled"
        return (other, status) if other.gap < found.gap else (found, "stalled")
    if problem.hard is not None:
        # There is nothing to smooth.
        return solve_by_working_sets(problem)
    begin = None
    if start is not None and start.w.shape == (problem.p,):
        G = start.factor
        if G is None:
            G = problem.factor(np.minimum(start.alpha, problem.caps))[0]
        begin = np.sqrt(problem.r) * G.T, start.w, start.b
    found, status = solve_by_newton(problem, begin)
    unknowns = problem.p * (problem.p + 3) // 2 + 1
    large = problem.n * unknowns > problem.options.exact_values
    if status == "converged" or large or (status == "max_iter" and not by_default):
        return found, status
    if by_default:
        problem.max_iter += problem.n_iter
    # Few rows with large caps decide, which smoothing does not find.
    other, status = solve_by_samples(problem)
    return (other, status) if other.gap < found.gap else (found, "stalled")


def as_stored(
    F: np.ndarray,
    y: np.ndarray,
    caps: np.ndarray,
    pi: np.ndarray,
    outside: np.ndarray | None,
    r: float,
    tol: float,
    result: EllipsoidalSVMResult,
    evaluate: Evaluate,
) -> tuple[EllipsoidalSVMResult, bool]:
    """Certify the model that is stored, and say whether most of the gap is rounding.

    Its outputs are not those of the solver where a limit case takes the place of the solution,
    and where they are small differences of large numbers. What the feature vectors lost of the
    rows counts ``r / (1 - r)`` times in ``φ'B φ``.
    """
    if not np.isfinite(result.objective):
        return result, False
    outputs, error = evaluate(result.w, result.b)
    q, alpha, t = result.q, result.alpha, row_norms(F)
    # A difference of squared lengths as small as this is rounding in them alone.
    least = _EPS * t**2
    lost = np.zeros(len(t)) if outside is None else outside
    factor = pi * (r / (1.0 - r))
    whole = q + factor * lost
    largest = whole if outside is None else whole + factor * least
    before, value, worst = (
        _of_outputs(y, caps, result, r, f, q)
        for f, q in ((result.outputs, q), (outputs, whole), (outputs - y * error, largest))
    )
    unit = r * len(result.w)
    objective = result.objective - before
    if result.factor is not None:
        # Where the rows' moments are nearly singular, the stored matrix is not quite the one that
        # the dual weights stand for.
        sizes = np.abs(result.factor.diagonal())
        objective = -unit * np.log(r) - 2.0 * r * float(np.log(sizes).sum())
        objective += (1.0 - r) * r * float(np.sum(result.factor**2))
    objective += value
    # The sum of the weighted rows, and the values themselves.
    length = float(np.linalg.norm(combination(alpha * y, F)))
    hidden = (
        float(np.hypot(length, alpha @ np.sqrt(np.where(lost > 16.0 * least, lost, 0.0)))) - length
    )
    hidden += _EPS * (float(alpha @ t) + abs(objective) + unit)
    hidden += worst - value if np.isfinite(value) else np.inf
    gap = (max(objective - result.dual_objective, 0.0) + hidden) / unit
    status = result.status
    if not gap <= max(tol, _PROMISE) and status == "converged":
        status = "stalled"
    found = replace(result, outputs=outputs, objective=objective, gap=gap, status=status)
    return found, bool(hidden > 0.5 * gap * unit)


def _of_outputs(
    y: np.ndarray,
    caps: np.ndarray,
    result: EllipsoidalSVMResult,
    r: float,
    outputs: np.ndarray,
    q: np.ndarray,
) -> float:
    """The part of the objective that depends on the outputs and on ``q``.

    That is the loss of rows with slack and, where rows have none, what it costs to shrink the
    matrix to ``κ B``, for which their margins are wide enough.
    """
    side, hard = y * outputs, np.isinf(caps)
    soft, shrink, cost = ~hard, 1.0, 0.0
    if hard.any():
        shrink = min(1.0, smallest_ratio(side[hard], q[hard]))
        if shrink <= 0.0:
            return np.inf
        unit = r * len(result.w)
        trace = unit - float(result.alpha @ result.q)
        if result.factor is not None:
            trace = (1.0 - r) * r * float(np.sum(result.factor**2))
        cost = (shrink - 1.0) * trace - unit * np.log(shrink)
    loss = caps[soft] @ np.maximum(shrink * q[soft] - side[soft], 0.0)
    return float(loss) + cost
