"""The outer loop of the margin solver: working sets, precision, and when to stop."""

from __future__ import annotations

import numpy as np

from oblong.linalg.columns import Expansion, SymmetricColumns
from oblong.linalg.principal import PrincipalBlock
from oblong.solvers.margin.block import (
    DenseBlock,
    NoMaximum,
    balance,
    check_definite,
    interval,
    solve_block,
)
from oblong.solvers.margin.options import MarginOptions
from oblong.solvers.margin.problem import Pieces
from oblong.solvers.margin.result import MarginResult, certify, expand


class Ascent:
    """State of the outer loop: coefficients, their image, and the slopes there."""

    def __init__(
        self,
        columns: SymmetricColumns,
        pieces: Pieces,
        tol: float,
        start: np.ndarray | None,
        start_image: np.ndarray | None,
        working_set: int | None,
        polish: bool,
        rough: bool,
        proof: bool,
        options: MarginOptions,
    ) -> None:
        n = columns.n
        self.columns = columns
        self.pieces = pieces
        self.options = options
        self.tol = self.target = tol
        self.polish = polish
        self.rough = rough
        self.proof = proof
        self.c = np.zeros(n) if start is None else np.array(start, dtype=np.float64)
        self.u = np.zeros(n)
        self.right, self.left = pieces.slopes_at(self.c)
        if start_image is not None:
            self.u += start_image
        elif start is not None:
            support = np.flatnonzero(self.c)
            columns.add(self.u, support, self.c[support], (self.right == self.left)[support])
        if working_set is None:
            working_set = n if n <= options.one_block else options.working_set
            if columns.direct:
                working_set = options.direct_set
        self.smallest_set = max(2, working_set)
        cached = int(np.sqrt(columns.capacity * n))
        self.largest_set = max(self.smallest_set, options.large_working_set, cached)
        # The rows of the last working set.
        self.last: np.ndarray | None = None
        self._all_awake()
        self.progress_watch = _Watch(options)
        # Pair steps on blocks that they left unsolved; their number when an interior point method
        # last took over on all rows; and whether it did not solve the problem either.
        self.crawled = self.inside = 0
        self.exhausted = False
        if start is not None and (self.right == self.left).all():
            # The start is one that only an interior point method gave.
            self.inside = -options.crawl(n)
        self.refreshes = 0
        self.tightened = 0
        self.n_iter = self.n_newton = self.n_rounds = 0
        # In units of an interior point method on all rows.
        self.work = 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Largest of ``right - u`` and least of ``left - u``."""
        return interval(self.right, self.left, self.u)

    @property
    def violation(self) -> float:
        """How far the optimality conditions are from being met."""
        m, M = self.interval
        return m - M

    def round(self, limit: int) -> MarginResult | None:
        """Do one round; return the result if it was the last one."""
        m, M = self.interval
        if self.resting and m - M <= self.target:
            self._wake()
            m, M = self.interval
        if m - M <= self.target:
            result = self._converged(m, M)
            if result is not None:
                return result
            m, M = self.interval
        if self.n_iter >= limit:
            return self.result("max_iter")
        if self.exhausted or self.progress_watch.stalled:
            if self.columns.exact:
                return self.result("stalled")
            self._promote()
        elif not self.columns.exact and self.n_iter > self.options.single_steps * self.columns.n:
            self._promote()
        chosen = self._choose(m, M)
        if self.resting and np.setdiff1d(chosen, self.awake, assume_unique=True).size:
            self._wake()
            return None
        self._rest(m, M, chosen)
        try:
            self._improve(chosen, m - M, limit - self.n_iter)
            check_definite(self.pieces, self.c, self.u, self.tol)
        except NoMaximum:
            return self._without_maximum()
        self._watch()
        return None

    def _converged(self, m: float, M: float) -> MarginResult | None:
        """Return the result if fresh outputs confirm the violation and the gap is small enough."""
        promise = self.options.promise(self.tol)
        balance(self.c, self.right, self.left)
        if self.polish and not (self.rough or self.columns.exact):
            # Too large a gap shows in single precision already.
            gap = self.result("converged", rough=True).relative_gap
            if gap > 1.2 * promise and self.tightened < self.options.tightenings:
                self._tighten(gap, promise)
                return None
        if self.rough or self.columns.exact or self._rounding_is_harmless(m, M):
            if not (self.proof or self.columns.exact):
                return self.result("converged", rough=True)
            result = self.result("converged")
            # Rounding in the outputs allows for no smaller violation.
            slack = 1e-6 * self.tol + 4.0 * self.last_error
            if result.violation > self.tol + slack:
                self.u = result.image.copy()
                if self.refreshes > self.options.refreshes and self.columns.exact:
                    return self.result("stalled")
                self.refreshes += 1
                return None
            if self.rough or not self.polish or result.relative_gap <= promise:
                return result
            if self.tightened >= self.options.tightenings or result.rounding > 0.5 * result.gap:
                if self.columns.exact:
                    return self.result("stalled")
                self._promote()
            self._tighten(result.relative_gap, promise)
            self.u = result.image.copy()
        return None

    def _tighten(self, gap: float, promise: float) -> None:
        """Ask for a smaller violation; the gap falls about as it does."""
        most = 0.1 if self.tightened else 0.5
        self.target *= min(most, max(1e-3, 0.5 * promise / max(gap, promise)))
        self.tightened += 1
        self.progress_watch = _Watch(self.options)
        self.crawled, self.inside, self.exhausted = 0, self.n_iter, False

    def _choose(self, m: float, M: float) -> np.ndarray:
        """Choose the working set: the worst violators, then the last set, free ones first."""
        n = self.columns.n
        free = int(np.count_nonzero(self.right == self.left))
        direct = self.columns.direct
        room = 1.25 if direct else 1.1
        size = min(max(self.smallest_set, int(room * free) + 2), self.largest_set)
        if self._crawls(n):
            size = n
        size = min(size, n, n if direct else self.columns.capacity)
        if size == n:
            return np.arange(n)
        if direct:
            # All free ones, and as many violators as there is room for: those that stay where they
            # are cost next to nothing.
            last = np.flatnonzero(self.right == self.left)
            share = max(size // 8, (size - free) // 2)
        else:
            last = np.flatnonzero(self.c) if self.last is None else self.last
            # A column that turns out to be of no use costs more than another round.
            share = max(1, size // 8) if last.size else size // 2
        taken = np.zeros(n, dtype=bool)
        taken[_largest(self.right - self.u, M, share)] = True
        taken[_largest(self.u - self.left, -m, share)] = True
        room = size - int(np.count_nonzero(taken))
        if room > 0:
            rest = last[~taken[last]]
            is_free = self.right[rest] == self.left[rest]
            taken[np.concatenate([rest[is_free], rest[~is_free]])[:room]] = True
        return np.flatnonzero(taken)

    def _crawls(self, size: int) -> bool:
        """Whether pair steps have cost what an interior point method on so many rows would."""
        n, crawl = self.columns.n, self.options.crawl
        if size > min(self.options.interior_point_rows, self.columns.capacity):
            return False
        if size < n:
            return self.crawled >= crawl(size)
        # On most rows it costs about as much as on all, and does less.
        held = 0 if self.last is None else self.last.size
        most = 2 * held >= n and self.crawled >= crawl(held)
        return most or self.n_iter - self.inside >= crawl(n)

    def _improve(self, chosen: np.ndarray, violation: float, budget: int) -> None:
        """Solve the problem of the working set and carry the change to everything else."""
        new = chosen.size
        if self.last is not None:
            new -= np.intersect1d(chosen, self.last, assume_unique=True).size
        block = self._hold(chosen)
        chosen = block.rows
        whole = chosen.size == self.columns.n
        dense = DenseBlock(block.values, self.columns.inverse if whole else None, block.wide)
        if not dense.finite:
            raise NoMaximum
        accuracy = _accuracy(new / chosen.size)
        # All rows in order: slice, so that NumPy returns views.
        rows = slice(None) if block.wide is self.columns.store else chosen
        terms = self.pieces.take(rows)
        c = self.c[rows].copy()
        tol = self.target if whole else max(0.5 * self.target, accuracy * violation)
        interior = self._crawls(chosen.size)
        outcome = solve_block(
            dense,
            terms,
            c,
            self.u[rows],
            tol=tol,
            final_tol=self.target,
            budget=min(budget, self.options.crawl(chosen.size)),
            whole=whole,
            polish=self.polish,
            interior=interior,
            options=self.options,
        )
        self.crawled = self.crawled + outcome.steps if outcome.violation > tol else 0
        if interior:
            self.crawled = 0
        if interior and whole:
            # What the interior point method leaves unsolved, pair steps do not solve either.
            self.inside = self.n_iter + outcome.steps
            self.exhausted = outcome.violation > tol
        if whole:
            self.u[rows] = outcome.u
        else:
            change = c - self.c[rows]
            moved = change != 0
            free = outcome.right == outcome.left
            if self.resting:
                # The block has the values of its own rows.
                others = np.setdiff1d(self.awake, chosen, assume_unique=True)
                self.columns.add_to(self.u, others, chosen[moved], change[moved])
                self.u[rows] += dense.K @ change.astype(dense.K.dtype)
            else:
                self.columns.add(self.u, chosen[moved], change[moved], free[moved])
        self.c[rows] = c
        self.right[rows] = outcome.right
        self.left[rows] = outcome.left
        self.n_iter += outcome.steps
        self.n_newton += outcome.newton_steps
        self.n_rounds += 1
        # An interior point method takes some twenty factors, and each of its steps one.
        crawl = self.options.crawl
        cost = outcome.steps + (interior + outcome.newton_steps / 20) * crawl(chosen.size)
        self.work += cost * chosen.size / (self.columns.n * crawl(self.columns.n))
        self.last = chosen

    def _all_awake(self) -> None:
        # Rows whose image is that of earlier coefficients, with these; the others; and the least
        # violation at which rows were told apart.
        self.resting: list[tuple[np.ndarray, np.ndarray]] = []
        self.awake = np.arange(self.columns.n)
        self.least = np.inf

    def _rest(self, m: float, M: float, chosen: np.ndarray) -> None:
        """Let rows rest that are farther inside their intervals than ``far`` times the violation.

        None of them is likely to be chosen before the others are solved, and a coefficient that
        has moved several times by then costs them one product. Rows that are ``chosen`` now get
        their image from the block.
        """
        options = self.options
        if not self.columns.fleeting or m - M > 0.8 * self.least:
            return
        self.least = m - M
        u = self.u[self.awake]
        inside = np.minimum(M + u - self.right[self.awake], self.left[self.awake] - u - m)
        rests = inside > options.far * (m - M)
        rests &= ~np.isin(self.awake, chosen, assume_unique=True)
        if np.count_nonzero(rests) > options.rest_share * rests.size:
            self.resting.append((self.awake[rests], self.c.copy()))
            self.awake = self.awake[~rests]

    def _wake(self) -> None:
        """Bring the image of all rows up to date."""
        for rows, c in self.resting:
            change = self.c - c
            moved = np.flatnonzero(change)
            self.columns.add_to(self.u, rows, moved, change[moved])
        self._all_awake()

    def _hold(self, rows: np.ndarray) -> PrincipalBlock:
        """Have the block of some rows, in the memory of the problem before where there was one."""
        if self.columns.held is None:
            self.columns.held = PrincipalBlock()
        self.columns.held.hold(self.columns, rows)
        return self.columns.held

    def _watch(self) -> None:
        """Notice when nothing moves any more."""
        m, M = self.interval
        f = self.u + 0.5 * (m + M)
        # Coefficients that grow beyond all numbers are noticed elsewhere.
        with np.errstate(over="ignore", invalid="ignore"):
            dual = self.pieces.dual(self.c, self.u)
            scale = min(1.0, self.pieces.bound_scale(f))
            losses = float(self.pieces.loss(scale * f).sum())
            primal = 0.5 * scale**2 * float(self.c @ self.u) + losses
            self.progress_watch.see(m - M, primal - dual, self.work)

    def _without_maximum(self) -> MarginResult | None:
        """Deal with a matrix that looks indefinite: rounding, unless the kernel is to blame."""
        if not self.columns.exact:
            self._promote()
            return None
        if self.columns.definite:
            with np.errstate(over="ignore", invalid="ignore"):
                if not np.isfinite(self.c @ self.u):
                    # No coefficients are better than some beyond all numbers.
                    self.c[...] = self.u[...] = 0.0
                    self._all_awake()
                    self.right, self.left = self.pieces.slopes_at(self.c)
            return self.result("stalled")
        if not self.pieces.bounded:
            raise ValueError("the kernel matrix has values that are not finite: scale the data")
        raise ValueError(
            "the kernel matrix is not positive semidefinite, so the bounded problem has no "
            "solution: use another kernel, or no bound"
        )

    def _rounding_is_harmless(self, m: float, M: float) -> bool:
        """Free ``u`` of the rounding of single precision where it matters.

        A row farther inside its interval than the rounding of its image cannot become a
        violator, so only the rows near the ends of theirs are worth a product in double
        precision; and if some of these show that the rounding is harmless, not even they.
        Returns whether the violation is known to meet the target.
        """
        options = self.options
        self.refreshes += 1
        support = np.flatnonzero(self.c)
        coef = self.c[support]
        rounding = self.columns.rounding(support, coef)
        near = (self.right - self.u > M - rounding) | (self.left - self.u < m + rounding)
        rows = np.flatnonzero(near)
        if rows.size > options.rounding_sample:
            if self.proof and (support.size <= options.own_sample or self.refreshes == 1):
                # The certificate asks for these outputs, too, and a second look is rare.
                some, fresh = support, self.columns.own_image(support, coef)
            else:
                some = rows[:: rows.size // options.rounding_sample]
                fresh = self.columns.image(some, support, coef)
            error = options.beyond_sample * float(np.abs(fresh - self.u[some]).max())
            self.u[some] = fresh
            if 2.0 * error <= 0.5 * self.target:
                # To be surer of the cached image is cheaper than to compute another one.
                self.target = min(self.target, max(self.tol - 2.0 * error, 0.5 * self.target))
                return self.violation <= self.target
            rows = np.setdiff1d(rows, some, assume_unique=True)
        self.u[rows] = self.columns.image(rows, support, coef)
        if self.refreshes > options.refreshes:
            self._promote()
        return self.violation <= self.target

    def _promote(self) -> None:
        """Go on with columns in double precision."""
        self.columns = self.columns.promoted()
        self.last = None
        self._all_awake()
        self.refreshes = self.crawled = 0
        self.inside, self.exhausted = self.n_iter, False
        self.progress_watch = _Watch(self.options)
        support = np.flatnonzero(self.c)
        self.u = self.columns.image(np.arange(self.columns.n), support, self.c[support])

    def result(self, status: str, rough: bool = False) -> MarginResult:
        """Certify the coefficients as they are; ``rough`` takes the image as it is, no proof."""
        self._wake()
        if status != "converged":
            balance(self.c, self.right, self.left)
        expansion = self._expansion(rough or self.rough)
        self.last_error = float(expansion.error.max(initial=0.0))
        counts = (self.n_iter, self.n_newton, self.n_rounds)
        return certify(
            self.pieces,
            self.c.copy(),
            expansion,
            interval(self.right, self.left, expansion.image),
            counts,
            status,
            self.options.promise(self.tol),
        )

    def _expansion(self, rough: bool) -> Expansion:
        """Outputs in double precision, on all rows that may have a loss."""
        if rough:
            return Expansion(self.u, np.zeros(len(self.u)), float(self.c @ self.u), 0.0)
        m, M = self.interval
        return expand(self.columns, self.pieces, self.c, self.u, 0.5 * (m + M), self.options)


class _Watch:
    """Notices when neither the violation nor the gap falls by a tenth over much work."""

    def __init__(self, options: MarginOptions) -> None:
        self.options = options
        self.violation = self.gap = np.inf
        self.idle = 0
        self.since = np.inf
        self.stalled = False

    def see(self, violation: float, gap: float, work: float) -> None:
        """Note the state after a round, and the work done so far."""
        # That of an indefinite matrix may be negative, and a tenth less than itself.
        gap = max(gap, 0.0)
        if violation < 0.9 * self.violation or gap < 0.9 * self.gap:
            self.violation = min(self.violation, violation)
            self.gap = min(self.gap, gap)
            self.idle, self.since = 0, work
        else:
            self.idle += 1
        idle_work = work - self.since
        self.stalled = self.idle >= self.options.patience or idle_work >= self.options.idle_work


def _accuracy(fresh: float) -> float:
    """Tell to which fraction of the violation a block is worth solving.

    While fresh violators keep coming in, an accurate solution of the block is wasted; once
    the set has settled, it saves rounds.
    """
    return 0.1 * min(1.0, max(0.1, 10.0 * fresh))


def _largest(values: np.ndarray, above: float, count: int) -> np.ndarray:
    """Find the indices of the largest ``count`` values among those above a threshold."""
    candidates = np.flatnonzero(values > above)
    if candidates.size <= count:
        return candidates
    order = np.argpartition(values[candidates], candidates.size - count)
    return candidates[order[candidates.size - count :]]
