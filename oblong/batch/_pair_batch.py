"""The pairs of classes of a fit as one batch of margin problems, over rows sorted by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oblong.batch._one_vs_one import pairs_of, places_of
from oblong.batch._pairwise import PairFit, PairTable
from oblong.solvers.margin.batch.problem import (
    STATUS,
    BatchResult,
    MarginBatch,
    rows_of_segments,
)


@dataclass(frozen=True)
class PairBatch:
    """Rows sorted by class, and the pairs of classes as groups of a batch.

    Attributes
    ----------
    order : int ndarray of shape (n,)
        The rows, sorted by class.
    counts : int ndarray of shape (n_classes,)
        How many there are of each class.
    """

    order: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, labels: np.ndarray) -> PairBatch:
        """Sort rows by their labels, which count from zero."""
        return cls(np.argsort(labels, kind="stable"), np.bincount(labels))

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The positive and the negative class of each pair."""
        return pairs_of(len(self.counts))

    @property
    def spans(self) -> np.ndarray:
        """Where the two classes of each pair begin and end, of shape (n_pairs, 2, 2)."""
        ends = np.concatenate([[0], np.cumsum(self.counts)])
        return np.column_stack([ends[:-1], ends[1:]])[np.array(self.pairs)]

    def members(self) -> list[np.ndarray]:
        """Rows of each pair, in the order of its segments."""
        return [np.concatenate([self.order[slice(*span)] for span in both]) for both in self.spans]

    def problems(self, matrix: Any, penalties: np.ndarray, **settings: Any) -> MarginBatch:
        """The batch over the kernel matrix of the sorted rows."""
        signs = np.tile([1.0, -1.0], (len(self.pairs), 1))
        return MarginBatch(matrix, self.spans, signs, penalties[self.order], **settings)

    def table(self, found: BatchResult) -> PairTable:
        """The last problem of each pair, as the classifier stores it."""
        packed = np.zeros((len(self.counts) - 1, len(self.order)))
        segments = self.spans.reshape(-1, 2)
        places = np.ravel([places_of(*pair) for pair in self.pairs])
        against = np.repeat(places, segments[:, 1] - segments[:, 0])
        last = np.concatenate([coefs[-1] for coefs in found.coefs])
        packed[against, rows_of_segments(segments)] = last
        return PairTable(
            self.order,
            packed,
            found.bias[:, -1],
            found.objective[:, -1],
            found.relative_gap[:, -1],
            found.n_iter.sum(axis=1),
            () if found.directions is None else list(found.directions[:, -1]),
            not found.status[:, -1].any(),
        )


def unconverged(found: BatchResult) -> Sequence[PairFit]:
    """The pairs whose last problem has no solution to the tolerance."""
    return [
        PairFit(
            None,
            found.coefs[g][-1],
            bias=float(found.bias[g, -1]),
            objective=float(found.objective[g, -1]),
            relative_gap=float(found.relative_gap[g, -1]),
            n_iter=int(found.n_iter[g].sum()),
            status=STATUS[found.status[g, -1]],
            rounded=bool(found.rounded[g, -1]),
        )
        for g in np.flatnonzero(found.status[:, -1])
    ]
