"""Inner products of rows of length one, from which the matrices of many kernels follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

# Up to this many rows a kernel matrix is in double precision.
_DOUBLE = 3000
# Values that are mapped at once, so that they stay in cache.
_CHUNK = 1 << 17
# Values that are given to the classifiers at once.
_PART = 1 << 22


@dataclass(frozen=True)
class Kernel:
    """A kernel with its parameters, by the names and formulas of scikit-learn."""

    name: str
    gamma: float
    degree: int = 3
    coef0: float = 0.0

    def of(self, products: np.ndarray) -> np.ndarray:
        """Turn inner products of rows of length one into kernel values, in their place."""
        step = max(1, _CHUNK // max(1, products.shape[1]))
        for start in range(0, len(products), step):
            part = products[start : start + step]
            if self.name == "rbf":
                part -= 1.0
                part *= 2.0 * self.gamma
                np.exp(part, out=part)
            else:
                part *= self.gamma
                part += self.coef0
                base = part.copy()
                # np.power costs as much as the inner products do.
                for _ in range(self.degree - 1):
                    part *= base
        return products

    def parameters(self) -> dict[str, Any]:
        """Parameters of an estimator with this kernel."""
        return {
            "kernel": self.name,
            "gamma": self.gamma,
            "degree": self.degree,
            "coef0": self.coef0,
        }


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
        The only rows of the sample that models are fitted to; by default all.
    """

    def __init__(
        self, X: np.ndarray, Z: np.ndarray | None = None, trained: np.ndarray | None = None
    ) -> None:
        self.n = len(X)
        self._X = X
        trained = np.arange(self.n) if trained is None else trained
        # Where each row stands among the columns.
        self._place = np.full(self.n, -1)
        self._place[trained] = np.arange(len(trained))
        columns = X[trained].T
        self._own = X @ columns
        self._others = None if Z is None else Z @ columns.astype(Z.dtype, copy=False)

    def matrix(self, kernel: Kernel, rows: np.ndarray) -> np.ndarray:
        """Kernel matrix of some rows of the sample, in double precision unless it is large."""
        if len(rows) <= _DOUBLE:
            own = self._X[rows].astype(np.float64)
            return kernel.of(own @ own.T)
        return kernel.of(self._own[np.ix_(rows, self._place[rows])])

    def held(self, kernel: Kernel, held: np.ndarray, train: np.ndarray) -> Iterator[np.ndarray]:
        """Kernel values of held-out rows of the sample against training rows, part by part."""
        return _parts(kernel, self._own, held, self._place[train])

    def further(self, kernel: Kernel, train: np.ndarray) -> Iterator[np.ndarray]:
        """Kernel values of the further rows against training rows, part by part."""
        assert self._others is not None, "no further rows were given"
        return _parts(kernel, self._others, np.arange(len(self._others)), self._place[train])


def _parts(
    kernel: Kernel, products: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> Iterator[np.ndarray]:
    step = max(1, _PART // max(1, len(columns)))
    for start in range(0, len(rows), step):
        yield kernel.of(products[np.ix_(rows[start : start + step], columns)])
