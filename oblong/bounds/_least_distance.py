"""The point of a polyhedron that is nearest to the origin.

::

    min_v  ½|v|²    subject to  A v >= h,   h >= 0

is what remains of a margin problem without slack and without bias. Lawson and Hanson ("Solving
Least Squares Problems", 1974, chapter 23) turn it into least squares with non-negative unknowns:
the residual of ``min_{u >= 0} |A'u|² + (h'u - 1)²`` points to the solution.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

# A second solution in units of the first makes up for the digits that a far point loses.
_PASSES = 3
# A combination of the rows that is shorter than this is round-off of zero.
_ZERO_LENGTH = 1e-13


@dataclass(frozen=True)
class LeastDistanceResult:
    """The nearest point and its multipliers.

    Attributes
    ----------
    point : ndarray of shape (k,)
        The point ``v``; zero where there is none.
    multipliers : ndarray of shape (m,)
        Multipliers ``u >= 0`` of the rows, of any scale.
    lower_bound : float
        ``h'u / |A'u|``, a lower bound of the distance that any ``u >= 0`` gives.
    status : {"converged", "infeasible"}
        ``"infeasible"`` if no point satisfies the constraints, as far as rounding can tell.
    """

    point: np.ndarray
    multipliers: np.ndarray
    lower_bound: float
    status: str


def solve_least_distance(A: np.ndarray, h: np.ndarray) -> LeastDistanceResult:
    """Find the point of ``{v : A v >= h}`` that is nearest to the origin.

    Parameters
    ----------
    A : ndarray of shape (m, k)
        Rows of the constraints.
    h : ndarray of shape (m,)
        Right-hand sides, not negative.

    Returns
    -------
    LeastDistanceResult
        The point, its multipliers and the bound they give.
    """
    m, k = A.shape
    norms = np.linalg.norm(A, axis=1)
    # Rows through the origin may have any length; the others must keep their lengths' ratios.
    scale = norms[h > 0].max(initial=0.0) or 1.0
    norms = np.where((h > 0) | (norms == 0), scale, norms)
    rows = A / norms[:, None]
    target = np.zeros(k + 1)
    target[k] = 1.0
    distance = 1.0
    for _ in range(_PASSES):
        # With the point in units of its own length the residual is of order one.
        u, _ = nnls(np.vstack([rows.T, h / distance]), target, maxiter=max(1000, 30 * m))
        image, total = rows.T @ u, float(h @ u)
        length = float(np.linalg.norm(image))
        if total == 0.0:
            return LeastDistanceResult(np.zeros(k), u / norms, 0.0, "converged")
        if length <= _ZERO_LENGTH * u.sum():
            return LeastDistanceResult(np.zeros(k), u / norms, np.inf, "infeasible")
        # The residual is (image, total/distance - 1), and the optimality of u gives the last
        # entry in terms of the others, without a difference of nearly equal numbers.
        distance = total / length
    point, u = _polish(rows, h, u, image * (distance / length))
    bound = float(h @ u) / float(np.linalg.norm(rows.T @ u))
    return LeastDistanceResult(point / scale, u / norms, bound / scale, "converged")


def _polish(
    rows: np.ndarray, h: np.ndarray, u: np.ndarray, point: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Solve for the point again with the constraints in use as equations.

    The stacked problem has the square of their condition number.
    """
    active = np.flatnonzero(u > 0)
    A = rows[active]
    better = np.linalg.lstsq(A, h[active], rcond=None)[0]
    weights = np.zeros_like(u)
    weights[active] = np.linalg.lstsq(A.T, better, rcond=None)[0]
    shortfall = np.max(h - rows @ point)
    if weights.min() < 0.0 or np.max(h - rows @ better) > max(shortfall, 0.0):
        return point, u
    return better, weights
