"""The band method: linear margin problems by a few passes over the rows, with a certificate.

A sample of the rows gives a first model, and how far it is from the solution. In a pass, rows whose
output is near a kink of their loss, as seen from there, are gathered. All other rows are replaced
by the weighted means of their groups, in which they have one linear piece of the loss. Why this is
exact:

* By Jensen's inequality the objective of the small problem is nowhere above that of all rows,
  however they are grouped: its dual value is a lower bound. The next pass gives the upper bound.
  The difference of the two is the certificate.
* If the next pass finds every row of every group on one piece, the objectives are equal there, and
  the solution of the small problem is that of the large one: it is closed.
* Rows that were judged wrongly leave their groups, which only raises the lower bound.

While memory does not allow for the rows near a kink, only a fraction of all rows takes part, which
makes a better model and narrower bands for the next pass.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong._core.progress import Progress, ProgressCallback
from oblong.linalg.first_pass import FirstLook, Metric, Moments, look, row_bytes
from oblong.linalg.row_passes import ArrayRows, LocalPasses, Part, Passes, together
from oblong.solvers.linear.options import DEFAULTS, LinearOptions
from oblong.solvers.linear.passes.bands import (
    SCALES,
    BandQuestion,
    Point,
    answer_bands,
    near,
    places_among,
)
from oblong.solvers.linear.passes.problem import PassProblem, PassResult
from oblong.solvers.linear.passes.working_set import STATE_BYTES, WorkingSet
from oblong.solvers.linear.problem import LinearResult
from oblong.solvers.linear.relative import solve_linear_relative_margin

# Relative error of a sum of products, whose errors have random signs.
_UNIT = 4.0 * float(np.finfo(float).eps)


def _wanted(n: int, options: LinearOptions = DEFAULTS) -> int:
    """Rows that the method likes to keep: they grow like the square root of all."""
    return max(options.band_least, int(options.band_rows * np.sqrt(n)))


def first_look(
    passes: Passes,
    *,
    extremes: bool,
    hold: bool = True,
    options: LinearOptions = DEFAULTS,
) -> FirstLook:
    """Run the first pass; with `hold`, all rows are kept if memory allows for them."""
    lengths = passes.source.lengths
    assert lengths is not None
    n, fits = sum(lengths), False
    if hold and n:
        size = passes.run(row_bytes, only=int(np.argmax(np.array(lengths) > 0))).rows
        fits = n * (size + STATE_BYTES) <= passes.source.memory
    wanted = _wanted(n, options)
    tau = 1.0 if fits or wanted >= n else wanted / n
    return look(passes, tau, extremes=extremes, widest=options.band_columns)


def solve_passes(
    passes: Passes,
    problems: Sequence[PassProblem],
    seen: FirstLook,
    *,
    tol: float = 1e-4,
    max_passes: int = -1,
    threads: int = 1,
    progress: ProgressCallback | None = None,
    options: LinearOptions = DEFAULTS,
) -> list[PassResult]:
    """Solve binary problems of one source, as many at a time as memory allows for.

    Parameters
    ----------
    passes : Passes
        Who reads the rows.
    problems : sequence of PassProblem
        The problems; those that are solved at a time share their passes.
    seen : FirstLook
        What :func:`first_look` found.
    tol : float, default=1e-4
        Largest relative gap.
    max_passes : int, default=-1
        Limit on passes of a problem; -1 for none but a safeguard.
    threads : int, default=1
        Threads of the small problems.
    progress : callable, default=None
        Called after each pass.
    options : LinearOptions
        Tuning constants.

    Returns
    -------
    list of PassResult
        The solutions.
    """
    limit = options.band_passes
    limit = limit if max_passes < 0 else min(limit, max_passes)
    n = max(sum(seen.moments[code].count for code in problem.codes) for problem in problems)
    each = _wanted(n, options) * (8 * (passes.source.n_features + 1) + STATE_BYTES)
    at_once = int(np.clip(passes.source.memory / each, 1, len(problems)))
    memory = passes.source.memory / at_once
    found: list[PassResult] = []
    for start in range(0, len(problems), at_once):
        methods = [
            _Method(problem, seen, passes, tol, limit, threads, memory, progress, options).run()
            for problem in problems[start : start + at_once]
        ]
        try:
            found += together(passes, methods, answer_bands, seen.labels)
        finally:
            for method in methods:
                method.close()
    return found


def solve_in_bands(
    X: Any,
    y: np.ndarray,
    weight: np.ndarray,
    problem: PassProblem,
    *,
    threads: int = 1,
    options: LinearOptions = DEFAULTS,
    **how: Any,
) -> PassResult:
    """Solve one problem of rows in memory; other arguments are for :func:`solve_passes`."""
    passes = LocalPasses(ArrayRows(X, y, None if (weight == 1.0).all() else weight), threads)
    bounded = problem.B is not None or problem.D is not None or problem.spread < 1.0
    seen = first_look(passes, extremes=bounded, hold=False, options=options)
    return solve_passes(passes, [problem], seen, threads=threads, options=options, **how)[0]


@dataclass
class _Sample:
    """Rows of the first pass that belong to a problem, in random order, extremes at the end."""

    X: Any
    y: np.ndarray
    weight: np.ndarray
    C: np.ndarray
    ends: int

    @classmethod
    def of(cls, seen: FirstLook, problem: PassProblem, bounded: bool) -> _Sample:
        penalties, positive = np.array(problem.C), problem.codes[-1]

        def part(X: Any, codes: np.ndarray, weight: np.ndarray) -> tuple[Any, ...]:
            place = places_among(codes, problem.codes, len(seen.labels))
            mine = np.flatnonzero(place >= 0)
            X = X[mine]
            X = X if sp.issparse(X) else np.asarray(X, dtype=np.float64)
            X = X if problem.frame is None else problem.frame.of(X)
            y = np.where(codes[mine] == positive, 1.0, -1.0)
            return X, y, weight[mine], weight[mine] * penalties[place[mine]]

        drawn = part(seen.X, seen.codes, seen.weight)
        if not bounded or seen.whole or sp.issparse(seen.X):
            X, y, weight, C = drawn
            return cls(X, y, weight, C, 0)
        *ends, numbers = seen.extremes
        kept = ~np.isin(numbers, seen.numbers)
        outer = part(*(values[kept] for values in ends))
        X, y, weight, C = (np.concatenate(pair) for pair in zip(drawn, outer))
        return cls(X, y, weight, C, len(outer[1]))

    def first(self, count: int) -> np.ndarray:
        """The first of the random rows, and the extremes."""
        return np.concatenate([np.arange(count), len(self.y) - self.ends + np.arange(self.ends)])


@dataclass
class _Method:
    """The method for one problem, as a generator of questions."""

    problem: PassProblem
    seen: FirstLook
    passes: Passes
    tol: float
    limit: int
    threads: int
    memory: float
    progress: ProgressCallback | None
    options: LinearOptions
    # The bound that is solved for, or its price, and that of what lies beyond it.
    B: float = np.inf
    D: float | None = None
    U: float | None = None
    most: int = 0

    def __post_init__(self) -> None:
        problem, seen = self.problem, self.seen
        self.moments: Moments = seen.of(problem.codes).mapped(problem.frame)
        self.metric = Metric(self.moments)
        self.first = self.passes.n_passes - 1
        # What rounding may hide in the losses of all rows, per unit of |w_j| and of the bias.
        each = [seen.moments[code] for code in problem.codes]
        self.sizes = sum(C * m.weight * m.absolute for C, m in zip(problem.C, each))
        self.total = sum(C * m.weight for C, m in zip(problem.C, each))

    def run(self) -> Generator[BandQuestion, Part, PassResult]:
        """Choose the bound, and solve."""
        problem = self.problem
        if problem.D is not None and problem.D > 0.0:
            U = None
            if problem.nu is not None:
                U = problem.D * problem.nu / self.moments.weight
                # No excess can reach such a penalty, as all of them together are at most D.
                U = None if U >= problem.D else U
            return (yield from self._solve("relative margin", D=problem.D, U=U))
        if problem.B is not None and problem.D is None:
            return (yield from self._solve("relative margin", float(problem.B)))
        svm = yield from self._solve("svm")
        theta = svm.largest
        B = max(1.0, theta if problem.D is not None else 1.0 + problem.spread * (theta - 1.0))
        if theta <= B:
            return replace(svm, t=B, theta=theta)
        found = yield from self._solve("relative margin", B)
        return replace(found, theta=theta)

    def _counts(self) -> np.ndarray:
        """Numbers of negative and positive rows."""
        *negative, positive = (self.seen.moments[code].count for code in self.problem.codes)
        return np.array([sum(negative), positive])

    def _small(
        self, tol: float, X: Any, y: np.ndarray, C: np.ndarray, U: np.ndarray
    ) -> LinearResult:
        """Solve a problem in memory."""
        bound: dict[str, Any] = {"B": self.B} if np.isfinite(self.B) else {"spread": 1.0}
        if self.D is not None:
            bound = {"D": self.D, "U": None if self.U is None else U}
        run: dict[str, Any] = {"max_iter": -1, "threads": self.threads, "options": self.options}
        return solve_linear_relative_margin(
            X, y, C, intercept=self.problem.intercept, tol=tol, **bound, **run
        ).solution

    def _solve(
        self, stage: str, B: float = np.inf, D: float | None = None, U: float | None = None
    ) -> Generator[BandQuestion, Part, PassResult]:
        self.B, self.D, self.U = B, D, U
        problem, seen = self.problem, self.seen
        bounded = D is not None or np.isfinite(B)
        sample = _Sample.of(seen, problem, bounded)
        n, m = self.moments.count, len(sample.y) - sample.ends
        side = (sample.y > 0.0).astype(int)
        penalties, counts = sample.C, self._counts()

        def of_sample(count: int, tol: float) -> LinearResult:
            rows = sample.first(count)
            taken = np.bincount(side[:count], minlength=2)
            scale = np.where(rows < m, (counts / np.maximum(taken, 1))[side[rows]], 1.0)
            beyond = (U or 0.0) * sample.weight[rows] * scale
            X = sample.X if len(rows) == len(sample.y) else sample.X[rows]
            C = penalties[rows] * scale
            return self._small(tol, X, sample.y[rows], C, beyond)

        if m == n:
            return self._whole(of_sample(m, self.tol), n)
        w, b, t = np.zeros(self.metric.mean.size), 0.0, 1.0 if D is None else 2.0
        e = e_t = np.inf
        if len(np.unique(side[: m // 2])) == 2:
            start, half = (of_sample(k, self.options.band_sample_gap) for k in (m, m // 2))
            w, b, t = start.coef, start.bias, start.t
            e, e_t = self.metric.length(w - half.coef, b - half.bias), abs(t - half.t)
        with WorkingSet(self.memory) as kept:
            return (yield from self._levels(kept, sample, m, (w, b, t), (e, e_t), stage))

    def _levels(
        self,
        kept: WorkingSet,
        sample: _Sample,
        m: int,
        model: tuple[np.ndarray, float, float],
        errors: tuple[float, float],
        stage: str,
    ) -> Generator[BandQuestion, Part, PassResult]:
        problem, options, metric = self.problem, self.options, self.metric
        B, D, U = self.B, self.D, self.U
        counts = self._counts()
        n, hard = self.moments.count, U is None
        W = _wanted(n, options)
        drawn = slice(0, m)
        X, y = sample.X[drawn], sample.y[drawn]
        q = metric.factors(X)
        (w, b, t), (e, e_t) = model, errors
        points: tuple[Point, ...] = ()
        share, rows, slow = 0.0, float(m), 0
        best: PassResult | None = None
        bound = -np.inf
        inner = float(np.clip(options.band_inner * self.tol, 1e-11, 1e-6))
        delta = delta_t = 0.0
        while True:
            T = B if D is None else t
            if share < 1.0:
                delta, delta_t = options.band_safety * e, options.band_safety * e_t
            else:
                delta, delta_t = min(0.1 * e, 0.5 * delta), min(0.1 * e_t, 0.5 * delta_t)
            here = Point(w, b, T, delta, delta_t if D is not None else 0.0)
            if share < 1.0:
                inside = float(near(X @ w + b, y, q, here, hard).mean()) if m else 1.0
                before, share = share, W / (max(inside, 1.0 / n) * n)
                slow = slow + 1 if before and share <= 1.2 * before else 0
                if slow == 2:
                    # Levels that do not grow: the rows near the kinks need more memory.
                    W, slow, share = 2 * W, 0, 2.0 * share
                share = 1.0 if share > 0.5 or n <= 2 * W else share
                points = ()
                kept.clear()
            points = (*points, here)
            # A class of few rows takes part as a whole.
            low, high = np.minimum(1.0, np.maximum(share, 0.25 * W / counts)).tolist()
            held = D is None and bool(np.isfinite(B))
            answer = yield BandQuestion(
                problem.codes, problem.C, U, points, metric, (low, high), held, problem.frame
            )
            judged = self._value(answer, w, b, t, bound, len(kept))
            best = judged if best is None or judged.objective < best.objective else best
            best = replace(best, dual_objective=bound, n_passes=self.passes.n_passes - self.first)
            if self.progress is not None:
                self.progress(Progress(stage, best.n_passes, best.relative_gap, self.tol))
            wrong = answer.sums["wrong"]
            certain = share == 1.0 and len(points) > 1
            if certain and (best.relative_gap <= self.tol or not wrong):
                status = "converged" if best.relative_gap <= self.tol else "stalled"
                return replace(best, status=status, closed=not wrong, working_rows=self.most)
            if best.n_passes >= self.limit:
                return replace(best, status="max_iter", working_rows=self.most)
            kept.add(answer.rows)
            self.most = max(self.most, len(kept))
            means, columns = _means(answer)
            solve = partial(self._small, inner if share == 1.0 else 1e-6)
            found = kept.solved(solve, means, columns)
            if share == 1.0:
                bound = max(bound, found.dual_objective - found.rounding)
            move = metric.length(found.coef - w, found.bias - b)
            move_t = abs(found.t - t)
            w, b, t = found.coef, found.bias, found.t
            if share < 1.0:
                shrink = np.sqrt(max(rows, 1.0) / (share * n))
                e = max(move, 0.3 * e) * shrink if np.isfinite(e) else move
                e_t, rows = move_t * shrink, share * n
            else:
                e, e_t = move, move_t

    def _value(
        self, answer: Part, w: np.ndarray, b: float, t: float, bound: float, gathered: int
    ) -> PassResult:
        """Objective of a model for all rows, scaled into a hard bound if it exceeds it."""
        B, D = self.B, self.D
        largest, losses = float(answer.largest["output"]), answer.sums["loss"]
        scale, loss = 1.0, float(losses[0])
        if D is None and largest > B:
            # A chord of a convex function is an upper bound.
            scale = B / largest
            loss = float(np.interp(-scale, -SCALES, losses))
            w, b, largest = scale * w, scale * b, B
        value = 0.5 * float(w @ w) + loss
        if D is not None:
            t = max(1.0, largest) if self.U is None else t
            value += D * t + answer.sums["over"]
        else:
            t = B
        sizes = w if self.problem.frame is None else self.problem.frame.map @ w
        error = float(np.abs(sizes) @ self.sizes) + abs(b) * self.total
        if self.problem.frame is not None:
            error += abs(float(self.problem.frame.shift @ sizes)) * self.total
        hidden = _UNIT * (value + error)
        return PassResult(
            w, b, t, np.nan, largest, value, bound, hidden, 0, gathered, "max_iter", False
        )

    def _whole(self, found: LinearResult, n: int) -> PassResult:
        """The solution of a sample that is all rows."""
        if self.progress is not None:
            self.progress(Progress("rows in memory", 1, found.relative_gap, self.tol))
        names = ("coef", "bias", "t", "objective", "dual_objective", "rounding", "status")
        largest, n_passes = float(np.abs(found.outputs).max()), self.passes.n_passes
        same = {name: getattr(found, name) for name in names}
        return PassResult(
            **same, theta=np.nan, largest=largest, n_passes=n_passes, working_rows=n, closed=True
        )


def _means(answer: Part) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Means of the groups, with their labels and penalties."""
    groups = [(key[1], value) for key, value in answer.sums.items() if key[0] == "group"]
    groups.sort(key=lambda group: group[0])
    table = np.array([value for _, value in groups])
    if not len(table):
        width = next(rows[0].shape[1] for rows in answer.rows if rows is not None)
        return np.zeros((0, width)), (np.zeros(0), np.zeros(0), np.zeros(0))
    C, U = table[:, -2], table[:, -1]
    y = np.array([1.0 if code >= 6 else -1.0 for code, _ in groups])
    return table[:, :-2] / C[:, None], (y, C, U)
