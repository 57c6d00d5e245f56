"""Small margin problems shared by the solver tests."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oblong.linalg.kernel_matrix import KernelMatrix
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
