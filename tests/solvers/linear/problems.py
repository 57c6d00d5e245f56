"""Small linear margin problems shared by the tests of the linear solvers."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from oblong.solvers.linear.problem import LinearProblem, LinearRows
from tests.reference.linear import LinearReference, solve_linear

FORMS = {
    "svm": {},
    "B": {"B": 1.3},
    "tight B": {"B": 1.0},
    "D": {"D": 3.0},
    "large D": {"D": 1e4},
    "relaxed": {"D": 3.0, "nu": 5.0},
    "relaxed, nu below one": {"D": 3.0, "nu": 0.5},
    "no intercept": {"B": 1.3, "intercept": False},
    "no intercept, D": {"D": 3.0, "intercept": False},
}


def cloud(
    n: int, d: int, seed: int = 0, positive: float = 0.5, shift: float = 2.0
) -> tuple[np.ndarray, np.ndarray]:
    """Draw two overlapping clouds away from the origin."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) < min(n - 1, max(1, round(positive * n))), 1.0, -1.0)
    return rng.normal(size=(n, d)) + 0.5 * y[:, None] + shift, y


def make(
    X: np.ndarray, y: np.ndarray, C: np.ndarray | float, form: dict, *, sparse: bool = False
) -> LinearProblem:
    """State a problem in one of the forms."""
    options = settled(form, len(y))
    centred = options.get("intercept", True) and not sparse
    rows = LinearRows(sp.csr_array(X) if sparse else X, centred=centred)
    return LinearProblem(rows, y, np.broadcast_to(C, y.shape).astype(float), **options)


def reference(X: np.ndarray, y: np.ndarray, C: np.ndarray | float, form: dict) -> LinearReference:
    """Solve it with cvxpy."""
    return solve_linear(X, y, np.broadcast_to(C, y.shape).astype(float), **settled(form, len(y)))


def settled(form: dict, n: int) -> dict:
    """Turn ``nu`` into prices."""
    options = dict(form)
    nu = options.pop("nu", None)
    if nu is not None:
        options["U"] = np.full(n, options["D"] * nu / n)
    return options


def primal_value(problem: LinearProblem, X: np.ndarray, w: np.ndarray, b: float, t: float) -> float:
    """Value of the primal objective, from its definition; infinite outside a hard bound."""
    f = X @ w + b
    value = 0.5 * w @ w + problem.C @ np.maximum(1 - problem.y * f, 0)
    beyond = np.maximum(np.abs(f) - t, 0)
    if problem.D is not None:
        value += problem.D * t
    if problem.U is not None:
        return float(value + problem.U @ beyond)
    hard = problem.D is not None or np.isfinite(problem.B)
    return float(value) if not hard or beyond.max() <= 1e-9 * t else np.inf


def dual_value(problem: LinearProblem, X: np.ndarray, c: np.ndarray) -> float:
    """Value of the dual objective, from its definition; minus infinity outside its domain."""
    a = problem.y * c
    alpha = np.clip(a, 0, problem.C)
    e = np.abs(a - alpha)
    scale = np.abs(c).sum() + 1e-300
    feasible = not problem.intercept or abs(c.sum()) <= 1e-12 * scale
    w = X.T @ c
    value = alpha.sum() - 0.5 * w @ w
    if problem.D is not None:
        feasible &= e.sum() <= problem.D * (1 + 1e-12)
        value += problem.D - e.sum()
        if problem.U is not None:
            feasible &= bool(np.all(e <= problem.U * (1 + 1e-12)))
    elif np.isfinite(problem.B):
        value -= problem.B * e.sum()
    else:
        feasible &= bool(np.all(e <= 1e-12 * problem.C))
    return float(value) if feasible else -np.inf
