"""The base of the learners that follow a rule: a Gaussian, its health, probabilities."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, ndtr
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if

from oblong.online._base import OnlineClassifier
from oblong.online._labels import checked_rows
from oblong.online._parameters import RuleParameters
from oblong.solvers.online.protocol import Health, RuleState
from oblong.solvers.online.rows import Rows
from oblong.solvers.online.rules import Rule
from oblong.solvers.online.slots import RANK
from oblong.solvers.online.variances import difference_variances


def _knows_variances(estimator: Any) -> bool:
    return estimator._has_covariance


def has_probabilities(estimator: Any) -> bool:
    """Whether a learner has probabilities: those of a Gaussian, or calibrated ones."""
    return estimator._gaussian or estimator._is_calibrated()


class RuleClassifier(RuleParameters, OnlineClassifier):
    """Base of the learners whose examples follow a rule (:meth:`_rule`)."""

    _state: RuleState

    # Whether there is a covariance.
    _has_covariance: ClassVar[bool] = False
    # Whether changes of the unit are a sign of labels that are wrong.
    _warns_unit: ClassVar[bool] = False

    @abstractmethod
    def _rule(self, n_features: int) -> Rule:
        """The rule with its parameters, for examples with so many features and the intercept."""

    def _is_soft(self) -> bool:
        return self._rule(self.n_features_in_).soft

    def _steps(self) -> int:
        """Pairs of classes per example."""
        return self.k_best if self.multi_class == "kbest" else 1

    # Learning ------------------------------------------------------------------------------------

    def _learn(
        self, state: Any, rows: Rows, labels: np.ndarray, weights: np.ndarray, order: Any = None
    ) -> None:
        before = state.health
        state.learn(rows, labels, weights, order)
        if state.health != before:
            self._warn_health(state.health, before, state.n_outputs)

    def _warn_health(self, health: Health, before: Health, n_outputs: int) -> None:
        """Warn once if the covariance had to be saved from vanishing."""
        many = health.rescaled > 2 * n_outputs >= before.rescaled
        first = [now > 0 and was == 0 for now, was in zip(health, before)]
        skips, resets, _, floors = first
        # With a constant feature, a sound covariance leaves no example without variance.
        vanished = skips and self.fit_intercept
        if (many and self._warns_unit) or floors or resets or vanished:
            message = f"{type(self).__name__}: {self._remedy()}"
            warnings.warn(message, ConvergenceWarning, stacklevel=7)

    def _remedy(self) -> str:
        """Why a covariance vanishes, and what helps."""
        units = not getattr(self, "normalize", True)
        if not self._is_soft():
            return (
                "the classes do not seem to be separable, and the covariance keeps shrinking. A "
                "soft rule (AROWClassifier, SoftConfidenceWeightedClassifier) suits such data "
                "better."
                + (" If columns have very different units, normalize=True helps." if units else "")
            )
        if units:
            return (
                "the covariance has all but vanished for some features, so the learner can "
                "hardly learn any more: columns have very different units. Use normalize=True, or "
                "scale the columns."
            )
        return (
            "the covariance has all but vanished for some features. Use a smaller C, or a larger r."
        )

    # Prediction ----------------------------------------------------------------------------------

    def _variances(self, X: Any) -> np.ndarray:
        variances = self._state.variances(X)
        if self._state.task == RANK:
            threshold = np.full_like(variances, variances.shape[1] - 1, dtype=np.intp)
            return difference_variances(variances, threshold)[:, :-1]
        return variances

    def _is_calibrated(self) -> bool:
        return self.calibration == "platt"

    def _decisions(self, outputs: np.ndarray) -> np.ndarray:
        return self._state.logits(outputs) if self._is_calibrated() else outputs

    def _calibrated(self, outputs: np.ndarray) -> np.ndarray:
        """Probabilities by the sigmoids of the outputs."""
        found = self._state.logits(outputs)
        p = expit(found)
        if self.multilabel_:
            return p
        if self._is_binary():
            return np.hstack([expit(-found), p])
        return p / p.sum(axis=1, keepdims=True)

    def decision_function(self, X: Any) -> np.ndarray:
        """Signed confidence of the learner.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            With two classes, positive for ``classes_[1]``: the output ``f = w'x + b``, for Gaussian
            learners in units of its standard deviation, ``f / √v``, of which
            :meth:`predict_proba` is the probit. With more classes the outputs, one per class or
            label. With ``calibration="platt"`` the logits of their sigmoids in place of outputs.
        """
        outputs, X = self._outputs(X)
        if self._is_calibrated():
            outputs = self._state.logits(outputs)
            return outputs[:, 0] if self._is_binary() else outputs
        if not self._is_binary():
            return outputs * getattr(self._state, "weight_unit", 1.0)
        if self._gaussian:
            return standardised(outputs[:, 0], self._variances(X)[:, 0])
        return outputs[:, 0]

    @available_if(_knows_variances)
    def margin_variance(self, X: Any) -> np.ndarray:
        """Variances ``v = x'Sx`` of the outputs under the distribution of the weights.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        variances : ndarray of shape (n_samples,) or (n_samples, n_classes)
            One for each output. The difference of the outputs of two classes has the sum of their
            variances.
        """
        self._fitted_state()
        variances = self._variances(checked_rows(self, X, reset=False))
        return variances[:, 0] if self._is_binary() else variances

    @available_if(_knows_variances)
    def margin_mean_std(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of the outputs under the distribution of the weights.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        mean, std : ndarray of shape (n_samples,) or (n_samples, n_classes)
            The outputs ``f = w'x + b``, and ``√v``. The examples to ask labels of first are those
            with the smallest ``|f| / √v``.
        """
        outputs, X = self._outputs(X)
        deviations = np.sqrt(self._variances(X))
        if self._is_binary():
            return outputs[:, 0], deviations[:, 0]
        return outputs, deviations

    @available_if(has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Without a ``calibration``, how likely a weight vector drawn from the learner's Gaussian
            predicts a class. With two classes ``Φ(f / √v)`` of the output ``f`` and its
            variance ``v``, and the rest. With more, a class is compared with the best other one
            and the values are divided by their sum. They say how sure the learner is of its
            output. With ``calibration="platt"`` the sigmoid of ``f``, or of the difference to the
            output of the best other class, divided by the sum; they say how often such outputs
            were right.
        """
        f, X = self._outputs(X)
        if self._is_calibrated():
            return self._calibrated(f)
        v = self._variances(X)
        if self.multilabel_:
            return ndtr(standardised(f, v))
        if self._is_binary():
            z = standardised(f, v)
            return ndtr(np.hstack([-z, z]))
        return against_best_other(f, v)

    # Attributes ----------------------------------------------------------------------------------

    @property
    def n_skipped_(self) -> int:
        """Examples that could not be learned from, because their output had no variance left."""
        return self._learned().health.skipped


def standardised(f: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Outputs in units of their standard deviations."""
    return f / np.sqrt(np.maximum(v, np.finfo(v.dtype).tiny))


def against_best_other(f: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Probability that each class beats the best other one, divided by their sum."""
    best = f.argmax(axis=1, keepdims=True)
    others = f.copy()
    np.put_along_axis(others, best, -np.inf, axis=1)
    second = others.argmax(axis=1)[:, None]
    rival = np.where(np.arange(f.shape[1]) == best, second, best)
    gap = f - np.take_along_axis(f, rival, axis=1)
    p = ndtr(standardised(gap, difference_variances(v, rival)))
    # The best class stays ahead of the second also where rounding makes it a tie.
    np.put_along_axis(p, best, np.maximum(np.take_along_axis(p, best, axis=1), 0.5 + 1e-12), axis=1)
    return p / p.sum(axis=1, keepdims=True)
