"""One example at a time, without the cost of a batch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from oblong.solvers.online._pass import learn_rows
from oblong.solvers.online._shapes import row_scores
from oblong.solvers.online.growth import grow, insert_output, split
from oblong.solvers.online.state import OnlineState, Rows

__all__ = ["OneRowMixin"]


class _OneRow:
    """Arrays of a batch of one row, made once."""

    __slots__ = ("all_columns", "codes", "label", "labels", "order", "span", "weight")

    def __init__(self, state: OnlineState, classes: np.ndarray) -> None:
        self.codes = {label: k for k, label in enumerate(classes.tolist())}
        self.order = np.zeros(1, dtype=np.int64)
        self.span = np.zeros(2, dtype=np.int64)
        self.labels = np.zeros((1, 1), dtype=np.int32)
        self.label = self.labels[0]
        self.weight = np.ones(1)
        self.all_columns = np.arange(state.n_features, dtype=np.int32)


class OneRowMixin:
    """``learn_one`` and ``predict_one`` on dicts and arrays."""

    def learn_one(self, x: Any, y: Any, sample_weight: float = 1.0) -> OneRowMixin:
        """Learn from one example.

        Parameters
        ----------
        x : dict or ndarray of shape (n_features,)
            The example: values by feature, where new features may appear at any time and missing
            ones are zero; or all values.
        y : label
            Its class. A learner that has not seen a batch takes classes as they come.
        sample_weight : float, default=1.0
            Its weight.

        Returns
        -------
        self : object
            The learner.
        """
        one = self.__dict__.get("_one_row")
        if one is None:
            one = self._open(x, y)
            if one is None:
                return self
        try:
            code = one.codes[y]
        except (KeyError, TypeError):
            one = self._new_label(y)
            code = one.codes[y]
        state = self._state
        if one.weight[0] != sample_weight:
            one.weight[0] = self._one_weight(sample_weight)
        one.label[0] = code
        if isinstance(x, dict):
            columns, values = self._columns(one, x, True)
            state.codes[5] = 0
        else:
            columns, values = one.all_columns, self._values(state, x)
            state.codes[5] = 1
        one.span[1] = values.size
        if state.shape.shape[1] > state.shape.shape[2]:
            # A sketch may be full.
            state.learn(
                Rows(values, columns, one.span, state.codes[5] == 1), one.labels, one.weight
            )
            return self
        learn_rows(
            values,
            columns,
            one.span,
            one.order,
            one.labels,
            one.weight,
            state.table,
            state.shape,
            state.scale,
            state.total,
            state.counters,
            state.work,
            state.settings,
            state.codes,
        )
        return self

    def predict_one(self, x: Any) -> Any:
        """Predict the class of one example.

        Parameters
        ----------
        x : dict or ndarray of shape (n_features,)
            The example; features that were never learned from are ignored.

        Returns
        -------
        label
            The class.
        """
        scores = self._scores_one(x)
        if scores is None:
            return self._only
        if scores.size == 1:
            return self.classes_[1 if scores[0] > 0.0 else 0]
        return self.classes_[scores.argmax()]

    def _scores_one(self, x: Any) -> np.ndarray | None:
        """Outputs for one example; None if only one class has been seen."""
        state = self.__dict__.get("_state")
        if state is None:
            if "_only" in self.__dict__:
                return None
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet")
        one = self.__dict__.get("_one_row")
        if one is None:
            one = self._open(x, None)
        if isinstance(x, dict):
            columns, values = self._columns(one, x, False)
        else:
            columns, values = one.all_columns, self._values(state, x)
        scores = state.work[: state.n_outputs]
        row_scores(columns, values, state.bias, state.table, scores)
        if state.total.shape[0] and state.rounds:
            last = scores.copy()
            row_scores(columns, values, state.bias, state.total, scores)
            scores = last - scores / state.rounds
        return scores

    # The row -------------------------------------------------------------------------------------

    def _open(self, x: Any, y: Any) -> _OneRow | None:
        """Make the arrays of one row, and the model if there are two classes now."""
        state = self.__dict__.get("_state")
        if state is None:
            if "_only" not in self.__dict__ or self._only == y:
                # Nothing to tell apart yet; but the example counts.
                self._only, self._waiting = y, self.__dict__.get("_waiting", 0) + 1
                return None
            self._validate_params()
            self._declare([self._only, y], None, False)
            self._vocabulary = {} if isinstance(x, dict) else None
            self.n_features_in_ = 0 if isinstance(x, dict) else np.shape(x)[0]
            dtype = np.float32 if getattr(x, "dtype", None) == np.float32 else np.float64
            state = self._new_state(self._rule(self.n_features_in_), dtype)
            state.counters[0] = self._waiting
            self._state, self._discovers, self.n_iter_ = state, True, 1
            del self._only, self._waiting
        elif isinstance(x, dict) and self.__dict__.get("_vocabulary") is None:
            names = getattr(self, "feature_names_in_", range(self.n_features_in_))
            self._vocabulary = {name: j for j, name in enumerate(names)}
        if self.multilabel_:
            raise ValueError("Single examples have one class; use partial_fit for label sets")
        self._one_row = _OneRow(state, self.classes_)
        return self._one_row

    def _values(self, state: OnlineState, x: Any) -> np.ndarray:
        """Check an array, cheaply."""
        if type(x) is not np.ndarray or x.dtype != state.table.dtype:
            x = np.asarray(x, dtype=state.table.dtype)
        if x.ndim != 1 or x.size != state.n_features:
            raise ValueError(f"Expected a vector of {state.n_features} features, got {x.shape}")
        if not math.isfinite(x.dot(x)):
            raise ValueError("The example contains NaN, infinity or numbers that are too large")
        return x

    def _columns(self, one: _OneRow, x: dict, learns: bool) -> tuple[np.ndarray, np.ndarray]:
        """Columns and values of a dict, whose new features get new columns."""
        vocabulary = self.__dict__.get("_vocabulary")
        if vocabulary is None:
            del self._one_row
            one, vocabulary = self._open(x, None), self._vocabulary
        n = len(x)
        values = np.fromiter(x.values(), dtype=self._state.table.dtype, count=n)
        if not math.isfinite(values.dot(values)):
            raise ValueError("The example contains NaN, infinity or numbers that are too large")
        try:
            columns = np.fromiter(map(vocabulary.__getitem__, x), dtype=np.int32, count=n)
        except KeyError:
            if not learns:
                kept = [(vocabulary[name], x[name]) for name in x if name in vocabulary]
                columns = np.array([j for j, _ in kept], dtype=np.int32)
                return columns, np.array([value for _, value in kept], dtype=values.dtype)
            for name in x:
                vocabulary.setdefault(name, len(vocabulary))
            self.n_features_in_ = len(vocabulary)
            grow(self._state, self.n_features_in_)
            self._state.settings[:4] = self._rule(self.n_features_in_)[1:5]
            one.all_columns = np.arange(self.n_features_in_, dtype=np.int32)
            columns = np.fromiter(map(vocabulary.__getitem__, x), dtype=np.int32, count=n)
        return columns, values

    def _one_weight(self, sample_weight: float) -> float:
        soft = self._rule(self.n_features_in_).soft
        if not 0.0 <= sample_weight < math.inf or (not soft and sample_weight % 1.0):
            raise ValueError(
                "sample_weight must be a finite number, not negative, and whole for a rule "
                "without a cost"
            )
        return float(sample_weight)

    def _new_label(self, y: Any) -> _OneRow:
        """Take in a class that was not known."""
        if not (self.__dict__.get("_discovers") or self.allow_new_classes):
            raise ValueError(f"{y!r} is not among the classes {self.classes_.tolist()}")
        self._insert_class(y)
        self._one_row = _OneRow(self._state, self.classes_)
        return self._one_row

    def _insert_class(self, label: Any) -> None:
        """Make room for a class, keeping the classes sorted."""
        classes = np.unique(np.append(self.classes_, np.asarray([label])))
        place = int(np.searchsorted(classes, label))
        if len(self.classes_) == 2:
            split(self._state, one_vs_rest=self.multi_class == "ovr")
            if self.multi_class == "kbest":
                self._state.codes[3] = self.k_best
        insert_output(self._state, place)
        self.classes_ = classes

    def __getstate__(self) -> dict:
        state = super().__getstate__()
        state.pop("_one_row", None)
        return state
