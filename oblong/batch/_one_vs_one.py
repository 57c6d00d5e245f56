"""One-vs-one: the pairs of classes, their coefficients side by side, and their votes.

The layout is that of :class:`sklearn.svm.SVC`. With two classes a positive output means the
second class; with more, a positive output of the pair ``(i, j)``, ``i < j``, means class ``i``.
"""

from collections.abc import Iterable
from itertools import combinations

import numpy as np


def pairs_of(n_classes: int) -> list[tuple[int, int]]:
    """List the pairs as ``(positive class, negative class)``."""
    return [(1, 0)] if n_classes == 2 else list(combinations(range(n_classes), 2))


def places_of(positive: int, negative: int) -> tuple[int, int]:
    """Rows of the packed matrix for the two classes of a pair: the rank of the other class."""
    low, high = sorted((positive, negative))
    return (high - 1, low) if positive == low else (low, high - 1)


def unpack_coefficients(
    packed: np.ndarray, n_support: np.ndarray, some: slice = slice(None)
) -> np.ndarray:
    """Spread coefficients of shape (n_classes - 1, n), grouped by class, to (n_pairs, n).

    A row takes part only in the ``n_classes - 1`` pairs of its own class. Of ``some`` pairs only.
    """
    n_classes = len(n_support)
    ends = np.cumsum(n_support)
    starts = ends - n_support
    pairs = pairs_of(n_classes)[some]
    dense = np.zeros((len(pairs), packed.shape[1]), dtype=packed.dtype)
    for row, (positive, negative) in zip(dense, pairs):
        for cls, place in zip((positive, negative), places_of(positive, negative)):
            row[starts[cls] : ends[cls]] = packed[place, starts[cls] : ends[cls]]
    return dense


def pair_outcomes(outputs: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Votes and summed outputs of each class, both of shape (n, n_classes)."""
    confidence = np.zeros((len(outputs), n_classes))
    for column, (positive, negative) in zip(outputs.T, pairs_of(n_classes)):
        confidence[:, positive] += column
        confidence[:, negative] -= column
    return votes_of(outputs.T >= 0, outputs.shape[:1], n_classes).T.astype(np.float64), confidence


def votes_of(wins: Iterable[np.ndarray], shape: tuple[int, ...], n_classes: int) -> np.ndarray:
    """Votes of each class, of shape (n_classes, *shape).

    ``wins`` says for every pair, in the order of :func:`pairs_of`, where its positive class wins.
    """
    votes = np.zeros((n_classes, *shape), dtype=np.min_scalar_type(n_classes))
    for won, (positive, negative) in zip(wins, pairs_of(n_classes)):
        votes[positive] += won
        votes[negative] += ~won
    return votes


def class_scores(outputs: np.ndarray, n_classes: int) -> np.ndarray:
    """Votes, with the summed outputs squeezed into a third of a vote to part equal ones."""
    votes, confidence = pair_outcomes(outputs, n_classes)
    return votes + confidence / (3.0 * (np.abs(confidence) + 1.0))
