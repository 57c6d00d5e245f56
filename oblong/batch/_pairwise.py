"""What every kernel classifier shares: pairs of classes and their votes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from oblong._core.rollback import all_or_nothing
from oblong._core.threads import available_threads
from oblong.batch._expansion import KernelExpansion, PairFit
from oblong.batch._one_vs_one import (
    class_scores,
    pair_outcomes,
    pairs_of,
    places_of,
    unpack_coefficients,
)
from oblong.batch._workers import in_threads


@dataclass(frozen=True)
class PairTable:
    """The solutions of all pairs of classes, side by side.

    Attributes
    ----------
    order : ndarray of shape (n,)
        The rows, sorted by class.
    packed : ndarray of shape (n_classes - 1, n)
        Their coefficients in that order, laid out as in :class:`sklearn.svm.SVC`.
    bias, objective, relative_gap, n_iter : ndarray of shape (n_pairs,)
        As in :class:`PairFit`.
    directions : sequence of (ndarray or None)
        Weight vectors of the linear kernel, where they are known better than by coefficients.
    converged : bool
        Whether all pairs were solved to the tolerance.
    """

    order: np.ndarray
    packed: np.ndarray
    bias: np.ndarray
    objective: np.ndarray
    relative_gap: np.ndarray
    n_iter: np.ndarray
    directions: Sequence[np.ndarray | None] = ()
    converged: bool = True

    @classmethod
    def of(
        cls, fits: Sequence[PairFit], members: Sequence[np.ndarray], labels: np.ndarray
    ) -> PairTable:
        """Put models of the pairs together; ``members`` are the rows of each."""
        order = np.argsort(labels, kind="stable")
        n_classes = int(labels[order[-1]]) + 1
        packed = np.zeros((n_classes - 1, len(labels)))
        for fit, rows, pair in zip(fits, members, pairs_of(n_classes)):
            for k, place in zip(pair, places_of(*pair)):
                own = labels[rows] == k
                packed[place, rows[own]] = fit.coef[own]
        return cls(
            order,
            packed[:, order],
            np.array([fit.bias for fit in fits]),
            np.array([fit.objective for fit in fits]),
            np.array([fit.relative_gap for fit in fits]),
            np.array([fit.n_iter for fit in fits], dtype=np.int64),
            [fit.direction for fit in fits],
            all(fit.status == "converged" for fit in fits),
        )


class PairwiseKernelClassifier(ClassifierMixin, KernelExpansion):
    """Base of classifiers whose outputs are ``f(x) = Σ c_i k(x_i, x) + b``, one per pair.

    A subclass says how one binary problem is solved (:meth:`_fit_pair`) and keeps what it
    needs of the solutions (:meth:`_keep`).
    """

    @property
    def _votes(self) -> bool:
        """Whether there is an output for each pair of more than two classes."""
        return True

    @abstractmethod
    def _fit_pair(
        self, X: Any, y: np.ndarray, penalties: np.ndarray, weights: np.ndarray, threads: int
    ) -> PairFit:
        """Solve one binary problem with labels -1 and +1.

        ``penalties`` are the sample weights times the class weights, without ``C``; ``weights``
        are the sample weights alone.
        """

    @abstractmethod
    def _keep(self, solutions: Any) -> None:
        """Set the subclass's own attributes from the solutions of all pairs."""

    def _check_rows(self, X: Any) -> None:
        """Check what depends on the validated rows, before any work starts."""
        return

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> PairwiseKernelClassifier:
        """Fit the classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows, or their kernel matrix of shape (n_samples, n_samples) for
            ``kernel="precomputed"``. Linear classifiers also take a row source, see
            :func:`oblong.io.open_rows`, which has its own labels and weights.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights that multiply ``C`` row by row. A row of weight two counts as two rows; a
            row of weight zero is dropped.

        Returns
        -------
        self : object
            The fitted classifier. If fitting fails or is interrupted, the estimator is left as
            it was before.
        """
        with all_or_nothing(self):
            self._fit(X, y, sample_weight)
        return self

    def _fit_source(self, source: Any, y: Any, sample_weight: Any) -> None:
        raise TypeError(f"{type(self).__name__} takes rows in memory, not a row source")

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        if hasattr(X, "n_blocks"):
            self._fit_source(X, y, sample_weight)
            return
        for name in ("n_passes_", "working_rows_"):
            self.__dict__.pop(name, None)
        X, y, weights = self._training_data(X, y, sample_weight)
        check_classification_targets(y)
        self._check_rows(X)
        kept = np.flatnonzero(weights > 0)
        self.classes_, labels = np.unique(y, return_inverse=True)
        present = np.flatnonzero(np.bincount(labels[kept]))
        self._check_classes(present.size)
        if present.size < self.classes_.size:
            self.classes_ = self.classes_[present]
            labels = np.searchsorted(present, labels)
        rows, labels, weights = self._kept(X, labels, weights, kept)
        self._gamma = self._resolve_gamma(rows, None if sample_weight is None else weights)
        self._check_kernel(rows)
        penalties = self._penalties(labels, weights)
        self._warn_unconverged(self._fit_rows(X, kept, rows, labels, penalties, weights))

    def _check_classes(self, count: int) -> None:
        if count < 2:
            raise ValueError(
                f"{type(self).__name__} needs rows of at least two classes with a weight above "
                f"zero; got {count} class"
            )

    def _penalties(self, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """How much an error on each row costs, up to ``C``: by its weight alone, here."""
        return weights

    def _check_kernel(self, X: Any) -> None:
        """Check the kernel on the rows that are left, with its parameters settled."""
        return

    def _warn_unconverged(self, fits: Sequence[PairFit]) -> None:
        """Warn if a pair has no solution to the tolerance asked for."""
        return

    def _fit_rows(
        self, X: Any, kept: np.ndarray, rows: Any,
        labels: np.ndarray, penalties: np.ndarray, weights: np.ndarray,
    ) -> Sequence[PairFit]:  # fmt: skip
        """Solve every pair and keep the solutions; return at least those that did not converge.

        ``rows`` are those of ``X`` that are ``kept``.
        """
        fits, members = self._fit_pairs(rows, labels, penalties, weights)
        self._store(X, kept, labels, members, fits)
        self._keep([fit.solution for fit in fits])
        return fits

    def _fit_pairs(
        self, X: Any, labels: np.ndarray, penalties: np.ndarray, weights: np.ndarray
    ) -> tuple[list[PairFit], list[np.ndarray]]:
        """Solve every pair; return the models and the rows of each."""
        pairs = pairs_of(len(self.classes_))
        jobs, threads = self._shared_threads(len(pairs))
        parts, members, first = self._rows_of_pairs(X, labels, pairs, jobs)

        def fit(part: Any, rows: np.ndarray, positive: int) -> PairFit:
            part = self._select(X, rows) if part is None else part
            y = np.where(labels[rows] == positive, 1.0, -1.0)
            return self._fit_pair(part, y, penalties[rows], weights[rows], threads)

        found = in_threads(fit, [(parts[g], members[g], pairs[g][0]) for g in first], jobs)
        return [found[place] for place in np.argsort(first)], members

    def _shared_threads(self, pairs: int) -> tuple[int, int]:
        """How many pairs to solve at once, and threads for each."""
        jobs = min(pairs, effective_n_jobs(self.n_jobs))
        return jobs, 1 if jobs > 1 else available_threads()

    def _rows_of_pairs(
        self, X: Any, labels: np.ndarray, pairs: Sequence[tuple[int, int]], threads: int
    ) -> tuple[Sequence[Any], list[np.ndarray], np.ndarray]:
        """Rows of each pair, or None to select them; their numbers; and the order of the pairs."""
        first = np.arange(len(pairs))
        if len(pairs) == 1:
            return [X], [np.arange(len(labels))], first
        members = [np.flatnonzero((labels == i) | (labels == j)) for i, j in pairs]
        return [None] * len(pairs), members, first

    def _store(
        self, X: Any, kept: np.ndarray, labels: np.ndarray, members: list, fits: list[PairFit]
    ) -> None:
        self._store_table(X, kept, labels, PairTable.of(fits, members, labels))

    def _store_table(self, X: Any, kept: np.ndarray, labels: np.ndarray, table: PairTable) -> None:
        sorted_support = np.flatnonzero(table.packed.any(axis=0))
        support = table.order[sorted_support]
        n_classes = len(self.classes_)
        self.support_ = kept[support].astype(np.int32)
        self.n_support_ = np.bincount(labels[support], minlength=n_classes).astype(np.int32)
        self.support_vectors_ = self._support_rows(X)
        self.dual_coef_ = table.packed[:, sorted_support]
        self.intercept_ = table.bias
        self.dual_gap_ = table.relative_gap
        self.objective_ = table.objective
        self.n_iter_ = table.n_iter
        self.converged_ = table.converged
        if self.kernel == "linear":
            dense = unpack_coefficients(self.dual_coef_, self.n_support_)
            self.coef_ = np.asarray(dense @ self.support_vectors_)
            for row, direction in zip(self.coef_, table.directions):
                if direction is not None:
                    row[:] = direction
        elif hasattr(self, "coef_"):
            del self.coef_

    def _expansion(self, some: slice = slice(None)) -> tuple[Any, np.ndarray]:
        """Rows and their coefficients, of shape (n_pairs, n_rows), that make the outputs."""
        return self.support_vectors_, unpack_coefficients(self.dual_coef_, self.n_support_, some)

    def decision_function(self, X: Any) -> np.ndarray:
        """Outputs of the classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, or their kernel values against the training rows, of shape
            (n_samples, n_samples_fit), for ``kernel="precomputed"``.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes) or (n_samples, n_pairs)
            With two classes the outputs, positive for ``classes_[1]``. With more, one score
            per class (``decision_function_shape="ovr"``) or one output per pair (``"ovo"``).
        """
        check_is_fitted(self)
        n_classes = len(self.classes_)
        if n_classes == 2:
            return self._outputs(X, rounded=True)[:, 0]
        if self.decision_function_shape == "ovo":
            return self._outputs(X, rounded=True)
        return class_scores(self._outputs(X), n_classes)

    def predict(self, X: Any) -> np.ndarray:
        """Predict class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, or kernel values for ``kernel="precomputed"``.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            The class with the most votes; ``break_ties`` decides among equals.
        """
        outputs = self._outputs(X)
        n_classes = len(self.classes_)
        if n_classes == 2:
            return self.classes_[(outputs[:, 0] > 0).astype(np.intp)]
        votes, _ = pair_outcomes(outputs, n_classes)
        if self.break_ties in (True, "confidence"):
            votes = class_scores(outputs, n_classes)
        elif self.break_ties == "random":
            votes += 0.5 * check_random_state(self.random_state).random_sample(votes.shape)
        return self.classes_[votes.argmax(axis=1)]
