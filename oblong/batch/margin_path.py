"""The relative margin machine for many bounds, from loose to tight."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oblong._core.class_weights import row_penalties
from oblong.batch._base import KernelClassifier
from oblong.batch._pairwise import PairFit
from oblong.batch._parameters import MarginParameters
from oblong.solvers.margin.relative import (
    RelativeMarginPathResult,
    solve_relative_margin_path,
)

SPREADS = (1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.0)


class RelativeMarginPathClassifier(MarginParameters, KernelClassifier):
    """A kernel classifier of two classes with one solution for each spread.

    Its outputs have one column per spread, where those of other classifiers have one per pair.
    """

    spreads: np.ndarray

    @property
    def _title(self) -> str:
        return "relative_margin_path"

    def _if_indefinite(self) -> str | None:
        if (self.spreads == 1.0).all():
            return None
        return "a bound has no solution; use another kernel"

    def _check_kernel(self, X: Any) -> None:
        if len(self.classes_) != 2:
            raise ValueError(
                f"a path needs rows of exactly two classes, got {len(self.classes_)}: take the "
                f"rows of one pair of classes, or RelativeMarginClassifierCV for all of them"
            )
        super()._check_kernel(X)

    def _solve_pair(self, columns: Any, y: Any, C: Any, progress: Any, weights: Any) -> Any:
        return solve_relative_margin_path(columns, y, C, self.spreads, **self._run())

    def _fit_pair(
        self, X: Any, y: np.ndarray, penalties: np.ndarray, weights: np.ndarray, threads: int
    ) -> PairFit:
        columns = self._columns(X)
        path = self._solve_pair(
            columns, y, row_penalties(self.C, penalties), self._progress(), weights
        )
        self.coefs_ = np.array([margin.coef for margin in path.margins])
        self.biases_ = np.array(
            [m.bias - columns.offset(m.coef, m.direction) for m in path.margins]
        )
        # The support vector machine counts even where it is no point of the path: it sets the scale
        # of all bounds.
        every = (path.svm, *path.margins)
        worst = max(every, key=lambda m: (m.status != "converged", m.relative_gap))
        return PairFit(
            path,
            # A row is a support vector if it is one anywhere on the path.
            np.abs(self.coefs_).max(axis=0),
            0.0,
            worst.objective,
            np.inf if self._indefinite else worst.relative_gap,
            path.n_iter,
            "indefinite" if self._indefinite else worst.status,
            rounded=worst.rounding > 0.5 * worst.gap,
        )

    def _keep(self, solutions: Sequence[RelativeMarginPathResult]) -> None:
        (self.path_,) = solutions
        self.intercept_ = self.biases_

    def _settle(self, coef: np.ndarray, path: RelativeMarginPathResult) -> None:
        """Take the coefficients of all rows, of shape (n_spreads, n), for prediction."""
        self.support_coef_ = coef[:, self.support_]
        if self.kernel == "linear":
            self.coef_ = np.array([margin.direction for margin in path.margins])

    def _expansion(self, some: slice = slice(None)) -> tuple[Any, np.ndarray]:
        return self.support_vectors_, self.support_coef_[some]


@dataclass(frozen=True, eq=False)
class RelativeMarginPath:
    """Relative margin machines of two classes along a path of spreads.

    Attributes
    ----------
    spreads : ndarray of shape (n_spreads,)
        The spreads, in the order in which they were given.
    B : ndarray of shape (n_spreads,)
        The bounds ``1 + spread * (theta - 1)``.
    theta : float
        Largest absolute training output of the support vector machine.
    classes : ndarray of shape (2,)
        The class labels; positive outputs mean the second one.
    coef : ndarray of shape (n_spreads, n_samples)
        Signed coefficients of the training rows.
    intercept : ndarray of shape (n_spreads,)
        Biases.
    outputs : ndarray of shape (n_spreads, n_samples)
        Outputs on the training rows.
    objective : ndarray of shape (n_spreads,)
        Primal objectives.
    dual_gap : ndarray of shape (n_spreads,)
        Certificates: primal minus dual objective, divided by the primal.
    relative_margin : ndarray of shape (n_spreads,)
        Margin over the spread of the training outputs, ``1 / max |f_i|``.
    n_iter : ndarray of shape (n_spreads,)
        Steps taken by the solver for each spread.
    converged : bool
        Whether every solution, including the support vector machine, met ``tol``.
    """

    spreads: np.ndarray
    B: np.ndarray
    theta: float
    classes: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    outputs: np.ndarray
    objective: np.ndarray
    dual_gap: np.ndarray
    relative_margin: np.ndarray
    n_iter: np.ndarray
    converged: bool
    _classifier: RelativeMarginPathClassifier = field(repr=False)

    def decision_function(self, X: Any) -> np.ndarray:
        """Outputs of every model on the path, of shape (n_spreads, n_rows).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Rows, or their kernel values against the training rows for ``kernel="precomputed"``.
        """
        return self._classifier._outputs(X, rounded=True).T

    def predict(self, X: Any) -> np.ndarray:
        """Class labels by every model on the path, of shape (n_spreads, n_rows).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Rows, or their kernel values against the training rows for ``kernel="precomputed"``.
        """
        return self.classes[(self.decision_function(X) > 0).astype(np.intp)]


def relative_margin_path(
    X: Any,
    y: Any,
    *,
    spreads: Sequence[float] = SPREADS,
    C: float = 1.0,
    kernel: Any = "rbf",
    gamma: Any = "scale",
    degree: int = 3,
    coef0: float = 0.0,
    tol: float = 1e-3,
    max_iter: int = -1,
    class_weight: Any = None,
    sample_weight: Any = None,
    cache_size: float = 1024,
    verbose: int = 0,
) -> RelativeMarginPath:
    r"""Fit relative margin machines of two classes for many bounds, each from the last.

    For each spread :math:`s` it solves [1]_

    .. math::

        \min_{w, b} \ \tfrac12 \|w\|^2 + \sum_i C_i \, [1 - y_i f_i]_+
        \quad \text{subject to} \quad |f_i| \le B = 1 + s \, (\theta - 1),

    where :math:`\theta` is the largest absolute output of the support vector machine, which
    comes first. The solution is a continuous, piecewise linear function of :math:`B`: the
    bounds are taken in descending order, and each solution starts the next. All share one cache
    of kernel columns.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Training rows, or their kernel matrix for ``kernel="precomputed"``.
    y : array-like of shape (n_samples,)
        Labels of exactly two classes.
    spreads : sequence of float, default=(1, 0.5, 0.25, 0.1, 0.05, 0.02, 0)
        Bounds relative to the support vector machine, between 0 and 1, in any order.
    C : float, default=1.0
        Penalty of margin violations, larger than zero.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        The kernel function.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of "rbf", "poly" and "sigmoid".
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant term of "poly" and "sigmoid".
    tol : float, default=1e-3
        Largest violation of the optimality conditions.
    max_iter : int, default=-1
        Limit on the solver's steps for each spread, or -1 for none.
    class_weight : dict or "balanced", default=None
        Factors of ``C`` by class.
    sample_weight : array-like of shape (n_samples,), default=None
        Factors of ``C`` by row; a row of weight zero is dropped.
    cache_size : float, default=1024
        Memory limit of the kernel cache in MB.
    verbose : int, default=0
        Whether to report progress on standard error.

    Returns
    -------
    RelativeMarginPath
        The models, in the order of ``spreads``.

    See Also
    --------
    RelativeMarginClassifier : One model, of any number of classes.
    RelativeMarginClassifierCV : Chooses ``C``, ``gamma`` and the spread.

    References
    ----------
    .. [1] P. K. Shivaswamy and T. Jebara, "Maximum Relative Margin and Data-Dependent
       Regularization", Journal of Machine Learning Research 11, 747-788, 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from oblong import relative_margin_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> path = relative_margin_path(StandardScaler().fit_transform(X), y, spreads=(1, 0.5, 0))
    >>> path.relative_margin.round(2)
    array([0.33, 0.5 , 1.  ])
    >>> path.outputs.shape
    (3, 569)
    """
    classifier = RelativeMarginPathClassifier(
        C=C,
        kernel=kernel,
        gamma=gamma,
        degree=degree,
        coef0=coef0,
        tol=tol,
        max_iter=max_iter,
        class_weight=class_weight,
        cache_size=cache_size,
        verbose=verbose,
    )
    classifier.spreads = check_spreads(spreads)
    classifier.fit(X, y, sample_weight=sample_weight)
    path = classifier.path_
    # Not needed for predictions, and a model file cannot hold it.
    del classifier.path_
    n = len(y)
    weights = 1.0 if sample_weight is None else np.asarray(sample_weight)
    kept = np.flatnonzero(np.broadcast_to(weights > 0, n))
    coef = np.zeros((len(path.margins), n))
    coef[:, kept] = classifier.coefs_
    classifier._settle(coef, path)
    outputs = np.empty_like(coef)
    outputs[:, kept] = [margin.outputs for margin in path.margins]
    if kept.size < n:
        outputs = np.where(np.isin(np.arange(n), kept), outputs, classifier._outputs(X).T)
    largest = np.array([np.abs(margin.outputs).max() for margin in path.margins])
    with np.errstate(divide="ignore"):
        relative_margin = 1.0 / largest
    return RelativeMarginPath(
        spreads=classifier.spreads,
        B=path.B,
        theta=path.theta,
        classes=classifier.classes_,
        coef=coef,
        intercept=classifier.intercept_,
        outputs=outputs,
        objective=np.array([margin.objective for margin in path.margins]),
        dual_gap=np.array(
            [np.inf if classifier._indefinite else margin.relative_gap for margin in path.margins]
        ),
        relative_margin=relative_margin,
        n_iter=np.array([margin.n_iter for margin in path.margins]),
        converged=classifier.converged_,
        _classifier=classifier,
    )


def check_spreads(spreads: Sequence[float]) -> np.ndarray:
    """Spreads as an array, or ``ValueError`` if one is not between 0 and 1."""
    values = np.atleast_1d(np.asarray(spreads, dtype=np.float64))
    good = values.ndim == 1 and values.size > 0 and bool((values >= 0.0).all())
    if not good or not (values <= 1.0).all():
        raise ValueError(f"spreads must be one or more numbers between 0 and 1, got {spreads!r}")
    return values
