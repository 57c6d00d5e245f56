"""What was predicted for rows before they were learned from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Predicted", "note"]


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
