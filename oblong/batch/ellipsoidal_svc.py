"""The ellipsoidal support vector machine as a scikit-learn classifier."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from oblong._core.estimator import ClassWeight, Count, Positive, PositiveFraction
from oblong.batch._base import KernelClassifier
from oblong.batch._ellipsoidal_binary import (
    BinarySolution,
    EllipsoidalSetting,
    solve_binary,
)
from oblong.batch._ellipsoidal_model import EllipsoidalModel
from oblong.batch._one_vs_rest import solve_each
from oblong.batch._pairwise import PairFit
from oblong.batch._parameters import KernelParameters, SolverParameters
from oblong.linalg.feature_map import (
    PivotMap,
    combination,
    feature_map,
    numerical_rank,
    row_norms,
    spanning_rows,
)

# Stands for r = 1, where directions without rows would have no width at all.
_NEAR_ONE = 1.0 - 1e-9
# Weights below this fraction of their bound are round-off.
_NO_WEIGHT = 1e-9
# A sum of vectors shorter than this fraction of theirs does not give a direction.
_CANCELLED = 1e-6


@dataclass(kw_only=True, eq=False, repr=False)
class EllipsoidalSVC(KernelParameters, SolverParameters, EllipsoidalModel, KernelClassifier):
    r"""Ellipsoidal support vector machine: the centre of an ellipsoid in the version space.

    The weight vectors that classify all training rows correctly make up the version space.
    The support vector machine is the centre of the largest ball in it, the Bayes point its centre
    of mass. The ellipsoidal support vector machine [1]_ takes the centre :math:`w` of a large
    ellipsoid, which fits a long version space better than a ball does:

    .. math::

        \min_{B \succ 0,\, w,\, b,\, \xi \ge 0} \ & -r \ln|B| + (1 - r) \operatorname{tr} B
        + \sum_i C_i \xi_i \\
        \text{s.t.} \ & y_i (w \cdot \varphi_i + b) + \xi_i
        \ge \pi_i\, \varphi_i^\top B\, \varphi_i , \quad \|w\| \le 1 ,

    where :math:`\varphi_i` is the row in the feature space of the kernel, of length :math:`t_i`.
    The matrix :math:`B` is a by-product: a metric learned with the labels (:meth:`metric`).

    Parameters
    ----------
    nu : float, default=0.2
        Inverse penalty of errors, above zero: larger values tolerate more errors. In the
        "consistent" formulation useful values lie between 0 and 1.
    r : float, default=0.99
        Between 0 and 1: from the support vector machine (small, hard margin) to the ellipsoid of
        largest volume. Directions in which the rows have little weight compared with
        ``1 - r`` do not count. The value 1 means ``1 - 1e-9``.
    margin : {"soft", "hard"}, default="soft"
        "hard" allows no errors and ignores ``nu``. If nothing separates the classes, a warning is
        given and the limit of the soft margin for small ``nu`` is used.
    formulation : {"consistent", "paper", "exact"}, default="consistent"
        "consistent": :math:`\pi_i = 1 / t_i`, :math:`C_i = r p / (n \nu t_i)`, where p is the
        dimension of the span of the rows, to double precision; the units of the rows do not
        matter. "paper": equation (6) of the paper, :math:`\pi_i = 1`,
        :math:`C_i = 1 / (\nu t_i^2)`. "exact": equation (5), with the second-order cone
        :math:`\|E \varphi_i\|` in place of the quadratic form, of which "consistent" is a
        relaxation; it is for the linear kernel and small data, and needs ``oblong[conic]``.
    fit_intercept : bool or "augment", default=True
        Whether there is an intercept. "augment" adds a feature that is always one instead, so
        that the intercept is part of the ellipsoid.
    normalize : bool, default=False
        Whether to scale the rows, in the feature space of the kernel, to unit length.
    rank : int, default=None
        Largest dimension of the feature space: number of pivots of a partial Cholesky factor of the
        kernel matrix. By default no limit.
    solver : {"auto", "ipm", "newton", "smo"}, default="auto"
        "ipm" is an interior point method, "newton" is for many rows with few features, "smo"
        moves pairs of dual weights. "auto" takes one of the first two.
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
    tol : float, default=1e-6
        Largest gap between the primal and the dual objective, over ``r p``.
    max_iter : int, default=-1
        Limit on the iterations of the solver, or -1 for the solver's own default.
    class_weight : dict or "balanced", default=None
        Factors of :math:`C_i` by class.
    warm_start : bool, default=False
        Whether a fit starts from the previous solution, if the rows have the same shape and the
        same classes. Useful for a path along ``nu``.
    cache_size : float, default=1024
        Memory in MB for blocks of kernel values in prediction.
    n_jobs : int, default=None
        Problems to solve at once, if there are more than two classes.
    verbose : int, default=0
        Whether to report progress on standard error.
    random_state : int, RandomState instance or None, default=None
        Not used: no part of the solver is random.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    coef_ : ndarray of shape (n_problems, n_features)
        Weight vectors :math:`w`, for the linear kernel only. With ``normalize=True`` they are for
        rows of unit length. With more than two classes the classifiers are scaled to
        :math:`\|w\| = 1`, so that their outputs are distances and can be compared.
    intercept_ : ndarray of shape (n_problems,)
        Intercepts :math:`b`; for ``fit_intercept="augment"`` and the linear kernel, the weights of
        the constant feature.
    B_ : ndarray of shape (n_features, n_features) or (n_classes, n_features, n_features)
        The matrix :math:`B`, one for each problem, for the linear kernel only. With
        ``fit_intercept="augment"`` it has one row and one column more, for the constant. For
        ``formulation="exact"`` it is :math:`E`.
    weight_norm_ : ndarray of shape (n_problems,)
        The lengths :math:`\|w\|` in the problems' solutions: one, or less where the classes
        overlap and ``nu`` is small.
    effective_dim_ : ndarray of shape (n_problems,)
        :math:`\sum_i \alpha_i q_i / r`, the number of directions that count.
    r_star_ : ndarray of shape (n_problems,)
        Hard margin: up to this ``r`` the model is the support vector machine. nan if nothing
        separates the rows, or the margin is soft.
    support_ : ndarray of shape (n_SV,)
        Rows with a nonzero coefficient.
    support_vectors_ : {ndarray, CSR matrix} of shape (n_SV, n_features)
        Those rows. Empty for a precomputed kernel.
    dual_coef_ : ndarray of shape (n_problems, n_SV)
        Their coefficients in :math:`w`: :math:`y_i \alpha_i / \|v\|` with
        :math:`v = \sum_i \alpha_i y_i \varphi_i` or, where that sum vanishes, those of the pivots.
    objective_ : ndarray of shape (n_problems,)
        Primal objective.
    dual_gap_ : ndarray of shape (n_problems,)
        The certificate: primal objective of the stored model minus dual objective, rounding
        included, over ``r p``.
    n_iter_ : ndarray of shape (n_problems,)
        Iterations of the solver.
    converged_ : bool
        Whether every problem met the tolerance, and ``dual_gap_``, rounding included, is at most
        1e-3 (or ``tol``, if that is larger).
    n_features_in_ : int
        Number of features seen in :meth:`fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if ``X`` had string names.

    See Also
    --------
    BayesPointClassifier : The centre of mass of the version space.
    EllipsoidalKernelClassifier : The ellipsoid lies around the rows instead.

    Notes
    -----
    With two classes there is one problem, otherwise one for each class against all others.

    The origin matters: shifting the rows changes the classifier. Standardise them.

    A row of weight two counts as two rows, and one of weight zero is ignored.

    References
    ----------
    .. [1] M. Momma, K. Hatano and H. Nakayama, "Ellipsoidal Support Vector Machines", Proceedings
       of the 2nd Asian Conference on Machine Learning, 31-46, 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from oblong import EllipsoidalSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)
    >>> model = EllipsoidalSVC(nu=0.1, kernel="linear").fit(X, y)
    >>> round(model.score(X, y), 2)
    0.97
    >>> bool(model.dual_gap_[0] <= 1e-6)
    True
    >>> model.metric(X[:3], X[:2]).shape
    (3, 2)
    """

    nu: Positive = 0.2
    r: PositiveFraction = 0.99
    margin: Literal["soft", "hard"] = "soft"
    formulation: Literal["consistent", "paper", "exact"] = "consistent"
    fit_intercept: bool | Literal["augment"] = True
    normalize: bool = False
    rank: Count | None = None
    solver: Literal["auto", "ipm", "newton", "smo"] = "auto"
    tol: Positive = 1e-6
    class_weight: ClassWeight = None
    warm_start: bool = False
    cache_size: Positive = 1024

    _round_off = 1e-8

    # Fitting ------------------------------------------------------------------------------------

    @property
    def _remedy(self) -> str:
        return f"Raise nu (now {self.nu:g}) or scale the columns."

    def _check_rows(self, X: Any) -> None:
        if self.formulation == "exact" and self.kernel != "linear":
            raise ValueError(
                f'formulation="exact" is for kernel="linear"; got kernel={self.kernel!r}'
            )
        if self.normalize and self.kernel == "precomputed":
            raise ValueError(
                "normalize=True needs the kernel values of new rows with themselves, which a "
                "precomputed kernel does not give: normalise the matrix, or use normalize=False"
            )

    def _if_indefinite(self) -> str:
        return "there is no ellipsoid; use another kernel"

    def _fit_pairs(
        self, X: Any, labels: np.ndarray, penalties: np.ndarray, weights: np.ndarray
    ) -> tuple[list[PairFit], list[np.ndarray]]:
        """Find the coordinates of the rows, then solve one problem per class."""
        self._map, F = feature_map(
            self._kernel(),
            X,
            rank=self.rank,
            normalize=self.normalize,
            constant=self.fit_intercept == "augment",
        )
        self._coordinates = F
        self._r = min(float(self.r), _NEAR_ONE)
        exact = self.formulation == "exact"
        setting = EllipsoidalSetting(
            nu=float(self.nu),
            r=self._r,
            p=numerical_rank(F) if self._map.complete else F.shape[1],
            hard=self.margin == "hard",
            consistent=self.formulation == "consistent",
            fit_intercept=bool(self.fit_intercept) and self.fit_intercept != "augment",
            solver="exact" if exact else self.solver,
            tol=float(self.tol),
            max_iter=None if self.max_iter == -1 else int(self.max_iter),
            progress=self._progress(),
        )
        n_classes = len(self.classes_)
        likeness = (F.shape, tuple(self.classes_.tolist()), self.fit_intercept)
        known = getattr(self, "_last", None) if self.warm_start else None
        starts = known[1] if known is not None and known[0] == likeness else None

        outside = None
        if self.rank is None and not exact and self._has_outside():
            # What is left of rows beyond the pivots is rounding, but not nothing.
            outside = np.maximum(self._map.squared_norms(X) - row_norms(F) ** 2, 0.0)

        def solve(k: int, y: np.ndarray) -> PairFit:
            start = None if starts is None else starts[k]
            solved = solve_binary(
                F, y, penalties, weights, setting, partial(self._as_stored, X), outside, start
            )
            return self._binary_fit(F, y, solved)

        fits = solve_each(solve, labels, n_classes, self.n_jobs)
        self._last = (likeness, [fit.solution.result for fit in fits]) if self.warm_start else None
        if n_classes > 2:
            fits = [_unit_length(fit) for fit in fits]
        return fits, [np.arange(len(labels))] * len(fits)

    def _binary_fit(self, F: np.ndarray, y: np.ndarray, solved: BinarySolution) -> PairFit:
        """Write the direction as a sum over rows, where that is possible."""
        found = solved.result
        bound = np.where(np.isfinite(solved.caps), solved.caps, found.alpha.max())
        alpha = np.where(found.alpha > _NO_WEIGHT * bound, found.alpha, 0.0)
        v = combination(alpha * y, F)
        length = float(np.linalg.norm(v))
        coef = np.zeros(len(y))
        if length > _CANCELLED * float(alpha @ row_norms(F)):
            coef = alpha * y / length
        elif found.w.any():
            pivots, values = self._expanded(F, found.w)
            coef[pivots] = values
        own = {"relative_gap": found.gap, "direction": found.w, "rounded": solved.rounded}
        return PairFit.of(found, solution=solved, coef=coef, bias=found.b, **own)

    def _expanded(self, F: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows, and coefficients whose sum is a given direction."""
        if isinstance(self._map, PivotMap):
            return self._map.pivots, self._map.coefficients(w)
        rows = spanning_rows(F)
        return rows, np.linalg.lstsq(F[rows].T.astype(float), w, rcond=None)[0]

    def _store(
        self, X: Any, kept: np.ndarray, labels: np.ndarray, members: list, fits: list[PairFit]
    ) -> None:
        dense = np.array([fit.coef for fit in fits])
        support = np.flatnonzero(dense.any(axis=0))
        self.support_ = kept[support].astype(np.int32)
        self.support_vectors_ = self._support_rows(X)
        self.dual_coef_ = dense[:, support]
        self._store_solutions(fits)
        self._directions = np.array([fit.direction for fit in fits])
        results = [fit.solution.result for fit in fits]
        self.__dict__.pop("_factors", None)
        self.__dict__.pop("_moments", None)
        if all(result.factor is not None for result in results):
            self._factors = [result.factor for result in results]
        else:
            self._moments = (
                self._coordinates,
                [(fit.solution.result.alpha, fit.solution.pi) for fit in fits],
            )
            if self.kernel == "linear":
                # These rows belong to the user, who may change them.
                _ = self._factors
                del self._moments
        del self._coordinates
        if self.kernel == "precomputed" and isinstance(self._map, PivotMap):
            # New rows come with values for all training rows, also those without weight.
            self._map = replace(self._map, pivots=kept[self._map.pivots])
        if hasattr(self, "coef_"):
            del self.coef_
        coef, self.intercept_ = self._coefficients(self._directions, self.intercept_)
        if self.kernel == "linear":
            self.coef_ = coef
        else:
            self._pivot_coef = coef

    def _keep(self, solutions: Sequence[BinarySolution]) -> None:
        found = [solution.result for solution in solutions]
        self.weight_norm_ = np.array([np.linalg.norm(result.w) for result in found])
        self.effective_dim_ = np.array([result.alpha @ result.q / self._r for result in found])
        self.r_star_ = np.array([solution.r_star for solution in solutions])
        for message in dict.fromkeys(m for solution in solutions for m in solution.messages):
            warnings.warn(f"{type(self).__name__}: {message}.", UserWarning, stacklevel=5)


def _unit_length(fit: PairFit) -> PairFit:
    """Make the outputs distances from the hyperplane, which can be compared among classes."""
    assert fit.direction is not None
    length = float(np.linalg.norm(fit.direction)) or 1.0
    return replace(
        fit, coef=fit.coef / length, bias=fit.bias / length, direction=fit.direction / length
    )
