"""Regression with kernels as a scikit-learn regressor."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import RegressorMixin, _fit_context

from oblong._core.class_weights import row_penalties
from oblong._core.estimator import ArrayLike, InnerFraction, Limit, NotNegative, Positive, Verbose
from oblong._core.rollback import all_or_nothing
from oblong._core.threads import available_threads
from oblong.batch._expansion import CertifiedExpansion, PairFit
from oblong.batch._parameters import KernelParameters
from oblong.solvers.linear.regression import solve_linear_regression, suits_linear_regression
from oblong.solvers.margin.regression import RegressionResult, solve_regressions

# Relative gap of linear models: the last digits cost next to nothing there.
LINEAR_GAP = 1e-6


@dataclass(kw_only=True, eq=False, repr=False)
class MarginRegressor(KernelParameters, RegressorMixin, CertifiedExpansion):
    r"""Support vector regression, and quantile regression with kernels.

    The model is :math:`f(x) = w \cdot \varphi(x) + b` with

    .. math::

        \min_{w, b} \ \tfrac12 \|w\|^2 + \sum_i C_i \, \ell(y_i, f(x_i)) ,

    where the loss is that of support vector regression [1]_ (``loss="epsilon"``), which is
    :class:`sklearn.svm.SVR`,

    .. math::

        \ell(y, f) = [\, |y - f| - \varepsilon \,]_+ ,

    or that of quantile regression [2]_ (``loss="quantile"``), whose model has about a fraction
    :math:`\tau` of the targets below it,

    .. math::

        \ell(y, f) = \tau \, [y - f]_+ + (1 - \tau) \, [f - y]_+ .

    Parameters
    ----------
    loss : {"epsilon", "quantile"}, default="epsilon"
        The loss.
    C : float, default=1.0
        Penalty of errors, larger than zero.
    epsilon : float, default=0.1
        Errors up to this size are not penalised. For ``loss="epsilon"`` only.
    quantile : float or sequence of float, default=0.5
        The quantile :math:`\tau`, between 0 and 1. A sequence gives one model for each, see the
        notes. For ``loss="quantile"`` only.
    bounds : tuple of two floats, default=None
        Hard bounds ``(low, high)`` on the outputs of the training rows, for a target with a
        physical range. They must contain all targets, and need ``loss="quantile"``. Outputs of
        other rows may exceed them.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        The kernel function. The sigmoid is indefinite, so ``bounds`` have no solution with it.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of "rbf", "poly" and "sigmoid": ``1 / (n_features * X.var())``,
        ``1 / n_features``, or the number itself. With ``sample_weight`` the variance is the
        weighted one.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant term of "poly" and "sigmoid".
    tol : float, default=1e-3
        Largest violation of the optimality conditions, on the scale of the targets: LIBSVM's
        stopping rule. For a linear kernel and many rows, see the notes, the relative duality gap.
    max_iter : int, default=-1
        Limit on the solver's steps, or -1 for none.
    cache_size : float, default=1024
        Memory limit of the kernel cache in MB. Memory is taken only as it is needed.
    verbose : int, default=0
        Whether to report progress on standard error.

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,)
        Rows with a nonzero coefficient.
    support_vectors_ : {ndarray, CSR matrix} of shape (n_SV, n_features)
        Those rows. Empty for a precomputed kernel.
    n_support_ : ndarray of shape (1,)
        Their number.
    dual_coef_ : ndarray of shape (1, n_SV) or (n_quantiles, n_SV)
        Their coefficients.
    coef_ : ndarray of shape (1, n_features) or (n_quantiles, n_features)
        The weight vector, for the linear kernel only.
    intercept_ : ndarray of shape (1,) or (n_quantiles,)
        The bias.
    objective_ : float or ndarray of shape (n_quantiles,)
        Primal objective.
    dual_gap_ : float or ndarray of shape (n_quantiles,)
        The certificate: primal minus dual objective, rounding included, over the primal. No
        solution is better than this model by more than this fraction.
    n_iter_ : int
        Steps taken by the solver.
    converged_ : bool
        Whether the solution met ``tol`` and has a ``dual_gap_`` of at most ``max(tol, 1e-3)``.
    n_features_in_ : int
        Number of features seen in :meth:`fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if ``X`` had string names.

    See Also
    --------
    MarginRegressorCV : The same model with its parameters chosen by cross-validation.
    sklearn.svm.SVR : The same model for ``loss="epsilon"``.
    oblong.svm.SVR : The same model with the signature of scikit-learn.
    sklearn.linear_model.QuantileRegressor : Linear quantile regression with another penalty.

    Notes
    -----
    Each quantile is a model of its own, and models of neighbouring quantiles may cross where rows
    are few. With a sequence of quantiles :meth:`predict` sorts the outputs of each row, so its
    predictions never cross; the attributes describe the models before sorting.

    The number of targets below the model of a quantile is at most ``quantile * n``, and that of
    targets not above it at least as much (by weight, up to ``tol``).

    With ``kernel="linear"``, at least 400 rows and three rows per column, the weights are found
    directly by an interior point method, in time and memory that grow linearly with the rows, to a
    relative gap of ``min(tol, 1e-6)``. The same method is used for fewer rows if the kernel solver
    stalls.

    References
    ----------
    .. [1] H. Drucker, C. J. C. Burges, L. Kaufman, A. Smola and V. Vapnik, "Support Vector
       Regression Machines", Advances in Neural Information Processing Systems 9, 1996.
    .. [2] I. Takeuchi, Q. V. Le, T. D. Sears and A. J. Smola, "Nonparametric Quantile Estimation",
       Journal of Machine Learning Research 7, 1231-1264, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from oblong import MarginRegressor
    >>> X = np.linspace(0.0, 6.0, 200)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=200)
    >>> model = MarginRegressor(C=10.0).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.98
    >>> model.dual_gap_ < 1e-3
    True

    Nine tenths of the targets are below this model:

    >>> upper = MarginRegressor(loss="quantile", quantile=0.9, C=10.0).fit(X, y)
    >>> bool(abs((y < upper.predict(X) - 1e-3).mean() - 0.9) < 0.05)
    True
    >>> band = MarginRegressor(loss="quantile", quantile=(0.1, 0.9), C=10.0).fit(X, y)
    >>> band.predict(X).shape
    (200, 2)
    """

    loss: Literal["epsilon", "quantile"] = "epsilon"
    C: Positive = 1.0
    epsilon: NotNegative = 0.1
    quantile: InnerFraction | ArrayLike = 0.5
    bounds: ArrayLike | None = None
    tol: Positive = 1e-3
    max_iter: Limit = -1
    cache_size: Positive = 1024
    verbose: Verbose = 0

    _in_units = "the columns and the targets"

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the regressor.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows, or their kernel matrix of shape (n_samples, n_samples) for
            ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights that multiply ``C`` row by row. A row of weight two counts as two rows; a
            row of weight zero is dropped.

        Returns
        -------
        self : object
            The fitted regressor. If fitting fails or is interrupted, the estimator is left as it
            was before.
        """
        with all_or_nothing(self):
            self._fit(X, y, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        limits, levels = self._limits(), self._levels()
        X, y, weights = self._training_data(X, y, sample_weight, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        kept = np.flatnonzero(weights > 0)
        if kept.size == 0:
            raise ValueError(f"{self._title} needs a row with a weight above zero; got none")
        rows, y, weights = self._kept(X, y, weights, kept)
        self._check_targets(y, limits)
        self._gamma = self._resolve_gamma(rows, None if sample_weight is None else weights)
        self._check_kernel(rows)
        C = row_penalties(self.C, weights)
        how: dict[str, Any] = {
            "bounds": limits,
            "max_iter": self.max_iter,
            "progress": self._progress(),
        }
        losses = [{"quantile": level} for level in levels] or [{"epsilon": self.epsilon}]
        threads = available_threads()
        if self.kernel == "linear" and suits_linear_regression(rows):
            fits = [self._linear_fit(rows, y, C, threads, **loss, **how) for loss in losses]
        else:
            (found,) = solve_regressions(
                self._columns(rows, threads),
                y,
                C,
                epsilons=() if levels else (self.epsilon,),
                quantiles=levels,
                tol=self.tol,
                threads=threads,
                **how,
            )
            fits = [
                self._by_kernel(solution, rows, y, C, threads, **loss, **how)
                for solution, loss in zip(found, losses)
            ]
        self._store(X, kept, fits)
        self._warn_unconverged(fits)

    def _by_kernel(
        self, solution: RegressionResult, X: Any, y: np.ndarray, C: np.ndarray, threads: int,
        **how: Any,
    ) -> PairFit:  # fmt: skip
        """The model of a solution, or a better one where products of rows have lost too much."""
        margin = solution.margin
        fit = self._pair_fit(solution, margin.coef, solution.bias, margin.direction)
        stalled = self.kernel == "linear" and fit.status == "stalled"
        if not (stalled and suits_linear_regression(X, stalled=True)):
            return fit
        try:
            linear = self._linear_fit(X, y, C, threads, **how)
        except ValueError:
            # Squares of the numbers overflow.
            return fit
        return linear if linear.relative_gap < fit.relative_gap else fit

    def _linear_fit(
        self, X: Any, y: np.ndarray, C: np.ndarray, threads: int, **how: Any
    ) -> PairFit:
        tol = min(self.tol, LINEAR_GAP)
        return PairFit.of_linear(solve_linear_regression(X, y, C, tol=tol, threads=threads, **how))

    def _levels(self) -> list[float]:
        """The quantiles, before any work starts; none for the other loss."""
        if self.loss != "quantile":
            return []
        levels = np.asarray(self.quantile, dtype=np.float64)
        if levels.ndim > 1 or levels.size == 0 or not ((levels > 0.0) & (levels < 1.0)).all():
            raise ValueError(f"quantiles must be between 0 and 1; got {self.quantile!r}")
        return levels.reshape(-1).tolist()

    def _limits(self) -> tuple[float, float] | None:
        """Check the bounds, before any work starts."""
        if self.bounds is None:
            return None
        bounds: Sequence[float] = self.bounds
        if self.loss != "quantile":
            raise ValueError('bounds need loss="quantile"')
        if len(bounds) != 2 or not np.isfinite(np.asarray(bounds, dtype=np.float64)).all():
            raise ValueError(f"bounds must be two finite numbers; got {bounds!r}")
        low, high = float(bounds[0]), float(bounds[1])
        if not low < high:
            raise ValueError(f"bounds must be (low, high) with low < high; got {bounds!r}")
        return low, high

    def _check_targets(self, y: np.ndarray, limits: tuple[float, float] | None) -> None:
        """Refuse targets outside the bounds."""
        if limits is not None and not (limits[0] <= y.min() and y.max() <= limits[1]):
            raise ValueError(
                f"bounds={self.bounds!r} must contain all targets, which are between "
                f"{y.min():g} and {y.max():g}"
            )

    def _if_indefinite(self) -> str | None:
        if self.bounds is None:
            return None
        return "bounds have no solution; use another kernel, or bounds=None"

    def _store(self, X: Any, kept: np.ndarray, fits: list[PairFit]) -> None:
        coef = np.array([fit.coef for fit in fits])
        support = np.flatnonzero(coef.any(axis=0))
        self.support_ = kept[support].astype(np.int32)
        self.n_support_ = np.array([support.size], dtype=np.int32)
        self.support_vectors_ = self._support_rows(X)
        self.dual_coef_ = np.ascontiguousarray(coef[:, support])
        self.intercept_ = np.array([fit.bias for fit in fits])
        self.dual_gap_ = self._shaped([fit.relative_gap for fit in fits])
        self.objective_ = self._shaped([fit.objective for fit in fits])
        self.n_iter_ = int(sum(fit.n_iter for fit in fits))
        self.converged_ = all(fit.status == "converged" for fit in fits)
        if self.kernel == "linear":
            directions = [
                self.dual_coef_[k] @ self.support_vectors_
                if fit.direction is None
                else fit.direction
                for k, fit in enumerate(fits)
            ]
            self.coef_ = np.asarray(directions, dtype=np.float64).reshape(len(fits), -1)
        elif hasattr(self, "coef_"):
            del self.coef_

    def _shaped(self, values: list[float]) -> Any:
        """One number for one model."""
        return np.array(values) if self._several else float(values[0])

    @property
    def _several(self) -> bool:
        """Whether there is a column of predictions per quantile."""
        return self.loss == "quantile" and np.ndim(self.quantile) == 1

    def predict(self, X: Any) -> np.ndarray:
        """Predict targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, or their kernel values against the training rows, of shape
            (n_samples, n_samples_fit), for ``kernel="precomputed"``.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_quantiles)
            The outputs of the model. Those of several quantiles are sorted row by row.
        """
        outputs = self._outputs(X, rounded=True)
        if not self._several:
            return outputs[:, 0]
        ordered = np.empty_like(outputs)
        ordered[:, np.argsort(self.quantile, kind="stable")] = np.sort(outputs, axis=1)
        return ordered
