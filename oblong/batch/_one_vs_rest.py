"""One-vs-rest: one binary problem per class, and prediction by the largest output."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from oblong._core.threads import blas_for_systems, chunks
from oblong.batch._rows import validated_rows
from oblong.batch._workers import Result, in_threads
from oblong.linalg.feature_map import FeatureMap


def positive_classes(n_classes: int) -> list[int]:
    """List the class of positive outputs for every binary problem; two classes need only one."""
    return [1] if n_classes == 2 else list(range(n_classes))


def solve_each(
    solve: Callable[[int, np.ndarray], Result],
    labels: np.ndarray,
    n_classes: int,
    n_jobs: int | None,
) -> list[Result]:
    """Call ``solve(k, y)`` for every problem ``k`` with its labels -1 and +1."""
    problems = positive_classes(n_classes)
    signs = [np.where(labels == positive, 1.0, -1.0) for positive in problems]
    return in_threads(solve, list(enumerate(signs)), n_jobs)


def stacked(values: Sequence[np.ndarray], n_classes: int) -> np.ndarray:
    """Put the values of all problems along the last axis; two classes have no such axis."""
    return values[0] if n_classes == 2 else np.stack(values, axis=-1)


class OneVsRestMixin:
    """Prediction from outputs of shape (n, n_problems)."""

    classes_: np.ndarray
    cache_size: float
    kernel: Any
    _directions: np.ndarray
    _map: FeatureMap

    @abstractmethod
    def _outputs(self, X: Any, rounded: bool = True) -> np.ndarray:
        """Outputs of every problem, perhaps in the precision of the rows."""

    def _fit_rows(self, X: Any, kept: np.ndarray, rows: Any, *data: np.ndarray) -> Any:
        """Fit as the base of classifiers that follows in the order of bases does."""
        with blas_for_systems(min(rows.shape) if self.kernel == "linear" else rows.shape[0]):
            return super()._fit_rows(X, kept, rows, *data)  # type: ignore[misc]

    def _validated(self, X: Any) -> Any:
        check_is_fitted(self)
        return validated_rows(self, X, reset=False)

    def _blocks(self, X: Any) -> Iterator[tuple[int, int]]:
        """Rows to predict at a time, within the memory limit."""
        width = max(1, self._directions.shape[1], X.shape[1])
        return chunks(X.shape[0], max(1, int(self.cache_size * 2.0**17) // width))

    def _has_outside(self) -> bool:
        """Whether rows may have a part outside the coordinates, and its length is known."""
        return not self._map.complete and self.kernel != "precomputed"

    def _squared_lengths(
        self, X: Any, matrices: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Squared lengths of the coordinates times each matrix, and of what is outside of them."""
        lengths, rest = np.empty((X.shape[0], len(matrices))), np.zeros((X.shape[0], 1))
        for start, stop in self._blocks(X):
            part = X[start:stop]
            phi = self._map.transform(part).astype(np.float64, copy=False)
            if self._has_outside():
                inside = np.einsum("ij,ij->i", phi, phi)
                rest[start:stop, 0] = np.maximum(self._map.squared_norms(part) - inside, 0.0)
            for k, matrix in enumerate(matrices):
                image = phi @ matrix
                lengths[start:stop, k] = np.einsum("ij,ij->i", image, image)
        return lengths, rest

    def decision_function(self, X: Any) -> np.ndarray:
        """Outputs of the classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, or their kernel values against the training rows, of shape
            (n_samples, n_samples_fit), for ``kernel="precomputed"``.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            With two classes the outputs, positive for ``classes_[1]``. With more, the output of
            each class against all others.
        """
        outputs = self._outputs(X)
        return outputs[:, 0] if len(self.classes_) == 2 else outputs

    def predict(self, X: Any) -> np.ndarray:
        """Predict class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, or kernel values for ``kernel="precomputed"``.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            With two classes the sign of the output decides, with more the largest output.
        """
        outputs = self._outputs(X)
        if len(self.classes_) == 2:
            return self.classes_[(outputs[:, 0] > 0).astype(np.intp)]
        return self.classes_[outputs.argmax(axis=1)]
