"""Ellipsoids that leave some rows outside.

Few rows go to the interior point method as they are. With many, Newton's method on a smoothed
problem finds out which rows lie inside, which outside and which near the boundary; the interior
point method then settles the latter, while the others are held at zero or at their caps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky

from oblong.linalg.log_det import leverages, moments, quadratic_features, symmetric_matrix
from oblong.solvers._ellipsoid_active import enclose
from oblong.solvers._ellipsoid_problem import (
    Design,
    DesignProblem,
    balanced,
    best_threshold,
    capped_gap,
    snapped,
)

__all__ = ["cover"]

# Products of quadratic features in a Newton matrix up to which all rows go into it.
_DIRECT = 2e8
# Rows near the boundary per unknown: in a Newton matrix of the smoothed problem, and at the end.
_SAMPLED = 4
_SETTLED = 3
# Gap over D at which the rows near the boundary are settled.
_CLOSE = 1e-3
# Newton's decrement over the width of the smoothing, below which the width shrinks by four.
_DECREMENT = 0.01
# Rows of the sample on which a large problem starts.
_SAMPLE = 50_000
# At least so many of them at the end, since few cost nothing.
_LEAST = 1500
# Quadratic features of all rows that still fit into memory, should nothing else help.
_FALLBACK = 5e7
# Attempts to settle the rows near the boundary.
_ROUNDS = 12


def cover(problem: DesignProblem, kappa: float, start: np.ndarray | None = None) -> Design:
    """Solve the design problem with caps ``κ ω``."""
    rows = problem.present()
    D = problem.coordinates.D
    unknowns = D * (D + 1) // 2
    mass = kappa * problem.total_weight
    if mass <= 1.0 + 1e-12:
        return _certify(problem, kappa, problem.caps(kappa) / mass, "stalled")
    if len(rows) <= 8 * unknowns or len(rows) * unknowns**2 <= _DIRECT:
        direct = _cover_directly(problem, kappa, rows)
        if direct.status != "stalled" or len(rows) <= 3 * unknowns:
            return direct
        # Far outliers can stop the interior point method, but not the smoothing.
        try:
            other = _cover_smoothly(problem, kappa, start)
        except LinAlgError:
            return direct
        return other if other.gap < direct.gap else direct
    smallest = 1.0 if problem.weights is None else float(problem.weights[rows].min())
    outside = int(np.ceil(1.0 / (kappa * smallest)))
    if outside <= unknowns:
        return enclose(problem, start, kappa, outside)
    return _cover_smoothly(problem, kappa, start)


def _cover_smoothly(problem: DesignProblem, kappa: float, start: np.ndarray | None) -> Design:
    smooth = _Smooth(problem, kappa)
    smooth.begin(start)
    design = smooth.minimise(_CLOSE)
    return _settle(problem, kappa, design, smooth)


def _cover_directly(problem: DesignProblem, kappa: float, rows: np.ndarray) -> Design:
    caps = problem.caps(kappa)[rows]
    F = problem.coordinates.design(problem.X, rows)
    found = problem.solve_rows(
        F,
        caps / caps.sum(),
        M0=problem.lifted_M0(),
        caps=caps,
        total=1.0,
        tol=0.05 * problem.tol * problem.coordinates.D,
    )
    status = "max_iter" if found.status == "max_iter" else "stalled"
    u = snapped(found.alpha, caps, 0.1 * problem.tol / float(caps.sum()))
    design = problem.finish(u, rows, F, kappa, status)
    problem.report(design.gap)
    return design


def _certify(problem: DesignProblem, kappa: float, u: np.ndarray, status: str) -> Design:
    """Certify weights of all rows: a pass over those that have any, and one over all."""
    M = _design_moments(problem, u)
    if problem.M0 is not None:
        M += problem.lifted_M0()
    metric = problem.coordinates.metric_of_moments(M)
    q = problem.leverages(metric)
    rho, gap = capped_gap(q, problem.weights, kappa, float(u @ q))
    gap /= problem.coordinates.D
    return Design(u, metric, q, rho, gap, "converged" if gap <= problem.tol else status)


def _design_moments(problem: DesignProblem, u: np.ndarray) -> np.ndarray:
    """``Σ u_i z_i z_i'`` in the whitened coordinates."""
    coordinates = problem.coordinates
    first, second = moments(problem.X, coordinates.center, u)
    k, forward = coordinates.k, coordinates.forward
    M = np.empty((coordinates.D, coordinates.D))
    M[:k, :k] = forward.T @ second @ forward
    if coordinates.lift:
        M[k, :k] = M[:k, k] = first @ forward
        M[k, k] = u.sum()
    return M


def _settle(problem: DesignProblem, kappa: float, design: Design, smooth: _Smooth) -> Design:
    """Give the rows near the boundary their exact weights, the others being held."""
    D = problem.coordinates.D
    caps = problem.caps(kappa)
    unknowns = D * (D + 1) // 2
    count = min(max(_SETTLED * unknowns, _LEAST), len(problem.present()))
    best, snap, failures = design, True, 0
    for _ in range(_ROUNDS):
        if best.gap <= problem.tol or problem.n_iter >= problem.max_iter:
            break
        before = best.gap
        found = _settle_rows(problem, kappa, design, caps, count, snap)
        if found is not None:
            problem.report(found.gap)
            best = found if found.gap < best.gap else best
        if best.gap <= 0.5 * before:
            design = best
        elif snap:
            # Too many rows are near the boundary to know their side: leave them where they are.
            design, snap = best, False
        elif failures and problem.n * unknowns <= _FALLBACK:
            found = _cover_directly(problem, kappa, problem.present())
            return found if found.gap < best.gap else best
        else:
            failures += 1
            design, snap = smooth.minimise(0.1 * best.gap, once=True), True
            best = design if design.gap < best.gap else best
    return best


def _settle_rows(
    problem: DesignProblem,
    kappa: float,
    design: Design,
    caps: np.ndarray,
    count: int,
    snap: bool,
) -> Design | None:
    """Solve for the weights of ``count`` rows; None if that is not possible.

    The others are held at zero or at their caps, whichever side of the boundary they are on, or
    at the weights they have.
    """
    coordinates = problem.coordinates
    distance = np.abs(design.q - design.rho)
    distance[caps == 0.0] = np.inf
    if snap:
        rows = np.sort(np.argpartition(distance, count - 1)[:count])
        u = np.where(design.q > design.rho, caps, 0.0)
    else:
        open_rows = (design.u > 1e-9 * caps) & (design.u < (1.0 - 1e-9) * caps)
        # Every open row in turn: a different part of them each time.
        order = np.random.default_rng(problem.n_iter).random(problem.n) + ~open_rows
        order[caps == 0.0] = np.inf
        rows = np.sort(np.argpartition(order, count - 1)[:count])
        u = design.u.copy()
    u[rows] = 0.0
    total, room = 1.0 - float(u.sum()), float(caps[rows].sum())
    if not 0.0 < total < room:
        return None
    M0 = _design_moments(problem, u)
    if problem.M0 is not None:
        M0 += problem.lifted_M0()
    found = problem.solve_rows(
        coordinates.design(problem.X, rows),
        caps[rows] * (total / room),
        M0=M0,
        caps=caps[rows],
        total=total,
        tol=0.2 * problem.tol * coordinates.D,
    )
    u[rows] = snapped(found.alpha, caps[rows], 0.1 * problem.tol / room, total)
    status = "max_iter" if found.status == "max_iter" else "stalled"
    return _certify(problem, kappa, u, status)


@dataclass
class _Smooth:
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
            M = _design_moments(problem, u)
        elif problem.n > 4 * _SAMPLE:
            M = self._from_sample()
        else:
            q = problem.leverages(problem.coordinates.metric_of_moments(np.eye(D)))
            rho = best_threshold(q, problem.weights, kappa)
            top = np.where(q >= rho, self.caps, 0.0)
            M = 0.5 * _design_moments(problem, top) / top.sum() + 0.5 * np.eye(D)
        if problem.M0 is not None:
            M = M + problem.lifted_M0()
        lower = cholesky(M, lower=True)
        self.R = np.linalg.inv(lower).T
        self.q = self._quadratic(self.R)
        self.rho = best_threshold(self.q, problem.weights, kappa)
        self.width = 2.0 * float(np.median(np.abs(self.q - self.rho)))
        if start is not None or problem.n > 4 * _SAMPLE:
            self.width *= 0.25

    def _from_sample(self) -> np.ndarray:
        problem = self.problem
        present = problem.present()
        chosen = np.sort(self.rng.choice(present, _SAMPLE, replace=False))
        weights = None if problem.weights is None else problem.weights[chosen]
        sample = DesignProblem(
            problem.X[chosen], problem.coordinates, weights, _CLOSE, problem.max_iter, M0=problem.M0
        )
        kappa = self.kappa * problem.total_weight / sample.total_weight
        smooth = _Smooth(sample, kappa)
        smooth.begin(None)
        design = smooth.minimise(_CLOSE)
        problem.n_iter += sample.n_iter
        return _design_moments(sample, design.u)

    def _quadratic(self, R: np.ndarray) -> np.ndarray:
        """``z_i'R R'z_i`` of all rows, in one pass."""
        problem, coordinates = self.problem, self.problem.coordinates
        problem.n_passes += 1
        k = coordinates.k
        if not coordinates.lift:
            return leverages(problem.X, coordinates.center, coordinates.forward @ R)
        # Complete the square: the last coordinate is one.
        S = R @ R.T
        A = cholesky(S[:k, :k], lower=True)
        mean = -np.linalg.solve(S[:k, :k], S[:k, k])
        rest = float(S[k, k] + S[k, :k] @ mean)
        center = coordinates.center + mean @ coordinates.backward
        q = leverages(problem.X, center, coordinates.forward @ A)
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
                design = _certify(problem, self.kappa, balanced(u, self.caps), "stalled")
            except LinAlgError:
                # So few rows count that they are flat in the precision at hand; all are not.
                design = _certify(problem, self.kappa, self.caps / self.caps.sum(), "stalled")
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
        M = _design_moments(problem, u)
        if problem.M0 is not None:
            M += problem.lifted_M0()
        gradient = np.empty(P + 1)
        excess = R.T @ M @ R - np.eye(D)
        gradient[:P] = _features(excess)
        gradient[P] = 1.0 - u.sum()
        zone = np.flatnonzero((np.abs(m) < 0.5 * width) & (self.caps > 0.0))
        share = 1.0
        if len(zone) > _SAMPLED * P:
            share = len(zone) / (_SAMPLED * P)
            zone = np.sort(self.rng.choice(zone, _SAMPLED * P, replace=False))
        hessian = np.zeros((P + 1, P + 1))
        if len(zone):
            U = np.empty((P + 1, len(zone)))
            quadratic_features((problem.coordinates.design(problem.X, zone) @ R).T, U[:P])
            U[P] = -1.0
            U *= np.sqrt(self.caps[zone] * (share / width))
            hessian = U @ U.T
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


def _features(matrix: np.ndarray) -> np.ndarray:
    """Entries of a symmetric matrix in the order and scale of the quadratic features."""
    scaled = matrix * np.sqrt(2.0)
    scaled.flat[:: len(matrix) + 1] = matrix.diagonal()
    return scaled[np.triu_indices(len(matrix))]
