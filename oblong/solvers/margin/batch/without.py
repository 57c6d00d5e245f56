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

from oblong._core.threads import run_chunks
from oblong.solvers.margin.batch.loops import (
    BIAS,
    DUAL,
    OBJECTIVE,
    ROUNDING,
    STATUS,
    STEPS,
    Groups,
)  # fmt: skip
from oblong.solvers.margin.batch.problem import GramTiles, RowTiles
from oblong.solvers.margin.batch.tiles import _LINEAR, prepare
from oblong.solvers.margin.batch.without_loops import (
    TIGHT,
    UNCHANGED,
    kernel_rows,
    solve_groups_without,
)
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.problem import Pieces

__all__ = ["TIGHT", "UNCHANGED", "LeftOut", "WithoutResult", "solve_all_without"]

_NO_LIMIT = np.iinfo(np.int64).max
# A gap of more than so many tolerances is worth a more exact solution.
_LOOSE = 10.0


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
        The fold of each row of the matrix, counted from 0.
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
    spans = problem.segments.reshape(-1, 2)
    # Pairs of numbers as one number each are sorted much faster.
    _, chosen, names = np.unique(
        spans @ [problem.matrix.n + 1, 1], return_index=True, return_inverse=True
    )
    own = np.diff(spans[chosen], axis=1)[:, 0] ** 2
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
    kernel_rows(source, support, base)
    place = np.full(n, -1)
    place[support] = np.arange(support.size)
    coefs = np.zeros((n_folds if problem.keep else 0, index.size))
    outputs = np.full(index.size, np.nan)
    table = np.full((n_groups, n_folds, 12), np.nan)
    table[:, :, STEPS], table[:, :, STATUS] = 0.0, UNCHANGED
    d = source.X.shape[1] if source.kind == _LINEAR else 0
    directions = np.zeros((n_groups, n_folds if problem.keep else 0, d))

    tol = float(problem.tol)
    promise = _LOOSE * tol
    limit = _NO_LIMIT if problem.max_iter < 0 else problem.max_iter

    def run(begin: int, end: int) -> None:
        big = int(np.diff(groups.ends)[begin:end].max())
        matrix = memory.ravel() if first else np.empty(big**2, dtype=np.float32)
        solve_groups_without(
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
