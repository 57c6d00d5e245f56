"""Newton directions of the smoothed ellipsoidal support vector machine.

The Hessian is that of ``-r ln|B|`` and of the ball's barrier, plus ``C_i / width U_i U_i'`` for
every row in the zone where the slack is rounded, with ``U_i = (z_i z_i', -y_i φ_i, -y_i)`` and
``z_i = √π_i R'φ_i``. With few columns it is formed from a sample of these rows and factored; with
many, products with it serve conjugate gradients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from oblong.linalg.log_det import symmetric_features, symmetric_matrix
from oblong.solvers.esvm.problem import EsvmProblem
from oblong.solvers.logdet.sampled_hessian import sampled_hessian

__all__ = ["Direction", "Zone", "newton_direction"]

# Unknowns up to which the Hessian is factored.
_DIRECT = 2500
# Rows near the boundary per unknown in a Newton matrix.
_SAMPLED = 3
# Share of the gradient that conjugate gradients leave, and their limit.
_REST, _LIMIT = 0.1, 60


@dataclass(frozen=True)
class Direction:
    """Symmetric ``S`` of the change ``R S R'``, changes of ``w`` and ``b``, or their gradient."""

    S: np.ndarray
    w: np.ndarray
    b: float

    def dot(self, other: Direction) -> float:
        return float(np.vdot(self.S, other.S)) + float(self.w @ other.w) + self.b * other.b

    def plus(self, factor: float, other: Direction) -> Direction:
        """``self + factor other``."""
        return Direction(
            self.S + factor * other.S, self.w + factor * other.w, self.b + factor * other.b
        )


@dataclass(frozen=True)
class Zone:
    """Where the Hessian is taken: rows with rounded slack, and the barrier of the ball."""

    rows: np.ndarray
    width: float
    R: np.ndarray
    w: np.ndarray
    kappa: float

    def bend(self, x: np.ndarray) -> np.ndarray:
        """Product with the Hessian of the barrier."""
        ball = 1.0 - float(self.w @ self.w)
        return (2.0 * self.kappa / ball) * (x + (2.0 / ball) * float(self.w @ x) * self.w)


def newton_direction(
    problem: EsvmProblem, zone: Zone, gradient: Direction, rng: np.random.Generator
) -> Direction | None:
    """Solve for the Newton direction, exactly or nearly; None if that fails."""
    p = problem.p
    if p * (p + 1) // 2 + p + 1 <= _DIRECT:
        return _factored(problem, zone, gradient, rng)
    return _conjugate(problem, zone, gradient)


def _factored(
    problem: EsvmProblem, zone: Zone, gradient: Direction, rng: np.random.Generator
) -> Direction | None:
    p = problem.p
    P = p * (p + 1) // 2
    unknowns = P + p + int(problem.fit_intercept)

    def rows(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        features = problem.F[places].astype(np.float64, copy=False)
        signs = -problem.y[places]
        extra = np.empty((unknowns - P, len(places)))
        extra[:p] = features.T * signs
        extra[p:] = signs
        return (zone.R.T @ features.T) * np.sqrt(problem.pi[places]), extra

    weights = problem.caps / zone.width
    hessian = sampled_hessian(zone.rows, _SAMPLED * unknowns, rng, weights, rows)
    hessian.flat[: P * (unknowns + 1) : unknowns + 1] += problem.r
    hessian[P : P + p, P : P + p] += np.array([zone.bend(row) for row in np.eye(p)])
    if unknowns > P + p:
        hessian[-1, -1] += 1e-10 * (1.0 + hessian[-1, -1])
    right = np.concatenate([symmetric_features(gradient.S), gradient.w, [gradient.b]])[:unknowns]
    L, info = dpotrf(hessian, lower=1, clean=0, overwrite_a=1)
    if info != 0:
        return None
    step = -dpotrs(L, right, lower=1)[0]
    b = float(step[-1]) if unknowns > P + p else 0.0
    return Direction(symmetric_matrix(step[:P], p), step[P : P + p], b)


def _conjugate(problem: EsvmProblem, zone: Zone, gradient: Direction) -> Direction:
    rows, r = zone.rows, problem.r
    features = problem.F[rows].astype(np.float64, copy=False)
    signed = features * -problem.y[rows][:, None]
    signs = -problem.y[rows] if problem.fit_intercept else np.zeros(len(rows))
    images = (features @ zone.R) * np.sqrt(problem.pi[rows])[:, None]
    weights = problem.caps[rows] / zone.width

    def product(x: Direction) -> Direction:
        change = np.einsum("ij,ij->i", images @ x.S, images) + signed @ x.w + signs * x.b
        change *= weights
        return Direction(
            r * x.S + (images.T * change) @ images,
            zone.bend(x.w) + change @ signed,
            float(signs @ change) + 1e-10 * x.b,
        )

    squares = images**2
    scale = r + 2.0 * (squares.T * weights) @ squares
    scale.flat[:: len(scale) + 1] = 0.5 * (scale.diagonal() + r)
    ball = 1.0 - float(zone.w @ zone.w)
    scale_w = 2.0 * zone.kappa / ball * (1.0 + 2.0 * zone.w**2 / ball) + weights @ signed**2
    scale_w = np.maximum(scale_w, 1e-12 * float(scale_w.max()) + 1e-300)
    scale_b = float(weights @ signs**2) + 1e-10

    def easier(x: Direction) -> Direction:
        return Direction(x.S / scale, x.w / scale_w, x.b / scale_b)

    fit = float(problem.fit_intercept)
    left = Direction(-gradient.S, -gradient.w, -fit * gradient.b)
    step = Direction(np.zeros_like(left.S), np.zeros_like(left.w), 0.0)
    toward = eased = easier(left)
    size = first = left.dot(eased)
    for _ in range(_LIMIT):
        image = product(toward)
        length = size / toward.dot(image)
        step, left = step.plus(length, toward), left.plus(-length, image)
        eased = easier(left)
        before, size = size, left.dot(eased)
        if size <= _REST**2 * first:
            break
        toward = eased.plus(size / before, toward)
    return step
