"""Batches of rows, and what was predicted for them before they were learned from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from oblong.solvers.online.rows import Rows


class CodedRows(NamedTuple):
    """A batch of rows whose labels are numbers.

    Attributes
    ----------
    X : {ndarray, DataFrame, CSR matrix, Rows} of shape (n_rows, n_columns)
        The rows. Sparse ones need not have as many columns as there are.
    codes : ndarray of int, of shape (n_rows,)
        Their labels, as positions in ``labels``.
    labels : sequence
        What the codes mean.
    weights : ndarray of shape (n_rows,), default=None
        Weights of the rows.
    """

    X: Any
    codes: np.ndarray
    labels: Sequence[Any]
    weights: np.ndarray | None = None

    def part(self, start: int, stop: int) -> CodedRows:
        """Some consecutive rows."""
        weights = None if self.weights is None else self.weights[start:stop]
        return CodedRows(span(self.X, start, stop), self.codes[start:stop], self.labels, weights)

    def singles(self) -> Iterator[tuple[Any, Any, float]]:
        """The rows one by one, each with its label and weight; sparse rows stay matrices."""
        X = self.X.to_numpy() if hasattr(self.X, "to_numpy") else self.X
        for i, code in enumerate(self.codes.tolist()):
            x = span(X, i, i + 1) if is_sparse(X) else X[i]
            yield x, self.labels[code], 1.0 if self.weights is None else float(self.weights[i])


class Predicted(NamedTuple):
    """What was predicted for the rows of a batch, each before it was learned from.

    Attributes
    ----------
    codes : ndarray of int, of shape (n_rows,)
        The true labels.
    guesses : ndarray of int, of shape (n_rows,)
        The predicted ones; -1 where there was no class yet, or the row has no weight.
    scores : ndarray of shape (n_rows,)
        Decision values for the second of two classes; nan if there are not two.
    chances : ndarray of shape (n_rows,)
        Probability of the true class, of calibrated models; else nan.
    weights : ndarray of shape (n_rows,), or None
        Weights of the rows.
    second : int
        The label for which scores are large; -1 if there are not two classes.
    """

    codes: np.ndarray
    guesses: np.ndarray
    scores: np.ndarray
    chances: np.ndarray
    weights: np.ndarray | None
    second: int

    @property
    def wrong(self) -> np.ndarray:
        """Which rows were misclassified; a decision value of zero counts as a mistake."""
        return (self.guesses != self.codes) | (self.scores == 0.0)

    @classmethod
    def blank(cls, codes: np.ndarray, weights: np.ndarray | None) -> Predicted:
        """Nothing yet."""
        scores, chances = np.full((2, len(codes)), np.nan)
        return cls(codes, np.full(len(codes), -1), scores, chances, weights, -1)


def note(
    found: Predicted,
    rows: np.ndarray,
    labels: Sequence[Any],
    classes: list[Any],
    values: np.ndarray,
    calibrated: bool,
    new: Any = None,
) -> None:
    """Turn decision values of rows into what was predicted.

    Parameters
    ----------
    found : Predicted
        Gets it.
    rows : ndarray of int
        The rows of the batch.
    labels : sequence
        What the codes of the batch mean.
    classes : list
        Classes of the model.
    values : ndarray of shape (n_rows, n_outputs)
        Decision values; infinite for rows that have none.
    calibrated : bool
        Whether they are logits.
    new : label, default=None
        A class of the model that was not there before, and so was not predicted.
    """
    # A model that is only tested may know classes which no row has.
    places = np.array([labels.index(c) if c in labels else -2 for c in classes])
    known = np.isfinite(values[:, 0])
    values = np.where(known[:, None], values, 0.0)
    if len(classes) == 2:
        best = (values[:, 0] > 0.0).astype(int)
        found.scores[rows] = np.where(known, values[:, 0], np.nan)
        values = np.hstack([-values, values])
    else:
        shown = values.copy()
        if new is not None:
            shown[:, classes.index(new)] = -np.inf
        best = shown.argmax(axis=1)
    found.guesses[rows] = np.where(known, places[best], -1)
    if calibrated:
        p = 1.0 / (1.0 + np.exp(-np.clip(values, -500.0, 500.0)))
        true = found.codes[rows][:, None] == places
        chance = (p * true).sum(axis=1) / p.sum(axis=1)
        found.chances[rows] = np.where(known, chance, np.nan)


def is_sparse(X: Any) -> bool:
    """Whether rows have only some of their columns."""
    return hasattr(X, "indptr")


def matrix(parts: tuple[np.ndarray, ...], shape: tuple[int, int]) -> Any:
    """Rows as a matrix of SciPy; their columns are sorted."""
    # Here, since most streams need no SciPy.
    import scipy.sparse as sp

    found = sp.csr_matrix(parts, shape=shape)
    found.has_canonical_format = True
    return found


def taken(X: Any, rows: np.ndarray) -> Any:
    """Some rows."""
    if isinstance(X, Rows):
        return X.taken(rows)
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def span(X: Any, start: int, stop: int) -> Any:
    """Some consecutive rows."""
    if start == 0 and stop == X.shape[0]:
        return X
    if isinstance(X, Rows):
        return X.part(start, stop)
    return X.iloc[start:stop] if hasattr(X, "iloc") else X[start:stop]
