"""The smallest ball that encloses all points.

The dual of ``min_{c,R} R²`` subject to ``|x_i - c|² <= R²`` is ::

    max_u  Σ u_i |x_i|² - |Σ u_i x_i|²    subject to  Σ u_i = 1,  u >= 0

with the centre ``c = Σ u_i x_i``. Any feasible ``u`` gives a lower bound of ``R²``, and the
largest distance from any centre gives a ball that encloses everything: their difference is the
certificate. Few points matter, so a small problem is solved on a working set (a primal-dual
interior point), all distances are computed in one pass, and the farthest points join.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from oblong._core.threads import chunks
from oblong.solvers.ellipsoid.options import DEFAULTS, EllipsoidOptions

# Weight, over the largest, that is none.
_TRACE = 1e-10


@dataclass(frozen=True)
class EnclosingBallResult:
    """The smallest enclosing ball with its certificate.

    Attributes
    ----------
    center : ndarray of shape (d,)
        The centre.
    radius : float
        Largest distance of a point from the centre: the ball encloses them all.
    weights : ndarray of shape (n,)
        Weights ``u`` of sum one; the centre is their mean.
    lower_bound : float
        Square root of the dual objective: no enclosing ball has a smaller radius.
    n_iter, n_passes : int
        Newton steps, and passes over all points.
    status : {"converged", "max_iter", "stalled"}
        Why the solver stopped; ``"stalled"`` means that rounding allows no further progress.
    """

    center: np.ndarray
    radius: float
    weights: np.ndarray
    lower_bound: float
    n_iter: int
    n_passes: int
    status: str

    @property
    def objective(self) -> float:
        """Squared radius."""
        return self.radius**2

    @property
    def gap(self) -> float:
        """Radius minus lower bound, relative to the radius."""
        return 1.0 - self.lower_bound / self.radius if self.radius > 0.0 else 0.0


def solve_enclosing_ball(
    X: np.ndarray,
    *,
    tol: float = 1e-9,
    max_iter: int = 100,
    options: EllipsoidOptions = DEFAULTS,
) -> EnclosingBallResult:
    """Find the smallest ball around the rows.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Points.
    tol : float, default=1e-9
        Largest relative gap of the radius.
    max_iter : int, default=100
        Limit on passes over all points.
    options : EllipsoidOptions
        Settings of the method.

    Returns
    -------
    EnclosingBallResult
        The ball and its certificate.
    """
    n, d = X.shape
    joining = options.ball_joining * (d + 1)
    # Distances are differences of squares: they keep their digits near the origin only.
    origin = X.mean(axis=0, dtype=np.float64)
    distances = _squared_distances(X, origin, options.ball_chunk)
    scale = float(np.sqrt(distances.max(initial=0.0)))
    if not np.isfinite(scale):
        raise ValueError("the squared distances of the points are not finite: scale the data")
    weights = np.zeros(n)
    weights[int(distances.argmax())] = 1.0
    if scale == 0.0:
        return EnclosingBallResult(origin, 0.0, weights, 0.0, 0, 1, "converged")
    first = min(n, options.ball_first * (d + 1))
    working = np.argpartition(-distances, first - 1)[:first]
    n_iter, n_passes, status = 0, 1, "max_iter"
    best: _Ball | None = None
    while n_passes <= max_iter:
        n_passes += 1
        points = (X[working] - origin) / scale
        u, steps = _solve_small(points, options)
        n_iter += steps
        center = u @ points
        spread = points - center
        # Σ u |x - c|² is the dual objective when c is the mean, and adds no cancellation.
        lower = float(u @ np.einsum("ij,ij->i", spread, spread))
        found = _squared_distances(X, origin + scale * center, options.ball_chunk) / scale**2
        gap = float(1.0 - np.sqrt(lower / found.max()))
        if best is None or gap < best.gap:
            best, distances = _Ball(gap, center, u, lower, working), found
        if best.gap <= tol:
            status = "converged"
            break
        farther = np.argpartition(-distances, min(n, joining) - 1)
        farther = farther[:joining]
        kept = working[u > options.ball_no_weight / len(u)]
        grown = np.union1d(kept, farther[distances[farther] > best.lower])
        if np.isin(grown, working).all():
            # Nothing is left to add: what remains of the gap is round-off.
            status = "stalled"
            break
        working = grown
    assert best is not None
    weights[:] = 0.0
    weights[best.rows] = best.weights
    return EnclosingBallResult(
        center=origin + scale * best.center,
        radius=scale * float(np.sqrt(distances.max())),
        weights=weights,
        lower_bound=scale * float(np.sqrt(best.lower)),
        n_iter=n_iter,
        n_passes=n_passes,
        status=status,
    )


class _Ball(NamedTuple):
    """A ball around the scaled points, with the weights and the lower bound that belong to it."""

    gap: float
    center: np.ndarray
    weights: np.ndarray
    lower: float
    rows: np.ndarray


def _squared_distances(X: np.ndarray, center: np.ndarray, chunk: int) -> np.ndarray:
    """Squared distances in double precision, a chunk of rows at a time."""
    result = np.empty(len(X))
    for start, stop in chunks(len(X), chunk):
        part = X[start:stop] - center
        result[start:stop] = np.einsum("ij,ij->i", part, part)
    return result


def _solve_small(P: np.ndarray, options: EllipsoidOptions) -> tuple[np.ndarray, int]:
    """Weights of few points: minimise ``u'PP'u - Σ u_i |p_i|²`` over the simplex.

    Primal-dual interior point with a predictor: ``s = 2PP'u - |p|² + λ >= 0`` and ``u s = μ``.
    """
    m = len(P)
    Q = 2.0 * (P @ P.T)
    g = 0.5 * Q.diagonal()
    u = np.full(m, 1.0 / m)
    slope = Q @ u - g
    lam = float(1.0 - slope.min())
    s = slope + lam
    for step in range(options.ball_newton_steps):
        residual = Q @ u - g + lam - s
        mu = float(u @ s) / m
        if m * mu <= 1e-14 and np.abs(residual).max() <= 1e-13:
            # What is left of a weight that tends to zero is a trace of the method.
            u = np.where(u > _TRACE * u.max(), u, 0.0)
            return u / u.sum(), step
        matrix = Q.copy()
        matrix.flat[:: m + 1] += s / u
        try:
            factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            break
        ones = cho_solve(factor, np.ones(m), check_finite=False)

        def direction(target, factor=factor, ones=ones, residual=residual, u=u, s=s):
            rhs = -residual - s + target / u
            du = cho_solve(factor, rhs, check_finite=False)
            dlam = (du.sum() + u.sum() - 1.0) / ones.sum()
            du -= dlam * ones
            return du, dlam, (target - s * du) / u - s

        du, dlam, ds = direction(0.0)
        alpha = min(1.0, _longest(u, du), _longest(s, ds))
        ahead = float((u + alpha * du) @ (s + alpha * ds)) / m
        du, dlam, ds = direction((ahead / mu) ** 3 * mu - alpha**2 * du * ds)
        # One length for both: the curvature couples the two.
        alpha = min(1.0, options.ball_to_boundary * min(_longest(u, du), _longest(s, ds)))
        u, lam, s = u + alpha * du, lam + alpha * dlam, s + alpha * ds
    return u / u.sum(), options.ball_newton_steps


def _longest(x: np.ndarray, dx: np.ndarray) -> float:
    """How far ``x + a dx`` stays positive."""
    falling = dx < 0.0
    return float((-x[falling] / dx[falling]).min(initial=np.inf))
