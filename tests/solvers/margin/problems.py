"""Small margin problems shared by the solver tests."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.grid import STATUS, GridResult
from oblong.solvers.margin.problem import Pieces, relative_margin_pieces, svm_pieces
from oblong.solvers.margin.solver import MarginResult, solve_margin
from tests.reference.margin import kernel_matrix, piece_values, slope_interval

Array = NDArray[np.float64]

KERNELS = ("linear", "poly", "rbf")
TOL = 1e-6


class Problem(NamedTuple):
    """A binary problem: kernel matrix, labels in {−1, +1}, penalties per row and the bound."""

    K: Array
    y: Array
    C: Array
    B: float

    @property
    def pieces(self) -> Pieces:
        if np.isinf(self.B):
            return svm_pieces(self.y, self.C)
        return relative_margin_pieces(self.y, self.C, self.B)


def make_problem(
    kernel: str,
    n: int,
    C: float,
    B: float,
    *,
    positive: float = 0.5,
    conflicts: bool = False,
    seed: int = 0,
    d: int = 4,
) -> Problem:
    """Draw two overlapping clouds; ``conflicts`` repeats rows under the opposite label."""
    rng = np.random.default_rng(seed)
    n_positive = min(max(1, round(positive * n)), n - 1)
    y = np.where(np.arange(n) < n_positive, 1.0, -1.0)
    X = rng.normal(size=(n, d)) + 0.7 * y[:, None]
    if conflicts:
        repeated = min(n_positive, n - n_positive, max(1, n // 8))
        X[-repeated:] = X[:repeated]
    order = rng.permutation(n)
    X, y = X[order], y[order]
    return Problem(kernel_matrix(X, X, kernel), y, np.full(n, C), B)


def solve(problem: Problem, **options) -> MarginResult:
    return solve_matrix(problem.K, problem.pieces, **options)


def solve_matrix(K: Array, pieces: Pieces, **options) -> MarginResult:
    return solve_margin(KernelMatrix(K), pieces, **options)


def bias_interval(K: Array, pieces: Pieces, c: Array) -> tuple[float, float]:
    """Recompute [m, M] = [max(R − u), min(L − u)] from the coefficients alone."""
    right, left = slope_interval(c, pieces.breakpoints, pieces.slopes)
    u = K @ c
    return float(np.max(right - u)), float(np.min(left - u))


def dual_value(K: Array, pieces: Pieces, c: Array) -> float:
    return float(np.sum(piece_values(c, pieces.breakpoints, pieces.slopes)) - c @ K @ c / 2)


def primal_value(problem: Problem, c: Array, b: float) -> float:
    """Value of ½‖w‖² + ΣC[1 − yf]₊ at (c, b), scaled into |f| ≤ B first."""
    u = problem.K @ c
    f = u + b
    scale = 1.0 / max(1.0, np.abs(f).max() / problem.B)
    hinge = np.maximum(1 - scale * problem.y * f, 0)
    return float(scale**2 * (c @ u) / 2 + problem.C @ hinge)


def wide_terms(c: Array, pieces: Pieces) -> Array:
    """Terms g(c) in long double."""
    c, values = np.asarray(c, dtype=np.longdouble), np.zeros(len(c), dtype=np.longdouble)
    p, s = (part.astype(np.longdouble) for part in pieces)
    zero = np.zeros_like(c)
    for k in range(3):
        length = np.clip(c, p[:, k], p[:, k + 1]) - np.clip(zero, p[:, k], p[:, k + 1])
        values += np.where(length == 0, 0, s[:, k] * np.where(length == 0, 0, length))
    return values


def wide_losses(f: Array, pieces: Pieces) -> Array:
    """Losses h(f) = max over the finite breakpoints of g(p) - p f, in long double."""
    losses = np.full(len(f), -np.inf, dtype=np.longdouble)
    for p in pieces.breakpoints.T:
        finite = np.isfinite(p)
        at = np.where(finite, p, 0.0)
        value = wide_terms(at, pieces) - at.astype(np.longdouble) * f
        losses = np.where(finite, np.maximum(losses, value), losses)
    return losses


def check_certificate(
    found: GridResult,
    K: Array,
    pieces: Pieces,
    *,
    g: int = 0,
    k: int = -1,
    rows: Array | None = None,
    optimum: float | None = None,
    converged: bool = True,
) -> None:
    """Assert, in long double, that a solution of a grid is what its certificate says.

    The coefficients are feasible and meet the optimality conditions, the objectives are those of
    the dual point and of the model up to the rounding that is stated, and the optimum is between.
    With ``rows`` the kernel is linear, and the model is its weight vector.
    """
    values, groups = found.values[g, k], found.groups
    c, split, sums = found.coefs[g][k], int(groups.splits[g]), groups.sums[g]
    p, n = pieces.breakpoints, len(c)
    total_weight = np.abs(c).sum() + np.abs(sums).sum() + 1e-300
    parts = [slice(0, split), slice(split, n)][: 1 if split == n else 2]
    K = np.asarray(K, dtype=np.longdouble)
    u = model = K @ c.astype(np.longdouble)
    norm = model_norm = (c * u).sum()
    if rows is not None:
        # Their products alone would lose the digits that large coefficients cancel.
        rows = rows.astype(np.longdouble)
        exact = rows.T @ c.astype(np.longdouble)
        weights = found.weights[g, k].astype(np.longdouble)
        u, norm = rows @ exact, exact @ exact
        if values["scale"] > 0.0:
            weights /= values["scale"]
        model, model_norm = rows @ weights, weights @ weights
    right, left = slope_interval(c, *pieces)
    assert np.all((p[:, 0] <= c) & (c <= p[:, 3]))
    violation, linear = -np.inf, np.longdouble(0)
    f = np.zeros(n, dtype=np.longdouble)
    for part, total, bias in zip(parts, sums, (found.bias[g, k], values["bias2"])):
        assert abs(c[part].sum() - total) <= 1e-11 * total_weight
        violation = max(violation, float((right - u)[part].max() - (left - u)[part].min()))
        f[part] = values["scale"] * model[part] + bias
        linear += np.longdouble(total) * bias
    rounding, tol = float(values["rounding"]), float(found.variants["tol"][k])
    assert rounding >= 0.0
    sizes = np.sqrt(np.abs(np.diagonal(K))).astype(float)
    hidden = 1e-13 * (np.abs(c) @ sizes) * sizes.max()
    if converged:
        assert STATUS[values["status"]] == "converged"
        assert violation <= tol * (1 + 1e-6) + hidden
    for end, slope, sign in ((p[:, 0], pieces.slopes[:, 0], 1), (p[:, 3], pieces.slopes[:, 2], -1)):
        hard = np.isinf(end)
        assert np.all(sign * f[hard] <= sign * slope[hard] + 1e-12 * np.abs(slope[hard]))
    dual = wide_terms(c, pieces).sum() - norm / 2
    primal = values["scale"] ** 2 * model_norm / 2 + wide_losses(f, pieces).sum() + linear
    # Both objectives are what they claim, and rounding goes no further than it says, but for that
    # of the sums over all rows.
    slack = 1e-15 * np.sqrt(n) * float(abs(values["objective"]) + norm)
    blur = 20.0 * rounding + slack
    assert primal <= values["objective"] + rounding + slack
    assert abs(primal - values["objective"]) <= blur
    if values["dual_objective"] != 0.0:
        assert dual >= values["dual_objective"] - rounding - slack
        assert abs(dual - values["dual_objective"]) <= blur
    if optimum is not None:
        # The reference has about nine digits.
        digits = 1e-7 * abs(optimum) + 1e-9
        assert values["dual_objective"] - rounding <= optimum + digits
        assert optimum <= values["objective"] + rounding + digits
