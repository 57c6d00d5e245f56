"""The ellipsoidal kernel machine as a scikit-learn classifier."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from oblong._core.class_weights import row_penalties
from oblong._core.estimator import Count, Fraction, Positive
from oblong._core.progress import ProgressCallback
from oblong._core.threads import blas_for_systems, chunks
from oblong.batch._one_vs_one import pairs_of
from oblong.batch._pairwise import PairFit
from oblong.batch._parameters import MarginParameters
from oblong.batch._passes import PassClassifier
from oblong.geometry import MinimumVolumeEllipsoid
from oblong.linalg.first_pass import FirstLook, Frame
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.linalg.row_passes import Passes
from oblong.solvers.covariance.certificate import StoredOutputs, certify_features
from oblong.solvers.covariance.ellipsoidal_kernel import UnitBallRows, solve_ellipsoidal_kernel
from oblong.solvers.margin.solver import solve_svm

# Relative gap of the classifier of a row source.
_PASS_GAP = 1e-6
# Rows times training rows of a prediction block.
_PREDICTION_BLOCK = 1 << 22


@dataclass(frozen=True)
class _KernelFit(PairFit):
    """A model in the geometry of an ellipsoid; in feature space, with coefficients of all rows."""

    kernel_coef: np.ndarray | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class EllipsoidalKernelClassifier(MarginParameters, PassClassifier):
    r"""Ellipsoidal kernel machine: a support vector machine in the geometry of an ellipsoid.

    The theory behind large margins compares the margin with the size of a ball around the data, but
    data seldom fills a ball. The ellipsoidal kernel machine [1]_ takes the ellipsoid of least
    volume around the rows, whatever their labels, :math:`\{x : (x-\mu)^\top \Sigma^{-1} (x-\mu) \le
    1\}`, maps it to the unit ball by :math:`t = \Sigma^{-1/2} (x - \mu)`, and is the support vector
    machine there:

    .. math::

        \min_{w, b} \ \tfrac12 \, w^\top \Sigma \, w
        + \sum_i C_i \, [1 - y_i (w \cdot (x_i - \mu) + b)]_+ .

    With the linear kernel its predictions do not depend on the units of the features, nor on
    any other invertible affine map of them. With other kernels the ellipsoid is one in feature
    space, on the first ``rank`` principal directions of the rows.

    Parameters
    ----------
    C : float, default=1.0
        Penalty of margin violations, larger than zero. Rows lie in the unit ball after the map, so
        useful values are larger than for standardised data: try ``2**-5`` to ``2**15``.
    coverage : float, default=1.0
        Fraction of the rows inside the ellipsoid, from 0 to 1: at most ``1 - coverage`` of them
        are outside, and at least that many outside or on the boundary.
    E : float, default=None
        The penalty of a row outside the ellipsoid, instead of ``coverage``; see
        :class:`~oblong.MinimumVolumeEllipsoid`.
    center : bool, default=True
        Whether the centre of the ellipsoid is free; otherwise it is the origin.
    shape : {"mvee", "covariance", "none"}, default="mvee"
        What defines the geometry: the ellipsoid of least volume, the mean and the covariance of the
        rows (the paper's "Gaussian" baseline), or nothing, which is the support vector machine
        itself. ``coverage``, ``E`` and ``ridge`` apply to "mvee" only; ``center`` and ``rank`` do
        not apply to "none".
    rank : int, default=None
        Number of principal directions in the feature space of the kernel. By default as many as
        explain 99 % of the variance there, but at most 200 and a tenth of the number of rows; all
        of them for the linear kernel. Without truncation the rows of a nonsingular kernel matrix
        are the corners of a simplex, and the ellipsoid carries no information.
    ridge : float, default=None
        A number above zero that is added to the diagonal of :math:`\Sigma`, in squared units of
        the rows or of the feature space. It replaces the truncated rank there: the model then
        uses all directions, unless ``rank`` says otherwise. It costs the invariance.
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
        Largest violation of the optimality conditions of the classifier, on the scale of the
        outputs.
    estimator_tol : float, default=1e-6
        Largest gap of the ellipsoid.
    max_iter : int, default=-1
        Limit on the steps of the solver, or -1 for none.
    class_weight : dict or "balanced", default=None
        Factors of ``C`` by class. They do not enter the ellipsoid.
    cache_size : float, default=1024
        Memory limit in MB of the cache of kernel values between mapped rows.
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
    ellipsoid_ : MinimumVolumeEllipsoid or None
        The ellipsoid, fitted, with its certificate ``ellipsoid_.gap_``. There is one for all
        classes. None for ``shape="none"``.
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    coef_ : ndarray of shape (n_pairs, n_features)
        Weight vectors for the rows as they are, for the linear kernel only.
    intercept_ : ndarray of shape (n_pairs,)
        Biases, in which the output of the centre is included.
    support_ : ndarray of shape (n_SV,)
        Support vectors of the classifier in the unit ball, grouped by class.
    support_vectors_ : {ndarray, CSR matrix} of shape (n_SV, n_features)
        Those rows, as they are. Empty for a precomputed kernel.
    n_support_ : ndarray of shape (n_classes,)
        Their number by class.
    dual_coef_ : ndarray of shape (n_classes - 1, n_SV)
        Coefficients of the support vectors in the unit ball, laid out as in
        :class:`sklearn.svm.SVC`: the outputs are :math:`\sum_i c_i\, t_i \cdot t(x)` plus a
        constant.
    objective_ : ndarray of shape (n_pairs,)
        Primal objective of each binary problem.
    dual_gap_ : ndarray of shape (n_pairs,)
        The certificate of the classifiers: primal minus dual objective, divided by the primal.
    n_iter_ : ndarray of shape (n_pairs,)
        Steps taken by the solver.
    converged_ : bool
        Whether the ellipsoid and every binary problem met their tolerances.
    n_features_in_ : int
        Number of features seen in :meth:`fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if ``X`` had string names.

    See Also
    --------
    MinimumVolumeEllipsoid : The first step on its own.
    SigmaSVC : Regularises by the covariance and the norm together.
    RelativeMarginClassifier : Bounds the outputs instead.

    Notes
    -----
    More than 4096 rows of a pair of classes are solved by their weight vector in the unit ball,
    with an interior point: ``tol`` then bounds the relative gap, which is 1e-6 at most.

    With a kernel other than the linear one, the whole kernel matrix is kept in memory during
    the fit and every row is needed for prediction.

    A row of weight two counts as two rows in the ellipsoid as well; with ``coverage=1`` this
    makes no difference there.

    References
    ----------
    .. [1] P. K. Shivaswamy and T. Jebara, "Ellipsoidal Kernel Machines", Proceedings of the
       11th International Conference on Artificial Intelligence and Statistics, 2007.

    Examples
    --------
    Stretching the data does not change what the classifier predicts:

    >>> from oblong import EllipsoidalKernelClassifier
    >>> from oblong.datasets import make_tilted_gaussians
    >>> X, y = make_tilted_gaussians(100, random_state=0)
    >>> model = EllipsoidalKernelClassifier(kernel="linear", C=100).fit(X, y)
    >>> stretched = X * [1000, 0.001]
    >>> again = EllipsoidalKernelClassifier(kernel="linear", C=100).fit(stretched, y)
    >>> bool((model.predict(X) == again.predict(stretched)).all())
    True
    >>> bool(model.ellipsoid_.gap_ <= 1e-6 and model.dual_gap_[0] < 1e-3)
    True
    """

    coverage: Fraction = 1.0
    E: Positive | None = None
    center: bool = True
    shape: Literal["mvee", "covariance", "none"] = "mvee"
    rank: Count | None = None
    ridge: Positive | None = None
    estimator_tol: Positive = 1e-6

    ellipsoid_: MinimumVolumeEllipsoid | None = field(init=False)
    _kernel_coef: np.ndarray | None = field(init=False)

    def _fit_pairs(
        self, X: Any, labels: np.ndarray, penalties: np.ndarray, weights: np.ndarray
    ) -> tuple[list[PairFit], list[np.ndarray]]:
        """Find the ellipsoid of all rows, then solve every pair in its geometry."""
        self.ellipsoid_ = None
        with blas_for_systems(X.shape[0]):
            if self.shape == "none":
                return super()._fit_pairs(X, labels, penalties, weights)
            return self._fit_in_ball(X, labels, penalties, weights)

    def _fit_in_ball(
        self, X: Any, labels: np.ndarray, penalties: np.ndarray, weights: np.ndarray
    ) -> tuple[list[PairFit], list[np.ndarray]]:
        mapped = self._unit_ball(X, weights)
        fits, members = super()._fit_pairs(mapped, labels, penalties, weights)
        signs = (
            np.where(labels[rows] == pair[0], 1.0, -1.0)
            for pair, rows in zip(pairs_of(len(self.classes_)), members)
        )
        fits = [
            self._certified(
                X, mapped.features[rows], rows, y, row_penalties(self.C, penalties[rows]), fit
            )
            for rows, y, fit in zip(members, signs, fits)
        ]
        return fits, members

    def _certified(
        self, X: Any, T: np.ndarray, rows: np.ndarray, y: np.ndarray, C: np.ndarray, fit: PairFit
    ) -> PairFit:
        """Bring a model to the form in which it is stored, and certify that."""
        basis, known = self._basis(), self.ellipsoid_
        # There is an ellipsoid here, and a fit in its geometry has a direction.
        assert isinstance(fit, _KernelFit)
        assert known is not None
        assert fit.direction is not None
        stored, w, coef = fit, fit.direction, None
        if basis is not None:
            # f(x) = v·p(x) + b with the coordinates p(x) = (k(x) - means) @ directions.
            coef = basis.directions @ w
            bias = fit.bias - float(coef @ basis.means)
            stored = replace(fit, bias=bias, kernel_coef=coef)
            if self.kernel == "linear":
                w, bias = self._unfolded(coef, bias)
                stored = replace(stored, direction=w, bias=bias)
        if coef is None or self.kernel == "linear":
            outputs = StoredOutputs.of_rows(X[rows], w, stored.bias)
        else:
            # As the model is evaluated: in double precision.
            values = X.astype(np.float64, copy=False)
            if self.kernel != "precomputed":
                values = self._kernel()(values[rows], values)
            else:
                values = values[rows]
            outputs = StoredOutputs.of_values(values, coef, stored.bias)
        centre = fit.bias + float(fit.direction @ known.center_)
        image = known.inverse_factor_ @ fit.direction
        # What the rounding of kernel values does to the features.
        doubt: np.ndarray | float = 0.0
        if known._kernel_rows is not None:
            dense = X[rows].toarray() if sp.issparse(X) else X[rows]
            doubt = known._kernel_rows.rounding(dense.astype(np.float64), known.factor_)
        found = certify_features(
            T, outputs, image, fit.solution.dual_coef, centre, y=y, C=C, doubt=doubt
        )
        return replace(
            stored,
            objective=found.objective,
            relative_gap=found.relative_gap,
            status=found.status(fit.status),
        )

    def _pass_gap(self) -> float:
        return min(float(self.tol), _PASS_GAP)

    def _pass_frames(self, passes: Passes, seen: FirstLook) -> list[Frame | None]:
        self._kernel_coef, self.ellipsoid_, frame = None, None, None
        if self.shape != "none":
            self.ellipsoid_ = self._ellipsoid()
            self.ellipsoid_._fit_seen(passes, seen)
            frame = Frame(self.ellipsoid_.center_, self.ellipsoid_.factor_)
        return [frame] * len(pairs_of(len(self.classes_)))

    def _store_passes(self, fits: Sequence[PairFit]) -> None:
        super()._store_passes(fits)
        if self.ellipsoid_ is not None:
            self.converged_ = self.converged_ and self.ellipsoid_.converged_

    def _ellipsoid(self, **kernel: Any) -> MinimumVolumeEllipsoid:
        gaussian = self.shape == "covariance"
        return MinimumVolumeEllipsoid(
            # Nothing inside: then every row has the same weight.
            coverage=0.0 if gaussian else self.coverage,
            E=None if gaussian else self.E,
            center=self.center,
            ridge=None if gaussian else self.ridge,
            tol=self.estimator_tol,
            verbose=self.verbose,
            **kernel,
        )

    def _unit_ball(self, X: Any, weights: np.ndarray) -> UnitBallRows:
        """Fit the ellipsoid and map the rows."""
        ridged = self.ridge is not None and self.shape != "covariance"
        rank = self.rank
        if ridged and rank is None and self.kernel != "linear":
            rank = X.shape[0]
        ellipsoid = self._ellipsoid(
            kernel=None if self.kernel == "linear" and rank is None else self.kernel,
            gamma=self._gamma,
            degree=self.degree,
            coef0=self.coef0,
            rank=rank,
        )
        # Mapped rows are dense whatever the rows were.
        X = X.toarray() if sp.issparse(X) else X
        counted = None if (weights == 1.0).all() else weights
        self.ellipsoid_ = ellipsoid.fit(X, sample_weight=counted)
        basis = self._basis()
        center, factor = ellipsoid.center_, ellipsoid.factor_
        if basis is None:
            # In double precision, as the model is.
            features = ellipsoid.transform(X.astype(np.float64, copy=False))
        else:
            features = (basis.coordinates - center) @ factor
        return UnitBallRows(features, center, factor)

    def _basis(self) -> Any:
        """Principal directions of the ellipsoid in feature space; None if it needs none."""
        rows = None if self.ellipsoid_ is None else self.ellipsoid_._kernel_rows
        return None if rows is None else rows.basis

    def _select(self, X: Any, rows: np.ndarray) -> Any:
        # Mapped rows are rows, also those of a precomputed kernel.
        return X.take(rows) if isinstance(X, UnitBallRows) else super()._select(X, rows)

    def _fit_pair(
        self, X: Any, y: np.ndarray, penalties: np.ndarray, weights: np.ndarray, threads: int
    ) -> PairFit:
        if not isinstance(X, UnitBallRows):
            return super()._fit_pair(X, y, penalties, weights, threads)
        C, cache = row_penalties(self.C, penalties), self.cache_size * 2.0**20
        return _KernelFit.of(
            solve_ellipsoidal_kernel(X, y, C, cache_bytes=cache, threads=threads, **self._run())
        )

    def _solve_pair(
        self, columns: KernelMatrix, y: np.ndarray, C: np.ndarray,
        progress: ProgressCallback | None, weights: np.ndarray,
    ) -> SimpleNamespace:  # fmt: skip
        margin = solve_svm(columns, y, C, stage="svm", **self._run())
        return SimpleNamespace(margin=margin, n_iter=margin.n_iter)

    def _store(
        self, X: Any, kept: np.ndarray, labels: np.ndarray, members: list, fits: list[PairFit]
    ) -> None:
        self._kernel_coef = None
        if self._basis() is not None and self.kernel != "linear":
            self._kernel_coef = np.array(
                [fit.kernel_coef for fit in fits if isinstance(fit, _KernelFit)]
            )
            # A copy: the user may change the rows after the fit.
            precomputed = self.kernel == "precomputed"
            self._kernel_vectors = kept if precomputed else X[kept].astype(np.float64)
        super()._store(X, kept, labels, members, fits)
        if self.ellipsoid_ is not None:
            self.converged_ = self.converged_ and self.ellipsoid_.converged_

    def _unfolded(self, coef: np.ndarray, bias: float) -> tuple[np.ndarray, float]:
        """Turn coefficients of a linear kernel into a weight vector, and their bias into its."""
        known = None if self.ellipsoid_ is None else self.ellipsoid_._kernel_rows
        # Only the ellipsoid of a precomputed kernel keeps no rows.
        assert known is not None
        assert known.rows is not None
        shift = 0.0 if known.shift is None else known.shift
        w = coef @ (known.rows - shift)
        return w, bias - float(np.sum(w * shift))

    def _evaluate(self, X: Any) -> np.ndarray:
        """Outputs of every pair; all rows of the fit take part in those of a kernel."""
        if self._kernel_coef is None:
            return super()._evaluate(X)
        kernel, vectors, coef = self._kernel(), self._kernel_vectors, self._kernel_coef.T
        outputs = np.empty((X.shape[0], coef.shape[1]))
        for start, stop in chunks(X.shape[0], max(1, _PREDICTION_BLOCK // len(coef))):
            part = X[start:stop].astype(np.float64)
            if self.kernel == "precomputed":
                values = part[:, vectors]
            else:
                if sp.issparse(part) != sp.issparse(vectors):
                    part = part.toarray() if sp.issparse(part) else sp.csr_matrix(part)
                values = kernel(part, vectors)
            outputs[start:stop] = values @ coef + self.intercept_
        return outputs
