"""Slow, independent reference for the linear margin problems.

The problems are stated to cvxpy in the weights themselves, as the paper states them (Shivaswamy &
Jebara, JMLR 2010, equations 4, 11, 14 and 15), and Clarabel solves them to about eleven digits.
"""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_CLARABEL = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11, "max_iter": 500}


@dataclass(frozen=True)
class LinearReference:
    """Optimal value, weights, bias and bound of one reference problem."""

    objective: float
    coef: Array
    bias: float
    t: float


def solve_linear(
    X: Array,
    y: Array,
    C: Array,
    B: float = np.inf,
    D: float | None = None,
    U: Array | None = None,
    intercept: bool = True,
) -> LinearReference:
    """Solve min ½‖w‖² + ΣC[1 − yf]₊ + Dt + ΣU[|f| − t]₊ with t = B or t ≥ 1."""
    w = cp.Variable(X.shape[1])
    b = cp.Variable() if intercept else cp.Constant(0.0)
    f = X @ w + b
    value = cp.sum_squares(w) / 2 + C @ cp.pos(1 - cp.multiply(y, f))
    t = cp.Constant(B)
    constraints = []
    if D is not None:
        t = cp.Variable()
        value += D * t
        constraints.append(t >= 1)
        if U is not None:
            value += U @ cp.pos(cp.abs(f) - t)
    if (D is not None and U is None) or (D is None and np.isfinite(B)):
        constraints += [f <= t, f >= -t]
    problem = cp.Problem(cp.Minimize(value), constraints)
    problem.solve(solver=cp.CLARABEL, **_CLARABEL)
    if problem.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        raise RuntimeError(f"the reference solver ended with status {problem.status}")
    return LinearReference(float(problem.value), w.value, float(b.value), float(t.value))
