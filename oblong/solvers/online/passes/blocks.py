"""Learning with a full covariance block by block: exact, at the speed of products of matrices.

All that a rule needs of a full covariance ``S`` are products of rows of the block, ``H = X S X'``,
and all that an update ``S -= β s s'`` does to them is ``H -= β h h'`` with the column ``h`` of the
example. So a block of rows is learned from exactly, update by update, on its matrix ``H``, and the
updates reach ``S`` and the weights in a few products of matrices at the end of the block.

A row has a line of ``H`` for a class only if the model at the beginning of the block says that an
update is to be expected. Where an update comes up that was not, the block ends, and the next one
begins with that very step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.blas import dsymm, dsyrk, dtrsm

from oblong._core.compile import compiled
from oblong._core.threads import single_threaded_blas
from oblong.solvers.online.options import DEFAULT, OnlineOptions
from oblong.solvers.online.round import answer, begin, reset, skip_copies
from oblong.solvers.online.rows import Rows
from oblong.solvers.online.slots import (
    EACH,
    FULL,
    LIMIT,
    NOTHING,
    ROUNDS,
    RULE,
    SIGMA,
    STEPS,
    TASK,
    TOP,
    UNIT_FIXED,
)
from oblong.solvers.online.structures.full import rescale
from oblong.solvers.online.tasks import mistaken, pick

if TYPE_CHECKING:
    from oblong.solvers.online.state import OnlineState

# What is kept of a round that a block could not finish: its next step, whether it has begun, has
# changed the model, was mistaken, has had a reset of the covariances of two outputs.
STEP, OPEN, CHANGED, WRONG, AGAIN, FIRST, SECOND = range(7)
N_PROGRESS = 7
# What is kept of an update: its line, row, output and the rounds before it; its step and ``β``.
UPDATE_LINE, UPDATE_ROW, UPDATE_OUTPUT, UPDATE_PAST = range(4)
UPDATE_STEP, UPDATE_SHRINK = range(2)


@compiled
def expect(labels, weights, scores, slots, taken, progress, work, slack, model):
    """Number the lines that rows and classes of a block get, class after class.

    Rows get a line for the classes that their steps would change if the margin were smaller by
    ``slack``; all others -1. Steps that an open round of the first row has ahead get theirs.
    """
    task, n_steps = model.codes[TASK], model.codes[STEPS]
    limit = model.settings[LIMIT] + slack
    n_outputs, n_rows = slots.shape
    for k in range(n_outputs):
        for i in range(n_rows):
            slots[k, i] = -1
    for i in range(n_rows):
        resumed = i == 0 and progress[OPEN] == 1
        if weights[i] <= 0.0 and not resumed:
            continue
        row = scores[i]
        for k in range(n_outputs):
            work[k] = taken[k] if resumed else 0.0
        for step in range(n_steps):
            if resumed and step < progress[STEP]:
                continue
            first, second, sign = pick(task, step, row, labels[i], work)
            if first < 0:
                continue
            if resumed or sign * row[first] - (row[second] if second >= 0 else 0.0) < limit:
                slots[first, i] = 0
                if second >= 0:
                    slots[second, i] = 0
    count = 0
    for k in range(n_outputs):
        for i in range(n_rows):
            if slots[k, i] == 0:
                slots[k, i] = count
                count += 1
    return count


@compiled
def _change(k, i, slot, end, move, shrink, gram, scores, line):
    """Apply one update of a class to the products and outputs of the rows that are left."""
    own = gram[slot, i:]
    rest = line[i:]
    for j in range(own.size):
        rest[j] = shrink * own[j]
    left = scores[i:]
    for j in range(own.size):
        left[j, k] += move * own[j]
    if shrink <= 0.0:
        return
    # Lines are in the order of the rows: those before are done with.
    others = gram[slot:end, i:]
    for o in range(others.shape[0]):
        other = others[o]
        factor = other[0]
        for j in range(own.size):
            other[j] -= factor * rest[j]


@compiled
def replay(
    labels, weights, scores, slots, ends, gram, lines, which, amounts,
    taken, progress, part, model, record,
):  # fmt: skip
    """Learn from the rows of a block.

    Parameters
    ----------
    labels, weights : ndarray
        Labels, and what is left of the weights of the rows.
    scores : ndarray of shape (n_rows, n_outputs)
        Outputs; those of rows to come are kept up to date.
    slots : ndarray of int, of shape (n_outputs, n_rows)
        Line of a row for an output, see :func:`expect`.
    ends : ndarray of int, of shape (n_outputs,)
        Where the lines of an output end.
    gram : ndarray of shape (n_lines, n_rows)
        Products ``x_i'S_k x_j``, kept up to date.
    lines : ndarray of shape (n_updates, n_rows)
        Filled with ``β h`` of the updates.
    which : ndarray of int, of shape (n_updates, 4)
        Filled with the lines, rows and outputs of the updates and the rounds before them.
    amounts : ndarray of shape (n_updates, 2)
        Filled with the steps and ``β`` of the updates.
    taken : ndarray of shape (n_outputs,)
        Classes that the open round has had as rivals.
    progress, part : ndarray
        The open round, and its weight.
    model : Model
        The model, of which only counters and scale change here.
    record : ndarray
        Gets the decision values of the rows.

    Returns
    -------
    row, updates : int
        The row that the next block begins with, and the number of updates.
    """
    scale, counters, settings, codes = model.scale, model.counters, model.settings, model.codes
    rule, task, n_steps, limit = codes[RULE], codes[TASK], codes[STEPS], settings[LIMIT]
    count, room = 0, which.shape[0]
    for i in range(scores.shape[0]):
        row, row_labels = scores[i], labels[i]
        while progress[OPEN] == 1 or weights[i] > 0.0:
            if progress[OPEN] == 0:
                part[0] = min(1.0, weights[i])
                weights[i] -= part[0]
                for k in range(taken.size):
                    taken[k] = 0.0
                wrong = mistaken(task, row, row_labels, taken)
                begin(wrong, task, row, row_labels, part[0], scale, counters, record, i)
                progress[WRONG] = wrong
                progress[STEP], progress[OPEN], progress[CHANGED] = 0, 1, 0
            past = counters[ROUNDS] - 1
            while progress[STEP] < n_steps:
                first, second, sign = pick(task, progress[STEP], row, row_labels, taken)
                progress[STEP] += 1
                if first < 0:
                    continue
                m = sign * row[first] - (row[second] if second >= 0 else 0.0)
                if m >= limit:
                    continue
                a, b = slots[first, i], slots[second, i] if second >= 0 else 0
                wait = a < 0 or b < 0 or count + 2 > room
                alpha, tau, factor, va, vb = 0.0, 0.0, 1.0, 0.0, 0.0
                if not wait:
                    va = scale[first, SIGMA] * gram[a, i]
                    if second >= 0:
                        vb = scale[second, SIGMA] * gram[b, i]
                    numbers = scale[first if task == EACH else 0]
                    alpha, tau, factor = answer(
                        rule, m, va + vb, part[0], settings, numbers, counters, progress[AGAIN]
                    )
                    wait = factor == 0.0
                    if wait:
                        progress[AGAIN], progress[FIRST], progress[SECOND] = 1, first, second
                if wait:
                    progress[STEP] -= 1
                    if task == TOP:
                        taken[second] = 0.0
                    return i, count
                progress[AGAIN] = 0
                if alpha <= 0.0:
                    continue
                progress[CHANGED] = 1
                for side in range(2):
                    k = first if side == 0 else second
                    if k < 0:
                        break
                    v, move, slot = (va, sign * alpha, a) if side == 0 else (vb, -alpha, b)
                    sigma = scale[k, SIGMA]
                    shrink = sigma * tau / (1.0 + tau * v)
                    which[count, UPDATE_LINE], which[count, UPDATE_ROW] = slot, i
                    which[count, UPDATE_OUTPUT], which[count, UPDATE_PAST] = k, past
                    amounts[count, UPDATE_STEP] = move * sigma
                    amounts[count, UPDATE_SHRINK] = shrink
                    line = lines[count]
                    _change(k, i, slot, ends[k], move * sigma, shrink, gram, scores, line)
                    scale[k, SIGMA] = sigma * factor
                    count += 1
            progress[OPEN] = 0
            if progress[CHANGED] == 0 and weights[i] > 0.0:
                wrong = progress[WRONG] == 1
                skip_copies(task, row, row_labels, weights[i], wrong, scale, counters)
                weights[i] = 0.0
    return scores.shape[0], count


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
