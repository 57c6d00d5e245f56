"""Slow references for the Σ-SVM and the machine with a Universum, in explicit features."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_CLARABEL = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


def mean_and_covariance(F: Array, weights: Array | None = None) -> tuple[Array, Array]:
    """Weighted mean and covariance of the rows, divided by the sum of the weights."""
    p = np.full(len(F), 1 / len(F)) if weights is None else weights / weights.sum()
    mean = p @ F
    return mean, (F - mean).T @ np.diag(p) @ (F - mean)


def sigma_svm(
    F: Array, y: Array, C: Array, D: float, weights: Array | None = None
) -> tuple[float, Array, float]:
    """Objective, weight vector and bias of equation (6), stated as printed."""
    mean, covariance = mean_and_covariance(F, weights)
    root = np.linalg.cholesky(covariance + 1e-15 * np.eye(F.shape[1]))
    w, b = cp.Variable(F.shape[1]), cp.Variable()
    hinge = cp.pos(1 - cp.multiply(y, (F - mean) @ w + b))
    spread = cp.sum_squares(root.T @ w)
    objective = 0.5 * (1 - D) * cp.sum_squares(w) + 0.5 * D * spread + C @ hinge
    problem = cp.Problem(cp.Minimize(objective))
    problem.solve(solver=cp.CLARABEL, **_CLARABEL)
    return float(problem.value), w.value, float(b.value)


def universum_svm(
    F: Array, y: Array, C: Array, U: Array, C_universum: float, epsilon: float
) -> tuple[float, Array, float]:
    """Objective, weight vector and bias of the machine with Universum points ``U``."""
    w, b = cp.Variable(F.shape[1]), cp.Variable()
    hinge = cp.pos(1 - cp.multiply(y, F @ w + b))
    tube = cp.pos(cp.abs(U @ w + b) - epsilon)
    objective = 0.5 * cp.sum_squares(w) + C @ hinge + C_universum * cp.sum(tube)
    problem = cp.Problem(cp.Minimize(objective))
    problem.solve(solver=cp.CLARABEL, **_CLARABEL)
    return float(problem.value), w.value, float(b.value)
