"""Cross-conformal p-values per class.

Vovk, "Cross-conformal predictors", Annals of Mathematics and Artificial Intelligence 74 (2015):
each row is scored by the model that has not seen it, a new row by the models of all folds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Scores that differ by less, next to one and their size, are equal: outputs of the folds may have
# been computed in single precision. Without it a copy of a row would conform worse than the row.
_EQUAL = 1e-5


def conformity_of_pairs(
    log_odds: np.ndarray, pairs: Sequence[tuple[int, int]], n_classes: int
) -> np.ndarray:
    """Conformity of every class: the least log odds with which it wins a pair."""
    least = np.full((len(log_odds), n_classes), np.inf)
    for z, (first, second) in zip(log_odds.T, pairs):
        np.minimum(least[:, first], z, out=least[:, first])
        np.minimum(least[:, second], -z, out=least[:, second])
    return least


def conformity_of_rest(outputs: np.ndarray) -> np.ndarray:
    """Conformity of every class: its output minus the largest of the others."""
    best = outputs.argmax(axis=1)[:, None]
    top, second = np.partition(outputs, -2, axis=1)[:, [-1, -2]].T
    rival = np.repeat(top[:, None], outputs.shape[1], axis=1)
    np.put_along_axis(rival, best, second[:, None], axis=1)
    return outputs - rival


def p_values(
    own: np.ndarray, labels: np.ndarray, fold_of: np.ndarray, new: Sequence[np.ndarray]
) -> np.ndarray:
    """P-values of every class for new rows.

    Parameters
    ----------
    own : ndarray of shape (n,)
        Conformity of each row to its own class, by the model of its fold.
    labels : ndarray of int of shape (n,)
        Classes of the rows by number.
    fold_of : ndarray of int of shape (n,)
        Folds of the rows.
    new : sequence of ndarray of shape (m, n_classes)
        For each fold, the conformity of the new rows to every class by its model.

    Returns
    -------
    ndarray of shape (m, n_classes)
        One plus the number of rows of the class that conform no better than the new row, over
        one plus their number.
    """
    n_classes = new[0].shape[1]
    counts = np.ones(new[0].shape)
    for fold, given in enumerate(new):
        scores = given + _EQUAL * (1.0 + np.abs(given))
        for cls in range(n_classes):
            known = np.sort(own[(fold_of == fold) & (labels == cls)])
            counts[:, cls] += np.searchsorted(known, scores[:, cls], side="right")
    return counts / (np.bincount(labels, minlength=n_classes) + 1.0)
