"""Prediction with online learners, and what they have learned."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtr
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from oblong.solvers.online.state import RANK, SINGLE, OnlineState

__all__ = ["PredictionMixin"]


def _has_shape(estimator: Any) -> bool:
    return estimator._shaped


def _is_gaussian(estimator: Any) -> bool:
    return estimator._gaussian


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
        return validate_data(
            self,
            X,
            reset=False,
            dtype=[np.float64, np.float32],
            order="C",
            accept_sparse="csr",
        )

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
            return variances[:, :-1] + variances[:, -1:]
        return variances

    def _is_binary(self) -> bool:
        return self._state.codes[2] == SINGLE

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
            label.
        """
        outputs, X = self._outputs(X)
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
            The class with the largest output, or the labels with a positive one.
        """
        outputs, _ = self._outputs(X)
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
            variances.
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

    @available_if(_is_gaussian)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities that a weight vector drawn from the learner's Gaussian predicts a class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            With two classes ``Φ(f / √v)`` of the output ``f`` and its variance ``v``, and the rest.
            With more, a class is compared with the best other one and the values are divided by
            their sum. They say how sure the learner is of its output and are not calibrated.
        """
        f, X = self._outputs(X)
        v = self._variances(X)
        if self.multilabel_:
            return ndtr(_standardised(f, v))
        if self._is_binary():
            z = _standardised(f, v)
            return ndtr(np.hstack([-z, z]))
        return _against_best_other(f, v)

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


def _against_best_other(f: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Probability that each class beats the best other one, divided by their sum."""
    best = f.argmax(axis=1, keepdims=True)
    others = f.copy()
    np.put_along_axis(others, best, -np.inf, axis=1)
    second = others.argmax(axis=1)[:, None]
    rival = np.where(np.arange(f.shape[1]) == best, second, best)
    gap = f - np.take_along_axis(f, rival, axis=1)
    p = ndtr(_standardised(gap, v + np.take_along_axis(v, rival, axis=1)))
    # The best class stays ahead of the second also where rounding makes it a tie.
    np.put_along_axis(p, best, np.maximum(np.take_along_axis(p, best, axis=1), 0.5 + 1e-12), axis=1)
    return p / p.sum(axis=1, keepdims=True)
