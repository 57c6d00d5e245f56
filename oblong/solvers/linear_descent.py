"""Dual coordinate descent for linear margin problems with sparse or wide rows.

The dual of :mod:`oblong.solvers.linear` is maximised over one coefficient at a time, in random
order, while the weights ``w = Σ c_i x_i`` are kept up to date (Hsieh et al., "A dual coordinate
descent method for large-scale linear SVM", ICML 2008). Its two joint constraints are left to the
method of multipliers: an inner problem has the bias ``b + R Σc`` in place of ``Σc = 0`` and the
bound ``max(1, t + R (Σe - D))`` in place of ``Σe <= D``, and once it is solved well enough its
bias and bound become the multipliers ``b`` and ``t`` of the next. So the bias is exact, not
regularised like that of an appended constant feature.

Single coefficients make slow progress where rows are nearly dependent, above all under a tight
bound, whose multipliers no box holds. So from time to time all free coefficients, those between
two kinks of the dual, move at once: conjugate gradients give a direction of ascent on them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from oblong._progress import Progress, ProgressCallback
from oblong.solvers._linear_loops import add_rows, descend, row_products
from oblong.solvers.linear import LinearProblem, LinearResult, certified

__all__ = ["solve_descent"]

# Strength of the joint constraints, relative to the mean squared norm of the rows.
_STRENGTH = 0.5
# Passes that are never enough, for callers that set no limit.
_MOST_PASSES = 100_000
# An inner problem is solved to this fraction of the violation it began with.
_INNER = 0.3
# Sweeps between joint steps, and conjugate gradient steps that make one worth its while or
# accurate enough.
_JOINT_EVERY = 2
_JOINT_STEPS = (3, 30)
# Sweeps after which joint steps may cost as much again as those up to then.
_JOINT_PATIENCE = 8
# A certificate is made when the estimate of the gap has come down to this many times tol, or
# when the passes have grown by this factor.
_PROMISE = 2.0
_CHECK = 1.4
# Passes after which the weights are summed up afresh.
_REFRESH = 64


def solve_descent(
    problem: LinearProblem,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    start: np.ndarray | None = None,
    start_bias: float = 0.0,
    rng: np.random.Generator | None = None,
    progress: ProgressCallback | None = None,
    stage: str = "descent",
) -> LinearResult:
    """Solve a linear margin problem by dual coordinate descent.

    Parameters
    ----------
    problem : LinearProblem
        The problem; its rows are not centred.
    tol : float, default=1e-4
        Largest relative gap between the primal and the dual objective.
    max_iter : int, default=1000
        Limit on passes over the rows; -1 for none but a safeguard.
    start : ndarray of shape (n,), default=None
        Coefficients to start from; zero by default.
    start_bias : float, default=0.0
        Bias to start from.
    rng : numpy.random.Generator, default=None
        Source of the random orders.
    progress : callable, default=None
        Called with a :class:`~oblong._progress.Progress` after each pass; the violation is that
        of the optimality conditions.
    stage : str, default="descent"
        Name of this problem in the reports.

    Returns
    -------
    LinearResult
        The solution, with a certificate that does not depend on the method.
    """
    limit = _MOST_PASSES if max_iter < 0 else max_iter
    method = _Descent(problem, start, start_bias, rng or np.random.default_rng(0))
    best: LinearResult | None = None
    passes, next_check, promise = 0, min(4, limit), np.inf
    while True:
        # The estimate comes with the pass; the certificate costs two more.
        if passes >= next_check or method.gap <= promise:
            result = method.result(passes)
            if best is None or result.relative_gap < best.relative_gap:
                best = result
            if best.relative_gap <= tol:
                return replace(best, n_iter=passes, status="converged")
            if passes >= limit:
                status = "max_iter" if limit == max_iter else "stalled"
                return replace(best, n_iter=passes, status=status)
            next_check = min(limit, max(passes + 4, int(_CHECK * passes)))
            promise = min(_PROMISE * tol * best.objective, 0.5 * method.gap)
        method.sweep()
        passes += 1
        if progress is not None:
            progress(Progress(stage, passes, method.violation, tol))


class _Descent:
    """State of the search: coefficients, their weights, and the two multipliers."""

    def __init__(
        self,
        problem: LinearProblem,
        start: np.ndarray | None,
        start_bias: float,
        rng: np.random.Generator,
    ) -> None:
        rows = problem.rows
        self.problem = problem
        self.rng = rng
        self.data, self.indices, self.indptr = rows.compressed()
        self.norms = rows.squared_norms()
        if not float(self.norms.max()) < 1e150:
            raise ValueError("the squared norms of the rows are not finite: scale the data")
        # With a bias, rows may be centred: not the rows themselves, but their products.
        self.mean = np.zeros(rows.d)
        if problem.intercept:
            self.mean = rows.combination(np.full(rows.n, 1.0 / rows.n))
        self.along = rows.products(self.mean)
        self.square = float(self.mean @ self.mean)
        self.norms = np.maximum(self.norms - 2.0 * self.along + self.square, 0.0)
        mean = float(self.norms.mean())
        strength = _STRENGTH * mean if mean > 0.0 else 1.0
        self.R = strength if problem.intercept else 0.0
        self.rho = strength if problem.D is not None else 0.0
        # A row of zeros that nothing else holds back takes a step as long as it likes.
        self.norms = np.maximum(self.norms, 1e-12 * strength)
        if not problem.bounded:
            self.U = np.zeros(rows.n)
        else:
            self.U = np.full(rows.n, np.inf) if problem.U is None else problem.U
        self.c = np.zeros(rows.n) if start is None else np.array(start)
        self.w = rows.combination(self.c)
        # Bias multiplier, Σc, bound multiplier, Σe, w·m.
        t = 1.0 if problem.D is not None else problem.B
        excess = float(problem.excess(self.c).sum()) if problem.D is not None else 0.0
        drift = float(self.w @ self.mean)
        self.state = np.array([start_bias + drift, self.c.sum(), t, excess, drift])
        self.D = 0.0 if problem.D is None else float(problem.D)
        self.order = np.arange(rows.n)
        self.active = rows.n
        self.violation = self.gap = np.inf
        self.aim = np.inf
        self.shrink = np.inf
        self.sweeps = 0

    def sweep(self) -> None:
        """Visit the active rows once; move the multipliers when they are done."""
        problem = self.problem
        front = self.order[: self.active]
        self.rng.shuffle(front)
        whole = self.active == problem.rows.n
        self.active, self.violation, self.gap = descend(
            self.data,
            self.indices,
            self.indptr,
            front,
            problem.y,
            problem.C,
            self.U,
            self.norms,
            self.along,
            self.c,
            self.w,
            self.state,
            self.square,
            self.R,
            self.rho,
            self.D,
            self.shrink,
        )
        # Rows well inside their intervals stay out until the others are done.
        self.shrink = max(self.violation, 1e-12)
        if np.isinf(self.aim):
            self.aim = _INNER * self.violation
        if self.violation <= self.aim:
            if whole:
                # There is no use in solving an inner problem better than it tells the next one.
                self.aim = max(_INNER * self.violation, _INNER * self._move(), 1e-13)
            self.active = problem.rows.n
            self.shrink = np.inf
        self.sweeps += 1
        if self.sweeps % _REFRESH == 0:
            self._refresh()
        if self.sweeps % _JOINT_EVERY == 0:
            self._joint_step()

    def _refresh(self) -> None:
        """Take the round-off out of what is kept up to date."""
        self.w = self.problem.rows.combination(self.c)
        self.state[1], self.state[4] = self.c.sum(), self.w @ self.mean
        if self.rho > 0.0:
            self.state[3] = self.problem.excess(self.c).sum()

    def _bound(self, excess: float) -> float:
        """Slope of the dual in the excess."""
        t = float(self.state[2])
        return max(1.0, t + self.rho * (excess - self.D)) if self.rho > 0.0 else t

    def _inner_dual(self, rows: np.ndarray, c: np.ndarray, w: np.ndarray, total: float) -> float:
        """Value of the inner problem as far as it depends on the coefficients of some rows.

        With ``D`` the excess of all other rows has to be known: they have what ``state`` says
        beyond that of these rows.
        """
        y, C = self.problem.y[rows], self.problem.C[rows]
        a = y * c
        alpha = np.clip(a, 0.0, C)
        excess = float(np.abs(a - alpha).sum())
        w = w - total * self.mean
        value = alpha.sum() - 0.5 * (w @ w) - self.state[0] * total - 0.5 * self.R * total**2
        if self.rho > 0.0:
            everything = float(self.state[3]) - self._own_excess(rows) + excess
            reach = self._bound(everything) - 1.0
            return float(value - excess - 0.5 * reach**2 / self.rho)
        return float(value - self.state[2] * excess if excess else value)

    def _outputs(self, arrays: tuple, w: np.ndarray, total: float, out: np.ndarray) -> None:
        """Products of centred rows with the centred combination ``w`` of sum ``total``."""
        w = w - total * self.mean
        row_products(*arrays, w, out)
        out -= w @ self.mean

    def _own_excess(self, rows: np.ndarray) -> float:
        a = self.problem.y[rows] * self.c[rows]
        return float(np.abs(a - np.clip(a, 0.0, self.problem.C[rows])).sum())

    def _joint_step(self) -> None:
        """Move all free coefficients at once, up to the kinks on their way."""
        problem, state = self.problem, self.state
        a = problem.y * self.c
        beyond = (a > problem.C) & (a < problem.C + self.U)
        below = (a < 0.0) & (a > -self.U)
        rows = np.flatnonzero(beyond | below | ((a > 0.0) & (a < problem.C)))
        # The longer it takes, the more effort a joint step is worth.
        effort = int((1 + self.sweeps / _JOINT_PATIENCE) * problem.rows.n / max(1, rows.size))
        if rows.size < 2 or effort < _JOINT_STEPS[0]:
            return
        y, C, U, a = problem.y[rows], problem.C[rows], self.U[rows], a[rows]
        below, beyond = below[rows], beyond[rows]
        low = y * np.where(below, -U, np.where(beyond, C, 0.0))
        high = y * np.where(below, 0.0, np.where(beyond, C + U, C))
        low, high = np.minimum(low, high), np.maximum(low, high)
        outward = y * (beyond.astype(float) - below)
        slope = y.copy()
        outside = beyond | below
        slope[outside] = -self._bound(float(state[3])) * outward[outside]
        output = np.empty(rows.size)
        arrays = (self.data, self.indices, self.indptr, rows)
        self._outputs(arrays, self.w, float(state[1]), output)
        residual = slope - output - state[0] - self.R * state[1]
        direction = self._ascent_direction(arrays, residual, outward, effort)
        c = self.c[rows]
        best = (self._inner_dual(rows, c, self.w, float(state[1])), c, self.w)
        trials = []
        if problem.D is None and problem.bounded:
            trials.append(self._line_maximum(arrays, direction, float(residual @ direction)))
        for halvings in range(8):
            # Snapping to the ends of its piece keeps a coefficient recognisable as not free.
            trials.append(np.clip(c + 0.5**halvings * direction, low, high))
            for new in trials:
                w = self.w.copy()
                add_rows(*arrays, new - c, w)
                value = self._inner_dual(rows, new, w, float(state[1] + (new - c).sum()))
                if value > best[0]:
                    best = (value, new, w)
            if best[1] is not c:
                break
            trials = []
        _, new, w = best
        before = self._own_excess(rows)
        state[1] += (new - c).sum()
        self.c[rows], self.w, state[4] = new, w, w @ self.mean
        state[3] += self._own_excess(rows) - before

    def _line_maximum(self, arrays: tuple, direction: np.ndarray, rise: float) -> np.ndarray:
        """Maximise the dual along a direction, over all kinks on the way.

        Coefficients under a hard bound have no ends to stop at. ``rise`` is the derivative.
        """
        problem, rows = self.problem, arrays[-1]
        y, C, T = problem.y[rows], problem.C[rows], float(self.state[2])
        change = np.zeros_like(self.w)
        add_rows(*arrays, direction, change)
        total = float(direction.sum())
        change -= total * self.mean
        curvature = float(change @ change) + self.R * total**2
        if not (rise > 0.0 and curvature > 0.0):
            return self.c[rows]
        a, speed = y * self.c[rows], y * direction
        with np.errstate(divide="ignore", invalid="ignore"):
            where = np.concatenate([-a / speed, (C - a) / speed])
        drops = np.concatenate([(T - 1.0) * np.abs(speed), (T + 1.0) * np.abs(speed)])
        ahead = np.flatnonzero(where > 0.0)
        ahead = ahead[np.argsort(where[ahead])]
        where, drops = where[ahead], np.cumsum(drops[ahead])
        step, landed = rise / curvature, -1
        past = rise - curvature * where - drops <= 0.0
        if past.any():
            first = int(np.argmax(past))
            before = drops[first - 1] if first else 0.0
            step = (rise - before) / curvature
            if step >= where[first]:
                step, landed = where[first], int(ahead[first])
        else:
            step = (rise - (drops[-1] if drops.size else 0.0)) / curvature
        new = self.c[rows] + step * direction
        if landed >= 0:
            place = landed % rows.size
            new[place] = 0.0 if landed < rows.size else y[place] * C[place]
        return new

    def _ascent_direction(
        self, arrays: tuple, residual: np.ndarray, outward: np.ndarray, effort: int
    ) -> np.ndarray:
        """Conjugate gradients on the curvature of the free coefficients."""
        rows = arrays[-1]
        scale = 1.0 / (self.norms[rows] + self.R + self.rho * outward**2)
        direction = np.zeros(rows.size)
        image = np.empty(rows.size)
        descent = scale * residual
        conjugate = descent.copy()
        size = first = float(residual @ descent)
        for _ in range(min(effort, _JOINT_STEPS[1], rows.size)):
            w = np.zeros_like(self.w)
            add_rows(*arrays, conjugate, w)
            total = float(conjugate.sum())
            self._outputs(arrays, w, total, image)
            image += self.R * total + self.rho * (outward @ conjugate) * outward
            curvature = float(conjugate @ image)
            if not curvature > 0.0:
                break
            step = size / curvature
            direction += step * conjugate
            residual = residual - step * image
            descent = scale * residual
            size, before = float(residual @ descent), size
            if size <= 1e-6 * first:
                break
            conjugate = descent + (size / before) * conjugate
        return direction

    def _move(self) -> float:
        """Make the bias and the bound of the inner problem the multipliers of the next.

        Returns the larger change of the two.
        """
        state = self.state
        moved = abs(self.R * state[1])
        state[0] += self.R * state[1]
        if self.rho > 0.0:
            bound = self._bound(float(state[3]))
            moved = max(moved, abs(bound - state[2]))
            state[2] = bound
        return float(moved)

    def result(self, n_iter: int) -> LinearResult:
        """Certify the point."""
        t = self._bound(float(self.state[3])) if self.rho > 0.0 else self.problem.B
        return certified(self.problem, None, self.c, t, n_iter)
