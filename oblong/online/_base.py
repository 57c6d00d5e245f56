"""The base of the online learners: batches, passes, prediction."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted

from oblong._core.estimator import Estimator
from oblong._core.rollback import all_or_nothing
from oblong.online._labels import (
    check_weights,
    checked_rows,
    class_weighted,
    encode,
    hold_out,
    indicator,
    is_multilabel,
)
from oblong.online._parameters import PassParameters
from oblong.online.growing import checked
from oblong.solvers.online.order import row_keys, shuffled
from oblong.solvers.online.protocol import State
from oblong.solvers.online.rows import Rows
from oblong.solvers.online.slots import EACH, RANK, SINGLE, TOP


class OnlineClassifier(PassParameters, ClassifierMixin, Estimator):
    """Base of the online learners: input, passes and prediction.

    A subclass gives a :class:`~oblong.solvers.online.state.State` that has seen nothing
    (:meth:`_new_state`) and says whether weights may be fractions (:meth:`_is_soft`).
    """

    multi_class: Any

    classes_: np.ndarray
    multilabel_: bool
    n_features_in_: int
    n_iter_: int
    _state: State

    # Whether outputs are those of a Gaussian over weight vectors.
    _gaussian: ClassVar[bool] = False
    # Whether features and classes may appear while the learner learns.
    _takes_new_features: ClassVar[bool] = False
    # Whether label-indicator matrices are taken.
    _multilabel: ClassVar[bool] = False
    # What only one call of fit knows, and the next one forgets.
    _forgotten: ClassVar[tuple[str, ...]] = ("_state",)

    # What a learner says -------------------------------------------------------------------------

    @abstractmethod
    def _new_state(self, dtype: Any) -> State:
        """A model that has seen nothing."""

    @abstractmethod
    def _is_soft(self) -> bool:
        """Whether a violation has a cost, which a weight may scale."""

    def _task(self) -> int:
        """How an example of several classes becomes examples of two."""
        if self.multilabel_:
            return RANK if getattr(self, "multilabel", "ovr") == "rank" else EACH
        if len(self.classes_) == 2:
            return SINGLE
        return EACH if self.multi_class == "ovr" else TOP

    def _take_in_classes(self, y: Any, classes: Any) -> None:
        """Check the classes of a later call, or make room for them."""
        if classes is not None and not np.array_equal(self.classes_, unique_labels(classes)):
            raise ValueError(
                f"classes={classes!r} differ from those of the first call to partial_fit, "
                f"{self.classes_!r}"
            )

    def _learn(
        self, state: Any, rows: Rows, labels: np.ndarray, weights: np.ndarray, order: Any = None
    ) -> None:
        """Learn from rows of a batch, in the given order."""
        state.learn(rows, labels, weights, order)

    # Learning ------------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from a batch, row by row; how rows are divided into batches makes no difference.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Class labels, or an indicator matrix for learners that take one.
        classes : array-like of shape (n_classes,), default=None
            All classes there are; needed by the first call, unless ``y`` is an indicator matrix.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights: a row of weight k counts as k copies, of weight 0 as none; a fraction scales
            the cost of a violation.

        Returns
        -------
        self : object
            The learner.
        """
        with all_or_nothing(self):
            self._partial_fit(X, y, classes, sample_weight)
        return self

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> None:
        first = vars(self).get("_state") is None
        X = checked_rows(self, X, reset=first)
        multilabel = is_multilabel(y) and self._multilabel
        if first:
            self._declare(classes, y, multilabel)
        elif multilabel != self.multilabel_:
            raise ValueError("y changed between class labels and an indicator matrix")
        else:
            self._take_in_classes(y, classes)
        labels = self._encode(y, X.shape[0])
        weights = self._check_weights(sample_weight, X)
        weights = class_weighted(self, weights, labels, whole=False)
        if first:
            self._state = self._new_state(X.dtype)
        self._state.promote(X.dtype)
        self.n_iter_ = 1
        self._learn(self._state, Rows.of(X), labels, weights)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Start from scratch and learn from the rows in several passes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Class labels, or an indicator matrix for learners that take one.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights: a row of weight k counts as k copies, of weight 0 as none; a fraction scales
            the cost of a violation.

        Returns
        -------
        self : object
            The learner.
        """
        with all_or_nothing(self):
            self._fit(X, y, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        for name in self._forgotten:
            self.__dict__.pop(name, None)
        X = checked_rows(self, X, reset=True)
        weights = self._check_weights(sample_weight, X)
        keep = weights > 0.0
        if is_multilabel(y) and self._multilabel:
            self._declare(None, y, True)
            labels = self._encode(y, X.shape[0])
        else:
            self._declare(y, y, False)
            present = self.classes_[self._encode(y, X.shape[0])[keep, 0]]
            if len(np.unique(present)) < 2:
                raise ValueError(
                    f"{type(self).__name__} needs rows of at least two classes; the data "
                    f"contains only one class"
                )
            self._declare(present, y, False)
            labels = np.zeros((X.shape[0], 1), dtype=np.int32)
            labels[keep] = encode(np.asarray(y).ravel()[keep], self.classes_)
        weights = class_weighted(self, weights, labels, whole=True)
        self._state = self._passes(self._new_state(X.dtype), Rows.of(X), labels, weights, X)

    def _orders(
        self, rows: Rows, labels: np.ndarray, weights: np.ndarray
    ) -> tuple[Iterator[np.ndarray], np.ndarray, np.ndarray]:
        """The rows of each pass in their order; which rows these are; and those held out."""
        random_state = check_random_state(self.random_state)
        present = np.flatnonzero(weights > 0.0)
        keys = held = present[:0]
        if self.shuffle or self.early_stopping:
            keys = row_keys(*rows[:4], labels, random_state)
        if self.early_stopping:
            share = self.validation_fraction
            held, present = hold_out(present, keys, weights, share, random_state)
        orders = (
            present[shuffled(keys[present], random_state)] if self.shuffle else present
            for _ in range(self.max_iter)
        )
        return orders, present, held

    def _passes(
        self, state: Any, rows: Rows, labels: np.ndarray, weights: np.ndarray, X: Any
    ) -> State:
        """Pass over the rows until nothing gets better, and return the best model."""
        orders, _, held = self._orders(rows, labels, weights)
        best, kept, stale = np.inf, state, 0
        limit = 0.0 if self.tol is None else float(self.tol)
        for iteration, order in enumerate(orders, 1):
            self.n_iter_ = iteration
            mistakes, rounds = state.mistakes, state.rounds
            state.calibrates(iteration == 1)
            self._learn(state, rows, labels, weights, order)
            if self.early_stopping:
                error = self._held_out_error(state, X, labels, weights, held)
            else:
                error = (state.mistakes - mistakes) / (state.rounds - rounds)
            if error < best - limit or best == np.inf:
                stale = 0
            else:
                stale += 1
            if self.early_stopping and error < best:
                kept = state.copy()
            best = min(best, error)
            if (self.tol is not None or self.early_stopping) and stale >= self.n_iter_no_change:
                break
        kept = kept if self.early_stopping else state
        kept.calibrates(True)
        return kept

    def _held_out_error(
        self, state: State, X: Any, labels: np.ndarray, weights: np.ndarray, held: np.ndarray
    ) -> float:
        wrong = self._wrong(self._outputs_of(state, X[held]), labels[held])
        return float(np.average(wrong, weights=weights[held]))

    # Labels and weights --------------------------------------------------------------------------

    def _check_weights(self, sample_weight: Any, X: Any) -> np.ndarray:
        return check_weights(sample_weight, X, soft=self._is_soft())

    def _factor(self, label: Any) -> float:
        """Weight of a class, for a single example."""
        given = getattr(self, "class_weight", None)
        if given is None:
            return 1.0
        if isinstance(given, str):
            raise ValueError('class_weight="balanced" needs all rows at once')
        return float(given.get(label, 1.0))

    def _one_weight(self, sample_weight: float) -> float:
        """Check the weight of a single example."""
        if not 0.0 <= sample_weight < math.inf or (not self._is_soft() and sample_weight % 1.0):
            raise ValueError(
                "sample_weight must be a finite number, not negative, and a whole number for a "
                "learner without a loss to scale"
            )
        return float(sample_weight)

    def _declare(self, classes: Any, y: Any, multilabel: bool) -> None:
        self.multilabel_ = multilabel
        if multilabel:
            self.classes_ = np.arange(indicator(y[:1]).shape[1])
            return
        if classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        check_classification_targets(classes)
        self.classes_ = unique_labels(classes)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes; the data contains only one "
                f"class, {self.classes_.tolist()}"
            )

    def _encode(self, y: Any, n: int) -> np.ndarray:
        labels = indicator(y) if self.multilabel_ else encode(y, self.classes_)
        if len(labels) != n:
            raise ValueError(f"X has {n} rows, but y has {len(labels)}")
        if self.multilabel_ and labels.shape[1] != len(self.classes_):
            raise ValueError(f"y has {labels.shape[1]} labels, expected {len(self.classes_)}")
        return labels

    # Prediction ----------------------------------------------------------------------------------

    def _outputs_of(self, state: State, X: Any) -> np.ndarray:
        """Outputs of the classes; those of ranked labels less that of the threshold."""
        outputs = state.scores(X)
        if state.task == RANK:
            return outputs[:, :-1] - outputs[:, -1:]
        return outputs

    def _wrong(self, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        if self.multilabel_:
            return ((outputs > 0.0) != (labels == 1)).any(axis=1)
        if outputs.shape[1] == 1:
            return (outputs[:, 0] > 0.0) != (labels[:, 0] == 1)
        return outputs.argmax(axis=1) != labels[:, 0]

    def _outputs(self, X: Any) -> tuple[np.ndarray, Any]:
        """Outputs of all classes, and the checked rows."""
        state = self._fitted_state()
        X = checked_rows(self, X, reset=False)
        return self._outputs_of(state, X), X

    def _is_binary(self) -> bool:
        return self._state.task == SINGLE

    def _is_calibrated(self) -> bool:
        """Whether predictions are by sigmoids of the outputs."""
        return False

    def _decisions(self, outputs: np.ndarray) -> np.ndarray:
        """What is compared with zero, or with each other, to predict."""
        return outputs

    def _label_of(self, outputs: np.ndarray) -> Any:
        """The class of one example with given outputs."""
        decisions = self._decisions(outputs[None])[0]
        if decisions.size == 1:
            return self.classes_[int(decisions[0] > 0.0)]
        return self.classes_[decisions.argmax()]

    def decision_function(self, X: Any) -> np.ndarray:
        """Signed confidence of the learner.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            The outputs ``f = w'x + b``: with two classes one per row, positive for
            ``classes_[1]``; with more, one per class.
        """
        outputs, _ = self._outputs(X)
        return outputs[:, 0] if self._is_binary() else outputs

    def predict(self, X: Any) -> np.ndarray:
        """Predict class labels, or an indicator matrix.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_samples,) or (n_samples, n_labels)
            The class with the largest output, or the labels with a positive one; by the logits of
            a ``calibration``, if there is one.
        """
        outputs = self._decisions(self._outputs(X)[0])
        if self.multilabel_:
            return (outputs > 0.0).astype(np.int64)
        if self._is_binary():
            return self.classes_[(outputs[:, 0] > 0.0).astype(np.intp)]
        return self.classes_[outputs.argmax(axis=1)]

    # Single examples ----------------------------------------------------------------------------

    def _names(self) -> dict[Any, int]:
        """Columns of the features by their names, for dicts."""
        vocabulary = self.__dict__.get("_vocabulary")
        if vocabulary is None:
            vocabulary = {name: j for j, name in enumerate(self._feature_names())}
            self._vocabulary: dict[Any, int] | None = vocabulary
        return vocabulary

    def _feature_names(self) -> list[Any]:
        """Names of the columns, or their numbers."""
        vocabulary = self.__dict__.get("_vocabulary")
        if vocabulary is None:
            return list(self.__dict__.get("feature_names_in_", range(self.n_features_in_)))
        return list(vocabulary)

    def _values(self, x: Any) -> np.ndarray:
        """Check an array, cheaply."""
        state: Any = self._state
        if type(x) is not np.ndarray or x.dtype != state.table.dtype:
            x = np.asarray(x, dtype=state.table.dtype)
        # Compiled loops are for contiguous rows.
        x = np.ascontiguousarray(x) if x.ndim == 1 else x
        if x.ndim != 1 or x.size != state.n_features:
            raise ValueError(f"Expected a vector of {state.n_features} features, got {x.shape}")
        return checked(x)

    # Attributes ----------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return vars(self).get("_state") is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = self._multilabel
        return tags

    def _fitted_state(self) -> Any:
        check_is_fitted(self)
        return self._state

    def _learned(self) -> Any:
        """The model, for attributes, which do not exist before there is one."""
        state = vars(self).get("_state")
        if state is None:
            raise AttributeError(f"This {type(self).__name__} is not fitted yet")
        return state

    @property
    def n_updates_(self) -> int:
        """Number of updates of the model."""
        return self._learned().updates

    @property
    def n_mistakes_(self) -> int:
        """Number of examples that were misclassified before they were learned from."""
        return self._learned().mistakes

    @property
    def t_(self) -> int:
        """Number of examples seen."""
        return self._learned().rounds

    @property
    def coef_(self) -> np.ndarray:
        """Weights, of shape (1, n_features) or (n_classes, n_features)."""
        state = self._learned()
        return state.weights()[1:].T * getattr(state, "weight_unit", 1.0)

    @property
    def intercept_(self) -> np.ndarray:
        """Intercepts, of shape (1,) or (n_classes,)."""
        state = self._learned()
        return state.bias * state.weights()[0] * getattr(state, "weight_unit", 1.0)
