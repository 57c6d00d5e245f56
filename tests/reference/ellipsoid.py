"""Ellipsoids of least volume by a general convex solver."""

from __future__ import annotations

import cvxpy as cp
import numpy as np


def design_value(X, *, kappa=np.inf, weights=None, center=True):
    """Largest ``ln|Σ u_i z_i z_i'|`` with ``Σ u_i = 1`` and ``u_i <= κ ω_i``, and the weights."""
    Z = np.column_stack([X, np.ones(len(X))]) if center else X
    weights = np.ones(len(X)) if weights is None else weights
    u = cp.Variable(len(X), nonneg=True)
    constraints = [cp.sum(u) == 1]
    if np.isfinite(kappa):
        constraints.append(u <= kappa * weights)
    problem = cp.Problem(cp.Maximize(cp.log_det(Z.T @ cp.diag(u) @ Z)), constraints)
    problem.solve(solver=cp.CLARABEL)
    return problem.value, u.value


def ellipsoid(X, *, E=np.inf, weights=None, center=True, ridge=0.0):
    """Centre and matrix ``B`` of ``-ln|B| + ridge tr B + 2 E Σ ω_i ξ_i`` at its minimum.

    Rows have ``(x - μ)'B(x - μ) <= 1 + ξ``, without ``ξ`` if ``E`` is infinite. ``B`` is the
    inverse of ``Σ + ridge I``.
    """
    n, d = X.shape
    weights = np.ones(n) if weights is None else weights
    A, b = cp.Variable((d, d), PSD=True), cp.Variable(d)
    shift = np.ones((n, 1)) @ cp.reshape(b, (1, d), order="C")
    image = X @ A - shift if center else X @ A
    squares = cp.sum(cp.square(image), axis=1)
    objective = -2 * cp.log_det(A)
    if ridge:
        # Entries as a vector: cvxpy 1.6 finds a worse optimum for a sum of squares of a matrix.
        objective += ridge * cp.sum_squares(cp.vec(A, order="F"))
    if np.isfinite(E):
        xi = cp.Variable(n, nonneg=True)
        objective += 2 * E * cp.sum(cp.multiply(weights, xi))
        constraints = [squares <= 1 + xi]
    else:
        constraints = [squares[weights > 0] <= 1]
    cp.Problem(cp.Minimize(objective), constraints).solve(solver=cp.CLARABEL)
    mean = np.linalg.solve(A.value, b.value) if center else np.zeros(d)
    return mean, A.value @ A.value
