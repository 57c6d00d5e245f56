"""The relative margin machine with its parameters chosen by cross-validation."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import get_scorer
from sklearn.model_selection import check_cv
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from oblong._core.estimator import ArrayLike, ClassWeight, Positive, RandomState
from oblong._core.threads import single_threaded_blas
from oblong.batch._device import SearchOnDevice, fit_anywhere, out_of_memory, same_place
from oblong.batch._fold_models import STAGED_ROWS, SearchKernel, SharedRows
from oblong.batch._parameters import VoteParameters
from oblong.batch._relative_margin_folds import (
    Fold,
    FoldScores,
    Grid,
    GridFold,
    mean_coefficients,
)
from oblong.batch._search import (
    TIE,
    ParameterSearch,
    checked_gammas,
    checked_numbers,
    fold_workers,
    refitted,
    settings,
    splits_of,
)
from oblong.batch.margin_path import check_spreads
from oblong.batch.relative_margin import RelativeMarginClassifier

# Pairs of more rows than this profit from several threads.
_THREADS_ABOVE = 2048
# By how much the tolerance falls from one stage of the search to the next, and where that is slow.
_STAGE, _SLOW_STAGE = 0.3, 0.5
# Standard deviations by which a score is taken to change at most, if rows may be right or wrong.
_DEVIATIONS = 2.0
# Combinations that have taken at most so many times the steps of the cheapest one go on with it.
_CHEAP = 4.0
# Bytes of kernel matrices that are kept from one stage to the next, and of coefficients.
_KEPT = 2.0**30


@dataclass(kw_only=True, eq=False, repr=False)
class RelativeMarginClassifierCV(VoteParameters, ClassifierMixin, ParameterSearch):
    r"""Relative margin machine whose C, gamma and spread are chosen by cross-validation.

    Every combination of ``Cs``, ``gammas`` and ``spreads`` is scored by cross-validation, and
    :class:`RelativeMarginClassifier` is fitted to all rows with the best one. The result is that of
    :class:`sklearn.model_selection.GridSearchCV`, or now and then a combination that is right on
    one row less (see the notes), but the work is shared: distances are computed once, kernel
    matrices once per gamma (once per fold for "scale"), along the spreads and the penalties each
    solution starts from one nearby, and combinations that cannot be the best are not solved to the
    end.

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
    fold_tol : float, default=0.3
        The same at the beginning of the search. Combinations that may still turn out to be the
        best are then solved to smaller and smaller violations, down to ``tol``; see the
        notes. With a value of at most ``tol`` all of them are.
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
        Folds and gammas to work on at once, in threads. The default is one, with all threads that
        BLAS may use.
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
    The products of all rows, and one kernel matrix for each fold in progress, are kept in memory: 8
    bytes for each pair of rows, or 4 above 1024 rows (4096 for a ``tol`` below 5e-4), where single
    precision is used. Where they fit in 1 GB, all matrices are kept: one for each gamma, which the
    folds share, but one for each fold for "scale", which depends on the rows to train on, and for
    splits other than into parts. For more rows than that allows use
    :class:`sklearn.model_selection.GridSearchCV`.

    The search works in stages. Outputs near zero of a solution with a violation of ``v`` are
    assumed to be within ``0.3 v`` of those of the exact solution: a test row with a larger output
    counts as right or wrong, one with a smaller output as open. The score of a combination is
    assumed to change by no more than its open rows allow, and by no more than two standard
    deviations of coin tosses for them. A combination that cannot be the best within these limits is
    not solved further and keeps its score and relative margin in ``cv_results_``; of the others,
    the cheapest are solved to 0.3 of their violation next, in the folds with outputs below ``2 v``.
    All combinations are solved to ``tol`` if the score is not the accuracy, if ``break_ties`` is
    "confidence" or "random", on a device, if the kernel matrices or coefficients take more than
    1 GB, and for more than 6000 rows of two classes.

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
    fold_tol: Positive = 0.3
    class_weight: ClassWeight = None
    random_state: RandomState = None

    _rows_on_device: ClassVar[Any] = None

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> None:
        fit_anywhere(self, self._fit_arrays, X, y, sample_weight, groups)

    def _fit_arrays(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> None:
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
        scorer = self._scorer()
        search = GridFold(
            kernel=self.kernel,
            degree=int(self.degree),
            coef0=float(self.coef0),
            grid=grid,
            tol=self.tol,
            max_iter=self.max_iter,
            class_weight=self.class_weight,
            break_ties=self.break_ties,
            decision_function_shape=self.decision_function_shape,
            random_state=self.random_state,
            scorer=scorer,
            report=self._report if self.verbose else None,
            on_device=self._rows_on_device,
        )
        self.classes_ = classes
        kept_weights = None if sample_weight is None else weights
        # Threads of BLAS that have nothing to do take time from those of the folds.
        with single_threaded_blas() if _is_small(y) else nullcontext():
            self._choose(search, X, y, kept_weights, splits)

    def _choose(
        self, search: GridFold, X: Any, y: np.ndarray, weights: np.ndarray | None, splits: list
    ) -> None:
        """Search, and fit the best combination to all rows."""
        grid = search.grid
        try:
            folds, outcomes = self._run(search, X, y, weights, splits)
        except Exception as error:
            if search.on_device is None or not out_of_memory(error):
                raise
            # Cores need less memory.
            search = replace(search, on_device=None)
            folds, outcomes = self._run(search, X, y, weights, splits)
        self._summarise(grid, outcomes)
        rows = X if self._rows_on_device is None else self._rows_on_device
        model: Any = RelativeMarginClassifier(**settings(self, RelativeMarginClassifier))
        if search.on_device is None and self.classes_.size == 2:
            shape = (len(grid.Cs), len(grid.gammas), len(grid.spreads))
            best = np.unravel_index(self.best_index_, shape)
            starts = mean_coefficients(folds, len(y), *map(int, best))
            used = slice(None) if weights is None else weights > 0
            model._starts = starts if starts is None else starts[:, used]
        self._refit(model.set_params(**self.best_params_), rows, y, weights)
        vars(model).pop("_starts", None)
        self._warn_unconverged(np.concatenate([outcome.gaps for outcome in outcomes]))

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

    def _run(
        self, search: GridFold, X: Any, y: np.ndarray, weights: np.ndarray | None, splits: list
    ) -> tuple[list[Fold], list[FoldScores]]:
        """Work on the folds, in threads if asked to; all of them would wait for one device."""
        _, counts = np.unique(y, return_counts=True)
        kernels = search.products(X)
        candidates = len(search.grid.candidates())
        used = np.ones(len(y), dtype=bool) if weights is None else weights > 0
        shared = SharedRows(y, used, splits)
        # A matrix for all folds, unless gamma depends on the rows to train on.
        common = [
            shared.few_segments and not (gamma == "scale" and search.uses_gamma)
            for gamma in search.grid.gammas
        ]
        matrices = sum(1 if one else len(splits) for one in common) * 4.0 * len(y) ** 2
        coefs = 16.0 * len(splits) * candidates * len(y) * max(1, counts.size - 1)
        fits = max(matrices, coefs) <= _KEPT and np.sort(counts)[-2:].sum() <= STAGED_ROWS
        keep = fits and search.settles_labels and search.on_device is None
        tol = min(self.fold_tol, 1.0) if keep else self.tol

        n_jobs = self.n_jobs if search.on_device is None else 1
        grid = search.grid
        tasks = len(splits) * (len(grid.gammas) if keep else 1)
        with fold_workers(tasks, n_jobs, _is_small(y)) as (each, threads):

            def matrix(gamma: Any) -> np.ndarray:
                kernel = search.kernel_for(gamma, X)
                assert isinstance(kernels, SearchKernel)
                return kernels.matrix(kernel, shared.order, shared.order)

            def fold(split: tuple) -> Fold:
                train, test = split
                return Fold(search, kernels, X, y, weights, train, test, shared, keep, threads)

            def solve(task: tuple[Fold, int, np.ndarray]) -> None:
                fold, place, tols = task
                fold.solve(place, tols)

            if keep:
                chosen = [gamma for gamma, one in zip(grid.gammas, common) if one]
                found = iter(each(matrix, chosen))
                shared.matrices = [next(found) if one else None for one in common]
            folds = each(fold, splits)
            if isinstance(kernels, SearchOnDevice):
                kernels.solve(folds, self.tol, self.max_iter)
            shape = (len(splits), len(grid.Cs), len(grid.gammas), len(grid.spreads))
            tols = reached = np.full(shape, max(tol, self.tol))
            # Steps that are many: one for every row of every pair.
            many = float(len(folds[0].train) * (len(folds[0].classes) - 1))
            while True:
                # Folds that share a matrix in succession, while it is in the cache.
                wanted = np.argwhere((tols < np.inf).any(axis=(1, 3)).T)
                each(solve, [(folds[f], place, tols[f, :, place]) for place, f in wanted])
                outcomes = [fold.outcome for fold in folds]
                tols = self._contenders(grid, outcomes, reached, many)
                if not (tols < np.inf).any():
                    return folds, outcomes
                reached = np.minimum(reached, tols)

    def _contenders(
        self, grid: Grid, outcomes: list[FoldScores], reached: np.ndarray, many: float
    ) -> np.ndarray:
        """Violations to solve combinations to next, by fold, where they may be the best.

        The cheapest come first, and folds whose scores are settled stay as they are. Those of many
        steps go on more slowly, on the fold that has the most to tell.
        """
        scores, lowest, highest, variance, settled, steps = (
            np.array([getattr(outcome, name) for outcome in outcomes])
            for name in ("scores", "lowest", "highest", "variance", "settled", "steps")
        )
        unknown = ~settled & (reached > self.tol)
        if not unknown.any():
            return np.full(reached.shape, np.inf)
        mean, steps = scores.mean(axis=0), steps.mean(axis=0)
        doubt = _DEVIATIONS * np.sqrt(variance.sum(axis=0)) / len(outcomes)
        lowest = np.maximum(lowest.mean(axis=0), mean - doubt).ravel()
        highest = np.minimum(highest.mean(axis=0), mean + doubt).ravel()
        # Solutions for larger penalties start from those for smaller ones, which come first.
        ascending = np.argsort(grid.Cs, kind="stable")
        steps[ascending] = np.maximum.accumulate(steps[ascending])
        params = grid.candidates()
        order = sorted(range(len(params)), key=lambda k: (*_preference(params[k]), k))
        rank = np.argsort(order)
        safe = lowest.max()
        first = rank[lowest >= safe - TIE].min()
        possible = (highest > safe + TIE) | ((highest >= safe - TIE) & (rank <= first))
        open_ones = possible.reshape(mean.shape) & unknown
        some = open_ones.any(axis=0)
        if not some.any():
            return np.full(reached.shape, np.inf)
        if self.verbose:
            self._report(f"{some.sum()} of {some.size} combinations may be the best")
        # What these turn out to be may settle the others.
        open_ones &= steps <= max(_CHEAP * steps[some].min(), many)
        # The last one is only solved for its score.
        slow = (steps > many) & (some.sum() > 1)
        variance[~open_ones] = -1.0
        fold = np.arange(len(outcomes)).reshape(-1, 1, 1, 1)
        open_ones &= ~slow | (fold == variance.argmax(axis=0))
        closer = np.maximum(np.where(slow, _SLOW_STAGE, _STAGE) * reached, self.tol)
        return np.where(open_ones, closer, np.inf)

    def _summarise(self, grid: Grid, outcomes: list[FoldScores]) -> None:
        """Set the table of results and the best combination."""
        results = self._tabulate(grid.candidates(), outcomes, _preference)
        results["mean_relative_margin"] = np.mean(
            [outcome.relative_margins.ravel() for outcome in outcomes], axis=0
        )
        self.cv_results_ = results
        self.C_, self.gamma_, self.spread_ = self.best_params_.values()

    def _validated(self, X: Any, method: str) -> Any:
        check_is_fitted(self)
        return X if same_place(self, X, method) is not None else super()._validated(X, method)

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags


def _preference(candidate: dict[str, Any]) -> tuple:
    """Sort key among equal scores."""
    return -candidate["spread"], candidate["C"]


def _is_small(y: np.ndarray) -> bool:
    """Whether the largest pair of classes has so few rows that one thread of BLAS is faster."""
    _, counts = np.unique(y, return_counts=True)
    return bool(np.sort(counts)[-2:].sum() <= _THREADS_ABOVE)
