"""Prediction with online learners, and what they have learned."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, ndtr
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from oblong.solvers.online._sigmoid import logits
from oblong.solvers.online.state import RANK, SINGLE, OnlineState
from oblong.solvers.online.variances import difference_variances

__all__ = ["PredictionMixin"]


def _has_shape(estimator: Any) -> bool:
    return estimator._shaped


def _has_probabilities(estimator: Any) -> bool:
    return estimator._gaussian or estimator._is_calibrated()


class PredictionMixin:
    """Outputs, labels, probabilities and attributes of a learner."""

    # Whether there is a shape matrix.
    _shaped: ClassVar[bool] = False
    # Whether the shape is the covariance of a Gaussian over weight vectors.
    _gaussian: ClassVar[bool] = False
    # Whether label-indicator matrices are taken.
    _multilabel: ClassVar[bool] = False

    def _check_new_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._checked(X, reset=False)

    def _outputs_of(self, state: OnlineState, X: Any) -> np.ndarray:
        outputs = state.scores(X)
        if state.codes[2] == RANK:
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
        state, X = self._fitted_state(), self._check_new_rows(X)
        return self._outputs_of(state, X), X

    def _variances(self, X: Any) -> np.ndarray:
        variances = self._state.variances(X)
        if self._state.codes[2] == RANK:
            threshold = np.full_like(variances, variances.shape[1] - 1, dtype=np.intp)
            return difference_variances(self._state, X, variances, threshold)[:, :-1]
        return variances

    def _is_binary(self) -> bool:
        return self._state.codes[2] == SINGLE

    def _is_calibrated(self) -> bool:
        return self.calibration == "platt"

    def _logits(self, outputs: np.ndarray) -> np.ndarray:
        """Logits of the sigmoids of the outputs."""
        state = self._state
        return logits(outputs, state.scale, int(state.codes[2]))

    def _decisions(self, outputs: np.ndarray) -> np.ndarray:
        """What is compared with zero, or with each other, to predict."""
        return self._logits(outputs) if self._is_calibrated() else outputs

    def _calibrated(self, outputs: np.ndarray) -> np.ndarray:
        """Probabilities by the sigmoids of the outputs."""
        found = self._logits(outputs)
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
            :meth:`predict_proba` is the probit. With more classes the outputs, one a class or
            label. With ``calibration="platt"`` the logits of their sigmoids in place of outputs.
        """
        outputs, X = self._outputs(X)
        if self._is_calibrated():
            outputs = self._logits(outputs)
            return outputs[:, 0] if self._is_binary() else outputs
        if not self._is_binary():
            return outputs
        if self._gaussian:
            return _standardised(outputs[:, 0], self._variances(X)[:, 0])
        return outputs[:, 0]

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

    @available_if(_has_shape)
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
            variances, unless the shape is a joint one.
        """
        check_is_fitted(self)
        variances = self._variances(self._check_new_rows(X))
        return variances[:, 0] if self._is_binary() else variances

    @available_if(_has_shape)
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

    @available_if(_has_probabilities)
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
            return ndtr(_standardised(f, v))
        if self._is_binary():
            z = _standardised(f, v)
            return ndtr(np.hstack([-z, z]))
        return _against_best_other(self._state, f, v, X)

    # Attributes ----------------------------------------------------------------------------------

    def _fitted_state(self) -> OnlineState:
        check_is_fitted(self)
        return self._state

    def __sklearn_is_fitted__(self) -> bool:
        return vars(self).get("_state") is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = self._multilabel
        return tags

    def _learned(self) -> OnlineState:
        state = vars(self).get("_state")
        if state is None:
            raise AttributeError(f"This {type(self).__name__} is not fitted yet")
        return state

    @property
    def coef_(self) -> np.ndarray:
        """Weights, of shape (1, n_features) or (n_classes, n_features)."""
        return self._learned().weights()[1:].T

    @property
    def intercept_(self) -> np.ndarray:
        """Intercepts, of shape (1,) or (n_classes,)."""
        state = self._learned()
        return state.bias * state.weights()[0]

    @property
    def n_updates_(self) -> int:
        """Number of changes of the model."""
        return int(self._learned().counters[1])

    @property
    def n_mistakes_(self) -> int:
        """Examples that were predicted wrongly before they were learned from."""
        return int(self._learned().counters[2])

    @property
    def n_skipped_(self) -> int:
        """Examples that could not be learned from, because their output had no variance left."""
        return int(self._learned().counters[3])

    @property
    def t_(self) -> int:
        """Number of examples seen."""
        return self._learned().rounds


def _standardised(f: np.ndarray, v: np.ndarray) -> np.ndarray:
    return f / np.sqrt(np.maximum(v, np.finfo(v.dtype).tiny))


def _against_best_other(state: OnlineState, f: np.ndarray, v: np.ndarray, X: Any) -> np.ndarray:
    """Probability that each class beats the best other one, divided by their sum."""
    best = f.argmax(axis=1, keepdims=True)
    others = f.copy()
    np.put_along_axis(others, best, -np.inf, axis=1)
    second = others.argmax(axis=1)[:, None]
    rival = np.where(np.arange(f.shape[1]) == best, second, best)
    gap = f - np.take_along_axis(f, rival, axis=1)
    p = ndtr(_standardised(gap, difference_variances(state, X, v, rival)))
    # The best class stays ahead of the second also where rounding makes it a tie.
    np.put_along_axis(p, best, np.maximum(np.take_along_axis(p, best, axis=1), 0.5 + 1e-12), axis=1)
    return p / p.sum(axis=1, keepdims=True)
