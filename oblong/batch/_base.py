"""What every kernel machine shares: validation, kernels, pairs of classes, prediction."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from oblong._progress import ProgressCallback, print_progress
from oblong._threads import available_threads, chunks, single_threaded_blas
from oblong.batch._one_vs_one import (
    class_scores,
    pack_coefficients,
    pair_outcomes,
    pairs_of,
    unpack_coefficients,
)
from oblong.kernels import KERNELS, Kernel, resolve_gamma
from oblong.linalg.columns import ExplicitColumns, KernelColumns, SymmetricColumns
from oblong.linalg.definite import check_positive_semidefinite
from oblong.solvers.margin import MarginResult

__all__ = ["KernelMachine"]

# Rows whose kernel matrix is factored to see whether a kernel is positive semidefinite.
_DEFINITENESS_ROWS = 2000
# Rows times support vectors of a prediction block.
_PREDICTION_BLOCK = 1 << 22


class KernelMachine(ClassifierMixin, BaseEstimator):
    """Base of classifiers whose outputs are ``f(x) = Σ c_i k(x_i, x) + b``, one per pair.

    A subclass says how one binary problem is solved (:meth:`_solve_pair`) and keeps what it
    wants of the solutions (:meth:`_keep`).
    """

    _parameter_constraints: ClassVar[dict] = {
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "kernel": [StrOptions(set(KERNELS)), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="left")],
        "degree": [Interval(Integral, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "cache_size": [Interval(Real, 0.0, None, closed="neither")],
        "decision_function_shape": [StrOptions({"ovo", "ovr"})],
        "break_ties": [StrOptions({"first", "confidence", "random"})],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-3,
        max_iter: int = -1,
        class_weight: Any = None,
        cache_size: float = 1024,
        decision_function_shape: str = "ovr",
        break_ties: str = "first",
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.cache_size = cache_size
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @abstractmethod
    def _solve_pair(
        self,
        columns: SymmetricColumns,
        y: np.ndarray,
        C: np.ndarray,
        progress: ProgressCallback | None,
    ) -> Any:
        """Solve one binary problem; the result has ``margin`` and ``n_iter``."""

    @abstractmethod
    def _keep(self, solutions: Sequence[Any]) -> None:
        """Set the subclass's own attributes from the solutions of all pairs."""

    def _needs_positive_semidefinite(self) -> bool:
        """Whether an indefinite kernel would leave the problem without a solution."""
        return False

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelMachine:
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
        with _all_or_nothing(self):
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
        if self._needs_positive_semidefinite():
            self._check_definiteness(rows)
        C = self.C * weights * self._class_weights(labels, weights)[labels]
        solutions, members, biases = self._solve_all(rows, labels, C)
        self._store(X, kept, labels, members, solutions)
        self.intercept_ = np.array(biases)
        self._keep(solutions)
        self._warn_unconverged(solutions)

    def _kernel(self) -> Kernel:
        return Kernel(self.kernel, self._gamma, int(self.degree), float(self.coef0))

    def _select(self, X: Any, rows: np.ndarray) -> Any:
        return X[np.ix_(rows, rows)] if self.kernel == "precomputed" else X[rows]

    def _class_weights(self, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Factor of each class; "balanced" counts rows by their weights."""
        n_classes = len(self.classes_)
        if self.class_weight is None:
            return np.ones(n_classes)
        if isinstance(self.class_weight, str):
            totals = np.bincount(labels, weights, minlength=n_classes)
            return totals.sum() / (n_classes * totals)
        # Some other class may be missing from this fold; but a dict that names none of them, or
        # lacks a class while naming others that do not exist, is a slip.
        names = self.classes_.tolist()
        missing = [name for name in names if name not in self.class_weight]
        if missing and any(key not in names for key in self.class_weight):
            raise ValueError(f"The classes, {missing}, are not in class_weight")
        factors = np.array([float(self.class_weight.get(name, 1.0)) for name in names])
        if not (np.isfinite(factors).all() and (factors > 0.0).all()):
            raise ValueError("class_weight must hold finite numbers above zero")
        return factors

    def _check_definiteness(self, X: Any) -> None:
        kernel = self._kernel()
        if kernel.always_positive_semidefinite:
            return
        step = max(1, -(-X.shape[0] // _DEFINITENESS_ROWS))
        sample = self._select(X, np.arange(0, X.shape[0], step))
        check_positive_semidefinite(np.asarray(kernel(sample), dtype=np.float64))

    def _solve_all(
        self, X: Any, labels: np.ndarray, C: np.ndarray
    ) -> tuple[list[Any], list[np.ndarray], list[float]]:
        """Solve every pair; return the solutions, the rows that each concerns, and the biases."""
        pairs = pairs_of(len(self.classes_))
        if len(pairs) == 1:
            members = [np.arange(len(labels))]
        else:
            members = [np.flatnonzero((labels == i) | (labels == j)) for i, j in pairs]
        jobs = min(len(pairs), effective_n_jobs(self.n_jobs))
        threads = 1 if jobs > 1 else available_threads()
        progress = print_progress if self.verbose else None

        def solve(rows: np.ndarray, positive: int) -> tuple[Any, float]:
            part = X if len(pairs) == 1 else self._select(X, rows)
            y = np.where(labels[rows] == positive, 1.0, -1.0)
            columns = self._columns(part, threads)
            solution = self._solve_pair(columns, y, C[rows], progress)
            return solution, solution.margin.bias - columns.offset(solution.margin.coef)

        if jobs == 1:
            solved = [solve(rows, pair[0]) for rows, pair in zip(members, pairs)]
        else:
            with single_threaded_blas():
                tasks = (delayed(solve)(rows, pair[0]) for rows, pair in zip(members, pairs))
                solved = Parallel(n_jobs=jobs, prefer="threads")(tasks)
        solutions, biases = zip(*solved)
        return list(solutions), members, list(biases)

    def _columns(self, X: Any, threads: int) -> SymmetricColumns:
        if self.kernel == "precomputed":
            return ExplicitColumns(X, threads)
        return KernelColumns(
            self._kernel(), X, cache_bytes=self.cache_size * 2.0**20, threads=threads
        )

    def _store(
        self,
        X: Any,
        kept: np.ndarray,
        labels: np.ndarray,
        members: list[np.ndarray],
        solutions: list[Any],
    ) -> None:
        margins: list[MarginResult] = [solution.margin for solution in solutions]
        dense = np.zeros((len(margins), len(labels)))
        for row, rows, margin in zip(dense, members, margins):
            row[rows] = margin.coef
        support = np.flatnonzero(dense.any(axis=0))
        support = support[np.argsort(labels[support], kind="stable")]
        n_classes = len(self.classes_)
        self.support_ = kept[support].astype(np.int32)
        self.n_support_ = np.bincount(labels[support], minlength=n_classes).astype(np.int32)
        self.support_vectors_ = (
            np.empty((0, 0), dtype=X.dtype) if self.kernel == "precomputed" else X[self.support_]
        )
        self.dual_coef_ = pack_coefficients(dense[:, support], labels[support], n_classes)
        self.dual_gap_ = np.array([margin.relative_gap for margin in margins])
        self.objective_ = np.array([margin.objective for margin in margins])
        self.n_iter_ = np.array([solution.n_iter for solution in solutions], dtype=np.int64)
        self.converged_ = all(margin.status == "converged" for margin in margins)
        if self.kernel == "linear":
            self.coef_ = np.asarray(dense[:, support] @ self.support_vectors_)
        elif hasattr(self, "coef_"):
            del self.coef_

    def _warn_unconverged(self, solutions: list[Any]) -> None:
        worst = max(
            (s for s in solutions if s.margin.status != "converged"),
            key=lambda s: s.margin.relative_gap,
            default=None,
        )
        if worst is not None:
            why = {
                "max_iter": f"max_iter={self.max_iter} was reached",
                "stalled": "rounding allows no further progress",
            }[worst.margin.status]
            warnings.warn(
                f"{type(self).__name__} did not converge to tol={self.tol:g}: {why}. The "
                f"relative duality gap reached is {worst.margin.relative_gap:.3g}. Scaling the "
                f"features may help.",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _outputs(self, X: Any) -> np.ndarray:
        """Outputs of every pair, of shape (n, n_pairs)."""
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
        if self.kernel == "linear":
            return np.asarray(X @ self.coef_.T.astype(X.dtype)) + self.intercept_
        coef = unpack_coefficients(self.dual_coef_, self.n_support_).T
        if self.kernel == "precomputed":
            return X[:, self.support_] @ coef + self.intercept_
        vectors = self.support_vectors_
        if sp.issparse(X) != sp.issparse(vectors):
            X, vectors = sp.csr_matrix(X), sp.csr_matrix(vectors)
        kernel = self._kernel()
        dense = not sp.issparse(X)
        shift = vectors.mean(axis=0) if dense and kernel.name == "rbf" else None
        right = kernel.prepare(vectors, X.dtype, shift)
        outputs = np.empty((X.shape[0], coef.shape[1]), dtype=X.dtype)
        threads = available_threads()
        coef = coef.astype(X.dtype)
        for start, stop in chunks(X.shape[0], max(1, _PREDICTION_BLOCK // max(1, right.n))):
            left = kernel.prepare(X[start:stop], X.dtype, shift)
            outputs[start:stop] = kernel.block(left, right, threads=threads) @ coef
        outputs += self.intercept_.astype(X.dtype)
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
        outputs = self._outputs(X)
        n_classes = len(self.classes_)
        if n_classes == 2:
            return outputs[:, 0]
        return (
            outputs if self.decision_function_shape == "ovo" else class_scores(outputs, n_classes)
        )

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
        if self.break_ties == "confidence":
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


@contextmanager
def _all_or_nothing(estimator: BaseEstimator) -> Iterator[None]:
    """Put the estimator back as it was if the body does not come to its end."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
