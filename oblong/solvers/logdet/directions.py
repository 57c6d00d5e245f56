"""Newton directions of smoothed log-determinant problems.

The Hessian is that of ``-r ln|B|`` and of the ball's barrier, plus ``C_i / width U_i U_i'`` for
every row in the zone where the slack is rounded. ``U_i = (svec(z_i z_i'), e_i)`` holds the change
of the row's excess with ``B``, where ``z_i = √π_i R'φ_i``, and with ``w`` and ``b``, where
``e_i = -y_i (φ_i, 1)``. With few unknowns it is formed from a sample of these rows and factored;
with many, products with it serve conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from oblong._core.threads import released_blas
from oblong.linalg.gram import lower_gram
from oblong.linalg.log_det import quadratic_features, symmetric_features, symmetric_matrix
from oblong.solvers.logdet.options import LogDetOptions


@dataclass(frozen=True)
class Direction:
    """Symmetric ``S`` of the change ``R S R'`` and the change of ``(w, b)``, or a gradient."""

    S: np.ndarray
    x: np.ndarray

    def dot(self, other: Direction) -> float:
        """Sum of the products of all entries."""
        return float(np.vdot(self.S, other.S)) + float(self.x @ other.x)

    def plus(self, factor: float, other: Direction) -> Direction:
        """``self + factor other``."""
        return Direction(self.S + factor * other.S, self.x + factor * other.x)


@dataclass(frozen=True)
class Zone:
    """Where the Hessian is taken.

    Attributes
    ----------
    rows : ndarray of int
        Rows whose slack is rounded.
    weights : ndarray of shape (n,)
        ``C_i / width`` of all rows.
    vectors : callable
        ``vectors(rows)`` is the pair of the vectors ``z_i`` and ``e_i``, both in columns.
    r : float
        Weight of the log-determinant.
    bend : ndarray of shape (m, m)
        Hessian of the barrier in ``(w, b)``.
    """

    rows: np.ndarray
    weights: np.ndarray
    vectors: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    r: float
    bend: np.ndarray


def newton_direction(
    zone: Zone, gradient: Direction, rng: np.random.Generator, options: LogDetOptions
) -> Direction | None:
    """Solve for the Newton direction, exactly or nearly; None if that fails."""
    p = len(gradient.S)
    if p * (p + 1) // 2 + len(gradient.x) <= options.direct_unknowns:
        return _factored(zone, gradient, rng, options)
    step = _conjugate(zone, gradient, options)
    # Without rows in the zone nothing bends in b.
    return step if np.isfinite(step.S).all() and np.isfinite(step.x).all() else None


def _factored(
    zone: Zone, gradient: Direction, rng: np.random.Generator, options: LogDetOptions
) -> Direction | None:
    p = len(gradient.S)
    P = p * (p + 1) // 2
    unknowns = P + len(gradient.x)
    hessian = sampled_hessian(zone, options.sampled_rows * unknowns, rng, options.hessian_block)
    hessian.flat[: P * (unknowns + 1) : unknowns + 1] += zone.r
    hessian[P:, P:] += zone.bend
    # Without rows in the zone nothing bends in b.
    hessian[-1, -1] += 1e-10 * (1.0 + hessian[-1, -1])
    with released_blas(unknowns):
        L, info = dpotrf(hessian, lower=1, clean=0, overwrite_a=1)
    if info != 0:
        return None
    right = np.concatenate([symmetric_features(gradient.S), gradient.x])
    step = -dpotrs(L, right, lower=1)[0]
    return Direction(symmetric_matrix(step[:P], p), step[P:])


def sampled_hessian(
    zone: Zone, count: int, rng: np.random.Generator, block: int = LogDetOptions.hessian_block
) -> np.ndarray:
    """Lower half of the sum of ``weight_i U_i U_i'`` over the zone.

    Of more than ``count`` rows, an estimate.

    A sample without replacement stands for all rows, each of its weights scaled alike.
    """
    rows, share = zone.rows, 1.0
    if len(rows) > count:
        share = len(rows) / count
        rows = np.sort(rng.choice(rows, count, replace=False))
    hessian, memory = np.empty(0), np.empty(0)
    # One block, perhaps an empty one, tells the size.
    for start in range(0, max(len(rows), 1), block):
        places = rows[start : start + block]
        Z, extra = zone.vectors(places)
        P = len(Z) * (len(Z) + 1) // 2
        if start == 0:
            size = P + len(extra)
            hessian, memory = np.zeros((size, size), order="F"), np.empty((size, block))
        U = memory[:, : len(places)]
        quadratic_features(Z, U[:P])
        U[P:] = extra
        U *= np.sqrt(share * zone.weights[places])
        with released_blas(size):
            hessian = lower_gram(U, add_to=hessian)
    return hessian


def _conjugate(zone: Zone, gradient: Direction, options: LogDetOptions) -> Direction:
    """Conjugate gradients with the diagonal of the Hessian as preconditioner."""
    Z, extra = zone.vectors(zone.rows)
    weights, r = zone.weights[zone.rows], zone.r

    def product(d: Direction) -> Direction:
        change = np.einsum("ij,ij->j", d.S @ Z, Z) + d.x @ extra
        change *= weights
        return Direction(r * d.S + (Z * change) @ Z.T, zone.bend @ d.x + extra @ change)

    squares = Z**2
    scale = r + 2.0 * (squares * weights) @ squares.T
    scale.flat[:: len(scale) + 1] = 0.5 * (scale.diagonal() + r)
    scale_x = zone.bend.diagonal() + extra**2 @ weights
    scale_x = np.maximum(scale_x, 1e-12 * float(scale_x.max(initial=0.0)) + 1e-300)

    left = Direction(-gradient.S, -gradient.x)
    step = Direction(np.zeros_like(left.S), np.zeros_like(left.x))
    toward = eased = Direction(left.S / scale, left.x / scale_x)
    size = first = left.dot(eased)
    for _ in range(options.most_products):
        image = product(toward)
        length = size / toward.dot(image)
        step, left = step.plus(length, toward), left.plus(-length, image)
        eased = Direction(left.S / scale, left.x / scale_x)
        before, size = size, left.dot(eased)
        if size <= options.residual_left**2 * first:
            break
        toward = eased.plus(size / before, toward)
    return step
