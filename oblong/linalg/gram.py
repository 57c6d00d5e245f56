"""Gram matrices summed over chunks of rows, and systems with them."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

import numpy as np
from scipy.linalg.blas import dsymv, dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs

__all__ = ["GramSum", "factored"]

# Columns up to which a sum of whole matrices costs nothing next to the products.
_NARROW = 512


class GramSum:
    """Sum of Gram matrices ``X'X``, kept once for each thread that is adding at a time.

    Parameters
    ----------
    d : int
        Number of columns.
    """

    def __init__(self, d: int) -> None:
        self.d = d
        self.free: list[np.ndarray] = []
        self.all: list[np.ndarray] = []
        self.lock = Lock()

    def add(self, X: np.ndarray) -> None:
        """Add the Gram matrix of some rows, a C-contiguous array in double precision."""
        with self.lock:
            gram = self.free.pop() if self.free else None
            if gram is None:
                gram = np.zeros((self.d, self.d), order="F")
                self.all.append(gram)
        if self.d <= _NARROW:
            # NumPy's product lets other threads run meanwhile, SciPy's does not.
            gram += X.T @ X
        else:
            # In place; the upper triangle in Fortran's order is the lower one in C's.
            dsyrk(1.0, X.T, beta=1.0, c=gram, overwrite_c=1)
        with self.lock:
            self.free.append(gram)

    def total(self) -> np.ndarray:
        """Return the sum, of which only the lower triangle is sure to be filled in."""
        return sum(self.all[1:], self.all[0]).T


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
