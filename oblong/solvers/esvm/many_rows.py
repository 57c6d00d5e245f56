"""The ellipsoidal support vector machine with many rows, of which few are near the boundary.

The problem is equation (6) of Momma, Hatano and Nakayama, Ellipsoidal Support Vector Machines,
ACML 2010.

With slack everywhere, Newton's method on the smoothed problem tells the sides of the rows, and the
interior point method solves for the others. With many columns, whose Hessian is too large for that,
the solution of a sample tells them. Without slack there is nothing to smooth: rows join a working
set when they are violated.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from oblong._core.threads import available_threads, run_chunks
from oblong.linalg.log_det import chunk_length
from oblong.solvers.esvm.interior_point import solve_by_interior_point, solve_rows
from oblong.solvers.esvm.problem import Certified, EsvmProblem
from oblong.solvers.logdet.smoothed_newton import (
    Point,
    SmoothedProblem,
    rows_near_boundary,
    solve_smoothed,
)


def solve_by_newton(problem: EsvmProblem, start: Point | None = None) -> tuple[Certified, str]:
    """Solve by Newton's method with less and less smoothing; ``start`` is ``(R, w, b)``."""
    width = 1.0 if start is None else problem.options.warm_width
    found = solve_smoothed(SmoothedEsvm(problem), start, width)
    return found, problem.status(found)


class SmoothedEsvm(SmoothedProblem[Certified]):
    """The problem in terms of the smoothed method: ``M0 = (1 - r) I`` and ``t = 0``."""

    total = 0.0

    def __init__(self, problem: EsvmProblem) -> None:
        self.problem, self.options = problem, problem.options.logdet
        self.r, self.caps, self.signs = problem.r, problem.caps, problem.y
        self.constant = (1.0 - problem.r) * np.eye(problem.p)
        self.has_bias, self.tol, self.unit = problem.fit_intercept, problem.tol, problem.unit

    def start(self) -> Point:
        """Weights at half their caps."""
        found = self.problem.certify(0.5 * self.caps)
        assert found.G is not None
        return np.sqrt(self.r) * found.G.T, 0.9 * found.w, found.b

    def sample(self, rows: np.ndarray) -> SmoothedEsvm:
        """The problem of some rows; its steps are counted here."""
        problem = self.problem
        caps = self.caps[rows] * (float(self.caps.sum()) / float(self.caps[rows].sum()))
        return SmoothedEsvm(problem.part(rows, caps))

    def excess(self, R: np.ndarray, w: np.ndarray, b: float) -> np.ndarray:
        """``q_i - y_i (φ_i'w + b)``."""
        q, g = self.problem.images(R.T, w, triangular=False)
        return q - self.problem.y * (g + b)

    def change(self, dB: np.ndarray, dw: np.ndarray, db: float) -> np.ndarray:
        """``π_i φ_i'ΔB φ_i - y_i (φ_i'Δw + Δb)``."""
        problem = self.problem
        n, p = problem.F.shape
        T = np.column_stack([dB, dw])
        out = np.empty(n)

        def task(start: int, stop: int) -> None:
            rows = problem.F[start:stop]
            image = rows @ T
            np.einsum("ij,ij->i", image[:, :p], rows, out=out[start:stop])
            out[start:stop] *= problem.pi[start:stop]
            out[start:stop] -= problem.y[start:stop] * (image[:, p] + db)

        run_chunks(task, n, chunk_length(p), available_threads())
        return out

    def moments(self, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``Σ α_i π_i φ_i φ_i'`` and ``v``."""
        M, v = self.problem.moments(alpha)
        return M - self.constant, v

    def vectors(self, rows: np.ndarray, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``√π_i R'φ_i`` and ``-y_i (φ_i, 1)``."""
        problem, p = self.problem, self.problem.p
        features = problem.F[rows].astype(np.float64, copy=False)
        signs = -problem.y[rows]
        extra = np.empty((p + int(self.has_bias), len(rows)))
        extra[:p] = features.T * signs
        extra[p:] = signs
        return (R.T @ features.T) * np.sqrt(problem.pi[rows]), extra

    def certify(self, alpha: np.ndarray, w: np.ndarray, b: float) -> Certified:
        """Certify weights and a direction."""
        return self.problem.certify(alpha, w, b)

    def solve_boundary_rows(self, found: Certified, failures: int) -> Certified | None:
        """Solve for the rows near the boundary by the interior point method."""
        problem, p = self.problem, self.problem.p
        excess = found.q - problem.y * found.outputs
        unknowns = p * (p + 1) // 2 + p + 1
        rows, held = rows_near_boundary(excess, found.alpha, self.caps, unknowns, self.options)
        target = problem.options.boundary_gap * self.tol * self.unit
        solved, status = solve_rows(problem, target, rows, held, found)
        return None if status == "infeasible" else solved


def solve_by_samples(problem: EsvmProblem) -> tuple[Certified, str]:
    """Solve a sample of the rows, and then for those that it leaves near the boundary.

    With slack everywhere. Where too many rows are near the boundary, or the sample says too little,
    the interior point method takes all of them.
    """
    options = problem.options
    if problem.n > max(options.sample_from, options.kernel_rows_per_column * problem.p):
        found = _beyond_sample(problem)
        if found is not None:
            return found, "converged"
    return solve_by_interior_point(problem)


def _beyond_sample(problem: EsvmProblem) -> Certified | None:
    """Weights of all rows, of which a sample says which to solve for; None if it does not."""
    y, caps, allowed = problem.y, problem.caps, problem.tol * problem.unit
    options, logdet = problem.options, problem.options.logdet
    sample = _sample(problem)
    near = solve_by_samples(sample)[0]
    problem.n_iter += sample.n_iter
    inside = np.minimum(near.alpha, sample.caps - near.alpha) > options.sample_inside * sample.caps
    free = 1 + int(np.count_nonzero(inside))
    G = sample.factor(near.alpha)[0] if near.G is None else near.G
    q, outputs = problem.images(np.sqrt(problem.r) * G, near.w)
    outputs += problem.biases(q, outputs)[0]
    alpha = np.where(q > y * outputs, caps, 0.0)
    near = replace(near, alpha=alpha, q=q, outputs=outputs, gap=np.inf)
    while logdet.boundary_rows * free < problem.n // 2 and problem.n_iter < problem.max_iter:
        excess = near.q - y * near.outputs
        rows, held = rows_near_boundary(excess, near.alpha, caps, free, logdet)
        near, _ = solve_rows(problem, options.boundary_gap * allowed, rows, held, near)
        if near.gap <= allowed:
            return near
        changed = (near.q > y * near.outputs) != (held > 0.0)
        changed[rows] = False
        # The more rows were on the wrong side, the less is known about the others.
        free += int(np.count_nonzero(changed)) // 2 or free
    return None


def _sample(problem: EsvmProblem) -> EsvmProblem:
    """The problem of some rows of either class, with caps of the same sums."""
    rng, options = np.random.default_rng(0), problem.options
    caps = problem.caps.copy()
    chosen = []
    for side in (problem.y > 0, problem.y < 0):
        members = np.flatnonzero(side)
        some = rng.choice(members, int(np.ceil(options.sample_share * len(members))), replace=False)
        caps[some] *= float(caps[members].sum()) / float(caps[some].sum())
        chosen.append(some)
    rows = np.sort(np.concatenate(chosen))
    part = problem.part(rows, caps[rows])
    return replace(part, tol=max(problem.tol, options.sample_gap))


def solve_by_working_sets(problem: EsvmProblem) -> tuple[Certified, str]:
    """Hard margins with many rows: rows without weight join when they are violated."""
    rng, p, logdet = np.random.default_rng(0), problem.p, problem.options.logdet
    count = max(logdet.boundary_rows * (p * (p + 1) // 2 + p + 1), logdet.boundary_least)
    count = min(count, logdet.boundary_most, problem.n)
    used = np.zeros(problem.n, dtype=bool)
    for side in (problem.y > 0, problem.y < 0):
        members = np.flatnonzero(side)
        used[rng.choice(members, min(len(members), max(1, count // 2)), replace=False)] = True
    best: Certified | None = None
    while True:
        rows = np.flatnonzero(used)
        found, status = solve_rows(problem, 0.5 * problem.tol * problem.unit, rows)
        if status == "inseparable":
            # What a part of the rows proves holds for all of them.
            return found, status
        best = found if best is None or found.gap <= best.gap else best
        problem.report(found.gap / problem.unit)
        if best.gap <= problem.tol * problem.unit or problem.n_iter >= problem.max_iter:
            break
        excess = found.q - problem.y * found.outputs
        excess[used] = -np.inf
        violated = np.flatnonzero(excess > 0.0)
        if not len(violated):
            break
        if len(violated) > count:
            violated = violated[np.argpartition(-excess[violated], count - 1)[:count]]
        used[violated] = True
    return best, problem.status(best)
