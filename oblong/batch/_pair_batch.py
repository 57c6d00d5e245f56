"""The pairs of classes of a fit as groups of one grid of margin problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from oblong.batch._one_vs_one import pairs_of, places_of
from oblong.batch._pairwise import PairFit, PairTable
from oblong.solvers.margin.grid import STATUS, GridResult, Groups
from oblong.solvers.margin.problem import Pieces, svm_pieces

# Why a solver stopped; of an indefinite kernel no gap can be proved.
REASONS = (*STATUS, "indefinite")


@dataclass(frozen=True)
class ClassPairs:
    """Rows by class, and the pairs of classes.

    Attributes
    ----------
    labels : int ndarray of shape (n,)
        The class of each row, counted from zero.
    rows : list of int ndarray
        The rows of each class.
    """

    labels: np.ndarray
    rows: list[np.ndarray]

    @classmethod
    def of(cls, labels: np.ndarray) -> ClassPairs:
        """Sort rows by their labels, which count from zero."""
        order = np.argsort(labels, kind="stable")
        return cls(labels, np.split(order, np.cumsum(np.bincount(labels))[:-1]))

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The positive and the negative class of each pair."""
        return pairs_of(len(self.rows))

    @cached_property
    def members(self) -> list[np.ndarray]:
        """Rows of each pair: in their own order where there are no others, else class by class."""
        if len(self.rows) == 2:
            return [np.arange(len(self.labels))]
        return [np.concatenate([self.rows[i], self.rows[j]]) for i, j in self.pairs]

    @cached_property
    def y(self) -> list[np.ndarray]:
        """Labels of the rows of each pair, -1 or +1."""
        return [
            np.where(self.labels[rows] == positive, 1.0, -1.0)
            for rows, (positive, _) in zip(self.members, self.pairs)
        ]

    def svm_pieces(self, penalties: np.ndarray) -> Pieces:
        """Terms of the support vector machines of all pairs, pair after pair."""
        return svm_pieces(np.concatenate(self.y), penalties[np.concatenate(self.members)])

    def groups(self, pieces: Pieces, folds: np.ndarray | None = None) -> Groups:
        """The pairs as groups of a grid; ``folds`` are those of all rows."""
        return Groups.of(
            self.members, pieces, None if folds is None else folds[np.concatenate(self.members)]
        )

    def packed(self, coefs: Sequence[np.ndarray]) -> np.ndarray:
        """Coefficients of all pairs side by side, as :class:`PairTable` has them, row by row."""
        out = np.zeros((len(self.rows) - 1, len(self.labels)))
        for coef, rows, pair in zip(coefs, self.members, self.pairs):
            places = np.empty(len(self.rows), dtype=np.intp)
            places[list(pair)] = places_of(*pair)
            out[places[self.labels[rows]], rows] = coef
        return out

    def unpacked(self, packed: np.ndarray) -> list[np.ndarray]:
        """The coefficients of each pair, from those side by side."""
        out = []
        for rows, pair in zip(self.members, self.pairs):
            places = np.empty(len(self.rows), dtype=np.intp)
            places[list(pair)] = places_of(*pair)
            out.append(packed[places[self.labels[rows]], rows])
        return out

    def table(self, found: PairSolutions) -> PairTable:
        """The models of all pairs, as a classifier stores them."""
        order = np.concatenate(self.rows)
        return PairTable(
            order,
            self.packed(found.coefs)[:, order],
            found.bias,
            found.objective,
            found.relative_gap,
            found.n_iter,
            found.directions,
            bool((found.status == 0).all()),
        )


@dataclass
class PairSolutions:
    """Models of all pairs of classes, with their certificates.

    Attributes
    ----------
    coefs : list of ndarray
        Coefficients of the rows of each pair.
    directions : list of ndarray or None
        Weight vectors of the linear kernel, where they are known better than by coefficients.
    bias, objective, relative_gap : ndarray of shape (n_pairs,)
        As in :class:`PairFit`.
    n_iter, status : int ndarray of shape (n_pairs,)
        Steps, and a number that :data:`REASONS` names.
    rounded : bool ndarray of shape (n_pairs,)
        Whether most of the gap is rounding.
    B, theta, largest : ndarray of shape (n_pairs,)
        The bound on the outputs, the largest one of the support vector machine, and of the model.
    """

    coefs: list[np.ndarray]
    directions: list[np.ndarray | None]
    bias: np.ndarray
    objective: np.ndarray
    relative_gap: np.ndarray
    n_iter: np.ndarray
    status: np.ndarray
    rounded: np.ndarray
    B: np.ndarray
    theta: np.ndarray
    largest: np.ndarray

    @classmethod
    def of_grid(cls, found: GridResult, k: int = -1) -> PairSolutions:
        """One variant of every group, the last one by default."""
        values = found.values[:, k]
        linear = found.weights.size > 0
        return cls(
            [scale * coefs[k] for scale, coefs in zip(values["scale"], found.coefs)],
            list(found.weights[:, k]) if linear else [None] * len(values),
            found.bias[:, k],
            values["objective"].copy(),
            found.relative_gap[:, k],
            found.values["n_iter"].sum(axis=1),
            values["status"].copy(),
            found.rounded[:, k],
            values["bound"].copy(),
            values["theta"].copy(),
            values["largest"].copy(),
        )

    @classmethod
    def of_fits(cls, fits: Sequence[PairFit], results: Sequence[Any]) -> PairSolutions:
        """Models that were solved one by one; results have ``B``, ``theta`` and ``outputs``."""
        return cls(
            [fit.coef for fit in fits],
            [fit.direction for fit in fits],
            np.array([fit.bias for fit in fits]),
            np.array([fit.objective for fit in fits]),
            np.array([fit.relative_gap for fit in fits]),
            np.array([fit.n_iter for fit in fits]),
            np.array([REASONS.index(fit.status) for fit in fits]),
            np.array([fit.rounded for fit in fits]),
            np.array([found.B for found in results]),
            np.array([found.theta for found in results]),
            np.array([np.abs(found.outputs).max() for found in results]),
        )

    def withdraw(self) -> None:
        """Take the certificates back: the kernel is indefinite."""
        self.relative_gap[:], self.status[:] = np.inf, REASONS.index("indefinite")

    def replace(self, k: int, fit: PairFit, result: Any) -> None:
        """Take another model of a pair."""
        self.coefs[k], self.directions[k] = fit.coef, fit.direction
        other = PairSolutions.of_fits([fit], [result])
        for name in (
            "bias", "objective", "relative_gap", "n_iter", "status", "rounded", "B", "theta",
            "largest",
        ):  # fmt: skip
            getattr(self, name)[k] = getattr(other, name)[0]

    def unconverged(self) -> list[PairFit]:
        """What a warning says of the pairs that have no solution to the tolerance."""
        return [
            PairFit(
                None,
                self.coefs[k],
                float(self.bias[k]),
                float(self.objective[k]),
                float(self.relative_gap[k]),
                int(self.n_iter[k]),
                REASONS[self.status[k]],
                rounded=bool(self.rounded[k]),
            )
            for k in np.flatnonzero(self.status)
        ]
