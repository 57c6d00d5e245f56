"""What a fitted ellipsoid does to rows: map them to the unit ball, measure, and judge them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    OutlierMixin,
    TransformerMixin,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from oblong._core.estimator import Estimator
from oblong._core.threads import chunks

# Numbers of a block of rows in double precision.
_BLOCK = 1 << 20


class UnitBallMap(ClassNamePrefixFeaturesOutMixin, OutlierMixin, TransformerMixin, Estimator):
    """Base of ellipsoids: the methods, given what ``fit`` finds.

    That is the centre, a factor that maps the ellipsoid to the unit ball with the one that maps
    it back, the ``offset_`` of the scores, and, in a kernel form, the rows of the fit.
    """

    @property
    def shape_(self) -> np.ndarray:
        """The matrix Σ of the ellipsoid."""
        check_is_fitted(self)
        return self.inverse_factor_.T @ self.inverse_factor_

    def _images(self, X: np.ndarray) -> Iterator[tuple[int, int, np.ndarray]]:
        """Rows mapped to the unit ball, in double precision, a block at a time."""
        width = max(X.shape[1], self.rank_, self._kernel_rows.n if self._kernel_rows else 0)
        for start, stop in chunks(X.shape[0], max(64, _BLOCK // width)):
            part = np.asarray(X[start:stop], dtype=np.float64)
            if self._kernel_rows is not None:
                part = self._kernel_rows.coordinates(part)
            yield start, stop, (part - self.center_) @ self.factor_

    def _squared_distances(self, X: np.ndarray) -> np.ndarray:
        squares = np.empty(X.shape[0])
        for start, stop, image in self._images(X):
            squares[start:stop] = np.einsum("ij,ij->i", image, image)
        return squares

    def _validated(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, X, dtype=[np.float64, np.float32], reset=False)

    def transform(self, X: Any) -> np.ndarray:
        """Map rows so that the ellipsoid becomes the unit ball.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, or their kernel values against the training rows for
            ``kernel="precomputed"``.

        Returns
        -------
        T : ndarray of shape (n_samples, `rank_`)
            ``(x - center_) @ factor_``, in the precision of ``X``. Rows inside have a length of
            at most one.
        """
        X = self._validated(X)
        T = np.empty((X.shape[0], self.rank_), dtype=X.dtype)
        for start, stop, image in self._images(X):
            T[start:stop] = image
        return T

    @available_if(lambda self: self.kernel is None)
    def inverse_transform(self, T: Any) -> np.ndarray:
        """Map points of the unit ball to the ellipsoid; not for kernel forms.

        Parameters
        ----------
        T : array-like of shape (n_samples, `rank_`)
            Points.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            ``center_ + t @ inverse_factor_``, on the affine hull of the training rows.
        """
        check_is_fitted(self)
        T = check_array(T, dtype=[np.float64, np.float32])
        if T.shape[1] != self.rank_:
            raise ValueError(f"expected points with {self.rank_} coordinates, got {T.shape[1]}")
        return (T @ self.inverse_factor_ + self.center_).astype(T.dtype, copy=False)

    def mahalanobis(self, X: Any) -> np.ndarray:
        r"""Squared distances from the centre, at most one inside.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, or kernel values for ``kernel="precomputed"``.

        Returns
        -------
        squares : ndarray of shape (n_samples,)
            :math:`(x-\mu)^\top \Sigma^{+} (x-\mu)`.
        """
        return self._squared_distances(self._validated(X))

    def score_samples(self, X: Any) -> np.ndarray:
        """Minus the squared distances: the lower, the more abnormal.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, or kernel values for ``kernel="precomputed"``.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            The scores.
        """
        return -self.mahalanobis(X)

    def decision_function(self, X: Any) -> np.ndarray:
        """One minus the squared distances: not negative for rows inside.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, or kernel values for ``kernel="precomputed"``.

        Returns
        -------
        decision : ndarray of shape (n_samples,)
            ``score_samples(X) - offset_``.
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """Tell rows inside the ellipsoid from those outside.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, or kernel values for ``kernel="precomputed"``.

        Returns
        -------
        inside : ndarray of shape (n_samples,)
            1 for rows inside, -1 for those outside.
        """
        return np.where(self.decision_function(X) >= 0.0, 1, -1)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "factor_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.E is None and self.coverage == 1:
            tags.estimator_type = None
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
