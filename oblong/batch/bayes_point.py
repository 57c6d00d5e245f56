"""The Bayes point machine as a scikit-learn classifier."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import log_ndtr, logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from oblong._core.estimator import Count, NotNegative, Positive
from oblong.batch._base import KernelClassifier
from oblong.batch._one_vs_rest import OneVsRestMixin, positive_classes, solve_each
from oblong.batch._pairwise import PairFit
from oblong.batch._parameters import KernelParameters, SolverParameters
from oblong.linalg.feature_map import (
    PivotMap,
    distinct_rows,
    feature_map,
    row_norms,
    spanning_rows,
)
from oblong.linalg.orientation import upright_rotation
from oblong.solvers.bayes_point.solve import BayesPointResult, solve_bayes_point

# Slack where nothing separates the classes, over the mean of k(x, x): the direction of the limit
# for little slack.
_LITTLE_SLACK = 1e-3
_MAX_SWEEPS = 1000


@dataclass(frozen=True)
class _Solution:
    """A Bayes point, and the slack it was found with."""

    result: BayesPointResult
    soft: float
    empty: bool


@dataclass(kw_only=True, eq=False, repr=False)
class BayesPointClassifier(KernelParameters, SolverParameters, OneVsRestMixin, KernelClassifier):
    r"""Bayes point machine: the mean of all classifiers that agree with the labels.

    Every weight vector :math:`w` of the version space :math:`\{w : y_i\, w \cdot \varphi_i > 0\}`
    classifies the training rows :math:`\varphi_i`, in the feature space of the kernel, without an
    error. The support vector machine takes the centre of the largest ball in it. The Bayes point
    [1]_ is the centre of mass on the sphere, which is close to the vote of all of them,

    .. math::

        w^\star = \mathrm{E}[w] , \qquad
        p(w) \propto \mathcal{N}(w; 0, I) \prod_i \Phi(y_i\, w \cdot \varphi_i / \sqrt\lambda) ,

    where the normal distribution function :math:`\Phi` becomes a step without slack,
    :math:`\lambda = 0`. The mean is found by expectation propagation [2]_ or by a random walk
    along ellipses in the version space.

    Parameters
    ----------
    soft : float, default=0.0
        The slack variance :math:`\lambda`, in the units of the kernel: the kernel matrix :math:`K +
        \lambda I` replaces :math:`K`. If it is zero and nothing separates the classes, a warning is
        given and a thousandth of the mean of :math:`k(x_i, x_i)` is used.
    method : {"ep", "sampling"}, default="ep"
        Expectation propagation, deterministic; or sampling, exact in the limit of many draws,
        but slow to get there where the kernel matrix is ill conditioned.
    n_samples : int, default=10000
        Draws of the sampler.
    fit_intercept : bool, default=True
        Whether there is an intercept, as the weight of a feature that is always one.
    rank : int, default=None
        Largest dimension of the feature space: number of pivots of a partial Cholesky factor of the
        kernel matrix. By default no limit.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        The kernel function. It has to be positive semidefinite.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of "rbf", "poly" and "sigmoid": ``1 / (n_features * X.var())``,
        ``1 / n_features``, or the number itself. With ``sample_weight`` the variance is the
        weighted one.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant term of "poly" and "sigmoid".
    tol : float, default=1e-5
        Expectation propagation stops when all means agree up to this fraction of their standard
        deviations, and all variances up to this relative error.
    max_iter : int, default=-1
        Limit on the sweeps of expectation propagation; -1 means 1000.
    cache_size : float, default=1024
        Memory in MB for blocks of kernel values in prediction.
    n_jobs : int, default=None
        Problems to solve at once, if there are more than two classes.
    verbose : int, default=0
        Whether to report progress on standard error.
    random_state : int, RandomState instance or None, default=None
        Source of the draws.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    coef_ : ndarray of shape (n_problems, n_features)
        Bayes points, for the linear kernel only.
    intercept_ : ndarray of shape (n_problems,)
        Their intercepts.
    log_evidence_ : ndarray of shape (n_problems,)
        Logarithm of the probability of the labels, as expectation propagation estimates it.
        Without slack it is the fraction of the sphere in the version space: the larger, the
        better the kernel suits the labels. Not a number if ``method="sampling"``.
    soft_ : ndarray of shape (n_problems,)
        The slack variance used: ``soft`` itself, unless the version space is empty.
    residual_ : ndarray of shape (n_problems,)
        For expectation propagation, the largest remaining disagreement of moments; for sampling,
        the standard error of the Bayes point divided by its length.
    support_ : ndarray of shape (n_SV,)
        Rows in terms of which the Bayes points are written: the pivots of the Cholesky factor.
    support_vectors_ : {ndarray, CSR matrix} of shape (n_SV, n_features)
        Those rows. Empty for a precomputed kernel.
    dual_coef_ : ndarray of shape (n_problems, n_SV)
        Their coefficients.
    n_iter_ : ndarray of shape (n_problems,)
        Sweeps of expectation propagation, or steps of each chain of the sampler.
    converged_ : bool
        Whether every problem met the tolerance.
    n_features_in_ : int
        Number of features seen in :meth:`fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if ``X`` had string names.

    See Also
    --------
    EllipsoidalSVC : The centre of an ellipsoid in the version space, by convex optimisation.
    sklearn.gaussian_process.GaussianProcessClassifier : The same prior with the logistic function,
        by Laplace's method.

    Notes
    -----
    With two classes there is one problem, otherwise one for each class against all others.

    Neither method has a duality gap; ``residual_`` says how well the equations are solved, but not
    how far expectation propagation is from the exact mean.

    A row of weight zero is dropped. With slack, a row of weight two counts as two rows, and the
    fraction :math:`\omega` of one has the slack variance :math:`\lambda / \omega`. Without slack a
    row counts the same however often it is repeated, and no other weight makes a difference.

    The origin matters: shifting the rows changes even a linear classifier. Standardise them.

    References
    ----------
    .. [1] R. Herbrich, T. Graepel and C. Campbell, "Bayes Point Machines", Journal of Machine
       Learning Research 1, 245-279, 2001.
    .. [2] T. P. Minka, "Expectation Propagation for Approximate Bayesian Inference", Proceedings
       of the 17th Conference on Uncertainty in Artificial Intelligence, 362-369, 2001.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oblong import BayesPointClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BayesPointClassifier(soft=0.1).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.98
    >>> model.predict_proba(X[[0, 77]]).round(2)
    array([[1.  , 0.  , 0.  ],
           [0.  , 0.49, 0.51]])
    """

    soft: NotNegative = 0.0
    method: Literal["ep", "sampling"] = "ep"
    n_samples: Count = 10_000
    fit_intercept: bool = True
    rank: Count | None = None
    tol: Positive = 1e-5
    cache_size: Positive = 1024

    # Fitting ------------------------------------------------------------------------------------

    def _if_indefinite(self) -> str:
        return "it has no version space; use another kernel"

    def _penalties(self, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return weights

    def _fit_pairs(
        self, X: Any, labels: np.ndarray, penalties: np.ndarray, weights: np.ndarray
    ) -> tuple[list[PairFit], list[np.ndarray]]:
        """Find the coordinates of the rows, then solve one problem per class."""
        n = X.shape[0]
        places = inverse = np.arange(n)
        if self.kernel != "precomputed":
            # Draws must not depend on the order of the rows, nor on copies of them.
            places, inverse = distinct_rows(X)
            X = X[places]
        self._map, F = feature_map(
            self._kernel(), X, rank=self.rank, constant=bool(self.fit_intercept)
        )
        if isinstance(self._map, PivotMap):
            self._map = replace(self._map, pivots=places[self._map.pivots])
            self._span = None
        else:
            self._span = spanning_rows(F)
        turn = None
        if self.method == "sampling" and isinstance(self._map, PivotMap):
            # Rounding chooses among equal pivots, and draws must not depend on their order.
            turn = upright_rotation(F.T)
            F = F @ turn
        little = _LITTLE_SLACK * float(np.mean(row_norms(F) ** 2))
        random = check_random_state(self.random_state)
        seeds = [random.randint(2**31) for _ in positive_classes(len(self.classes_))]

        def solve(k: int, y: np.ndarray) -> PairFit:
            # One row for each place and label, with the weights of its copies.
            totals = np.bincount(2 * inverse + (y > 0), penalties, minlength=2 * len(F))
            used = np.flatnonzero(totals)
            signs = np.where(used % 2, 1.0, -1.0)
            rows = F if used.size == len(F) and inverse.size == len(F) else F[used // 2]
            return self._solve(rows, signs, totals[used], little, seeds[k], turn)

        fits = solve_each(solve, labels, len(self.classes_), self.n_jobs)
        if self._span is not None:
            basis = F[self._span].T.astype(np.float64)
            self._span_coef = np.array(
                [np.linalg.lstsq(basis, np.asarray(fit.direction), rcond=None)[0] for fit in fits]
            )
            self._span = places[self._span]
        return fits, [np.arange(n)] * len(fits)

    def _solve(
        self,
        F: np.ndarray,
        y: np.ndarray,
        weights: np.ndarray,
        little: float,
        seed: int,
        turn: np.ndarray | None,
    ) -> PairFit:
        options: dict[str, Any] = {
            "method": self.method,
            "weights": weights,
            "tol": float(self.tol),
            "max_iter": _MAX_SWEEPS if self.max_iter == -1 else max(1, int(self.max_iter)),
            "n_samples": int(self.n_samples),
            "progress": self._progress(),
        }
        soft = float(self.soft)
        found = solve_bayes_point(F, y, soft=soft, rng=np.random.default_rng(seed), **options)
        empty = found.status == "empty"
        if empty:
            soft = little
            found = solve_bayes_point(F, y, soft=soft, rng=np.random.default_rng(seed), **options)
        if turn is not None:
            found = replace(found, w=turn @ found.w, root=turn @ found.root)
        solution, evidence = _Solution(found, soft, empty), -found.log_evidence
        counts = (found.n_iter, found.status, found.w)
        return PairFit(solution, np.empty(0), 0.0, evidence, found.residual, *counts)

    def _store(
        self, X: Any, kept: np.ndarray, labels: np.ndarray, members: list, fits: list[PairFit]
    ) -> None:
        self._directions = np.array([fit.direction for fit in fits])
        self._roots = [fit.solution.result.root for fit in fits]
        pivots = self._span
        if isinstance(self._map, PivotMap):
            pivots = self._map.pivots
            self._span_coef = np.array([self._map.coefficients(w) for w in self._directions])
            if self._map.rows is None:
                # New rows come with values for all training rows, also those without weight.
                self._map = replace(self._map, pivots=kept[pivots])
        self.support_ = kept[pivots].astype(np.int32)
        self.dual_coef_ = self._span_coef
        self.support_vectors_ = self._support_rows(X)
        del self._span, self._span_coef
        constant = self.fit_intercept
        self.intercept_ = self.dual_coef_.sum(axis=1) if constant else np.zeros(len(fits))
        if hasattr(self, "coef_"):
            del self.coef_
        if self.kernel == "linear":
            coef = self._directions @ self._map.basis(X.shape[1] + int(constant)).T
            self.coef_ = np.ascontiguousarray(coef[:, : X.shape[1]])
            if constant:
                self.intercept_ = coef[:, -1].copy()
        self.n_iter_ = np.array([fit.n_iter for fit in fits], dtype=np.int64)
        self.residual_ = np.array([fit.relative_gap for fit in fits])
        self.converged_ = all(fit.status == "converged" for fit in fits)

    def _keep(self, solutions: Sequence[_Solution]) -> None:
        self.log_evidence_ = np.array([each.result.log_evidence for each in solutions])
        self.soft_ = np.array([each.soft for each in solutions])
        if any(each.empty for each in solutions):
            slack = max(each.soft for each in solutions)
            warnings.warn(
                f"{type(self).__name__}: no hyperplane separates the classes, so soft=0 leaves no "
                f"version space; used soft={slack:.3g} instead. Choose soft > 0, or another "
                f"kernel.",
                UserWarning,
                stacklevel=5,
            )

    def _warn_unconverged(self, fits: Sequence[PairFit]) -> None:
        failed = [fit for fit in fits if fit.status != "converged"]
        if not failed:
            return
        worst = max(fit.relative_gap for fit in failed)
        if self.method == "sampling":
            message = (
                f"n_samples={self.n_samples} draws leave the Bayes point with a relative standard "
                f"error of {worst:.3g}. Use more draws, or method='ep'."
            )
        else:
            message = (
                f"expectation propagation did not converge to tol={self.tol:g} in "
                f"{failed[0].n_iter} sweeps. The largest remaining disagreement of moments is "
                f"{worst:.3g}. Scaling the features, or soft > 0, may help."
            )
        warnings.warn(f"{type(self).__name__}: {message}", ConvergenceWarning, stacklevel=5)

    # Prediction ---------------------------------------------------------------------------------

    def _outputs(self, X: Any, rounded: bool = True) -> np.ndarray:
        """Means of the outputs over their standard deviations."""
        X = self._validated(X)
        spread = np.sqrt(np.maximum(self._variances(X), np.finfo(float).tiny))
        outputs = self._means(X) / spread
        return outputs.astype(X.dtype, copy=False) if rounded else outputs

    def decision_function(self, X: Any) -> np.ndarray:
        r"""Outputs of the Bayes points over their standard deviations.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, or their kernel values against the training rows, of shape
            (n_samples, n_samples_fit), for ``kernel="precomputed"``.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            :math:`\mathrm{E} f / \sqrt{\lambda + \mathrm{Var} f}`, with the mean and the variance
            over the version space. With two classes it has the sign of the output of the Bayes
            point, positive for ``classes_[1]``. With more, the score of each class against all
            others.
        """
        return super().decision_function(X)

    def predict(self, X: Any) -> np.ndarray:
        """Predict class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, or kernel values for ``kernel="precomputed"``.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            With two classes the sign of the Bayes point's output decides, with more the largest
            score.
        """
        if len(getattr(self, "classes_", ())) != 2:
            return super().predict(X)
        # The sign needs no variance.
        return self.classes_[(self._means(self._validated(X))[:, 0] > 0).astype(np.intp)]

    def _means(self, X: Any) -> np.ndarray:
        """Outputs of the Bayes points for validated rows."""
        if self.kernel == "linear":
            outputs = np.asarray(X @ self.coef_.T.astype(X.dtype)) + self.intercept_
            return outputs.astype(X.dtype, copy=False)
        assert isinstance(self._map, PivotMap)
        outputs = np.empty((X.shape[0], len(self._directions)), dtype=X.dtype)
        for start, stop in self._blocks(X):
            # The intercept is part of the kernel here.
            outputs[start:stop] = self._map.pivot_products(X[start:stop]) @ self.dual_coef_.T
        return outputs

    def _variances(self, X: Any) -> np.ndarray:
        """Variances of the outputs, slack included."""
        # In directions without a training row the weights are as they were before.
        lengths, rest = self._squared_lengths(X, self._roots)
        return lengths + rest + self.soft_

    def predict_proba(self, X: Any) -> np.ndarray:
        r"""Probabilities of the classes.

        With two classes :math:`\Phi(\mathrm{E} f / \sqrt{\lambda + \mathrm{Var} f})` for the second
        one, with the mean and the variance of the output over the version space. With more, these
        values of all classes, divided by their sum.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, or kernel values for ``kernel="precomputed"``.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            One row for each row of ``X``, in the order of ``classes_``.

        Notes
        -----
        With a precomputed kernel the distance of a row from the span of the training rows is not
        known, and the variance outside the span is left out.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, or kernel values for ``kernel="precomputed"``.

        Returns
        -------
        logarithms : ndarray of shape (n_samples, n_classes)
            See :meth:`predict_proba`.
        """
        scores = self._outputs(X).astype(np.float64, copy=False)
        if len(self.classes_) == 2:
            return log_ndtr(np.column_stack([-scores[:, 0], scores[:, 0]]))
        logarithms = log_ndtr(scores)
        return logarithms - logsumexp(logarithms, axis=1, keepdims=True)
