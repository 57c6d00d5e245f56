"""The ellipsoid around all rows of a source that is read a block at a time.

A pass returns the rows that are farthest outside of the ellipsoid of the working rows, and the
largest distance, which is the certificate: blown up by it, the ellipsoid holds every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from oblong._core.progress import Progress, ProgressCallback
from oblong.solvers.ellipsoid.coordinates import Coordinates
from oblong.solvers.ellipsoid.coverage_passes import cover_in_passes
from oblong.solvers.ellipsoid.options import EllipsoidOptions
from oblong.solvers.ellipsoid.result import EllipsoidResult, PassEllipsoid
from oblong.solvers.ellipsoid.solve import solve_ellipsoid
from oblong.solvers.linear.passes.first import FirstLook, stacked
from oblong.solvers.linear.passes.rows import Part, Passes, Present, dense_chunks

__all__ = ["solve_ellipsoid_passes"]

# Distance from the hull of the working rows, in deviations of the columns, that is not rounding.
_OFF_THE_HULL = 1e-6


def solve_ellipsoid_passes(
    passes: Passes,
    seen: FirstLook,
    *,
    coverage: float = 1.0,
    center: bool = True,
    tol: float = 1e-6,
    max_iter: int = 1000,
    progress: ProgressCallback | None = None,
    options: EllipsoidOptions | None = None,
) -> PassEllipsoid:
    """Find the ellipsoid of least volume around the rows of a source, or a share of them.

    Parameters
    ----------
    passes : Passes
        Who reads the rows.
    seen : FirstLook
        What the first pass found.
    coverage, center, tol, max_iter, progress, options
        As for :func:`~oblong.solvers.ellipsoid.solve.solve_ellipsoid`.
    """
    options = options or EllipsoidOptions()
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
        return cover_in_passes(
            passes,
            seen,
            coordinates,
            coverage=coverage,
            tol=tol,
            max_iter=max_iter,
            progress=progress,
            options=options,
        )
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
            far = far[np.argpartition(-squares[far], count)[:count]]
        parts.append((X[far], rows.numbers[part][far], squares[far]))
    return Part({}, {"distance": most}, _chosen(parts, count))


def _chosen(parts: Sequence[Any], count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The farthest rows of several parts, equal ones once."""
    parts = [part for part in parts if part is not None]
    if not parts:
        return np.zeros((0, 0)), np.zeros(0, int), np.zeros(0)
    X, numbers, squares = (stacked([part[i] for part in parts]) for i in range(3))
    order = np.lexsort((numbers, -squares))[: 2 * count]
    X, numbers, squares = X[order], numbers[order], squares[order]
    _, first = np.unique(X, axis=0, return_index=True)
    kept = np.sort(first)[:count]
    return X[kept], numbers[kept], squares[kept]
