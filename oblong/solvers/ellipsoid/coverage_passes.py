"""The ellipsoid that leaves a share of the rows of a source outside, in passes.

Rows far outside have their weights at the cap, and rows far inside have none. Seen from a model
that is nearly right, only rows near its boundary can be otherwise: a pass gathers them, and of the
rows outside it returns the moments, which is all that the design problem needs to know of them. The
weights that solve the small problem are feasible for all rows, so that the next pass computes the
gap of all rows, whatever was judged wrongly. Rows that were are near the new boundary.

While there are too many rows near the boundary, a share of them stands for all, which makes a
better model and a narrower band for the next pass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from oblong._core.progress import Progress, ProgressCallback
from oblong.solvers.ellipsoid.capped import cover
from oblong.solvers.ellipsoid.coordinates import Coordinates, Metric
from oblong.solvers.ellipsoid.options import EllipsoidOptions
from oblong.solvers.ellipsoid.problem import Design, DesignProblem, best_threshold
from oblong.solvers.ellipsoid.result import PassEllipsoid, read_out
from oblong.solvers.ellipsoid.solve import solve_ellipsoid
from oblong.solvers.linear.passes.first import FirstLook, stacked
from oblong.solvers.linear.passes.rows import Part, Passes, Present, dense_chunks, hashed

__all__ = ["cover_in_passes"]

# Rows outside in the sample that tell where the boundary is.
_TOLD = 50
# Distance beyond the boundary, relative, that counts as inside.
_SLACK = 1e-9
# Share of the covariance of all rows in the first moments.
_TRACE = 1e-3
# Passes without progress after which the gap is what it is.
_PATIENCE = 5
# Passes that miss the boundary after which rows wherever they are join.
_MISSES = 3


@dataclass(frozen=True)
class _Question:
    """A metric with its threshold, and the leverages between which rows are gathered."""

    coordinates: Coordinates
    metric: Metric
    rho: float
    low: float
    high: float
    share: float


def _answer(rows: Present, question: _Question) -> Part:
    """Judge a block: moments of the rows outside, and the rows near the boundary."""
    coordinates, metric, rho = question.coordinates, question.metric, question.rho
    lift, slack = coordinates.lift, _SLACK * (rho - coordinates.lift)
    order = hashed(rows.numbers)
    moments = np.zeros((coordinates.D, coordinates.D))
    over = inside = mass = close = 0.0
    parts = []
    for part, X in dense_chunks(rows.X):
        image = (X - coordinates.center) @ metric.T - metric.shift
        q = np.einsum("ij,ij->i", image, image) + lift
        weight = rows.weight[part]
        over += float(weight @ np.maximum(q - rho, 0.0))
        inside += float(weight @ (q <= rho + slack))
        outside = q > question.high
        Z = coordinates.design(X, outside)
        moments += (Z * weight[outside, None]).T @ Z
        mass += float(weight[outside].sum())
        near = ~outside & (q >= question.low)
        close += float(weight[near].sum())
        near &= order[part] < question.share
        parts.append((X[near], weight[near], rows.numbers[part][near], q[near]))
    gathered = tuple(stacked([found[i] for found in parts]) for i in range(4)) if parts else None
    return Part(
        {"over": over, "inside": inside, "mass": mass, "near": close, "moments": moments},
        {},
        gathered,
    )


def cover_in_passes(
    passes: Passes,
    seen: FirstLook,
    coordinates: Coordinates,
    *,
    coverage: float,
    tol: float,
    max_iter: int,
    progress: ProgressCallback | None,
    options: EllipsoidOptions,
) -> PassEllipsoid:
    """Find the ellipsoid of least volume around a share of the rows of a source.

    Parameters
    ----------
    passes, seen
        Who reads the rows, and what the first pass found.
    coordinates : Coordinates
        Those of the hull of all rows.
    coverage : float
        Share of the weight to enclose, below one.
    tol, max_iter, progress, options
        As for :func:`~oblong.solvers.ellipsoid.solve.solve_ellipsoid`.
    """
    moments = seen.of(range(len(seen.moments)))
    n, first, D = moments.count, passes.n_passes - 1, coordinates.D
    kappa = 1.0 / ((1.0 - coverage) * moments.weight)
    unknowns = D * (D + 1) // 2
    least = 8 * unknowns
    room = max(2 * least, int(options.cover_features / unknowns))
    X = np.asarray(seen.X, dtype=np.float64)
    sample = _Sample(X, seen.weight, seen.numbers, coordinates, coverage)
    if kappa * moments.weight <= 1.0 + 1e-12:
        return _covariance(passes, sample, kappa, moments.weight)
    M, rho, low, high, error = sample.start(options)
    few = (1.0 - coverage) * n <= 0.25 * room
    high = np.inf if few else high
    share, drawn, steps, idle, missed = 0.0, float(len(seen.weight)), 0, 0, 0
    # The small problem, once its weights are feasible for all rows.
    small: tuple[DesignProblem, np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None = None
    best: PassEllipsoid | None = None
    while True:
        metric = coordinates.metric_of_moments(M)
        if share < 1.0:
            q = coordinates.leverages(sample.X, metric)
            inside = float(np.mean((q >= low) & (q <= high)))
            before, share = share, room / max(inside * n, 1.0)
            if share <= 1.2 * before:
                # Levels that do not grow: the rows near the boundary need more room.
                room, share = 2 * room, 2.0 * share
            share = 1.0 if share > 0.5 else share
        answer = passes.run(_answer, _Question(coordinates, metric, rho, low, high, share))
        n_passes = passes.n_passes - first
        if small is not None:
            problem, u, numbers, weight, q = small
            gap = max(0.0, rho + kappa * answer.sums["over"] - D) / D
            idle += 1
            if best is None or gap < best.result.gap:
                idle = 0 if best is None or gap < 0.9 * best.result.gap else idle
                found = read_out(problem, Design(u, metric, q, rho, gap, "stalled"), kappa, None)
                # Rows below their caps are not outside, whatever the gap leaves of a distance.
                slack = _SLACK * (rho - coordinates.lift)
                spared = (q > rho + slack) & (u < kappa * weight * (1.0 - q + rho))
                inside = (answer.sums["inside"] + weight[spared].sum()) / moments.weight
                best = PassEllipsoid(found, problem.X, numbers, 0, weight, inside)
        reached = np.inf if best is None else best.result.gap
        if progress is not None:
            progress(Progress("ellipsoid", n_passes, reached, tol))
        over = steps >= max_iter or n_passes >= options.rounds
        if best is not None and (reached <= tol or over or idle == _PATIENCE):
            status = "converged" if reached <= tol else "max_iter" if over else "stalled"
            result = replace(best.result, status=status, n_iter=steps)
            return replace(best, result=result, n_passes=n_passes)
        X, weight, numbers, q = (stacked([part[i] for part in answer.rows]) for i in range(4))
        near, left = answer.sums["near"], 1.0 - kappa * answer.sums["mass"]
        enough = len(weight) >= least or missed > _MISSES
        if not (0.0 < left < kappa * near and enough):
            # The boundary lies beyond one of the two limits, or next to one.
            width, missed = 4.0 * (min(high, 2.0 * rho) - low), missed + 1
            rho = high if left <= 0.0 else rho if left < kappa * near else low
            low, high = rho - width, rho + width if np.isfinite(high) else high
            if missed > _MISSES:
                low, high = -np.inf, np.inf
            continue
        caps = kappa * near / weight.sum() * weight
        # While a share stands for all, the solution is a start and no more.
        inner = tol if share == 1.0 else max(tol, 1e-4)
        problem = DesignProblem(X, coordinates, weight, inner, max_iter - steps, options=options)
        F, M0 = coordinates.design(X, slice(None)), kappa * answer.sums["moments"]
        if left < 1.0:
            u, _ = problem.solve_capped(F, caps, left, M0, options.boundary_gap)
        else:
            # All rows that count are here, however far out: as in memory.
            problem.tol *= options.boundary_gap
            u = cover(problem, kappa * near / weight.sum()).u
        steps += problem.n_iter
        M = M0 + (F * u[:, None]).T @ F
        before, q = q - rho, coordinates.leverages(X, coordinates.metric_of_moments(M))
        rho = best_threshold(q, caps, 1.0 / left)
        off = np.abs(q - rho)
        width = float(np.quantile(np.abs(q - rho - before), 0.99))
        if share < 1.0:
            error = max(width, 0.3 * error) * np.sqrt(min(1.0, drawn / (share * n)))
            drawn, width = share * n, 2.0 * error
        else:
            width, small = 0.5 * width, (problem, u, numbers, weight, q)
        # So many rows, of which a share was seen, leave the weights enough freedom.
        place = min(len(off), max(1, int(share * least))) - 1
        width = max(width, float(np.partition(off, place)[place]))
        # Few rows outside are all gathered: each of them counts.
        low, high = rho - width, np.inf if few else rho + width


def _covariance(passes: Passes, sample: _Sample, kappa: float, total: float) -> PassEllipsoid:
    """All weights are equal: the matrix is the covariance, and a pass counts the rows inside."""
    coordinates, first = sample.coordinates, passes.n_passes - 1
    metric, rho = coordinates.metric_of_moments(np.eye(coordinates.D)), coordinates.lift + 1.0
    question = _Question(coordinates, metric, rho, np.inf, np.inf, 1.0)
    inside = passes.run(_answer, question).sums["inside"] / total
    problem = DesignProblem(sample.X, coordinates, sample.weight, 1.0, 1)
    q = coordinates.leverages(sample.X, metric)
    design = Design(kappa * sample.weight, metric, q, rho, 0.0, "converged")
    found = read_out(problem, design, kappa, 1.0)
    return PassEllipsoid(
        found, sample.X, sample.numbers, passes.n_passes - first, sample.weight, inside
    )


@dataclass(frozen=True)
class _Sample:
    """Rows of the first pass, in random order."""

    X: np.ndarray
    weight: np.ndarray
    numbers: np.ndarray
    coordinates: Coordinates
    coverage: float

    def _solved(
        self, count: int, options: EllipsoidOptions
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Moments of the solution for the first rows, leverages of all, and the threshold."""
        coordinates = self.coordinates
        F = coordinates.design(self.X, slice(count))
        found = solve_ellipsoid(
            F[:, : coordinates.k],
            coverage=self.coverage,
            center=bool(coordinates.lift),
            sample_weight=self.weight[:count],
            tol=1e-4,
            options=options,
        )
        M = (F * found.weights[:, None]).T @ F
        # A sample may know nothing of rare columns.
        M = (1.0 - _TRACE) * M + _TRACE * np.eye(coordinates.D)
        q = coordinates.leverages(self.X, coordinates.metric_of_moments(M))
        weight = self.weight[:count]
        kappa = 1.0 / ((1.0 - self.coverage) * weight.sum())
        return M, q, best_threshold(q[:count], weight, kappa)

    def start(self, options: EllipsoidOptions) -> tuple[np.ndarray, float, float, float, float]:
        """Moments, threshold, the limits of the band around it, and how far it may be off."""
        m = len(self.weight)
        M, q, rho = self._solved(m, options)
        ordered = np.sort(q)[::-1]
        outside = (1.0 - self.coverage) * m
        if outside < _TOLD:
            # The sample does not tell which rows are outside: those far out are all gathered.
            return M, rho, float(min(rho, ordered[min(m - 1, 4 * _TOLD)])), np.inf, rho
        _, other, half = self._solved(m // 2, options)
        ends = ordered[[int(0.5 * outside), min(m - 1, int(2.0 * outside))]]
        near = (q <= ends[0]) & (q >= ends[1])
        error = float(np.quantile(np.abs((q - rho) - (other - half))[near], 0.9))
        return M, rho, rho - 2.0 * error, rho + 2.0 * error, error
