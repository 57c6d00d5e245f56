"""Inner products of rows of length one, from which the matrices of many kernels follow."""

from __future__ import annotations

import numpy as np

from oblong._core.threads import chunks
from oblong.kernels import Kernel

__all__ = ["Products", "kernel_of_products"]

# Up to this many rows a kernel matrix is in double precision.
_DOUBLE = 3000
# Values that are computed at once, so that they stay in cache.
_CHUNK = 1 << 18


def kernel_of_products(kernel: Kernel, products: np.ndarray, out: np.ndarray) -> None:
    """Write the kernel values of rows of length one into ``out``, from their inner products.

    The products are lost, and ``out`` cannot lie in their place.
    """
    if kernel.name == "rbf":
        products -= 1.0
        products *= 2.0 * kernel.gamma
    else:
        products *= kernel.gamma
        products += kernel.coef0
    kernel.pointwise(products, out, 0)


class Products:
    """Inner products of the rows of a sample with each other and with further rows.

    All kernels, splits and methods take theirs from here: the products cost more than what any
    kernel makes of them.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        The sample, of rows of length one.
    Z : ndarray of shape (m, d), default=None
        Further rows of length one.
    trained : ndarray, default=None
        The only rows of the sample that machines are fitted to; by default all.
    """

    def __init__(
        self, X: np.ndarray, Z: np.ndarray | None = None, trained: np.ndarray | None = None
    ) -> None:
        self.n = len(X)
        self._X = X
        # Where each row stands among the columns.
        self._place = np.arange(self.n)
        columns = X
        if trained is not None:
            self._place = np.full(self.n, -1)
            self._place[trained] = np.arange(len(trained))
            columns = X[trained]
        if trained is None and self.n <= _DOUBLE:
            columns = X = X.astype(np.float64)
        self._own = X @ columns.T
        self._others = None if Z is None else Z @ columns.T.astype(Z.dtype)
        self._memory = np.empty(0)

    def matrix(self, kernel: Kernel, rows: np.ndarray) -> np.ndarray:
        """Kernel matrix of some rows of the sample, in double precision unless it is large.

        It lies in memory that the next call takes again: touching fresh memory costs as much as
        filling it.
        """
        n = len(rows)
        dtype = np.float64 if n <= _DOUBLE else self._own.dtype
        if self._memory.size < n * n or self._memory.dtype != dtype:
            self._memory = np.empty(max(n, self.n if dtype == np.float32 else 0) ** 2, dtype)
        out = self._memory[: n * n].reshape(n, n)
        if self._own.dtype != dtype:
            own = self._X[rows].astype(np.float64)
            kernel_of_products(kernel, own @ own.T, out)
            return out
        _write(kernel, self._own, rows, self._place[rows], out)
        return out

    def held_outputs(
        self, kernel: Kernel, held: np.ndarray, train: np.ndarray, coef: np.ndarray
    ) -> np.ndarray:
        """Outputs ``Σ c_i k(x_i, z)`` on held-out rows of the sample, one row a machine."""
        return _outputs(kernel, self._own, held, self._place[train], coef)

    def outputs(self, kernel: Kernel, train: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Outputs on the further rows, one row a machine."""
        rows = np.arange(len(self._others))
        return _outputs(kernel, self._others, rows, self._place[train], coef)


def _write(
    kernel: Kernel, products: np.ndarray, rows: np.ndarray, places: np.ndarray, out: np.ndarray
) -> None:
    whole = np.array_equal(places, np.arange(products.shape[1]))
    for start, stop in chunks(len(rows), max(1, _CHUNK // products.shape[1])):
        part = products[rows[start:stop]]
        part = part if whole else part.take(places, axis=1)
        kernel_of_products(kernel, part, out[start:stop])


def _outputs(
    kernel: Kernel, products: np.ndarray, rows: np.ndarray, places: np.ndarray, coef: np.ndarray
) -> np.ndarray:
    # Columns without a coefficient are cheaper to multiply by zero than to leave out.
    spread = np.zeros((products.shape[1], len(coef)), dtype=products.dtype)
    spread[places] = coef.T
    found = np.empty((len(coef), len(rows)))
    for start, stop in chunks(len(rows), max(1, _CHUNK // products.shape[1])):
        part = products[rows[start:stop]]
        values = np.empty_like(part)
        kernel_of_products(kernel, part, values)
        found[:, start:stop] = (values @ spread).T
    return found
