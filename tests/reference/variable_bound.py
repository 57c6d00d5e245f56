"""Slow, independent reference for the relative margin machine that chooses its own bound.

The primal problems (14) and (15) of the paper (Shivaswamy & Jebara, "Maximum Relative Margin and
Data-Dependent Regularization", JMLR 2010) are stated to cvxpy as printed, with the sign
constraints on the slacks that (15) leaves out, and solved by Clarabel.
"""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from tests.reference.margin import _solve, factor

Array = NDArray[np.float64]


@dataclass(frozen=True)
class VariableBoundReference:
    """Optimal value, outputs f = w·φ + b on the training rows, ½‖w‖², bias and bound."""

    objective: float
    outputs: Array
    half_norm: float
    bias: float
    bound: float


def solve_variable_primal(
    K: Array, y: Array, C: Array, D: float, U: Array | None = None
) -> VariableBoundReference:
    """Solve min ½‖w‖² + ΣC_i[1 − y_i f_i]₊ + Dt + ΣU_i τ_i with |f_i| ≤ t + τ_i, t ≥ 1, τ ≥ 0.

    Without ``U`` there are no slacks τ: that is (14), with them (15).
    """
    F, n = factor(K), len(y)
    w, b, t = cp.Variable(F.shape[1]), cp.Variable(), cp.Variable()
    slack = cp.Variable(n, nonneg=True)
    f = F @ w + b
    objective = cp.sum_squares(w) / 2 + C @ slack + D * t
    if U is not None:
        upper, lower = cp.Variable(n, nonneg=True), cp.Variable(n, nonneg=True)
        objective = objective + U @ upper + U @ lower
        bounds = [f <= t + upper, -f <= t + lower]
    else:
        bounds = [f <= t, -f <= t]
    problem = cp.Problem(cp.Minimize(objective), [cp.multiply(y, f) >= 1 - slack, t >= 1, *bounds])
    _solve(problem)
    return VariableBoundReference(
        objective=float(problem.value),
        outputs=F @ w.value + b.value,
        half_norm=float(w.value @ w.value) / 2,
        bias=float(b.value),
        bound=float(t.value),
    )


def variable_objective(
    K: Array, y: Array, C: Array, D: float, U: Array | None, c: Array, b: float, t: float
) -> float:
    """Value of (14) or (15) at w = Σ c_i φ_i, b and t; infinite where they break (14)."""
    f = K @ c + b
    value = c @ K @ c / 2 + C @ np.maximum(1 - y * f, 0) + D * t
    over = np.maximum(np.abs(f) - t, 0)
    if t < 1 or (U is None and over.max() > 1e-9 * t):
        return np.inf
    return float(value + (0.0 if U is None else U @ over))


def variable_dual(
    K: Array, y: Array, C: Array, D: float, U: Array | None, c: Array, slack: float = 1e-12
) -> float:
    """Value of the dual at c; minus infinity where c breaks its constraints."""
    a = y * c
    alpha = np.clip(a, 0, C)
    excess = np.abs(a - alpha)
    scale = max(1.0, np.abs(c).max())
    if abs(c.sum()) > 1e-9 * scale or excess.sum() > D * (1 + slack):
        return -np.inf
    if U is not None and np.any(excess > U * (1 + slack) + slack * scale):
        return -np.inf
    return float(alpha.sum() - excess.sum() + D - c @ K @ c / 2)
