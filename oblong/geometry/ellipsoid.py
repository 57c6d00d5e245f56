"""The minimum-volume ellipsoid as a scikit-learn transformer and outlier detector."""

import warnings
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import _check_sample_weight, validate_data

from oblong._core.estimator import Count, Finite, Fraction, Gamma, Natural, Positive, Verbose
from oblong._core.progress import print_pass, print_progress
from oblong._core.rollback import all_or_nothing
from oblong._core.threads import available_threads, blas_for_systems
from oblong.geometry._kernel_rows import KernelizedRows
from oblong.geometry._unit_ball import UnitBallMap
from oblong.kernels import KERNELS, Kernel
from oblong.linalg.first_pass import FirstLook
from oblong.linalg.orientation import upright_rotation
from oblong.linalg.row_passes import LocalPasses, Passes, RowSource
from oblong.solvers.ellipsoid.passes import solve_ellipsoid_passes
from oblong.solvers.ellipsoid.solve import EllipsoidResult, solve_ellipsoid
from oblong.solvers.linear.passes.solve import first_look

# A row is inside up to a squared distance of one and this, or more where rounding is coarser.
_SLACK, _MOST_SLACK = 1e-9, 1e-2
# Few rows are solved to nearly the last digit, which takes one or two steps more: then weights and
# copies, or rows in another order, give the same answer for all practical purposes. This is not for
# a penalty, whose search for the scale that belongs to it loses digits.
_SMALL = 256
_TIGHT = 1e-11
# Rows whose squared distance is that close to one tell how coarse the rounding is.
_NEAR_THE_BOUNDARY = 1e-6
# Gap, rounding included, up to which a solution that met its tolerance has converged.
_PROMISE = 1e-3


@dataclass(kw_only=True, eq=False, repr=False)
class MinimumVolumeEllipsoid(UnitBallMap):
    r"""The ellipsoid of least volume that contains all rows, or a given fraction of them.

    The ellipsoid :math:`\{x : (x-\mu)^\top \Sigma^{-1} (x-\mu) \le 1\}` solves [1]_

    .. math::

        \min_{\mu,\, \Sigma \succ 0,\, \tau \ge 0} \
        \tfrac12 \ln |\Sigma| + E \sum_i \omega_i \tau_i
        \quad\text{subject to}\quad
        (x_i - \mu)^\top \Sigma^{-1} (x_i - \mu) \le 1 + \tau_i ,

    where no :math:`\tau_i` is allowed if all rows have to be inside (``coverage=1``). As a
    transformer it maps the ellipsoid to the unit ball; up to a rotation, the result does not
    depend on units and correlations of the features. As an outlier detector, it reports rows
    outside the ellipsoid as outliers.

    Parameters
    ----------
    coverage : float, default=1.0
        Fraction of the rows inside, from 0 to 1: at most ``1 - coverage`` of them are outside, and
        at least that many outside or on the boundary. 0 is the sample covariance, up to scale.
    E : float, default=None
        The penalty :math:`E` of a row outside, larger than zero, instead of ``coverage``. A row
        with weight two costs twice as much.
    center : bool, default=True
        Whether the centre is free; otherwise it is the origin.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"}, callable or None, default=None
        If given, the ellipsoid is one in the feature space of the kernel, on the first
        principal directions of the rows there. It has to be positive semidefinite.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of "rbf", "poly" and "sigmoid": ``1 / (n_features * X.var())``,
        ``1 / n_features``, or the number itself. With ``sample_weight`` the variance is the
        weighted one.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant term of "poly" and "sigmoid".
    rank : int, default=None
        Number of principal directions of a kernel form. By default as many as explain 99 % of the
        variance in feature space, but at most 200 and a tenth of the number of rows; all of them
        for the linear kernel.
    ridge : float, default=None
        If given, :math:`\varepsilon > 0` on the diagonal of the moments: the ellipsoid cannot
        become flatter than that. Without it, the ellipsoid of a kernel matrix of full rank
        carries no information.
    tol : float, default=1e-6
        Largest :attr:`gap_`.
    max_iter : int, default=1000
        Limit on the solver's steps.
    warm_start : bool, default=False
        Whether to start from the weights of the fit before, if it had as many rows.
    verbose : int, default=0
        Whether to report progress on standard error.

    Attributes
    ----------
    center_ : ndarray of shape (n_features,)
        Centre :math:`\mu`. In a kernel form this, ``shape_`` and the factors belong to the
        principal coordinates, of which there are ``rank_`` instead of `n_features`.
    shape_ : ndarray of shape (n_features, n_features)
        The matrix :math:`\Sigma`, singular if the rows lie in a subspace.
    factor_ : ndarray of shape (n_features, `rank_`)
        :math:`R` with :math:`R R^\top = \Sigma^{+}`, the map to the unit ball.
    inverse_factor_ : ndarray of shape (`rank_`, n_features)
        The map back, :math:`F` with :math:`F^\top F = \Sigma` and :math:`F R = I`. It is upper
        triangular, or in echelon form if the ellipsoid is flat.
    rank_ : int
        Dimension of the ellipsoid, that of the affine hull of the rows.
    weights_ : ndarray of shape (n_samples,)
        Dual weights, which sum to one and are zero for rows inside, up to the gap: :math:`\mu` is
        the mean of the rows with these weights and :math:`\Sigma` their covariance times a factor.
    support_ : ndarray of shape (n_support,)
        Rows that determine the ellipsoid, those on its boundary or outside.
    gap_ : float
        The certificate of the stored ellipsoid, rounding included. With ``D = rank_ + 1``
        (``rank_`` without a centre), the log-determinant of the weighted moments is within ``D *
        gap_`` of the best, and hence the volume within the factor ``exp(D * gap_ / 2)``.
    volume_, log_volume_ : float
        Volume of the ellipsoid in its own dimensions, and the logarithm, which cannot overflow.
    coverage_ : float
        Fraction of the rows inside.
    E_ : float
        The penalty :math:`E` that goes with the solution, infinite if all rows have to be inside.
    offset_ : float
        Decision function minus scores, with the sign changed: minus one, less rounding.
    n_iter_ : int
        Steps taken by the solver.
    converged_ : bool
        Whether the solver met ``tol``, and the gap is at most 1e-3 (or ``tol``, if that is more).
    n_features_in_ : int
        Number of features seen in :meth:`fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if ``X`` had string names.

    See Also
    --------
    oblong.display.EllipsoidDisplay : Draws it in the plane.
    sklearn.covariance.EllipticEnvelope : Fits a robust covariance by random subsets.

    Notes
    -----
    Directions in which the training rows have no extent are ignored, also for new rows.

    With ``coverage=1`` no training row is an outlier. scikit-learn expects some from an estimator
    tagged as an outlier detector, so the tag is set only for ``coverage < 1`` and for ``E``;
    :meth:`predict` and related methods are always available.

    A kernel matrix without truncation has no shape: its rows are the corners of a simplex. ``rank``
    is therefore a parameter of the model and not one of precision. Far from all training rows the
    "rbf" kernel is zero, so all distant rows have the same coordinates, which may well be inside:
    to detect outliers, use a polynomial kernel.

    References
    ----------
    .. [1] P. K. Shivaswamy and T. Jebara, "Ellipsoidal Kernel Machines", Proceedings of the
       11th International Conference on Artificial Intelligence and Statistics, 2007.
    .. [2] M. J. Todd and E. A. Yıldırım, "On Khachiyan's algorithm for the computation of
       minimum-volume enclosing ellipsoids", Discrete Applied Mathematics 155, 2007.

    Examples
    --------
    The ellipse around a rectangle, and one point far out:

    >>> import numpy as np
    >>> from oblong import MinimumVolumeEllipsoid
    >>> X = np.array([[2.0, 1.0], [2.0, -1.0], [-2.0, 1.0], [-2.0, -1.0], [0.5, 0.3]])
    >>> model = MinimumVolumeEllipsoid().fit(X)
    >>> model.shape_.round(4) + 0.0
    array([[8., 0.],
           [0., 2.]])
    >>> model.predict([[0.0, 1.4], [0.0, 1.5]])
    array([ 1, -1])
    >>> model.support_
    array([0, 1, 2, 3])
    >>> bool(model.gap_ <= 1e-6)
    True
    """

    coverage: Fraction = 1.0
    E: Positive | None = None
    center: bool = True
    kernel: Annotated[Any, StrOptions(set(KERNELS)), callable, None] = None
    gamma: Gamma = "scale"
    degree: Natural = 3
    coef0: Finite = 0.0
    rank: Count | None = None
    ridge: Positive | None = None
    tol: Positive = 1e-6
    max_iter: Count = 1000
    warm_start: bool = False
    verbose: Verbose = 0

    support_: np.ndarray = field(init=False)
    _kernel_rows: KernelizedRows | None = field(init=False)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the ellipsoid.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, or their kernel matrix of shape (n_samples, n_samples) for
            ``kernel="precomputed"``; or a row source, see :func:`oblong.io.open_rows`, without
            ``E``, ``ridge`` and ``kernel``. Then ``weights_`` are those of ``support_`` only, and
            with ``coverage < 1`` these are the rows near the boundary: all rows farther out have
            the same weight.
        y : Ignored
            Not used, present for the sake of pipelines.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in ``coverage`` and ``E``. A row of weight two counts as two
            rows, one of weight zero as none. With ``coverage=1`` other weights change nothing.

        Returns
        -------
        self : object
            The fitted ellipsoid. If fitting fails or is interrupted, the estimator is left as
            it was before.
        """
        with all_or_nothing(self):
            self._fit(X, sample_weight)
        return self

    def _passes(self, source: RowSource) -> Passes:
        """Who reads the rows of a row source."""
        return LocalPasses(source, available_threads())

    def _fit_seen(self, passes: Passes, seen: FirstLook | None = None) -> None:
        """Fit to rows that are read in passes, of which the first may have been run."""
        if self.E is not None or self.ridge is not None or self.kernel:
            raise ValueError("a row source takes coverage, without E, ridge and kernel")
        self.n_features_in_ = passes.source.n_features
        self._kernel_rows = None
        seen = first_look(passes, extremes=False) if seen is None else seen
        progress = print_pass if self.verbose else None
        found = solve_ellipsoid_passes(
            passes, seen, tol=float(self.tol), progress=progress, **self._form()
        )
        self._store(found.X, found.row_weights, found.result)
        self.n_passes_ = found.n_passes
        if found.inside is not None:
            self.coverage_ = found.inside
        places = self.support_
        self.weights_ = found.result.weights[places]
        self.support_ = found.numbers[places]
        self._warn(found.result)

    def _fit(self, X: Any, sample_weight: Any) -> None:
        if hasattr(X, "n_blocks"):
            if sample_weight is not None:
                raise ValueError("a row source has its own weights: open it with weight=")
            self.__dict__.pop("feature_names_in_", None)
            if getattr(X, "feature_names", None) is not None:
                self.feature_names_in_ = np.asarray(X.feature_names, dtype=object)
            self._fit_seen(self._passes(X))
            return
        self.__dict__.pop("n_passes_", None)
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
            if (weights < 0).any():
                raise ValueError("Negative values in sample_weight")
            if not weights.any():
                raise ValueError("Every sample_weight is zero")
        if self.kernel is None and self.rank is not None:
            raise ValueError(
                'rank is for a kernel form; kernel="linear" keeps the first principal directions'
            )
        self._kernel_rows = None
        points = X
        if self.kernel is not None:
            kernel = Kernel(self.kernel, self.gamma, int(self.degree), float(self.coef0))
            self._kernel_rows, points = KernelizedRows.of(
                kernel, X, weights, self.center, self.rank
            )
        exact = X.shape[0] <= _SMALL and self.E is None and self.ridge is None
        with blas_for_systems(min(points.shape)):
            result = solve_ellipsoid(
                points,
                E=None if self.E is None else float(self.E),
                sample_weight=weights,
                ridge=None if self.ridge is None else float(self.ridge),
                tol=min(self.tol, _TIGHT) if exact else self.tol,
                start=self._start(X.shape[0], weights),
                progress=print_progress if self.verbose else None,
                **self._form(),
            )
            self._store(X, weights, result)
        self._warn(result)

    def _form(self) -> dict[str, Any]:
        coverage = float(self.coverage)
        return {"coverage": coverage, "center": self.center, "max_iter": self.max_iter}

    def _start(self, n: int, weights: np.ndarray | None) -> np.ndarray | None:
        """Weights of the fit before, as far as they make sense for this one."""
        if not (self.warm_start and hasattr(self, "weights_") and self.weights_.size == n):
            return None
        start = self.weights_ if weights is None else np.where(weights > 0, self.weights_, 0.0)
        total = start.sum()
        return start / total if total > 0 else None

    def _store(self, X: np.ndarray, weights: np.ndarray | None, result: EllipsoidResult) -> None:
        Q = upright_rotation(result.inverse_factor)
        self.center_ = result.center
        self.inverse_factor_ = Q.T @ result.inverse_factor
        self.factor_ = result.factor @ Q
        self.rank_ = self._n_features_out = self.factor_.shape[1]
        self.weights_ = result.weights
        # Rows inside keep a trace of weight, as long as the gap is not exactly zero.
        slack = 1.0 - result.squared_distances
        self.support_ = np.flatnonzero(result.weights > slack.clip(0.0) * result.weights.max())
        self.log_volume_ = result.log_volume
        with np.errstate(over="ignore"):
            self.volume_ = float(np.exp(result.log_volume))
        self.E_ = result.E
        self.n_iter_ = max(1, result.n_iter)
        self._threshold, self._scale = result.threshold, result.scale
        squares = result.squared_distances
        # Far from the origin, or in many directions of a kernel, the distances of new rows are
        # not good to nine digits. Whoever is on the boundary has to be inside all the same.
        near = np.flatnonzero(np.abs(squares - 1.0) <= _NEAR_THE_BOUNDARY)
        error = float(np.abs(self._squared_distances(X[near]) - squares[near]).max(initial=0.0))
        if self._kernel_rows is not None and near.size:
            error = max(error, 2.0 * float(self._kernel_rows.rounding(X[near], self.factor_).max()))
        # Rows below their caps are not outside, whatever the gap leaves of a distance.
        caps = min(result.cap, 1.0) * (np.ones(near.size) if weights is None else weights[near])
        excess = squares[near] - 1.0
        below = result.weights[near] < caps * (1.0 - excess)
        worst = float(excess[below].max(initial=0.0))
        allowed = float(np.clip(max(4.0 * error, 2.0 * worst), _SLACK, _MOST_SLACK))
        self.offset_ = -1.0 - allowed
        self.coverage_ = float(np.average(squares <= -self.offset_, weights=weights))
        # What the same rounding costs: a volume that holds the rows again, or their penalty.
        lost = self.rank_ * np.log1p(error)
        if np.isfinite(result.E):
            lost = 2.0 * result.E * error * (near.size if weights is None else weights[near].sum())
        self.gap_ = result.gap + float(lost) / (self.rank_ + self.center)
        met = result.status == "converged" or result.gap <= self.tol
        self.converged_ = met and self.gap_ <= max(self.tol, _PROMISE)

    def _warn(self, result: EllipsoidResult) -> None:
        if not self.converged_:
            why = {
                "max_iter": f"max_iter={self.max_iter} was reached",
                "stalled": "rounding allows no further progress",
                "converged": "far from the origin, rounding moves the centre: shift the rows",
            }[result.status]
            warnings.warn(
                f"{type(self).__name__} did not converge to tol={self.tol:g}: {why}. The gap "
                f"reached is {self.gap_:.3g}.",
                ConvergenceWarning,
                stacklevel=5,
            )
        if result.is_simplex:
            warnings.warn(
                "The ellipsoid is determined by a simplex and carries no information: there is at "
                "most one distinct row more than dimensions, so none of them is inside. Use "
                + ("fewer features" if self.kernel is None else "a smaller rank")
                + " or more rows.",
                UserWarning,
                stacklevel=5,
            )
