"""Rounds of passes and descents over many linear problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong._core.progress import Progress, ProgressCallback
from oblong._core.threads import run_chunks
from oblong._native import linear
from oblong.solvers.linear.batch_problem import BatchOptions, LinearBatch

_INTERCEPTS = {"none": 0, "penalised": 1, "free": 2}


@dataclass(frozen=True)
class State:
    """What is known of a problem after a pass or a descent; see ``Problem`` in C++."""

    primal: float
    dual: float
    regulariser: float
    largest: float
    near: float
    pressing: float
    bias: float
    epochs: int
    work: float


@dataclass
class Search:
    """Rounds of passes and descents."""

    batch: LinearBatch
    tol: float
    max_iter: int
    threads: int
    seed: int
    progress: ProgressCallback | None
    options: BatchOptions
    single: bool
    passes: int = 0
    status: dict[int, str] = field(default_factory=dict)
    bounds: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.native, single = _native_batch(self.batch, self.single)
        # Outputs of a pass in single precision are off by this, relative to the largest.
        self.pass_error = 1e-6 if single else 1e-13
        self.most_work = _most_work(self.batch.X, self.options)
        self.paired = [negative is not None for _, negative in self.batch.problems]
        self.totals = self.batch.total_penalties()

    def state(self, k: int) -> State:
        """Objectives and counts of a problem."""
        return State(*self.native.state(k))

    def why(self, k: int) -> str:
        """Why a problem is not solved."""
        status = self.status.get(k, "stalled")
        return "stalled" if status == "converged" else status

    def each(self, task: Callable[[int], object], items: Sequence[int]) -> None:
        """Call a task for all items, by all threads."""

        def some(start: int, stop: int) -> None:
            for item in items[start:stop]:
                task(item)

        run_chunks(some, len(items), 1, self.threads)

    def start(self) -> None:
        """First multipliers and candidates of all problems."""
        seeds = self.seed * 1_000_003
        work = self.options.call
        everything = range(len(self.paired))
        self.each(
            lambda k: self.native.start(k, self.epochs_left(k), seeds + 2 * k, work), everything
        )
        single = [k for k in everything if not self.paired[k]]
        if not single:
            return
        self.run_pass(single)
        # The pass was that of the weights of a sample.
        self.each(self.native.renew, single)
        self.each(lambda k: self.descend(k, self.target(self.state(k)), 0), single)

    def run_pass(self, problems: Sequence[int], certifies: bool = False) -> None:
        """Objectives and candidates."""
        self.passes += 1
        pairs = [k for k in problems if self.paired[k]]
        self.each(lambda k: self.native.visit_pair(k, certifies), pairs)
        single = [k for k in problems if not self.paired[k]]
        size = len(single)
        if sp.issparse(self.batch.X):
            size = max(32, self.options.group // (8 * max(1, self.batch.X.shape[1])))
        for first in range(0, len(single), max(1, size)):
            group = np.array(single[first : first + size], dtype=np.int32)
            chunks = self.native.prepare(group, certifies)
            self.each(self.native.run_rows, range(chunks))
            self.native.finish()

    def target(self, state: State) -> float:
        """Estimated gap at which the descent of a machine without a bound may stop."""
        o, gap = self.options, state.primal - state.dual
        return max(o.target * self.tol * state.primal, o.target_of_gap * gap)

    def descend(self, k: int, target: float, turn: int) -> None:
        """Descend to a target, within the limit of epochs."""
        left = self.epochs_left(k)
        seed = (self.seed + 1) * 1_000_003 + 7919 * self.passes + 104_729 * turn + k
        if left > 0:
            self.native.descend(k, target, left, self.options.call, seed)

    def epochs_left(self, k: int) -> int:
        """How many epochs of a problem the limit leaves."""
        limit = self.max_iter if self.max_iter >= 0 else np.iinfo(np.int64).max
        return int(limit - self.state(k).epochs)

    def solve(self, problems: Sequence[int], stage: str, tol: float) -> None:
        """Rounds of passes and descents until every problem is solved or given up."""
        best = dict.fromkeys(problems, np.inf)
        waited = dict.fromkeys(problems, 0)
        targets: dict[int, float] = {}
        active = list(problems)
        while active:
            self.run_pass(active)
            worst = 0.0
            for k in list(active):
                state = self.state(k)
                primal = self.feasible_primal(k, state)
                gap = (primal - state.dual) / max(primal, np.finfo(float).tiny)
                worst = max(worst, gap)
                if gap <= self.options.safety * tol:
                    active.remove(k)
                    self.status[k] = "converged"
                    continue
                waited[k] = 0 if gap < 0.99 * best[k] else waited[k] + 1
                best[k] = min(best[k], gap)
                if 0 <= self.max_iter <= state.epochs:
                    self.status[k] = "max_iter"
                elif (
                    waited[k] > self.options.patience
                    or state.work > self.most_work
                    or not np.isfinite(gap)
                ):
                    self.status[k] = "stalled"
                else:
                    targets[k] = self.next_target(k, state, primal, tol, targets.get(k))
                    continue
                active.remove(k)
            if self.progress is not None:
                self.progress(Progress(stage, self.passes, worst, tol))
            self.each(lambda k: self.descend(k, targets[k], 1), active)

    def next_target(
        self, k: int, state: State, primal: float, tol: float, last: float | None
    ) -> float:
        """Estimated gap for the next descent; sets the bound that it takes."""
        o, gap = self.options, primal - state.dual
        if k not in self.bounds:
            return max(o.target * tol * state.primal, o.target_of_gap * gap)
        B = self.bounds[k]
        tighter = o.tighter_first
        if state.pressing > 0.0:
            tighter = o.tighter * tol * state.primal / (B * state.pressing)
        self.native.bound(k, B, B * (1.0 - min(tighter, o.tightest)), False)
        follow = o.bounded_first * state.primal if last is None else o.bounded_next * last
        return max(o.bounded_target * tol * state.primal, min(o.target_of_gap * gap, follow))

    def feasible_primal(self, k: int, state: State) -> float:
        """Objective, or a bound on that of the model scaled into its bound."""
        B = self.bounds.get(k, np.inf)
        if state.largest <= B:
            return state.primal
        t = B / state.largest
        # Only rows near the margin lose by a scale that is not far from one.
        losing = state.near if t >= 1.0 / 1.05 else self.totals[k]
        loss = state.primal - state.regulariser
        return t * t * state.regulariser + loss + (1.0 - t) * losing

    def bound(self, problems: Sequence[int], bounds: np.ndarray) -> None:
        """Set the bounds; the multipliers of the machines without them are the start."""
        for k in problems:
            B = self.bounds[k] = float(bounds[k])
            self.native.bound(k, B, B * (1.0 - self.options.tighter_first), True)
            self.native.renew(k)

    def certify(self, problems: Sequence[int], tol: float, finer: float = 1.0) -> None:
        """Objectives of the weights as they are stored, in double precision."""
        self.scale_into_bounds(problems, self.pass_error)
        outside = list(problems)
        for _ in range(4):
            self.run_pass(outside, certifies=True)
            outside = self.scale_into_bounds(outside, 1e-15)
            if not outside:
                break
        failed = [
            k
            for k in problems
            if self.status.get(k) == "converged"
            and not self.state(k).primal - self.state(k).dual <= tol * self.state(k).primal
        ]
        if failed and finer > 0.1:
            # Single precision has hidden something, or the scaling into a bound has a price.
            finer *= 0.3
            for k in failed:
                self.native.renew(k)
            self.solve(failed, "certificate", finer * tol)
            self.certify(failed, tol, finer)

    def scale_into_bounds(self, problems: Sequence[int], error: float) -> list[int]:
        """Scale models whose outputs may pass their bound; return their problems."""
        outside = []
        for k in problems:
            B, largest = self.bounds.get(k, np.inf), self.state(k).largest
            if largest * (1.0 + error) > B * (1.0 + 1e-13):
                self.native.shrink(k, B / largest / (1.0 + error))
                outside.append(k)
        return outside


def _native_batch(batch: LinearBatch, single: bool) -> tuple[Any, bool]:
    """The batch in C++, and whether it has rows in single precision."""
    X = batch.X
    single = single and X.dtype == np.float32 and _within_single(batch)
    if not single:
        X = X.astype(np.float64, copy=False)
    negatives = [-1 if negative is None else negative for _, negative in batch.problems]
    pairs = np.array([[positive for positive, _ in batch.problems], negatives], dtype=np.int32).T
    factors = np.ones(len(pairs)) if batch.factors is None else batch.factors
    data = (
        np.ascontiguousarray(batch.labels, dtype=np.int32),
        np.ascontiguousarray(batch.C, dtype=np.float64),
        np.ascontiguousarray(pairs),
        np.ascontiguousarray(factors, dtype=np.float64),
        batch.squared,
        _INTERCEPTS[batch.intercept],
        float(batch.scale) ** 2,
    )
    if sp.issparse(X):
        if not X.has_canonical_format:
            # Entries of one place twice have another squared length than their sum.
            X = X.copy()
            X.sum_duplicates()
        indices = (part.astype(np.int32, copy=False) for part in (X.indices, X.indptr))
        make: Any = linear.SparseBatch32 if single else linear.SparseBatch64
        return make(X.data, *indices, X.shape[1], *data), single
    make = linear.DenseBatch32 if single else linear.DenseBatch64
    return make(np.ascontiguousarray(X), *data), single


def _most_work(X: Any, options: BatchOptions) -> float:
    """Numbers that the descent of a problem may read."""
    n, d = X.shape
    if sp.issparse(X):
        return max(options.dense_least, options.sparse_work * X.nnz)
    return max(options.dense_least, options.dense_work * n * d * min(n, d))


def _within_single(batch: LinearBatch) -> bool:
    """Whether squares of the rows and steps of the descent are numbers of single precision."""
    values = batch.X.data if sp.issparse(batch.X) else batch.X
    if not values.size:
        return False
    largest = max(abs(float(values.max())), abs(float(values.min())))
    return 1e-12 < largest < 1e12 and 1e-12 < batch.C.min() <= batch.C.max() < 1e12
