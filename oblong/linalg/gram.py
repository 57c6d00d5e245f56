"""Gram matrices summed over chunks of rows, and systems with them."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np
from scipy.linalg.blas import dsymv, dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs

from oblong._core.threads import released_blas

# Columns up to which a sum of whole matrices costs nothing next to the products.
_NARROW = 512


def lower_gram(X: np.ndarray, scale: float = 1.0, add_to: np.ndarray | None = None) -> np.ndarray:
    """Lower triangle of ``scale X X'`` in Fortran's order, added in place to ``add_to``.

    BLAS reports operands without entries, which are nothing to it, on standard output.
    """
    rows = len(X)
    if X.size == 0:
        return np.zeros((rows, rows), order="F") if add_to is None else add_to
    options: dict[str, Any] = {}
    if add_to is not None:
        options = {"beta": 1.0, "c": add_to, "overwrite_c": 1}
    # The order that BLAS wants, so that nothing is copied.
    by_rows = not X.flags.f_contiguous
    return dsyrk(scale, X.T if by_rows else X, trans=by_rows, lower=1, **options)


class OrderedSum:
    """Sum of arrays by their numbers, in whatever order threads finish.

    Parameters
    ----------
    total : ndarray
        What the arrays with the numbers 0, 1, 2 and so on are added to, in place.
    """

    def __init__(self, total: np.ndarray) -> None:
        self.total = total
        self._early: dict[int, np.ndarray | float] = {}
        self._next = 0
        self._lock = Lock()

    def add(self, value: np.ndarray | float, number: int) -> None:
        """Add an array, or keep it until those before it are there."""
        with self._lock:
            self._early[number] = value
            while self._next in self._early:
                self.total += self._early.pop(self._next)
                self._next += 1


class GramSum:
    """Sum of Gram matrices ``X'X`` of chunks of rows, by their numbers.

    Parameters
    ----------
    d : int
        Number of columns.
    """

    def __init__(self, d: int) -> None:
        self._sum = OrderedSum(np.zeros((d, d), order="F"))

    def add(self, X: np.ndarray, number: int) -> None:
        """Add the Gram matrix of a chunk, a C-contiguous array in double precision."""
        if X.shape[1] > _NARROW:
            # In place; the upper triangle in Fortran's order is C's lower one.
            with released_blas(X.shape[1]):
                dsyrk(1.0, X.T, beta=1.0, c=self._sum.total, overwrite_c=1)
            return
        # NumPy's product lets other threads run meanwhile, SciPy's does not.
        self._sum.add(X.T @ X, number)

    def total(self) -> np.ndarray:
        """Return the sum, of which only the lower triangle is sure to be filled in."""
        return self._sum.total.T


def factored(matrix: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
    """Factor the lower triangle of a positive definite matrix; return the solver.

    The scale of the columns is taken out first, and one step of refinement makes up for what
    late, badly conditioned systems lose.
    """
    diagonal = matrix.diagonal()
    if not (np.isfinite(matrix).all() and (diagonal > 0.0).all()):
        return None
    scale = 1.0 / np.sqrt(diagonal)
    scaled = matrix * scale[:, None] * scale
    for ridge in (0.0, 1e-15, 1e-13, 1e-11, 1e-9):
        trial = scaled.copy()
        trial.flat[:: len(trial) + 1] += ridge
        # The lower triangle in C's order is the upper one in Fortran's.
        with released_blas(len(trial)):
            factor, failed = dpotrf(trial.T, lower=False, clean=False, overwrite_a=True)
        if not failed:
            break
    else:
        return None

    def solve(rhs: np.ndarray) -> np.ndarray:
        target = scale * rhs
        x = dpotrs(factor, target, lower=False)[0]
        x += dpotrs(factor, target - dsymv(1.0, scaled.T, x), lower=False)[0]
        return scale * x

    return solve
