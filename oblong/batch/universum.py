"""The support vector machine with a Universum as a scikit-learn classifier."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import _fit_context
from sklearn.utils import check_random_state

from oblong._core.class_weights import row_penalties
from oblong._core.estimator import Natural, NotNegative, Positive
from oblong._core.rollback import all_or_nothing
from oblong.batch._base import KernelClassifier
from oblong.batch._pairwise import PairFit
from oblong.batch._parameters import MarginParameters
from oblong.batch._rows import validated_rows
from oblong.solvers.margin.universum import UniversumResult, solve_universum


@dataclass(kw_only=True, eq=False, repr=False)
class UniversumSVC(MarginParameters, KernelClassifier):
    r"""Support vector machine with Universum points, which belong to no class.

    Universum points [1]_ come from the same domain as the rows, but belong to neither class: for
    two handwritten digits, images of a third. Their outputs should be near zero, so the boundary
    passes through them:

    .. math::

        \min_{w, b} \ \tfrac12 \|w\|^2 + \sum_i C_i \, [1 - y_i f(x_i)]_+
        + C_U \sum_j [ |f(u_j)| - \varepsilon ]_+ , \qquad f(x) = w \cdot \varphi(x) + b .

    Parameters
    ----------
    C : float, default=1.0
        Penalty of margin violations, larger than zero.
    C_universum : float, default=1.0
        Penalty :math:`C_U` of outputs of Universum points, larger than zero.
    epsilon : float, default=0.1
        Absolute outputs of Universum points up to this value are not penalised.
    n_averages : int, default=0
        Without ``X_universum``: how many points to generate, each the average of two random
        rows of different classes [1]_.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        The kernel function. A precomputed kernel cannot be used with a Universum.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of "rbf", "poly" and "sigmoid": ``1 / (n_features * X.var())``,
        ``1 / n_features``, or the number itself. The variance is that of the labelled rows,
        weighted by ``sample_weight``.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant term of "poly" and "sigmoid".
    tol : float, default=1e-3
        Largest violation of the optimality conditions, on the scale of the outputs.
    max_iter : int, default=-1
        Limit on the solver's steps, or -1 for none.
    class_weight : dict or "balanced", default=None
        Factors of ``C`` by class.
    cache_size : float, default=1024
        Memory limit of the kernel cache in MB.
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
        Source of random averages and ties.

    Attributes
    ----------
    universum_vectors_ : {ndarray, CSR matrix} of shape (n_universum_SV, n_features)
        Universum points with a nonzero coefficient in some pair.
    universum_coef_ : ndarray of shape (n_pairs, n_universum_SV)
        Their coefficients, one row per pair of classes: every point takes part in every pair.
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    support_ : ndarray of shape (n_SV,)
        Labelled rows with a nonzero coefficient, grouped by class.
    support_vectors_ : {ndarray, CSR matrix} of shape (n_SV, n_features)
        Those rows. Empty for a precomputed kernel.
    n_support_ : ndarray of shape (n_classes,)
        Their number by class.
    dual_coef_ : ndarray of shape (n_classes - 1, n_SV)
        Their signed coefficients, laid out as in :class:`sklearn.svm.SVC`.
    coef_ : ndarray of shape (n_pairs, n_features)
        Weight vectors, for the linear kernel only; Universum points included.
    intercept_ : ndarray of shape (n_pairs,)
        Biases.
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
    sklearn.svm.SVC : The support vector machine without a Universum.

    Notes
    -----
    An output is ``Σ c_i k(x_i, x) + Σ d_j k(u_j, x) + b`` with the coefficients ``c`` of
    ``dual_coef_`` and ``d`` of ``universum_coef_``.

    References
    ----------
    .. [1] J. Weston, R. Collobert, F. Sinz, L. Bottou and V. Vapnik, "Inference with the
       Universum", Proceedings of the 23rd International Conference on Machine Learning,
       1009-1016, 2006.

    Examples
    --------
    Fives and eights, with threes that are neither:

    >>> from sklearn.datasets import load_digits
    >>> from oblong import UniversumSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> labelled = (y == 5) | (y == 8)
    >>> model = UniversumSVC(C=10, gamma=1e-3, C_universum=0.1)
    >>> model = model.fit(X[labelled], y[labelled], X_universum=X[y == 3])
    >>> model.predict(X[[5, 8]])
    array([5, 8])
    """

    C_universum: Positive = 1.0
    epsilon: NotNegative = 0.1
    n_averages: Natural = 0

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, X_universum: Any = None, sample_weight: Any = None) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows, or their kernel matrix of shape (n_samples, n_samples) for
            ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Class labels.
        X_universum : {array-like, sparse matrix} of shape (n_universum, n_features), default=None
            Points of no class. Without any, and without ``n_averages``, this is the support
            vector machine.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights that multiply ``C`` row by row. A row of weight two counts as two rows; a
            row of weight zero is dropped. They do not apply to the Universum.

        Returns
        -------
        self : object
            The fitted classifier. If fitting fails or is interrupted, the estimator is left as
            it was before.
        """
        with all_or_nothing(self):
            self._universum = X_universum
            self._fit(X, y, sample_weight)
            # What matters of it is kept in universum_vectors_.
            del self._universum
        return self

    def _check_rows(self, X: Any) -> None:
        if self.kernel == "precomputed" and (self._universum is not None or self.n_averages):
            raise ValueError(
                'a Universum is not supported with kernel="precomputed", which has no values '
                "between the rows and the Universum: use a kernel function"
            )
        if self._universum is None:
            return
        universum = validated_rows(self, self._universum, reset=False)
        universum = universum.astype(X.dtype, copy=False)
        if sp.issparse(X) and not sp.issparse(universum):
            universum = sp.csr_matrix(universum)
        elif sp.issparse(universum) and not sp.issparse(X):
            universum = universum.toarray()
        self._universum = universum

    def _fit_pairs(
        self, X: Any, labels: np.ndarray, penalties: np.ndarray, weights: np.ndarray
    ) -> tuple[list[PairFit], list[np.ndarray]]:
        if self._universum is None and self.n_averages:
            generator = check_random_state(self.random_state)
            first, second = _different(labels, weights, int(self.n_averages), generator)
            self._universum = 0.5 * (X[first] + X[second])
        return super()._fit_pairs(X, labels, penalties, weights)

    def _fit_pair(
        self, X: Any, y: np.ndarray, penalties: np.ndarray, weights: np.ndarray, threads: int
    ) -> PairFit:
        universum = self._universum
        if universum is None:
            rows = X
        elif sp.issparse(X):
            rows = sp.vstack([X, universum], format="csr")
        else:
            rows = np.concatenate([X, universum])
        columns = self._columns(rows)
        solution = solve_universum(
            columns,
            y,
            row_penalties(self.C, penalties),
            C_universum=self.C_universum,
            epsilon=self.epsilon,
            **self._run(),
        )
        margin = solution.margin
        bias = margin.bias - columns.offset(margin.coef, margin.direction)
        return self._pair_fit(solution, solution.coef, bias, margin.direction)

    def _keep(self, solutions: Sequence[UniversumResult]) -> None:
        coef = np.array([solution.universum_coef for solution in solutions])
        support = np.flatnonzero(coef.any(axis=0))
        self.universum_coef_ = coef[:, support]
        if self._universum is None:
            self.universum_vectors_ = self.support_vectors_[:0]
        else:
            self.universum_vectors_ = self._universum[support]

    def _expansion(self, some: slice = slice(None)) -> tuple[Any, np.ndarray]:
        vectors, coef = super()._expansion(some)
        if self.universum_coef_.shape[1] == 0:
            return vectors, coef
        both = [vectors, self.universum_vectors_]
        vectors = sp.vstack(both).tocsr() if sp.issparse(vectors) else np.concatenate(both)
        return vectors, np.hstack([coef, self.universum_coef_[some]])


def _different(
    labels: np.ndarray, weights: np.ndarray, count: int, generator: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Draw pairs of rows of different classes, in proportion to their weights."""
    order = np.argsort(labels, kind="stable")
    upto = np.cumsum(weights[order])
    # The weights lie on a line, class by class: the second draw leaves out the class of the first.
    ends = np.searchsorted(labels[order], np.unique(labels), "right") - 1
    edges = np.concatenate([[0.0], upto[ends]])
    last = order.size - 1
    first = np.minimum(np.searchsorted(upto, upto[-1] * generator.random_sample(count)), last)
    start, stop = edges[labels[order[first]]], edges[labels[order[first]] + 1]
    place = (upto[-1] - (stop - start)) * generator.random_sample(count)
    place += np.where(place >= start, stop - start, 0.0)
    second = np.minimum(np.searchsorted(upto, place, "right"), last)
    return order[first], order[second]
