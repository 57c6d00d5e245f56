"""Regression with kernels, its parameters chosen by cross-validation."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import get_scorer, make_scorer, mean_pinball_loss, r2_score
from sklearn.model_selection import check_cv

from oblong._core.estimator import ArrayLike, InnerFraction
from oblong.batch._search import (
    ParameterSearch,
    checked_gammas,
    checked_numbers,
    settings,
    splits_of,
)
from oblong.batch._search_kernel import SearchKernel
from oblong.batch._workers import in_threads, threads_of
from oblong.batch.margin_regressor import LINEAR_GAP, MarginRegressor
from oblong.kernels import Kernel, resolve_gamma
from oblong.linalg.definite import check_kernel_definite
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.linear.regression import solve_linear_regression, suits_linear_regression
from oblong.solvers.margin.regression import solve_regressions


@dataclass(kw_only=True, eq=False, repr=False)
class MarginRegressorCV(RegressorMixin, ParameterSearch):
    r"""Support vector or quantile regression whose parameters are chosen by cross-validation.

    Every combination of ``Cs``, ``gammas`` and, for ``loss="epsilon"``, ``epsilons`` is scored by
    cross-validation, and :class:`MarginRegressor` is fitted to all rows with the best one. The
    scores are those of :class:`sklearn.model_selection.GridSearchCV`, but the work is shared:
    distances are computed once, kernel matrices once per fold and gamma, and each solution starts
    from one nearby.

    Parameters
    ----------
    loss : {"epsilon", "quantile"}, default="epsilon"
        The loss, see :class:`MarginRegressor`.
    Cs : sequence of float, default=(0.1, 1.0, 10.0, 100.0)
        Penalties of errors to try.
    gammas : sequence of {"scale", "auto"} or float, default=("scale",)
        Kernel coefficients to try. ``"scale"`` is computed from the training part of each fold.
        Only the first is used with the kernels "linear" and "precomputed" and with callables,
        which have no gamma.
    epsilons : sequence of float, default=(0.1,)
        Half widths of the tube to try. For ``loss="epsilon"`` only.
    quantile : float, default=0.5
        The quantile. For ``loss="quantile"`` only.
    bounds : tuple of two floats, default=None
        Hard bounds on the outputs of the training rows, see :class:`MarginRegressor`.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        The kernel function.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant term of "poly" and "sigmoid".
    cv : int, cross-validation splitter or iterable, default=None
        How to split: five folds by default, as in scikit-learn.
    scoring : str or callable, default=None
        What to maximise, by the names of scikit-learn. By default the coefficient of determination,
        or minus the mean quantile loss for ``loss="quantile"``.
    tol : float, default=1e-3
        Largest violation of the optimality conditions, on the scale of the targets.
    max_iter : int, default=-1
        Limit on the solver's steps for each problem, or -1 for none.
    cache_size : float, default=1024
        Memory limit in MB of the kernel cache of the last fit. The folds have no such limit,
        see the notes.
    refit : bool, default=True
        Whether to fit the best model to all rows in the end.
    n_jobs : int, default=None
        Folds to work on at once, in threads.
    verbose : int, default=0
        Whether to report progress on standard error.

    Attributes
    ----------
    best_params_ : dict
        The best combination, with the keys "C", "gamma" and, for ``loss="epsilon"``, "epsilon".
        Among equal scores the smallest ``C`` wins, then the largest epsilon, then the gamma named
        first.
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
    epsilon_ : float or None
        Its epsilon; None for ``loss="quantile"``.
    cv_results_ : dict of str to array
        As in :class:`sklearn.model_selection.GridSearchCV`: "params", "param_C" and so on,
        "split0_test_score" and so on, "mean_test_score", "std_test_score", "rank_test_score".
    best_estimator_ : MarginRegressor
        The regressor fitted to all rows, with its certificate, if ``refit``.

    See Also
    --------
    MarginRegressor : The model with given parameters.

    Notes
    -----
    The products of all rows, and one kernel matrix for each fold in progress, are kept in memory: 8
    bytes for each pair of rows, or 4 above 4096 rows, where single precision is used. For more rows
    than that allows use :class:`sklearn.model_selection.GridSearchCV`. A linear kernel on many rows
    needs no such matrix.

    With ``sample_weight`` the scores are weighted as well: a row of weight two counts as two rows
    of the same fold.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from oblong import MarginRegressorCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> search = MarginRegressorCV(Cs=(1, 10, 100), epsilons=(1, 10))
    >>> model = make_pipeline(StandardScaler(), search).fit(X, y)
    >>> model[-1].best_params_
    {'C': 10.0, 'epsilon': 1.0, 'gamma': 'scale'}
    >>> round(model[-1].best_score_, 2)
    0.47
    """

    loss: Literal["epsilon", "quantile"] = "epsilon"
    epsilons: ArrayLike = (0.1,)
    quantile: InnerFraction = 0.5
    bounds: ArrayLike | None = None

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> None:
        Cs, gammas = checked_numbers("Cs", self.Cs), checked_gammas(self.gammas, self.kernel)
        tube = self.loss == "epsilon"
        epsilons = checked_numbers("epsilons", self.epsilons, 0.0) if tube else np.zeros(1)
        model = MarginRegressor(**settings(self, MarginRegressor))
        limits = model._limits()
        X, y, weights = self._training_data(X, y, sample_weight, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        kept = y[weights > 0]
        if kept.size == 0:
            raise ValueError(f"{type(self).__name__} needs a row with a weight above zero")
        model._check_targets(kept, limits)
        loss = {"quantile": float(self.quantile), "bounds": limits}
        search = _Fold(
            kernel=partial(Kernel, self.kernel, degree=int(self.degree), coef0=float(self.coef0)),
            Cs=Cs,
            losses=[{"epsilon": epsilon} for epsilon in epsilons.tolist()] if tube else [loss],
            gammas=gammas,
            uses_gamma=self.kernel in ("rbf", "poly", "sigmoid"),
            how={"tol": self.tol, "max_iter": self.max_iter},
            score=self._score_of(),
            report=self._report if self.verbose else None,
        )
        kept_weights = None if sample_weight is None else weights
        splits = splits_of(check_cv(self.cv, y, classifier=False), X, y, groups)
        if self.kernel == "linear" and suits_linear_regression(X):
            run = partial(search.run, None, X, y, kept_weights)
        else:
            numbers = [resolve_gamma(gamma, X) for gamma in gammas if search.uses_gamma]
            # Parts of the rows may have another "scale".
            kernels = SearchKernel(self.kernel, X, 2.0 * max(numbers, default=0.5))
            run = partial(search.run, kernels, X, y, kept_weights)
        outcomes = in_threads(run, splits, threads_of(self.n_jobs))
        params = [
            {"C": C, **({"epsilon": epsilon} if tube else {}), "gamma": gamma}
            for C, epsilon, gamma in product(Cs.tolist(), epsilons.tolist(), gammas)
        ]
        self.cv_results_ = self._tabulate(
            params,
            np.array([outcome.scores for outcome in outcomes]),
            sum(outcome.n_iter for outcome in outcomes),
            lambda p: (p["C"], -p.get("epsilon", 0.0)),
        )
        self.C_, self.gamma_ = self.best_params_["C"], self.best_params_["gamma"]
        self.epsilon_ = self.best_params_.get("epsilon")
        self._refit(model.set_params(**self.best_params_), X, y, kept_weights)
        self._warn_unconverged([outcome.gap for outcome in outcomes])

    def _score_of(self) -> Callable[..., float]:
        """What scores predictions: ``score(rows, targets, predictions, sample_weight=None)``."""
        if self.scoring is not None:
            scorer = get_scorer(self.scoring)
        elif self.loss == "epsilon":
            scorer = make_scorer(r2_score)
        else:
            scorer = make_scorer(mean_pinball_loss, greater_is_better=False, alpha=self.quantile)
        return lambda X, y, f, **options: scorer(_FixedPredictions(f), X, y, **options)


class _FixedPredictions(RegressorMixin, BaseEstimator):
    """A regressor whose predictions are known, in the shape that scorers ask for."""

    def __init__(self, outputs: np.ndarray) -> None:
        self._outputs = outputs

    def predict(self, X: Any) -> np.ndarray:
        return self._outputs


@dataclass(frozen=True)
class _Scores:
    """Scores of all combinations on one fold; the largest gap that is too large, or NaN; steps."""

    scores: np.ndarray
    gap: float
    n_iter: int


@dataclass(frozen=True)
class _Fold:
    """The search over a grid on one fold."""

    kernel: Callable[..., Kernel]
    Cs: np.ndarray
    losses: list[dict[str, Any]]
    gammas: list
    uses_gamma: bool
    how: dict[str, Any]
    score: Callable[..., float]
    report: Callable[[str], None] | None

    def run(
        self,
        kernels: SearchKernel | None,
        X: Any,
        y: np.ndarray,
        weights: np.ndarray | None,
        train: np.ndarray,
        test: np.ndarray,
    ) -> _Scores:
        """Fit every combination to the training rows and score it on the test rows."""
        train, test = np.asarray(train), np.asarray(test)
        if weights is not None:
            train, test = (part[weights[part] > 0] for part in (train, test))
        if not (train.size and test.size):
            raise ValueError(
                "every fold needs a row to train on and a row to test on, with weights above zero: "
                "use fewer folds"
            )
        own = np.ones(train.size) if weights is None else weights[train]
        options = {} if weights is None else {"sample_weight": weights[test]}
        rows = X[train] if self.uses_gamma or kernels is None else None
        ascending = np.argsort(self.Cs, kind="stable")
        scores = np.empty((len(self.Cs), len(self.losses), len(self.gammas)))
        gaps, n_iter = [], 0
        for place, gamma in enumerate(self.gammas):
            number = 1.0
            if self.uses_gamma:
                number = resolve_gamma(gamma, rows, None if weights is None else own)
            if kernels is None:
                models = self._linear(rows, y[train], own, X[test])
            else:
                kernel = self.kernel(gamma=number)
                K, K_test = (kernels.matrix(kernel, part, train) for part in (train, test))
                models = self._kernel(kernel, K, K_test, y[train], own)
            for k, (outputs, solution) in enumerate(models):
                C, loss = divmod(k, len(self.losses))
                scores[ascending[C], loss, place] = self.score(X[test], y[test], outputs, **options)
                if solution.status != "converged":
                    gaps.append(solution.relative_gap)
                n_iter += solution.n_iter
            if self.report is not None:
                self.report(
                    f"{train.size} rows to train on, {test.size} to test on, gamma {number:.3g}: "
                    f"best score {scores[:, :, place].max():.4f}"
                )
        return _Scores(scores.ravel(), max(gaps, default=float("nan")), n_iter)

    def _kernel(
        self,
        kernel: Kernel,
        K: np.ndarray,
        K_test: np.ndarray,
        y: np.ndarray,
        v: np.ndarray,
    ) -> list[tuple[np.ndarray, Any]]:
        """Outputs on the test rows, and solutions, penalties ascending."""
        if self.losses[0].get("bounds") is not None:
            check_kernel_definite(
                kernel,
                lambda chosen: K[np.ix_(chosen, chosen)],
                len(K),
                "bounds have no solution; use another kernel, or bounds=None",
            )
        columns = KernelMatrix(K, definite=kernel.always_positive_semidefinite)
        loss = self.losses[0]
        found = solve_regressions(
            columns,
            y,
            v,
            np.sort(self.Cs),
            epsilons=[one["epsilon"] for one in self.losses if "epsilon" in one],
            quantiles=[loss["quantile"]] if "quantile" in loss else (),
            bounds=loss.get("bounds"),
            polish=False,
            **self.how,
        )
        solutions = [solution for row in found for solution in row]
        coefs = np.array([solution.margin.coef for solution in solutions])
        outputs = (coefs.astype(K_test.dtype, copy=False) @ K_test.T).astype(np.float64)
        return [(f + one.bias, one.margin) for f, one in zip(outputs, solutions)]

    def _linear(
        self, X: Any, y: np.ndarray, v: np.ndarray, X_test: Any
    ) -> list[tuple[np.ndarray, Any]]:
        """The same by weight vectors, without a kernel matrix."""
        how = {**self.how, "tol": min(self.how["tol"], LINEAR_GAP)}
        found = [
            solve_linear_regression(X, y, C * v, **loss, **how)
            for C, loss in product(np.sort(self.Cs), self.losses)
        ]
        return [(X_test @ one.coef + one.bias, one) for one in found]
