"""The widest street between two classes, with a certificate.

::

    min_{w,b}  ½|w|²    subject to  y_i (w·x_i + b) >= 1

The street has the width ``2 / |w|``, the distance of the convex hulls of the classes: two points
of the hulls bound it from above, and any ``w`` that separates the rows bounds it from below.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from oblong.solvers.margin.scaled import solve_scaled_margin

# A street narrower than this fraction of the data's extent is round-off.
_NOTHING = 1e-10


@dataclass(frozen=True)
class HardMarginResult:
    """The widest street.

    Attributes
    ----------
    coef : ndarray of shape (d,)
        Weight vector ``w``; zero if nothing separates the rows.
    bias : float
        The bias ``b``.
    margin : float
        Width of the street of ``(coef, bias)``, which no row is in; zero if there is none.
    upper_bound : float
        Distance of two points of the hulls: no street is wider.
    n_iter : int
        Steps.
    status : {"converged", "inseparable"}
        Whether there is a street.
    """

    coef: np.ndarray
    bias: float
    margin: float
    upper_bound: float
    n_iter: int
    status: str

    @property
    def objective(self) -> float:
        """``½|w|²``, infinite if nothing separates the rows."""
        return 2.0 / self.margin**2 if self.margin > 0.0 else np.inf

    @property
    def gap(self) -> float:
        """Upper bound minus margin, relative to the upper bound."""
        return 1.0 - self.margin / self.upper_bound if self.upper_bound > 0.0 else 0.0


def solve_hard_margin(X: np.ndarray, y: np.ndarray, *, tol: float = 1e-10) -> HardMarginResult:
    """Find the widest street between the rows of two classes.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows.
    y : ndarray of shape (n,)
        Labels, -1 or +1, of both kinds.
    tol : float, default=1e-10
        Largest violation of the optimality conditions.

    Returns
    -------
    HardMarginResult
        The street and its certificate.
    """
    origin = X.mean(axis=0, dtype=np.float64)
    rows = X - origin
    scale = float(np.sqrt(np.einsum("ij,ij->i", rows, rows).max()))
    nothing = HardMarginResult(np.zeros(X.shape[1]), 0.0, 0.0, 0.0, 0, "inseparable")
    if scale == 0.0 or not _separable(rows / scale, y):
        return nothing
    rows /= scale
    # The street is twice as wide as the margin in units that are all the same.
    found = solve_scaled_margin(rows, y, np.ones(len(y)), tol=tol)
    if found.margin <= 0.0:
        return nothing
    w = found.w / (found.margin * scale)
    bias = found.b / found.margin - float(w @ origin)
    margins = (2.0 * found.margin * scale, 2.0 * found.upper_bound * scale)
    return HardMarginResult(w, bias, *margins, found.n_iter, "converged")


def _separable(rows: np.ndarray, y: np.ndarray) -> bool:
    """Whether some hyperplane keeps the classes apart, by a linear program."""
    n, d = rows.shape
    signed = y[:, None] * np.column_stack([rows, np.ones(n)])
    # Maximise r with y (w·x + b) >= r and |w|_∞ <= 1.
    result = linprog(
        np.append(np.zeros(d + 1), -1.0),
        A_ub=np.column_stack([-signed, np.ones(n)]),
        b_ub=np.zeros(n),
        bounds=[(-1.0, 1.0)] * d + [(None, None), (None, 2.0)],
        method="highs",
    )
    return result.status == 0 and -result.fun > _NOTHING
