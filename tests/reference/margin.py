"""Slow, independent reference for the margin problems, solved by an interior-point method.

Nothing here uses the package: kernels are written out, the problems are stated to cvxpy as the
paper states them (Shivaswamy & Jebara, "Maximum Relative Margin and Data-Dependent
Regularization", JMLR 2010) and Clarabel solves them to about eleven digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Sums = Sequence[tuple[slice, float]]

_CLARABEL = {
    "tol_gap_abs": 1e-11,
    "tol_gap_rel": 1e-11,
    "tol_feas": 1e-11,
    "tol_ktratio": 1e-9,
    "max_iter": 500,
}
# Rounding in the kernel makes tiny eigenvalues meaningless.
_EIGENVALUE_FLOOR = 1e-14


@dataclass(frozen=True)
class Reference:
    """Solution of one reference problem.

    ``objective`` is the optimal value, ``coef`` the signed coefficients c, ``outputs`` the values
    f = Kc + b on the training rows and ``bias`` one optimal b.
    """

    objective: float
    coef: Array
    outputs: Array
    bias: float


def kernel_matrix(X: Array, Z: Array, name: str) -> Array:
    """Return a Gram matrix by the textbook formula, gamma = 1/(d var X) where one is needed."""
    gamma = 1.0 / (X.shape[1] * X.var())
    if name == "linear":
        return X @ Z.T
    if name == "poly":
        return (gamma * (X @ Z.T) + 1.0) ** 3
    if name == "rbf":
        distance = ((X[:, None, :] - Z[None, :, :]) ** 2).sum(-1)
        return np.exp(-gamma * distance)
    raise ValueError(name)


def factor(K: Array) -> Array:
    """Return F with K = F F', from an eigendecomposition."""
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    keep = values > _EIGENVALUE_FLOOR * max(values.max(), 0.0)
    return vectors[:, keep] * np.sqrt(values[keep])


def solve_primal(K: Array, y: Array, C: Array, B: float) -> Reference:
    """Solve the primal ½‖w‖² + Σ C_i [1 − y_i f_i]₊ with |f_i| ≤ B, w in the range of K."""
    F, n = factor(K), len(y)
    if F.shape[1] == 0:
        F = np.zeros((n, 1))
    w, b, slack = cp.Variable(F.shape[1]), cp.Variable(), cp.Variable(n, nonneg=True)
    f = F @ w + b
    hinge = cp.multiply(y, f) >= 1 - slack
    bounds = [f <= B, f >= -B] if np.isfinite(B) else []
    problem = cp.Problem(cp.Minimize(cp.sum_squares(w) / 2 + C @ slack), [hinge, *bounds])
    _solve(problem)
    coef = hinge.dual_value * y
    if bounds:
        coef = coef - bounds[0].dual_value + bounds[1].dual_value
    return Reference(float(problem.value), coef, F @ w.value + b.value, float(b.value))


def solve_regression_primal(
    K: Array,
    C: Array,
    loss: Callable[[cp.Expression], cp.Expression],
    bounds: tuple[float, float] | None = None,
) -> Reference:
    """Solve ½‖w‖² + Σ C_i loss(f)_i, with low ≤ f_i ≤ high if there are bounds."""
    F = factor(K)
    w, b = cp.Variable(F.shape[1]), cp.Variable()
    f = F @ w + b
    limits = [] if bounds is None else [f >= bounds[0], f <= bounds[1]]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(w) / 2 + C @ loss(f)), limits)
    _solve(problem)
    return Reference(
        float(problem.value), np.full(len(C), np.nan), F @ w.value + b.value, float(b.value)
    )


def solve_dual(K: Array, y: Array, C: Array, B: float) -> Reference:
    """Solve the dual in the multipliers of the paper: α of the hinge, λ and λ* of the two bounds.

    max Σα − B Σ(λ + λ*) − ½ c'Kc,  c = αy − λ + λ*,  Σc = 0,  0 ≤ α ≤ C,  λ, λ* ≥ 0.
    """
    F, n = factor(K), len(y)
    alpha = cp.Variable(n, nonneg=True)
    value, c, constraints = cp.sum(alpha), cp.multiply(alpha, y), [alpha <= C]
    if np.isfinite(B):
        upper, lower = cp.Variable(n, nonneg=True), cp.Variable(n, nonneg=True)
        value, c = value - B * cp.sum(upper + lower), c - upper + lower
    return _solve_in_coefficients(K, F, value, c, constraints)


def solve_pieces(
    K: Array, breakpoints: Array, slopes: Array, sums: Sums = ((slice(None), 0.0),)
) -> Reference:
    """Solve max Σ g_i(c_i) − ½ c'Kc, Σc = 0 for concave g_i given by breakpoints and slopes.

    ``sums`` are others: slices of the rows, each with the sum of its coefficients. The bias and the
    outputs are those of the first.
    """
    F, n = factor(K), len(K)
    c, v = cp.Variable(n), cp.Variable(n)
    constraints = [v[fixed] <= 0] if (fixed := _fixed_rows(breakpoints)).size else []
    for rows, slope, offset in _affine_pieces(breakpoints, slopes):
        if rows.size:
            constraints.append(v[rows] <= cp.multiply(slope, c[rows]) + offset)
    lower, upper = breakpoints[:, 0], breakpoints[:, 3]
    for bound, sign in ((lower, 1.0), (upper, -1.0)):
        rows = np.flatnonzero(np.isfinite(bound))
        if rows.size:
            constraints.append(sign * c[rows] >= sign * bound[rows])
    return _solve_in_coefficients(K, F, cp.sum(v), c, constraints, sums)


def _solve_in_coefficients(K, F, value, c, constraints, sums=((slice(None), 0.0),)) -> Reference:
    balance, *others = [cp.sum(c[rows]) == total for rows, total in sums]
    quadratic = cp.sum_squares(F.T @ c) / 2 if F.shape[1] else 0.0
    problem = cp.Problem(cp.Maximize(value - quadratic), [balance, *others, *constraints])
    _solve(problem)
    bias = float(np.asarray(balance.dual_value).squeeze())
    coef = np.asarray(c.value, dtype=float).ravel()
    return Reference(float(problem.value), coef, K @ coef + bias, bias)


def _solve(problem: cp.Problem) -> None:
    problem.solve(solver=cp.CLARABEL, **_CLARABEL)
    if problem.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        raise RuntimeError(f"the reference solver ended with status {problem.status}")


def _fixed_rows(breakpoints: Array) -> NDArray[np.intp]:
    return np.flatnonzero(breakpoints[:, 0] == breakpoints[:, 3])


def _affine_pieces(breakpoints: Array, slopes: Array):
    """Yield, for each of the three pieces, its rows, slopes and offsets; g is their minimum."""
    for k in range(3):
        rows = np.flatnonzero(breakpoints[:, k] < breakpoints[:, k + 1])
        anchor = breakpoints[rows, max(k, 1)]  # the outer breakpoints may be infinite
        slope = slopes[rows, k]
        offset = piece_values(anchor, breakpoints[rows], slopes[rows]) - slope * anchor
        yield rows, slope, offset


def piece_values(c: Array, breakpoints: Array, slopes: Array) -> Array:
    """Evaluate g_i(c_i), the integral of the slope from 0 to c_i; −∞ outside the domain."""
    values = np.zeros(len(c))
    for k in range(3):
        left, right = breakpoints[:, k], breakpoints[:, k + 1]
        length = np.clip(c, left, right) - np.clip(0.0, left, right)
        moved = length != 0  # a piece of no length may carry an infinite slope
        values[moved] += slopes[moved, k] * length[moved]
    return np.where((c < breakpoints[:, 0]) | (c > breakpoints[:, 3]), -np.inf, values)


def slope_interval(c: Array, breakpoints: Array, slopes: Array) -> tuple[Array, Array]:
    """Return the right and the left slope (R, L) of every g_i at c_i, by exact comparison."""
    right, left = np.full(len(c), -np.inf), np.full(len(c), np.inf)
    for i, value in enumerate(c):
        for k in range(3):
            p, q = breakpoints[i, k], breakpoints[i, k + 1]
            if p <= value < q:
                right[i] = slopes[i, k]
            if p < value <= q:
                left[i] = slopes[i, k]
    return right, left
