"""What is known of an ellipsoid once its weights and its scale are."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, qr, solve_triangular
from scipy.special import gammaln

from oblong.solvers.ellipsoid.problem import Design, DesignProblem

# How far a row may move, in the unit ball, for the sake of a map that sees nothing off the hull.
_MOVED = 1e-7


@dataclass(frozen=True)
class EllipsoidResult:
    """An ellipsoid ``{x : |(x - center) @ factor| <= 1}`` on the affine hull of the rows.

    Attributes
    ----------
    center : ndarray of shape (d,)
        ``μ``; zero for an ellipsoid centred at the origin.
    factor : ndarray of shape (d, k)
        ``R`` with ``R R' = Σ⁺``, the pseudo-inverse of ``inverse_factor``; ``k`` is the rank.
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
        ``ln|Σ u_i (x_i - μ)(x_i - μ)'|`` on the hull, in the units of the data; with a ridge,
        ``ln|Σ|``.
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


@dataclass(frozen=True)
class PassEllipsoid:
    """An ellipsoid around rows of a source, known by its working rows.

    Attributes
    ----------
    result : EllipsoidResult
        The ellipsoid, with weights and distances of the working rows, and the gap for all rows.
    X : ndarray
        The working rows.
    numbers : ndarray of int
        Their numbers in the source.
    n_passes : int
        Passes over the rows.
    row_weights : ndarray or None
        Their weights in the source; None for ones.
    inside : float
        Fraction of all rows inside; None if the working rows are all there are.
    """

    result: EllipsoidResult
    X: np.ndarray
    numbers: np.ndarray
    n_passes: int
    row_weights: np.ndarray | None = None
    inside: float | None = None


def read_out(
    problem: DesignProblem, design: Design, kappa: float, scale: float | None
) -> EllipsoidResult:
    """Scale the ellipsoid of a design by ``scale``, or by what its threshold says."""
    coordinates, q = problem.coordinates, design.q
    k, lift = coordinates.k, coordinates.lift
    s = design.rho - lift if scale is None else scale
    # With more rows at the centre than have to be inside, the ellipsoid shrinks to a point.
    s = max(s, problem.options.smallest_scale * coordinates.D)
    root = np.sqrt(s)
    metric = design.metric
    objective = metric.log_det + 2.0 * coordinates.log_volume
    log_volume = 0.5 * (objective + k * np.log(s)) + log_unit_ball(k)
    if problem.M0 is not None:
        # The ridge is part of the moments in proportion to the scale.
        objective += k * np.log(s)
    inverse = metric.inverse * root
    factor = _pseudo_inverse(inverse, metric.T / root)
    off = factor - metric.T / root
    if off.any():
        # Thin directions that were dropped may be long in the units of the data, in which "off the
        # hull" is meant: the rows of the fit have to stay where they are.
        moved = coordinates.squares(problem.X, off, (metric.center - coordinates.center) @ off)
        if not moved[problem.present()].max() <= _MOVED**2:
            factor = metric.T / root
    sizes = (s + lift, s, kappa, 0.5 * kappa * s, log_volume, objective, design.gap)
    run = (problem.n_iter, problem.n_passes)
    return EllipsoidResult(
        metric.center, factor, inverse, design.u, (q - lift) / s, *sizes, *run,
        design.status, _is_simplex(problem, design),
    )  # fmt: skip


def log_unit_ball(k: int) -> float:
    """Logarithm of the volume of the unit ball."""
    return 0.5 * k * np.log(np.pi) - float(gammaln(0.5 * k + 1.0))


def _pseudo_inverse(F: np.ndarray, T: np.ndarray) -> np.ndarray:
    """Of the maps ``T`` with ``F T = I``, the one that sees nothing off the rows of ``F``.

    The given one is returned if there is no other, or if features are of so different lengths
    that rounding would have the last word.
    """
    k, d = F.shape
    if k == d:
        return T
    # Long features first keep the digits of the short ones.
    order = np.argsort(-np.abs(F).max(axis=0), kind="stable")
    Q, R, columns = qr(F[:, order].T, mode="economic", pivoting=True)
    found = np.empty((d, k))
    try:
        # F' = Q R with columns in another order, so that the inverse is Q R'^-1 in that order.
        found[np.ix_(order, columns)] = solve_triangular(R, Q.T, trans="N").T
        found = found @ np.linalg.inv(F @ found)
    except LinAlgError:
        return T
    good = np.isfinite(found).all() and np.abs(F @ found - np.eye(k)).max() < 1e-9
    return found if good else T


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
