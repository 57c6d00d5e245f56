"""Ellipsoids that leave some rows outside.

Few rows go to the interior point method as they are. With many, Newton's method on a smoothed
problem finds out which rows lie inside, which outside and which near the boundary; the interior
point method then settles the latter, while the others are held at zero or at their caps.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError

from oblong._core.threads import chunks
from oblong.linalg.log_det import chunk_length
from oblong.solvers.ellipsoid.active_set import enclose
from oblong.solvers.ellipsoid.problem import Design, DesignProblem, settled, snapped
from oblong.solvers.ellipsoid.smoothed_newton import CLOSE, Smooth, certify, design_moments

__all__ = ["cover"]

# Products of quadratic features in a Newton matrix up to which all rows go into it.
_DIRECT = 2e8
# Rows near the boundary that are settled at the end, per unknown.
_SETTLED = 3
# At least so many of them at the end, since few cost nothing.
_LEAST = 1500
# Quadratic features that may be in memory at once, some three times over.
_FEATURES = 4e6
# Weights that count as traces, in units of their rows' distances from the boundary.
_TRACES = (1.0, 1e-2, 1e-4)
# Attempts to settle the rows near the boundary.
_ROUNDS = 12


def cover(problem: DesignProblem, kappa: float, start: np.ndarray | None = None) -> Design:
    """Solve the design problem with caps ``κ ω``."""
    return _without_traces(problem, kappa, _cover(problem, kappa, start))


def _without_traces(problem: DesignProblem, kappa: float, design: Design) -> Design:
    """Set to their bounds the weights that the optimum has there, as long as the gap allows."""
    for share in _TRACES:
        u = settled(design.u, design.q, problem.caps(kappa), design.rho, share)
        if u is None:
            break
        try:
            found = certify(problem, kappa, u, design.status)
        except LinAlgError:
            continue
        if found.gap <= max(problem.tol, design.gap):
            return found
    return design


def _cover(problem: DesignProblem, kappa: float, start: np.ndarray | None) -> Design:
    rows = problem.present()
    D = problem.coordinates.D
    unknowns = D * (D + 1) // 2
    mass = kappa * problem.total_weight
    if mass <= 1.0 + 1e-12:
        return certify(problem, kappa, problem.caps(kappa) / mass, "stalled")
    few = len(rows) * unknowns <= _FEATURES and len(rows) * unknowns**2 <= _DIRECT
    if len(rows) <= 8 * unknowns or few:
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
    smooth = Smooth(problem, kappa)
    smooth.begin(start)
    design = smooth.minimise(CLOSE)
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


def _cover_distinct(problem: DesignProblem, kappa: float, most: int) -> Design | None:
    """Let the interior point method have all rows, copies counted as one; None if too many."""
    X, coordinates, caps = problem.X, problem.coordinates, problem.caps(kappa)
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
    found = problem.solve_rows(
        coordinates.design(X, first[kept]),
        total[kept] / total.sum(),
        M0=problem.lifted_M0(),
        caps=total[kept],
        total=1.0,
        tol=0.05 * problem.tol * coordinates.D,
    )
    share = np.zeros(len(first))
    share[kept] = snapped(found.alpha, total[kept], 0.1 * problem.tol / float(total.sum()))
    share[kept] /= total[kept]
    status = "max_iter" if found.status == "max_iter" else "stalled"
    return certify(problem, kappa, caps * share[group], status)


def _settle(problem: DesignProblem, kappa: float, design: Design, smooth: Smooth) -> Design:
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
        elif failures == 1:
            failures += 1
            found = _cover_distinct(problem, kappa, int(_FEATURES / unknowns))
            if found is not None:
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
    M0 = design_moments(problem, u)
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
    return certify(problem, kappa, u, status)
