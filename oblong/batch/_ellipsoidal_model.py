"""The model of an ellipsoidal support vector machine: its outputs, and what its matrix says."""

from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from oblong._core.threads import chunks
from oblong.batch._one_vs_rest import OneVsRestMixin, stacked
from oblong.kernels import Kernel
from oblong.linalg.feature_map import PivotMap, row_norms
from oblong.solvers.esvm.solve import moment_factor

# Relative error of a sum of products, whose errors have random signs.
_UNIT = 4.0 * float(np.finfo(float).eps)
# Numbers of a block of rows whose outputs are computed at a time.
_BLOCK = 1 << 22


class EllipsoidalModel(OneVsRestMixin):
    """Outputs from directions in the coordinates of a feature map, and the matrices ``B = r G'G``.

    There is a direction and a matrix for each binary problem.
    """

    n_features_in_: int
    normalize: bool
    fit_intercept: bool | str
    coef_: np.ndarray
    intercept_: np.ndarray
    _pivot_coef: np.ndarray
    _r: float
    # Coordinates of the rows, and per problem the weights and factors that make the moments; kept
    # until the matrices have been computed.
    _moments: tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]

    # Outputs, and how exact they are ------------------------------------------------------------

    def _coefficients(
        self, directions: np.ndarray, biases: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of the columns, or of the pivots' kernel values, and the intercepts."""
        if self.kernel != "linear":
            assert isinstance(self._map, PivotMap)
            return np.array([self._map.coefficients(w) for w in directions]), biases
        augmented = self.fit_intercept == "augment"
        coef = directions @ self._map.basis(self._n_dimensions()).T
        if augmented:
            biases = coef[:, -1]
        return np.ascontiguousarray(coef[:, : self.n_features_in_]), biases

    def _as_stored(self, X: Any, w: np.ndarray, b: float) -> tuple[np.ndarray, np.ndarray]:
        """Outputs of the model with this direction and bias, and their rounding errors."""
        coef, bias = self._coefficients(w[None], np.array([b]))
        outputs = self._products(X, coef) + bias
        sizes = self._products(X, np.abs(coef), absolute=True) + np.abs(bias)
        return outputs[:, 0], _UNIT * sizes[:, 0]

    def _outputs(self, X: Any, rounded: bool = True) -> np.ndarray:
        X = self._validated(X)
        coef = self.coef_ if self.kernel == "linear" else self._pivot_coef
        with np.errstate(over="ignore", invalid="ignore"):
            outputs = self._products(X, coef) + self.intercept_
            outputs = outputs.astype(X.dtype, copy=False) if rounded else outputs
        Kernel.check_finite(outputs, "the decision value of")
        return outputs

    def _products(self, X: Any, coef: np.ndarray, absolute: bool = False) -> np.ndarray:
        """Sums of columns, or of kernel values against the pivots, in double precision.

        Pivots that are close to each other have large coefficients of either sign, whose sum
        needs all digits, as does that of rows far from the origin.
        """
        outputs = np.empty((X.shape[0], len(coef)))
        linear = self.kernel == "linear"
        for start, stop in chunks(X.shape[0], max(1, _BLOCK // max(1, *coef.shape, X.shape[1]))):
            rows = X[start:stop]
            if linear:
                values = rows.astype(np.float64, copy=False)
            else:
                assert isinstance(self._map, PivotMap)
                values = self._map.pivot_products(rows)
            outputs[start:stop] = (abs(values) if absolute else values) @ coef.T
            if linear and self.normalize:
                lengths = row_norms(rows)
                outputs[start:stop] /= np.where(lengths > 0.0, lengths, 1.0)[:, None]
        return outputs

    # Lengths, distances, volume -----------------------------------------------------------------

    @cached_property
    def _factors(self) -> list[np.ndarray]:
        """Matrices ``G``, computed on first use: a classifier that only predicts needs none."""
        if "_moments" not in vars(self):
            raise AttributeError("_factors")
        F, problems = self._moments
        return [moment_factor(F, alpha, pi, self._r) for alpha, pi in problems]

    def __getstate__(self) -> dict[str, Any]:
        getattr(self, "_factors", None)
        state = dict(super().__getstate__())  # type: ignore[call-overload]  # sklearn's is untyped
        state.pop("_moments", None)
        return state

    def _n_dimensions(self) -> int:
        return self.n_features_in_ + int(self.fit_intercept == "augment")

    def _outside(self) -> float:
        """What ``B`` is in directions that no training row has a part in."""
        return self._r / (1.0 - self._r)

    @property
    def B_(self) -> np.ndarray:
        """The matrix of the ellipsoid, for the linear kernel."""
        if not hasattr(self, "_factors"):
            raise AttributeError(f"this {type(self).__name__} is not fitted: it has no B_ yet")
        if self.kernel != "linear":
            raise AttributeError("B_ is a matrix for the linear kernel only; see metric()")
        d = self._n_dimensions()
        V = self._map.basis(d)
        complete = V.shape[1] == d
        rest = 0.0 if complete else self._outside() * (np.eye(d) - V @ V.T)
        images = [G @ V.T for G in self._factors]
        matrices = [self._r * image.T @ image + rest for image in images]
        return matrices[0] if len(matrices) == 1 else np.array(matrices)

    def ellipsoid_norm(self, X: Any) -> np.ndarray:
        r"""Squared lengths :math:`\varphi(x)^\top B\, \varphi(x)`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, or kernel values for ``kernel="precomputed"``.

        Returns
        -------
        norms : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Squared lengths, for the matrix of each class if there are more than two.

        Notes
        -----
        In directions outside the span of the training rows ``B`` is :math:`r/(1-r)` times the
        identity, which is large for ``r`` near one. With a precomputed kernel it is unknown how far
        outside a row is, and the part inside is returned.
        """
        X = self._validated(X)
        lengths, rest = self._squared_lengths(X, [G.T for G in self._factors])
        norms = self._r * lengths + self._outside() * rest
        return stacked(list(norms.T), len(self.classes_))

    def metric(self, X: Any, Z: Any = None) -> np.ndarray:
        r"""Squared distances :math:`(\varphi(x) - \varphi(z))^\top B\, (\varphi(x) - \varphi(z))`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, or kernel values for ``kernel="precomputed"``.
        Z : {array-like, sparse matrix} of shape (m, n_features), default=None
            Other rows, by default the same.

        Returns
        -------
        distances : ndarray of shape (n_samples, m) or (n_samples, m, n_classes)
            Squared distances, in the metric of each class if there are more than two.

        Notes
        -----
        The parts of rows outside the span of the training rows count :math:`r/(1-r)` times; see
        :meth:`ellipsoid_norm`. For nearest neighbours, give the roots of these distances to
        ``KNeighborsClassifier(metric="precomputed")`` or, with the linear kernel, ``B_`` to
        ``KNeighborsClassifier(metric="mahalanobis", metric_params={"VI": model.B_})``.
        """
        X = self._validated(X)
        Z = X if Z is None else self._validated(Z)
        phi = self._map.transform(X).astype(np.float64, copy=False)
        other = phi if Z is X else self._map.transform(Z).astype(np.float64, copy=False)
        rest = 0.0
        if self._has_outside():
            ends = (self._map.squared_norms(rows) for rows in (X, Z))
            whole = np.add.outer(*ends) - 2.0 * self._map.products(X, Z)
            rest = self._outside() * np.maximum(whole - _squared_distances(phi, other), 0.0)
        distances = [
            self._r * _squared_distances(phi @ G.T, other @ G.T) + rest for G in self._factors
        ]
        if Z is X:
            for each in distances:
                np.fill_diagonal(each, 0.0)
        return stacked(distances, len(self.classes_))

    def log_det(self, *, relative: bool | None = None) -> float | np.ndarray:
        r"""Logarithm of the determinant of :math:`B`.

        Parameters
        ----------
        relative : bool, default=None
            Whether it is that of :math:`B` over :math:`\tfrac{r}{1-r} I`, which has a meaning in a
            feature space of any dimension. By default so for all kernels but the linear one.

        Returns
        -------
        value : float or ndarray of shape (n_classes,)
            The logarithm, of each class if there are more than two.
        """
        check_is_fitted(self)
        relative = self.kernel != "linear" if relative is None else relative
        if not relative and self.kernel != "linear":
            raise ValueError(
                'with a kernel other than "linear" the determinant only exists relative to that '
                "of r/(1-r) times the identity: use relative=True"
            )
        values = np.array(
            [
                2.0 * np.log(np.abs(G.diagonal())).sum() + len(G) * np.log1p(-self._r)
                for G in self._factors
            ]
        )
        if not relative:
            values = values + self._n_dimensions() * np.log(self._outside())
        return float(values[0]) if len(values) == 1 else values


def _squared_distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Squared distances between rows; those that round-off would make negative are zero."""
    values = -2.0 * (A @ B.T)
    values += np.einsum("ij,ij->i", A, A)[:, None]
    values += np.einsum("ij,ij->i", B, B)
    return np.maximum(values, 0.0, out=values)
