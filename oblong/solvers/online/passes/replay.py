"""Examples of a block, one after the other, on the small matrices of the block alone.

All that a rule needs of a full covariance ``S`` are products of rows of the block, ``H = X S X'``,
and all that an update ``S -= β s s'`` does to them is ``H -= β h h'`` with the column ``h`` of the
example. So a block of rows is learned from exactly, update by update, on its matrix ``H``, and the
updates reach ``S`` and the weights in a few products of matrices at the end of the block.

A row has a line of ``H`` for a class only if the model at the beginning of the block says that an
update is to be expected. Where an update comes up that was not, the block ends, and the next one
begins with that very step.
"""

from __future__ import annotations

from oblong._core.compile import compiled
from oblong.solvers.online.round import answer, begin, skip_copies
from oblong.solvers.online.slots import EACH, LIMIT, ROUNDS, RULE, SIGMA, STEPS, TASK, TOP
from oblong.solvers.online.tasks import mistaken, pick

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
