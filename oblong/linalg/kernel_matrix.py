"""A kernel matrix by its products: in memory, or computed from rows as it is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from oblong._core.threads import chunks
from oblong.kernels import Kernel, KernelRows
from oblong.linalg.expansion import UNIT, Expansion
from oblong.linalg.products import add_both_products, add_columns, add_product, copy_block, in_tiles

# Rows above which values are in single precision, where that suffices.
_SINGLE_ABOVE = 2048
# Columns from which dense rows are wide: their values are kept on their second use.
_WIDE = 60
# More uses than a row of the matrix ever has.
_NEVER = np.iinfo(np.intp).max
# Rows of the matrix that are computed at a time.
_NEW_ROWS = 512
# Rows of a product in double precision that are prepared at a time.
_PREPARED = 4096
# Runs of rows that need no copy.
_RUNS = 2


@dataclass(frozen=True)
class _Rows:
    """Rows of a matrix, as they were given and prepared for products.

    Attributes
    ----------
    X : array or CSR matrix
        All rows as given, of which the matrix may have some.
    index : ndarray of shape (n,)
        Which of them it has.
    prepared : KernelRows
        Its rows, or those of a larger matrix that it shares.
    at : ndarray of shape (n,)
        Where its rows are among these.
    shift : ndarray of shape (d,) or None
        What was subtracted from the rows.
    """

    X: Any
    index: np.ndarray
    prepared: KernelRows
    at: np.ndarray
    shift: np.ndarray | None

    def take(self, rows: np.ndarray) -> KernelRows:
        """Some rows, prepared."""
        return self.prepared.take(self.at[rows])

    @cached_property
    def parts(self) -> list[tuple[KernelRows, slice]]:
        """All rows, prepared, in views of consecutive ones; and which rows these are."""
        if np.array_equal(self.at, np.arange(self.prepared.n)):
            return [(self.prepared, slice(0, self.prepared.n))]
        ends = [0, *(1 + np.flatnonzero(np.diff(self.at) != 1)), self.at.size]
        return [
            (self.prepared.take(slice(self.at[first], self.at[last - 1] + 1)), slice(first, last))
            for first, last in pairwise(ends)
        ]

    def restricted(self, rows: np.ndarray) -> _Rows:
        """Some of the rows: views where they are a few runs of consecutive ones."""
        at, index = self.at[rows], self.index[rows]
        if np.count_nonzero(np.diff(at) != 1) < _RUNS:
            return replace(self, index=index, at=at)
        return replace(self, index=index, prepared=self.take(rows), at=np.arange(rows.size))

    def doubled(self, kernel: Kernel, rows: np.ndarray) -> KernelRows:
        """Some rows, prepared in double precision."""
        part = kernel.prepare(self.X[self.index[rows]], np.float64, self.shift)
        return replace(part, coarse=part.coarse or self.prepared.coarse)


class KernelMatrix:
    """A symmetric matrix of kernel values: in memory, or computed from rows as it is needed.

    Values that are computed are used in tiles and forgotten: to write them to memory takes longer
    than to compute those of short rows again. Rows of the matrix are kept, until memory is full,
    where that pays: those of sparse rows and of kernels that are Python functions, and those of
    wide rows when they are used for the second time.

    Attributes
    ----------
    n : int
        Number of rows.
    dtype : dtype
        The working precision, in which values are computed and kept.
    exact : bool
        Whether the working precision is all there is; else :meth:`promoted` has more.
    definite : bool
        Whether the formula of the kernel makes the matrix positive semidefinite.
    diagonal : ndarray of shape (n,) or None
        Its diagonal; None for a kernel that is a Python function.
    capacity : int
        Rows of the matrix that there is memory for.
    threads : int
        Threads for products.
    """

    _kernel: Kernel
    # None for a matrix that was given by its values.
    _rows: _Rows | None = None
    _cache_bytes = 0.0
    # Uses of a row of the matrix before the one on which it is kept.
    _patience = 0

    def __init__(self, values: np.ndarray, *, definite: bool = False, threads: int = 1) -> None:
        """The matrix of given values."""
        dtype = values.dtype if values.dtype in (np.float32, np.float64) else np.float64
        store = np.ascontiguousarray(values, dtype=dtype)
        self._begin(Kernel("precomputed"), store, store.diagonal(), definite, threads)
        self.exact, self.capacity = True, self.n
        self._slots, self._filled = np.arange(self.n), self.n

    def _begin(
        self,
        kernel: Kernel,
        store: np.ndarray,
        diagonal: np.ndarray | None,
        definite: bool,
        threads: int,
    ) -> None:
        self._kernel, self.n, self.dtype = kernel, store.shape[1], store.dtype
        self.diagonal, self.definite, self.threads = diagonal, definite, threads
        # Rows of the matrix that are kept, where each one is, and how often each was used.
        self._store, self._slots, self._filled = store, np.full(self.n, -1), 0
        self._uses = np.zeros(self.n, dtype=np.intp)
        self._promoted: KernelMatrix | None = None
        # What a solver has computed from the matrix and needs again.
        self.derived: Any = None
        # The last product of a block with its own coefficients: rows, coefficients, result.
        self._own = (np.empty(0), np.empty(0), np.empty(0))

    @classmethod
    def of_rows(
        cls,
        kernel: Kernel,
        X: Any,
        *,
        cache_bytes: float = 2.0**30,
        dtype: np.dtype | type | None = None,
        threads: int = 1,
    ) -> KernelMatrix:
        """The matrix of a kernel on rows.

        Parameters
        ----------
        kernel : Kernel
            The kernel function.
        X : array or CSR matrix of shape (n, d)
            The rows.
        cache_bytes : float, default=2**30
            Memory limit of values that are kept; two rows of the matrix always may be.
        dtype : dtype, default=None
            Working precision. By default single precision for many rows where that suffices.
        threads : int, default=1
            Threads for products.
        """
        every = np.arange(X.shape[0])
        if dtype is None:
            large = every.size > _SINGLE_ABOVE and not callable(kernel.name)
            dtype = np.float32 if large else np.float64
        shift = kernel.centre(X)
        prepared = kernel.prepare(X, dtype, shift)
        if np.dtype(dtype) == np.float32 and not kernel.allows_single_precision(prepared):
            dtype, prepared = np.float64, kernel.prepare(X, np.float64, shift)
        # Before any work: no value of a kernel with a formula exceeds those of its diagonal.
        diagonal = None if callable(kernel.name) else kernel.diagonal(prepared)
        rows = _Rows(X, every, prepared, every, shift)
        return cls._of(kernel, rows, np.dtype(dtype), diagonal, cache_bytes, threads)

    @classmethod
    def _of(
        cls,
        kernel: Kernel,
        rows: _Rows,
        dtype: np.dtype,
        diagonal: np.ndarray | None,
        cache_bytes: float,
        threads: int,
    ) -> KernelMatrix:
        matrix, n = cls.__new__(cls), rows.at.size
        definite = kernel.always_positive_semidefinite
        matrix._begin(kernel, np.empty((0, n), dtype=dtype), diagonal, definite, threads)
        matrix._rows, matrix._cache_bytes = rows, cache_bytes
        matrix.exact = dtype == np.float64
        matrix.capacity = int(min(n, max(2, cache_bytes // (max(1, n) * dtype.itemsize))))
        if in_tiles(kernel, rows.prepared):
            matrix._patience = 1 if rows.X.shape[1] >= _WIDE else _NEVER
        return matrix

    def restricted(self, rows: np.ndarray) -> KernelMatrix:
        """The principal submatrix of some rows, which shares what was prepared for products."""
        if self._rows is None:
            values = self._store[np.ix_(rows, rows)]
            return KernelMatrix(values, definite=self.definite, threads=self.threads)
        diagonal = None if self.diagonal is None else self.diagonal[rows]
        few = self._rows.restricted(rows)
        return self._of(self._kernel, few, self.dtype, diagonal, self._cache_bytes, self.threads)

    def promoted(self) -> KernelMatrix:
        """The matrix in double precision, which from now on is also the :attr:`latest`."""
        if self._rows is None or self.exact:
            return self
        if self._promoted is None:
            self._promoted = KernelMatrix.of_rows(
                self._kernel,
                self.given,
                cache_bytes=self._cache_bytes,
                dtype=np.float64,
                threads=self.threads,
            )
        return self._promoted

    @property
    def latest(self) -> KernelMatrix:
        """The promoted matrix where there is one, else this one."""
        return self if self._promoted is None else self._promoted

    @property
    def keeps(self) -> bool:
        """Whether some rows of it are kept, as values are dear."""
        return self._patience < _NEVER

    @property
    def kernel(self) -> Kernel:
        """The kernel function."""
        return self._kernel

    @property
    def values(self) -> np.ndarray | None:
        """All values of a matrix that was given by them; None for one of rows."""
        return self._store if self._rows is None else None

    @property
    def given(self) -> Any:
        """The rows as they were given."""
        assert self._rows is not None
        return self._rows.X[self._rows.index]

    def release(self) -> None:
        """Give the memory of values back that can be computed again."""
        if self._rows is not None:
            self._store, self._filled, self._promoted = self._store[:0].copy(), 0, None
            self._slots[:] = -1

    def whole(self) -> np.ndarray | None:
        """All values, in memory from now on; None where there is not enough of it."""
        every = np.arange(self.n)
        if self.capacity >= self.n and not np.array_equal(self._slots, every):
            self._store, self._slots, self._filled = self.block(every, every), every, self.n
        return self._store if self.capacity >= self.n else None

    def block(
        self, rows: np.ndarray, cols: np.ndarray, out: np.ndarray | None = None
    ) -> np.ndarray:
        """Values ``K[rows, cols]`` in the working precision, in the first columns of ``out``."""
        out = np.empty((rows.size, cols.size), dtype=self.dtype) if out is None else out
        values = out[:, : cols.size]
        slots = self._slots[rows]
        kept, new = np.flatnonzero(slots >= 0), np.flatnonzero(slots < 0)
        if not values.size:
            return values
        if new.size == rows.size:
            self._compute(rows, cols, out)
            return values
        copy_block(self._store, slots[kept], cols, kept, out, self.threads)
        if new.size and rows is cols:
            # The matrix is symmetric.
            out[np.ix_(new, kept)] = out[np.ix_(kept, new)].T
            out[np.ix_(new, new)] = self._compute(rows[new], rows[new])
        elif new.size:
            values[new] = self._compute(rows[new], cols)
        return values

    def _compute(
        self, rows: np.ndarray, cols: np.ndarray, out: np.ndarray | None = None
    ) -> np.ndarray:
        assert self._rows is not None
        left = self._rows.take(rows)
        right = left if rows is cols else self._rows.take(cols)
        return self._kernel.block(left, right, out, self.threads)

    def add(
        self,
        image: np.ndarray,
        rows: np.ndarray,
        coef: np.ndarray,
        again: np.ndarray | None = None,
    ) -> None:
        """Add ``K[:, rows] @ coef``, of values in the working precision, to ``image``.

        ``again`` tells rows that are likely to come again, if known: they count as used before.
        """
        self._uses[rows] += 1 if again is None else 1 + again
        slots = self._slots[rows]
        kept = slots >= 0
        add_columns(image, self._store, slots[kept], coef[kept], self.threads)
        rows, coef = rows[~kept], coef[~kept]
        pays = self._uses[rows] > self._patience
        first = np.argsort(~pays, kind="stable")
        rows, coef, pays = rows[first], coef[first], pays[first]
        while rows.size and pays[0] and self._filled < self.capacity:
            # To read the rows takes its time as well: all that are new are computed together.
            count = min(rows.size, _NEW_ROWS, self.capacity - self._filled)
            slots = self._compute_rows(rows[:count])
            add_columns(image, self._store, slots, coef[:count], self.threads)
            stay = np.count_nonzero(pays[:count])
            self._slots[rows[:stay]] = slots[:stay]
            self._filled += stay
            rows, coef, pays = rows[count:], coef[count:], pays[count:]
        if rows.size:
            assert self._rows is not None
            some = self._rows.take(rows)
            for part, place in self._rows.parts:
                add_product(self._kernel, part, some, coef, image[place], self.threads)

    def _compute_rows(self, rows: np.ndarray) -> np.ndarray:
        """Compute rows of the matrix where there is memory, and say where."""
        assert self._rows is not None
        if len(self._store) < self.capacity:
            # The system has room for them only as they are written.
            self._store = np.empty((self.capacity, self.n), dtype=self.dtype)
        values = self._store[self._filled : self._filled + rows.size]
        some = self._rows.take(rows)
        for part, place in self._rows.parts:
            self._kernel.block(some, part, values, self.threads, place.start)
        return self._filled + np.arange(rows.size)

    def image64(self, rows: np.ndarray, cols: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Product ``K[rows, cols] @ coef`` in double precision; from half of a block on itself."""
        if self.exact or self._rows is None:
            image = np.zeros(self.n)
            self.add(image, cols, coef)
            return image[rows]
        result = np.zeros(rows.size)
        if rows is cols:
            known_rows, known_coef, known = self._own
            if np.array_equal(rows, known_rows) and np.array_equal(coef, known_coef):
                return known.copy()
            self._own = rows, coef, result
        if rows is cols and in_tiles(self._kernel, self._rows.prepared):
            self._add_half(rows, coef, result)
            return result.copy()
        # Both sides in parts: copies of all rows in double precision would be large.
        for first, last in chunks(cols.size, _PREPARED):
            right, some = self._doubled(cols[first:last]), coef[first:last]
            for start, stop in chunks(rows.size, _PREPARED):
                left = self._doubled(rows[start:stop])
                add_product(self._kernel, left, right, some, result[start:stop], self.threads)
        return result.copy() if rows is cols else result

    def _add_half(self, rows: np.ndarray, coef: np.ndarray, result: np.ndarray) -> None:
        parts = [slice(*ends) for ends in chunks(rows.size, _PREPARED)]
        for k, some in enumerate(parts):
            A = self._doubled(rows[some])
            for other in parts[k:]:
                B = A if other is some else self._doubled(rows[other])
                both = (coef[some], coef[other]), (result[some], result[other])
                add_both_products(self._kernel, A, B, *both, self.threads)

    def _doubled(self, rows: np.ndarray) -> KernelRows:
        assert self._rows is not None
        return self._rows.doubled(self._kernel, rows)

    def rounding(self, rows: np.ndarray, coef: np.ndarray, dtype: Any = None) -> np.ndarray:
        """Bound, value by value, on the error of ``K[:, rows] @ coef``.

        An entry is off by a unit of ``sqrt(K_ii K_jj)``; that the errors of many add up with random
        signs covers what a few units of round-off do not. Unknown, and zero here, for a kernel that
        is a Python function.
        """
        if self.diagonal is None:
            return np.zeros(self.n)
        unit = UNIT
        if self._rows is not None:
            units = self._kernel.rounding(self._rows.prepared)
            unit = units * float(np.finfo(dtype or self.dtype).eps)
        sizes = np.sqrt(np.abs(self.diagonal), dtype=np.float64)
        return unit * float(np.abs(coef) @ sizes[rows]) * sizes

    def expand(
        self,
        coef: np.ndarray,
        image: np.ndarray,
        matter: Callable[[float], np.ndarray] | None,
    ) -> Expansion:
        """Evaluate a solution in double precision, by the weight vector where there is one.

        Parameters
        ----------
        coef : ndarray of shape (n,)
            Coefficients.
        image : ndarray of shape (n,)
            Their image in the working precision.
        matter : callable or None
            Tells, for the largest rounding of ``image`` on rows with a coefficient, which other
            rows have values that matter; None if all have.
        """
        support = np.flatnonzero(coef)
        if self._kernel.name == "linear":
            return self._by_direction(support, coef[support])
        if self.exact:
            fresh = self.image64(np.arange(self.n), support, coef[support])
        else:
            fresh = image.copy()
            fresh[support] = self.image64(support, support, coef[support])
            seen = float(np.abs(fresh[support] - image[support]).max(initial=0.0))
            rest = np.ones(self.n, dtype=np.bool_)
            rest[support] = False
            others = np.flatnonzero(rest if matter is None else rest & matter(seen))
            fresh[others] = self.image64(others, support, coef[support])
        return Expansion.of(coef, fresh, self.rounding(support, coef[support], np.float64))

    def direction(self, support: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Weight vector of the linear kernel: ``Σ c_i (x_i - shift)``, as ``Σc = 0``."""
        assert self._rows is not None
        total = np.zeros(self._rows.X.shape[1])
        for first, last in chunks(support.size, _PREPARED):
            total += coef[first:last] @ self._doubled(support[first:last]).left
        return total

    def _by_direction(self, support: np.ndarray, coef: np.ndarray) -> Expansion:
        # Only a kernel that is a Python function comes without its diagonal.
        assert self._rows is not None
        assert self.diagonal is not None
        w = self.direction(support, coef)
        image = np.empty(self.n)
        for first, last in chunks(self.n, _PREPARED):
            image[first:last] = self._doubled(np.arange(first, last)).left @ w
        sizes = np.sqrt(self.diagonal)
        length = float(np.linalg.norm(w))
        # The bias of the rows as they are is rounded to the size of w·shift.
        shift = self._rows.shift
        far = 0.0 if shift is None else float(np.abs(w) @ np.abs(shift))
        # The vector itself is off from that of the exact coefficients by this much.
        doubt = UNIT * float(np.abs(coef) @ sizes[support])
        return Expansion(
            image, UNIT * (sizes * length + far), length**2, doubt * (2.0 * length + doubt), w
        )

    def offset(self, coef: np.ndarray, direction: np.ndarray | None = None) -> float:
        """What outputs with this matrix lack of those with the kernel itself.

        A constant for ``Σ coef = 0``: the matrix may be that of shifted rows. ``direction`` is the
        weight vector of a linear kernel, if known.
        """
        if self._rows is None or self._rows.shift is None or self._kernel.name != "linear":
            return 0.0
        if direction is None:
            support = np.flatnonzero(coef)
            direction = self.direction(support, coef[support])
        return float(direction @ self._rows.shift)
