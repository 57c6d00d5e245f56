"""The bounded D-optimal design that stands behind an ellipsoid, and its certificate.

It is the dual, equation (7) of Shivaswamy and Jebara, Ellipsoidal Kernel Machines, AISTATS 2007,
with the centre as a further coordinate of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from oblong._core.progress import Progress, ProgressCallback
from oblong._core.threads import own_threads_only
from oblong.linalg.log_det import moments
from oblong.solvers.ellipsoid.coordinates import Coordinates, Metric
from oblong.solvers.ellipsoid.options import EllipsoidOptions
from oblong.solvers.logdet.interior_point import LogDetResult, solve_log_det

# Error of a sum of weights that is left alone.
_ROUNDING = 1e-14


@dataclass(frozen=True)
class Design:
    """Weights, and what a pass over all rows says about them.

    Attributes
    ----------
    u : ndarray of shape (n,)
        Weights of sum one.
    metric : Metric
        The ellipsoid that they make.
    q : ndarray of shape (n,)
        Leverages of all rows.
    rho : float
        Threshold with the smallest gap.
    gap : float
        Bound on the loss in ``ln|M|``, over ``D``.
    status : {"converged", "max_iter", "stalled"}
        Why the solver stopped.
    """

    u: np.ndarray
    metric: Metric
    q: np.ndarray
    rho: float
    gap: float
    status: str


@dataclass
class DesignProblem:
    """Maximise ``ln|M0 + Σ u_i z_i z_i'|`` with ``Σ u_i = 1`` and ``0 <= u_i <= κ ω_i``.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Rows in single or double precision.
    coordinates : Coordinates
        How rows become design vectors ``z``.
    weights : ndarray of shape (n,) or None
        ``ω``; None stands for ones. Rows of weight zero are not there.
    tol : float
        Largest gap over ``D``.
    max_iter : int
        Limit on Newton systems.
    M0 : ndarray of shape (k, k) or None
        Constant part of the moments, without the row and column of the constant one.
    n_iter, n_passes : int
        Newton systems and passes over all rows so far.
    options : EllipsoidOptions
        Settings.
    """

    X: np.ndarray
    coordinates: Coordinates
    weights: np.ndarray | None
    tol: float
    max_iter: int
    progress: ProgressCallback | None = None
    M0: np.ndarray | None = None
    n_iter: int = 0
    n_passes: int = 0
    options: EllipsoidOptions = field(default_factory=EllipsoidOptions)

    @property
    def n(self) -> int:
        """Number of rows, absent ones included."""
        return self.X.shape[0]

    @property
    def total_weight(self) -> float:
        """Sum of the weights."""
        return float(self.n if self.weights is None else self.weights.sum())

    def present(self) -> np.ndarray:
        """Rows with a weight above zero."""
        return np.arange(self.n) if self.weights is None else np.flatnonzero(self.weights)

    def caps(self, kappa: float) -> np.ndarray:
        """``κ ω`` of all rows."""
        return np.full(self.n, kappa) if self.weights is None else kappa * self.weights

    def lifted_M0(self) -> np.ndarray | None:
        """``M0`` for design vectors."""
        if self.M0 is None:
            return None
        return np.pad(self.M0, (0, self.coordinates.lift))

    def leverages(self, metric: Metric, out: np.ndarray | None = None) -> np.ndarray:
        """Leverages of all rows: one pass."""
        self.n_passes += 1
        return self.coordinates.leverages(self.X, metric, out)

    def report(self, gap: float) -> None:
        """Tell the listener, if there is one, how far the work is."""
        if self.progress is not None:
            self.progress(Progress("ellipsoid", self.n_iter, gap, self.tol))

    def solve_rows(self, F: np.ndarray, start: np.ndarray, **arguments: Any) -> LogDetResult:
        """Run the interior point method on some rows, within the limit on Newton systems."""
        # At the last digit a weight can be its cap; the step is then refused, which is the end.
        with own_threads_only(), np.errstate(divide="ignore", invalid="ignore"):
            found = solve_log_det(
                F,
                start,
                max_iter=self.max_iter - self.n_iter,
                options=self.options.logdet,
                **arguments,
            )
        self.n_iter += found.n_iter
        return found

    def solve_capped(
        self, F: np.ndarray, caps: np.ndarray, total: float, M0: np.ndarray | None, share: float
    ) -> tuple[np.ndarray, str]:
        """Weights of a given sum, snapped to zero and to the caps that they are next to.

        The gap is a fraction of the tolerance. Also says why the interior point method stopped.
        """
        room = float(caps.sum())
        found = self.solve_rows(
            F,
            caps * (total / room),
            M0=M0,
            caps=caps,
            total=total,
            tol=share * self.tol * self.coordinates.D,
        )
        u = snap_to_bounds(found.alpha, caps, 0.1 * self.tol / room, total)
        return u, "max_iter" if found.status == "max_iter" else "stalled"

    def part(self, rows: np.ndarray) -> DesignProblem:
        """The problem of some rows, which reports to nobody."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, X=self.X[rows], weights=weights, progress=None, n_iter=0, n_passes=0)

    def moments(self, u: np.ndarray) -> np.ndarray:
        """``Σ u_i z_i z_i'`` in the whitened coordinates."""
        coordinates = self.coordinates
        k, forward = coordinates.k, coordinates.forward
        if coordinates.steep:
            first, second = moments(self.X, coordinates.center, u, forward)
        else:
            # The same by fewer operations per row.
            first, second = moments(self.X, coordinates.center, u)
            first, second = first @ forward, forward.T @ second @ forward
        M = np.empty((coordinates.D, coordinates.D))
        M[:k, :k] = second
        if coordinates.lift:
            M[k, :k] = M[:k, k] = first
            M[k, k] = u.sum()
        return M

    def certify(self, u: np.ndarray, kappa: float, status: str) -> Design:
        """Certify weights of all rows: a pass over those that have any, and one over all."""
        M, M0 = self.moments(u), self.lifted_M0()
        metric = self.coordinates.metric_of_moments(M if M0 is None else M + M0)
        return self._judged(u, metric, kappa, status)

    def finish(
        self, u: np.ndarray, rows: np.ndarray, F: np.ndarray, kappa: float, status: str
    ) -> Design:
        """Certify weights ``u`` of some rows by a pass over all of them."""
        everywhere = np.zeros(self.n)
        everywhere[rows] = u
        return self._judged(everywhere, self.coordinates.metric(F, u, self.M0), kappa, status)

    def _judged(self, u: np.ndarray, metric: Metric, kappa: float, status: str) -> Design:
        q = self.leverages(metric)
        rho, gap = capped_gap(q, self.weights, kappa, float(u @ q))
        gap /= self.coordinates.D
        return Design(u, metric, q, rho, gap, "converged" if gap <= self.tol else status)


def balanced(u: np.ndarray, caps: np.ndarray, sum_to: float = 1.0) -> np.ndarray:
    """Weights of a given sum between zero and the caps, next to ``u``.

    Rows between their bounds make up for what is missing or too much; those at a bound stay
    there if that is enough.
    """
    for movable in ((u > 0.0) & (u < caps), np.ones(len(u), dtype=bool)):
        missing = sum_to - float(u.sum())
        if abs(missing) <= _ROUNDING:
            break
        room = np.where(movable, caps - u if missing > 0.0 else -u, 0.0)
        total = float(room.sum())
        if total != 0.0:
            u = u + room * min(1.0, missing / total)
    return u


def snap_to_bounds(
    u: np.ndarray, caps: np.ndarray, share: float, sum_to: float = 1.0
) -> np.ndarray:
    """Move weights to the bounds that they are next to, within a fraction of the cap.

    The rows in between make up for the sum; where they cannot, fewer rows are moved.
    """
    u = np.clip(u, 0.0, caps)
    for cut in (share, 1e-2 * share, 1e-4 * share):
        low, high = u < cut * caps, u > (1.0 - cut) * caps
        free = ~(low | high)
        rest = sum_to - float(caps[high].sum())
        if -_ROUNDING <= rest <= float(caps[free].sum()) + _ROUNDING:
            found = np.where(high, caps, 0.0)
            found[free] = balanced(u[free], caps[free], rest)
            return found
    return balanced(u, caps, sum_to)


def snap_by_complementarity(
    u: np.ndarray, q: np.ndarray, caps: np.ndarray, rho: float, share: float
) -> np.ndarray | None:
    """Move weights to the bounds where complementarity says that they belong.

    A weight, as a fraction of its cap, below ``share`` times the relative distance of its row from
    the boundary is a trace that the interior point method leaves; the optimum has zero, or the
    cap on the other side. None if there is no such weight, or too little is left for the sum.
    """
    present = caps > 0.0
    part = np.divide(u, caps, out=np.zeros(len(u)), where=present)
    inside = (share / max(rho, float(u @ q))) * (rho - q)
    low, high = present & (part < inside), present & (1.0 - part < -inside)
    found = np.where(low, 0.0, np.where(high, caps, u))
    if np.array_equal(found, u):
        return None
    free = present & ~(low | high)
    rest = 1.0 - float(found[~free].sum())
    if not -_ROUNDING <= rest <= float(caps[free].sum()) + _ROUNDING:
        return None
    found[free] = balanced(u[free], caps[free], rest)
    return found


def best_threshold(q: np.ndarray, weights: np.ndarray | None, kappa: float) -> float:
    """Lowest threshold ``ρ`` that minimises ``ρ + κ Σ ω_i max(0, q_i - ρ)``."""
    if weights is not None:
        q, weights = q[weights > 0], weights[weights > 0]
    if np.isinf(kappa):
        return float(q.max())
    slip = 1.0 + 1e-9
    if weights is None:
        above = int(np.floor(slip / kappa))
        above = min(above, len(q) - 1)
        return float(np.partition(q, len(q) - 1 - above)[len(q) - 1 - above])
    order = np.argsort(-q)
    mass = kappa * np.cumsum(weights[order])
    first = int(np.searchsorted(mass, slip, side="right"))
    return float(q[order[min(first, len(q) - 1)]])


def capped_gap(
    q: np.ndarray,
    weights: np.ndarray | None,
    kappa: float,
    mass: float,
    rho: float | None = None,
) -> tuple[float, float]:
    """Threshold and gap ``ρ + κ Σ ω_i max(0, q_i - ρ) - Σ u_i q_i``.

    The gap bounds the loss in ``ln|M|``; the sum at its end is ``D`` unless there is a constant
    part. Without a cap the threshold is the largest leverage.
    """
    if rho is None:
        rho = best_threshold(q, weights, kappa)
    if np.isinf(kappa):
        return rho, max(0.0, rho - mass)
    excess = np.maximum(q - rho, 0.0)
    total = float(excess.sum() if weights is None else excess @ weights)
    return rho, max(0.0, rho + kappa * total - mass)
