"""Rows seen through a kernel: their coordinates in its feature space, and those of new rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from oblong._core.threads import available_threads
from oblong.kernels import Kernel, resolve_gamma
from oblong.linalg.definite import check_positive_semidefinite
from oblong.linalg.feature_map import row_norms
from oblong.linalg.kernel_coordinates import KernelCoordinates, kernel_coordinates


@dataclass(frozen=True)
class KernelizedRows:
    """A kernel with its training rows and their principal coordinates.

    Attributes
    ----------
    kernel : Kernel
        The kernel, its parameters settled.
    rows : ndarray of shape (n, n_features) or None
        Training rows; None for a precomputed kernel.
    shift : ndarray of shape (n_features,) or None
        Subtracted from rows before the kernel sees them, where it makes no difference but to
        rounding.
    basis : KernelCoordinates
        The principal directions.
    """

    kernel: Kernel
    rows: np.ndarray | None
    shift: np.ndarray | None
    basis: KernelCoordinates

    @property
    def n(self) -> int:
        """Number of training rows."""
        return self.basis.means.size

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        X: np.ndarray,
        weights: np.ndarray | None,
        center: bool,
        rank: int | None,
    ) -> tuple[KernelizedRows, np.ndarray]:
        """Find the coordinates; return them with what new rows take."""
        if kernel.name == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"Precomputed matrix must be a square matrix. Input is a {X.shape[0]}x"
                f"{X.shape[1]} matrix."
            )
        gamma = 1.0
        if kernel.name in ("rbf", "poly", "sigmoid"):
            counted = X if weights is None else X[weights > 0]
            positive = None if weights is None else weights[weights > 0]
            gamma = resolve_gamma(kernel.gamma, counted, positive)
        kernel = replace(kernel, gamma=gamma)
        rows = shift = None
        if kernel.name == "precomputed":
            K = np.asarray(X, dtype=np.float64)
        else:
            # A copy: the user may change the rows after the fit. The kernel matrix is in double
            # precision and larger, so these may be too.
            rows = np.array(X, dtype=np.float64, order="C")
            if kernel.name == "rbf" or (kernel.name == "linear" and center):
                shift = rows.mean(axis=0)
            prepared = kernel.prepare(rows, np.float64, shift)
            K = kernel.block(prepared, prepared, threads=available_threads())
        if not np.isfinite(K).all():
            raise ValueError("the kernel matrix has values that are not finite: scale the data")
        if not kernel.always_positive_semidefinite:
            check_positive_semidefinite(K, "there is no ellipsoid; use another kernel")
        directions = "full" if rank is None and kernel.name == "linear" else rank
        basis = kernel_coordinates(K, center=center, rank=directions, sample_weight=weights)
        return cls(kernel, rows, shift, basis), basis.coordinates

    def coordinates(self, X: np.ndarray) -> np.ndarray:
        """Principal coordinates of new rows, given in double precision."""
        return self.basis.project(self._values(X))

    def rounding(self, X: np.ndarray, factor: np.ndarray) -> np.ndarray:
        """Lengths of the rounding errors of ``coordinates(X) @ factor``, of random signs.

        Rows much closer to each other than the scale of the kernel have values that differ in
        their last digits alone.
        """
        # Values, or the sizes, may be so large that only their products have squares.
        sizes = np.hypot.reduce(self.basis.directions @ factor, axis=1)
        means = float(np.linalg.norm(self.basis.means * sizes))
        lengths = np.hypot(row_norms(self._values(X) * sizes), means)
        return float(np.finfo(float).eps) * lengths

    def _values(self, X: np.ndarray) -> np.ndarray:
        """Kernel values of rows against those of the fit."""
        if self.rows is None:
            return X
        left = self.kernel.prepare(X, np.float64, self.shift)
        right = self.kernel.prepare(self.rows, np.float64, self.shift)
        return self.kernel.block(left, right)
