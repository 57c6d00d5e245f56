"""Learning with a full covariance block by block: exact, at the speed of products of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.blas import dsymm, dsyrk, dtrsm

from oblong._core.threads import single_threaded_blas
from oblong.solvers.online.options import DEFAULT, OnlineOptions
from oblong.solvers.online.passes.replay import (
    AGAIN,
    FIRST,
    N_PROGRESS,
    SECOND,
    UPDATE_LINE,
    UPDATE_OUTPUT,
    UPDATE_PAST,
    UPDATE_ROW,
    UPDATE_SHRINK,
    UPDATE_STEP,
    expect,
    replay,
)
from oblong.solvers.online.round import reset
from oblong.solvers.online.rows import Rows
from oblong.solvers.online.slots import FULL, NOTHING, UNIT_FIXED
from oblong.solvers.online.structures.full import rescale

if TYPE_CHECKING:
    from oblong.solvers.online.state import OnlineState

# Tiles in which a triangle is copied.
_TILE = 64


def _gather(X: np.ndarray, rows: Rows, which: np.ndarray, bias: float) -> np.ndarray:
    """Rows with the constant feature in front, dense and in double precision."""
    X[:, 0] = bias
    if rows.dense:
        d = len(rows.indices)
        X[:, 1 : d + 1] = rows.data.reshape(-1, d)[which]
        X[:, d + 1 :] = 0.0
        return X
    X[:, 1:] = 0.0
    for line, i in zip(X, which):
        span = slice(rows.indptr[i], rows.indptr[i + 1])
        line[rows.indices[span] + 1] = rows.data[span]
    return X


def _mirror(S: np.ndarray) -> None:
    """Copy the upper triangle below the diagonal."""
    n = len(S)
    for start in range(0, n, _TILE):
        stop = min(n, start + _TILE)
        S[stop:, start:stop] = S[start:stop, stop:].T
        tile = S[start:stop, start:stop]
        tile[:] = np.triu(tile) + np.triu(tile, 1).T


def _products(
    X: np.ndarray, state: OnlineState, slots: np.ndarray, n_lines: int
) -> tuple[np.ndarray, np.ndarray]:
    """Products of rows with the covariances, a line per row and output, and where outputs end."""
    T = np.empty((n_lines, X.shape[1]))
    ends = np.zeros(len(slots), dtype=np.int64)
    end = 0
    for k, numbers in enumerate(slots):
        start = end
        chosen = np.flatnonzero(numbers >= 0)
        end = ends[k] = start + len(chosen)
        if len(chosen):
            Z = X if len(chosen) == len(X) else X[chosen]
            # Transposes of arrays in C order are what BLAS wants: nothing is copied.
            dsymm(1.0, state.covariance[k].T, Z.T, c=T[start:end].T, lower=1, overwrite_c=1)
    return T, ends


def _apply(
    state: OnlineState, k: int, T: np.ndarray,
    lines: np.ndarray, which: np.ndarray, amounts: np.ndarray,
) -> None:  # fmt: skip
    """Apply the updates of an output to its weights and the upper half of its covariance.

    The product ``s`` of an update is that with the covariance at the beginning of the block less
    ``β h`` times those of the updates before: a triangular system.
    """
    L = lines[:, which[:, UPDATE_ROW]].T
    Q = dtrsm(
        1.0, L.T, T[which[:, UPDATE_LINE]].T, side=1, lower=0, trans_a=0, diag=1, overwrite_b=1
    )
    steps = amounts[:, UPDATE_STEP]
    state.table[:, k] += Q @ steps
    if state.total.shape[0]:
        state.total[:, k] += Q @ (steps * which[:, UPDATE_PAST])
    shrinks = amounts[:, UPDATE_SHRINK]
    if (shrinks > 0.0).any():
        Q *= np.sqrt(shrinks)
        dsyrk(-1.0, Q, 1.0, state.covariance[k].T, lower=1, overwrite_c=1)


# The products of a block are too small for threads, whose waiting for each other between two
# copies of BLAS takes as long as the products.
@single_threaded_blas()
def learn_blocks(
    state: OnlineState, rows: Rows, labels: np.ndarray, weights: np.ndarray, order: np.ndarray,
    options: OnlineOptions = DEFAULT, record: np.ndarray = NOTHING,
) -> None:  # fmt: skip
    """Learn from rows, one after the other, with a full covariance.

    Parameters
    ----------
    state : OnlineState
        The model, whose updates and counters are those of learning row by row; the numbers differ
        by rounding.
    rows, labels, weights, order, record
        As for :meth:`~oblong.solvers.online.state.OnlineState.learn`.
    options : OnlineOptions
        Sizes of the blocks.
    """
    model, outputs, shortest = state.model, state.n_outputs, options.shortest_block
    space = np.empty((options.longest_block, state.table.shape[0]))
    taken, scratch = np.zeros((2, outputs))
    progress, part = np.zeros(N_PROGRESS, dtype=np.int64), np.ones(1)
    labels, left = labels[order], weights[order]
    wide = state.table.shape[0] > options.wide
    most = outputs * (options.wide_block_lines if wide else options.block_lines)
    start, length, slack = 0, most // outputs, 0.0
    while start < len(order):
        window = slice(start, min(len(order), start + length))
        X = _gather(space[: window.stop - start], rows, order[window], state.bias)
        scores = X @ state.table[:, :outputs].astype(np.float64, copy=False)
        n_rows = len(X)
        while True:
            slots = np.empty((outputs, n_rows), dtype=np.int64)
            margin = slack * float(np.abs(scores).mean())
            n_lines = expect(
                labels[window], left[window], scores[:n_rows], slots,
                taken, progress, scratch, margin, model,
            )  # fmt: skip
            if n_lines <= 2 * most or n_rows <= shortest:
                break
            n_rows = max(shortest, n_rows * most // n_lines)
        X, scores = X[:n_rows], scores[:n_rows]
        stop = start + n_rows
        T, ends = _products(X, state, slots, n_lines)
        room = n_lines + 2
        lines, amounts = np.empty((room, n_rows)), np.empty((room, 2))
        which = np.empty((room, 4), dtype=np.int64)
        row, count = replay(
            labels[start:stop], left[start:stop], scores, slots, ends, T @ X.T, lines, which,
            amounts, taken, progress, part, model, record[start:stop],
        )  # fmt: skip
        for k in range(outputs) if count else ():
            mine = np.flatnonzero(which[:count, UPDATE_OUTPUT] == k)
            if len(mine):
                _apply(state, k, T, lines[mine], which[mine], amounts[mine])
        if count and state.invariance != UNIT_FIXED:
            invariance, arrays = state.invariance, (state.table, state.covariance, state.total)
            rescale(invariance, *arrays, state.scale, state.counters)
        if row < n_rows and progress[AGAIN] == 1:
            for k in progress[[FIRST, SECOND]]:
                if k >= 0:
                    initial = state.initial_variance
                    reset(FULL, state.table, state.covariance, state.scale, k, initial)
        # An update that was not expected: shorter blocks that expect more.
        surprised = row < n_rows and progress[AGAIN] == 0
        slack = min(1.0, 2.0 * slack + 0.05) if surprised else 0.9 * slack
        if surprised:
            length = max(shortest, 2 * row)
        elif n_lines < most:
            length = min(options.longest_block, 2 * length)
        else:
            length = max(shortest, n_rows)
        start += row
    for k in range(outputs):
        _mirror(state.covariance[k])
