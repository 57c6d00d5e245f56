"""What every kernel classifier shares: validation, kernels, pairs of classes, prediction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from oblong._core.rollback import all_or_nothing
from oblong._core.threads import available_threads, chunks, single_threaded_blas
from oblong.batch._one_vs_one import (
    class_scores,
    pack_coefficients,
    pair_outcomes,
    pairs_of,
    unpack_coefficients,
)
from oblong.kernels import KERNELS, Kernel, resolve_gamma

__all__ = ["PairFit", "PairwiseKernelClassifier"]

# Rows times support vectors of a prediction block.
_PREDICTION_BLOCK = 1 << 22


@dataclass(frozen=True)
class PairFit:
    """The model of one pair of classes, ``f(x) = Σ c_i k(x_i, x) + b``.

    Attributes
    ----------
    solution : object
        The solver's result.
    coef : ndarray of shape (n,)
        Coefficients ``c`` of the rows of the pair.
    bias : float
        The bias ``b``.
    objective, relative_gap : float
        Primal objective, and by how much of it the dual objective lies below.
    n_iter : int
        Steps taken.
    status : str
        ``"converged"``, or why not.
    direction : ndarray of shape (n_features,), default=None
        For the linear kernel: the weight vector, which the certificate is computed with.
    rounded : bool, default=False
        Whether most of the gap is rounding.
    """

    solution: Any
    coef: np.ndarray
    bias: float
    objective: float
    relative_gap: float
    n_iter: int
    status: str = "converged"
    direction: np.ndarray | None = None
    rounded: bool = False


class PairwiseKernelClassifier(ClassifierMixin, BaseEstimator):
    """Base of classifiers whose outputs are ``f(x) = Σ c_i k(x_i, x) + b``, one per pair.

    A subclass says how one binary problem is solved (:meth:`_fit_pair`) and keeps what it
    needs of the solutions (:meth:`_keep`).
    """

    _parameter_constraints: ClassVar[dict] = {
        "kernel": [StrOptions(set(KERNELS)), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="left")],
        "degree": [Interval(Integral, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "decision_function_shape": [StrOptions({"ovo", "ovr"})],
        "break_ties": [StrOptions({"first", "confidence", "random"}), "boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    @abstractmethod
    def _fit_pair(
        self, X: Any, y: np.ndarray, penalties: np.ndarray, weights: np.ndarray, threads: int
    ) -> PairFit:
        """Solve one binary problem with labels -1 and +1.

        ``penalties`` are the sample weights times the class weights, without ``C``; ``weights``
        are the sample weights alone.
        """

    @abstractmethod
    def _keep(self, solutions: Sequence[Any]) -> None:
        """Set the subclass's own attributes from the solutions of all pairs."""

    def _check_rows(self, X: Any) -> None:
        """Check what depends on the validated rows, before any work starts."""
        return

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> PairwiseKernelClassifier:
        """Fit the classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows, or their kernel matrix of shape (n_samples, n_samples) for
            ``kernel="precomputed"``.
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

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        X, y = validate_data(
            self,
            X,
            y,
            dtype=[np.float64, np.float32],
            order="C",
            accept_sparse="csr",
            accept_large_sparse=False,
        )
        check_classification_targets(y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
        if (weights < 0).any():
            raise ValueError("Negative values in sample_weight")
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"Precomputed matrix must be a square matrix. Input is a {X.shape[0]}x"
                f"{X.shape[1]} matrix."
            )
        if self.kernel == "precomputed" and sp.issparse(X):
            raise TypeError("Sparse precomputed kernels are not supported.")
        self._check_rows(X)
        kept = np.flatnonzero(weights > 0)
        self.classes_, labels = np.unique(y, return_inverse=True)
        present = np.unique(labels[kept])
        if present.size < 2:
            raise ValueError(
                f"{type(self).__name__} needs rows of at least two classes with a weight above "
                f"zero; got {present.size} class"
            )
        if present.size < self.classes_.size:
            self.classes_ = self.classes_[present]
            labels = np.searchsorted(present, labels)
        all_rows = kept.size == X.shape[0]
        rows, labels, weights = (
            (X, labels, weights)
            if all_rows
            else (self._select(X, kept), labels[kept], weights[kept])
        )
        gamma_weights = None if sample_weight is None else weights
        needs_gamma = self.kernel in ("rbf", "poly", "sigmoid")
        self._gamma = resolve_gamma(self.gamma, rows, gamma_weights) if needs_gamma else 1.0
        self._check_kernel(rows)
        penalties = self._penalties(labels, weights)
        fits, members = self._fit_pairs(rows, labels, penalties, weights)
        self._store(X, kept, labels, members, fits)
        self._keep([fit.solution for fit in fits])
        self._warn_unconverged(fits)

    def _penalties(self, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """How much an error on each row costs, up to ``C``: by its weight alone, here."""
        return weights

    def _check_kernel(self, X: Any) -> None:
        """Check the kernel on the rows that are left, with its parameters settled."""
        return

    def _warn_unconverged(self, fits: Sequence[PairFit]) -> None:
        """Warn if a pair has no solution to the tolerance asked for."""
        return

    def _kernel(self) -> Kernel:
        return Kernel(self.kernel, self._gamma, int(self.degree), float(self.coef0))

    def _select(self, X: Any, rows: np.ndarray) -> Any:
        return X[np.ix_(rows, rows)] if self.kernel == "precomputed" else X[rows]

    def _fit_pairs(
        self, X: Any, labels: np.ndarray, penalties: np.ndarray, weights: np.ndarray
    ) -> tuple[list[PairFit], list[np.ndarray]]:
        """Solve every pair; return the models and the rows of each."""
        pairs = pairs_of(len(self.classes_))
        if len(pairs) == 1:
            members = [np.arange(len(labels))]
        else:
            members = [np.flatnonzero((labels == i) | (labels == j)) for i, j in pairs]
        jobs = min(len(pairs), effective_n_jobs(self.n_jobs))
        threads = 1 if jobs > 1 else available_threads()

        def fit(rows: np.ndarray, positive: int) -> PairFit:
            part = X if len(pairs) == 1 else self._select(X, rows)
            y = np.where(labels[rows] == positive, 1.0, -1.0)
            return self._fit_pair(part, y, penalties[rows], weights[rows], threads)

        if jobs == 1:
            fits = [fit(rows, pair[0]) for rows, pair in zip(members, pairs)]
        else:
            with single_threaded_blas():
                tasks = (delayed(fit)(rows, pair[0]) for rows, pair in zip(members, pairs))
                fits = Parallel(n_jobs=jobs, prefer="threads")(tasks)
        return fits, members

    def _store(
        self,
        X: Any,
        kept: np.ndarray,
        labels: np.ndarray,
        members: list[np.ndarray],
        fits: list[PairFit],
    ) -> None:
        dense = np.zeros((len(fits), len(labels)))
        for row, rows, fit in zip(dense, members, fits):
            row[rows] = fit.coef
        support = np.flatnonzero(dense.any(axis=0))
        support = support[np.argsort(labels[support], kind="stable")]
        n_classes = len(self.classes_)
        self.support_ = kept[support].astype(np.int32)
        self.n_support_ = np.bincount(labels[support], minlength=n_classes).astype(np.int32)
        self.support_vectors_ = (
            np.empty((0, 0), dtype=X.dtype) if self.kernel == "precomputed" else X[self.support_]
        )
        self.dual_coef_ = pack_coefficients(dense[:, support], labels[support], n_classes)
        self.intercept_ = np.array([fit.bias for fit in fits])
        self.dual_gap_ = np.array([fit.relative_gap for fit in fits])
        self.objective_ = np.array([fit.objective for fit in fits])
        self.n_iter_ = np.array([fit.n_iter for fit in fits], dtype=np.int64)
        self.converged_ = all(fit.status == "converged" for fit in fits)
        if self.kernel == "linear":
            self.coef_ = np.asarray(dense[:, support] @ self.support_vectors_)
            for row, fit in zip(self.coef_, fits):
                if fit.direction is not None:
                    row[:] = fit.direction
        elif hasattr(self, "coef_"):
            del self.coef_

    def _expansion(self) -> tuple[Any, np.ndarray]:
        """Rows and their coefficients, of shape (n_pairs, n_rows), that make the outputs."""
        return self.support_vectors_, unpack_coefficients(self.dual_coef_, self.n_support_)

    def _outputs(self, X: Any, rounded: bool = False) -> np.ndarray:
        """Outputs of every pair, of shape (n, n_pairs), perhaps in the precision of the rows.

        Votes count signs, and sums of outputs may cancel: both take them in double precision.
        """
        check_is_fitted(self)
        X = validate_data(
            self,
            X,
            dtype=[np.float64, np.float32],
            order="C",
            accept_sparse="csr",
            accept_large_sparse=False,
            reset=False,
        )
        with np.errstate(over="ignore", invalid="ignore"):
            outputs = self._evaluate(X)
            outputs = outputs.astype(X.dtype, copy=False) if rounded else outputs
        Kernel.check_finite(outputs, "the decision value of")
        return outputs

    def _evaluate(self, X: Any) -> np.ndarray:
        """Outputs of validated rows, in double precision whatever that of the rows.

        An output is often a small difference of large numbers.
        """
        outputs = np.empty((X.shape[0], self.intercept_.size))
        if self.kernel == "linear":
            for start, stop in chunks(X.shape[0], max(1, _PREDICTION_BLOCK // X.shape[1])):
                outputs[start:stop] = X[start:stop] @ self.coef_.T + self.intercept_
            return outputs
        vectors, coef = self._expansion()
        coef = coef.T
        if self.kernel == "precomputed":
            outputs[...] = X[:, self.support_] @ coef + self.intercept_
            return outputs
        if vectors.shape[0] == 0:
            outputs[...] = self.intercept_
            return outputs
        if sp.issparse(X) != sp.issparse(vectors):
            X, vectors = sp.csr_matrix(X), sp.csr_matrix(vectors)
        kernel = self._kernel()
        shift = None if sp.issparse(X) else kernel.centre(vectors)
        right = kernel.prepare(vectors, np.float64, shift)
        for start, stop in chunks(X.shape[0], max(1, _PREDICTION_BLOCK // right.n)):
            left = kernel.prepare(X[start:stop], np.float64, shift)
            outputs[start:stop] = kernel.block(left, right) @ coef + self.intercept_
        return outputs

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

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "dual_coef_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
