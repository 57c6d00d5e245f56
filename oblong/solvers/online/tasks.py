"""How an example of several classes becomes examples of two."""

import math

from oblong._core.compile import compiled
from oblong.solvers.online.slots import EACH, RANK, SINGLE, TOP


@compiled
def _rival(scores, label, taken):
    """The best class other than ``label`` that is not taken yet, or -1."""
    best, value = -1, -math.inf
    for k in range(scores.size):
        if k != label and taken[k] == 0.0 and (best < 0 or scores[k] > value):
            best, value = k, scores[k]
    return best


@compiled
def _worst_pair(scores, labels):
    """The lowest relevant and the highest irrelevant label; -1 where there is none."""
    low, high = -1, -1
    for k in range(labels.size):
        if labels[k] == 1:
            if low < 0 or scores[k] < scores[low]:
                low = k
        elif high < 0 or scores[k] > scores[high]:
            high = k
    return low, high


@compiled
def pick(task, step, scores, labels, taken):
    """The two classes of a step: the output of the first must exceed that of the second.

    If there is no second class, -1, the sign says to which side the output of the first must move.
    """
    if task == SINGLE:
        return 0, -1, 1.0 if labels[0] == 1 else -1.0
    if task == TOP:
        rival = _rival(scores, labels[0], taken)
        if rival < 0:
            return -1, -1, 1.0
        taken[rival] = 1.0
        return labels[0], rival, 1.0
    if task == EACH:
        positive = labels[step] == 1 if labels.size > 1 else labels[0] == step
        return step, -1, 1.0 if positive else -1.0
    if step == 0:
        low, high = _worst_pair(scores, labels)
        return (low, high, 1.0) if low >= 0 and high >= 0 else (-1, -1, 1.0)
    label, threshold = step - 1, labels.size
    return (label, threshold, 1.0) if labels[label] == 1 else (threshold, label, 1.0)


@compiled
def mistaken(task, scores, labels, taken):
    """Whether the prediction is wrong; an output of zero is wrong on either side."""
    if task == SINGLE:
        return scores[0] <= 0.0 if labels[0] == 1 else scores[0] >= 0.0
    if labels.size == 1:
        return scores[labels[0]] <= scores[_rival(scores, labels[0], taken)]
    for k in range(labels.size):
        output = scores[k] - (scores[labels.size] if task == RANK else 0.0)
        if (output <= 0.0) if labels[k] == 1 else (output >= 0.0):
            return True
    return False
