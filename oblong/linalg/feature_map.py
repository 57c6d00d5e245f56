"""Rows as vectors ``φ`` of few coordinates, whose inner products are those of a kernel.

For the linear kernel the coordinates are the features themselves, or those in the span of the
rows if there are fewer rows than features. For other kernels they come from the partial Cholesky
factor of the kernel matrix with pivots ``S``: ``φ(x) = L^-1 k(S, x)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular, svd

from oblong._core.threads import available_threads, chunks
from oblong.kernels import Kernel
from oblong.linalg.log_det import moments
from oblong.linalg.low_rank import pivoted_cholesky

# Eigenvalues below this fraction of the largest are round-off, also that of single precision rows.
_ROUND_OFF = 1e-11
# Rows whose kernel matrix is computed for the sake of its diagonal.
_DIAGONAL_CHUNK = 128


@dataclass(frozen=True)
class LinearMap:
    """The rows themselves, perhaps of unit length, with a constant, and in their span.

    Attributes
    ----------
    normalize : bool
        Whether rows are scaled to unit length.
    constant : bool
        Whether a feature that is always one follows the others.
    span : ndarray of shape (d, p) or None
        Orthonormal basis of the span of the rows; None if the coordinates are the features.
    """

    normalize: bool
    constant: bool
    span: np.ndarray | None

    @property
    def complete(self) -> bool:
        """Whether no row has a part outside the coordinates."""
        return self.span is None

    def rows(self, X: Any) -> np.ndarray:
        """The rows as vectors of all features, dense; no copy if nothing is to be done."""
        X = X.toarray() if sp.issparse(X) else X
        if self.normalize:
            X = X / _lengths(X)[:, None]
        if self.constant:
            X = np.column_stack([X, np.ones(len(X), dtype=X.dtype)])
        return X

    def transform(self, X: Any) -> np.ndarray:
        """Coordinates of rows."""
        rows = self.rows(X)
        return rows if self.span is None else rows.astype(np.float64, copy=False) @ self.span

    def products(self, X: Any, Z: Any) -> np.ndarray:
        """Inner products of the rows of ``X`` and ``Z``."""
        return self.rows(X).astype(np.float64) @ self.rows(Z).astype(np.float64).T

    def squared_norms(self, X: Any) -> np.ndarray:
        """Inner products of the rows with themselves."""
        return row_norms(self.rows(X)) ** 2

    def basis(self, d: int) -> np.ndarray:
        """The span as a matrix, for ``d`` features."""
        return np.eye(d) if self.span is None else self.span


@dataclass(frozen=True)
class PivotMap:
    """Coordinates by the kernel values against a few rows, the pivots.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    normalize, constant : bool
        Whether the kernel is scaled to ``k(x, x) = 1``; whether one is added to it.
    pivots : ndarray of shape (p,)
        Their places among the rows.
    rows : {ndarray, CSR matrix} of shape (p, d) or None
        The pivots; None for a precomputed kernel, whose columns ``pivots`` they are.
    factor : ndarray of shape (p, p)
        Lower triangular ``L``.
    shift : ndarray of shape (d,) or None
        Subtracted from rows before the kernel sees them, where it changes nothing but rounding.
    """

    kernel: Kernel
    normalize: bool
    constant: bool
    pivots: np.ndarray
    rows: Any
    factor: np.ndarray
    shift: np.ndarray | None

    complete = False

    def coefficients(self, w: np.ndarray) -> np.ndarray:
        """Coefficients of the pivots' kernel functions whose sum is ``φ(x)'w``."""
        return solve_triangular(self.factor, w, lower=True, trans="T", check_finite=False)

    def pivot_products(self, X: Any) -> np.ndarray:
        """Kernel values of rows against the pivots."""
        if self.rows is None:
            values = np.asarray(X[:, self.pivots], dtype=np.float64)
            return values + 1.0 if self.constant else values
        return self.products(X, self.rows)

    def transform(self, X: Any) -> np.ndarray:
        """Coordinates of rows."""
        values = self.pivot_products(X)
        return solve_triangular(self.factor, values.T, lower=True, check_finite=False).T

    def products(self, X: Any, Z: Any) -> np.ndarray:
        """Kernel values between rows."""
        one_set = Z is X
        X, Z = self._like_pivots(X), self._like_pivots(Z)
        left = self.kernel.prepare(X, np.float64, self.shift)
        right = left if one_set else self.kernel.prepare(Z, np.float64, self.shift)
        values = np.asarray(self.kernel.block(left, right), dtype=np.float64)
        if self.normalize:
            one, other = (np.sqrt(self._diagonal(rows)) for rows in (X, Z))
            values = values / np.where(one > 0.0, one, 1.0)[:, None]
            values /= np.where(other > 0.0, other, 1.0)
        return values + 1.0 if self.constant else values

    def squared_norms(self, X: Any) -> np.ndarray:
        """Kernel values of the rows with themselves."""
        values = self._diagonal(X)
        if self.normalize:
            values = np.where(values > 0.0, 1.0, 0.0)
        return values + 1.0 if self.constant else values

    def _diagonal(self, X: Any) -> np.ndarray:
        return kernel_diagonal(self.kernel, self._like_pivots(X), self.shift)

    def _like_pivots(self, X: Any) -> Any:
        """Rows dense or sparse as the pivots are: a shift of sparse rows would miss their zeros."""
        if self.rows is None or sp.issparse(X) == sp.issparse(self.rows):
            return X
        return X.toarray() if sp.issparse(X) else sp.csr_matrix(X)

    def basis(self, d: int) -> np.ndarray:
        """Orthonormal basis of the span of the pivots, for the linear kernel."""
        rows = self.rows.toarray() if sp.issparse(self.rows) else np.asarray(self.rows)
        rows = LinearMap(self.normalize, self.constant, None).rows(rows.astype(np.float64))
        return solve_triangular(self.factor, rows, lower=True, check_finite=False).T


FeatureMap = LinearMap | PivotMap


def feature_map(
    kernel: Kernel,
    X: Any,
    *,
    rank: int | None = None,
    normalize: bool = False,
    constant: bool = False,
) -> tuple[FeatureMap, np.ndarray]:
    """Find coordinates of rows, and how other rows get theirs.

    Parameters
    ----------
    kernel : Kernel
        The kernel, positive semidefinite.
    X : {ndarray, CSR matrix} of shape (n, d)
        Rows, or their kernel matrix.
    rank : int, optional
        Largest number of coordinates.
    normalize : bool, default=False
        Whether to scale the vectors of the kernel to unit length, first of all.
    constant : bool, default=False
        Whether to add a coordinate that is always one.

    Returns
    -------
    FeatureMap
        The map.
    ndarray of shape (n, p)
        Coordinates of the rows. For the linear kernel they may be ``X`` itself.
    """
    n, d = X.shape
    d += int(constant)
    truncated = rank is not None and rank < min(n, d)
    if kernel.name == "linear" and not truncated and (n >= d or not sp.issparse(X)):
        plain = LinearMap(normalize, constant, None)
        rows = plain.rows(X)
        if n >= d:
            return plain, rows
        span = _span(rows)
        return LinearMap(normalize, constant, span), rows.astype(np.float64, copy=False) @ span
    return _pivots(kernel, X, n if rank is None else rank, rank is not None, normalize, constant)


def _pivots(
    kernel: Kernel, X: Any, rank: int, unique: bool, normalize: bool, constant: bool
) -> tuple[PivotMap, np.ndarray]:
    n = X.shape[0]
    precomputed = kernel.name == "precomputed"
    places, inverse = np.arange(n), None
    if unique and not precomputed:
        # Which rows become pivots must not depend on their order, nor on copies of them.
        places, inverse = distinct_rows(X)
        X = X[places]
    dense_rbf = kernel.name == "rbf" and not sp.issparse(X)
    shift = X.mean(axis=0, dtype=np.float64) if dense_rbf else None
    diagonal = kernel_diagonal(kernel, X, shift)
    roots = np.ones(len(diagonal))
    if normalize:
        roots = np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    prepared = None if precomputed else kernel.prepare(X, np.float64, shift)

    def columns(indices: np.ndarray) -> np.ndarray:
        if prepared is None:
            block = np.asarray(X[indices], dtype=np.float64)
        else:
            block = kernel.block(prepared.take(indices), prepared, threads=available_threads())
        if normalize:
            block = block / roots[indices, None] / roots
        return block + 1.0 if constant else block

    diagonal = diagonal / roots**2 + float(constant)
    found = pivoted_cholesky(columns, diagonal, rank)
    pivots = found.pivots
    rows = None if precomputed else X[pivots]
    mapped = PivotMap(kernel, normalize, constant, places[pivots], rows, found.factor, shift)
    features = found.features if inverse is None else found.features[inverse]
    return mapped, np.ascontiguousarray(features, dtype=np.float64)


def distinct_rows(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Places of the rows that differ, in an order of their own, and which of them each row is."""
    keys = X
    if sp.issparse(X):
        # Equal rows have equal sums, and others have them with probability zero.
        keys = X.sorted_indices() @ np.random.default_rng(0).normal(size=(X.shape[1], 2))
    _, places, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return places, inverse.reshape(-1)


def kernel_diagonal(kernel: Kernel, X: Any, shift: np.ndarray | None = None) -> np.ndarray:
    """Values ``k(x, x)`` in double precision."""
    if kernel.name == "precomputed":
        return np.array(X.diagonal(), dtype=np.float64)
    rows = kernel.prepare(X, np.float64, shift)
    if not callable(kernel.name):
        return kernel.diagonal(rows)
    parts = [
        kernel.block(rows.take(slice(start, stop)), rows.take(slice(start, stop))).diagonal()
        for start, stop in chunks(X.shape[0], _DIAGONAL_CHUNK)
    ]
    return np.concatenate(parts).astype(np.float64)


def row_norms(X: Any) -> np.ndarray:
    """Lengths of the rows, in double precision; a chunk at a time. Squares may overflow."""
    with np.errstate(over="ignore"):
        if sp.issparse(X):
            return np.sqrt(np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel())
        out = np.empty(len(X))
        for start, stop in chunks(len(X), max(1, (1 << 18) // max(1, X.shape[1]))):
            out[start:stop] = np.linalg.norm(X[start:stop].astype(np.float64, copy=False), axis=1)
        return out


def combination(a: np.ndarray, F: np.ndarray) -> np.ndarray:
    """The sum ``Σ a_i φ_i`` in double precision; single precision rows are not copied whole."""
    total = np.zeros(F.shape[1])
    for start, stop in chunks(len(F), max(1, (1 << 18) // max(1, F.shape[1]))):
        total += a[start:stop] @ F[start:stop]
    return total


def _lengths(X: np.ndarray) -> np.ndarray:
    """Lengths to divide rows by, in double precision; a row of zeros stays one."""
    lengths = row_norms(X)
    return np.where(lengths > 0.0, lengths, 1.0)


def _span(rows: np.ndarray) -> np.ndarray:
    _, values, vectors = svd(rows.astype(np.float64), full_matrices=False, check_finite=False)
    eps = np.finfo(rows.dtype).eps
    kept = max(1, int((values > max(rows.shape) * eps * values[0]).sum()))
    return np.ascontiguousarray(vectors[:kept].T)


def numerical_rank(F: np.ndarray) -> int:
    """Rank of a matrix with at least as many rows as columns, whatever the columns' units."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = moments(F, np.zeros(F.shape[1]))[1]
    if not np.isfinite(squares).all():
        raise ValueError("the squared norms of the rows are not finite: scale the data")
    roots = np.sqrt(squares.diagonal())
    used = roots > 0.0
    if not used.any():
        return 1
    scaled = squares[np.ix_(used, used)] / np.outer(roots[used], roots[used])
    values = np.linalg.eigvalsh(scaled)
    return int((values > _ROUND_OFF * values[-1]).sum())


def spanning_rows(F: np.ndarray) -> np.ndarray:
    """Places of rows that span the others."""
    diagonal = row_norms(F) ** 2
    if not diagonal.any():
        return np.empty(0, dtype=np.intp)

    def columns(rows: np.ndarray) -> np.ndarray:
        return F[rows].astype(np.float64) @ F.T

    return pivoted_cholesky(columns, diagonal, F.shape[1]).pivots
