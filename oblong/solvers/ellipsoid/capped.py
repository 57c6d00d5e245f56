"""Ellipsoids that leave some rows outside.

They solve the problems (4) and (6) of Shivaswamy and Jebara, Ellipsoidal Kernel Machines, AISTATS
2007, in terms of their dual (7).

Few rows go to the interior point method as they are. With many, Newton's method on a smoothed
problem finds out which rows lie inside, which outside and which near the boundary; the interior
point method then solves for the latter, while the others are held at zero or at their caps.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cholesky

from oblong._core.threads import available_threads, chunks, run_chunks
from oblong.linalg.log_det import chunk_length
from oblong.solvers.ellipsoid.active_set import enclose
from oblong.solvers.ellipsoid.problem import (
    Design,
    DesignProblem,
    balanced,
    best_threshold,
    snap_by_complementarity,
)
from oblong.solvers.logdet.smoothed_newton import (
    Point,
    SmoothedProblem,
    rows_near_boundary,
    solve_smoothed,
)


def cover(problem: DesignProblem, kappa: float, start: np.ndarray | None = None) -> Design:
    """Solve the design problem with caps ``κ ω``."""
    return _without_tiny_weights(problem, kappa, _cover(problem, kappa, start))


def _without_tiny_weights(problem: DesignProblem, kappa: float, design: Design) -> Design:
    """Set to their bounds the weights that the optimum has there, as long as the gap allows."""
    for share in problem.options.tiny_weights:
        u = snap_by_complementarity(design.u, design.q, problem.caps(kappa), design.rho, share)
        if u is None:
            break
        try:
            found = problem.certify(u, kappa, design.status)
        except LinAlgError:
            continue
        if found.gap <= max(problem.tol, design.gap):
            return found
    return design


def _cover(problem: DesignProblem, kappa: float, start: np.ndarray | None) -> Design:
    rows, options = problem.present(), problem.options
    D = problem.coordinates.D
    unknowns = D * (D + 1) // 2
    mass = kappa * problem.total_weight
    if mass <= 1.0 + 1e-12:
        return problem.certify(problem.caps(kappa) / mass, kappa, "stalled")
    few = len(rows) * unknowns <= options.direct_features
    few = few and len(rows) * unknowns**2 <= options.direct_products
    if len(rows) <= options.direct_rows * unknowns or few:
        direct = _cover_directly(problem, kappa, rows)
        if direct.status != "stalled" or len(rows) <= 3 * unknowns:
            return direct
        # Far outliers can stop the interior point method, but not the smoothing.
        try:
            other = solve_smoothed(SmoothedDesign(problem, kappa, start))
        except LinAlgError:
            return direct
        return other if other.gap < direct.gap else direct
    smallest = 1.0 if problem.weights is None else float(problem.weights[rows].min())
    outside = int(np.ceil(1.0 / (kappa * smallest)))
    if outside <= unknowns:
        return enclose(problem, start, kappa, outside)
    return solve_smoothed(
        SmoothedDesign(problem, kappa, start), width=1.0 if start is None else 0.25
    )


def _cover_directly(problem: DesignProblem, kappa: float, rows: np.ndarray) -> Design:
    caps = problem.caps(kappa)[rows]
    F = problem.coordinates.design(problem.X, rows)
    u, status = problem.solve_capped(F, caps, 1.0, problem.lifted_M0(), problem.options.direct_gap)
    design = problem.finish(u, rows, F, kappa, status)
    problem.report(design.gap)
    return design


class SmoothedDesign(SmoothedProblem[Design]):
    """The design problem in terms of the smoothed method.

    ``φ = z``, ``r = 1``, ``y = 1``, no ``w``; the bias ``b`` is the threshold ``ρ`` and ``t = 1``.
    Gaps are over ``D``.
    """

    r = 1.0
    signs = 1.0
    total = 1.0
    has_bias = True
    unit = 1.0

    def __init__(self, problem: DesignProblem, kappa: float, weights: np.ndarray | None) -> None:
        self.problem, self.kappa, self.weights = problem, kappa, weights
        self.options, self.tol = problem.options.logdet, problem.tol
        self.caps = problem.caps(kappa)
        M0, D = problem.lifted_M0(), problem.coordinates.D
        self.constant = np.zeros((D, D)) if M0 is None else M0

    def start(self) -> Point:
        """Earlier weights, or half of the covariance and half of the moments of the outer rows."""
        problem, D = self.problem, self.problem.coordinates.D
        if self.weights is not None:
            M = problem.moments(balanced(np.minimum(self.weights, self.caps), self.caps))
        else:
            q = problem.leverages(problem.coordinates.metric_of_moments(np.eye(D)))
            rho = best_threshold(q, problem.weights, self.kappa)
            top = np.where(q >= rho, self.caps, 0.0)
            M = 0.5 * problem.moments(top) / top.sum() + 0.5 * np.eye(D)
        lower = cholesky(M + self.constant, lower=True)
        R, w = np.linalg.inv(lower).T, np.zeros(0)
        return R, w, best_threshold(self.excess(R, w, 0.0), problem.weights, self.kappa)

    def sample(self, rows: np.ndarray) -> SmoothedDesign:
        """The problem of some rows."""
        problem = self.problem.part(rows)
        kappa = self.kappa * self.problem.total_weight / problem.total_weight
        return SmoothedDesign(problem, kappa, None)

    def excess(self, R: np.ndarray, w: np.ndarray, b: float) -> np.ndarray:
        """``z_i'R R'z_i - ρ`` of all rows."""
        problem, coordinates = self.problem, self.problem.coordinates
        problem.n_passes += 1
        k = coordinates.k
        if not coordinates.lift:
            q = coordinates.squares(problem.X, coordinates.forward @ R, np.zeros(R.shape[1]))
            return q - b
        # Complete the square: the last coordinate is one.
        S = R @ R.T
        A = cholesky(S[:k, :k], lower=True)
        mean = -np.linalg.solve(S[:k, :k], S[:k, k])
        rest = float(S[k, k] + S[k, :k] @ mean)
        q = coordinates.squares(problem.X, coordinates.forward @ A, mean @ A)
        q += rest - b
        return q

    def change(self, dB: np.ndarray, dw: np.ndarray, db: float) -> np.ndarray:
        """``z_i'ΔB z_i - Δρ`` of all rows."""
        problem, coordinates = self.problem, self.problem.coordinates
        problem.n_passes += 1
        out = np.empty(problem.n)

        def task(start: int, stop: int) -> None:
            Z = coordinates.design(problem.X, slice(start, stop))
            np.einsum("ij,ij->i", Z @ dB, Z, out=out[start:stop])

        run_chunks(task, problem.n, chunk_length(problem.X.shape[1]), available_threads())
        out -= db
        return out

    def moments(self, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``Σ u_i z_i z_i'``; there is no ``v``."""
        return self.problem.moments(alpha), np.zeros(0)

    def vectors(self, rows: np.ndarray, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``R'z_i`` and minus one."""
        Z = (self.problem.coordinates.design(self.problem.X, rows) @ R).T
        return Z, np.full((1, len(rows)), -1.0)

    def certify(self, alpha: np.ndarray, w: np.ndarray, b: float) -> Design:
        """Certify weights, scaled to the sum one."""
        try:
            return self.problem.certify(balanced(alpha, self.caps), self.kappa, "stalled")
        except LinAlgError:
            # So few rows count that they are flat in the precision at hand; all are not.
            return self.problem.certify(self.caps / self.caps.sum(), self.kappa, "stalled")

    def solve_boundary_rows(self, found: Design, failures: int) -> Design | None:
        """Solve for the rows near the boundary; after failures for others, or for all at once.

        The other rows are held at zero or at their caps, by their side of the boundary. Where so
        many rows are near it that their sides are not known, as with copies of rows, all rows with
        weights between the bounds take turns, and then copies count as one row.
        """
        problem, caps, D = self.problem, self.caps, self.problem.coordinates.D
        unknowns = D * (D + 1) // 2
        if failures > 1:
            return self._solve_distinct_rows(int(problem.options.direct_features / unknowns))
        excess = found.q - found.rho
        rows, u = rows_near_boundary(excess, found.u, caps, unknowns, self.options)
        if failures:
            open_rows = (found.u > 1e-9 * caps) & (found.u < (1.0 - 1e-9) * caps)
            order = np.random.default_rng(problem.n_iter).random(problem.n) + ~open_rows
            order[caps == 0.0] = np.inf
            rows, u = np.sort(np.argpartition(order, len(rows) - 1)[: len(rows)]), found.u.copy()
            u[rows] = 0.0
        total, room = 1.0 - float(u.sum()), float(caps[rows].sum())
        if not 0.0 < total < room:
            return None
        F, M0 = problem.coordinates.design(problem.X, rows), problem.moments(u) + self.constant
        u[rows], status = problem.solve_capped(
            F, caps[rows], total, M0, problem.options.boundary_gap
        )
        return problem.certify(u, self.kappa, status)

    def _solve_distinct_rows(self, most: int) -> Design | None:
        """Let the interior point method have all rows, copies counted as one; None if too many."""
        problem, caps = self.problem, self.caps
        X, coordinates = problem.X, problem.coordinates
        # Copies are found by a number that stands for the row.
        direction = coordinates.forward @ np.random.default_rng(0).normal(size=coordinates.k)
        numbers = np.empty(problem.n)
        for start, stop in chunks(problem.n, chunk_length(X.shape[1])):
            numbers[start:stop] = (X[start:stop] - coordinates.center) @ direction
        _, first, group = np.unique(numbers, return_index=True, return_inverse=True)
        same = (
            np.array_equal(X[start:stop], X[first[group[start:stop]]])
            for start, stop in chunks(problem.n, chunk_length(X.shape[1]))
        )
        if len(first) > most or not all(same):
            return None
        total = np.bincount(group, weights=caps)
        kept = np.flatnonzero(total)
        F = coordinates.design(X, first[kept])
        share = np.zeros(len(first))
        share[kept], status = problem.solve_capped(
            F, total[kept], 1.0, problem.lifted_M0(), problem.options.direct_gap
        )
        share[kept] /= total[kept]
        return problem.certify(caps * share[group], self.kappa, status)
