"""The quantities of the risk bounds as general convex programs, as printed in the paper."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_CLARABEL = {"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9}


def _solve(problem: cp.Problem) -> float:
    problem.solve(solver=cp.CLARABEL, **_CLARABEL)
    if problem.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        raise RuntimeError(f"the reference solver ended with status {problem.status}")
    return float(problem.value)


def complexity_rmm(X: Array, V: Array, D: float, E: float) -> float:
    """T2 of theorem 10, a minimum over the multipliers."""
    n, d = X.shape
    multipliers = cp.Variable(len(V), nonneg=True)
    M = (1 - D) * cp.sum(multipliers) * np.eye(d)
    M = M + D * (V.T @ cp.diag(multipliers) @ V)
    return _solve(
        cp.Problem(cp.Minimize((cp.matrix_frac(X.T, M) + 2 * E * cp.sum(multipliers)) / n))
    )


def margin(X: Array, sign: Array, V: Array, D: float, E: float, model: str) -> float:
    """Largest margin in one of the classes."""
    w, gamma = cp.Variable(X.shape[1]), cp.Variable()
    norm = (1 - D) * cp.sum_squares(w)
    if model == "sigma":
        size = [norm + D / len(V) * cp.sum_squares(V @ w) <= 2 * E]
    else:
        size = [norm + D * cp.square(v @ w) <= 2 * E for v in V]
    return _solve(cp.Problem(cp.Maximize(gamma), [cp.multiply(sign, X @ w) >= gamma, *size]))


def supremum(direction: Array, V: Array, D: float, E: float) -> float:
    """Largest ``w·direction`` in the class of the relative margin machine."""
    w = cp.Variable(V.shape[1])
    norm = (1 - D) * cp.sum_squares(w)
    size = [norm + D * cp.square(v @ w) <= 2 * E for v in V]
    return _solve(cp.Problem(cp.Maximize(direction @ w), size))
