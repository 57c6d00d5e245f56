"""What searches over a grid of parameters share: grid, folds, table, and the chosen model."""

import sys
import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Annotated, Any, Self

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import get_scorer_names
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from oblong._core.estimator import (
    ArrayLike,
    Estimator,
    Finite,
    Folds,
    Limit,
    Natural,
    Positive,
    Verbose,
)
from oblong._core.rollback import all_or_nothing
from oblong.batch._expansion import KernelExpansion
from oblong.batch._parameters import KernelName
from oblong.batch._rows import validated_rows

# Scores closer than this are equal but for rounding.
TIE = 1e-10


def settings(search: BaseEstimator, model: Any) -> dict[str, Any]:
    """Parameters of a search that are those of its model."""
    names = set(model._get_param_names())
    return {name: value for name, value in search.get_params(False).items() if name in names}


def refitted(estimator: Any) -> bool:
    """Whether a search predicts: not if it was asked not to refit."""
    return bool(estimator.refit) or hasattr(estimator, "best_estimator_")


def checked_numbers(name: str, values: Any, least: float | None = None) -> np.ndarray:
    """Finite numbers above zero, or of at least ``least``."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a list of numbers, got {values!r}") from None
    inside = numbers > 0.0 if least is None else numbers >= least
    if numbers.ndim != 1 or numbers.size == 0 or not (np.isfinite(numbers) & inside).all():
        limit = "above 0" if least is None else f"of at least {least:g}"
        raise ValueError(f"{name} must be finite numbers {limit}, got {values}")
    return numbers


def checked_gammas(gammas: Any, kernel: Any) -> list:
    """The gammas, or the first of them where the kernel has none."""
    if np.ndim(gammas) != 1:
        raise ValueError(f"gammas must be a list, got {gammas!r}")
    gammas = list(gammas)
    for gamma in gammas:
        named = isinstance(gamma, str) and gamma in ("scale", "auto")
        number = isinstance(gamma, Real) and np.isfinite(float(gamma)) and float(gamma) >= 0.0
        if not (named or number):
            raise ValueError(
                f'gammas must be "scale", "auto" or finite numbers of at least 0, got {gamma!r}'
            )
    if not gammas:
        raise ValueError("gammas must contain at least one value")
    gammas = [gamma if isinstance(gamma, str) else float(gamma) for gamma in gammas]
    return gammas if kernel in ("rbf", "poly", "sigmoid") else gammas[:1]


def splits_of(splitter: Any, X: Any, y: np.ndarray, groups: Any) -> list[tuple]:
    """Rows to train and to test on, by number; masks and numbers from the end are valid too."""
    rows = np.arange(len(y))

    def numbers(part: Any) -> np.ndarray:
        return rows[np.asarray(part, dtype=None if len(part) else np.intp)]

    splits = [tuple(map(numbers, split)) for split in splitter.split(X, y, groups)]
    if not splits:
        raise ValueError("cv gives no folds")
    return splits


@dataclass(kw_only=True, eq=False, repr=False)
class ParameterSearch(Estimator):
    """Base of estimators whose parameters are chosen by cross-validation.

    A subclass says how (:meth:`_fit`).
    """

    Cs: ArrayLike = (0.1, 1.0, 10.0, 100.0)
    gammas: ArrayLike = ("scale",)
    kernel: KernelName = "rbf"
    degree: Natural = 3
    coef0: Finite = 0.0
    cv: Folds = None
    scoring: Annotated[Any, StrOptions(set(get_scorer_names())), callable, None] = None
    tol: Positive = 1e-3
    max_iter: Limit = -1
    cache_size: Positive = 1024
    refit: bool = True
    n_jobs: int | None = None
    verbose: Verbose = 0
    cv_results_: dict[str, Any] = field(init=False)
    best_estimator_: Any = field(init=False)

    _training_data = KernelExpansion._training_data

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose the parameters and fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows, or their kernel matrix for ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Class labels, or targets of a regression.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, in the fits and in the scores. Rows of weight zero are in the
            folds but count for nothing.
        groups : array-like of shape (n_samples,), default=None
            Groups of rows, for a splitter that keeps them together.

        Returns
        -------
        self : object
            The fitted model. If fitting fails or is interrupted, the estimator is left as it was
            before.
        """
        with all_or_nothing(self):
            self._fit(X, y, sample_weight, groups)
        return self

    @abstractmethod
    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> None:
        """Set the table of results, the best combination and its model."""

    def _refit(self, model: Any, X: Any, y: np.ndarray, weights: np.ndarray | None) -> None:
        """Fit the model of the best combination to all rows, if that is asked for."""
        if self.refit:
            self.best_estimator_ = model.fit(X, y, sample_weight=weights)
        else:
            self.__dict__.pop("best_estimator_", None)

    @available_if(refitted)
    def predict(self, X: Any) -> np.ndarray:
        """Predict with the best model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, or kernel values for ``kernel="precomputed"``.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Class labels, or the outputs of a regression.
        """
        X = self._validated(X, "predict")
        return self.best_estimator_.predict(X)

    def _tabulate(
        self,
        params: list[dict[str, Any]],
        scores: np.ndarray,
        n_iter: int,
        prefer: Callable[[dict[str, Any]], tuple],
    ) -> dict[str, Any]:
        """Set the best combination; return the table of results.

        ``scores`` are those of every fold. Among equal scores the combination that ``prefer`` puts
        first wins.
        """
        mean = scores.mean(axis=0)
        unknown = np.isnan(mean)
        if unknown.all():
            raise ValueError(
                f"scoring={self.scoring!r} is NaN in some fold for every combination of parameters"
            )
        if unknown.any():
            warnings.warn(
                f"scoring={self.scoring!r} gives NaN for {unknown.sum()} of {unknown.size} "
                f"combinations, which are ranked last",
                UserWarning,
                stacklevel=5,
            )
        worst_last = np.where(unknown, -np.inf, mean)
        results: dict[str, Any] = {
            f"param_{key}": _column([candidate[key] for candidate in params]) for key in params[0]
        }
        results["params"] = params
        results |= {f"split{k}_test_score": row for k, row in enumerate(scores)}
        results["mean_test_score"] = mean
        results["std_test_score"] = scores.std(axis=0)
        results["rank_test_score"] = rankdata(-worst_last, method="min").astype(np.int32)
        self.n_splits_ = len(scores)
        self.n_iter_ = n_iter
        self.best_index_ = min(
            np.flatnonzero(worst_last >= worst_last.max() - TIE),
            key=lambda k: (*prefer(params[k]), k),
        )
        self.best_params_ = params[self.best_index_]
        self.best_score_ = float(mean[self.best_index_])
        return results

    def _report(self, message: str) -> None:
        print(f"[oblong] {message}", file=sys.stderr)

    def _warn_unconverged(self, gaps: Any) -> None:
        """Warn if there is a gap, that of models that did not converge, other than NaN."""
        if not np.isnan(gaps).all():
            warnings.warn(
                f"{type(self).__name__} did not converge to tol={self.tol:g} in some folds. The "
                f"largest relative duality gap there is {np.nanmax(gaps):.3g}. Scaling the "
                f"features, or a larger max_iter, may help.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _validated(self, X: Any, method: str) -> Any:
        check_is_fitted(self)
        return validated_rows(self, X, reset=False)

    @property
    def coef_(self) -> np.ndarray:
        """Weight vectors of the best model, for the linear kernel only."""
        return self._of_best("coef_")

    @property
    def intercept_(self) -> np.ndarray:
        """Biases of the best model."""
        return self._of_best("intercept_")

    def _of_best(self, name: str) -> np.ndarray:
        best = vars(self).get("best_estimator_")
        if best is None or not hasattr(best, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(best, name)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "cv_results_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


def _column(values: list) -> np.ma.MaskedArray:
    """Values of one parameter as GridSearchCV keeps them: masked, nothing of it hidden."""
    kind = np.float64 if all(isinstance(value, Real) for value in values) else object
    return np.ma.MaskedArray(np.array(values, dtype=kind), mask=False)
