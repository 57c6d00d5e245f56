"""Kernel functions, and blocks of kernel matrices by matrix product.

A kernel block is one product of two matrices and a pointwise map, done over pieces small
enough to stay in cache between the two. The formulas are those of scikit-learn::

    linear    k(x, z) = x·z
    poly      k(x, z) = (gamma x·z + coef0)^degree
    rbf       k(x, z) = exp(-gamma |x - z|²)
    sigmoid   k(x, z) = tanh(gamma x·z + coef0)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from oblong._core.threads import available_threads, chunks, run_chunks
from oblong._native import linalg

LOG2_E = math.log2(math.e)
KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")

Matrix: TypeAlias = Any  # a dense array or a CSR matrix

# No polynomial of this degree has values that can be told from 0, 1 and infinity.
_HIGHEST = 2**31 - 1
# A chunk of a block that stays in the second-level cache between product and map.
_CHUNK_BYTES = 1 << 20
# Entries of rows that are prepared at a time.
_PREPARED = 1 << 16
# Entries that are centred at a time for their variance.
_CENTRED = 1 << 20
# Rounding of the exponent of the rbf kernel, in double and single precision, above which squared
# distances are summed from differences instead of coming from a product.
_COARSE = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}
# Rounding of that exponent above which single precision is not enough.
_SINGLE_EXPONENT_ERROR = 1e-5
# Kernel values of this size neither overflow in single precision nor vanish.
_SINGLE_RANGE = (1e-25, 1e30)


@np.errstate(over="ignore", invalid="ignore")
def resolve_gamma(gamma: str | float, X: Matrix, weights: np.ndarray | None = None) -> float:
    """Turn ``gamma="scale" | "auto" | float`` into a number.

    ``"scale"`` is ``1 / (n_features * Var X)`` and ``"auto"`` is ``1 / n_features``. With
    ``weights`` the variance is the weighted one, so that a row of weight two counts as two rows.
    """
    if not isinstance(gamma, str):
        return float(gamma)
    n_features = X.shape[1]
    if gamma == "auto":
        return 1.0 / n_features
    weights = np.ones(X.shape[0]) if weights is None else weights
    share = weights / (weights.sum() * n_features)
    if sp.issparse(X):
        mean = float(share @ np.asarray(X.sum(axis=1), dtype=np.float64).ravel())
        squares = np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
        variance = float(share @ squares) - mean * mean
    else:
        sums, squares = np.empty((2, X.shape[0]))

        def add(start: int, stop: int) -> None:
            np.sum(X[start:stop], axis=1, dtype=np.float64, out=sums[start:stop])

        def square(start: int, stop: int) -> None:
            # What to do about overflow is told to each thread.
            with np.errstate(over="ignore", invalid="ignore"):
                part = np.subtract(X[start:stop], mean, dtype=np.float64)
                np.einsum("ij,ij->i", part, part, out=squares[start:stop])

        # Sums are not left to BLAS, whose threads would wait for more work and keep ours from it. A
        # chunk at a time: centring the whole of X would copy it.
        length = max(1, _CENTRED // max(1, n_features))
        threads = available_threads() if X.shape[0] > length else 1
        run_chunks(add, X.shape[0], length, threads, blas=False)
        mean = float(np.einsum("i,i->", share, sums))
        run_chunks(square, X.shape[0], length, threads, blas=False)
        variance = float(np.einsum("i,i->", share, squares))
    # Rows that are all one constant leave a variance of mere round-off.
    constant = variance <= np.square(4.0 * np.finfo(float).eps * mean)
    if constant and X.max() - X.min() <= 1e-12 * abs(mean):
        return 1.0
    if not 0.0 < variance < np.inf or np.isinf(1.0 / (n_features * variance)):
        raise ValueError(
            'the variance of X cannot be represented: scale X, or do not use gamma="scale"'
        )
    return 1.0 / (n_features * variance)


@dataclass(frozen=True)
class KernelRows:
    """Rows prepared for a kernel's blocks.

    ``left[i] @ right[j]`` is the argument of the kernel's pointwise map, as far as one
    product can give it: for ``rbf`` with dense rows two extra columns carry the norms, so that
    the product is ``-gamma |x_i - x_j|²`` itself, in the unit of powers of two.
    """

    left: Matrix
    right: Matrix
    half_norms: np.ndarray | None = None
    # The rows as given. A shift, and any factor but a power of two, would round apart what is near
    # each other but far from the origin: differences of these rows are exact.
    given: Matrix | None = None
    # Whether squared distances from a product would be mere rounding for near rows.
    coarse: bool = False

    def is_coarse(self, factor: float = 1.0) -> bool:
        """Whether they would be for a kernel whose ``gamma`` is larger by a factor."""
        if self.half_norms is None or self.half_norms.size == 0:
            return False
        dtype = self.left.dtype
        return factor * float(self.half_norms.max()) * np.finfo(dtype).eps > _COARSE[dtype]

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.left.shape[0]

    def take(self, rows: np.ndarray | slice) -> KernelRows:
        """Return a subset of the rows."""
        half_norms = None if self.half_norms is None else self.half_norms[rows]
        left = self.left[rows]
        right = left if self.right is self.left else self.right[rows]
        given = None if self.given is None else self.given[rows]
        return KernelRows(left, right, half_norms, given, self.coarse)


@dataclass(frozen=True)
class Kernel:
    """A kernel function with its parameters settled.

    Parameters
    ----------
    name : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable
        A callable takes two sets of rows and returns their kernel matrix.
    gamma : float
        Scale inside the kernel, see :func:`resolve_gamma`.
    degree : int
        Degree of the polynomial, not negative.
    coef0 : float
        Constant term of the polynomial and the sigmoid.
    """

    name: str | Callable
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.degree <= _HIGHEST:
            raise ValueError(f"degree must be between 0 and {_HIGHEST}, got {self.degree}")

    @property
    def always_positive_semidefinite(self) -> bool:
        """Whether every matrix of this kernel is positive semidefinite by its formula."""
        return self.name in ("linear", "rbf") or (self.name == "poly" and self.coef0 >= 0)

    @property
    def shift_invariant(self) -> bool:
        """Whether a model with ``Σc = 0`` does not change when the data are shifted.

        The rbf kernel does not change at all; the linear kernel changes by terms that vanish
        under ``Σc = 0`` or go into the bias.
        """
        return self.name in ("linear", "rbf")

    def centre(self, X: Matrix) -> np.ndarray | None:
        """Point to subtract from all rows before any product, or None.

        Far from the origin, differences of rows are small differences of large numbers. In a
        sparse matrix only columns without implicit zeros can be shifted, and only these need it:
        the values of the others reach as far as zero.
        """
        if not self.shift_invariant:
            return None
        if not sp.issparse(X):
            return X.mean(axis=0, dtype=np.float64)
        if X.nnz < X.shape[0] or not X.has_canonical_format:
            return None
        full = np.bincount(X.indices, minlength=X.shape[1]) == X.shape[0]
        if not full.any():
            return None
        sums = np.bincount(X.indices, X.data.astype(np.float64), minlength=X.shape[1])
        return np.where(full, sums / X.shape[0], 0.0)

    def prepare(
        self, X: Matrix, dtype: np.dtype | type, shift: np.ndarray | None = None
    ) -> KernelRows:
        """Cast the rows, and bring them to the form that makes a block one product and a map.

        ``shift``, see :meth:`centre`, is subtracted first, in double precision.
        """
        if callable(self.name) or self.name == "precomputed":
            return KernelRows(X, X)
        if not sp.issparse(X):
            return self._prepare_dense(X, np.dtype(dtype), shift)
        data = X.data if shift is None else X.data - shift[X.indices]
        rows = sp.csr_matrix((data.astype(dtype), X.indices, X.indptr), shape=X.shape)
        if self.name == "linear":
            return KernelRows(rows, rows)
        if self.name != "rbf":
            return KernelRows(rows * np.asarray(self.gamma, dtype=dtype), rows)
        power, unit = self._powers()
        rows = rows * np.asarray(power, dtype=dtype)
        half_norms = (0.5 * unit * _squared_norms(rows)).astype(dtype)
        return _with_distance(KernelRows(rows * np.asarray(unit, dtype=dtype), rows, half_norms, X))

    def _powers(self) -> tuple[float, float]:
        """A power of two to multiply rows by, and the factor of their squared distances then."""
        if not self.gamma > 0.0:
            return 1.0, 0.0
        power = 2.0 ** round(0.5 * float(np.log2(self.gamma) + np.log2(2.0 * LOG2_E)))
        # One division after the other: the square may overflow, or vanish.
        return power, self.gamma / power / power * (2.0 * LOG2_E)

    def _prepare_dense(
        self, X: np.ndarray, dtype: np.dtype, shift: np.ndarray | None
    ) -> KernelRows:
        """Write both sides of the products a few rows at a time: copies of all would cost more."""
        if self.name == "linear" and shift is None:
            rows = np.ascontiguousarray(X, dtype=dtype)
            return KernelRows(rows, rows)
        n, d = X.shape
        right = np.empty((n, d + {"linear": 0, "rbf": 2}.get(str(self.name), 1)), dtype=dtype)
        left = right if self.name == "linear" else np.empty_like(right)
        power, unit = self._powers() if self.name == "rbf" else (1.0, self.gamma)
        half_norms = np.empty(n, dtype=dtype) if self.name == "rbf" else None
        for start, stop in chunks(n, max(1, _PREPARED // max(1, d))):
            rows = X[start:stop]
            rows = rows if shift is None else np.subtract(rows, shift, dtype=np.float64)
            part = right[start:stop, :d]
            part[...] = rows
            if self.name == "linear":
                continue
            part *= np.asarray(power, dtype=dtype)
            np.multiply(part, np.asarray(unit, dtype=dtype), out=left[start:stop, :d])
            if half_norms is not None:
                half_norms[start:stop] = 0.5 * unit * _squared_norms(part)
        if half_norms is not None:
            left[:, d], left[:, d + 1] = -half_norms, 1.0
            right[:, d], right[:, d + 1] = 1.0, -half_norms
            return _with_distance(KernelRows(left, right, half_norms, X))
        if self.name != "linear":
            left[:, d], right[:, d] = self.coef0, 1.0
        return KernelRows(left, right)

    def rounding(self, rows: KernelRows) -> float:
        """Bound on the error of a value over ``sqrt(k(x, x) k(z, z))``, in units of round-off.

        Unknown for a kernel that is a Python function.
        """
        units = 4.0
        if rows.half_norms is not None:
            # The exponent is a small difference of two norms and a product of twice their size, or
            # a sum of squared differences.
            largest = float(rows.half_norms.max(initial=0.0))
            units += float(np.sqrt(rows.left.shape[1])) if rows.coarse else 4.0 * largest
        elif self.name == "poly":
            units += self.degree
        return units

    def allows_single_precision(self, rows: KernelRows) -> bool:
        """Whether the rounding of single precision leaves enough of the values."""
        if rows.half_norms is not None:
            exponent = float(rows.half_norms.max(initial=0.0))
            return exponent * float(np.finfo(np.float32).eps) <= _SINGLE_EXPONENT_ERROR
        with np.errstate(over="ignore"):
            try:
                largest = float(np.abs(self.diagonal(rows)).max(initial=0.0))
            except ValueError:
                return False
        return _SINGLE_RANGE[0] < largest < _SINGLE_RANGE[1]

    def block(
        self,
        A: KernelRows,
        B: KernelRows,
        out: np.ndarray | None = None,
        threads: int = 1,
        at: int = 0,
    ) -> np.ndarray:
        """Kernel matrix of shape (A.n, B.n) between prepared rows, in ``out`` from a column on."""
        if callable(self.name) or sp.issparse(A.left):
            values = self._called(A, B) if callable(self.name) else self._sparse_block(A, B)
            if out is None:
                return values
            out[:, at : at + B.n] = values
            return out
        out = np.empty((A.n, B.n), dtype=A.left.dtype) if out is None else out

        coarse = A.coarse or B.coarse

        def fill(start: int, stop: int) -> None:
            part = out[:, at + start : at + stop]
            if coarse:
                part[...] = -0.5 * self.distant_squares(A, B.take(slice(start, stop)))
            else:
                np.matmul(A.left, B.right[start:stop].T, out=part)
            self.map_columns(out, at + start, at + stop)

        run_chunks(fill, B.n, max(64, _CHUNK_BYTES // (max(1, A.n) * out.itemsize)), threads)
        return out

    def distant_squares(self, A: KernelRows, B: KernelRows) -> np.ndarray:
        """Squared distances in the rbf kernel's unit, from differences of the rows as given.

        For rows so far from the origin that only these have digits left.
        """
        assert A.given is not None
        assert B.given is not None
        power, unit = self._powers()
        out = np.empty((A.n, B.n))
        length = max(1, _CHUNK_BYTES // (8 * A.given.shape[1]))
        for first, last in chunks(A.n, length):
            for start, stop in chunks(B.n, length):
                parts = A.given[first:last], B.given[start:stop]
                some, other = (
                    power * np.asarray(part.toarray() if sp.issparse(part) else part, np.float64)
                    for part in parts
                )
                out[first:last, start:stop] = cdist(some, other, "sqeuclidean")
        out *= unit
        return out

    def _called(self, A: KernelRows, B: KernelRows) -> np.ndarray:
        assert callable(self.name)
        values = self.name(A.left, B.right)
        values = np.asarray(values.toarray() if sp.issparse(values) else values, dtype=np.float64)
        if values.shape != (A.n, B.n):
            raise ValueError(
                f"the kernel callable returned shape {values.shape}, expected {(A.n, B.n)}"
            )
        if not np.isfinite(values).all():
            raise ValueError("the kernel callable returned values that are not finite")
        return values

    def _sparse_block(self, A: KernelRows, B: KernelRows) -> np.ndarray:
        if self.name == "rbf" and (A.coarse or B.coarse):
            G = (-0.5 * self.distant_squares(A, B)).astype(A.left.dtype, copy=False)
        else:
            G = (A.left @ B.right.T).toarray()
            if A.half_norms is not None and B.half_norms is not None:
                G -= A.half_norms[:, None]
                G -= B.half_norms
            elif self.name in ("poly", "sigmoid"):
                G += G.dtype.type(self.coef0)
        self.map_columns(G, 0, B.n)
        return G

    def pointwise(self, G: np.ndarray, out: np.ndarray, start: int) -> None:
        """Write the pointwise part of the kernel to columns of ``out``; ``G`` is its argument."""
        stop = start + G.shape[1]
        out[:, start:stop] = G
        self.map_columns(out, start, stop)

    def map_columns(self, values: np.ndarray, start: int, stop: int) -> None:
        """Replace the argument of the kernel's pointwise part in some columns by its value."""
        degree = self.degree_of_map
        if self.name == "sigmoid":
            np.tanh(values[:, start:stop], out=values[:, start:stop])
        elif degree is not None and values.flags.c_contiguous:
            linalg.map_columns(values, degree, start, stop)
        elif degree is not None:
            part = np.ascontiguousarray(values[:, start:stop])
            linalg.map_columns(part, degree, 0, stop - start)
            values[:, start:stop] = part

    @property
    def degree_of_map(self) -> int | None:
        """The power to which the map raises, -1 for powers of two, None for what is neither."""
        return {"rbf": -1, "linear": 1, "poly": self.degree}.get(str(self.name))

    def diagonal(self, rows: KernelRows) -> np.ndarray:
        """Values ``k(x, x)`` in double precision, for a kernel with a formula.

        Raises
        ------
        ValueError
            If one of them overflows.
        """
        if self.name == "rbf":
            return np.ones(rows.n)
        if sp.issparse(rows.left):
            values = np.asarray(rows.left.multiply(rows.right).sum(axis=1), dtype=np.float64)
            values = values.reshape(-1, 1) + (0.0 if self.name == "linear" else self.coef0)
        else:
            values = np.einsum("ij,ij->i", rows.left, rows.right, dtype=np.float64).reshape(-1, 1)
        out = np.empty_like(values)
        self.pointwise(values, out, 0)
        self.check_finite(out, "k(x, x) of")
        return out[:, 0]

    @staticmethod
    def check_finite(values: np.ndarray, what: str) -> None:
        """Raise ``ValueError`` that names the first rows whose values are not finite."""
        bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if bad.size:
            more = f" and {bad.size - 5} more" if bad.size > 5 else ""
            raise ValueError(
                f"{what} row {', '.join(map(str, bad[:5]))}{more} is not finite: scale the "
                f"columns, for example with StandardScaler, or choose other kernel parameters"
            )

    def __call__(self, X: Matrix, Z: Matrix | None = None) -> np.ndarray:
        """Kernel matrix between the rows of ``X`` and of ``Z`` (``X`` itself by default)."""
        if self.name == "precomputed":
            return np.asarray(X)
        shift = self.centre(X) if self.name == "rbf" and not sp.issparse(X) else None
        A = self.prepare(X, np.float64, shift)
        B = A if Z is None else self.prepare(Z, np.float64, shift)
        return self.block(A, B)


def _with_distance(rows: KernelRows) -> KernelRows:
    """Rows of the rbf kernel that know whether they are far from the origin."""
    return replace(rows, coarse=rows.is_coarse())


def _squared_norms(X: Matrix) -> np.ndarray:
    if sp.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    return np.einsum("ij,ij->i", X, X, dtype=np.float64)
