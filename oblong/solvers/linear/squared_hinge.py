"""The linear support vector machine with the squared hinge loss.

    min_w  P(w) = ½|w|² + Σ C_i [1 - y_i w·x_i]_+²

is smooth and piecewise quadratic: Newton's method on the rows that have a loss, with a line search,
finds the minimum in a few steps (Keerthi and DeCoste, "A Modified Finite Newton Method for Fast
Solution of Large Scale Linear SVMs", JMLR 6, 2005). With the dual point ``a_i = 2 C_i [1 - y_i
w·x_i]_+`` the duality gap is half the squared length of the gradient, which proves how far
``w`` is from the minimum: ``|w - w*|² <= 2 gap``. What rounding may hide in the gradient is part
of that length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve, qr
from scipy.optimize import brentq
from scipy.sparse.linalg import LinearOperator, cg

from oblong._core.threads import chunks
from oblong.linalg.feature_map import row_norms

# Columns up to which the Newton system is factored rather than solved by conjugate gradients.
_FACTORED = 1000
# Least tolerance that rounding allows for.
_LEAST_TOL = 1e-10
_CHUNK = 4096
_ROUNDING = 4.0 * np.finfo(float).eps


@dataclass(frozen=True)
class SquaredHingeResult:
    """Solution of the squared hinge problem.

    Attributes
    ----------
    coef : ndarray of shape (d,)
        The weight vector.
    objective : float
        Primal objective.
    gap : float
        Primal minus dual objective, rounding included.
    n_iter : int
        Newton steps.
    status : {"converged", "max_iter", "stalled"}
        Why the solver stopped.
    """

    coef: np.ndarray
    objective: float
    gap: float
    n_iter: int
    status: str

    @property
    def relative_gap(self) -> float:
        """The gap over the primal objective."""
        return self.gap / max(self.objective, np.finfo(float).tiny)


@np.errstate(over="ignore", invalid="ignore")
def solve_squared_hinge(
    X: Any, y: np.ndarray, C: np.ndarray, *, tol: float = 1e-4, max_iter: int = 1000
) -> SquaredHingeResult:
    """Minimise ``½|w|² + Σ C_i [1 - y_i w·x_i]_+²``.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        The rows.
    y : ndarray of shape (n,)
        Labels, -1 or +1.
    C : ndarray of shape (n,)
        Penalty of each row.
    tol : float, default=1e-4
        The relative duality gap is at most ``tol²``, so that the relative error of ``w`` is about
        ``tol``; with what rounding may hide, it is at most ``tol``.
    max_iter : int, default=1000
        Limit on Newton steps.

    Returns
    -------
    SquaredHingeResult
        The solution.
    """
    w = np.zeros(X.shape[1])
    margins = np.zeros(X.shape[0])
    objective, gradient = _evaluate(X, y, C, w, margins)
    tol, status = max(tol, _LEAST_TOL), "max_iter"
    n_iter = 0
    while True:
        gap = 0.5 * float(gradient @ gradient)
        if gap <= tol**2 * objective:
            status = "converged"
            break
        if n_iter >= max_iter:
            break
        step = _newton_step(X, C, margins, gradient)
        image = y * (X @ step)
        length = _step_length(C, w, step, margins, image)
        w = w + length * step
        n_iter += 1
        margins = y * (X @ w)
        previous = objective
        objective, gradient = _evaluate(X, y, C, w, margins)
        if not objective < previous and not 0.5 * float(gradient @ gradient) < 0.9 * gap:
            status = "stalled"
            break
    error = _rounding(C, w, margins, row_norms(X))
    gap = 0.5 * float(np.square(np.linalg.norm(gradient) + error))
    if status == "converged" and not gap <= tol * objective:
        status = "stalled"
    return SquaredHingeResult(w, objective, gap, n_iter, status)


def _evaluate(
    X: Any, y: np.ndarray, C: np.ndarray, w: np.ndarray, margins: np.ndarray
) -> tuple[float, np.ndarray]:
    """Objective and gradient."""
    loss = np.maximum(1.0 - margins, 0.0)
    objective = 0.5 * float(w @ w) + float(C @ loss**2)
    return objective, w - X.T @ (2.0 * C * loss * y)


def _rounding(C: np.ndarray, w: np.ndarray, margins: np.ndarray, norms: np.ndarray) -> float:
    """Rounding of the losses and of their sum in the gradient: errors of either sign add up."""
    loss = np.maximum(1.0 - margins, 0.0)
    errors = np.sqrt(w.size) * (1.0 + norms * np.linalg.norm(w)) + np.sqrt(loss.size) * loss
    return float(_ROUNDING * np.linalg.norm(np.where(loss > 0.0, 2.0 * C * norms * errors, 0.0)))


def _newton_step(X: Any, C: np.ndarray, margins: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Solve with the generalised Hessian, ``I + 2 Σ C_i x_i x_i'`` over the rows with a loss."""
    active = np.flatnonzero(margins < 1.0)
    rows, scale = X[active], 2.0 * C[active]
    d = gradient.size
    if d <= _FACTORED:
        weighted = rows.multiply(scale[:, None]).tocsr() if sp.issparse(rows) else None
        hessian = (
            (rows.T @ weighted).toarray()
            if weighted is not None
            else rows.T @ (rows * scale[:, None])
        )
        hessian[np.diag_indices(d)] += 1.0
        if not np.isfinite(hessian).all():
            raise ValueError("the squared norms of the rows are not finite: scale the data")
        try:
            factor = cho_factor(hessian)
        except LinAlgError:
            factor = _root(rows, scale), False
        return -cho_solve(factor, gradient)
    product = LinearOperator((d, d), lambda v: v + rows.T @ (scale * (rows @ v)), dtype=float)
    # The steps get more exact as the gradient falls.
    size = float(np.linalg.norm(gradient))
    # The relative tolerance has another name in SciPy 1.11.
    return -cg(product, gradient, atol=min(0.1, np.sqrt(size)) * size, maxiter=500)[0]


def _root(rows: Any, scale: np.ndarray) -> np.ndarray:
    """Upper triangular root of the Hessian by rows, as squares of large entries leave no digits."""
    root = np.eye(rows.shape[1])
    for start, stop in chunks(rows.shape[0], _CHUNK):
        part = rows[start:stop]
        part = (part.toarray() if sp.issparse(part) else part) * np.sqrt(scale[start:stop, None])
        root = qr(np.vstack([root, part]), mode="r")[0][: root.shape[1]]
    return root


def _step_length(
    C: np.ndarray, w: np.ndarray, step: np.ndarray, margins: np.ndarray, image: np.ndarray
) -> float:
    """Where the derivative along the step, which is increasing, is zero."""
    linear, square = float(w @ step), float(step @ step)

    def slope(t: float) -> float:
        loss = np.maximum(1.0 - margins - t * image, 0.0)
        return linear + t * square - 2.0 * float((C * loss) @ image)

    at_one = slope(1.0)
    if abs(at_one) <= 1e-8 * abs(slope(0.0)):
        return 1.0
    low, high = (1.0, 2.0) if at_one < 0.0 else (0.0, 1.0)
    while slope(high) < 0.0 and high < 1e6:
        low, high = high, 2.0 * high
    if slope(low) >= 0.0 or slope(high) <= 0.0:
        return low
    return brentq(slope, low, high)
