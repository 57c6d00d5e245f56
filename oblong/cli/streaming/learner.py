"""A learner that takes rows, columns and classes as they come.

The rows of a batch are learned from by one call of :meth:`partial_fit`. Wherever the model has to
change its form in front of a row, because the row is the first of its class or has a column that
is new, the batch is cut there, so that batches of any size give the same model as single rows.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from oblong.cli.shared.errors import RunError
from oblong.solvers.online.growth import grow
from oblong.solvers.online.state import DIAGONAL, FULL, NONE, OnlineState
from oblong.streams import Batch

__all__ = ["StreamLearner", "copies"]

# A model that has grown beyond has done so by mistake rather than on purpose.
_LARGEST_MODEL = 2.0**34


class StreamLearner:
    """Progressive validation: every row is predicted before it is learned from.

    Parameters
    ----------
    model : OnlineClassifier
        The learner; it has not seen anything, or comes from a checkpoint.
    width : int or None
        Number of columns; None if they appear as the rows come.
    declared : bool
        Whether all classes are known from the start.

    Attributes
    ----------
    classes : list
        The classes so far, in the order in which they appeared.
    surprises : int
        Mistakes which the model itself does not count: rows of classes that were not known.
    waited : int
        Rows before there were two classes, in copies.
    width : int
        Columns so far.
    messages : list of str
        Warnings of the model, each once.
    """

    def __init__(self, model: Any, width: int | None, declared: bool) -> None:
        self.model = model
        self.fixed = width is not None
        self.declared = declared
        self.classes: list[Any] = []
        self.surprises = 0
        self.waited = 0
        self.width = width or 0
        self.messages: list[str] = []

    @property
    def started(self) -> bool:
        """Whether there is a model: two classes are known."""
        return hasattr(self.model, "classes_")

    @property
    def mistakes(self) -> int:
        """Rows that were predicted wrongly, each of the copies that its weight stands for.

        A row of a class that was never seen before, and not declared either, counts as one.
        """
        return self.surprises + (self.model.n_mistakes_ if self.started else 0)

    def learn(self, batch: Batch, labels: Sequence[Any]) -> None:
        """Predict each row of a batch, and then learn from it.

        Parameters
        ----------
        batch : Batch
            The rows.
        labels : sequence
            What their codes mean.
        """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self._learn(batch, labels)
        for warning in caught:
            text = str(warning.message)
            if issubclass(warning.category, ConvergenceWarning) and text not in self.messages:
                self.messages.append(text)

    def _learn(self, batch: Batch, labels: Sequence[Any]) -> None:
        batch = _with_weight(batch)
        y = np.array(labels)[batch.codes]
        widths = self._widths(batch)
        if self.declared:
            self.classes = list(labels)
        for start, stop in self._pieces(batch.codes, widths):
            if widths is not None and widths[stop - 1] > self.width:
                self._widen(int(widths[stop - 1]))
            # A row of a new class makes a piece of its own.
            new = labels[batch.codes[start]] not in self.classes
            if new:
                self.classes.append(labels[batch.codes[start]])
            weights = None if batch.weights is None else batch.weights[start:stop]
            if len(self.classes) < 2:
                self.surprises += new
                self.waited += stop - start if weights is None else copies(weights)
                continue
            if not new:
                self._fit(batch, y, start, stop, weights)
                continue
            # The first copy is a mistake, whatever was predicted; the others are rows as any.
            before = self.model.n_mistakes_ if self.started else 0
            self._fit(batch, y, start, stop, None if weights is None else np.minimum(weights, 1.0))
            self.surprises += 1 - (self.model.n_mistakes_ - before)
            if weights is not None and weights[0] > 1.0:
                self._fit(batch, y, start, stop, weights - 1.0)

    def _fit(
        self, batch: Batch, y: np.ndarray, start: int, stop: int, weights: np.ndarray | None
    ) -> None:
        first = not self.started
        begin, end = batch.indptr[start], batch.indptr[stop]
        values = batch.values[begin:end]
        if batch.columns is None:
            X = values.reshape(stop - start, -1)
        else:
            parts = (values, batch.columns[begin:end], batch.indptr[start : stop + 1] - begin)
            # A model has at least one column.
            self.width = max(1, self.width)
            X = sp.csr_matrix(parts, shape=(stop - start, self.width))
            X.has_canonical_format = True
        try:
            self.model.partial_fit(
                X, y[start:stop], classes=self.classes if first else None, sample_weight=weights
            )
        except ValueError as error:
            raise RunError(str(error).splitlines()[0]) from error
        if first and self.waited:
            self.model._state.counters[0] += self.waited

    # Changes of form -----------------------------------------------------------------------------

    def _widths(self, batch: Batch) -> np.ndarray | None:
        """Columns that are known after each row, if they are not known at all times."""
        if self.fixed or batch.columns is None:
            return None
        filled = np.diff(batch.indptr) > 0
        largest = np.zeros(len(batch), dtype=np.int64)
        # Columns are sorted: the last of a row is the largest.
        largest[filled] = batch.columns[batch.indptr[1:][filled] - 1] + 1
        return np.maximum.accumulate(np.maximum(largest, self.width))

    def _pieces(self, codes: np.ndarray, widths: np.ndarray | None) -> list[tuple[int, int]]:
        """Cut the rows in front of those that change the form of the model."""
        cuts = {0, len(codes)}
        if not self.declared:
            first = np.unique(codes, return_index=True)[1]
            cuts |= {*first.tolist(), *(first + 1).tolist()}
        if widths is not None and not self._may_widen_early():
            cuts |= set(np.flatnonzero(np.diff(widths, prepend=self.width) > 0).tolist())
        places = sorted(cuts)
        return list(itertools.pairwise(places))

    def _may_widen_early(self) -> bool:
        """Whether columns that no row has had yet make no difference to the model."""
        if not self.started:
            return False
        model, state = self.model, self.model._state
        free = isinstance(state, OnlineState) and state.structure in (NONE, DIAGONAL)
        return free and model._rule(self.width)[1:5] == model._rule(self.width + 1)[1:5]

    def _widen(self, width: int) -> None:
        self.width = width
        if not self.started:
            return
        state = self.model._state
        if not isinstance(state, OnlineState):
            raise RunError(
                f"{type(self.model).__name__} needs to know the number of features: give "
                "--features or --hash-bits"
            )
        size = 2.0 * width * state.table.itemsize * state.table.shape[1]
        if state.structure == FULL:
            size += 9.0 * width * width * state.n_outputs
        elif state.shape.size:
            size += 16.0 * width * state.shape.shape[2] * state.n_outputs
        if size > _LARGEST_MODEL:
            raise RunError(
                f"a model of {width:,} features does not fit in memory; hash them with "
                "--hash-bits, or use --param covariance=diag"
            )
        grow(state, width)
        self.model.n_features_in_ = width
        state.settings[:4] = self.model._rule(width)[1:5]


def copies(weights: np.ndarray) -> int:
    """How many rows those of some weights stand for; what is left of a whole one counts as one.

    Examples
    --------
    >>> import numpy as np
    >>> from oblong.cli.streaming.learner import copies
    >>> copies(np.array([2.0, 0.5, 0.0]))
    3
    """
    return int(np.ceil(weights).sum())


def _with_weight(batch: Batch) -> Batch:
    """Leave out rows of weight zero."""
    if batch.weights is None or batch.weights.all():
        return batch
    kept = batch.weights > 0.0
    lengths = np.diff(batch.indptr)
    entries = np.repeat(kept, lengths)
    return replace(
        batch,
        values=batch.values[entries],
        columns=None if batch.columns is None else batch.columns[entries],
        indptr=np.concatenate([[0], np.cumsum(lengths[kept])]),
        codes=batch.codes[kept],
        weights=batch.weights[kept],
    )
