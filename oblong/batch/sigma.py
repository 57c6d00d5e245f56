"""The Σ-SVM as a scikit-learn classifier."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from oblong._core.class_weights import row_penalties
from oblong._core.estimator import Count, FractionBelowOne
from oblong._core.threads import blas_for_systems
from oblong.batch._one_vs_one import pairs_of
from oblong.batch._pairwise import PairFit
from oblong.batch._parameters import MarginParameters
from oblong.batch._passes import PassClassifier
from oblong.linalg.feature_map import kernel_diagonal
from oblong.linalg.first_pass import FirstLook, Frame
from oblong.linalg.low_rank import LowRank, pivoted_cholesky
from oblong.linalg.row_passes import Passes
from oblong.solvers.covariance.options import CovarianceOptions
from oblong.solvers.covariance.sigma import (
    SigmaFactor,
    certified_kernel,
    solve_sigma_kernel,
    solve_sigma_linear,
    solve_sigma_low_rank,
)

# Residuals below this fraction of the kernel values are round-off of the kernel.
_ROUND_OFF = 1e-12


@dataclass(kw_only=True, eq=False, repr=False)
class SigmaSVC(MarginParameters, PassClassifier):
    r"""Σ-SVM: a support vector machine that keeps the spread of its outputs small.

    Where a support vector machine penalises the length of its weight vector alone, the Σ-SVM
    [1]_ also penalises the variance of the outputs, in a given proportion:

    .. math::

        \min_{w, b} \ \tfrac12 (1 - D) \|w\|^2 + \tfrac12 D \, w^\top \Sigma w
        + \sum_i C_i \, [1 - y_i (w \cdot (\varphi(x_i) - \mu) + b)]_+ ,

    with the mean :math:`\mu` and the covariance :math:`\Sigma` of the rows in the feature space
    of the kernel, regardless of their labels.

    Parameters
    ----------
    C : float, default=1.0
        Penalty of margin violations, larger than zero.
    D : float, default=0.5
        Weight of the covariance in the regulariser, at least 0 and below 1. ``D=0`` is the
        support vector machine; near 1 the classifier hardly depends on affine maps of the data.
    rank : int, default=None
        Number of columns of the kernel matrix to use: the matrix is replaced by its partial
        Cholesky factorisation with pivots, and the certificate refers to the approximate problem.
        By default the whole matrix is used up to 10,000 rows per pair of classes, and 1000 columns
        beyond. Ignored for a linear kernel with fewer features than rows, whose exact solution
        costs less.
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
    tol : float, default=1e-3
        Largest violation of the optimality conditions, on the scale of the outputs.
    max_iter : int, default=-1
        Limit on the solver's steps, or -1 for none.
    class_weight : dict or "balanced", default=None
        Factors of ``C`` by class. They do not enter the mean and the covariance.
    cache_size : float, default=1024
        Memory limit in MB of the kernel cache of the linear and the low-rank problem.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Shape of :meth:`decision_function` with more than two classes.
    break_ties : {"first", "confidence", "random"}, default="first"
        Which of several classes with equal votes is predicted: the first, the one with the
        largest summed outputs, or one at random.
    n_jobs : int, default=None
        Pairs of classes to solve at once.
    verbose : int, default=0
        Whether to report progress on standard error.
    random_state : int, RandomState instance or None, default=None
        Source of random ties.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    support_ : ndarray of shape (n_SV,)
        Rows with a nonzero coefficient, grouped by class. For ``D > 0`` these are all
        rows, or the pivots of a low-rank approximation.
    support_vectors_ : {ndarray, CSR matrix} of shape (n_SV, n_features)
        Those rows. Empty for a precomputed kernel.
    n_support_ : ndarray of shape (n_classes,)
        Their number by class.
    dual_coef_ : ndarray of shape (n_classes - 1, n_SV)
        Coefficients of the outputs in terms of the kernel itself, laid out as in
        :class:`sklearn.svm.SVC`.
    coef_ : ndarray of shape (n_pairs, n_features)
        Weight vectors, for the linear kernel only.
    intercept_ : ndarray of shape (n_pairs,)
        Biases, in which the output of the mean is included.
    objective_ : ndarray of shape (n_pairs,)
        Primal objective of each binary problem.
    dual_gap_ : ndarray of shape (n_pairs,)
        The certificate: primal minus dual objective, divided by the primal.
    n_iter_ : ndarray of shape (n_pairs,)
        Steps taken by the solver.
    converged_ : bool
        Whether every binary problem met ``tol``.
    n_features_in_ : int
        Number of features seen in :meth:`fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if ``X`` had string names.

    See Also
    --------
    RelativeMarginClassifier : Bounds the outputs instead of their variance.
    KernelFisherClassifier : Uses the covariance within the classes and squared errors.

    Notes
    -----
    The mean and the covariance belong to the rows of the pair of classes at hand and are weighted
    by ``sample_weight``: a row of weight two counts as two rows.

    References
    ----------
    .. [1] P. K. Shivaswamy and T. Jebara, "Maximum Relative Margin and Data-Dependent
       Regularization", Journal of Machine Learning Research 11, 747-788, 2010.

    Examples
    --------
    Stretching the data along a direction that says nothing about the classes turns the boundary of
    the support vector machine, but not that of the Σ-SVM:

    >>> from oblong import SigmaSVC
    >>> from oblong.datasets import make_parallel_lines
    >>> X, y = make_parallel_lines(stretch=10, random_state=0)
    >>> SigmaSVC(kernel="linear", D=0).fit(X, y).coef_.round(2)
    array([[0.19, 0.02]])
    >>> model = SigmaSVC(kernel="linear", D=0.99).fit(X, y)
    >>> abs(model.coef_).round(2)
    array([[0., 2.]])
    >>> bool(model.dual_gap_ < 1e-3)
    True
    """

    D: FractionBelowOne = 0.5
    rank: Count | None = None

    _options: ClassVar[CovarianceOptions] = CovarianceOptions()

    def _if_indefinite(self) -> str:
        return "there is no covariance; use another kernel"

    def _pass_frames(self, passes: Passes, seen: FirstLook) -> list[Frame | None]:
        frames: list[Frame | None] = []
        for pair in pairs_of(len(self.classes_)):
            moments = seen.of(pair)
            if moments.covariance.ndim == 1:
                raise ValueError("a row source takes dense rows of at most 512 columns")
            A = self.D * moments.covariance
            A[np.diag_indices_from(A)] += 1.0 - self.D
            # Lengths of L'w are those of the regulariser.
            try:
                factor = cholesky(A, lower=True)
            except LinAlgError:
                raise ValueError(
                    "the covariance of the rows is singular up to rounding: scale the columns, or "
                    "leave out those that depend on others"
                ) from None
            inverse = solve_triangular(factor, np.eye(len(A)), lower=True)
            frames.append(Frame(moments.mean, inverse.T))
        return frames

    def _fit_pair(
        self, X: Any, y: np.ndarray, penalties: np.ndarray, weights: np.ndarray, threads: int
    ) -> PairFit:
        C, D = row_penalties(self.C, penalties), float(self.D)
        options: dict[str, Any] = {"threads": threads, **self._run()}
        cache = self.cache_size * 2.0**20
        linear: dict[str, Any] = {"weights": weights, "cache_bytes": cache, **options}
        n, d = X.shape
        rank = self.rank
        if rank is None and n > self._options.largest_exact:
            rank = self._options.default_rank
        with blas_for_systems(min(n, d) if self.kernel == "linear" else n):
            # Whitened rows are dense: for wide sparse ones a low rank is the smaller evil.
            if (
                self.kernel == "linear"
                and d < n
                and (rank is None or d <= rank or not sp.issparse(X))
            ):
                solution = solve_sigma_linear(X, y, C, D, **linear)
            elif rank is not None and rank < n:
                solution = solve_sigma_low_rank(self._low_rank(X, rank, threads), y, C, D, **linear)
            else:
                K, unit, rows = self._matrix(X, threads)
                solution = solve_sigma_kernel(SigmaFactor.of(K, D, weights), y, C, **options)
                solution = certified_kernel(solution, K, y, C, D, weights, rows, unit)
        certificate = solution.certificate
        # All three solutions are certified as they are stored.
        assert certificate is not None
        return PairFit.of(
            solution,
            objective=certificate.objective,
            relative_gap=certificate.relative_gap,
            status=certificate.status(solution.margin.status),
        )

    def _low_rank(self, X: Any, rank: int, threads: int) -> LowRank:
        kernel = self._kernel()
        if kernel.name == "precomputed":
            return pivoted_cholesky(X.__getitem__, X.diagonal(), rank, tolerance=_ROUND_OFF)
        doubled = X.astype(np.float64, copy=False)
        shift = doubled.mean(axis=0) if kernel.name == "rbf" and not sp.issparse(X) else None
        rows = kernel.prepare(doubled, np.float64, shift)

        def columns(indices: np.ndarray) -> np.ndarray:
            return kernel.block(rows.take(indices), rows, threads=threads)

        diagonal = kernel_diagonal(kernel, doubled, shift)
        return pivoted_cholesky(columns, diagonal, rank, tolerance=_ROUND_OFF)
