"""Probabilities and prediction sets for the margin classifiers."""

import sys
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.base import ClassifierMixin, MetaEstimatorMixin, _fit_context, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv
from sklearn.utils import get_tags, indexable
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, _routing_enabled
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d

from oblong._core.estimator import Estimator, Folds, Positive, Verbose
from oblong._core.missing import check_present
from oblong._core.rollback import all_or_nothing
from oblong.batch._calibration_folds import checked_folds, folds_of, routed
from oblong.batch._cross_fit import MOST_KEPT, cross_fit, is_pairwise, outputs_of, predicted
from oblong.batch._one_vs_one import pairs_of
from oblong.batch.relative_margin import RelativeMarginClassifier
from oblong.solvers.calibration import maps
from oblong.solvers.calibration.conformal import conformity_of_pairs, conformity_of_rest, p_values

# A certificate of more than so many tolerances is worth a warning.
_LOOSE = 10.0
# P-values are fractions: one that equals 1 - confidence must not pass by rounding.
_ROUND_OFF = 1e-12


@dataclass(eq=False, repr=False)
class CalibratedMarginClassifier(MetaEstimatorMixin, ClassifierMixin, Estimator):
    r"""Probabilities and prediction sets that agree with a classifier's predictions.

    The classifier is fitted to all rows, and this model makes the predictions. It is also fitted
    without each of a few folds, which gives every row an output from a model that has not seen it.
    These outputs give probabilities [1]_ that never contradict the prediction, and prediction sets
    with a guaranteed coverage for each class [2]_ [3]_.

    Parameters
    ----------
    estimator : classifier, default=None
        A classifier with ``decision_function``, of this library or another, or a pipeline that
        ends in one. The default is :class:`RelativeMarginClassifier` with its defaults.
    cv : int, cross-validation generator or iterable, default=None
        The folds: a number of stratified folds, a splitter, or pairs of training and test rows. The
        default is 5, or as many as the smallest class has rows, at least 2; ``n_folds_`` says how
        many. Every row has to be left out exactly once. With
        :class:`~sklearn.model_selection.LeaveOneOut` the outputs are exact, up to ``fold_tol``.
    fold_tol : float, default=1e-2
        Tolerance of the models of the folds, for the margin classifiers of this library. The model
        that predicts keeps its own ``tol``.
    n_jobs : int, default=None
        Number of folds to fit at once. If the folds are solved from the solution with all rows,
        ``n_jobs`` of the estimator applies instead: the number of pairs of classes solved at once.
    verbose : int, default=0
        Whether to report progress on standard error.

    Attributes
    ----------
    estimator_ : classifier
        The model fitted to all rows.
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    outputs_ : ndarray of shape (n_kept, n_problems)
        Outputs of every binary problem on the rows with a weight above zero, each by the model that
        has not seen the row.
    fold_of_ : ndarray of shape (n_kept,)
        The fold of each of these rows.
    n_folds_ : int
        The number of folds.
    sigmoids_ : ndarray of shape (n_problems, 2)
        Slope and offset of the sigmoid of each binary problem; absent for one-vs-rest classifiers
        with more than two classes.
    temperature_ : float
        Divisor of the class scores before the softmax; 1 for two classes.
    fold_gap_ : float
        Largest relative duality gap among the problems of the folds: the certificate of
        ``outputs_``. NaN if the estimator has none.
    n_iter_ : int
        Steps of the solver in all folds.
    n_features_in_ : int
        Number of features seen in :meth:`fit`, if the estimator has it.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if ``X`` had string names.

    See Also
    --------
    sklearn.calibration.CalibratedClassifierCV : Calibrates any classifier; its most probable class
        may differ from what the classifier predicts.
    sklearn.calibration.CalibrationDisplay : Shows whether the probabilities are right.

    Notes
    -----
    Two classes get Platt's sigmoid, kept on the side of one half that the sign of the output
    indicates. With more classes, each pair of classes gets such a sigmoid; the probabilities are a
    softmax of the summed logarithms, divided by a temperature. In the few rows where the votes
    predict another class than the most probable one, both get the average of their probabilities,
    and the predicted class a billionth more. Classes that tie under ``break_ties="random"`` get
    equal probabilities. Classifiers that separate each class from the rest get a softmax of their
    outputs.

    The folds of :class:`RelativeMarginClassifier` are solved together, from the solution with all
    rows, and keep its kernel parameter, class weights and bounds. With a numeric ``gamma``, no
    balanced class weights and ``B`` given, or ``spread=1``, nothing is kept that depends on the
    rows left out. :class:`LinearRelativeMarginClassifier` is solved from scratch for each fold,
    under the same bounds. Other classifiers are fitted to each fold from scratch. All folds of
    :class:`RelativeMarginClassifierCV` use the parameters that were chosen on all rows, which makes
    the outputs slightly optimistic, as with any parameter that was tuned.

    The p-values are cross-conformal. For exchangeable rows the theory guarantees that at least
    :math:`1 - 2\alpha` of the rows of each class are covered at the confidence
    :math:`1 - \alpha`, less a term that falls with the size of the class [3]_; in practice
    :math:`1 - \alpha` or more are. The theorem does not cover what the folds keep of the fit to all
    rows, nor the sigmoids in the scores of more than two classes. If you need a guarantee of
    :math:`1 - \alpha` itself, set rows aside for calibration and pass this classifier to a package
    such as MAPIE or crepes.

    References
    ----------
    .. [1] J. Platt, "Probabilistic Outputs for Support Vector Machines and Comparisons to
       Regularized Likelihood Methods", Advances in Large Margin Classifiers, 61-74, 1999.
    .. [2] V. Vovk, "Cross-conformal Predictors", Annals of Mathematics and Artificial Intelligence
       74, 9-28, 2015.
    .. [3] R. F. Barber, E. J. Candès, A. Ramdas and R. J. Tibshirani, "Predictive Inference with
       the Jackknife+", Annals of Statistics 49, 486-507, 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from oblong import CalibratedMarginClassifier, RelativeMarginClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)
    >>> model = CalibratedMarginClassifier(RelativeMarginClassifier(spread=1)).fit(X[:400], y[:400])
    >>> probabilities = model.predict_proba(X[400:])
    >>> bool((probabilities.argmax(axis=1) == model.predict(X[400:])).all())
    True
    >>> sets = model.predict_set(X[400:], confidence=0.95)
    >>> float(sets[range(169), y[400:]].mean().round(2)), float(sets.sum(axis=1).mean().round(2))
    (0.95, 0.95)
    """

    estimator: Annotated[Any, HasMethods(["fit", "decision_function"]), None] = None
    _: KW_ONLY
    cv: Folds = None
    fold_tol: Positive = 1e-2
    n_jobs: int | None = None
    verbose: Verbose = 0

    # Fitting ------------------------------------------------------------------------------------

    # The estimator's parameters are its own to check.
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit the classifier to all rows and without each fold, and calibrate it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows, or their kernel matrix of shape (n_samples, n_samples) if the estimator
            has ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in the fits and in the calibration. A row of weight zero takes no
            part in anything. The p-values count rows, whatever their weights above zero.
        **fit_params : dict
            Other arguments of the estimator's ``fit``, and ``groups`` for splitters that need them.
            Values with one entry per row are split like the rows; ``X_universum`` is passed to
            every fold whole.

        Returns
        -------
        self : object
            The fitted classifier. If fitting fails or is interrupted, it is left as it was before.
        """
        with all_or_nothing(self):
            self._fit(X, y, sample_weight, fit_params)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any]) -> None:
        X, y = indexable(X, y)
        check_present(y)
        if not (isinstance(y, np.ndarray) and y.ndim == 1):
            y = column_or_1d(y, warn=True)
        model = self._template()
        options, split_options, weighted = routed(self, model, sample_weight, fit_params)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
            if weighted:
                options["sample_weight"] = weights
        kept = np.arange(len(y)) if weights is None else np.flatnonzero(weights > 0)
        cv = checked_folds(self.cv, y if weights is None else y[kept])
        self._report("all rows")
        self.estimator_ = model.fit(X, y, **options)
        options.pop("sample_weight", None)
        self.classes_ = np.asarray(self.estimator_.classes_)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
            elif hasattr(self, name):
                delattr(self, name)
        labels = np.searchsorted(self.classes_, y[kept])
        folds, self.fold_of_ = folds_of(cv, X, y, kept, labels, self.classes_, split_options)
        self._report(f"{len(folds)} folds")
        found = cross_fit(
            self.estimator_, X, y, folds, kept, weights if weighted else None, options,
            tol=self.fold_tol, n_jobs=self.n_jobs,
            precomputed=get_tags(self.estimator_).input_tags.pairwise,
        )  # fmt: skip
        self.outputs_, self.fold_gap_, self.n_iter_ = found.outputs, found.gap, found.n_iter
        self._models, self._labels, self._train = found.models, labels, found.train
        self._one_vs_one = is_pairwise(self.estimator_, self.outputs_.shape[1])
        self._calibrate(labels, np.ones(kept.size) if weights is None else weights[kept])
        if not found.converged or found.gap > _LOOSE * self.fold_tol:
            warnings.warn(
                f"{type(self).__name__}: a fold did not converge to fold_tol={self.fold_tol:g}. "
                f"The largest relative duality gap is {found.gap:.3g}. Scale the columns, or use "
                f"the remedy that the estimator's own warning names.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _template(self) -> Any:
        """The estimator to fit, a copy."""
        if self.estimator is not None:
            return clone(self.estimator)
        default = RelativeMarginClassifier()
        # Nobody else can say that the default takes weights.
        return default.set_fit_request(sample_weight=True) if _routing_enabled() else default

    def _calibrate(self, labels: np.ndarray, weights: np.ndarray) -> None:
        """Fit the maps from outputs to probabilities."""
        k, self.temperature_ = len(self.classes_), 1.0
        if k == 2 or self._one_vs_one:
            sigmoids, sizes = [], []
            for outputs, (positive, negative) in zip(self.outputs_.T, pairs_of(k)):
                rows = (labels == positive) | (labels == negative)
                sizes.append(weights[rows].sum())
                sigmoids.append(
                    maps.fit_sigmoid(outputs[rows], labels[rows] == positive, weights[rows])
                )
            self.sigmoids_, self._sizes = np.array(sigmoids), np.array(sizes)
        elif hasattr(self, "sigmoids_"):
            del self.sigmoids_
        if k > 2:
            factor = maps.fit_temperature(self._scores(self.outputs_), labels, weights)
            self.temperature_ = 1.0 / factor

    def _report(self, what: str) -> None:
        if self.verbose:
            print(f"{type(self).__name__}: fitting {what}", file=sys.stderr, flush=True)

    @property
    def n_folds_(self) -> int:
        """The number of folds."""
        return int(self.fold_of_.max()) + 1

    # Prediction ---------------------------------------------------------------------------------

    def _scores(self, outputs: np.ndarray) -> np.ndarray:
        """Scores of more than two classes, of which a softmax makes probabilities."""
        if not self._one_vs_one:
            return outputs
        k = len(self.classes_)
        log_odds = maps.pair_log_odds(outputs, self.sigmoids_, self._sizes)
        return maps.summed_logarithms(log_odds, pairs_of(k), k)

    def _conformity(self, outputs: np.ndarray) -> np.ndarray:
        """How well each class conforms to the outputs, of shape (n, n_classes)."""
        k = len(self.classes_)
        if k == 2:
            return np.column_stack([-outputs[:, 0], outputs[:, 0]])
        if self._one_vs_one:
            log_odds = maps.pair_log_odds(outputs, self.sigmoids_, self._sizes)
            return conformity_of_pairs(log_odds, pairs_of(k), k)
        return conformity_of_rest(outputs)

    def predict(self, X: Any) -> np.ndarray:
        """Predict class labels: those of ``estimator_``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, or kernel values if the estimator has a precomputed kernel.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            The labels.
        """
        check_is_fitted(self)
        return self.estimator_.predict(X)

    def decision_function(self, X: Any) -> np.ndarray:
        """Outputs of ``estimator_``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, or kernel values if the estimator has a precomputed kernel.

        Returns
        -------
        scores : ndarray
            What the estimator's ``decision_function`` returns.
        """
        check_is_fitted(self)
        return self.estimator_.decision_function(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, the largest of which is that of the predicted class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, or kernel values if the estimator has a precomputed kernel.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            One row for each row of ``X``, in the order of ``classes_``.
        """
        check_is_fitted(self)
        outputs = outputs_of(self.estimator_, X)
        leaders = predicted(self.estimator_, X, outputs)
        if len(self.classes_) == 2:
            return maps.pool(
                maps.two_class_probabilities(outputs[:, 0], *self.sigmoids_[0]), leaders
            )
        return maps.pool(softmax(self._scores(outputs) / self.temperature_, axis=1), leaders)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, or kernel values if the estimator has a precomputed kernel.

        Returns
        -------
        logarithms : ndarray of shape (n_samples, n_classes)
            See :meth:`predict_proba`.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict_p(self, X: Any) -> np.ndarray:
        """Conformal p-values of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, or kernel values if the estimator has a precomputed kernel.

        Returns
        -------
        p_values : ndarray of shape (n_samples, n_classes)
            For each class, the fraction of its rows, including the new one, that conform to it no
            better than the new row does. It is small if the class is implausible. The models of all
            folds are used.
        """
        check_is_fitted(self)
        if not self._models:
            raise ValueError(
                f"p-values and prediction sets need the models of all folds, which are kept for at "
                f"most {MOST_KEPT} folds; cv made {self.n_folds_}"
            )
        new = []
        for fold, model in enumerate(self._models):
            rows = X if self._train is None else _columns_of(X, self._train[fold])
            new.append(self._conformity(outputs_of(model, rows)))
        own = self._conformity(self.outputs_)[np.arange(len(self._labels)), self._labels]
        return p_values(own, self._labels, self.fold_of_, new)

    def predict_set(self, X: Any, confidence: float | Sequence[float] = 0.9) -> np.ndarray:
        """Sets of classes that hold the true one with a given confidence, in each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, or kernel values if the estimator has a precomputed kernel.
        confidence : float or sequence of float, default=0.9
            Confidence, between 0 and 1, or several of them.

        Returns
        -------
        sets : ndarray of bool of shape (n_samples, n_classes[, n_confidences])
            Whether each class belongs to the set of a row: whether its p-value is above one minus
            the confidence. An empty set means that the row conforms to no class.
        """
        levels = np.asarray(confidence, dtype=np.float64)
        if levels.ndim > 1 or not ((levels > 0) & (levels < 1)).all():
            raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
        p = self.predict_p(X)
        return (p if levels.ndim == 0 else p[:, :, None]) > 1.0 - levels + _ROUND_OFF

    # scikit-learn -------------------------------------------------------------------------------

    def get_metadata_routing(self) -> MetadataRouter:
        """Tell where metadata go: to the estimator's ``fit`` and to the splitter.

        Returns
        -------
        MetadataRouter
            The routes.
        """
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        to_split = MethodMapping().add(caller="fit", callee="split")
        return (
            MetadataRouter(owner=self.__class__.__name__)
            .add_self_request(self)
            .add(estimator=self._template(), method_mapping=to_fit)
            .add(splitter=check_cv(self.cv, classifier=True), method_mapping=to_split)
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fold_of_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._template()).input_tags
        tags.input_tags.sparse = inner.sparse
        tags.input_tags.pairwise = inner.pairwise
        return tags


def _columns_of(X: Any, columns: np.ndarray) -> Any:
    """Some columns of a kernel matrix."""
    return (X if sp.issparse(X) else np.asarray(X))[:, columns]
