"""What the margin solver returns: a solution with its certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from oblong.solvers.margin.block import balance, interval
from oblong.solvers.margin.problem import Pieces

__all__ = ["MarginResult", "settled"]


@dataclass(frozen=True)
class MarginResult:
    """Solution of the margin problem with its certificate.

    Attributes
    ----------
    coef : ndarray of shape (n,)
        Signed coefficients ``c``.
    bias : float
        Midpoint of ``bias_interval``.
    bias_interval : tuple of float
        ``(m, M)``, ascending at an exact optimum: every bias in it is optimal.
    outputs : ndarray of shape (n,)
        Outputs ``f = Kc + b``.
    objective : float
        Primal objective at ``outputs``, scaled into the hard bounds where they exceed them.
    dual_objective : float
        Dual objective at ``coef``.
    violation : float
        ``m - M``.
    n_iter, n_newton, n_rounds : int
        Pair steps, Newton steps and working sets taken.
    status : {"converged", "max_iter", "stalled"}
        Why the solver stopped; ``"stalled"`` means that rounding allows no further progress.
    """

    coef: np.ndarray
    bias: float
    bias_interval: tuple[float, float]
    outputs: np.ndarray
    objective: float
    dual_objective: float
    violation: float
    n_iter: int
    n_newton: int
    n_rounds: int
    status: str

    @property
    def gap(self) -> float:
        """Primal minus dual objective, an upper bound of the error of both."""
        return self.objective - self.dual_objective

    @property
    def relative_gap(self) -> float:
        """The gap over the primal objective."""
        return self.gap / max(abs(self.objective), np.finfo(float).tiny)

    @property
    def image(self) -> np.ndarray:
        """The product ``u = Kc``."""
        return self.outputs - self.bias

    def under(self, pieces: Pieces) -> MarginResult:
        """Return the same solution, free of charge, for other terms that it is optimal for."""
        objective, dual_objective = pieces.objectives(self.coef, self.image, self.bias)
        return replace(
            self,
            objective=objective,
            dual_objective=dual_objective,
            n_iter=0,
            n_newton=0,
            n_rounds=0,
        )


def settled(
    pieces: Pieces,
    c: np.ndarray,
    u: np.ndarray,
    right: np.ndarray,
    left: np.ndarray,
    counts: Sequence[int],
    status: str,
) -> MarginResult:
    """Settle the round-off of ``Σc``, the bias and the certificate."""
    balance(c, right, left)
    m, M = interval(right, left, u)
    bias = 0.5 * (m + M)
    objective, dual_objective = pieces.objectives(c, u, bias)
    return MarginResult(
        c, bias, (m, M), u + bias, objective, dual_objective, m - M, *counts, status
    )
