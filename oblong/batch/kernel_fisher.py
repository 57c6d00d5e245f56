"""The regularised kernel Fisher discriminant as a scikit-learn classifier."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from oblong._core.estimator import Positive
from oblong.batch._pairwise import PairFit, PairwiseKernelClassifier
from oblong.batch._parameters import KernelParameters, RunParameters, VoteParameters
from oblong.solvers.covariance.kernel_fisher import KernelFisherResult, solve_kernel_fisher


@dataclass(kw_only=True, eq=False, repr=False)
class KernelFisherClassifier(
    KernelParameters, VoteParameters, RunParameters, PairwiseKernelClassifier
):
    r"""Regularised kernel Fisher discriminant.

    The direction that best separates the means :math:`m_\pm` of two classes, relative to the
    scatter of the rows about the mean of their class [1]_,

    .. math::

        w \propto (S + \alpha I)^{-1} (m_+ - m_-), \qquad
        S = \sum_i (\varphi(x_i) - m_{y_i}) (\varphi(x_i) - m_{y_i})^\top ,

    in the feature space of the kernel, with the threshold midway between the projected means.

    Parameters
    ----------
    alpha : float, default=1.0
        The ridge, larger than zero. It is added to a sum over the rows and means the same as in
        :class:`sklearn.kernel_ridge.KernelRidge`.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        The kernel function. It has to be positive semidefinite, but for ``alpha``.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of "rbf", "poly" and "sigmoid": ``1 / (n_features * X.var())``,
        ``1 / n_features``, or the number itself. With ``sample_weight`` the variance is the
        weighted one.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant term of "poly" and "sigmoid".
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Shape of :meth:`decision_function` with more than two classes.
    break_ties : {"first", "confidence", "random"}, default="first"
        Which of several classes with equal votes is predicted: the first, the one with the
        largest summed outputs, or one at random.
    n_jobs : int, default=None
        Pairs of classes to solve at once.
    random_state : int, RandomState instance or None, default=None
        Source of random ties.

    Attributes
    ----------
    loo_error_ : ndarray of shape (n_pairs,)
        Leave-one-out error of each binary problem: the fraction of its rows that the classifier of
        all other rows puts on the wrong side. It is exact and costs no further fits.
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    support_ : ndarray of shape (n_SV,)
        Rows with a nonzero coefficient, grouped by class: usually all.
    support_vectors_ : {ndarray, CSR matrix} of shape (n_SV, n_features)
        Those rows. Empty for a precomputed kernel.
    n_support_ : ndarray of shape (n_classes,)
        Their number by class.
    dual_coef_ : ndarray of shape (n_classes - 1, n_SV)
        Their coefficients, laid out as in :class:`sklearn.svm.SVC`.
    coef_ : ndarray of shape (n_pairs, n_features)
        Weight vectors, for the linear kernel only.
    intercept_ : ndarray of shape (n_pairs,)
        Biases.
    objective_ : ndarray of shape (n_pairs,)
        Primal objective of the regression that each binary problem is solved as.
    dual_gap_ : ndarray of shape (n_pairs,)
        The certificate of the model as stored: primal minus dual objective, rounding included,
        divided by the primal.
    n_iter_ : ndarray of shape (n_pairs,)
        Number of factorisations: one per problem.
    converged_ : bool
        Whether every gap is at most 1e-3. The method is direct: only rounding can prevent it.
    n_features_in_ : int
        Number of features seen in :meth:`fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if ``X`` had string names.

    See Also
    --------
    sklearn.discriminant_analysis.LinearDiscriminantAnalysis : The linear discriminant.
    SigmaSVC : The covariance of all rows, with the hinge loss.

    Notes
    -----
    The discriminant is the solution of a ridge regression on the targets :math:`n / n_+` and
    :math:`-n / n_-`, whose bias is not penalised; outputs are on that scale. The time is
    that of factoring and inverting one matrix of the size of the pair, and the memory two such
    matrices.

    References
    ----------
    .. [1] S. Mika, G. Rätsch, J. Weston, B. Schölkopf and K.-R. Müller, "Fisher Discriminant
       Analysis with Kernels", Neural Networks for Signal Processing IX, 41-48, 1999.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oblong import KernelFisherClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelFisherClassifier(alpha=0.1).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.99
    >>> model.loo_error_.round(2)
    array([0.  , 0.  , 0.04])
    """

    alpha: Positive = 1.0

    def _check_kernel(self, X: Any) -> None:
        self._check_definite(X, "there is no scatter; use another kernel")

    def _fit_pair(
        self, X: Any, y: np.ndarray, penalties: np.ndarray, weights: np.ndarray, threads: int
    ) -> PairFit:
        K, unit, rows = self._matrix(X, threads)
        return PairFit.of(
            solve_kernel_fisher(K, y, weights, float(self.alpha), rows=rows, unit=unit)
        )

    def _warn_unconverged(self, fits: Sequence[PairFit]) -> None:
        worst = max(fit.relative_gap for fit in fits)
        if any(fit.status != "converged" for fit in fits):
            warnings.warn(
                f"{type(self).__name__} did not converge: rounding leaves a relative duality gap "
                f"of {worst:.3g}. Scale the columns, for example with StandardScaler, or take a "
                f"larger alpha.",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _keep(self, solutions: Sequence[KernelFisherResult]) -> None:
        self.loo_error_ = np.array([solution.loo_error for solution in solutions])
