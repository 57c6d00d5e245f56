"""Newton's method on a smoothed problem: which rows of many are inside, and which are not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky

from oblong.linalg.log_det import moments, symmetric_features, symmetric_matrix
from oblong.solvers.ellipsoid.problem import (
    Design,
    DesignProblem,
    balanced,
    best_threshold,
    capped_gap,
)
from oblong.solvers.logdet.sampled_hessian import sampled_hessian

__all__ = ["CLOSE", "Smooth", "certify", "design_moments"]

# Rows near the boundary in a Newton matrix, per unknown.
_SAMPLED = 4
# Gap over D at which the rows near the boundary are settled.
CLOSE = 1e-3
# Newton's decrement over the width of the smoothing, below which the width shrinks by four.
_DECREMENT = 0.01
# Rows of the sample on which a large problem starts.
_SAMPLE = 50_000


def certify(problem: DesignProblem, kappa: float, u: np.ndarray, status: str) -> Design:
    """Certify weights of all rows: a pass over those that have any, and one over all."""
    M = design_moments(problem, u)
    if problem.M0 is not None:
        M += problem.lifted_M0()
    metric = problem.coordinates.metric_of_moments(M)
    q = problem.leverages(metric)
    rho, gap = capped_gap(q, problem.weights, kappa, float(u @ q))
    gap /= problem.coordinates.D
    return Design(u, metric, q, rho, gap, "converged" if gap <= problem.tol else status)


def design_moments(problem: DesignProblem, u: np.ndarray) -> np.ndarray:
    """``Σ u_i z_i z_i'`` in the whitened coordinates."""
    coordinates = problem.coordinates
    k, forward = coordinates.k, coordinates.forward
    if coordinates.steep:
        first, second = moments(problem.X, coordinates.center, u, forward)
    else:
        # The same by fewer operations a row.
        first, second = moments(problem.X, coordinates.center, u)
        first, second = first @ forward, forward.T @ second @ forward
    M = np.empty((coordinates.D, coordinates.D))
    M[:k, :k] = second
    if coordinates.lift:
        M[k, :k] = M[:k, k] = first
        M[k, k] = u.sum()
    return M


@dataclass
class Smooth:
    """Minimise ``tr(M0 S) - ln|S| + ρ + κ Σ ω_i h(z_i'S z_i - ρ)`` over ``S`` and ``ρ``.

    The function ``h`` is ``max(0, m)`` with its corner rounded for ``|m| < width / 2``; its slopes
    times the caps are weights ``u``. ``S = R R'``, and steps are made in the coordinates
    ``R'z``, where the Hessian of the log-determinant is the identity.
    """

    problem: DesignProblem
    kappa: float

    def begin(self, start: np.ndarray | None) -> None:
        """Start from earlier weights, from a sample of the rows, or from the covariance."""
        problem, kappa = self.problem, self.kappa
        self.caps = problem.caps(kappa)
        self.rng = np.random.default_rng(0)
        D = problem.coordinates.D
        if start is not None:
            u = balanced(np.minimum(start, self.caps), self.caps)
            M = design_moments(problem, u)
        elif problem.n > 4 * _SAMPLE:
            M = self._from_sample()
        else:
            q = problem.leverages(problem.coordinates.metric_of_moments(np.eye(D)))
            rho = best_threshold(q, problem.weights, kappa)
            top = np.where(q >= rho, self.caps, 0.0)
            M = 0.5 * design_moments(problem, top) / top.sum() + 0.5 * np.eye(D)
        if problem.M0 is not None:
            M = M + problem.lifted_M0()
        lower = cholesky(M, lower=True)
        self.R = np.linalg.inv(lower).T
        self.q = self._quadratic(self.R)
        self.rho = best_threshold(self.q, problem.weights, kappa)
        distance = np.abs(self.q - self.rho)
        # Copies of one row can be the median.
        self.width = 2.0 * float(np.median(distance)) or 2.0 * float(distance.mean()) or 1.0
        if start is not None or problem.n > 4 * _SAMPLE:
            self.width *= 0.25

    def _from_sample(self) -> np.ndarray:
        problem = self.problem
        present = problem.present()
        chosen = np.sort(self.rng.choice(present, _SAMPLE, replace=False))
        weights = None if problem.weights is None else problem.weights[chosen]
        sample = DesignProblem(
            problem.X[chosen], problem.coordinates, weights, CLOSE, problem.max_iter, M0=problem.M0
        )
        kappa = self.kappa * problem.total_weight / sample.total_weight
        smooth = Smooth(sample, kappa)
        smooth.begin(None)
        design = smooth.minimise(CLOSE)
        problem.n_iter += sample.n_iter
        return design_moments(sample, design.u)

    def _quadratic(self, R: np.ndarray) -> np.ndarray:
        """``z_i'R R'z_i`` of all rows, in one pass."""
        problem, coordinates = self.problem, self.problem.coordinates
        problem.n_passes += 1
        k = coordinates.k
        if not coordinates.lift:
            return coordinates.squares(problem.X, coordinates.forward @ R, np.zeros(R.shape[1]))
        # Complete the square: the last coordinate is one.
        S = R @ R.T
        A = cholesky(S[:k, :k], lower=True)
        mean = -np.linalg.solve(S[:k, :k], S[:k, k])
        rest = float(S[k, k] + S[k, :k] @ mean)
        q = coordinates.squares(problem.X, coordinates.forward @ A, mean @ A)
        q += rest
        return q

    def _value(self, R: np.ndarray, q: np.ndarray, rho: float) -> float:
        m = q - rho
        rounded = np.clip(m + 0.5 * self.width, 0.0, None)
        loss = np.where(m < 0.5 * self.width, rounded**2 / (2.0 * self.width), m)
        value = rho + float(self.caps @ loss) - 2.0 * float(np.linalg.slogdet(R)[1])
        if self.problem.M0 is not None:
            value += float(np.sum((self.problem.lifted_M0() @ R) * R))
        return value

    def minimise(self, target: float, once: bool = False) -> Design:
        """Take Newton steps, with less and less smoothing, down to a gap of ``target``."""
        problem = self.problem
        best: Design | None = None
        if once:
            self.width *= 0.25
        while True:
            decrement, moved = self._step()
            problem.n_iter += 1
            spent = problem.n_iter >= problem.max_iter
            if decrement > _DECREMENT * self.width and moved and not spent:
                continue
            u = self.caps * np.clip((self.q - self.rho) / self.width + 0.5, 0.0, 1.0)
            try:
                design = certify(problem, self.kappa, balanced(u, self.caps), "stalled")
            except LinAlgError:
                # So few rows count that they are flat in the precision at hand; all are not.
                design = certify(problem, self.kappa, self.caps / self.caps.sum(), "stalled")
            problem.report(design.gap)
            stuck = best is not None and design.gap > 0.9 * best.gap
            best = design if best is None or design.gap < best.gap else best
            if best.gap <= target or spent or stuck or once:
                return best
            self.width *= 0.25

    def _step(self) -> tuple[float, bool]:
        """One Newton step; return the decrement and whether the iterate moved."""
        problem, R, width = self.problem, self.R, self.width
        D = problem.coordinates.D
        P = D * (D + 1) // 2
        m = self.q - self.rho
        u = self.caps * np.clip(m / width + 0.5, 0.0, 1.0)
        M = design_moments(problem, u)
        if problem.M0 is not None:
            M += problem.lifted_M0()
        gradient = np.empty(P + 1)
        excess = R.T @ M @ R - np.eye(D)
        gradient[:P] = symmetric_features(excess)
        gradient[P] = 1.0 - u.sum()
        zone = np.flatnonzero((np.abs(m) < 0.5 * width) & (self.caps > 0.0))

        def rows(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            Z = (problem.coordinates.design(problem.X, places) @ R).T
            return Z, np.full((1, len(places)), -1.0)

        hessian = sampled_hessian(zone, _SAMPLED * P, self.rng, self.caps / width, rows)
        hessian.flat[: P * (P + 2) : P + 2] += 1.0
        hessian[P, P] += 1e-12 * max(1.0, hessian[P, P])
        step = -cho_solve(cho_factor(hessian, lower=True, check_finite=False), gradient)
        slope = float(gradient @ step)
        delta = symmetric_matrix(step[:P], D)
        before, t = self._value(R, self.q, self.rho), 1.0
        for _ in range(12):
            try:
                trial = R @ cholesky(np.eye(D) + t * delta, lower=True)
            except LinAlgError:
                t *= 0.5
                continue
            rho = self.rho + t * float(step[P])
            q = self._quadratic(trial)
            if self._value(trial, q, rho) <= before + 1e-4 * t * slope:
                self.R, self.q, self.rho = trial, q, rho
                return -0.5 * slope, True
            t *= 0.5
        return -0.5 * slope, False
