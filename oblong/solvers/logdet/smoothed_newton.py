"""Log-determinant problems with many rows: Newton's method on a smoothed problem.

The problem is that of :mod:`oblong.solvers.logdet.interior_point` with finite caps::

    min  -r ln|B| + tr(M0 B) + t b + Σ C_i max(0, m_i),   m_i = π_i φ_i'B φ_i - y_i (φ_i'w + b)

over ``B``, ``b`` and, where there is one, ``|w| <= 1``. The corner of ``max(0, m)`` is rounded by
a parabola for ``|m| < width / 2``, and the ball gets the barrier ``-κ ln(1 - |w|²)``. The slopes of
the rounded slack, times the caps, are dual weights, whose certificate is that of the problem
itself. With less and less smoothing the rows fall into those with weight zero, those at their caps,
and few in between, which the interior point method then solves for exactly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from scipy.linalg import LinAlgError, cholesky

from oblong.solvers.logdet.directions import Direction, Zone, newton_direction
from oblong.solvers.logdet.options import LogDetOptions


class HasGap(Protocol):
    """A certified solution."""

    @property
    def gap(self) -> float:
        """Primal minus dual value, in the units of the problem."""


Found = TypeVar("Found", bound=HasGap)
Point = tuple[np.ndarray, np.ndarray, float]


class SmoothedProblem(ABC, Generic[Found]):
    """What the method asks of a problem: passes over all rows, and a certificate.

    Attributes
    ----------
    problem : object
        The problem, which counts Newton systems and reports to the caller of its solver.
    r : float
        Weight of the log-determinant.
    caps : ndarray of shape (n,)
        Finite caps ``C_i``; rows with zero are absent.
    signs : ndarray of shape (n,) or float
        ``y_i``.
    constant : ndarray of shape (p, p)
        ``M0``.
    total : float
        ``t``.
    has_bias : bool
        Whether ``b`` is free.
    tol, unit : float
        Largest gap is ``tol * unit``.
    options : LogDetOptions
        Settings.
    """

    problem: Any
    r: float
    caps: np.ndarray
    signs: np.ndarray | float
    constant: np.ndarray
    total: float
    has_bias: bool
    tol: float
    unit: float
    options: LogDetOptions

    @abstractmethod
    def start(self) -> Point:
        """``R`` with ``B = R R'``, ``w`` and ``b`` to start from."""

    @abstractmethod
    def sample(self, rows: np.ndarray) -> SmoothedProblem[Found]:
        """The problem of some rows, whose caps have the same sum."""

    @abstractmethod
    def excess(self, R: np.ndarray, w: np.ndarray, b: float) -> np.ndarray:
        """``m_i`` of all rows."""

    @abstractmethod
    def change(self, dB: np.ndarray, dw: np.ndarray, db: float) -> np.ndarray:
        """Change of ``m_i`` of all rows, which is linear."""

    @abstractmethod
    def moments(self, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``Σ α_i π_i φ_i φ_i'`` and ``Σ α_i y_i φ_i``, the latter as long as ``w``."""

    @abstractmethod
    def vectors(self, rows: np.ndarray, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``√π_i R'φ_i`` and ``-y_i (φ_i, 1)`` of some rows, in columns."""

    @abstractmethod
    def certify(self, alpha: np.ndarray, w: np.ndarray, b: float) -> Found:
        """Certify weights, with a primal point near by."""

    @abstractmethod
    def solve_boundary_rows(self, found: Found, failures: int) -> Found | None:
        """Give the rows near the boundary their exact weights, the others being held.

        ``failures`` counts the attempts that did not help. None if there is nothing to solve.
        """

    def count_step(self, steps: int = 1) -> bool:
        """Count Newton steps; return whether there is none left."""
        self.problem.n_iter += steps
        return self.problem.n_iter >= self.problem.max_iter

    def report(self, gap: float) -> None:
        """Report a gap over the unit."""
        self.problem.report(gap)


def solve_smoothed(
    problem: SmoothedProblem[Found], start: Point | None = None, width: float = 1.0
) -> Found:
    """Smooth the problem less and less, then solve for the rows that are left near the boundary.

    ``width`` is the width to begin with, in twice the median of ``|m_i|``: less than one for a
    start that is near the solution.
    """
    options, target = problem.options, problem.tol * problem.unit
    newton = SmoothedNewton(problem)
    newton.begin(start, width)
    best = newton.minimise(max(options.close, problem.tol))
    failures = 0
    for _ in range(options.boundary_rounds):
        if best.gap <= target or problem.count_step(0):
            break
        before = best.gap
        found = problem.solve_boundary_rows(best, failures)
        if found is not None:
            problem.report(found.gap / problem.unit)
            best = found if found.gap < best.gap else best
        if best.gap <= options.boundary_progress * before:
            failures = 0
            continue
        failures += 1
        if best.gap <= target or failures >= options.boundary_failures:
            break
        # Too many rows are near the boundary to know their side: smooth less.
        found = newton.minimise(0.1 * best.gap / problem.unit)
        best = found if found.gap < best.gap else best
    return best


def rows_near_boundary(
    excess: np.ndarray, alpha: np.ndarray, caps: np.ndarray, unknowns: int, options: LogDetOptions
) -> tuple[np.ndarray, np.ndarray]:
    """Rows to solve for, and the weights of the others: zero or their caps, by their side.

    Half of the rows are those with the largest terms ``C_i max(0, m_i) - α_i m_i`` of the gap, the
    others those nearest to the boundary.
    """
    present = int(np.count_nonzero(caps))
    count = max(options.boundary_rows * unknowns, options.boundary_least)
    count = min(count, options.boundary_most, present)
    held = np.where(excess > 0.0, caps, 0.0)
    if count == present:
        rows = np.flatnonzero(caps)
    else:
        terms = np.where(caps > 0.0, caps * np.maximum(excess, 0.0) - alpha * excess, -np.inf)
        first = np.argpartition(-terms, count // 2)[: count // 2]
        distance = np.where(caps > 0.0, np.abs(excess), np.inf)
        distance[first] = -1.0
        rows = np.sort(np.argpartition(distance, count - 1)[:count])
    held[rows] = 0.0
    return rows, held


class SmoothedNewton(Generic[Found]):
    """Minimise the smoothed problem; the iterate is ``B = R R'``, ``w`` and ``b``.

    Steps ``R S R'`` of ``B`` are made in terms of ``S``, where the Hessian of the log-determinant
    is ``r`` times the identity.
    """

    def __init__(self, problem: SmoothedProblem[Found]) -> None:
        self.problem, self.options = problem, problem.options
        self.caps = problem.caps
        self.total_cap = float(self.caps.sum())
        self.R: np.ndarray
        self.w: np.ndarray
        self.b: float
        self.width: float
        self.rng = np.random.default_rng(0)
        self.steps = 0

    def begin(self, start: Point | None = None, width: float = 1.0) -> None:
        """Start at a point, at one found for a sample of the rows, or at the problem's own."""
        problem, present = self.problem, np.flatnonzero(self.caps)
        known: float | None = None
        if start is None and len(present) > 3 * self.options.sample:
            rows = np.sort(self.rng.choice(present, self.options.sample, replace=False))
            smaller: SmoothedNewton[Found] = SmoothedNewton(problem.sample(rows))
            smaller.begin()
            smaller.minimise(self.options.sample_gap)
            start, known = (smaller.R, smaller.w, smaller.b), smaller.width
            problem.count_step(smaller.steps)
        self.R, self.w, self.b = problem.start() if start is None else start
        self.m = problem.excess(self.R, self.w, self.b)
        distance = np.abs(self.m)
        # Copies of one row can be the median, which is then zero.
        usual = max(float(np.median(distance)), 1e-12 * float(distance.mean()))
        self.width = known or 2.0 * width * usual or 1.0
        self.alpha = np.zeros(len(self.caps))
        self.M, self.v = problem.constant.copy(), np.zeros_like(self.w)
        self._weigh()
        length = float(np.linalg.norm(self.w))
        if length > 0.0:
            # As far from the sphere as the barrier is going to keep it.
            room = min(0.2, 2.0 * self._kappa() / max(float(np.linalg.norm(self.v)), 1e-300))
            dw = self.w * (min(1.0, np.sqrt(1.0 - room) / length) - 1.0)
            self.m += problem.change(np.zeros_like(self.M), dw, 0.0)
            self.w = self.w + dw
            self._weigh()

    def _kappa(self) -> float:
        return self.options.barrier * self.width * self.total_cap

    def _weights(self, m: np.ndarray) -> np.ndarray:
        """Slopes of the rounded slack, times the caps."""
        return self.caps * np.clip(m / self.width + 0.5, 0.0, 1.0)

    def _weigh(self) -> None:
        """Update the moments by the rows whose weights have changed."""
        alpha = self._weights(self.m)
        M, v = self.problem.moments(alpha - self.alpha)
        self.M, self.v, self.alpha = self.M + M, self.v + v, alpha

    def minimise(self, target: float) -> Found:
        """Take Newton steps, with less and less smoothing, down to a gap of ``target``."""
        problem, options = self.problem, self.options
        best: Found | None = None
        stuck = 0
        while True:
            decrement, moved = self._step()
            self.steps += 1
            spent = problem.count_step()
            large = decrement > options.decrement * self.width * self.total_cap
            if large and moved and not spent:
                continue
            # At its minimum the smoothed problem cannot be closer than this.
            zone = np.abs(self.m) < 0.5 * self.width
            shift = (self.m[zone] / self.width) ** 2
            least = self.width * float(self.caps[zone] @ (0.25 - shift)) / 2.0
            if spent or least <= 2.0 * target * problem.unit or not moved:
                found = problem.certify(self.alpha, self.w, self.b)
                problem.report(found.gap / problem.unit)
                stuck = stuck + 1 if best is not None and found.gap > 0.7 * best.gap else 0
                best = found if best is None or found.gap < best.gap else best
                if best.gap <= target * problem.unit or spent or stuck >= 2:
                    return best
            self.width *= options.shrink
            self._weigh()

    def _step(self) -> tuple[float, bool]:
        """One Newton step; return the decrement and whether the iterate moved."""
        problem, R, w, kappa = self.problem, self.R, self.w, self._kappa()
        ball, p = 1.0 - float(w @ w), len(w)
        if not ball > 0.0:
            # Rounding has put the iterate on the sphere, where the barrier has no slope.
            return 0.0, False
        # Gradients of -r ln|B| + tr(M B), of the barrier and of the bias.
        excess = R.T @ self.M @ R
        excess.flat[:: len(R) + 1] -= problem.r
        balance = problem.total - float(np.sum(problem.signs * self.alpha))
        gradient = Direction(
            excess,
            np.append((2.0 * kappa / ball) * w - self.v, [balance] * problem.has_bias),
        )
        bend = np.zeros((len(gradient.x),) * 2)
        bend[:p, :p] = (4.0 * kappa / ball**2) * np.outer(w, w)
        bend.flat[: p * (len(bend) + 1) : len(bend) + 1] += 2.0 * kappa / ball
        zone = Zone(
            np.flatnonzero((np.abs(self.m) < 0.5 * self.width) & (self.caps > 0.0)),
            self.caps / self.width,
            lambda rows: problem.vectors(rows, R),
            problem.r,
            bend,
        )
        step = newton_direction(zone, gradient, self.rng, self.options)
        if step is None:
            return 0.0, False
        db = float(step.x[-1]) if problem.has_bias else 0.0
        return -0.5 * gradient.dot(step), self._search(step.S, step.x[:p], db)

    def _search(self, S: np.ndarray, dw: np.ndarray, db: float) -> bool:
        """Move along a direction until its slope has almost gone; False if there is no way."""
        problem, r, kappa, w = self.problem, self.problem.r, self._kappa(), self.w
        dB = self.R @ S @ self.R.T
        dm = problem.change(dB, dw, db)
        eigenvalues = np.linalg.eigvalsh(S)
        linear = float(np.vdot(problem.constant, dB)) + problem.total * db
        a, half, c = float(dw @ dw), float(w @ dw), 1.0 - float(w @ w)
        longest = 1.0 / max(-float(eigenvalues[0]), 1e-300)
        if a > 0.0:
            root = np.sqrt(half * half + a * c)
            longest = min(longest, c / (half + root) if half > 0 else (root - half) / a)

        def slope_at(t: float) -> float:
            value = linear - r * float(np.sum(eigenvalues / (1.0 + t * eigenvalues)))
            ball = max(c - t * (2.0 * half + t * a), 1e-300)
            value += 2.0 * kappa * (half + t * a) / ball
            return value + float(self._weights(self.m + t * dm) @ dm)

        low = _root_of_slope(slope_at, longest)
        if low == 0.0:
            return False
        try:
            grown = S * low
            grown.flat[:: len(S) + 1] += 1.0
            self.R = self.R @ cholesky(grown, lower=True, check_finite=False)
        except LinAlgError:
            return False
        self.w, self.b = w + low * dw, self.b + low * db
        self.m += low * dm
        self._weigh()
        return True


def _root_of_slope(slope_at: Callable[[float], float], longest: float) -> float:
    """Length at which a rising slope is a tenth of its size at zero; zero if it starts positive."""
    low, at_low = 0.0, slope_at(0.0)
    if at_low >= 0.0:
        return 0.0
    enough = 0.1 * abs(at_low)
    high, at_high = np.inf, 0.0
    t = min(1.0, 0.95 * longest)
    for _ in range(12):
        at = slope_at(t)
        if abs(at) <= enough:
            return t
        if at < 0.0:
            low, at_low = t, at
            if high == np.inf:
                # The rest of the way to the boundary, but no more than twice as far.
                t = min(2.0 * t, 0.5 * (t + 0.95 * longest))
                if t - low < 0.05 * low:
                    break
                continue
        else:
            high, at_high = t, at
        t = low + (high - low) * min(max(at_low / (at_low - at_high), 0.1), 0.9)
    return low
