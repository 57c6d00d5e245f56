"""One example at a time, without the cost of a batch."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from oblong.solvers.online._checked import learn_one_full, learn_one_table
from oblong.solvers.online._shapes import row_scores
from oblong.solvers.online._single import learn_full, learn_table
from oblong.solvers.online.growth import grow, insert_output, split
from oblong.solvers.online.state import DIAGONAL, EACH, FULL, TOP, OnlineState, Rows

__all__ = ["OneRowMixin"]

# Passes that check the values of a vector themselves.
_CHECKED = {learn_table: learn_one_table, learn_full: learn_one_full}


class _OneRow:
    """Arrays of a batch of one row, made once."""

    __slots__ = (
        "all_columns",
        "checked",
        "codes",
        "dense",
        "dtype",
        "factor",
        "fixed",
        "label",
        "labels",
        "learn",
        "model",
        "order",
        "quick",
        "shape",
        "size",
        "sketched",
        "span",
        "state",
        "table",
        "weight",
    )

    def __init__(self, state: OnlineState, classes: np.ndarray) -> None:
        self.codes = {label: k for k, label in enumerate(classes.tolist())}
        self.order = np.zeros(1, dtype=np.int64)
        self.span = np.zeros(2, dtype=np.int64)
        self.labels = np.zeros((1, 1), dtype=np.int32)
        self.label = self.labels[0]
        self.weight = np.ones(1)
        self.factor, self.size = 1.0, 0
        self.attach(state)

    def attach(self, state: OnlineState) -> None:
        """Take the arrays of a model; looking them up at every example would take its time."""
        self.state, self.learn = state, state.one_pass
        self.checked = _CHECKED.get(self.learn) if state.table.dtype == np.float64 else None
        self.all_columns = np.arange(state.n_features, dtype=np.int32)
        # A sketch may be full.
        self.sketched = state.shape.shape[1] > state.shape.shape[2]
        self.dense, self.quick, self.table = None, False, state.table
        self.dtype, self.shape = state.table.dtype, (state.n_features,)
        self.model = (
            state.table,
            state.shape,
            state.scale,
            state.total,
            state.counters,
            state.work,
            state.settings,
            state.codes,
        )
        self.fixed = (
            self.all_columns,
            self.span,
            self.order,
            self.labels,
            self.weight,
            *self.model,
        )


def _with_label(classes: np.ndarray, label: Any) -> np.ndarray:
    """Classes with one more, sorted."""
    known = {*classes.tolist(), label}
    # Numbers among strings would become strings.
    mixed = len({isinstance(name, str) for name in known}) > 1
    if mixed:
        raise ValueError(f"{label!r} is not of the kind of the classes {classes.tolist()}")
    return np.unique(np.append(classes, [label]))


class OneRowMixin:
    """``learn_one`` and ``predict_one`` on dicts and arrays."""

    _one_row: _OneRow | None = None

    # Whether features and classes may appear while the learner learns.
    _takes_new_features: ClassVar[bool] = True

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
        # An array after an array, with all as before: every look-up counts here.
        one = self._one_row
        if (
            one is not None
            and one.quick
            and type(x) is np.ndarray
            and x.dtype is one.dtype
            and x.shape == one.shape
            and sample_weight == one.factor
            and one.state is self._state
            and one.table is one.state.table
            and x.flags.c_contiguous
            and self.__dict__.get("class_weight") is None
        ):
            try:
                one.label[0] = one.codes[y]
            except (KeyError, TypeError):
                return self._learn_one(x, y, sample_weight)
            if one.checked(x, *one.fixed) > 0:
                return self
        return self._learn_one(x, y, sample_weight)

    def _learn_one(self, x: Any, y: Any, sample_weight: float) -> OneRowMixin:
        one = self._one_row
        if one is None:
            one = self._open(x, y)
            if one is None:
                return self
        if y not in one.codes and not self._may_take_in_classes():
            raise ValueError(f"{y!r} is not among the classes {self.classes_.tolist()}")
        state = self._state
        if self.__dict__.get("class_weight") is not None:
            sample_weight *= self._factor(y)
        if one.factor != sample_weight:
            sample_weight = self._one_weight(sample_weight)
        dense = not isinstance(x, dict)
        if not dense:
            columns, values = self._columns(one, x, True)
        elif (
            type(x) is np.ndarray
            and x.dtype is one.dtype
            and x.shape == one.shape
            and x.flags.c_contiguous
            and math.isfinite(x.dot(x))
        ):
            columns, values = one.all_columns, x
        else:
            columns, values = one.all_columns, self._values(state, x)
        # All has been checked.
        if y not in one.codes:
            one = self._new_label(y)
        if one.factor != sample_weight:
            one.weight[0] = one.factor = sample_weight
        one.label[0] = one.codes[y]
        if one.state is not state or one.table is not state.table:
            one.attach(state)
        if one.dense is not dense:
            one.dense, state.codes[5] = dense, dense
            one.quick = dense and one.checked is not None
        if one.size != len(values):
            one.span[1] = one.size = len(values)
        if one.sketched:
            state.learn(Rows(values, columns, one.span, dense), one.labels, one.weight)
        else:
            one.learn(values, columns, one.span, one.order, one.labels, one.weight, *one.model)
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
        if self._is_calibrated():
            scores = self._logits(scores[None])[0]
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

    def _variances_one(self, columns: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Variances of the outputs for one example, of shape (1, n_outputs)."""
        state = self._state
        if state.structure not in (FULL, DIAGONAL):
            return state.variances(self._row_of(columns, values)).astype(np.float64)
        places = np.concatenate([[0], columns + 1])
        z = np.concatenate([[state.bias], values])
        if state.structure == FULL:
            found = state.shape[:, places[:, None], places] @ z @ z
        else:
            found = (z * z) @ state.table[places, state.n_outputs :]
        return np.maximum(found * state.scale[:, 0], 0.0)[None]

    def _row_of(self, columns: np.ndarray, values: np.ndarray) -> sp.csr_array:
        """A matrix of one row."""
        spans = np.array([0, len(values)])
        row = sp.csr_array((values, columns, spans), shape=(1, self._state.n_features))
        row.sort_indices()
        return row

    # The row -------------------------------------------------------------------------------------

    def _open(self, x: Any, y: Any) -> _OneRow | None:
        """Make the arrays of one row, and the model if there are two classes now."""
        state = self.__dict__.get("_state")
        if state is None:
            if "_only" not in self.__dict__:
                self._validate_params()
            if "_only" not in self.__dict__ or self._only == y:
                # Nothing to tell apart yet; but the example counts.
                self._only, self._waiting = y, self.__dict__.get("_waiting", 0) + 1
                return None
            self._declare(_with_label(np.array([self._only]), y), None, False)
            self._vocabulary = {} if isinstance(x, dict) else None
            self.n_features_in_ = 0 if isinstance(x, dict) else np.shape(x)[0]
            dtype = np.float32 if getattr(x, "dtype", None) == np.float32 else np.float64
            state = self._new_state(dtype)
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
        # Compiled loops are for contiguous rows.
        x = np.ascontiguousarray(x) if x.ndim == 1 else x
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
            new, state = [name for name in x if name not in vocabulary], self._state
            self._check_size(state.structure, state.n_outputs, len(vocabulary) + len(new))
            for name in new:
                vocabulary[name] = len(vocabulary)
            self._know(vocabulary)
            grow(state, self.n_features_in_)
            state.settings[:4] = self._rule(self.n_features_in_)[1:5]
            one.attach(state)
            columns = np.fromiter(map(vocabulary.__getitem__, x), dtype=np.int32, count=n)
        return columns, values

    def _know(self, vocabulary: dict) -> None:
        """Take a vocabulary with more features than before."""
        self._vocabulary, self.n_features_in_ = vocabulary, len(vocabulary)
        if "feature_names_in_" in self.__dict__:
            names = list(vocabulary)
            if all(isinstance(name, str) for name in names):
                self.feature_names_in_ = np.array(names, dtype=object)
            else:
                del self.feature_names_in_

    def _feature_names(self) -> list:
        """Names of the columns, or their numbers."""
        vocabulary = self.__dict__.get("_vocabulary")
        if vocabulary is None:
            names = self.__dict__.get("feature_names_in_", range(self.n_features_in_))
            return list(names)
        return list(vocabulary)

    def _one_weight(self, sample_weight: float) -> float:
        if not 0.0 <= sample_weight < math.inf or (not self._is_soft() and sample_weight % 1.0):
            raise ValueError(
                "sample_weight must be a finite number, not negative, and whole for a rule "
                "without a cost"
            )
        return float(sample_weight)

    def _may_take_in_classes(self) -> bool:
        return self.__dict__.get("_discovers", False) or self.allow_new_classes

    def _new_label(self, y: Any) -> _OneRow:
        """Take in a class that was not known."""
        self._insert_class(y)
        self._one_row = _OneRow(self._state, self.classes_)
        return self._one_row

    def _insert_class(self, label: Any) -> None:
        """Make room for a class, keeping the classes sorted."""
        classes = _with_label(self.classes_, label)
        self._check_size(self._state.structure, len(classes), self._state.n_features)
        place = classes.tolist().index(label)
        if len(self.classes_) == 2:
            each = self.multi_class == "ovr"
            structure = self._structure_of(EACH if each else TOP)
            split(self._state, one_vs_rest=each, structure=structure)
            if self.multi_class == "kbest":
                self._state.codes[3] = self.k_best
        insert_output(self._state, place)
        self.classes_ = classes

    def __getstate__(self) -> dict:
        state = super().__getstate__()
        state.pop("_one_row", None)
        return state
