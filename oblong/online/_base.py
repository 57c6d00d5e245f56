"""The base of the online learners: streams, passes, prediction."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import unique_labels

from oblong.online._input import InputMixin
from oblong.online._labels import encode, is_multilabel
from oblong.online._merge import MergeMixin
from oblong.online._one import OneRowMixin
from oblong.online._prediction import PredictionMixin
from oblong.solvers.online._sigmoid import set_open
from oblong.solvers.online.order import row_keys, shuffled
from oblong.solvers.online.pooled import joint_shape
from oblong.solvers.online.rules import Rule
from oblong.solvers.online.state import (
    DIAGONAL,
    EACH,
    FULL,
    JOINT,
    NONE,
    RANK,
    SHARED,
    SINGLE,
    SKETCH,
    TOP,
    OnlineState,
    Rows,
    matrices_of,
)

__all__ = ["OnlineClassifier", "SecondOrderClassifier"]

_LARGEST_SHAPE = 2.0**34
_STRUCTURES = {
    "full": FULL,
    "diag": DIAGONAL,
    "sketch": SKETCH,
    "shared": SHARED,
    "joint": JOINT,
}


class OnlineClassifier(
    InputMixin, MergeMixin, OneRowMixin, PredictionMixin, ClassifierMixin, BaseEstimator
):
    """Base of the online learners.

    A subclass gives its rule (:meth:`_rule`) and, if it has a shape, the initial variance.
    """

    _parameter_constraints: ClassVar[dict] = {
        "fit_intercept": ["boolean"],
        "multi_class": [StrOptions({"top1", "kbest", "ovr"})],
        "k_best": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="left"), None],
        "shuffle": ["boolean"],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0.0, 1.0, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "average": ["boolean"],
        "allow_new_classes": ["boolean"],
        "calibration": [StrOptions({"platt"}), None],
        "random_state": ["random_state"],
    }

    # What a learner says -------------------------------------------------------------------------

    @abstractmethod
    def _rule(self, n_features: int) -> Rule:
        """The rule with its parameters, for examples with so many features and the intercept."""

    def _structure(self) -> int:
        return NONE

    def _state_class(self) -> type[OnlineState]:
        return OnlineState

    def _variance(self) -> float:
        """Initial variance of a weight."""
        return 1.0

    # Learning ------------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> OnlineClassifier:
        """Learn from a batch, one row after the other; batches of any size do the same.

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
        before = dict(vars(self))
        try:
            first = before.get("_state") is None
            X, rows = self._check_rows(X, reset=first)
            multilabel = is_multilabel(y) and self._multilabel
            if first:
                self._declare(classes, y, multilabel)
            elif multilabel != self.multilabel_:
                raise ValueError("y changed between class labels and an indicator matrix")
            elif self.allow_new_classes and not multilabel:
                self._append_classes(y)
                if classes is not None:
                    self._append_classes(classes)
            elif classes is not None and not np.array_equal(self.classes_, unique_labels(classes)):
                raise ValueError(
                    f"classes={classes!r} differ from those of the first call to partial_fit, "
                    f"{self.classes_!r}"
                )
            labels = self._encode(y, X.shape[0])
            weights = self._check_weights(sample_weight, X)
            weights = self._class_weighted(weights, labels, whole=False)
            if first:
                self._state = self._new_state(X.dtype)
            self._state.promote(X.dtype)
            self.n_iter_ = 1
            vars(self).pop("_one_row", None)
            self._learn(self._state, rows, labels, weights)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> OnlineClassifier:
        """Start anew and learn from the rows in several passes.

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
        before = dict(vars(self))
        try:
            for name in ("_state", "_one_row", "_vocabulary", "_discovers", "_only", "_waiting"):
                vars(self).pop(name, None)
            X, rows = self._check_rows(X, reset=True)
            weights = self._check_weights(sample_weight, X)
            multilabel = is_multilabel(y) and self._multilabel
            present = y
            if not multilabel:
                self._declare(y, y, False)
                present = self.classes_[self._encode(y, X.shape[0])[weights > 0.0, 0]]
                if len(np.unique(present)) < 2:
                    raise ValueError(
                        f"{type(self).__name__} needs rows of at least two classes; the data "
                        f"contains only one class"
                    )
            self._declare(present, y, multilabel)
            keep = weights > 0.0
            labels = np.zeros((X.shape[0], 1), dtype=np.int32)
            if multilabel:
                labels = self._encode(y, X.shape[0])
            else:
                labels[keep] = encode(np.asarray(y).ravel()[keep], self.classes_)
            weights = self._class_weighted(weights, labels, whole=True)
            state = self._new_state(X.dtype)
            self._state = self._passes(state, rows, labels, weights, X)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        return self

    def _passes(
        self, state: OnlineState, rows: Rows, labels: np.ndarray, weights: np.ndarray, X: Any
    ) -> OnlineState:
        """Pass over the rows until nothing gets better, and return the best model."""
        random_state = check_random_state(self.random_state)
        present = np.flatnonzero(weights > 0.0)
        keys = (
            row_keys(*rows[:4], labels, random_state)
            if self.shuffle or self.early_stopping
            else None
        )
        held = present[:0]
        if self.early_stopping:
            held, present = self._hold_out(present, keys, weights, random_state)
        best, kept, stale = np.inf, state, 0
        limit = 0.0 if self.tol is None else float(self.tol)
        for iteration in range(1, self.max_iter + 1):
            self.n_iter_ = iteration
            order = present
            if self.shuffle:
                order = present[shuffled(keys[present], random_state)]
            mistakes, rounds = int(state.counters[2]), state.rounds
            set_open(state.scale, iteration == 1)
            self._learn(state, rows, labels, weights, order)
            if self.early_stopping:
                error = self._held_out_error(state, X, labels, weights, held)
            else:
                error = (int(state.counters[2]) - mistakes) / (state.rounds - rounds)
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
        set_open(kept.scale, True)
        return kept

    def _hold_out(
        self,
        present: np.ndarray,
        keys: np.ndarray,
        weights: np.ndarray,
        random_state: np.random.RandomState,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Part rows into those held out for early stopping and those to learn from."""
        ranks = shuffled(keys[present], random_state)
        totals = np.cumsum(weights[present][ranks])
        # Whole groups of equal rows, so that a copy of a held-out row is not learned from.
        _, group = np.unique(keys[present][ranks], return_inverse=True)
        cut = int(np.searchsorted(totals, self.validation_fraction * totals[-1]))
        inside = np.isin(group, group[: max(1, cut)])
        held, rest = present[ranks[inside]], np.sort(present[ranks[~inside]])
        if not len(rest):
            raise ValueError("early_stopping left no rows to learn from")
        return held, rest

    def _held_out_error(
        self,
        state: OnlineState,
        X: Any,
        labels: np.ndarray,
        weights: np.ndarray,
        held: np.ndarray,
    ) -> float:
        wrong = self._wrong(self._outputs_of(state, X[held]), labels[held])
        return float(np.average(wrong, weights=weights[held]))

    def _learn(self, state: OnlineState, rows: Rows, labels: Any, weights: Any, order: Any = None):
        before = state.counters[3:7].copy()
        state.learn(rows, labels, weights, order)
        if (state.counters[3:7] > before).any():
            self._warn_health(state, before)

    def _warn_health(self, state: OnlineState, before: np.ndarray) -> None:
        """Warn once if the shape had to be saved from vanishing."""
        often = 2 * state.n_outputs
        many = state.counters[5] > often >= before[2]
        skips, resets, _, floors = ((state.counters[3:7] > 0) & (before == 0)).tolist()
        # With a constant feature, no example is without variance as long as the shape is sound.
        vanished = skips and self.fit_intercept
        if (many and self._warns_unit) or floors or resets or vanished:
            warnings.warn(
                f"{type(self).__name__}: the classes do not seem to be separable, and the shape "
                f"keeps shrinking. A soft rule (AROWClassifier, SoftConfidenceWeightedClassifier) "
                f"suits such data better.",
                ConvergenceWarning,
                stacklevel=4,
            )

    _warns_unit: ClassVar[bool] = False

    # The model -----------------------------------------------------------------------------------

    def _task(self) -> int:
        if self.multilabel_:
            return RANK if getattr(self, "multilabel", "ovr") == "rank" else EACH
        if len(self.classes_) == 2:
            return SINGLE
        return EACH if self.multi_class == "ovr" else TOP

    def _new_state(self, dtype: Any, variance: float | None = None) -> OnlineState:
        rule = self._rule(self.n_features_in_)
        task, n_classes, d = self._task(), len(self.classes_), self.n_features_in_
        outputs = {SINGLE: 1, RANK: n_classes + 1}.get(task, n_classes)
        structure = self._structure_of(task)
        self._check_size(structure, outputs, d)
        return self._state_class().initial(
            rule,
            d,
            outputs,
            structure=structure,
            task=task,
            steps=self.k_best if self.multi_class == "kbest" else 1,
            bias=float(self.fit_intercept),
            variance=self._variance() if variance is None else variance,
            sketch_size=getattr(self, "sketch_size", 0),
            average=self.average,
            calibrated=self.calibration == "platt",
            dtype=dtype,
        )

    def _check_size(self, structure: int, outputs: int, d: int) -> None:
        """Refuse shapes that do not fit in memory."""
        matrices, side = matrices_of(structure, outputs, d + 1)
        if structure in (FULL, SHARED, JOINT) and matrices * 8.0 * side**2 > _LARGEST_SHAPE:
            raise ValueError(
                f"A {self.covariance} shape matrix of {d} features and {outputs} classes does not "
                f'fit in memory; use covariance="sketch" or "diag".'
            )

    def _structure_of(self, task: int) -> int:
        """Structure of the shape for a task.

        Two classes have one weight vector; and classes that do not compete have nothing to do
        with each other in the joint shape of all.
        """
        structure = self._structure()
        alone = task == SINGLE or (structure == JOINT and task == EACH)
        return FULL if structure in (SHARED, JOINT) and alone else structure

    def _append_classes(self, y: Any) -> None:
        """Take in classes that were not declared."""
        new = np.setdiff1d(np.asarray(y), self.classes_)
        if new.size:
            self._state = self._state.copy()
            for label in new:
                self._insert_class(label)


class SecondOrderClassifier(OnlineClassifier):
    """Base of the learners that have a shape matrix of a chosen structure."""

    _shaped = True
    _gaussian = True

    _parameter_constraints: ClassVar[dict] = {
        **OnlineClassifier._parameter_constraints,
        "covariance": [StrOptions({"full", "diag", "sketch", "shared", "joint"})],
        "sketch_size": [Interval(Integral, 1, None, closed="left")],
    }

    def _structure(self) -> int:
        return _STRUCTURES[self.covariance]

    @property
    def covariance_(self) -> np.ndarray:
        """Shape matrix of the weights, or its diagonal if it is not full; without the intercept.

        Of shape (n_features, n_features) or (n_features,), with one more axis in front if there
        are more than two classes that do not share it. A joint shape is that of ``coef_.ravel()``.
        """
        state = self._learned()
        n = state.n_features + 1
        if state.structure == SHARED:
            return state.shape[0, 1:n, 1:n] * state.scale[0, 0]
        if state.structure == JOINT:
            size = (n - 1) * state.n_outputs
            S = joint_shape(state)[1:, :, 1:]
            return S.transpose(1, 0, 3, 2).reshape(size, size)
        if state.structure == FULL:
            shape = state.shape[:, 1:n, 1:n] * state.scale[:, :1, None]
        else:
            shape = state.diagonal()[1:].T
        return shape[0] if state.codes[2] == SINGLE else shape
