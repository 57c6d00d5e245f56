"""Outputs of an ellipsoidal support vector machine, and how exact they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from oblong._core.threads import chunks
from oblong.batch._one_vs_rest import OneVsRestMixin
from oblong.kernels import Kernel
from oblong.linalg.feature_map import PivotMap, row_norms

# Relative error of a sum of products, whose errors have random signs.
_UNIT = 4.0 * float(np.finfo(float).eps)
# Numbers of a block of rows whose outputs are computed at a time.
_BLOCK = 1 << 22


class EllipsoidalOutputsMixin(OneVsRestMixin):
    """Outputs from directions in the coordinates of a feature map."""

    n_features_in_: int
    normalize: bool
    fit_intercept: bool | str
    coef_: np.ndarray
    intercept_: np.ndarray
    _pivot_coef: np.ndarray

    def _coefficients(
        self, directions: np.ndarray, biases: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of the columns, or of the pivots' kernel values, and the intercepts."""
        if self.kernel != "linear":
            assert isinstance(self._map, PivotMap)
            return np.array([self._map.coefficients(w) for w in directions]), biases
        augmented = self.fit_intercept == "augment"
        coef = directions @ self._map.basis(self.n_features_in_ + int(augmented)).T
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
