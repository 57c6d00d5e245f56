"""The ellipsoidal support vector machine by the log-determinant interior point method."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
from scipy.linalg import LinAlgError

from oblong.solvers.esvm.kernel.centre import solve_from_centre
from oblong.solvers.esvm.kernel.dual import solve_by_models
from oblong.solvers.esvm.kernel.state import KernelState
from oblong.solvers.esvm.problem import Certified, EsvmProblem
from oblong.solvers.esvm.scaled_part import Part
from oblong.solvers.logdet.state import LogDetState


def solve_by_interior_point(
    problem: EsvmProblem, polish: bool = False, pairs: bool = False
) -> tuple[Certified, str]:
    """Solve with all rows in every Newton system; to the last digits, if that is asked for.

    With `pairs`, models of the dual come first whatever the shape of the rows.
    """
    options = problem.options
    digits = [min(problem.tol, options.model_digits)] if polish else []
    # Hard margins without the last digits are left to the interior point method.
    enough = [] if polish and problem.hard is not None else [problem.tol]
    for tol in digits + enough:
        found = _by_models(problem, tol, pairs)
        if found is not None:
            return found, "converged"
    tol = min(problem.tol, options.last_digits) if polish else problem.tol
    return solve_rows(problem, options.enough * tol * problem.unit)


def _by_models(problem: EsvmProblem, tol: float, pairs: bool) -> Certified | None:
    """Solve for a kernel without a central path; None where that is not possible."""
    suits = pairs or _is_kernel(problem, problem.n)
    if not suits or problem.max_iter < problem.options.models_from_limit:
        return None
    if not (problem.fit_intercept if problem.hard is None else problem.hard.all()):
        return None
    asked = replace(problem, tol=tol)
    found = solve_from_centre(asked) if problem.hard is not None else solve_by_models(asked)
    problem.n_iter = asked.n_iter
    return found


def solve_rows(
    problem: EsvmProblem,
    target: float,
    rows: np.ndarray | None = None,
    held: np.ndarray | None = None,
    near: Certified | None = None,
) -> tuple[Certified, str]:
    """Solve for the weights of some rows and certify those of all.

    Parameters
    ----------
    problem : EsvmProblem
        The problem with all rows.
    target : float
        Gap of the rows' own problem at which to stop.
    rows : ndarray of int, optional
        Rows to solve for; all by default.
    held : ndarray of shape (n,), optional
        Weights of the other rows, zero at ``rows``; zero everywhere by default.
    near : Certified, optional
        A solution near by, to start from.

    Returns
    -------
    tuple of Certified and str
        The solution, and why the solver stopped; ``"infeasible"``, with ``near``, if the held
        weights cannot be balanced.
    """
    options = problem.options
    part = Part(problem, rows, held)
    start = part.start(near)
    if start is None:
        assert near is not None
        return near, "infeasible"
    whole = rows is None
    # The form that costs least.
    kernel = held is None and _is_kernel(problem, part.shape[0])
    state = KernelState(part, start) if kernel else _explicit(part, start)
    best, idle, kept, status = np.inf, 0, state.keep(), "stalled"
    while True:
        gap = state.gap()
        slow = np.isfinite(best) and gap > options.slow * best
        if gap < best:
            idle = idle if gap > 0.9 * best else 0
            best, kept = gap, state.keep()
        elif np.isfinite(best):
            idle += 1
        if whole:
            problem.report(gap / problem.unit)
        if gap <= target:
            status = "converged"
            break
        if gap == np.inf and _inseparable(problem, state, held, options.no_margin):
            status = "inseparable"
            break
        if problem.n_iter >= problem.max_iter:
            status = "max_iter"
            break
        explicit = type(state) is LogDetState
        patience = options.lost
        if best <= options.lost_gap * problem.unit:
            # Rounding: the explicit form has more digits, and a small enough gap is the end.
            ends = slow and (not explicit or best <= problem.tol * problem.unit)
            patience = 0 if ends else options.patience
        if idle < patience:
            problem.n_iter += 1
            with suppress(LinAlgError):
                if state.advance():
                    continue
        if explicit:
            break
        # The explicit form has the last digits, and directions that the weights do not determine.
        last = kept if np.isfinite(best) else state.keep()
        state, idle = _explicit(part, start), 0
        state.restore(last)
    if np.isfinite(best):
        state.restore(kept)
    elif status == "stalled" and _inseparable(problem, state, held, options.hardly_a_margin):
        status = "inseparable"
    found = _finish(problem, part, state, target)
    if found.gap <= problem.tol * problem.unit:
        status = "converged"
    elif status == "converged" and whole:
        status = "stalled"
    return found, status


def _is_kernel(problem: EsvmProblem, n: int) -> bool:
    """Whether matrices of ``n × n`` numbers are cheaper than explicit columns."""
    options = problem.options
    return options.kernel_rows_per_column * problem.p >= n >= options.kernel_from


def _finish(problem: EsvmProblem, part: Part, state: LogDetState, target: float) -> Certified:
    """Certify, with weights that tend to a bound at that bound, if that costs nothing."""
    alpha, w, b = part.alpha(state.alpha), state.w, part.length * state.b
    share = problem.options.at_bound
    near_zero = _tends(state.alpha, state.s, share)
    snapped = np.where(near_zero, 0.0, alpha[part.rows])
    if state.caps is not None:
        room = np.where(state.finite, state.room(), np.inf)
        snapped = np.where(_tends(room, state.u, share), problem.caps[part.rows], snapped)
    tidy = alpha.copy()
    tidy[part.rows] = snapped
    allowed = problem.tol * problem.unit
    if target < 0.1 * allowed:
        allowed = target
    found = _certified(problem, tidy, w, b, allowed)
    if found is not None and found.gap <= allowed:
        return found
    inside = _certified(problem, alpha, w, b, allowed)
    if inside is None:
        return found or problem.certify(np.zeros(problem.n), w, b)
    return found if found is not None and found.gap <= 1.1 * inside.gap else inside


def _certified(
    problem: EsvmProblem, alpha: np.ndarray, w: np.ndarray, b: float, allowed: float
) -> Certified | None:
    """Certify; None if some weights are so large that rounding leaves others no say."""
    try:
        return problem.certify(alpha, w, b, allowed)
    except LinAlgError:
        return None


def _tends(value: np.ndarray, multiplier: np.ndarray, share: float) -> np.ndarray:
    """Whether a value goes to zero: its multiplier, in usual sizes of both, is far larger."""
    usual = float(np.mean(value[np.isfinite(value)])) if np.isfinite(value).any() else 1.0
    size = float(np.mean(multiplier))
    return value * size < share * usual * multiplier if size > 0.0 else np.zeros(len(value), bool)


def _inseparable(
    problem: EsvmProblem, state: LogDetState, held: np.ndarray | None, least: float
) -> bool:
    """Whether a hard margin is hopeless: none exceeds ``|v| / Σ α``, which is less than that."""
    if problem.hard is None or held is not None:
        return False
    return float(np.linalg.norm(state.v)) <= least * float(state.alpha.sum())


def _explicit(part: Part, start: np.ndarray) -> LogDetState:
    """The iterate with explicit columns."""
    own = {**part.terms(), "M0": part.M0, "v0": part.v0, "scale": part.pi}
    return LogDetState(part.F, start, options=part.problem.options.logdet, **own)
