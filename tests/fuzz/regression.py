"""What regressors are worth, in long double."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.fuzz.evaluate import SLACK, KernelOf, Outcome, certificate, rounding
from tests.fuzz.exact import LD, Reference, longdouble
from tests.fuzz.problems import Problem


@dataclass(frozen=True)
class RegressionProblem:
    """``½|w|² + Σ C_i (above_i [y - f - ε]_+ + below_i [f - y - ε]_+)``, ``f`` within bounds."""

    y: np.ndarray
    C: np.ndarray
    epsilon: LD
    above: LD
    below: LD
    bounds: tuple[LD, LD] | None

    def losses(self, f: np.ndarray) -> np.ndarray:
        """The loss of each row."""
        over, under = self.y - f - self.epsilon, f - self.y - self.epsilon
        return self.C * (self.above * np.maximum(over, 0) + self.below * np.maximum(under, 0))

    def feasible(self, c: np.ndarray) -> np.ndarray:
        """The nearest obvious point of the dual domain."""
        if self.bounds is None:
            c = np.clip(c, -self.below * self.C, self.above * self.C)
        up, down = c[c > 0].sum(), -c[c < 0].sum()
        if up > down:
            return np.where(c > 0, c * (down / up), c)
        return np.where(c < 0, c * (up / down), c) if down > up else c

    def dual(self, c: np.ndarray, half_norm: LD) -> LD:
        """``Σ min_z (loss(z) + c z) - ½|w|²``: the least is at a breakpoint."""
        places = [self.y - self.epsilon, self.y + self.epsilon]
        if self.bounds is not None:
            low, high = self.bounds
            places = [np.clip(z, low, high) for z in places]
            places += [np.full(len(c), end) for end in self.bounds]
        return np.min([self.losses(z) + c * z for z in places], axis=0).sum() - half_norm


def regression(problem: Problem, model: Any, outcome: Outcome, converged: bool) -> None:
    """Judge support vector and quantile regression with kernels."""
    n = problem.X.shape[0]
    weights = np.asarray(problem.fit_params.get("sample_weight", np.ones(n)), dtype=np.float64)
    rows = np.flatnonzero(weights > 0)
    tube = model.loss == "epsilon"
    above, below = (LD(1), LD(1)) if tube else (LD(model.quantile), 1 - LD(model.quantile))
    bounds = None if model.bounds is None else (LD(model.bounds[0]), LD(model.bounds[1]))
    task = RegressionProblem(
        longdouble(problem.y[rows]),
        LD(model.C) * longdouble(weights[rows]),
        LD(model.epsilon) if tube else LD(0),
        above,
        below,
        bounds,
    )
    kernel = KernelOf.of(model, problem.X[rows])
    K = kernel.matrix(problem.X, rows)

    def stored(model: Any) -> tuple[LD, LD, np.ndarray, float]:
        """Primal and dual objective, outputs and rounding of a model."""
        c = np.zeros(n, dtype=LD)
        c[model.support_] = longdouble(model.dual_coef_[0])
        c = c[rows]
        f, half = K @ c + LD(model.intercept_[0]), c @ K @ c / 2
        noise = rounding(c, K, task.C)
        if kernel.name == "linear":
            w = longdouble(model.coef_[0])
            f = longdouble(problem.X[rows]) @ w + LD(model.intercept_[0])
            half, noise = w @ w / 2, 0.0
        c = task.feasible(c)
        return half + task.losses(f).sum(), task.dual(c, c @ K @ c / 2), f, noise

    value, own, f, noise = stored(model)
    reported = float(model.objective_)
    # Outputs and the ends of the tube are numbers of double precision.
    sizes = np.abs(task.y - np.median(task.y)) + task.epsilon
    if abs(value - reported) <= np.finfo(np.float64).eps * (task.C @ sizes):
        value = LD(reported)
    if bounds is not None:
        reach = max(abs(bounds[0]), abs(bounds[1]), bounds[1] - bounds[0])
        breach = float(max((f - bounds[1]).max(), (bounds[0] - f).max()) / reach)
        if breach > SLACK:
            outcome.add("false", f"outputs exceed the bounds by {breach:.3g} of them")
            return

    def tight() -> Reference:
        again = type(model)(**(model.get_params() | {"tol": 1e-9}))
        upper, lower, _, _ = stored(again.fit(problem.X, problem.y, **problem.fit_params))
        return Reference(LD(np.inf) if bounds is not None else upper, max(lower, own))

    certificate(
        outcome,
        reported=reported,
        gap=float(model.dual_gap_),
        converged=converged,
        value=value,
        own=own,
        reference=tight,
        noise=noise,
    )
