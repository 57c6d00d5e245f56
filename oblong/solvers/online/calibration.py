"""Probabilities learned on the way: a sigmoid of the output, fitted before each label is learned.

Platt's sigmoid ``p = 1 / (1 + exp(-A f / s - B))`` of an output ``f`` is logistic regression on one
feature. Here it is fitted as the examples come, each with the output that the learner had before
it learned the label, by one Newton step per example with the inverse Hessian ``P`` of the logistic
loss kept up to date. The weight of example ``i`` grows like ``i``: early outputs, of a learner that
knew little, do not count in the end. ``s`` is the root mean square of the outputs, with the same
weights, so that the scale of the outputs makes no difference. The outputs of hard confident rules
shrink along with the covariance, by the same factor per row on noisy data: there ``s`` is the
geometric mean of the last few outputs, which stays behind by a constant factor only.

The numbers of an output are named in :mod:`~oblong.solvers.online.slots`: ``A``, ``B``, the three
entries of ``P``, ``s²`` in the present unit of the outputs, the weight of the examples, and how the
outputs behave: ``STEADY`` or ``DRIFTING``, negative while ``A`` and ``B`` are not learned.
"""

import math

import numpy as np

from oblong._core.compile import compiled
from oblong.solvers.online import slots

STEADY, DRIFTING = 1.0, 2.0
# Outputs that the scale of drifting ones looks back at, and the least square that counts, relative
# to the mean: zeros up to rounding say nothing of the scale.
_SPAN, _LEAST_SQUARE = 16.0, 1e-4
# Examples that the start is worth.
_PRIOR = 10.0
# More output never makes a class less likely.
_LEAST_SLOPE = 1e-6


@compiled
def _observe(c, f, right, weight):
    """One Newton step of the sigmoid ``c`` for an output and whether its class is the right one."""
    c[slots.WEIGHT] += weight
    rate = min(1.0, 2.0 * weight / (c[slots.WEIGHT] + 1.0))
    if abs(c[slots.KIND]) == STEADY or c[slots.SQUARE] <= 0.0:
        c[slots.SQUARE] += rate * (f * f - c[slots.SQUARE])
    elif f != 0.0:
        rate = max(rate, weight / _SPAN)
        c[slots.SQUARE] *= max(f * f / c[slots.SQUARE], _LEAST_SQUARE) ** rate
    if c[slots.KIND] < 0.0 or c[slots.SQUARE] <= 0.0:
        return
    z = f / math.sqrt(c[slots.SQUARE])
    p = 1.0 / (1.0 + math.exp(-c[slots.SLOPE] * z - c[slots.OFFSET]))
    error = (1.0 if right else 0.0) - p
    # The curvature at a point far on the wrong side is no guide to the loss: without a lower bound
    # one wrong label would throw the sigmoid off.
    h = weight * max(p * (1.0 - p), 0.25 * abs(error))
    fresh = 1.0 / (1.0 - weight / (c[slots.WEIGHT] + _PRIOR))
    c[slots.P_SLOPE] *= fresh
    c[slots.P_MIXED] *= fresh
    c[slots.P_OFFSET] *= fresh
    a, b = c[slots.P_SLOPE] * z + c[slots.P_MIXED], c[slots.P_MIXED] * z + c[slots.P_OFFSET]
    gain = 1.0 / (1.0 + h * (z * a + b))
    c[slots.SLOPE] = max(c[slots.SLOPE] + weight * error * gain * a, _LEAST_SLOPE)
    c[slots.OFFSET] += weight * error * gain * b
    c[slots.P_SLOPE] -= h * gain * a * a
    c[slots.P_MIXED] -= h * gain * a * b
    c[slots.P_OFFSET] -= h * gain * b * b


@compiled
def calibrate(task, scores, labels, scale, weight):
    """Learn the sigmoids of all outputs from one example.

    The output of a class that competes with others is the difference to the best of these.
    """
    if task == slots.SINGLE:
        _observe(scale[0], scores[0], labels[0] == 1, weight)
        return
    best, second = 0, -1
    for k in range(1, scores.size):
        if scores[k] > scores[best]:
            best, second = k, best
        elif second < 0 or scores[k] > scores[second]:
            second = k
    for k in range(labels.size if labels.size > 1 else scores.size):
        f = scores[k]
        if task == slots.TOP:
            f -= scores[second if k == best else best]
        elif task == slots.RANK:
            f -= scores[labels.size]
        right = labels[k] == 1 if labels.size > 1 else labels[0] == k
        _observe(scale[k], f, right, weight)


@compiled
def calibrate_copies(task, scores, labels, scale, weight):
    """Learn the sigmoids from copies of an example, the last with what is left of the weight."""
    while weight > 0.0:
        part = min(1.0, weight)
        weight -= part
        calibrate(task, scores, labels, scale, part)


@compiled
def decide(task, scores, scale, line):
    """Note the decision values of an example: outputs, or the logits of their sigmoids.

    What stands there already is that of an earlier copy of the example.
    """
    if line[0] != slots.NOT_YET:
        return
    for k in range(line.size):
        f = scores[k]
        if scale.shape[1] > slots.N_PLAIN:
            if task == slots.TOP:
                rival = -math.inf
                for o in range(line.size):
                    if o != k:
                        rival = max(rival, scores[o])
                f -= rival
            c = scale[k]
            f = (
                c[slots.SLOPE] * f / (math.sqrt(c[slots.SQUARE]) if c[slots.SQUARE] > 0.0 else 1.0)
                + c[slots.OFFSET]
            )
        line[k] = f


def fresh_sigmoid(kind: float) -> list[float]:
    """What an output starts with, after the numbers that it has anyway."""
    return [1.0, 0.0, 4.0, 0.0, 4.0, 0.0, 0.0, kind]


def mirror(numbers: np.ndarray) -> None:
    """Make the sigmoid of an output that of its negative, in place."""
    numbers[[slots.OFFSET, slots.P_MIXED]] *= -1.0


def set_open(scale: np.ndarray, learns: bool) -> None:
    """Say whether sigmoids are learned.

    Outputs of examples that were learned from before are too good.
    """
    if scale.shape[1] > slots.N_PLAIN:
        scale[:, slots.KIND] = np.abs(scale[:, slots.KIND]) * (1.0 if learns else -1.0)


def logits(outputs: np.ndarray, scale: np.ndarray, task: int) -> np.ndarray:
    """Logits of the sigmoids of outputs.

    Parameters
    ----------
    outputs : ndarray of shape (n_rows, n_outputs)
        Outputs; those of label sets less that of the threshold.
    scale : ndarray of shape (>= n_outputs, 11)
        Numbers of the outputs.
    task : int
        How classes compete.

    Returns
    -------
    ndarray of shape (n_rows, n_outputs)
        Logit of each output.
    """
    slope, offset, square = scale[: outputs.shape[1], [slots.SLOPE, slots.OFFSET, slots.SQUARE]].T
    f = np.asarray(outputs, dtype=np.float64)
    if task == slots.TOP:
        ranks = np.sort(f, axis=1)
        f = f - np.where(f == ranks[:, -1:], ranks[:, -2:-1], ranks[:, -1:])
    root = np.sqrt(np.where(square > 0.0, square, 1.0))
    return slope * f / root + offset
