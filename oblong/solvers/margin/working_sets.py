"""The margin problem of a kernel matrix that is not held whole: one working set after another.

Each round takes the worst violators and all coefficients inside a piece, solves their problem with
the others held fixed (:mod:`oblong.solvers.margin.block`), and adds the change to the image
``u = Kc``. A row that stays where it is costs no more than its share of the block.

Strategies follow each other where nothing else helps: pair steps in single precision, the same in
double precision, an interior point method on all rows. What even that leaves unsolved is stalled.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from oblong._core.progress import Progress, ProgressCallback
from oblong.linalg.expansion import Expansion
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.linalg.products import mirror
from oblong.solvers.margin.block import (
    NoMaximum,
    balance,
    check_definite,
    interval,
    solve_block,
)
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.problem import Pieces
from oblong.solvers.margin.result import MarginResult, certify, expand
from oblong.solvers.margin.sample import sample_start

_NO_LIMIT = np.iinfo(np.int64).max
# The share of the violation to which a working set is solved.
_ACCURACY = 0.05
# How much larger than its block the memory of blocks is made.
_GROWTH = 1.5
# Room in a working set, as a multiple of the coefficients inside a piece.
_ROOM = 2.0
# The same where rows of the matrix are kept: one that turns out to be of no use costs more there.
_ROOM_KEPT = 1.25


class Strategy(IntEnum):
    """What is done to the working sets; a later one where an earlier one gets nowhere."""

    SINGLE = 0
    DOUBLE = 1
    INTERIOR = 2
    STALLED = 3


class _Wishes(NamedTuple):
    """How good a solution has to be; see :func:`oblong.solvers.margin.solver.solve_margin`."""

    tol: float
    polish: bool = True
    rough: bool = False
    proof: bool = True


def solve_large(
    matrix: KernelMatrix,
    pieces: Pieces,
    *,
    tol: float = 1e-3,
    max_iter: int = -1,
    start: np.ndarray | None = None,
    start_image: np.ndarray | None = None,
    counts: tuple[int, int, int] = (0, 0, 0),
    polish: bool = True,
    rough: bool = False,
    proof: bool = True,
    progress: ProgressCallback | None = None,
    stage: str = "margin",
    options: MarginOptions = DEFAULTS,
) -> MarginResult:
    """Maximise ``Σ g_i(c_i) - ½ c'Kc`` over ``Σc = 0`` by working sets.

    Parameters and result are those of :func:`oblong.solvers.margin.solver.solve_margin`; ``counts``
    are pair steps, Newton steps and rounds that the start has cost.
    """
    matrix = matrix.latest
    limit = _NO_LIMIT if max_iter < 0 else max_iter
    if start is None and matrix.n > options.sample_above:
        start, start_image, spent = sample_start(
            solve_large,
            matrix,
            pieces,
            options,
            tol=options.sample_tol * tol,
            max_iter=max_iter,
            progress=progress,
        )
        counts = (counts[0] + spent, *counts[1:])
    wishes = _Wishes(tol, polish, rough, proof)
    ascent = _Ascent(matrix, pieces, wishes, start, start_image, counts, options)
    while True:
        m, M = ascent.interval
        if m - M <= ascent.target:
            result = ascent.settled(m, M)
            if result is not None:
                return result
            m, M = ascent.interval
        if ascent.steps >= limit:
            return ascent.result("max_iter")
        if ascent.strategy is Strategy.STALLED:
            return ascent.result("stalled")
        try:
            ascent.improve(ascent.choose(m, M), m - M, limit - ascent.steps)
            check_definite(pieces, ascent.c, ascent.u, tol)
        except NoMaximum:
            ascent.doubt_matrix()
        ascent.watch()
        if progress is not None:
            progress(Progress(stage, ascent.steps, ascent.violation, tol))


class _Ascent:
    """Coefficients, their image and the slopes there, and the strategy that improves them."""

    def __init__(
        self,
        matrix: KernelMatrix,
        pieces: Pieces,
        wishes: _Wishes,
        start: np.ndarray | None,
        start_image: np.ndarray | None,
        counts: tuple[int, int, int],
        options: MarginOptions,
    ) -> None:
        n = matrix.n
        self.matrix, self.pieces, self.wishes, self.options = matrix, pieces, wishes, options
        self.steps, self.newton_steps, self.rounds = counts
        self.c = np.zeros(n) if start is None else np.array(start, dtype=np.float64)
        self.u = np.zeros(n)
        self.right, self.left = pieces.slopes_at(self.c)
        if start_image is not None:
            self.u += start_image
        elif start is not None:
            support = np.flatnonzero(self.c)
            matrix.add(self.u, support, self.c[support])
        # Violation to reach, and how often it was lowered for the sake of the gap.
        self.target, self.tightened = wishes.tol, 0
        self._forget()
        # The largest rounding of the outputs that was seen in single precision.
        self.last_error = self.seen = 0.0
        self.follow(Strategy.DOUBLE if matrix.exact else Strategy.SINGLE)

    @property
    def interval(self) -> tuple[float, float]:
        """Largest of ``right - u`` and least of ``left - u``."""
        return interval(self.right, self.left, self.u)

    @property
    def violation(self) -> float:
        """How far the optimality conditions are from being met."""
        m, M = self.interval
        return m - M

    def follow(self, strategy: Strategy) -> None:
        """Go over to another strategy."""
        if strategy is Strategy.INTERIOR and not self.fits(self.matrix.n):
            strategy = Strategy.STALLED
        if strategy is Strategy.DOUBLE and not self.matrix.exact:
            self.matrix = self.matrix.promoted()
            self._forget()
            support = np.flatnonzero(self.c)
            every = np.arange(self.matrix.n)
            self.u = self.matrix.image64(every, support, self.c[support])
        self.strategy = strategy
        # Pair steps when the strategy began, and those on blocks that they have left unsolved
        # since; looks at the outputs in double precision; and progress.
        self.began, self.crawled, self.looks = self.steps, 0, 0
        self.best = (np.inf, np.inf)
        self.idle_rounds, self.idle_work = 0, 0.0

    def _forget(self) -> None:
        # The block of the last working set, and its rows.
        self.memory = np.empty((0, 0), dtype=self.matrix.dtype)
        self.held = np.empty(0, dtype=np.intp)

    def advance(self) -> None:
        """Go over to the next strategy."""
        self.follow(Strategy(self.strategy + 1))

    def fits(self, size: int) -> bool:
        """Whether an interior point method can take so many rows."""
        return size <= min(self.options.interior_point_rows, self.matrix.capacity)

    def choose(self, m: float, M: float) -> np.ndarray:
        """Choose the working set: all coefficients inside a piece, and the worst violators."""
        n = self.matrix.n
        free = self.right == self.left
        inside = int(np.count_nonzero(free))
        # A block may take as much memory as the values that are kept.
        most = max(self.options.large_working_set, int(np.sqrt(self.matrix.capacity * n)))
        least = n if n <= self.options.one_block else self.options.working_set
        room = _ROOM_KEPT if self.matrix.keeps else _ROOM
        size = max(least, min(int(room * inside) + 2, most))
        if size >= n or self.strategy is Strategy.INTERIOR:
            return np.arange(n)
        share = max(size // 8, (size - inside) // 2)
        taken = np.zeros(n, dtype=np.bool_)
        taken[_largest(self.right - self.u, M, share)] = True
        taken[_largest(self.u - self.left, -m, share)] = True
        room = size - int(np.count_nonzero(taken))
        taken[np.flatnonzero(free & ~taken)[:room]] = True
        return np.flatnonzero(taken)

    def improve(self, rows: np.ndarray, violation: float, budget: int) -> None:
        """Solve the problem of a working set and carry the change to everything else."""
        size, options = rows.size, self.options
        whole = size == self.matrix.n
        rows, block = self.block(rows)
        crawl = options.crawl(size)
        inside = self.strategy is Strategy.INTERIOR or (self.crawled >= crawl and self.fits(size))
        tol = self.target if whole else max(0.5 * self.target, _ACCURACY * violation)
        c = self.c[rows]
        outcome = solve_block(
            block,
            self.pieces.take(rows),
            c,
            self.u[rows],
            tol=tol,
            final_tol=self.target,
            budget=min(budget, crawl),
            interior=inside,
            options=options,
        )
        solved = outcome.violation <= tol
        self.crawled = 0 if solved or inside else self.crawled + outcome.steps
        if whole:
            self.u[rows] = outcome.u
        else:
            change = c - self.c[rows]
            moved = change != 0.0
            free = outcome.right == outcome.left
            self.matrix.add(self.u, rows[moved], change[moved], free[moved])
        self.c[rows], self.right[rows], self.left[rows] = c, outcome.right, outcome.left
        self.steps += outcome.steps
        self.newton_steps += outcome.newton_steps
        self.rounds += 1
        # An interior point method takes some twenty factors, and each Newton step one.
        work = outcome.steps / crawl + inside + outcome.newton_steps / 20
        self.idle_work += work * size * crawl / (self.matrix.n * options.crawl(self.matrix.n))
        if inside and whole and not solved:
            # What an interior point method leaves unsolved, pair steps do not solve either.
            self.advance()

    def block(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of a working set in another order, and their values in columns that come first.

        Those that were in the one before stay in their places.
        """
        size, n = rows.size, self.matrix.n
        whole = self.matrix.whole() if size == n else None
        if whole is not None:
            return rows, whole
        if size > len(self.memory):
            room = min(n, int(_GROWTH * size))
            self.memory, self.held = np.empty((room, room), dtype=self.matrix.dtype), rows[:0]
        place = np.full(n, n)
        place[self.held] = np.arange(self.held.size)
        at = place[rows]
        stays = at < size
        if not self.matrix.keeps and 2 * np.count_nonzero(stays) < size:
            # To compute a few more values takes less time than to copy them.
            stays[:] = False
        new = np.ones(size, dtype=np.bool_)
        new[at[stays]] = False
        ordered = np.empty(size, dtype=np.intp)
        ordered[at[stays]], ordered[new] = rows[stays], rows[~stays]
        self.held = ordered
        wide = self.memory[:size]
        values = wide[:, :size]
        if new.all():
            self.matrix.block(rows, rows, wide)
        else:
            values[new] = self.matrix.block(ordered[new], ordered)
            mirror(wide, new)
        return ordered, wide

    def watch(self) -> None:
        """Go over to the next strategy where this one takes too long or nothing moves any more."""
        n, options = self.matrix.n, self.options
        steps = self.steps - self.began
        m, M = self.interval
        f = self.u + 0.5 * (m + M)
        # Coefficients that grow beyond all numbers are noticed elsewhere.
        with np.errstate(over="ignore", invalid="ignore"):
            scale = min(1.0, self.pieces.bound_scale(f))
            losses = float(self.pieces.loss(scale * f).sum())
            primal = 0.5 * scale**2 * float(self.c @ self.u) + losses
            # That of an indefinite matrix may be negative, and a tenth less than itself.
            gap = max(primal - self.pieces.dual(self.c, self.u), 0.0)
        if m - M < 0.9 * self.best[0] or gap < 0.9 * self.best[1]:
            self.best = (min(m - M, self.best[0]), min(gap, self.best[1]))
            self.idle_rounds, self.idle_work = 0, 0.0
        else:
            self.idle_rounds += 1
        idle = self.idle_rounds >= options.patience or self.idle_work >= options.idle_work
        most = options.crawl(n) if self.fits(n) else np.inf
        if self.strategy is Strategy.SINGLE:
            most = min(most, options.single_steps * n)
        if self.strategy is not Strategy.STALLED and (idle or steps > most):
            self.advance()

    def doubt_matrix(self) -> None:
        """Deal with a matrix that looks indefinite: rounding, unless the kernel is to blame."""
        if self.strategy is Strategy.SINGLE:
            self.advance()
        elif self.matrix.definite:
            with np.errstate(over="ignore", invalid="ignore"):
                if not np.isfinite(self.c @ self.u):
                    # No coefficients are better than some beyond all numbers.
                    self.c[...] = self.u[...] = 0.0
                    self.right, self.left = self.pieces.slopes_at(self.c)
            self.follow(Strategy.STALLED)
        elif not self.pieces.bounded:
            raise ValueError("the kernel matrix has values that are not finite: scale the data")
        else:
            raise ValueError(
                "the kernel matrix is not positive semidefinite, so the bounded problem has no "
                "solution: use another kernel, or no bound"
            )

    def settled(self, m: float, M: float) -> MarginResult | None:
        """The result, if outputs in double precision confirm the violation and the gap is small."""
        tol, polish, rough, proof = self.wishes
        promise = self.options.promise(tol)
        balance(self.c, self.right, self.left)
        single = not self.matrix.exact
        if rough:
            return self.result("converged")
        if single:
            if polish and self.tightened < self.options.tightenings:
                # Too large a gap shows in single precision already.
                gap = self.result("converged", rough=True).relative_gap
                if gap > 1.2 * promise:
                    self.tighten(gap, promise)
                    return None
            if not self.looks_harmless(m, M):
                return None
            if not proof:
                return self.result("converged", rough=True)
        result = self.result("converged")
        # Rounding in the outputs allows for no smaller violation.
        if result.violation > tol * (1.0 + 1e-6) + 4.0 * self.last_error:
            self.u = result.image.copy()
            self.look_again()
            return None
        if not polish or result.relative_gap <= promise:
            return result
        if self.tightened >= self.options.tightenings or result.rounding > 0.5 * result.gap:
            if not single:
                return self.result("stalled")
            self.advance()
        self.u = result.image.copy()
        self.tighten(result.relative_gap, promise)
        return None

    def tighten(self, gap: float, promise: float) -> None:
        """Ask for a smaller violation; the gap falls about as it does."""
        most = 0.1 if self.tightened else 0.5
        self.target *= min(most, max(1e-3, 0.5 * promise / max(gap, promise)))
        self.tightened += 1
        looks = self.looks
        self.follow(min(self.strategy, Strategy.DOUBLE))
        self.looks = looks

    def look_again(self) -> None:
        """Count looks at outputs in double precision; too many mean that more is needed."""
        self.looks += 1
        if self.looks > self.options.refreshes and self.strategy is not Strategy.STALLED:
            self.follow(Strategy.DOUBLE if self.strategy is Strategy.SINGLE else Strategy.STALLED)

    def looks_harmless(self, m: float, M: float) -> bool:
        """Free ``u`` of the rounding of single precision where it matters.

        A row farther inside its interval than the rounding of its image cannot become a violator,
        so only the rows near the ends of theirs are worth a product in double precision; and if
        some of these show that the rounding is harmless, not even they. Returns whether the
        violation is known to meet the target.
        """
        options, support = self.options, np.flatnonzero(self.c)
        coef = self.c[support]
        rounding = self.matrix.rounding(support, coef)
        near = (self.right - self.u > M - rounding) | (self.left - self.u < m + rounding)
        rows = np.flatnonzero(near)
        some = rows[:: max(1, rows.size // options.rounding_sample)]
        if self.wishes.proof and self.looks == 0:
            # The certificate asks for these, too, and a second look is rare.
            some = support
        fresh = self.matrix.image64(some, support, coef)
        self.seen = max(self.seen, float(np.abs(fresh - self.u[some]).max(initial=0.0)))
        error = options.beyond_sample * self.seen
        self.u[some] = fresh
        if 2.0 * error <= 0.5 * self.target:
            # To be surer of the image is cheaper than to compute another one.
            self.target = min(self.target, max(self.wishes.tol - 2.0 * error, 0.5 * self.target))
        else:
            rest = np.setdiff1d(rows, some, assume_unique=True)
            self.u[rest] = self.matrix.image64(rest, support, coef)
        self.look_again()
        return self.violation <= self.target

    def result(self, status: str, rough: bool = False) -> MarginResult:
        """Certify the coefficients as they are; ``rough`` takes the image as it is, no proof."""
        if status != "converged":
            balance(self.c, self.right, self.left)
        if rough or self.wishes.rough:
            zero, norm = np.zeros(len(self.u)), float(self.c @ self.u)
            expansion = Expansion(self.u, zero, norm, 0.0)
        else:
            m, M = self.interval
            bias = 0.5 * (m + M)
            expansion = expand(
                self.matrix, self.pieces, self.c, self.u, bias, self.options, self.seen
            )
        self.last_error = float(expansion.error.max(initial=0.0))
        return certify(
            self.pieces,
            self.c.copy(),
            expansion,
            interval(self.right, self.left, expansion.image),
            (self.steps, self.newton_steps, self.rounds),
            status,
            self.options.promise(self.wishes.tol),
        )


def _largest(values: np.ndarray, above: float, count: int) -> np.ndarray:
    """Find the indices of the largest ``count`` values among those above a threshold."""
    candidates = np.flatnonzero(values > above)
    if candidates.size <= count:
        return candidates
    order = np.argpartition(values[candidates], candidates.size - count)
    return candidates[order[candidates.size - count :]]
