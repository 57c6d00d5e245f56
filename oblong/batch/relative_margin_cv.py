"""The relative margin machine with its parameters chosen by cross-validation."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import get_scorer
from sklearn.model_selection import check_cv
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from oblong._core.estimator import ArrayLike, ClassWeight, Positive, RandomState
from oblong.batch._parameters import VoteParameters
from oblong.batch._relative_margin_folds import FoldScores, FoldSearch, Grid
from oblong.batch._search import (
    ParameterSearch,
    checked_gammas,
    checked_numbers,
    refitted,
    settings,
    splits_of,
)
from oblong.batch._workers import in_threads, threads_of
from oblong.batch.margin_path import check_spreads
from oblong.batch.relative_margin import RelativeMarginClassifier


@dataclass(kw_only=True, eq=False, repr=False)
class RelativeMarginClassifierCV(VoteParameters, ClassifierMixin, ParameterSearch):
    r"""Relative margin machine whose C, gamma and spread are chosen by cross-validation.

    Every combination of ``Cs``, ``gammas`` and ``spreads`` is scored by cross-validation, and
    :class:`RelativeMarginClassifier` is fitted to all rows with the best one. The result is that of
    :class:`sklearn.model_selection.GridSearchCV`, up to the tolerance of the folds, but the work is
    shared: distances are computed once, kernel matrices once per fold and gamma, and along the
    spreads and the penalties each solution starts from one nearby.

    Parameters
    ----------
    Cs : sequence of float, default=(0.1, 1.0, 10.0, 100.0)
        Penalties of margin violations to try.
    gammas : sequence of {"scale", "auto"} or float, default=("scale",)
        Kernel coefficients to try. ``"scale"`` is computed from the training part of each fold.
        Only the first is used with the kernels "linear" and "precomputed" and with callables,
        which have no gamma.
    spreads : sequence of float, default=(1, 0.5, 0.25)
        Spreads to try; 1 is the support vector machine. Tighter ones take longer and rarely have
        fewer errors.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        The kernel function.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant term of "poly" and "sigmoid".
    cv : int, cross-validation splitter or iterable, default=None
        How to split: five stratified folds by default, as in scikit-learn.
    scoring : str or callable, default=None
        What to maximise, by the names of scikit-learn; the accuracy by default.
    tol : float, default=1e-3
        Largest violation of the optimality conditions.
    fold_tol : float, default=1e-2
        The same for the models of the folds, where it is larger than ``tol``.
    max_iter : int, default=-1
        Limit on the solver's steps for each binary problem, or -1 for none.
    class_weight : dict or "balanced", default=None
        Factors of ``C`` by class.
    cache_size : float, default=1024
        Memory limit in MB of the kernel cache of the last fit. The folds have no such limit,
        see the notes.
    refit : bool, default=True
        Whether to fit the best model to all rows in the end.
    n_jobs : int, default=None
        Folds and gammas to work on at once, in threads. The default is as many as BLAS may use.
    verbose : int, default=0
        Whether to report progress on standard error.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Shape of :meth:`decision_function` with more than two classes.
    break_ties : {"first", "confidence", "random"}, default="first"
        Which of several classes with equal votes is predicted.
    random_state : int, RandomState instance or None, default=None
        Source of random ties.

    Attributes
    ----------
    best_params_ : dict
        The best combination, with the keys "C", "gamma" and "spread". Among equal scores the
        largest spread wins, then the smallest ``C``, then the gamma named first.
    C_ : float
        Its penalty.
    gamma_ : {"scale", "auto"} or float
        Its gamma.
    best_score_ : float
        Its mean score over the folds.
    best_index_ : int
        Its place in ``cv_results_``.
    n_splits_ : int
        Number of folds.
    n_iter_ : int
        Steps of the solver in all folds.
    n_features_in_ : int
        Number of features seen in :meth:`fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if ``X`` had string names.
    spread_ : float
        Its spread.
    cv_results_ : dict of str to array
        As in :class:`sklearn.model_selection.GridSearchCV`: "params", "param_C",
        "param_gamma", "param_spread", "split0_test_score" and so on, "mean_test_score",
        "std_test_score", "rank_test_score"; and "mean_relative_margin", the margin over the
        spread of the training outputs, averaged over folds and pairs of classes.
    best_estimator_ : RelativeMarginClassifier
        The classifier fitted to all rows, if ``refit``.
    classes_ : ndarray of shape (n_classes,)
        The class labels.

    See Also
    --------
    RelativeMarginClassifier : The model with given parameters.
    relative_margin_path : Models of two classes along the spreads.

    Notes
    -----
    The products of all rows, and kernel matrices of the folds in progress, are kept in memory: 8
    bytes for each pair of rows, or 4 above 1024 rows, where single precision is used. For more rows
    than that allows use :class:`sklearn.model_selection.GridSearchCV`.

    With ``sample_weight`` the scores are weighted as well: a row of weight two counts as two rows
    of the same fold.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from oblong import RelativeMarginClassifierCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), RelativeMarginClassifierCV(Cs=(1, 10)))
    >>> model.fit(X, y)[-1].best_params_
    {'C': 10.0, 'gamma': 'scale', 'spread': 0.25}
    >>> round(model[-1].best_score_, 2)
    0.99
    """

    spreads: ArrayLike = (1.0, 0.5, 0.25)
    fold_tol: Positive = 1e-2
    class_weight: ClassWeight = None
    random_state: RandomState = None

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> None:
        X, y, weights = self._training_data(X, y, sample_weight)
        check_classification_targets(y)
        grid = self._grid()
        classes = np.unique(y[weights > 0])
        if classes.size < 2:
            raise ValueError(
                f"{type(self).__name__} needs rows of at least two classes with a weight above "
                f"zero; got {classes.size} class"
            )
        splits = splits_of(check_cv(self.cv, y, classifier=True), X, y, groups)
        search = FoldSearch(
            kernel=self.kernel,
            degree=int(self.degree),
            coef0=float(self.coef0),
            grid=grid,
            tol=max(self.tol, self.fold_tol),
            max_iter=self.max_iter,
            class_weight=self.class_weight,
            break_ties=self.break_ties,
            decision_function_shape=self.decision_function_shape,
            random_state=self.random_state,
            scorer=self._scorer(),
            report=self._report if self.verbose else None,
        )
        self.classes_ = classes
        kept_weights = None if sample_weight is None else weights
        kernels = search.products(X)
        tasks = [(split, gamma) for split in splits for gamma in grid.gammas]

        def run(split: tuple, gamma: Any) -> FoldScores:
            return search.run(kernels, X, y, kept_weights, split, gamma)

        found = in_threads(run, tasks, threads_of(self.n_jobs))
        per = len(grid.gammas)
        outcomes = [found[k : k + per] for k in range(0, len(found), per)]
        self._summarise(grid, outcomes)
        model: Any = RelativeMarginClassifier(**settings(self, RelativeMarginClassifier))
        self._refit(model.set_params(**self.best_params_), X, y, kept_weights)
        self._warn_unconverged(np.array([one.gap for one in found]))

    def _scorer(self) -> Any:
        """Return what scores a fold, or None for the accuracy."""
        if self.scoring in (None, "accuracy"):
            return None
        scorer = get_scorer(self.scoring)
        # What it asks for is not public, so that a scorer may turn out to be wrong later on.
        if getattr(scorer, "_response_method", None) == "predict_proba":
            raise ValueError(
                f"scoring={self.scoring!r} needs probabilities, which a relative margin classifier "
                f"does not give: use a score of labels or of decision values"
            )
        return scorer

    def _grid(self) -> Grid:
        gammas = checked_gammas(self.gammas, self.kernel)
        return Grid(checked_numbers("Cs", self.Cs), gammas, check_spreads(self.spreads))

    def _summarise(self, grid: Grid, outcomes: list[list[FoldScores]]) -> None:
        """Set the table of results and the best combination; outcomes by fold and gamma."""
        # The gammas vary faster than the penalties.
        scores = np.array([np.stack([one.scores for one in fold], axis=1) for fold in outcomes])
        n_iter = sum(one.n_iter for fold in outcomes for one in fold)
        results = self._tabulate(
            grid.candidates(), scores.reshape(len(outcomes), -1), n_iter, _preference
        )
        margins = [np.stack([one.relative_margins for one in fold], axis=1) for fold in outcomes]
        results["mean_relative_margin"] = np.mean(margins, axis=0).ravel()
        self.cv_results_ = results
        self.C_, self.gamma_, self.spread_ = self.best_params_.values()

    @available_if(refitted)
    def decision_function(self, X: Any) -> np.ndarray:
        """Outputs of the best classifier, see :meth:`RelativeMarginClassifier.decision_function`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, or kernel values for ``kernel="precomputed"``.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes) or (n_samples, n_pairs)
            The outputs.
        """
        X = self._validated(X, "decision_function")
        return self.best_estimator_.decision_function(X)


def _preference(candidate: dict[str, Any]) -> tuple:
    """Sort key among equal scores."""
    return -candidate["spread"], candidate["C"]
