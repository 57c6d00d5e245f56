"""The linear relative margin machine as a scikit-learn classifier."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from oblong._core.class_weights import row_penalties
from oblong._core.estimator import AtLeastOne, ClassWeight, Fraction, Limit, NotNegative, Positive
from oblong._core.threads import available_threads
from oblong.batch._one_vs_one import pairs_of
from oblong.batch._pairwise import PairFit
from oblong.batch._parameters import SolverParameters, VoteParameters, check_bound
from oblong.batch._passes import PassClassifier
from oblong.batch._workers import in_threads
from oblong.solvers.linear.batch import solve_linear_batch
from oblong.solvers.linear.batch_problem import LinearBatch, small_tolerance
from oblong.solvers.linear.options import DEFAULTS
from oblong.solvers.linear.passes.problem import PassProblem
from oblong.solvers.linear.passes.solve import solve_in_bands
from oblong.solvers.linear.relative import solve_linear_relative_margin


@dataclass(kw_only=True, eq=False, repr=False)
class LinearRelativeMarginClassifier(SolverParameters, VoteParameters, PassClassifier):
    r"""Linear relative margin machine, for many rows, dense or sparse.

    The model of :class:`RelativeMarginClassifier` [1]_ with the linear kernel: a support vector
    machine whose training outputs :math:`f_i = w \cdot x_i + b` stay between :math:`-B` and
    :math:`B`,

    .. math::

        \min_{w, b} \ \tfrac12 \|w\|^2 + \sum_i C_i \, [1 - y_i f_i]_+
        \quad \text{subject to} \quad -B \le f_i \le B .

    The bound is given (``B``), follows from the support vector machine (``spread``), or is
    learned with a penalty on its size (``D``), with outliers allowed beyond it (``nu``):

    .. math::

        \min_{w, b, t \ge 1} \ \tfrac12 \|w\|^2 + \sum_i C_i \, [1 - y_i f_i]_+ + D \, t
        + \sum_i U_i \, [|f_i| - t]_+ .

    Without ``nu`` the penalties :math:`U_i` are infinite; with it they are :math:`D \nu s_i /
    \sum_j s_j`, where :math:`s` are the sample weights. The weights are found directly, so time and
    memory grow linearly with the number of rows, and rows in single precision are never copied to
    double precision as a whole.

    Parameters
    ----------
    C : float, default=1.0
        Penalty of margin violations, larger than zero.
    B : float, default=None
        The bound itself, at least 1. Takes precedence over ``spread``.
    spread : float, default=0.5
        The bound relative to the support vector machine of the same ``C``: with ``theta`` the
        largest absolute training output of that one, ``B = 1 + spread * (theta - 1)``. Between 0
        (the tightest) and 1, which is the support vector machine itself.
    D : float, default=None
        Penalty of the bound, at least zero, which makes it a variable; zero gives the support
        vector machine. Excludes ``B`` and takes precedence over ``spread``.
    nu : float, default=None
        With ``D``: lets rows exceed the bound, with a penalty. If the bound found is above 1, about
        a fraction ``1 / nu`` of the rows lies beyond it; the useful range is ``nu >= 1``.
    fit_intercept : bool, default=True
        Whether there is a bias. It is never regularised.
    solver : {"auto", "interior-point", "descent", "bands"}, default="auto"
        The interior point method takes a few dozen steps whatever the data, each with a matrix
        of columns by columns; coordinate descent only reads the entries of the rows; the band
        method makes a few passes over the rows and solves for those near the margin and the
        bound. "auto" is the interior point method up to 3000 columns, descent for wide or sparse
        rows, and the band method for at least 300,000 dense rows without a given ``B``. Up to 200
        rows are first tried by the steps of the kernel form. A row source is always solved by
        the band method.
    tol : float, default=1e-4
        Largest relative gap between primal and dual objective.
    max_iter : int, default=1000
        Limit on steps of the interior point or on passes of the descent, or -1 for none.
    class_weight : dict or "balanced", default=None
        Factors of ``C`` by class.
    multi_class : {"ovo", "ovr"}, default="ovo"
        With more than two classes: all pairs of classes, which vote, or one class against the rest.
        Pairs made fewer errors on sets of few columns; for many classes over embeddings or text the
        rest is faster and its model smaller.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Shape of :meth:`decision_function` with more than two classes and ``multi_class="ovo"``.
    break_ties : {"first", "confidence", "random"}, default="first"
        With ``multi_class="ovo"``, which of several classes with equal votes is predicted: the
        first, the one with the largest summed outputs, or one at random.
    n_jobs : int, default=None
        Binary problems to solve at once.
    verbose : int, default=0
        Whether to report progress on standard error.
    random_state : int, RandomState instance or None, default=None
        Seed of the order of coordinate descent and of random ties.

    Attributes
    ----------
    coef_ : ndarray of shape (n_problems, n_features)
        Weight vectors.
    intercept_ : ndarray of shape (n_problems,)
        Biases; zero without ``fit_intercept``.
    B_ : ndarray of shape (n_problems,)
        Bound of each binary problem; the one found, with ``D``.
    theta_ : ndarray of shape (n_problems,)
        Largest absolute training output of the support vector machine; NaN where it was not
        solved.
    relative_margin_ : ndarray of shape (n_problems,)
        Margin over the spread of the training outputs, ``1 / max |f_i|``.
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    objective_ : ndarray of shape (n_problems,)
        Primal objective of each binary problem.
    dual_gap_ : ndarray of shape (n_problems,)
        The certificate: primal minus dual objective, divided by the primal. No solution is better
        by more than this fraction.
    n_iter_ : ndarray of shape (n_problems,)
        Steps or passes taken by the solver.
    converged_ : bool
        Whether every binary problem met ``tol``.
    n_passes_ : int
        Passes over the rows of a row source.
    working_rows_ : ndarray of shape (n_problems,)
        Most rows of a row source that were kept between passes.
    n_features_in_ : int
        Number of features seen in :meth:`fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if ``X`` had string names.

    See Also
    --------
    RelativeMarginClassifier : The same model with kernels.
    sklearn.svm.LinearSVC : The case ``spread=1``, with a regularised bias.

    Notes
    -----
    Unless ``tol`` is above 0.001, small problems are solved to more digits, at no extra cost.

    With more than two classes, ``solver="auto"`` and no ``D``, all problems are solved at once:
    each of a few passes over the rows serves all of them, and coordinate descent takes the rows
    that matter to a problem. Where it crawls, as with large penalties of long rows, the methods
    for one problem take over.
    Under a tight bound coordinate descent can take thousands of passes: scale the features, or
    lower ``C``.

    References
    ----------
    .. [1] P. K. Shivaswamy and T. Jebara, "Maximum Relative Margin and Data-Dependent
       Regularization", Journal of Machine Learning Research 11, 747-788, 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from oblong import LinearRelativeMarginClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LinearRelativeMarginClassifier(spread=0.25))
    >>> round(model.fit(X, y).score(X, y), 2)
    0.98
    >>> bool(model[-1].dual_gap_ < 1e-4)
    True
    """

    C: Positive = 1.0
    B: AtLeastOne | None = None
    spread: Fraction = 0.5
    D: NotNegative | None = None
    nu: Positive | None = None
    fit_intercept: bool = True
    solver: Literal["auto", "interior-point", "descent", "bands"] = "auto"
    tol: Positive = 1e-4
    max_iter: Limit = 1000
    class_weight: ClassWeight = None
    multi_class: Literal["ovo", "ovr"] = "ovo"

    # Parameters of the kernel classifiers that have one value here.
    kernel = "linear"
    gamma = 1.0
    degree = 1
    coef0 = 0.0

    def _check_rows(self, X: Any) -> None:
        check_bound(self.B, self.D, self.nu)
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _pass_form(self) -> dict[str, Any]:
        form: dict[str, Any] = {"B": self.B, "spread": self.spread, "D": self.D, "nu": self.nu}
        return {**form, "intercept": self.fit_intercept}

    @property
    def _votes(self) -> bool:
        return self.multi_class == "ovo"

    def _problems(self) -> list[tuple[int, int | None]]:
        """Positive and negative class of each problem; None stands for all other classes."""
        n_classes = len(self.classes_)
        if self._votes or n_classes == 2:
            return list(pairs_of(n_classes))
        return [(k, None) for k in range(n_classes)]

    def _fit_pairs(
        self, X: Any, labels: np.ndarray, penalties: np.ndarray, weights: np.ndarray
    ) -> tuple[list[PairFit], list[np.ndarray]]:
        n_classes = len(self.classes_)
        if n_classes > 2 and self.solver == "auto" and self.D is None:
            return self._fit_together(X, labels, penalties, weights), []
        if n_classes == 2 or self._votes:
            return super()._fit_pairs(X, labels, penalties, weights)
        jobs, threads = self._shared_threads(n_classes)

        def fit(k: int) -> PairFit:
            return self._fit_pair(X, np.where(labels == k, 1.0, -1.0), penalties, weights, threads)

        return in_threads(fit, [(k,) for k in range(n_classes)], jobs), []

    def _fit_together(
        self, X: Any, labels: np.ndarray, penalties: np.ndarray, weights: np.ndarray
    ) -> list[PairFit]:
        """Solve all problems at once, and those alone in which that gets stuck."""
        intercept: Literal["free", "none"] = "free" if self.fit_intercept else "none"
        batch = LinearBatch(
            X, labels, row_penalties(self.C, penalties), self._problems(), intercept=intercept
        )
        jobs = available_threads() if self.n_jobs is None else effective_n_jobs(self.n_jobs)
        found = solve_linear_batch(
            batch,
            B=self.B,
            spread=self.spread,
            tol=small_tolerance(X, self.tol),
            max_iter=self.max_iter,
            threads=jobs,
            seed=self._seed,
            progress=self._progress(),
        )
        fits = []
        for k in range(len(batch.problems)):
            one = found.solution(k)
            fit = PairFit.of(one, solution=one, coef=np.empty(0), direction=one.coef)
            if one.relative_gap <= self.tol:
                fit = replace(fit, status="converged")
            else:
                y, C = batch.problem(k)
                rows = np.flatnonzero(C > 0.0)
                some = X if rows.size == len(y) else self._select(X, rows)
                alone = self._fit_pair(some, y[rows], penalties[rows], weights[rows], jobs)
                fit = alone if alone.relative_gap < fit.relative_gap else fit
            fits.append(fit)
        return fits

    def _fit_pair(
        self, X: Any, y: np.ndarray, penalties: np.ndarray, weights: np.ndarray, threads: int
    ) -> PairFit:
        C = row_penalties(self.C, penalties)
        how: dict[str, Any] = {"tol": self.tol, "threads": threads, "progress": self._progress()}
        many = X.shape[0] >= DEFAULTS.bands_from and X.shape[1] <= DEFAULTS.band_columns
        many = many and not sp.issparse(X) and self.B is None
        if self.solver == "bands" or (self.solver == "auto" and many):
            factors = [float((penalties / weights)[np.argmax(y == side)]) for side in (-1.0, 1.0)]
            of_classes = (self.C * factors[0], self.C * factors[1])
            problem = PassProblem((0, 1), of_classes, **self._pass_form())
            found: Any = solve_in_bands(X, y, weights, problem, max_passes=self.max_iter, **how)
            solution, coef, n_iter = found, np.empty(0), found.n_passes
        else:
            beyond = None
            if self.D is not None and self.nu is not None:
                beyond = self.D * self.nu * weights / weights.sum()
            found = solve_linear_relative_margin(
                X,
                y,
                C,
                B=self.B,
                spread=self.spread,
                D=self.D,
                U=beyond,
                intercept=self.fit_intercept,
                method=self.solver,
                max_iter=self.max_iter,
                rng=np.random.default_rng(self._seed),
                **how,
            )
            solution, n_iter = found.solution, found.n_iter
            coef = solution.dual_coef
        own = {"coef": coef, "direction": solution.coef, "n_iter": n_iter}
        return PairFit.of(solution, solution=found, **own)

    def _store(
        self, X: Any, kept: np.ndarray, labels: np.ndarray, members: list, fits: list[PairFit]
    ) -> None:
        self._store_passes(fits)

    def _store_passes(self, fits: Sequence[PairFit]) -> None:
        self._store_weights(fits)

    def _keep(self, solutions: Sequence[Any]) -> None:
        self.B_ = np.array([found.B for found in solutions])
        self.theta_ = np.array([found.theta for found in solutions])
        with np.errstate(divide="ignore", over="ignore"):
            self.relative_margin_ = 1.0 / np.array([found.largest for found in solutions])

    def decision_function(self, X: Any) -> np.ndarray:
        """Outputs of the classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes) or (n_samples, n_pairs)
            With two classes the outputs, positive for ``classes_[1]``. With more, the output of
            each class against the rest; with ``multi_class="ovo"``, one score per class
            (``decision_function_shape="ovr"``) or one output per pair (``"ovo"``).
        """
        check_is_fitted(self)
        if self._votes or len(self.classes_) == 2:
            return super().decision_function(X)
        return self._outputs(X, rounded=True)

    def predict(self, X: Any) -> np.ndarray:
        """Predict class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            With two classes the sign of the output decides, with more the largest output; with
            ``multi_class="ovo"`` the most votes, and ``break_ties`` among equals.
        """
        check_is_fitted(self)
        if self._votes or len(self.classes_) == 2:
            return super().predict(X)
        return self.classes_[self._outputs(X).argmax(axis=1)]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")
