"""Slow references for the ellipsoidal kernel machine, the widest street and the smallest ball."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_CLARABEL = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}


def minimum_volume_ellipsoid(X: Array) -> tuple[Array, Array]:
    """Centre and matrix by problem (3): minimise ``-ln|A|`` with ``|A x_i - b| <= 1``.

    With the matrix ``A^-2``: the paper's table 1 prints another power.
    """
    # The conic solver wants round data; volumes do not mind.
    mean, root = X.mean(axis=0), np.linalg.cholesky(np.atleast_2d(np.cov(X.T)))
    A, b = cp.Variable((X.shape[1],) * 2, PSD=True), cp.Variable(X.shape[1])
    inside = [cp.norm(A @ z - b) <= 1 for z in np.linalg.solve(root, (X - mean).T).T]
    cp.Problem(cp.Maximize(cp.log_det(A)), inside).solve(solver=cp.CLARABEL)
    inverse = root @ np.linalg.inv(A.value)
    return mean + inverse @ b.value, inverse @ inverse.T


def ridged_ellipsoid(X: Array, ridge: float, cap: float) -> Array:
    """Matrix of the ellipsoid around the origin by problem (7) with a ridge on its diagonal."""
    g = cp.Variable(len(X), nonneg=True)
    moments = ridge * np.eye(X.shape[1]) + X.T @ cp.diag(g) @ X
    limits = [g <= cap] if np.isfinite(cap) else []
    cp.Problem(cp.Maximize(cp.log_det(moments) - cp.sum(g)), limits).solve(solver=cp.CLARABEL)
    return moments.value


def ellipsoidal_machine(
    X: Array, y: Array, C: Array, center: Array, shape: Array
) -> tuple[float, Array, float]:
    """Objective, weight vector and bias of problem (5), stated as printed."""
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    root = np.linalg.cholesky(shape)
    hinge = cp.pos(1 - cp.multiply(y, (X - center) @ w + b))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(root.T @ w) + C @ hinge))
    problem.solve(solver=cp.CLARABEL, **_CLARABEL)
    return float(problem.value), w.value, float(b.value) - float(w.value @ center)


def widest_street(X: Array, y: Array) -> float:
    """Width of the widest street between two classes."""
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    problem = cp.Problem(cp.Minimize(cp.norm(w)), [cp.multiply(y, X @ w + b) >= 1])
    problem.solve(solver=cp.CLARABEL, **_CLARABEL)
    return 2.0 / float(problem.value)


def enclosing_ball(X: Array) -> tuple[Array, float]:
    """Centre and radius of the smallest ball around the rows."""
    c, r = cp.Variable(X.shape[1]), cp.Variable()
    problem = cp.Problem(cp.Minimize(r), [cp.norm(x - c) <= r for x in X])
    problem.solve(solver=cp.CLARABEL, **_CLARABEL)
    return c.value, float(problem.value)
