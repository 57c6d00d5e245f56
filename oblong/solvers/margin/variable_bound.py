"""The relative margin machine that chooses its own bound.

Shivaswamy and Jebara, "Maximum Relative Margin and Data-Dependent Regularization", Journal
of Machine Learning Research 11 (2010), equations (14) and (15): the bound ``t`` is a variable
that costs ``D`` per unit, and a sample may break it for a penalty ``U_i``, infinite in (14), ::

    min_{w,b,t>=1}  ½|w|² + Σ C_i [1 - y_i f_i]_+ + D t + Σ U_i [|f_i| - t]_+ .

At a fixed ``t`` this is a margin problem. The derivative of its value with respect to ``t`` is
``D - h(t)``, where ``h = Σ e_i`` sums the excess ``e_i`` of the coefficients beyond the box of
the support vector machine. As ``h`` does not increase, the best ``t`` is one if ``h(1) <= D``,
and otherwise the root of ``h(t) = D``. Where ``h`` jumps over ``D``, a convex combination of
the solutions on either side is optimal. The dual problem is ::

    max_c  Σ α_i - Σ e_i + D - ½ c'Kc   subject to  Σ c_i = 0,  e_i <= U_i,  Σ e_i <= D

with ``α_i = clip(y_i c_i, 0, C_i)`` and ``e_i = |y_i c_i - α_i|``.

The search asks for solutions of fixed bounds and for outputs in double precision, and does not know
where they are computed: :func:`solve_variable_bound` answers.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from oblong._core.progress import ProgressCallback
from oblong.linalg.expansion import Expansion
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.bound_and_bias import BoundAndBias, best_bound_and_bias
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.problem import Pieces, relaxed_margin_pieces, svm_pieces
from oblong.solvers.margin.relative import RelativeMarginResult
from oblong.solvers.margin.result import expand
from oblong.solvers.margin.solver import MarginResult, solve_margin


class BoundModel(NamedTuple):
    """The data of the problem."""

    y: np.ndarray
    C: np.ndarray
    U: np.ndarray
    D: float

    @classmethod
    def of(
        cls, y: np.ndarray, C: np.ndarray, D: float, nu: float | None, weights: np.ndarray | None
    ) -> BoundModel:
        """Compute the penalties ``U``; the arguments are those of :func:`solve_variable_bound`."""
        share = np.ones(len(y)) if weights is None else weights
        U = np.full(len(y), np.inf) if nu is None else D * nu * share / share.sum()
        return cls(y, C, U, float(D))

    def pieces(self, t: float) -> Pieces:
        """Terms of the problem of a bound; the support vector machine's if it is infinite."""
        if np.isinf(t):
            return svm_pieces(self.y, self.C)
        return relaxed_margin_pieces(self.y, self.C, t, self.U)

    def excess(self, c: np.ndarray) -> float:
        """Sum of what the coefficients have beyond the box of the support vector machine."""
        a = self.y * c
        return float(np.abs(a - np.clip(a, 0.0, self.C)).sum())


@dataclass(frozen=True)
class _Point:
    """The solution for one bound: its total excess, and the derivative of that by the bound."""

    t: float
    margin: MarginResult
    h: float
    slope: float

    def root(self, D: float) -> float:
        """Where the linear model of ``h`` says that ``h = D``; NaN if it does not say."""
        return self.t + (D - self.h) / self.slope if self.slope < 0.0 else np.nan


class Solve(NamedTuple):
    """A question of the search: the solution for one bound, infinite for none.

    The answer is a :class:`MarginResult`, and the derivative of the excess by the bound.
    """

    t: float
    tol: float
    max_iter: int
    start: MarginResult | None


class Expand(NamedTuple):
    """A question of the search: what coefficients are on the rows; an :class:`Expansion`."""

    t: float
    coef: np.ndarray
    image: np.ndarray
    bias: float


# What asks, is sent answers, and returns.
Questions = Generator[Solve | Expand, Any, Any]


class _Settled(NamedTuple):
    """A dual point, the primal point that it makes, and their objectives."""

    coef: np.ndarray
    image: np.ndarray
    linear: BoundAndBias
    violation: float
    objective: float
    dual_objective: float

    @property
    def gap(self) -> float:
        return self.objective - self.dual_objective


def solve_variable_bound(
    columns: KernelMatrix,
    y: np.ndarray,
    C: np.ndarray,
    *,
    D: float,
    nu: float | None = None,
    weights: np.ndarray | None = None,
    tol: float = 1e-3,
    max_iter: int = -1,
    progress: ProgressCallback | None = None,
    options: MarginOptions = DEFAULTS,
) -> RelativeMarginResult:
    """Solve the relative margin problem with a bound that costs ``D`` a unit.

    Parameters
    ----------
    columns : KernelMatrix
        The kernel matrix.
    y : ndarray of shape (n,)
        Labels, -1 or +1.
    C : ndarray of shape (n,)
        Penalty of each sample.
    D : float
        Price of the bound, at least zero. Zero makes the support vector machine.
    nu : float, default=None
        Larger than zero: samples may break the bound for the penalty ``U_i = D nu s_i / Σs``. None
        makes the bound hard.
    weights : ndarray of shape (n,), default=None
        The weights ``s`` of the samples in ``U``; ones by default.
    tol : float, default=1e-3
        Largest violation of the optimality conditions, on the scale of the outputs.
    max_iter : int, default=-1
        Limit on pair steps in all; -1 for none.
    progress : callable, default=None
        Called with the state of the search.
    options : MarginOptions
        Tuning constants.

    Returns
    -------
    RelativeMarginResult
        The solution. ``B`` is the bound ``t``, and the objectives contain the term ``D t``.
    """
    model = BoundModel.of(y, C, D, nu, weights)
    search = search_bound(model, tol, max_iter, options)
    answer: Any = None
    try:
        while True:
            asked = search.send(answer)
            pieces = model.pieces(asked.t)
            if isinstance(asked, Expand):
                answer = expand(columns.latest, pieces, asked.coef, asked.image, asked.bias)
                continue
            near = asked.start
            start = (None, None) if near is None else (near.dual_coef, near.image)
            stage = "svm" if np.isinf(asked.t) else f"relative margin, bound {asked.t:.6g}"
            margin = solve_margin(
                columns, pieces, tol=asked.tol, max_iter=asked.max_iter, start=start[0],
                start_image=start[1], progress=progress, stage=stage, options=options,
            )  # fmt: skip
            largest = options.bound_free if asked.t < np.inf else 0
            answer = margin, _excess_slope(columns.latest, pieces, margin.dual_coef, largest)
    except StopIteration as end:
        return end.value


def search_bound(
    model: BoundModel, tol: float, max_iter: int, options: MarginOptions = DEFAULTS
) -> Questions:
    """Search for the bound, with a smaller tolerance where one proves too little.

    The arguments and what it returns are those of :func:`solve_variable_bound`.
    """
    spent = 0
    first: MarginResult | None = None
    promise = options.promise(tol)
    for last in (False,) * (options.bound_searches - 1) + (True,):
        left = max_iter if max_iter < 0 else max(0, max_iter - spent)
        search = _Search(model, tol, left, first, options)
        result = yield from search.run()
        margin, first = result.margin, search.first
        spent += result.n_iter
        if margin.status != "converged" or margin.relative_gap <= promise:
            break
        if last or margin.rounding > 0.5 * margin.gap:
            result = replace(result, margin=replace(margin, status="stalled"))
            break
        # The tolerance was met and proves too little: ask for more.
        tol *= 0.1
    return replace(result, n_iter=spent)


class _Search:
    """Search for the bound, with the nearest solution so far as the start of the next."""

    def __init__(
        self, model: BoundModel, tol: float, max_iter: int, first: MarginResult | None,
        options: MarginOptions,
    ) -> None:  # fmt: skip
        self.model, self.tol, self.max_iter, self.options = model, tol, max_iter, options
        # The first solution, which starts that of a search with a smaller tolerance.
        self.first = first
        # Solutions that bracket the bound: h > D at ``low``, h <= D at ``high``, which the support
        # vector machine sets before any other bound is tried.
        self.low: _Point | None = None
        self.high: _Point
        self.theta = np.nan
        self.n_iter = self.n_newton = self.n_rounds = 0

    def run(self) -> Questions:
        """Solve the problem; return a :class:`RelativeMarginResult`."""
        D = self.model.D
        if D > 0.0 and self.model.U.sum() <= D * (1.0 + 1e-12):
            # All the excess there can be does not pay for a larger bound.
            point = yield from self._solve(1.0, self.tol, self.first)
            self.first = point.margin
            return (yield from self._result(self._settle(point), point.margin.status))
        svm = self.first = (yield from self._solve(np.inf, self.tol, self.first)).margin
        self.theta = float(np.abs(svm.outputs).max())
        if D == 0.0:
            t = max(1.0, self.theta)
            return RelativeMarginResult(svm, t, self.theta, self.n_iter)
        # An output of one is larger than one by rounding at times.
        if self.theta <= 1.0 + 1e-12 and svm.status == "converged":
            settled = self._settle(_Point(1.0, svm, 0.0, 0.0))
            return (yield from self._result(settled, svm.status))
        point = self.high = _Point(self.theta, svm, 0.0, 0.0)
        status = "max_iter" if svm.status == "max_iter" else ""
        widths: list[float] = []
        while not status:
            t = self._propose(point, widths)
            known = [near for near in (point, self.low, self.high) if near is not None]
            start = min(known, key=lambda near: abs(near.t - t)).margin
            point = yield from self._solve(t, self.options.bound_accuracy * self.tol, start)
            if point.h > D:
                self.low = point
            else:
                self.high = point
            if point.margin.status == "max_iter":
                status = "max_iter"
            elif self._closed(point) or point.margin.status == "stalled":
                ends = (self.high, self.low or self.high)
                violation = max(end.margin.violation for end in ends)
                status = "converged" if violation <= self.tol else "stalled"
            elif len(widths) == self.options.bound_solves:
                status = "stalled"
        return (yield from self._result(self._best(), status))

    def _solve(self, t: float, tol: float, start: MarginResult | None) -> Questions:
        """Solve the problem of one bound within what is left of the steps; return the point."""
        left = self.max_iter if self.max_iter < 0 else max(0, self.max_iter - self.n_iter)
        margin, slope = yield Solve(t, tol, left, start)
        self.n_iter += margin.n_iter
        self.n_newton += margin.n_newton
        self.n_rounds += margin.n_rounds
        return _Point(t, margin, self.model.excess(margin.dual_coef), slope)

    def _width(self) -> float:
        options = self.options
        return max(options.bound_width * self.tol, options.bound_least_width) * self.high.t

    def _propose(self, point: _Point, widths: list[float]) -> float:
        """Choose the next bound: Newton's, the kink between the ends, or the middle."""
        lowest = 1.0 if self.low is None else self.low.t
        highest = self.high.t
        widths.append(highest - lowest)
        t = point.root(self.model.D)
        if abs(t - point.t) <= self._width():
            # The root is next to here: step over it, to have it between two solutions.
            t += np.copysign(0.8 * self._width(), t - point.t)
        slow = len(widths) > 2 and widths[-1] > 0.5 * widths[-3]
        if slow or not lowest < t < highest:
            t = self._kink()
        if (len(widths) > 5 and widths[-1] > 0.5 * widths[-6]) or not lowest < t < highest:
            t = float(np.sqrt(lowest * highest))
        if self.low is not None:
            return t
        at_one = point.h - point.slope * (point.t - 1.0)
        options = self.options
        doubtful = options.bound_doubt * at_one > self.model.D
        tries = options.bound_doubtful_tries if doubtful else options.bound_tries
        return 1.0 if t - 1.0 < 0.1 * (highest - 1.0) or len(widths) > tries else t

    def _kink(self) -> float:
        """Where the tangents of the value at the two ends meet, just to one side of it.

        If ``h`` jumps over ``D`` and changes little elsewhere, the jump is there, and two
        proposals, one on either side, end the search.
        """
        low, high, width = self.low, self.high, self._width()
        if low is None:
            return np.nan
        fall = low.margin.dual_objective - high.margin.dual_objective
        t = low.t + (fall - high.h * (high.t - low.t)) / (low.h - high.h)
        if t - low.t <= width:
            return low.t + 0.8 * width
        if high.t - t <= width:
            return high.t - 0.8 * width
        return t - 0.4 * width

    def _closed(self, point: _Point) -> bool:
        """Whether the bound is known, and what there is for it good enough."""
        D, high, low = self.model.D, self.high, self.low
        width = high.t - 1.0 if low is None else high.t - low.t
        options = self.options
        rounded = abs(point.h - D) <= options.bound_rounding * D
        if width <= options.bound_least_width * high.t or rounded:
            return True
        if not min(width, abs(point.root(D) - point.t)) <= self._width():
            return False
        best = self._best()
        return best.gap <= max(
            options.bound_gap * self.tol * best.objective, 2.0 * point.margin.gap
        )

    def _best(self) -> _Settled:
        """Take the best of the two ends of the bracket and of what lies between them."""
        candidates = [self._settle(self.high)]
        if self.low is not None:
            share = (self.model.D - self.high.h) / (self.low.h - self.high.h)
            candidates += [self._settle(self.low), self._settle(self.high, self.low, share)]
        return min(candidates, key=lambda settled: settled.gap)

    def _settle(self, point: _Point, other: _Point | None = None, share: float = 0.0) -> _Settled:
        """Make a feasible dual point of one solution or two, with the best bound and bias."""
        model = self.model
        c, u = point.margin.dual_coef, point.margin.image
        violation = point.margin.violation
        if other is not None:
            # Coefficients that agree must stay on their breakpoints to the last digit.
            end = other.margin.dual_coef
            c = np.where(c == end, c, c + share * (end - c))
            u = u + share * (other.margin.image - u)
            violation = max(violation, other.margin.violation)
        excess = model.excess(c)
        if excess > model.D:
            # The excess is convex in c and zero at zero, so that the scaled point is feasible.
            c, u = c * (model.D / excess), u * (model.D / excess)
        linear = best_bound_and_bias(u, model.y, model.C, model.U, model.D)
        a = model.y * c
        alpha = np.clip(a, 0.0, model.C)
        norm = 0.5 * float(c @ u)
        dual = float((alpha - np.abs(a - alpha)).sum()) + model.D - norm
        return _Settled(c, u, linear, violation, linear.value + norm, dual)

    def _result(self, best: _Settled, status: str) -> Questions:
        """Certify the best point with its outputs in double precision."""
        certified = yield from self._certified(best.coef, best.image, best, status)
        zero = np.zeros(len(best.coef))
        if certified.margin.status != "converged":
            # Coefficients that drown in rounding may be worse than none.
            other = yield from self._certified(zero, zero, best, status)
            if not certified.margin.gap <= other.margin.gap:
                return other
        return certified

    def _certified(
        self, c: np.ndarray, image: np.ndarray, best: _Settled, status: str
    ) -> Questions:
        model = self.model
        expansion: Expansion = yield Expand(best.linear.bound, c, image, best.linear.bias)
        linear = best_bound_and_bias(expansion.image, model.y, model.C, model.U, model.D)
        f, error, t = expansion.image + linear.bias, expansion.error, linear.bound
        hinge = float(model.C @ np.maximum(1.0 - model.y * f + error, 0.0))
        if np.isinf(model.U[0]):
            beyond = model.D * max(1.0, float((np.abs(f) + error).max()))
        else:
            beyond = model.D * t + float(model.U @ np.maximum(np.abs(f) + error - t, 0.0))
        unbalanced = abs(math.fsum(c)) * 2.0 * max(1.0, abs(linear.bias))
        alpha = np.clip(model.y * c, 0.0, model.C)
        objective = linear.value + 0.5 * expansion.norm
        dual = float((alpha - np.abs(model.y * c - alpha)).sum()) + model.D - 0.5 * expansion.norm
        hidden = 0.5 * expansion.norm_error + unbalanced
        if not dual - hidden >= model.D:
            # Zero coefficients are a dual point too.
            dual, hidden = model.D, 0.0
        margin = MarginResult(
            coef=c, bias=linear.bias, outputs=f, dual_coef=c, image=expansion.image, scale=1.0,
            bias_interval=linear.bias_interval,
            objective=objective,
            dual_objective=dual,
            rounding=max(hinge + beyond - linear.value, 0.0) + 0.5 * expansion.norm_error + hidden,
            violation=best.violation, n_iter=self.n_iter, n_newton=self.n_newton,
            n_rounds=self.n_rounds, status=status, direction=expansion.direction,
        )  # fmt: skip
        return RelativeMarginResult(margin, linear.bound, self.theta, self.n_iter)


def _excess_slope(columns: KernelMatrix, pieces: Pieces, c: np.ndarray, largest: int) -> float:
    """Derivative of the total excess by the bound; zero where more are free than ``largest``.

    On the coefficients strictly inside a piece the optimality conditions ``Kc + b = σ`` can be
    differentiated: ``K_FF dc + db 1 = dσ`` and ``1'dc = 0``, where ``dσ`` is one on pieces of
    slope ``t``, minus one on pieces of slope ``-t`` and zero on those of the hinge. The excess
    then changes by ``-dσ'dc``.
    """
    right, left = pieces.slopes_at(c)
    free = np.flatnonzero(right == left)
    p = pieces.breakpoints[free]
    direction = np.where(c[free] < p[:, 1], 1.0, np.where(c[free] > p[:, 2], -1.0, 0.0))
    if not direction.any() or free.size > min(largest, columns.capacity):
        return 0.0
    block = columns.block(free, free).astype(np.float64)
    mean = float(block.diagonal().mean())
    block.flat[:: free.size + 1] += mean * (1e-10 if columns.dtype == np.float64 else 1e-6)
    try:
        factor = cho_factor(block, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return 0.0
    both = cho_solve(factor, np.column_stack([direction, np.ones(free.size)]), check_finite=False)
    change = both[:, 0] - both[:, 0].sum() / both[:, 1].sum() * both[:, 1]
    slope = -float(direction @ change)
    return slope if np.isfinite(slope) else 0.0
