"""The ellipsoid around the rows of a source that is read a block at a time, or a fraction of them.

If all rows have to be inside, a pass returns those that are farthest outside of the ellipsoid of
the working rows, and the largest distance, which is the certificate: blown up by it, the ellipsoid
holds every row.

If not, rows far outside have their weights at the cap, and rows far inside have none. Seen from a
model that is nearly right, only rows near its boundary can be otherwise: a pass gathers these, and
returns the moments of the rows outside, which is all that the problem needs to know of them.
The weights that solve the small problem are feasible for all rows, so that the next pass computes
the gap of all rows, whatever was judged wrongly. While there are too many rows near the boundary, a
fraction of them stands for all, which makes a better model and a narrower band for the next pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from oblong._core.progress import Progress, ProgressCallback
from oblong.linalg.first_pass import FirstLook, stacked
from oblong.linalg.row_passes import Part, Passes, Present, dense_chunks, hashed
from oblong.solvers.ellipsoid.capped import cover
from oblong.solvers.ellipsoid.coordinates import Coordinates, Metric
from oblong.solvers.ellipsoid.options import DEFAULTS, EllipsoidOptions
from oblong.solvers.ellipsoid.problem import Design, DesignProblem, best_threshold
from oblong.solvers.ellipsoid.result import EllipsoidResult, PassEllipsoid, read_out
from oblong.solvers.ellipsoid.solve import solve_ellipsoid

# Distance from the hull of the working rows, in deviations of the columns, that is not rounding.
_OFF_THE_HULL = 1e-6
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


def solve_ellipsoid_passes(
    passes: Passes,
    seen: FirstLook,
    *,
    coverage: float = 1.0,
    center: bool = True,
    tol: float = 1e-6,
    max_iter: int = 1000,
    progress: ProgressCallback | None = None,
    options: EllipsoidOptions = DEFAULTS,
) -> PassEllipsoid:
    """Find the ellipsoid of least volume around the rows of a source, or a fraction of them.

    Parameters
    ----------
    passes : Passes
        Who reads the rows.
    seen : FirstLook
        What the first pass found.
    coverage, center, tol, max_iter, progress, options
        As for :func:`~oblong.solvers.ellipsoid.solve.solve_ellipsoid`.
    """
    if seen.whole:
        order = np.argsort(seen.numbers, kind="stable")
        X, weight = np.asarray(seen.X[order], dtype=np.float64), seen.weight[order]
        result = solve_ellipsoid(
            X,
            coverage=coverage,
            center=center,
            sample_weight=weight,
            tol=tol,
            max_iter=max_iter,
            options=options,
        )
        if progress is not None:
            progress(Progress("ellipsoid", 1, result.gap, tol))
        return PassEllipsoid(result, X, seen.numbers[order], passes.n_passes, weight)
    moments = seen.of(range(len(seen.moments)))
    if moments.covariance.ndim == 1:
        raise ValueError("an ellipsoid in passes takes dense rows of at most 512 columns")
    origin = moments.mean if center else np.zeros_like(moments.mean)
    S = moments.covariance if center else moments.covariance + np.outer(moments.mean, moments.mean)
    scale = np.sqrt(np.maximum(S.diagonal(), 0.0))
    varies = scale > 0.0
    spread = np.where(varies, scale, np.sqrt(np.finfo(float).tiny))
    values, vectors = np.linalg.eigh((S / np.outer(spread, spread))[np.ix_(varies, varies)])
    kept = values > 1e-14 * len(values) * max(values[-1], 1e-300)
    coordinates = Coordinates._of_parts(
        origin, spread, varies, values[kept], vectors[:, kept], center, options.clear_eigenvalue
    )
    # A cap of one or more for every row is none.
    if (1.0 - coverage) * moments.weight > moments.weight / moments.count * (1.0 + 1e-12):
        return _cover(passes, seen, coordinates, coverage, tol, max_iter, progress, options)
    lift, d = int(center), len(origin)
    count = options.pass_rows * (d + lift)
    first = passes.n_passes - 1
    found = passes.run(_farthest, origin, coordinates.forward, None, spread, 0.0, count)
    X, numbers, _ = _chosen(found.rows, count)
    inner, steps = options.inner_gap, 0
    best: PassEllipsoid | None = None
    while True:
        result = solve_ellipsoid(
            X, center=center, tol=inner, max_iter=max(1, max_iter - steps), options=options
        )
        steps += result.n_iter
        k = result.factor.shape[1]
        D = k + lift
        back = None if k == d else result.inverse_factor
        level = 1.0 + 0.1 * tol
        found = passes.run(_farthest, result.center, result.factor, back, spread, level, count)
        outside = max(1.0, float(found.largest["distance"]))
        gap = (lift + result.scale * outside) / D - 1.0 if np.isfinite(outside) else np.inf
        gap = max(gap, result.gap)
        if best is None or gap <= best.result.gap:
            grown = _blown_up(result, outside, gap, lift) if np.isfinite(outside) else result
            best = PassEllipsoid(replace(grown, gap=gap), X, numbers, 0, inside=1.0)
        best = replace(best, n_passes=passes.n_passes - first)
        if progress is not None:
            progress(Progress("ellipsoid", best.n_passes, best.result.gap, tol))
        done = best.result.gap <= tol
        if done or steps >= max_iter or best.n_passes >= options.rounds:
            status = "converged" if done else "max_iter"
            return replace(best, result=replace(best.result, status=status, n_iter=steps))
        near = (result.weights > 1e-7) | (result.squared_distances > 0.9)
        new, new_numbers, _ = _chosen(found.rows, count)
        fresh = ~np.isin(new_numbers, numbers)
        if not fresh.any() and inner <= 1e-3 * tol:
            return replace(best, result=replace(best.result, status="stalled", n_iter=steps))
        inner = max(0.1 * tol, options.inner_gap * gap) if fresh.any() else 0.1 * min(inner, tol)
        X = np.concatenate([X[near], new[fresh]])
        numbers = np.concatenate([numbers[near], new_numbers[fresh]])


def _blown_up(result: EllipsoidResult, outside: float, gap: float, lift: int) -> EllipsoidResult:
    """The ellipsoid with all its radii larger, so that it holds the farthest row."""
    root = np.sqrt(outside)
    k, scale = result.factor.shape[1], result.scale * outside
    return replace(
        result,
        factor=result.factor / root,
        inverse_factor=result.inverse_factor * root,
        squared_distances=result.squared_distances / outside,
        scale=scale,
        threshold=scale + lift,
        log_volume=result.log_volume + k * float(np.log(root)),
        gap=gap,
    )


def _farthest(
    rows: Present,
    center: np.ndarray,
    factor: np.ndarray,
    back: np.ndarray | None,
    spread: np.ndarray,
    level: float,
    count: int,
) -> Part:
    """Find the rows of a block that are farthest outside, by distance and then by number."""
    parts, most = [], 0.0
    for part, X in dense_chunks(rows.X):
        off = X - center
        image = off @ factor
        squares = np.einsum("ij,ij->i", image, image)
        if back is not None:
            # Rows off the hull are farther away than any on it.
            beside = np.abs(off - image @ back) / spread
            squares[beside.max(axis=1) > _OFF_THE_HULL] = np.inf
        most = max(most, float(squares.max(initial=0.0)))
        far = np.flatnonzero(squares > level)
        if len(far) > count:
            # Copies of one row would crowd out all others.
            far = far[_first_of_equals(X[far])]
        if len(far) > count:
            far = far[np.argpartition(-squares[far], count)[:count]]
        parts.append((X[far], rows.numbers[part][far], squares[far]))
    return Part({}, {"distance": most}, _chosen(parts, count))


def _chosen(parts: Sequence[Any], count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The farthest rows of several parts, equal ones once."""
    parts = [part for part in parts if part is not None]
    if not parts:
        return np.zeros((0, 0)), np.zeros(0, int), np.zeros(0)
    X, numbers, squares = (stacked([part[i] for part in parts]) for i in range(3))
    order = np.lexsort((numbers, -squares))
    kept = order[_first_of_equals(X[order])[:count]]
    return X[kept], numbers[kept], squares[kept]


def _first_of_equals(X: np.ndarray) -> np.ndarray:
    """Places of rows of which no equal one comes before, by a hash of their bits."""
    bits = np.ascontiguousarray(X + 0.0, dtype=np.float64).view(np.uint64)
    # Round numbers differ in their first bits only, which a product alone would not spread.
    bits ^= bits >> np.uint64(32)
    factors = np.random.default_rng(0).integers(1 << 63, size=X.shape[1], dtype=np.uint64)
    keys = (bits * (2 * factors + np.uint64(1))).sum(axis=1, dtype=np.uint64)
    return np.sort(np.unique(keys, return_index=True)[1])


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


def _cover(
    passes: Passes,
    seen: FirstLook,
    coordinates: Coordinates,
    coverage: float,
    tol: float,
    max_iter: int,
    progress: ProgressCallback | None,
    options: EllipsoidOptions,
) -> PassEllipsoid:
    """Find the ellipsoid of least volume around a fraction of the rows of a source.

    Parameters
    ----------
    passes, seen
        Who reads the rows, and what the first pass found.
    coordinates : Coordinates
        Those of the hull of all rows.
    coverage : float
        Fraction of the weight to enclose, below one.
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
        solved = None
        if 0.0 < left < kappa * near and enough:
            # While a share stands for all, the solution is a start and no more.
            inner = tol if share == 1.0 else max(tol, 1e-4)
            problem = DesignProblem(
                X, coordinates, weight, inner, max_iter - steps, options=options
            )
            M0 = kappa * answer.sums["moments"]
            try:
                solved = _small_problem(problem, kappa * near, left, M0, options)
            except LinAlgError:
                # The rows near the boundary, perhaps copies of a few, do not span the space.
                if share == 1.0 and low == -np.inf:
                    raise
            steps += problem.n_iter
        if solved is None:
            # The boundary lies beyond one of the two limits, or next to one.
            width, missed = 4.0 * (min(high, 2.0 * rho) - low), missed + 1
            rho = high if left <= 0.0 else rho if left < kappa * near else low
            low, high = rho - width, rho + width if np.isfinite(high) else high
            if missed > _MISSES:
                low, high = -np.inf, np.inf
            continue
        u, M, leverages = solved
        before, q = q - rho, leverages
        rho = best_threshold(q, kappa * near / weight.sum() * weight, 1.0 / left)
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


def _small_problem(
    problem: DesignProblem,
    total: float,
    left: float,
    M0: np.ndarray,
    options: EllipsoidOptions,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights of the rows near the boundary, moments of all rows with them, and leverages.

    ``total`` is the sum of the caps, ``left`` that of the weights, and ``M0`` are the moments of
    the rows outside.
    """
    coordinates, share = problem.coordinates, total / problem.total_weight
    F = coordinates.design(problem.X, slice(None))
    if left < 1.0:
        u, _ = problem.solve_capped(F, problem.caps(share), left, M0, options.boundary_gap)
    else:
        # All rows that count are here, however far out: as in memory.
        problem.tol *= options.boundary_gap
        u = cover(problem, share).u
    M = M0 + (F * u[:, None]).T @ F
    return u, M, coordinates.leverages(problem.X, coordinates.metric_of_moments(M))


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
