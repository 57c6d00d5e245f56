"""Columns of a symmetric matrix: given outright, or computed on demand by a subclass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from oblong._core.compile import compiled
from oblong._core.threads import chunks, even_share, run_chunks

if TYPE_CHECKING:
    from oblong.linalg.principal import PrincipalBlock

# Rows of the image kept in first-level cache while the columns stream past.
_STRIP = 8192

# Relative error of a sum of products, whose errors have random signs.
UNIT = 4.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Expansion:
    """The function ``Σ c_i k(x_i, ·)`` on the rows, in double precision, with its rounding.

    Attributes
    ----------
    image : ndarray of shape (n,)
        Values ``u = Kc``; on rows that were not asked for, those of the cached columns.
    error : ndarray of shape (n,)
        Bound on the rounding of each value.
    norm : float
        Squared norm ``c'Kc`` of the function.
    norm_error : float
        Bound on the difference of the squared norm from that of the exact coefficients.
    direction : ndarray of shape (d,) or None
        For the linear kernel, the weight vector ``Σ c_i x_i`` that the values come from.
    """

    image: np.ndarray
    error: np.ndarray
    norm: float
    norm_error: float
    direction: np.ndarray | None = None

    @classmethod
    def of(cls, coef: np.ndarray, image: np.ndarray, error: np.ndarray) -> Expansion:
        """The function by its values on the rows."""
        return cls(image, error, float(coef @ image), float(np.abs(coef) @ error))


class ExplicitColumns:
    """Columns of a symmetric matrix of shape (n, n) held in memory, and base of other columns.

    ``store[slot]`` is a column; ``fetch`` makes sure that columns are there and tells where.
    ``rounding`` bounds the error of products with the columns. ``exact`` says whether they are
    all the precision there is; when they are not, ``image`` multiplies in double precision, and
    ``promoted`` gives columns that are exact. ``expand`` evaluates a solution for its certificate.
    ``definite`` says whether the formula of the kernel makes the matrix positive semidefinite.
    ``inverse`` is that of the matrix, where many problems share it and it has been computed, and
    ``held`` the block that the last of them worked on. Where ``direct`` is true, products and
    blocks are computed from the rows, and only some columns are kept; where ``fleeting`` is, none,
    so that ``add_to`` some rows costs no more than their share.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        The matrix.
    threads : int, default=1
        Threads for products with it.
    """

    exact = True
    definite = False
    direct = False
    fleeting = False
    inverse: np.ndarray | None = None
    held: PrincipalBlock | None = None

    def __init__(self, matrix: np.ndarray, threads: int = 1) -> None:
        dtype = matrix.dtype if matrix.dtype in (np.float32, np.float64) else np.float64
        self.store = np.ascontiguousarray(matrix, dtype=dtype)
        self.n = self.capacity = self.store.shape[0]
        self.threads = threads

    def fetch(self, indices: np.ndarray) -> np.ndarray:
        """Slots of the columns ``indices`` in ``store``."""
        return indices

    def slots(self, indices: np.ndarray) -> np.ndarray:
        """Slots of the columns, -1 for those that are not there and need not be."""
        return self.fetch(indices)

    def write_rows(
        self, rows: np.ndarray, others: np.ndarray, into: np.ndarray, out: np.ndarray
    ) -> None:
        """Compute ``K[rows, others]`` and write it to the rows ``into`` of ``out``."""
        out[into, : others.size] = self.store[np.ix_(rows, others)]

    def add(
        self, image: np.ndarray, indices: np.ndarray, coef: np.ndarray, again: np.ndarray | None
    ) -> None:
        """Add ``K[:, indices] @ coef`` to ``image``.

        ``again`` says of which columns to expect that they are asked for again; None of none.
        """
        add_columns(image, self, indices, coef)

    def add_to(
        self, image: np.ndarray, rows: np.ndarray, indices: np.ndarray, coef: np.ndarray
    ) -> None:
        """Add ``K[rows, indices] @ coef`` to ``image`` on some rows."""
        image[rows] += self.image(rows, indices, coef)

    def image(self, rows: np.ndarray, columns: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Product ``K[rows, columns] @ coef`` in double precision."""
        return self.store[np.ix_(rows, columns)].astype(np.float64, copy=False) @ coef

    def rounding(self, columns: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Bound, row by row, on the error of ``K[:, columns] @ coef`` from the cache."""
        return rounding_bound(self.store.diagonal(), columns, coef, UNIT)

    def own_image(self, rows: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Product ``K[rows, rows] @ coef`` in double precision."""
        return self.image(rows, rows, coef)

    def expand(
        self,
        coef: np.ndarray,
        image: np.ndarray,
        matter: Callable[[float], np.ndarray] | None,
    ) -> Expansion:
        """Evaluate a solution in double precision.

        Parameters
        ----------
        coef : ndarray of shape (n,)
            Coefficients.
        image : ndarray of shape (n,)
            Their image by the cached columns.
        matter : callable or None
            Tells, for the largest rounding of ``image`` on rows with a coefficient, which other
            rows have values that matter; None if all have.
        """
        support = np.flatnonzero(coef)
        # The matrix as it is: a product with doubles would first copy it to doubles.
        fresh = np.zeros(self.n)
        add_columns(fresh, self, support, coef[support])
        return Expansion.of(coef, fresh, self.rounding(support, coef[support]))

    def offset(self, coef: np.ndarray, direction: np.ndarray | None = None) -> float:
        """What outputs with these columns lack of those with the kernel itself.

        A constant for ``Σ coef = 0``: the columns may be those of shifted rows. ``direction`` is
        the weight vector of a linear kernel, if known.
        """
        return 0.0

    def release(self) -> None:
        """Leave the memory of the columns to the next problem that shares rows with this one."""
        return

    def promoted(self) -> ExplicitColumns:
        """Columns in double precision, which from now on are also the :attr:`latest`."""
        return self

    @property
    def latest(self) -> ExplicitColumns:
        """The promoted columns where there are some, else these."""
        return self

    def restricted(self, rows: np.ndarray) -> ExplicitColumns:
        """Columns of the principal block of some rows."""
        return ExplicitColumns(self.store[np.ix_(rows, rows)], self.threads)


# What solvers take: a matrix in memory, or columns that are computed on demand.
SymmetricColumns = ExplicitColumns


def rounding_bound(
    diagonal: np.ndarray, columns: np.ndarray, coef: np.ndarray, unit: float
) -> np.ndarray:
    """Bound on the error of products with a kernel matrix whose entries are off by a ``unit``.

    An entry is off by a unit of ``sqrt(K_ii K_jj)``; that the errors of the columns add up with
    random signs covers what a few units of round-off do not.
    """
    sizes = np.sqrt(np.abs(diagonal), dtype=np.float64)
    return unit * float(np.abs(coef) @ sizes[columns]) * sizes


def add_columns(
    image: np.ndarray, columns: SymmetricColumns, slots: np.ndarray, coef: np.ndarray
) -> None:
    """Add ``K[:, columns] @ coef`` to ``image`` in place, in double precision."""
    # The loop takes four columns at a time; the last ones count with weight zero.
    padding = -slots.size % 4
    slots = np.concatenate([slots, np.zeros(padding, dtype=slots.dtype)])
    coef = np.concatenate([coef, np.zeros(padding)])

    def strips(start: int, stop: int) -> None:
        for first, last in chunks(stop - start, _STRIP):
            _add_columns(image, columns.store, slots, coef, start + first, start + last)

    share = even_share(columns.n, slots.size, columns.threads)
    run_chunks(strips, columns.n, share, columns.threads, blas=False)


@compiled
def _add_columns(image, store, slots, coef, start, stop):
    out = image[start:stop]
    for k in range(0, slots.size, 4):
        first, second = store[slots[k], start:stop], store[slots[k + 1], start:stop]
        third, fourth = store[slots[k + 2], start:stop], store[slots[k + 3], start:stop]
        a, b, c, d = coef[k], coef[k + 1], coef[k + 2], coef[k + 3]
        for i in range(out.size):
            out[i] += a * first[i] + b * second[i] + c * third[i] + d * fourth[i]
