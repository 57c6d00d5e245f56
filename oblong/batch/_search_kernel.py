"""Kernel matrices of the folds of a search, from one product of all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong._native import margin as native
from oblong.kernels import Kernel

# Rows above which kernel matrices are in single precision.
_SINGLE_ABOVE = 1024


class SearchKernel:
    """Kernel matrices of every fold and gamma.

    Parameters
    ----------
    name : str or callable
        The kernel, as in :class:`~oblong.kernels.Kernel`.
    X : array or CSR matrix
        All rows, or their kernel matrix for a precomputed kernel.
    gamma : float, default=1.0
        The largest that will be asked for, at which rounding shows most.
    """

    def __init__(self, name: Any, X: Any, gamma: float = 1.0) -> None:
        self.name = name
        self._values: Any
        dtype = np.float32 if X.shape[0] > _SINGLE_ABOVE else np.float64
        # With gamma = 1 and no constant, the product is all that the pointwise map needs.
        named = isinstance(name, str) and name != "precomputed"
        kernel = Kernel(("rbf" if name == "rbf" else "linear") if named else name)
        if not named:
            rows = kernel.prepare(X, dtype)
            values = X if name == "precomputed" else kernel.block(rows, rows)
            self._values = np.ascontiguousarray(values, dtype=dtype)
            return
        dense = not sp.issparse(X)
        shift = X.mean(axis=0) if dense and Kernel(name).shift_invariant else None
        rows = kernel.prepare(X, dtype, shift)
        if rows.is_coarse(gamma):
            self._values = (-0.5 * kernel.distant_squares(rows, rows)).astype(dtype, copy=False)
        elif dense:
            self._values = rows.left @ rows.right.T
        else:
            self._values = (rows.left @ rows.right.T).toarray()
            if rows.half_norms is not None:
                self._values -= rows.half_norms[:, None]
                self._values -= rows.half_norms

    def matrix(self, kernel: Kernel, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Kernel values of some rows with others."""
        factor, constant = 1.0, 0.0
        if self.name in ("rbf", "poly", "sigmoid"):
            factor = kernel.gamma
            constant = 0.0 if self.name == "rbf" else kernel.coef0
        out: Any = np.empty((rows.size, columns.size), dtype=self._values.dtype)
        native.gather(self._values, rows, columns, factor, constant, out)
        if not callable(self.name) and self.name != "precomputed":
            kernel.map_columns(out, 0, columns.size)
        return out
