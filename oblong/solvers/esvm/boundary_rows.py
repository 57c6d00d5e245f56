"""Many rows: settle those near the boundary while the others are held at zero or at their caps."""

from __future__ import annotations

import numpy as np

from oblong.solvers.esvm.interior_point import solve_rows
from oblong.solvers.esvm.problem import Certified, EsvmProblem
from oblong.solvers.esvm.smoothed_newton import SmoothedMachine

__all__ = ["solve_by_newton", "solve_by_working_sets"]

# Gap over r p at which the rows near the boundary are settled.
_CLOSE = 1e-3
# So many of these rows per unknown.
_SETTLED = 3
# At least so many rows, since few cost nothing, and at most so many.
_LEAST, _MOST = 250, 6000
# Attempts to settle them.
_ROUNDS = 10


def solve_by_newton(
    problem: EsvmProblem, start: tuple[np.ndarray, np.ndarray, float] | None = None
) -> tuple[Certified, str]:
    """Solve by Newton's method with less and less smoothing, and settle what is left."""
    machine = SmoothedMachine(problem)
    if start is None:
        machine.begin_anywhere()
    else:
        machine.begin(*start, 0.1)
    found = machine.minimise(max(_CLOSE, problem.tol))
    found = _settle(problem, found, machine)
    return found, _status(problem, found)


def solve_by_working_sets(problem: EsvmProblem) -> tuple[Certified, str]:
    """Hard margins with many rows: rows without weight join when they are violated."""
    rng = np.random.default_rng(0)
    count = min(_count(problem), problem.n)
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
    return best, _status(problem, best)


def _status(problem: EsvmProblem, found: Certified) -> str:
    if found.gap <= problem.tol * problem.unit:
        return "converged"
    return "max_iter" if problem.n_iter >= problem.max_iter else "stalled"


def _count(problem: EsvmProblem) -> int:
    p = problem.p
    unknowns = p * (p + 1) // 2 + p + 1
    return min(max(_SETTLED * unknowns, _LEAST), _MOST)


def _settle(problem: EsvmProblem, found: Certified, machine: SmoothedMachine) -> Certified:
    """Give the rows near the boundary their exact weights, the others being held."""
    count = min(_count(problem), problem.n)
    best = found
    for _ in range(_ROUNDS):
        if best.gap <= problem.tol * problem.unit or problem.n_iter >= problem.max_iter:
            break
        before = best.gap
        settled = _settle_rows(problem, best, count)
        if settled is not None:
            problem.report(settled.gap / problem.unit)
            best = settled if settled.gap < best.gap else best
        if best.gap > 0.3 * before:
            # Too many rows are near the boundary to know their side: smooth less.
            smoothed = machine.minimise(0.1 * best.gap / problem.unit)
            best = smoothed if smoothed.gap < best.gap else best
    return best


def _settle_rows(problem: EsvmProblem, found: Certified, count: int) -> Certified | None:
    """Solve for the weights of ``count`` rows; None if that is not possible."""
    caps, y = problem.caps, problem.y
    excess = found.q - y * found.outputs
    if count < problem.n:
        # Half of the rows by what they contribute to the gap, half by their distance.
        terms = caps * np.maximum(excess, 0.0) - found.alpha * excess
        first = np.argpartition(-terms, count // 2)[: count // 2]
        distance = np.abs(excess)
        distance[first] = -1.0
        rows = np.sort(np.argpartition(distance, count - 1)[:count])
    else:
        rows = np.arange(problem.n)
    held = np.where(excess > 0.0, caps, 0.0)
    held[rows] = 0.0
    settled, status = solve_rows(problem, 0.3 * problem.tol * problem.unit, rows, held, found)
    return None if status == "infeasible" else settled
