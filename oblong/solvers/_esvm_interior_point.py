"""The ellipsoidal support vector machine by the log-determinant interior point method."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError

from oblong.solvers._esvm_compact import CompactState
from oblong.solvers._esvm_kernel_state import KernelState
from oblong.solvers._esvm_problem import Certified, EsvmProblem, balanced
from oblong.solvers._log_det_state import LogDetState

__all__ = ["solve_by_interior_point", "solve_rows"]

# Iterations without a better gap after which rounding has the last word.
_PATIENCE = 5
# Share of the gap asked for at which to stop.
_ENOUGH = 0.9
# Gap over r p that is worth having where a few more iterations cost nothing.
_LAST_DIGITS = 1e-12
# Upper bounds of a hard margin, in mean lengths of rows, which say that there is none: at once, and
# once rounding has the last word.
_NO_MARGIN, _HARDLY = 1e-7, 1e-4
# Rows per column up to which, and rows from which, matrices of n × n numbers are cheaper.
_KERNEL, _SMALL = 4, 100
# Compiled steps to take before looking how they went.
_AT_ONCE = 12
# Columns and rows up to which compiled loops are faster than products of matrices.
_FEW_COLUMNS, _FEW_ROWS = 12, 5000


def solve_by_interior_point(problem: EsvmProblem, polish: bool = False) -> tuple[Certified, str]:
    """Solve with all rows in every Newton system; to the last digits, if that is asked for."""
    tol = min(problem.tol, _LAST_DIGITS) if polish else problem.tol
    return solve_rows(problem, _ENOUGH * tol * problem.unit)


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
    part = _Part(problem, rows, held)
    start = part.start(near)
    if start is None:
        assert near is not None
        return near, "infeasible"
    state = part.state(start)
    whole = rows is None
    if isinstance(state, CompactState) and not problem.reports:
        problem.n_iter += state.run(target, min(_AT_ONCE, problem.max_iter - problem.n_iter))
    best, idle, kept, status = np.inf, 0, state.keep(), "stalled"
    while True:
        gap = state.gap()
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
        if gap == np.inf and _inseparable(problem, state, held, _NO_MARGIN):
            status = "inseparable"
            break
        if problem.n_iter >= problem.max_iter:
            status = "max_iter"
            break
        if idle < _PATIENCE:
            problem.n_iter += 1
            if _advances(state):
                continue
        if type(state) is LogDetState:
            break
        # The explicit form has the last digits, and directions that the weights do not determine.
        state, idle = part.explicit(start, kept if np.isfinite(best) else state.keep()), 0
    if np.isfinite(best):
        state.restore(kept)
    elif status == "stalled" and _inseparable(problem, state, held, _HARDLY):
        status = "inseparable"
    found = _finish(problem, part, state, target)
    if found.gap <= problem.tol * problem.unit:
        status = "converged"
    elif status == "converged" and whole:
        status = "stalled"
    return found, status


def _advances(state: LogDetState) -> bool:
    try:
        return state.advance()
    except LinAlgError:
        return False


def _finish(problem: EsvmProblem, part: _Part, state: LogDetState, target: float) -> Certified:
    """Certify, with weights that tend to a bound at that bound, if that costs nothing."""
    alpha, w, b = part.alpha(state.alpha), state.w, part.length * state.b
    near_zero = _tends(state.alpha, state.s)
    snapped = np.where(near_zero, 0.0, alpha[part.rows])
    if state.caps is not None:
        room = np.where(state.finite, state.caps - state.alpha, np.inf)
        snapped = np.where(_tends(room, state.u), problem.caps[part.rows], snapped)
    tidy = alpha.copy()
    tidy[part.rows] = snapped
    allowed = problem.tol * problem.unit
    if target < 0.1 * allowed:
        allowed = target
    found = problem.certify(tidy, w, b, allowed)
    if found.gap <= allowed:
        return found
    inside = problem.certify(alpha, w, b, allowed)
    return found if found.gap <= 1.1 * inside.gap else inside


def _tends(value: np.ndarray, multiplier: np.ndarray) -> np.ndarray:
    """Whether a value goes to zero: its multiplier, in usual sizes of both, is far larger."""
    usual = float(np.mean(value[np.isfinite(value)])) if np.isfinite(value).any() else 1.0
    size = float(np.mean(multiplier))
    return value * size < 1e-3 * usual * multiplier if size > 0.0 else np.zeros(len(value), bool)


def _inseparable(
    problem: EsvmProblem, state: LogDetState, held: np.ndarray | None, least: float
) -> bool:
    """Whether a hard margin is hopeless: none exceeds ``|v| / Σ α``, which is less than that."""
    if problem.hard is None or held is not None:
        return False
    return float(np.linalg.norm(state.v)) <= least * float(state.alpha.sum())


class _Part:
    """The problem of some rows, scaled to lengths near one, with the held rows in its constants.

    With ``φ = k φ'``, ``B = B' / c`` and ``π = c π' / k``, the caps become ``k C``, the constant
    part of the moments ``M0 / c``, and the optimal values differ by a constant.
    """

    def __init__(
        self, problem: EsvmProblem, rows: np.ndarray | None, held: np.ndarray | None
    ) -> None:
        self.problem, self.held = problem, held
        self.rows = slice(None) if rows is None else rows
        F = np.asarray(problem.F[self.rows], dtype=np.float64)
        self.y, caps = problem.y[self.rows], problem.caps[self.rows]
        length = float(np.sqrt(np.einsum("ij,ij->", F, F) / len(F)))
        self.length = length if length > 0.0 else 1.0
        self.F = F / self.length
        pi = problem.pi[self.rows] * self.length
        factor = float(np.partition(pi, len(pi) // 2)[len(pi) // 2])
        self.pi, self.caps = pi / factor, caps * self.length
        self.ridge = (1.0 - problem.r) / factor
        self.total, self.v0 = 0.0, None
        self.M0 = np.eye(problem.p) * self.ridge
        if held is not None:
            M, self.v0 = problem.moments(held)
            self.M0 = M / factor
            self.total = -float(problem.y @ held) * self.length

    def alpha(self, alpha: np.ndarray) -> np.ndarray:
        """Weights of all rows in the problem as it was given, within their bounds."""
        whole = np.zeros(self.problem.n) if self.held is None else self.held.copy()
        whole[self.rows] = alpha / self.length
        return np.clip(whole, 0.0, self.problem.caps)

    def start(self, near: Certified | None) -> np.ndarray | None:
        """Weights strictly inside their bounds with the right balance; None if there are none."""
        if near is None:
            return self._ray()
        alpha = np.clip(self.length * near.alpha[self.rows], 0.1 * self.caps, 0.9 * self.caps)
        if not self.problem.fit_intercept:
            return alpha
        missing = self.total - float(self.y @ alpha)
        toward = np.where(self.y * np.sign(missing) > 0, self.caps - alpha, alpha)
        share = abs(missing) / float(toward.sum())
        return alpha + np.sign(missing) * share * self.y * toward if share < 0.999 else None

    def state(self, start: np.ndarray) -> LogDetState:
        """The iterate, in the form that costs least."""
        problem = self.problem
        n, p = self.F.shape
        total = self.total if problem.fit_intercept else None
        if self.held is None and _KERNEL * p >= n >= _SMALL:
            return KernelState(
                self.F, start, problem.r, self.ridge, self.caps, self.y, total, self.pi
            )
        if p <= _FEW_COLUMNS and n <= _FEW_ROWS:
            v0 = np.zeros(p) if self.v0 is None else self.v0
            return CompactState(
                self.F, start, problem.r, self.M0, self.caps, self.y, total, v0, self.pi
            )
        return self.explicit(start)

    def explicit(self, start: np.ndarray, kept: tuple | None = None) -> LogDetState:
        """The iterate with explicit columns, at the start or where another one was."""
        problem = self.problem
        total = self.total if problem.fit_intercept else None
        state = LogDetState(
            self.F,
            start,
            problem.r,
            self.M0,
            self.caps,
            self.y,
            0.0,
            total,
            True,
            self.v0,
            self.pi,
        )
        if kept is not None:
            state.restore(kept)
        return state

    def _ray(self) -> np.ndarray:
        """Equal weights in each class, scaled to the best dual value along their ray."""
        y, F = self.y, self.F
        positive = y > 0
        count = np.count_nonzero(positive)
        share = np.where(positive, 1.0 / count, 1.0 / (len(y) - count))
        trace = float((share * self.pi) @ np.einsum("ij,ij->i", F, F))
        slope = float(np.linalg.norm((share * y) @ F))
        tau = 1.0
        if trace > 0.0:
            # As if the moments were a multiple of the identity; not far beyond one row's worth of
            # weight for each direction, should nothing pull back.
            p, spread = self.problem.p, self.problem.p / trace
            tau = min(self.problem.r * p / max(slope, 1e-300), 10.0 * p * spread)
            tau = max(tau - self.ridge * spread, self.ridge * spread)
        alpha = np.minimum(tau * share, 0.5 * self.caps)
        return balanced(alpha, y) if self.problem.fit_intercept else alpha
