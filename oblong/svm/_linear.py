"""LinearSVC with the signature of scikit-learn."""

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model._base import LinearClassifierMixin, SparseCoefMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from oblong._core.class_weights import class_factors, row_penalties
from oblong._core.estimator import ClassWeight, Estimator, Natural, Positive, RandomState, Verbose
from oblong._core.progress import print_pass
from oblong._core.rollback import all_or_nothing
from oblong._core.threads import available_threads
from oblong.batch._one_vs_rest import positive_classes
from oblong.batch._rows import validated_rows
from oblong.solvers.linear.batch import solve_linear_batch
from oblong.solvers.linear.batch_problem import (
    DEFAULTS,
    LinearBatch,
    LinearBatchResult,
    small_tolerance,
)
from oblong.solvers.linear.relative import solve_linear_relative_margin
from oblong.solvers.linear.squared_hinge import SquaredHingeResult, solve_squared_hinge


@dataclass(eq=False, repr=False)
class LinearSVC(LinearClassifierMixin, SparseCoefMixin, Estimator):
    """Linear support vector classification, with the signature of :class:`sklearn.svm.LinearSVC`.

    The problem is that of scikit-learn: one class against the rest, and a bias that is the weight
    of a constant column ``intercept_scaling`` and is penalised like the other weights. Parameters
    and attributes are those of scikit-learn, except that the L1 penalty and the joint problem of
    Crammer and Singer raise an error. For a bias without a penalty see
    :class:`~oblong.LinearRelativeMarginClassifier` with ``spread=1``.

    Parameters
    ----------
    penalty : {"l2"}, default="l2"
        The penalty of the weights; scikit-learn's "l1" raises an error.
    loss : {"hinge", "squared_hinge"}, default="squared_hinge"
        The loss.
    dual : "auto" or bool, default="auto"
        Without effect, as the solvers find the primal and the dual solution together; the
        combination of "hinge" and False is an error as in scikit-learn.
    tol : float, default=1e-4
        Relative accuracy: of the weights for the squared hinge, of the objective for the hinge.
        For the squared hinge the relative gap between primal and dual objective is at most
        ``tol ** 2``, or 1e-6 for rows in single precision, which are not copied to double.
    C : float, default=1.0
        Penalty of margin violations, larger than zero.
    multi_class : {"ovr"}, default="ovr"
        One class against the rest; scikit-learn's "crammer_singer" raises an error.
    fit_intercept : bool, default=True
        Whether there is a bias.
    intercept_scaling : float, default=1.0
        Value of the constant column whose weight is the bias; larger values penalise it less.
    class_weight : dict or "balanced", default=None
        Factors of ``C`` by class.
    verbose : int, default=0
        Whether to report progress on standard error.
    random_state : int, RandomState instance or None, default=None
        Seed of the order of the rows.
    max_iter : int, default=1000
        Limit on the epochs of coordinate descent of each binary problem; on the steps of the
        method that takes over, where descent crawls.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weight vectors.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Biases; the number 0.0 with ``fit_intercept=False``.
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    n_features_in_ : int
        Number of features seen in :meth:`fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if ``X`` had string names.
    n_iter_ : int
        Largest number of epochs of a binary problem.
    objective_, dual_gap_ : ndarray of shape (1,) or (n_classes,)
        Primal objective of each binary problem, and the certificate: no solution is better than
        this one by more than this fraction.
    converged_ : bool
        Whether all binary problems were solved to the tolerance.

    See Also
    --------
    oblong.LinearRelativeMarginClassifier : Linear classifiers with a bound on their outputs.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oblong.svm import LinearSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearSVC().fit(X, y)
    >>> round(model.score(X, y), 2)
    0.97
    >>> model.coef_.shape
    (3, 4)
    """

    penalty: Literal["l1", "l2"] = "l2"
    loss: Literal["hinge", "squared_hinge"] = "squared_hinge"
    _: KW_ONLY
    dual: bool | Literal["auto"] = "auto"
    tol: Positive = 1e-4
    C: Positive = 1.0
    multi_class: Literal["ovr", "crammer_singer"] = "ovr"
    fit_intercept: bool = True
    intercept_scaling: Positive = 1
    class_weight: ClassWeight = None
    verbose: Verbose = 0
    random_state: RandomState = None
    max_iter: Natural = 1000

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights that multiply ``C`` row by row.

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
        self._check_supported()
        X, y = validated_rows(self, X, y)
        check_classification_targets(y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        self.classes_, labels = np.unique(y, return_inverse=True)
        n_classes = len(self.classes_)
        if n_classes < 2:
            raise ValueError(
                "This solver needs samples of at least 2 classes in the data, but the data "
                f"contains only one class: {self.classes_[0]!r}"
            )
        factors = class_factors(self.class_weight, self.classes_, labels, weights, allow_zero=True)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        positives = positive_classes(n_classes)
        # As in LIBLINEAR, the rest has no factor where there are more than two classes.
        own = weights * factors[labels] if n_classes == 2 else weights
        batch = LinearBatch(
            X,
            labels,
            row_penalties(self.C, own),
            [(k, None) for k in positives],
            np.ones(1) if n_classes == 2 else factors,
            squared=self.loss == "squared_hinge",
            intercept="penalised" if self.fit_intercept else "none",
            scale=float(self.intercept_scaling),
        )
        gap = small_tolerance(X, self.tol)
        if self.loss == "squared_hinge":
            # The squared distance from the best weights is at most twice the gap.
            gap = max(self.tol**2, DEFAULTS.single_gap if X.dtype == np.float32 else 0.0)
        found = solve_linear_batch(
            batch,
            tol=max(gap, 1e-12),
            max_iter=self.max_iter,
            threads=available_threads(),
            seed=seed,
            progress=print_pass if self.verbose else None,
        )
        found = self._solve_rest(batch, found, gap, seed)
        self.coef_ = found.coef
        self.intercept_: Any = found.bias if self.fit_intercept else 0.0
        self.objective_, self.dual_gap_ = found.objective, found.relative_gap
        self.n_iter_ = int(found.n_iter.max())
        self.converged_ = bool((self.dual_gap_ <= self.tol).all())
        if not self.converged_:
            warnings.warn(
                f"LinearSVC did not converge to tol={self.tol:g} in max_iter={self.max_iter} "
                f"steps. The relative duality gap reached is {self.dual_gap_.max():.3g}. Increase "
                "max_iter, lower C or scale the columns.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _check_supported(self) -> None:
        parameters = f"penalty={self.penalty!r}, loss={self.loss!r}, dual={self.dual}"
        if self.multi_class == "crammer_singer":
            raise ValueError(
                "multi_class='crammer_singer' is not supported here: use multi_class='ovr', or "
                "sklearn.svm.LinearSVC"
            )
        if (self.penalty == "l1" and (self.loss == "hinge" or self.dual is True)) or (
            self.loss == "hinge" and self.dual is False
        ):
            raise ValueError(
                f"Unsupported set of arguments, as in scikit-learn: Parameters: {parameters}"
            )
        if self.penalty == "l1":
            raise ValueError(
                "penalty='l1' is not supported here: use penalty='l2', or sklearn.svm.LinearSVC"
            )

    def _solve_rest(
        self, batch: LinearBatch, found: LinearBatchResult, gap: float, seed: int
    ) -> LinearBatchResult:
        """Solve those problems alone in which the descent of all together has got stuck."""
        crawls = np.flatnonzero(~(found.relative_gap <= gap))
        if not crawls.size:
            return found
        rows = self._with_constant(batch.X)
        for k in crawls.tolist():
            one = self._solve(rows, *batch.problem(k), seed)
            d = batch.X.shape[1]
            bias = self.intercept_scaling * one.coef[d] if self.fit_intercept else 0.0
            found = found.with_better(k, one.coef[:d], bias, one.objective, one.objective - one.gap)
        return found

    def _with_constant(self, X: Any) -> Any:
        """Rows in double precision, with the constant column whose weight is the bias."""
        X = X.astype(np.float64, copy=False)
        if not self.fit_intercept:
            return X
        ones = np.full((X.shape[0], 1), float(self.intercept_scaling))
        return sp.hstack([X, ones], format="csr") if sp.issparse(X) else np.hstack([X, ones])

    def _solve(self, X: Any, y: np.ndarray, C: np.ndarray, seed: int) -> SquaredHingeResult:
        kept = np.flatnonzero(C > 0.0)
        if kept.size < C.size:
            X, y, C = X[kept], y[kept], C[kept]
        if self.loss == "squared_hinge":
            return solve_squared_hinge(X, y, C, tol=self.tol, max_iter=self.max_iter)
        found = solve_linear_relative_margin(
            X,
            y,
            C,
            spread=1.0,
            intercept=False,
            tol=self.tol,
            max_iter=self.max_iter,
            rng=np.random.default_rng(seed),
        )
        one = found.solution
        return SquaredHingeResult(one.coef, one.objective, one.gap, found.n_iter, one.status)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
