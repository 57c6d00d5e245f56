"""Learning with a full shape block by block: exact, at the speed of products of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.blas import dsymm, dsyrk, dtrsm

from oblong._core.threads import single_threaded_blas
from oblong.solvers.online._pass import reset
from oblong.solvers.online._replay import AGAIN, FIRST, SECOND, expect, replay
from oblong.solvers.online._shapes import rescale
from oblong.solvers.online._tasks import EACH, FULL, SINGLE

if TYPE_CHECKING:
    from oblong.solvers.online.state import OnlineState, Rows

__all__ = ["learn_blocks", "suits_blocks"]

# Features from which on blocks are faster than rows, which the pass of a single output takes longer
# to fall behind, and the fewest rows that pay for a block.
_FEATURES, _ROWS = {SINGLE: 350, EACH: 140}, 16
# Rows of a block, of which few may be expected to matter.
_SHORTEST, _LONGEST = 8, 512
# Tiles in which a triangle is copied.
_TILE = 64


def suits_blocks(state: OnlineState, n_rows: int) -> bool:
    """Whether blocks are faster than rows.

    Where a class competes with the best of the others, who that is changes too often within a
    block.
    """
    return (
        state.structure == FULL
        and state.table.shape[0] > _FEATURES.get(int(state.codes[2]), np.inf)
        and n_rows >= _ROWS
    )


class _Block:
    """Buffers of the blocks of one call."""

    def __init__(self, state: OnlineState) -> None:
        outputs, size = state.n_outputs, state.table.shape[0]
        self.X = np.empty((_LONGEST, size))
        self.taken, self.scratch = np.zeros((2, outputs))
        self.progress = np.zeros(7, dtype=np.int64)
        self.part = np.ones(1)


def _gather(block: _Block, rows: Rows, which: np.ndarray, bias: float) -> np.ndarray:
    """Rows with the constant feature in front, dense and in double precision."""
    X = block.X[: len(which)]
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
    """Products of rows with the shapes, one line a row and class, and where classes end."""
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
            dsymm(1.0, state.shape[k].T, Z.T, c=T[start:end].T, lower=1, overwrite_c=1)
    return T, ends


def _apply(
    state: OnlineState, k: int, T: np.ndarray, lines: np.ndarray, which: np.ndarray, amounts
) -> None:
    """Apply the updates of one class in a block to its weights and the upper half of its shape.

    The product ``s`` of an update is that with the shape at the beginning less ``β h`` times those
    of the updates before: a triangular system.
    """
    L = lines[:, which[:, 1]].T
    Q = dtrsm(1.0, L.T, T[which[:, 0]].T, side=1, lower=0, trans_a=0, diag=1, overwrite_b=1)
    steps = amounts[:, 0]
    state.table[:, k] += Q @ steps
    if state.total.shape[0]:
        state.total[:, k] += Q @ (steps * which[:, 3])
    shrinks = amounts[:, 1]
    if (shrinks > 0.0).any():
        Q *= np.sqrt(shrinks)
        dsyrk(-1.0, Q, 1.0, state.shape[k].T, lower=1, overwrite_c=1)


def _in_range(state: OnlineState) -> None:
    """Keep shapes of rules that allow it in the middle of the range of numbers."""
    invariance = state.codes[4]
    if invariance > 0:
        exponent = rescale(state.shape, state.table, state.total, state.scale, invariance == 1)
        if exponent != 0:
            state.counters[5] += 1
            state.counters[7] += exponent


def learn_blocks(
    state: OnlineState, rows: Rows, labels: np.ndarray, weights: np.ndarray, order: np.ndarray
) -> None:
    """Learn from rows, one after the other, with a full shape.

    Parameters
    ----------
    state : OnlineState
        The model, whose updates and counters are those of learning row by row; the numbers differ
        by rounding.
    rows, labels, weights, order
        As for :meth:`~oblong.solvers.online.state.OnlineState.learn`.
    """
    # The products of a block are too small for threads, whose waiting for each other between two
    # copies of BLAS takes as long as the products.
    with single_threaded_blas():
        _learn(state, rows, labels, weights, order)


def _learn(
    state: OnlineState, rows: Rows, labels: np.ndarray, weights: np.ndarray, order: np.ndarray
) -> None:
    block = _Block(state)
    outputs, initial = state.n_outputs, state.initial_variance
    labels, left = labels[order], weights[order]
    # Enough lines for the products to run at full speed, few enough for the small matrices.
    most = outputs * (96 if state.table.shape[0] > 400 else 48)
    start, length, slack = 0, most // outputs, 0.0
    while start < len(order):
        window = slice(start, min(len(order), start + length))
        X = _gather(block, rows, order[window], state.bias)
        scores = X @ state.table[:, :outputs].astype(np.float64, copy=False)
        n_rows = len(X)
        while True:
            slots = np.empty((outputs, n_rows), dtype=np.int64)
            n_lines = expect(
                labels[window],
                left[window],
                scores[:n_rows],
                slots,
                block.taken,
                block.progress,
                block.scratch,
                slack * float(np.abs(scores).mean()),
                state.settings,
                state.codes,
            )
            if n_lines <= 2 * most or n_rows <= _SHORTEST:
                break
            n_rows = max(_SHORTEST, n_rows * most // n_lines)
        X, scores = X[:n_rows], scores[:n_rows]
        stop = start + n_rows
        T, ends = _products(X, state, slots, n_lines)
        room = n_lines + 2
        lines, amounts = np.empty((room, n_rows)), np.empty((room, 2))
        which = np.empty((room, 4), dtype=np.int64)
        row, count = replay(
            labels[start:stop],
            left[start:stop],
            scores,
            slots,
            ends,
            T @ X.T,
            lines,
            which,
            amounts,
            block.taken,
            state.scale,
            state.counters,
            block.progress,
            block.part,
            state.settings,
            state.codes,
        )
        for k in range(outputs) if count else ():
            mine = np.flatnonzero(which[:count, 2] == k)
            if len(mine):
                _apply(state, k, T, lines[mine], which[mine], amounts[mine])
        if count:
            _in_range(state)
        if row < n_rows and block.progress[AGAIN] == 1:
            for k in block.progress[[FIRST, SECOND]]:
                if k >= 0:
                    reset(FULL, state.table, state.shape, state.scale, k, initial)
        # An update that was not expected: shorter blocks that expect more.
        surprised = row < n_rows and block.progress[AGAIN] == 0
        slack = min(1.0, 2.0 * slack + 0.05) if surprised else 0.9 * slack
        if surprised:
            length = max(_SHORTEST, 2 * row)
        elif n_lines < most:
            length = min(_LONGEST, 2 * length)
        else:
            length = max(_SHORTEST, n_rows)
        start += row
    for k in range(outputs):
        _mirror(state.shape[k])
