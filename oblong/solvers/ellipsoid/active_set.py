"""Ellipsoids that enclose every row: few rows at a time, chosen by passes over all of them.

The problem is equation (3) of Shivaswamy and Jebara, Ellipsoidal Kernel Machines, AISTATS 2007.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError

from oblong._core.threads import chunks
from oblong.linalg.log_det import chunk_length, inverse_factor
from oblong.solvers.ellipsoid.problem import (
    Design,
    DesignProblem,
    balanced,
    snap_by_complementarity,
)


def enclose(
    problem: DesignProblem,
    start: np.ndarray | None = None,
    kappa: float = np.inf,
    outside: int = 0,
) -> Design:
    """Solve the design problem without a cap, or with one that leaves few rows outside.

    The interior point method solves the problem of a few working rows; a pass over all rows
    finds those that it leaves outside, which join. Rows deep inside are never needed: after a
    pass with ``max q = (1 + ε) D``, no row with ``q_i / D < 1 + ε/2 - √(ε (4 + ε - 4/D)) / 2``
    can be on the boundary of the solution (Harman and Pronzato, Statistics and Probability
    Letters 77, 2007), so that later passes are over the other rows only. The last one, which
    certifies, is over all. With a cap, ``outside`` is an upper bound on the rows outside.
    """
    coordinates, X, D = problem.coordinates, problem.X, problem.coordinates.D
    options = problem.options
    present = problem.present()
    hard = np.isinf(kappa)
    if len(present) == D and problem.M0 is None and hard:
        # A simplex: every row has the same say.
        u = np.full(D, 1.0 / D)
        return problem.finish(u, present, coordinates.design(X, present), np.inf, "stalled")
    everything = _Candidates(X if len(present) == problem.n else X[present], present)
    candidates = everything
    if len(present) <= 2 * (options.first_rows * D + outside):
        rows = present
    else:
        q = everything.of(problem.leverages(coordinates.metric_of_moments(np.eye(D))))
        rows = everything.largest(q, options.first_rows * D + 2 * outside, distinct=hard)
        if problem.M0 is None:
            rows = _spanning(problem, rows)
    if start is not None:
        rows = np.union1d(rows, present[start[present] > 0])
    finest = options.few_outside_gap * problem.tol
    inner = finest if len(rows) == len(present) else options.inner_gap
    best: Design | None = None
    for _ in range(options.rounds):
        working = rows
        F = coordinates.design(X, rows)
        u, inside = _solve_rows(problem, F, D * inner, None if hard else problem.caps(kappa)[rows])
        if candidates is not everything:
            q = coordinates.leverages(candidates.X, coordinates.metric(F, u))
            gap = float(q.max()) / D - 1.0
            if gap <= problem.tol:
                candidates = everything
        certified = candidates is everything
        if certified:
            design = problem.finish(u, rows, F, kappa, "max_iter")
            gap = design.gap
            best = design if best is None or gap <= best.gap else best
            if problem.M0 is None and hard:
                candidates = everything.screened(design.q, gap, D, options.copied_share)
            q = candidates.of(design.q)
        problem.report(gap)
        if best is not None and best.gap <= problem.tol:
            return best
        if problem.n_iter >= problem.max_iter:
            break
        mass = float(u @ inside) if hard else design.rho
        level = mass * (1.0 + 0.1 * problem.tol)
        new = candidates.largest(q, options.added_rows * D, above=level, but=rows, distinct=hard)
        if new.size == 0 and inner <= finest:
            # Nothing is outside: the working rows' own gap is what is left, or rounding.
            if certified and finest < 1e-3 * problem.tol:
                assert best is not None
                best = replace(best, status="stalled")
                break
            finest = 0.1 * finest if certified else finest
            candidates = everything
        inner = max(finest, options.inner_gap * gap) if new.size else finest
        # Rows that lost their weight and lie well inside make room.
        rows = np.concatenate([rows[(u > 1e-7) | (inside > 0.9 * mass)], new])
    if candidates is not everything:
        design = problem.finish(u, working, F, np.inf, "max_iter")
        best = design if best is None or design.gap <= best.gap else best
    assert best is not None
    return best


def _spanning(problem: DesignProblem, rows: np.ndarray) -> np.ndarray:
    """Add extreme rows in the directions that some rows hardly reach."""
    coordinates, X = problem.coordinates, problem.X
    k = coordinates.k
    for _ in range(coordinates.D):
        F = coordinates.design(X, rows)
        values, vectors = np.linalg.eigh(F.T @ F / len(rows))
        # Whitened rows have a mean square of one in every direction.
        weak = vectors[:, values < problem.options.weak_direction]
        if weak.shape[1] == 0:
            break
        extremes = np.zeros((2, weak.shape[1]))
        found = np.zeros((2, weak.shape[1]), dtype=np.intp)
        columns = np.arange(weak.shape[1])
        for start, stop in chunks(problem.n, chunk_length(X.shape[1])):
            image = (X[start:stop] - coordinates.center) @ (coordinates.forward @ weak[:k])
            image += weak[k:].sum(axis=0)
            if problem.weights is not None:
                image *= (problem.weights[start:stop] > 0)[:, None]
            for side, sign in enumerate((1.0, -1.0)):
                place = np.argmax(sign * image, axis=0)
                value = sign * image[place, columns]
                better = value > extremes[side]
                extremes[side, better] = value[better]
                found[side, better] = start + place[better]
        problem.n_passes += 1
        rows = np.union1d(rows, found[extremes > 0.0])
    return rows


def _solve_rows(
    problem: DesignProblem, F: np.ndarray, tol: float, caps: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Weights of sum one for working rows alone, and their leverages."""
    size, D = F.shape
    if problem.M0 is None and caps is None:
        # Weights of any sum, minus the sum: one equation less, and the sum comes out as D.
        found = problem.solve_rows(F, np.full(size, D / size), offset=1.0, tol=tol)
        total = float(found.alpha.sum())
        u, q = found.alpha / total, found.q * total
    else:
        begin, M0 = np.full(size, 1.0 / size), problem.lifted_M0()
        if caps is not None:
            begin = caps / caps.sum()
        found = problem.solve_rows(F, begin, M0=M0, caps=caps, total=1.0, tol=tol)
        u, q = found.alpha, found.q
    if caps is not None:
        return balanced(np.clip(u, 0.0, caps), caps), q
    return _without_tiny_weights(problem, F, u / u.sum(), q, tol)


def _without_tiny_weights(
    problem: DesignProblem, F: np.ndarray, u: np.ndarray, q: np.ndarray, tol: float
) -> tuple[np.ndarray, np.ndarray]:
    """Set to zero the weights that the optimum has there, unless that could be felt."""
    for share in problem.options.tiny_weights:
        v = snap_by_complementarity(u, q, np.ones(len(u)), float(q.max()), share)
        if v is None:
            break
        M = (F * v[:, None]).T @ F
        if problem.M0 is not None:
            M += problem.lifted_M0()
        try:
            image = F @ inverse_factor(M)[0].T
        except LinAlgError:
            continue
        found = np.einsum("ij,ij->i", image, image)
        if float(found.max() - v @ found) <= max(tol, float(q.max() - u @ q)):
            return v, found
    return u, q


@dataclass(frozen=True)
class _Candidates:
    """Rows that can be on the boundary, and where they stand among all rows."""

    X: np.ndarray
    index: np.ndarray

    def of(self, q: np.ndarray) -> np.ndarray:
        """Leverages of these rows, given those of all rows."""
        return q if len(self.index) == len(q) else q[self.index]

    def screened(self, q: np.ndarray, gap: float, D: int, copied_share: int) -> _Candidates:
        """Leave out the rows that a pass has proved to be inside."""
        least = D * (1.0 + 0.5 * gap - 0.5 * np.sqrt(gap * (4.0 + gap - 4.0 / D)))
        # A little less, for the rounding of leverages.
        keep = np.flatnonzero(self.of(q) >= least - 1e-9 * D)
        if len(keep) * self.X.shape[1] > copied_share * len(q):
            return self
        return _Candidates(self.X[keep], self.index[keep])

    def largest(
        self,
        q: np.ndarray,
        count: int,
        above: float = 0.0,
        but: np.ndarray | None = None,
        *,
        distinct: bool,
    ) -> np.ndarray:
        """Rows of largest leverage, counted among all rows; equal ones once if ``distinct``."""
        found = np.flatnonzero(q > above)
        if but is not None:
            found = found[~np.isin(self.index[found], but)]
        more = 2 * count if distinct else count
        if len(found) > more:
            found = found[np.argpartition(-q[found], more)[:more]]
        found = found[np.argsort(-q[found], kind="stable")]
        if len(found) and distinct:
            _, first = np.unique(self.X[found], axis=0, return_index=True)
            found = found[np.sort(first)][:count]
        return self.index[found]
