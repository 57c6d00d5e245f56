"""SVC and SVR with the signatures of scikit-learn."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _ensure_no_complex_data

from oblong._core.estimator import Positive
from oblong.batch._expansion import CertifiedExpansion
from oblong.batch.margin_regressor import MarginRegressor
from oblong.batch.relative_margin import RelativeMarginClassifier

_EVERYTHING_MASKED = "Invalid input - all samples have zero or negative weights."


class _Conventions(CertifiedExpansion):
    """Conventions of LIBSVM that differ from those of our estimators, and its attribute names."""

    def _training_data(
        self, X: Any, y: Any, sample_weight: Any, **targets: Any
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        if sample_weight is not None:
            given = np.asarray(sample_weight)
            _ensure_no_complex_data(given)
            # A negative weight leaves a row out, as zero does.
            sample_weight = np.maximum(given.astype(np.float64), 0.0)
            if sample_weight.size and not sample_weight.any():
                raise ValueError(_EVERYTHING_MASKED)
        X, y, weights = super()._training_data(X, y, sample_weight, **targets)
        # The variance of all rows, whatever their weights.
        self._gamma = super()._resolve_gamma(X, None)
        self.shape_fit_ = X.shape
        return X, y, weights

    def _resolve_gamma(self, X: Any, weights: np.ndarray | None) -> float:
        return self._gamma

    @property
    def fit_status_(self) -> int:
        """0 if the solution meets the tolerance, 1 if there was a warning."""
        return int(not self.converged_)


@dataclass(kw_only=True, eq=False, repr=False)
class SVC(_Conventions, RelativeMarginClassifier):
    """Support vector classification, with the signature of :class:`sklearn.svm.SVC`.

    It is :class:`~oblong.RelativeMarginClassifier` without a bound (``spread=1``). Parameters and
    attributes are those of scikit-learn; differences are described here. For probabilities,
    ``probability=True`` in older code, wrap the classifier in
    :class:`~oblong.CalibratedMarginClassifier`. A fit takes as many threads as BLAS may use, which
    share the pairs of classes.

    Parameters
    ----------
    C : float, default=1.0
        Penalty of margin violations, larger than zero and finite.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        The kernel function.
    degree : int, default=3
        Degree of the polynomial kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of "rbf", "poly" and "sigmoid".
    coef0 : float, default=0.0
        Constant term of "poly" and "sigmoid".
    shrinking : bool, default=True
        Without effect: the solver has no such heuristic.
    probability : bool, default=False
        Only False, or "deprecated", the default of scikit-learn: with True, :meth:`fit` raises an
        error that names :class:`~oblong.CalibratedMarginClassifier`.
    tol : float, default=1e-3
        Largest violation of the optimality conditions. The fit also proves a relative duality
        gap of at most ``max(tol, 1e-3)``, or warns.
    cache_size : float, default=200
        Memory limit of the kernel cache in MB.
    class_weight : dict or "balanced", default=None
        Factors of ``C`` by class.
    verbose : bool, default=False
        Whether to report progress on standard error.
    max_iter : int, default=-1
        Limit on the solver's steps, or -1 for none. They are not LIBSVM's iterations.
    decision_function_shape : {"ovo", "ovr"}, default="ovr"
        Shape of the decision function with more than two classes.
    break_ties : bool, default=False
        Whether the decision function breaks ties of the votes.
    random_state : int, RandomState instance or None, default=None
        Without effect: nothing is random.

    Attributes
    ----------
    class_weight_ : ndarray of shape (n_classes,)
        Factors of ``C``.
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    coef_ : ndarray of shape (n_pairs, n_features)
        Weight vectors, for the linear kernel only; dense also if the rows are sparse.
    dual_coef_ : ndarray of shape (n_classes - 1, n_SV)
        Coefficients of the support vectors; dense also if the rows are sparse.
    fit_status_ : int
        0 if the solution meets the tolerance, 1 if there was a warning.
    intercept_ : ndarray of shape (n_pairs,)
        Biases.
    n_features_in_ : int
        Number of features seen in :meth:`fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if ``X`` had string names.
    n_iter_ : ndarray of shape (n_pairs,)
        Steps taken by the solver.
    support_ : ndarray of shape (n_SV,)
        Row indices of the support vectors.
    support_vectors_ : {ndarray, CSR matrix} of shape (n_SV, n_features)
        Support vectors.
    n_support_ : ndarray of shape (n_classes,)
        Their number by class.
    shape_fit_ : tuple of int
        Shape of the training rows.
    objective_, dual_gap_ : ndarray of shape (n_pairs,)
        The certificate, see :class:`~oblong.RelativeMarginClassifier`.
    converged_ : bool
        Whether all binary problems were solved to the tolerance.

    See Also
    --------
    oblong.RelativeMarginClassifier : The same model with a bound on its outputs.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oblong.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVC(C=10.0).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.99
    >>> int(model.n_support_.sum()) == len(model.support_), model.fit_status_
    (True, 0)
    """

    C: Positive = 1.0
    shrinking: bool = True
    cache_size: Positive = 200
    probability: bool | Literal["deprecated"] = False
    break_ties: bool = False
    # What the estimator below calls by these names is settled here.
    B: float | None = field(default=None, init=False)
    spread: float = field(default=1.0, init=False)
    D: float | None = field(default=None, init=False)
    nu: float | None = field(default=None, init=False)
    n_jobs: int | None = field(default=None, init=False)

    def _training_data(
        self, X: Any, y: Any, sample_weight: Any, **targets: Any
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        X, y, weights = super()._training_data(X, y, sample_weight, **targets)
        check_classification_targets(y)
        classes = np.unique(y)
        left = np.isin(classes, y[weights > 0.0])
        if len(classes) > 1 and left.sum() == 1:
            raise ValueError(
                "Invalid input - all samples with positive weights belong to the same class."
            )
        # Balanced by the number of rows, whatever their weights.
        factors = compute_class_weight(self.class_weight, classes=classes, y=y)
        if not (factors > 0.0).all():
            raise ValueError(f"class_weight must have numbers above zero, got {self.class_weight}")
        self.class_weight_ = factors[left]
        return X, y, weights

    def _penalties(self, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return weights * self.class_weight_[labels]

    def predict(self, X: Any) -> np.ndarray:
        """Predict class labels, like :meth:`oblong.RelativeMarginClassifier.predict`."""
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        return super().predict(X)


@dataclass(kw_only=True, eq=False, repr=False)
class SVR(_Conventions, MarginRegressor):
    """Support vector regression, with the signature of :class:`sklearn.svm.SVR`.

    It is :class:`~oblong.MarginRegressor` with ``loss="epsilon"``. Parameters and attributes are
    those of scikit-learn.

    Parameters
    ----------
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        The kernel function.
    degree : int, default=3
        Degree of the polynomial kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of "rbf", "poly" and "sigmoid".
    coef0 : float, default=0.0
        Constant term of "poly" and "sigmoid".
    tol : float, default=1e-3
        Largest violation of the optimality conditions. The fit also proves a relative duality
        gap of at most ``max(tol, 1e-3)``, or warns.
    C : float, default=1.0
        Penalty of errors, larger than zero and finite.
    epsilon : float, default=0.1
        Errors up to this size are not penalised.
    shrinking : bool, default=True
        Without effect: the solver has no such heuristic.
    cache_size : float, default=200
        Memory limit of the kernel cache in MB.
    verbose : bool, default=False
        Whether to report progress on standard error.
    max_iter : int, default=-1
        Limit on the solver's steps, or -1 for none. They are not LIBSVM's iterations.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        The weight vector, for the linear kernel only; dense also if the rows are sparse.
    dual_coef_ : ndarray of shape (1, n_SV)
        Coefficients of the support vectors; dense also if the rows are sparse.
    fit_status_ : int
        0 if the solution meets the tolerance, 1 if there was a warning.
    intercept_ : ndarray of shape (1,)
        The bias.
    n_features_in_ : int
        Number of features seen in :meth:`fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if ``X`` had string names.
    n_iter_ : int
        Steps taken by the solver.
    support_ : ndarray of shape (n_SV,)
        Row indices of the support vectors.
    support_vectors_ : {ndarray, CSR matrix} of shape (n_SV, n_features)
        Support vectors.
    n_support_ : ndarray of shape (1,)
        Their number.
    shape_fit_ : tuple of int
        Shape of the training rows.
    objective_, dual_gap_ : float
        The certificate, see :class:`~oblong.MarginRegressor`.
    converged_ : bool
        Whether the problem was solved to the tolerance.

    See Also
    --------
    oblong.MarginRegressor : The same model, and that of the quantile loss.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from oblong.svm import SVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> round(SVR(C=100.0).fit(X, y).score(X, y), 2)
    0.67
    """

    C: Positive = 1.0
    shrinking: bool = True
    cache_size: Positive = 200
    # What the estimator below calls by these names is settled here.
    loss: Literal["epsilon", "quantile"] = field(default="epsilon", init=False)
    quantile: Any = field(default=0.5, init=False)
    bounds: tuple[float, float] | None = field(default=None, init=False)
