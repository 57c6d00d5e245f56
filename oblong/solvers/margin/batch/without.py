"""Many margin problems over one kernel matrix, each without some of its rows.

A row whose four breakpoints are zero has the coefficient zero, no loss and no bound: the problem
keeps its rows and its kernel matrix, and every formula of the solver and of the certificate holds.
All problems of a group start from its solution with all rows and share its kernel rows; those of
the support vectors are computed once for all groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from oblong._core.compile import compiled
from oblong._core.threads import run_chunks
from oblong.solvers.margin.batch.loops import (
    BIAS,
    CONVERGED,
    DUAL,
    OBJECTIVE,
    ROUNDING,
    SCALE,
    STATUS,
    STEPS,
    UNSOLVED,
    Groups,
    _appraise,
    _solve,
)  # fmt: skip
from oblong.solvers.margin.batch.problem import GramTiles, RowTiles
from oblong.solvers.margin.batch.tiles import (
    _LINEAR,
    TINY,
    GroupRows,
    _mapped,
    have_row,
    prepare,
)  # fmt: skip
from oblong.solvers.margin.block import balance, interval, snap_distance
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.pair_steps import _place, ascend
from oblong.solvers.margin.problem import Pieces

__all__ = ["UNCHANGED", "LeftOut", "WithoutResult", "shift_weight", "solve_all_without"]

_NO_LIMIT = np.iinfo(np.int64).max
_STRIP = 512
# Status of a problem whose rows left out have no coefficient: the solution with all rows is its.
UNCHANGED = -1
# A gap of more than so many tolerances is worth a more exact solution.
_LOOSE = 10.0
# Tolerance below which outputs of rows left out are wanted in double precision.
_TIGHT = 1e-3


@dataclass(frozen=True)
class LeftOut:
    """Problems over one kernel matrix, their solutions, and the rows to leave out.

    Attributes
    ----------
    matrix : RowTiles or GramTiles
        The kernel matrix of all rows.
    segments : int ndarray of shape (n_groups, n_segments, 2)
        Where the segments of each group begin and end; two of them are equal or disjoint.
    signs : ndarray of shape (n_groups, n_segments)
        The label of all rows of a segment, -1.0 or +1.0.
    pieces : Pieces
        Terms of the rows of all groups, group after group.
    coef : ndarray of shape (n_rows,)
        Solutions with all rows, inside the domains, in the same order.
    fold_of : int ndarray of shape (n,)
        The fold of each row of the matrix, from 0 on.
    keep : bool
        Whether the coefficients of all problems are wanted.
    tol : float
        Largest violation of the optimality conditions.
    max_iter : int
        Limit on the pair steps of each problem; -1 for none.
    """

    matrix: RowTiles | GramTiles
    segments: np.ndarray
    signs: np.ndarray
    pieces: Pieces
    coef: np.ndarray
    fold_of: np.ndarray
    keep: bool
    tol: float = 1e-2
    max_iter: int = -1

    @property
    def lengths(self) -> np.ndarray:
        """Number of rows of each segment, of shape (n_groups, n_segments)."""
        return self.segments[:, :, 1] - self.segments[:, :, 0]

    @property
    def rows(self) -> np.ndarray:
        """The rows of all groups by number, group after group."""
        every = self.lengths.ravel()
        return np.arange(every.sum()) + np.repeat(
            self.segments[:, :, 0].ravel() - (np.cumsum(every) - every), every
        )


class WithoutResult(NamedTuple):
    """Solutions of all groups without each fold.

    Attributes
    ----------
    outputs : ndarray of shape (n_rows,)
        Outputs on every row of every group by the model without its fold, where it is solved.
    coefs : ndarray of shape (n_folds or 0, n_rows)
        Coefficients of the models.
    bias, objective, relative_gap : ndarray of shape (n_groups, n_folds)
        Their biases, objectives and certificates.
    n_iter, status : int ndarray of shape (n_groups, n_folds)
        Pair steps, and a number of :data:`~oblong.solvers.margin.batch.problem.STATUS` or
        :data:`UNCHANGED`. What is "unsolved" needs the careful solver.
    directions : ndarray of shape (n_groups, n_folds or 0, d or 0)
        Weight vectors of the linear kernel.
    base, place : ndarray of shape (n_base, n) and int ndarray of shape (n,)
        Kernel values of some rows with all rows in single precision, and where the row of the
        matrix is among them, or -1.
    """

    outputs: np.ndarray
    coefs: np.ndarray
    bias: np.ndarray
    objective: np.ndarray
    relative_gap: np.ndarray
    n_iter: np.ndarray
    status: np.ndarray
    directions: np.ndarray
    base: np.ndarray
    place: np.ndarray


def solve_all_without(
    problem: LeftOut, *, threads: int = 1, options: MarginOptions = DEFAULTS
) -> WithoutResult | None:
    """Solve every group without each fold; None where single precision cannot do it.

    Parameters
    ----------
    problem : LeftOut
        The problems.
    threads : int, default=1
        Threads, which share the groups among them.
    options : MarginOptions
        Tuning constants.
    """
    prepared = prepare(problem.matrix)
    if prepared is None:
        return None
    source, exact = prepared
    lengths, index = problem.lengths, problem.rows
    n_groups, n_folds = len(lengths), int(problem.fold_of.max()) + 1
    unique, names = np.unique(problem.segments.reshape(-1, 2), axis=0, return_inverse=True)
    own = np.diff(unique, axis=1)[:, 0] ** 2
    gram = isinstance(problem.matrix, GramTiles)
    places = (np.cumsum(own) - own)[names].reshape(lengths.shape) * (not gram)
    groups = Groups(
        np.dstack([problem.segments, np.cumsum(lengths, axis=1) - lengths, places]).astype(
            np.int64
        ),
        np.concatenate([[0], np.cumsum(lengths.sum(axis=1))]),
        index,
        np.repeat(problem.signs.ravel().astype(np.float64), lengths.ravel()),
        np.empty(0),
    )
    n = problem.matrix.n
    support = np.unique(index[problem.coef != 0.0]) if not gram else np.empty(0, dtype=np.int64)
    # The matrix of a single group has these rows in their places if they come first.
    first = n_groups == 1 and bool((index == np.arange(n)).all() and support.size)
    first = first and int(support[-1]) == support.size - 1
    memory = np.empty((n if first else support.size, n), dtype=np.float32)
    base = memory[: support.size]
    _kernel_rows(source, support, base)
    place = np.full(n, -1)
    place[support] = np.arange(support.size)
    coefs = np.zeros((n_folds if problem.keep else 0, index.size))
    outputs = np.full(index.size, np.nan)
    table = np.full((n_groups, n_folds, 12), np.nan)
    table[:, :, STEPS], table[:, :, STATUS] = 0.0, UNCHANGED
    d = source.X.shape[1] if source.kind == _LINEAR else 0
    directions = np.zeros((n_groups, n_folds if problem.keep else 0, d))

    tol = problem.tol
    promise = options.promise(tol) if tol < _TIGHT else _LOOSE * tol
    limit = _NO_LIMIT if problem.max_iter < 0 else problem.max_iter

    def run(begin: int, end: int) -> None:
        big = int(np.diff(groups.ends)[begin:end].max())
        matrix = memory.ravel() if first else np.empty(big**2, dtype=np.float32)
        _solve_groups(
            groups, source, exact, base, place, matrix, first, *problem.pieces, problem.coef,
            problem.fold_of.astype(np.int64), begin, end, tol, limit, options.batch_patience,
            promise, 0 if gram else int(own.sum()), d, outputs, coefs, directions, table,
        )  # fmt: skip

    run_chunks(run, n_groups, -(-n_groups // max(1, threads)), threads)
    gap = np.maximum(table[:, :, OBJECTIVE] - table[:, :, DUAL], 0.0) + table[:, :, ROUNDING]
    # The rows of the linear kernel were centred.
    bias = table[:, :, BIAS] - (directions @ exact.shift if directions.size else 0.0)
    counts = table[:, :, [STEPS, STATUS]].astype(np.int64)
    return WithoutResult(
        outputs,
        coefs,
        bias,
        table[:, :, OBJECTIVE],
        gap / np.maximum(np.abs(table[:, :, OBJECTIVE]), np.finfo(float).tiny),
        counts[:, :, 0],
        counts[:, :, 1],
        directions,
        base,
        place,
    )


@compiled
def _kernel_rows(source, some, values):
    """Write the kernel values of some rows with all rows, in single precision."""
    if some.size > 0:
        np.dot(source.X[some], source.XT, values)
    for a in range(some.size):
        _mapped(
            source.kind, source.degree, np.float32(source.coef0), values[a], source.half[some[a]],
            source.half,
        )  # fmt: skip


@compiled
def shift_weight(p, s, c, room):
    """Bring ``Σc`` back to zero, inside the domains.

    The surplus is taken from the free coefficients, in proportion to their ``room`` up to the next
    breakpoint; what is left then, by scaling the heavier sign down.
    """
    surplus = 0.0
    for i in range(c.size):
        surplus += c[i]
    total = 0.0
    for i in range(c.size):
        right, left, above, below = _place(p, s, i, c[i])
        room[i] = 0.0
        if right == left:
            # Where a piece has no end, a coefficient moves by about its own size.
            room[i] = min(c[i] - below if surplus > 0.0 else above - c[i], abs(c[i]) + 1.0)
            total += room[i]
    share = min(abs(surplus) / total, 1.0) if total > 0.0 else 0.0
    share = share if surplus > 0.0 else -share
    high = low = 0.0
    for i in range(c.size):
        c[i] -= share * room[i]
        high += max(c[i], 0.0)
        low += max(-c[i], 0.0)
    # Every domain holds zero, so that smaller coefficients stay inside.
    up = low / high if high > low else 1.0
    down = high / low if low > high else 1.0
    for i in range(c.size):
        c[i] *= up if c[i] > 0.0 else down


@compiled
def _solve_groups(
    groups, source, exact, base, place, memory, filled, all_p, all_s, all_c, fold_of, first, last,
    tol, limit, patience, promise, own_size, d, outputs, coefs, directions, table,
):  # fmt: skip
    """Solve the groups ``first`` to ``last`` without each fold, where that changes something.

    ``memory`` is for the matrix of a group; ``filled`` says that it has the rows of ``base``.
    """
    big = 0
    for g in range(first, last):
        big = max(big, groups.ends[g + 1] - groups.ends[g])
    flags = np.zeros((3, big), dtype=np.bool_)
    own = np.empty(own_size, dtype=np.float32)
    own_have = np.zeros(exact.diagonal.size, dtype=np.bool_)
    numbers = np.empty((12, big))
    terms = np.empty((big, 4))
    scratch = np.empty(_STRIP)
    some = (
        np.empty(big, dtype=np.int64), np.empty((big // 2) ** 2, dtype=np.float32),
        np.empty((5, big)), np.empty((big, 4)), np.empty((big, 3)),
    )  # fmt: skip
    n_folds = table.shape[1]
    order, ends = np.empty(big, dtype=np.int64), np.empty(n_folds + 1, dtype=np.int64)
    changed = np.empty(n_folds, dtype=np.bool_)
    w = np.empty(d)
    no_weights = memory[:0].reshape(0, 0)
    tight = tol < _TIGHT or d > 0
    # With several groups and models kept, outputs are products of all groups at once.
    alone = len(groups.parts) == 1 or coefs.size == 0
    for g in range(first, last):
        begin, end = groups.ends[g], groups.ends[g + 1]
        q = end - begin
        index, s, start = groups.rows[begin:end], all_s[begin:end], all_c[begin:end]
        K = memory[: q * q].reshape(q, q)
        diagonal, y, image = numbers[0, :q], numbers[1, :q], numbers[4, :q]
        c, u = numbers[2, :q], numbers[3, :q]
        rows = GroupRows(source, groups.parts[g], flags[0, :q], own, own_have, no_weights, diagonal)
        p = terms[:q]
        work = (numbers[8, :q], numbers[9, :q], numbers[10, :q], numbers[11, :q], scratch)
        for i in range(q):
            diagonal[i], y[i], image[i] = exact.diagonal[index[i]], groups.y[begin + i], 0.0
            p[i] = all_p[begin + i]
            row = place[index[i]] if start[i] != 0.0 else -1
            rows.have[i] = row >= 0
            if row >= 0 and not filled:
                for part in groups.parts[g]:
                    size = part[1] - part[0]
                    K[i, part[2] : part[2] + size] = base[row, part[0] : part[1]]
        for i in range(q):
            if start[i] != 0.0:
                if not rows.have[i]:
                    have_row(rows, K, i)
                _add_row(image, start[i], K[i])
        right, left = numbers[5, :q], numbers[6, :q]
        mean = np.abs(diagonal).mean() + 1e-300
        snap = snap_distance(p, start, tol, max(diagonal.max(), 1e-300))
        ends[:] = 0
        changed[:] = False
        for i in range(q):
            ends[fold_of[index[i]] + 1] += 1
            changed[fold_of[index[i]]] |= start[i] != 0.0
        for fold in range(changed.size):
            ends[fold + 1] += ends[fold]
        for i in range(q - 1, -1, -1):
            fold = fold_of[index[i]]
            ends[fold + 1] -= 1
            order[ends[fold + 1]] = i
        # Now ends[fold + 1] is where the rows of the fold begin.
        for fold in range(changed.size):
            if not changed[fold]:
                continue
            stop = ends[fold + 2] if fold + 1 < changed.size else q
            out = order[ends[fold + 1] : stop]
            c[:] = start
            u[:] = image
            for i in out:
                c[i] = 0.0
                p[i] = 0.0
                # Rows without a loss matter all the same where their outputs have to be exact.
                y[i] *= not tight
            shift_weight(p, s, c, work[0])
            for i in range(q):
                if c[i] != start[i]:
                    if not rows.have[i]:
                        have_row(rows, K, i)
                    _add_row(u, c[i] - start[i], K[i])
            values = table[g, fold]
            values[STATUS] = UNSOLVED
            steps = 0
            if not tight:
                steps, violation = ascend(
                    K, no_weights, diagonal, p, s, c, u, right, left, work, 0.95 * tol, TINY * mean,
                    snap, min(limit, patience * q), max(50, q // 2), rows,
                )  # fmt: skip
                balance(c, right, left)
                m, M = interval(right, left, u)
                bias = 0.5 * (m + M) if abs(m + M) < np.inf else 0.0
                # Outputs in single precision, rounding counted, mostly prove a small enough gap.
                gap = _appraise(
                    exact, index, y, p, s, c, u, bias, flags[1], work, w, promise, values
                )
                if violation <= tol and gap <= promise:
                    values[STEPS], values[STATUS] = steps, CONVERGED
            if values[STATUS] == UNSOLVED:
                _solve(
                    rows, exact, K, diagonal, index, y, p, s, c, u, work, numbers[5:], some,
                    flags[2], w, tol, limit - steps, patience, promise, False, values,
                )  # fmt: skip
                values[STEPS] += steps
            scale = values[SCALE]
            if not tight and alone:
                for i in out:
                    u[i] = 0.0
                for j in range(q):
                    if c[j] != 0.0:
                        row = K[j]
                        for i in out:
                            u[i] += c[j] * row[i]
            for i in out:
                outputs[begin + i] = scale * u[i] + values[BIAS]
                p[i] = all_p[begin + i]
                y[i] = groups.y[begin + i]
            if coefs.size > 0:
                for i in range(q):
                    coefs[fold, begin + i] = scale * c[i]
                for i in range(d):
                    directions[g, fold, i] = scale * w[i]


@compiled
def _add_row(image, change, row):
    for k in range(image.size):
        image[k] += change * row[k]
