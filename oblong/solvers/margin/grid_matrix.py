"""The kernel matrix that the problems of a grid share: values in memory, or rows they come from."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong._core.threads import chunks
from oblong._native import margin as native
from oblong.kernels import LOG2_E, Kernel, KernelRows
from oblong.linalg.kernel_matrix import KernelMatrix

# Rows up to which the matrix is held in double precision, so that solutions have their last digits.
EXACT = 1024
# Rows up to which a matrix is held whole.
WHOLE = int(native.WHOLE)
# Columns from which a matrix of all rows costs less than the rows of it that steps ask for.
_WIDE = 200
# Rows of a symmetric matrix that are computed at a time.
_ROWS = 512
# Largest matrix of all rows of several groups, in bytes.
_SHARED_BYTES = 2.0**30

# Rounding of an exponent, and sizes of kernel values, that single precision can do.
_SINGLE_EXPONENT_ERROR = 1e-5
_SINGLE_RANGE = (1e-25, 1e30)
# Pairs of rows that are looked at to see whether single precision tells them apart.
_PROBES = 256

_KINDS = {"linear": 0, "poly": 1, "rbf": 2}
_VALUES = 3
_EPS, _EPS_SINGLE = float(np.finfo(np.float64).eps), float(np.finfo(np.float32).eps)
_NONE, _NONE32 = np.empty((0, 0)), np.empty((0, 0), dtype=np.float32)
_FLAT = np.empty(0)


class GridMatrix:
    """The matrix of a grid.

    Attributes
    ----------
    n : int
        Number of rows.
    single : bool
        Whether kernel values are in single precision; certificates never are.
    source : tuple
        What the compiled loop takes.
    definite : bool
        Whether the formula of the kernel makes the matrix positive semidefinite.
    shift : ndarray or None
        What was subtracted from the rows of the linear kernel.
    large : KernelMatrix or None
        The same matrix for groups that are too large to be held whole.
    columns : int
        Number of weights of a model of the linear kernel, zero for others.
    """

    def __init__(
        self,
        n: int,
        single: bool,
        source: tuple,
        definite: bool,
        given: tuple[Kernel, Any] | None = None,
        centred: bool = True,
    ) -> None:
        self.n, self.single, self.source, self.definite = n, single, source, definite
        self._given, self._centred = given, centred
        # The same matrix for groups that are too large to be held whole.
        self.large: Any = None
        # Sparse rows of the linear kernel, after the shift.
        self._sparse: Any = None
        rows, shift = source[3], source[6]
        self.columns = rows.shape[1] if source[0] == _KINDS["linear"] else 0
        self.shift = shift if shift.size else None

    @classmethod
    def of_values(cls, K: np.ndarray, definite: bool = False, noise: float = 0.0) -> GridMatrix:
        """A matrix that is given; single precision is all the precision there is.

        Rounded to that, values make a matrix that is positive semidefinite but for ``noise``.
        """
        K = np.ascontiguousarray(K.T if K.flags.f_contiguous else K)
        single = K.dtype == np.float32
        K = K if single else K.astype(np.float64, copy=False)
        diagonal = K.diagonal().astype(np.float64)
        both = (K, _NONE) if single else (_NONE32, K)
        unit = 4.0 * (_EPS_SINGLE if single else _EPS)
        noise = _EPS_SINGLE if single else noise
        source = (_VALUES, 0, 0.0, _NONE, _FLAT, diagonal, _FLAT, *both, unit, 4.0 * _EPS, noise)
        return cls(len(K), single, source, definite)

    @classmethod
    def of(
        cls,
        columns: KernelMatrix,
        largest: int,
        shared: bool = False,
        centred: bool = True,
        fine: bool = False,
    ) -> GridMatrix:
        """The matrix of some columns, for groups of at most so many rows.

        Parameters
        ----------
        columns : KernelMatrix
            The columns of the matrix.
        largest : int
            Rows of the largest group: more than :data:`WHOLE` are not for this matrix.
        shared : bool, default=False
            Whether groups have some of the rows each, and need a part of the matrix.
        centred : bool, default=True
            Whether rows of a linear kernel may be shifted: all sums of coefficients are zero.
        fine : bool, default=False
            Whether the tolerance is one that single precision cannot do.
        """
        kept = columns.derived if centred else None
        if kept is None or (fine and kept.single and columns.values is None):
            if columns.values is not None:
                if not np.isfinite(columns.values).all():
                    raise ValueError("the kernel matrix has values that are not finite")
                kept = cls.of_values(columns.values, columns.definite)
            else:
                kept = cls.of_rows(columns.kernel, columns.given, largest, shared, centred, fine)
            kept.large = columns
            if centred and not shared:
                columns.derived = kept
        return kept

    @classmethod
    def of_rows(
        cls,
        kernel: Kernel,
        X: Any,
        largest: int,
        shared: bool = False,
        centred: bool = True,
        fine: bool = False,
    ) -> GridMatrix:
        """The matrix of a kernel between rows.

        Parameters
        ----------
        kernel : Kernel
            The kernel.
        X : array or CSR matrix
            The rows.
        largest, shared, centred, fine
            As for :meth:`of`.
        """
        n, definite = X.shape[0], kernel.always_positive_semidefinite
        if largest > WHOLE:
            return cls._elsewhere(kernel, X, shared)
        if kernel.name == "precomputed":
            return cls.of_values(X, definite)
        named = not callable(kernel.name) and kernel.name in _KINDS and not sp.issparse(X)
        prepared = None
        if named and not fine:
            prepared = _prepare(kernel, X, _shift(kernel, X, centred))
        if n <= EXACT or prepared is None:
            # Of more rows every group gets a matrix of its own.
            if n > WHOLE:
                return cls._elsewhere(kernel, X, shared)
            return cls._of_block(kernel, X, definite, centred=centred)
        rows, half, diagonal, shift, units = prepared
        kind = _KINDS[str(kernel.name)]
        wide = X.shape[1] >= _WIDE and 4.0 * n**2 <= _SHARED_BYTES
        values = _NONE32
        if (n <= WHOLE and not shared) or wide:
            given = kernel.prepare(X, np.float32, _shift(kernel, X, centred))
            values = _whole_block(kernel, given)
        source = (
            kind, int(kernel.degree), float(kernel.coef0), rows, half, diagonal, shift,
            values, _NONE, units[0] * _EPS_SINGLE, units[1] * _EPS, 0.0,
        )  # fmt: skip
        return cls(n, True, source, definite, (kernel, X), centred)

    @classmethod
    def _elsewhere(cls, kernel: Kernel, X: Any, shared: bool) -> GridMatrix:
        """A matrix of which the compiled loop has nothing: groups are solved one by one."""
        source = (_VALUES, 0, 0.0, _NONE, _FLAT, np.zeros(X.shape[0]), _FLAT, _NONE32, _NONE)
        matrix = cls(
            X.shape[0],
            False,
            (*source, 0.0, 0.0, 0.0),
            kernel.always_positive_semidefinite,
            (kernel, X),
        )
        if kernel.name == "linear":
            matrix.columns = X.shape[1]
            # Groups of some of the rows have shifts of their own, and biases for the rows as they
            # were given.
            matrix.shift = None if shared else kernel.centre(X)
        return matrix

    @classmethod
    def _of_block(
        cls,
        kernel: Kernel,
        X: Any,
        definite: bool,
        shift: np.ndarray | None = None,
        centred: bool = True,
    ) -> GridMatrix:
        """The matrix in double precision, and its rows where weights come from them."""
        if callable(kernel.name):
            rows = KernelRows(X, X)
            return cls.of_values(kernel.block(rows, rows), definite)
        shift = _shift(kernel, X, centred) if shift is None else shift
        rows = kernel.prepare(X, np.float64, shift)
        diagonal = kernel.diagonal(rows)
        K = _whole_block(kernel, rows)
        units = kernel.rounding(rows) * _EPS
        kind, own, moved = _VALUES, _NONE, _FLAT
        if kernel.name == "linear" and not sp.issparse(X):
            kind, own = _KINDS["linear"], rows.left
            moved = _FLAT if shift is None else shift
        source = (kind, 0, 0.0, own, _FLAT, diagonal, moved, _NONE32, K, units, units, 0.0)
        matrix = cls(len(K), False, source, definite, (kernel, X), centred)
        if kernel.name == "linear" and sp.issparse(X):
            matrix.shift, matrix._sparse, matrix.columns = shift, rows.left, X.shape[1]
        return matrix

    @property
    def values(self) -> np.ndarray:
        """The whole matrix, where it is in memory."""
        return self.source[7] if self.single else self.source[8]

    def whole(self, members: np.ndarray) -> GridMatrix:
        """The matrix of some of the rows, held whole in double precision."""
        if self._given is not None:
            kernel, X = self._given
            if not (self.single or members.size < self.n):
                return self
            return self._of_block(kernel, X[members], self.definite, self.shift, self._centred)
        K = self.values[np.ix_(members, members)].astype(np.float64)
        return GridMatrix.of_values(K, self.definite, self.source[-1])

    def image(self, members: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Product of the matrix of some rows with coefficients."""
        support = np.flatnonzero(coef)
        if not support.size:
            return np.zeros(members.size)
        # What is not finite is noticed by those who use it.
        with np.errstate(over="ignore", invalid="ignore"):
            if self.columns and self.source[3].size:
                # The rows that the steps work on, which have been shifted.
                own = self.source[3][members]
                return own @ (coef @ own)
            if self.values.size:
                rows = self.values[members[support]][:, members]
                return coef[support] @ rows.astype(np.float64, copy=False)
            assert self._given is not None
            kernel, X = self._given
            return coef[support] @ kernel(X[members[support]], X[members])

    def weights_of(
        self, members: list[np.ndarray], scale: np.ndarray, coefs: list[np.ndarray],
        weights: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        """Weight vectors of the models, also of sparse rows.

        From rows without their shift the weights would be small differences of large numbers. Where
        there is none, those of many groups, which may have many columns, are left to coefficients.
        """
        if self._sparse is None:
            return weights
        if self.shift is None and len(members) > 1:
            return weights[:, :, :0]
        return np.array(
            [
                scale[g, :, None] * (self._sparse[rows].T @ coefs[g].T).T
                for g, rows in enumerate(members)
            ]
        )


def _whole_block(kernel: Kernel, rows: KernelRows) -> np.ndarray:
    """The matrix of rows among themselves, from half of it."""
    n = rows.n
    if n <= _ROWS or sp.issparse(rows.left):
        return np.ascontiguousarray(kernel.block(rows, rows))
    K = np.empty((n, n), dtype=rows.left.dtype)
    for start, stop in chunks(n, _ROWS):
        kernel.block(rows.take(slice(start, stop)), rows.take(slice(0, stop)), K[start:stop])
        K[:start, start:stop] = K[start:stop, :start].T
    return K


def _shift(kernel: Kernel, X: Any, centred: bool) -> np.ndarray | None:
    """What to subtract from the rows; of the linear kernel only if coefficients sum to zero."""
    return kernel.centre(X) if centred or kernel.name != "linear" else None


def _prepare(kernel: Kernel, X: np.ndarray, shift: np.ndarray | None) -> tuple | None:
    """Rows in double precision, scaled so that kernel values are functions of products alone.

    None where single precision would not do: values out of range, rounding of the exponent that is
    too large, or rows that are too near each other for it.
    """
    rows = np.ascontiguousarray(X if shift is None else X - shift, dtype=np.float64)
    units, half = 4.0, _FLAT
    if kernel.name == "rbf":
        rows = rows * np.sqrt(2.0 * kernel.gamma * LOG2_E)
        half = 0.5 * np.einsum("ij,ij->i", rows, rows)
        diagonal = np.ones(len(rows))
    else:
        if kernel.name == "poly":
            rows = rows * np.sqrt(kernel.gamma)
            units += kernel.degree
        diagonal = np.einsum("ij,ij->i", rows, rows)
    exponent = 0.0
    with np.errstate(over="ignore"):
        if kernel.name == "rbf":
            exponent = float(half.max(initial=0.0))
            units += exponent / LOG2_E
        elif kernel.name == "poly":
            diagonal = (diagonal + kernel.coef0) ** kernel.degree
    largest = float(np.abs(diagonal).max(initial=0.0))
    inside = _SINGLE_RANGE[0] < largest < _SINGLE_RANGE[1] and bool(np.isfinite(diagonal).all())
    if not inside or not (units - 4.0) * _EPS_SINGLE <= _SINGLE_EXPONENT_ERROR:
        return None
    if len(rows) and not _apart(rows, kernel, diagonal, units * _EPS_SINGLE):
        return None
    # Norms, which distances in double precision come from, lose some digits.
    moved = shift if shift is not None and kernel.name == "linear" else _FLAT
    return rows, half, diagonal, moved, (units, units + 3.0 * exponent)


def _apart(rows: np.ndarray, kernel: Kernel, diagonal: np.ndarray, rounding: float) -> bool:
    """Whether single precision tells most rows apart that are no neighbours.

    It does for the linear kernel, whose rows are centred.
    """
    if kernel.name == "linear":
        return True
    half = len(rows) // 2
    some, others = (slice(start, start + half, max(1, half // _PROBES)) for start in (0, half))
    with np.errstate(over="ignore", invalid="ignore"):
        if kernel.name == "rbf":
            offsets = rows[some] - rows[others]
            curvatures = -2.0 * np.expm1(-0.5 / LOG2_E * np.einsum("ij,ij->i", offsets, offsets))
        else:
            products = np.einsum("ij,ij->i", rows[some], rows[others]) + kernel.coef0
            curvatures = diagonal[some] + diagonal[others] - 2.0 * products**kernel.degree
    apart = np.count_nonzero(curvatures > 64.0 * rounding * diagonal.max())
    return bool(2 * apart > len(curvatures))
