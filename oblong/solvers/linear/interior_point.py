"""Primal-dual interior point for linear margin problems with many rows and few columns.

Every sample has a soft inequality for the hinge and, if there is a bound, two more::

    y_i f_i + ξ_i >= 1,     t - f_i + τ_i >= 0,     t + f_i + τ*_i >= 0,     f_i = w·x_i + b

Mehrotra's predictor-corrector method solves for ``z = (w, b, t)``. The three inequalities of a
sample share its row, so that a Newton step needs one weighted Gram matrix ``Σ ω_i x_i x_i'``,
made from chunks of rows. The number of steps, ten to thirty, hardly depends on the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from oblong._core.progress import Progress, ProgressCallback
from oblong._core.threads import run_chunks
from oblong.linalg.gram import GramSum, factored
from oblong.solvers.linear.options import DEFAULTS, LinearOptions
from oblong.solvers.linear.problem import LinearProblem, LinearResult, certified
from oblong.solvers.linear.row_loops import advance_rows, bound_step, predict_rows, weigh_rows
from oblong.solvers.linear.small_step import small_step

Numbers = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass
class Kind:
    """One inequality per row: its coefficients, and its slacks and multipliers.

    ``head`` is ``(soft, ky, k1, kt)`` of :mod:`oblong.solvers.linear.row_loops`.
    """

    head: tuple[bool, float, float, float]
    a: np.ndarray
    s: np.ndarray
    v: np.ndarray
    e: np.ndarray

    def at(self, part: slice) -> Numbers:
        """Slacks and multipliers of some rows."""
        return self.a[part], self.s[part], self.v[part], self.e[part]


def middle(problem: LinearProblem, t: float, options: LinearOptions) -> list[Kind]:
    """Start in the middle: outputs zero, the bound ``t``, hinge multipliers half of ``C``."""
    n = problem.rows.n
    y, C = problem.y, problem.C
    # Equal sums of the multipliers in both classes make the bias stationary at once.
    a = 0.5 * C
    if problem.intercept:
        positive = y > 0
        up, down = a[positive].sum(), a[~positive].sum()
        a = np.where(positive, a * min(1.0, down / up), a * min(1.0, up / down))
    v = C - a
    kinds = [Kind((True, 1.0, 0.0, 0.0), a, np.ones(n), v, np.full(n, 2.0))]
    if not problem.bounded:
        return kinds
    kt = 0.0 if problem.D is None else 1.0
    # Products of slacks and multipliers not much smaller than those of the hinge make a good
    # start, even where a small D makes them too large for Σe <= D at first.
    size = options.bound_start * float(a.mean())
    share = size / t
    if problem.D is not None:
        share = max(share, problem.D / (4.0 * n))
    for side in (-1.0, 1.0):
        bound = np.full(n, share)
        slack = np.full(n, t)
        rest = (bound, slack)
        if problem.U is not None:
            bound = np.minimum(bound, 0.5 * problem.U)
            room = problem.U - bound
            excess = np.maximum(0.5 * t, size / room)
            rest = (room, excess)
            slack = slack + excess
        kinds.append(Kind((problem.U is not None, 0.0, side, kt), bound, slack, *rest))
    if problem.D is not None:
        # The inequality t >= 1, the last.
        floor, slack = np.full(1, max(0.5 * problem.D, size)), np.full(1, t - 1.0)
        kinds.append(Kind((False, 0.0, 0.0, 1.0), floor, slack, floor, slack))
    return kinds


def solve_interior_point(
    problem: LinearProblem,
    *,
    tol: float = 1e-8,
    max_iter: int = -1,
    progress: ProgressCallback | None = None,
    stage: str = "interior point",
    options: LinearOptions = DEFAULTS,
    start: Callable[..., list[Kind]] = middle,
) -> LinearResult:
    """Solve a linear margin problem by an interior-point method.

    Parameters
    ----------
    problem : LinearProblem
        The problem.
    tol : float, default=1e-8
        Largest relative gap between the primal and the dual objective.
    max_iter : int, default=-1
        Limit on Newton steps; -1 for none but a safeguard.
    progress : callable, default=None
        Called with a :class:`~oblong._core.progress.Progress` after each step; the violation is the
        estimated relative gap.
    stage : str, default="interior point"
        Name of this problem in the reports.
    options : LinearOptions
        Tuning constants.
    start : callable
        Slacks and multipliers for outputs of zero, by the problem, the bound and the options.

    Returns
    -------
    LinearResult
        The solution, with a certificate that does not depend on the method.
    """
    limit = options.interior_point_steps
    limit = limit if max_iter < 0 else min(max_iter, limit)
    method = _InteriorPoint(problem, tol, options, start)
    best: LinearResult | None = None
    idle = 0
    for iteration in range(limit + 1):
        gap = method.relative_gap()
        if progress is not None:
            progress(Progress(stage, iteration, gap, tol))
        # The estimate, often too high, costs nothing; the certificate is worth a pass only when
        # it may hold.
        if gap <= 3.0 * tol or iteration == limit or idle:
            result = method.result(iteration)
            if best is None or result.relative_gap < 0.9 * best.relative_gap:
                best, idle = result, 0
            else:
                idle += 1
            if best.relative_gap <= tol:
                return _ended(best, iteration, "converged")
            if idle >= options.interior_point_patience:
                return _ended(best, iteration, "stalled")
        if iteration == limit:
            break
        if not method.step():
            result = method.result(iteration)
            if best is None or result.relative_gap < best.relative_gap:
                best = result
            status = "converged" if best.relative_gap <= tol else "stalled"
            return _ended(best, iteration, status)
    assert best is not None
    return _ended(best, limit, "max_iter" if limit == max_iter else "stalled")


def _ended(result: LinearResult, n_iter: int, status: str) -> LinearResult:
    return replace(result, n_iter=n_iter, status=status)


class _InteriorPoint:
    """State of the iteration: the point ``z``, and slacks and multipliers of the rows."""

    def __init__(
        self,
        problem: LinearProblem,
        tol: float,
        options: LinearOptions,
        start: Callable[..., list[Kind]],
    ) -> None:
        self.options = options
        self.problem = problem
        self.tol = tol
        self.rows = rows = problem.rows
        n, d = rows.n, rows.d
        self.variable = problem.D is not None
        # Without a bound no row holds t; any finite number will do.
        self.t = 2.0 if self.variable else (problem.B if problem.bounded else 1.0)
        self.z = np.zeros(d + problem.intercept + self.variable)
        if self.variable:
            self.z[-1] = self.t
        self.f = np.zeros(n)
        self.df = np.zeros(n)
        self.affine = np.zeros(n)
        self.kinds = start(problem, self.t, options)
        # The inequality t >= 1 is that of no row.
        self.floor = [self.kinds.pop()] if self.variable else []
        self.pairs = sum(n * (1 + kind.head[0]) for kind in self.kinds) + self.variable
        self.complementarity = sum(
            float(k.a @ k.s) + (float(k.v @ k.e) if k.head[0] else 0.0)
            for k in self.kinds + self.floor
        )
        self.residual = np.full_like(self.z, np.inf)
        self.gap = self.primal = np.inf
        self.small_step: Callable[..., float] | None = None
        if n <= rows.chunk and n * self.z.size**2 <= options.compiled and not self.variable:
            self.small_step = self._small_step()

    def _small_step(self) -> Callable[..., float]:
        """The compiled step, with the rows and the numbers of all kinds in one array."""
        problem, d = self.problem, self.rows.d
        Z = np.ones((self.rows.n, self.z.size))
        Z[:, :d] = self.rows.dense(0, self.rows.n)
        numbers = np.array([(k.a, k.s, k.v, k.e) for k in self.kinds])
        for kind, own in zip(self.kinds, numbers):
            kind.a, kind.s, kind.v, kind.e = own
        soft = np.array([kind.head[0] for kind in self.kinds])
        heads = np.array([kind.head[1:3] for kind in self.kinds])
        offset = np.zeros(self.rows.n) if problem.offset is None else problem.offset
        return partial(small_step, Z, d, problem.y, offset, soft, heads, numbers)

    def relative_gap(self) -> float:
        """Estimate of the relative gap, from the complementarity and the dual residual."""
        w = self.z[: self.rows.d]
        primal = self.problem.primal(self.f, float(w @ w), self.t)
        off = float(np.abs(self.residual) @ (np.abs(self.z) + 1e-300))
        self.primal = max(primal, np.finfo(float).tiny)
        self.gap = (self.complementarity + off) / self.primal
        return self.gap

    def result(self, n_iter: int) -> LinearResult:
        c = np.zeros(self.rows.n)
        if self.problem.offset is not None:
            c += self.problem.offset
        for kind in self.kinds:
            _, ky, k1, _ = kind.head
            c += (ky * self.problem.y + k1) * kind.a
        return certified(self.problem, self.z[: self.rows.d].copy(), c, self.t, n_iter)

    # One step ------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Take one predictor-corrector step; false if rounding leaves no direction."""
        d, variable = self.rows.d, self.variable
        if self.complementarity <= self.options.least_complementarity * self.primal:
            return False
        # A slack far smaller than tol asks for would only cost digits.
        least = self.options.complementarity_share * self.tol * self.primal / self.pairs
        # Caution keeps early steps long; near the end it would spoil the fast convergence.
        damping = min(0.995, max(self.options.damping, 1.0 - self.gap))
        if self.small_step is not None:
            point = (self.f, self.z, self.residual, self.complementarity, self.pairs)
            after = self.small_step(*point, least, damping)
            self.complementarity = after if after >= 0.0 else self.complementarity
            return after >= 0.0
        mu = self.complementarity / self.pairs
        matrix, rhs = self._system()
        factor = factored(matrix)
        if factor is None:
            return False
        affine = factor(rhs)
        if not np.isfinite(affine).all():
            return False
        dt = float(affine[-1]) if variable else 0.0
        decrease, change, centre, second = self._predict(affine, dt)
        step = min(1.0, 1.0 / decrease) if decrease > 0 else 1.0
        predicted = (1.0 - step) * self.complementarity + step**2 * change
        target = mu * min(1.0, max(predicted / self.complementarity, 0.0)) ** 3
        target = max(target, min(mu, least))
        direction = affine + factor(target * centre + second)
        if not np.isfinite(direction).all():
            return False
        dta, dt = dt, (float(direction[-1]) if variable else 0.0)
        decrease = self._measure(direction, dta, dt, target)
        step = min(1.0, damping / decrease) if decrease > 0 else 1.0
        if not step > 1e-10:
            return False
        self.complementarity = self._advance(dta, dt, target, step)
        self.f += step * self.df
        self.z += step * direction
        self.residual *= 1.0 - step
        if variable:
            self.t = float(self.z[-1])
        return bool(np.isfinite(self.complementarity) and np.isfinite(self.z[:d]).all())

    def _inequalities(
        self, part: slice
    ) -> list[tuple[tuple[bool, float, float, float, np.ndarray], Numbers]]:
        """Coefficients and numbers of some rows; ``t >= 1`` comes along with the first of them."""
        y, kinds = self.problem.y[part], self.kinds + (self.floor if part.start == 0 else [])
        return [((*kind.head, y), kind.at(part)) for kind in kinds]

    def _system(self) -> tuple[np.ndarray, np.ndarray]:
        """Newton matrix and right-hand side, in one pass over the rows."""
        rows, problem, offset = self.rows, self.problem, self.problem.offset
        d, p = rows.d, len(self.z)
        pool = GramSum(d)
        parts = np.zeros((-(-rows.n // rows.chunk), 4, d))
        sums = np.zeros((len(parts), 7))

        def task(part: slice, X: np.ndarray) -> None:
            columns = np.zeros((4, len(X)))
            if offset is not None:
                columns[3] += offset[part]
            total = sums[part.start // rows.chunk]
            for kind in self.kinds:
                found = weigh_rows(*kind.head, problem.y[part], *kind.at(part), *columns)
                if kind.head[3]:
                    total[:3] += found
            total[3:] = columns.sum(axis=1)
            np.dot(columns, X, out=parts[part.start // rows.chunk])
            X *= np.sqrt(columns[0])[:, None]
            pool.add(X, part.start // rows.chunk)

        wide = d > self.options.wide
        rows.for_chunks(task, threads=1 if wide else rows.threads)
        weighed, crossed, targets, combined = parts.sum(axis=0)
        bound = sums.sum(axis=0)
        matrix = np.zeros((p, p))
        gram = pool.total()
        matrix[:d, :d] = gram
        matrix[np.arange(d), np.arange(d)] += 1.0
        rhs = np.zeros(p)
        residual = np.zeros(p)
        rhs[:d] = targets
        residual[:d] = self.z[:d] - combined
        if problem.intercept:
            matrix[d, :d] = weighed
            matrix[d, d] = bound[3]
            rhs[d] = bound[5]
            residual[d] = -bound[6]
        for kind in self.floor:
            own = kind.at(slice(None))
            bound[:3] += weigh_rows(*kind.head, problem.y, *own, *np.zeros((4, 1)))
            matrix[-1, :d] = crossed
            if problem.intercept:
                matrix[-1, d] = bound[4]
            matrix[-1, -1] = bound[0]
            rhs[-1] = bound[1]
            residual[-1] = problem.D - bound[2]
        self.residual = residual
        return matrix, rhs - residual

    def _output_change(self, direction: np.ndarray, X: np.ndarray) -> np.ndarray:
        d = self.rows.d
        change = X @ direction[:d]
        return change + direction[d] if self.problem.intercept else change

    def _predict(
        self, direction: np.ndarray, dt: float
    ) -> tuple[float, float, np.ndarray, np.ndarray]:
        rows, d = self.rows, self.rows.d
        count = -(-rows.n // rows.chunk)
        parts = np.zeros((count, 2, d))
        found = np.zeros((count, 6))

        def task(part: slice, X: np.ndarray) -> None:
            place = part.start // rows.chunk
            df = self.affine[part]
            df[:] = self._output_change(direction, X)
            columns = np.zeros((2, len(X)))
            total = found[place]
            for head, own in self._inequalities(part):
                decrease, change, *sums_of_t = predict_rows(*head, df, dt, *own, *columns)
                total[0] = max(total[0], decrease)
                total[1] += change
                total[2:4] += np.multiply(head[3], sums_of_t)
            total[4:] = columns.sum(axis=1)
            np.dot(columns, X, out=parts[place])

        rows.for_chunks(task)
        sums = found.sum(axis=0)
        centre, second = np.zeros_like(self.z), np.zeros_like(self.z)
        centre[:d], second[:d] = parts.sum(axis=0)
        if self.problem.intercept:
            centre[d], second[d] = sums[4], sums[5]
        if self.variable:
            centre[-1], second[-1] = sums[2], sums[3]
        return float(found[:, 0].max()), float(sums[1]), centre, second

    def _measure(self, direction: np.ndarray, dta: float, dt: float, mu: float) -> float:
        """Change of the outputs in the corrected step, and how fast it nears the boundary."""
        rows = self.rows
        found = np.zeros(-(-rows.n // rows.chunk))

        def task(part: slice, X: np.ndarray) -> None:
            df = self.df[part]
            df[:] = self._output_change(direction, X)
            affine = self.affine[part]
            found[part.start // rows.chunk] = max(
                bound_step(*head, affine, dta, df, dt, mu, *own)
                for head, own in self._inequalities(part)
            )

        rows.for_chunks(task)
        return float(found.max())

    def _advance(self, dta: float, dt: float, mu: float, step: float) -> float:
        length = 1 << 16
        totals = np.zeros(-(-self.rows.n // length))

        def task(start: int, stop: int) -> None:
            part = slice(start, stop)
            affine, df = self.affine[part], self.df[part]
            totals[start // length] = sum(
                advance_rows(*head, affine, dta, df, dt, mu, step, *own)
                for head, own in self._inequalities(part)
            )

        run_chunks(task, self.rows.n, length, self.rows.threads)
        return float(totals.sum())
