"""The ellipsoidal support vector machine by a general convex solver."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_CLARABEL = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}


def ellipsoidal_svm(
    F: Array, y: Array, caps: Array, pi: Array, r: float, fit_intercept: bool = True
) -> tuple[float, Array, float, Array]:
    """Value, ``w``, ``b`` and ``B`` of the relaxed problem, eq. (6), stated as printed."""
    n, p = F.shape
    B, w, b = cp.Variable((p, p), symmetric=True), cp.Variable(p), cp.Variable()
    # Rows of φ φ', so that all the quadratic forms are one product.
    squares = (F[:, :, None] * F[:, None, :]).reshape(n, -1) * pi[:, None]
    side = cp.multiply(y, F @ w + b) - squares @ cp.reshape(B, (p * p,), order="C")
    objective = -r * cp.log_det(B) + (1 - r) * cp.trace(B)
    constraints = [cp.norm(w) <= 1]
    hard = ~np.isfinite(caps)
    if hard.any():
        constraints.append(side[hard] >= 0)
    if not hard.all():
        objective += caps[~hard] @ cp.pos(-side[~hard])
    if not fit_intercept:
        constraints.append(b == 0)
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver=cp.CLARABEL, **_CLARABEL)
    return float(problem.value), w.value, float(b.value), B.value
