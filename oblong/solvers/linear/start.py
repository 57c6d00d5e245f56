"""Where the interior point of the linear solvers starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oblong.solvers.linear.options import LinearOptions
from oblong.solvers.linear.problem import LinearProblem

Numbers = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass
class Kind:
    """One inequality per row: its coefficients, and its slacks and multipliers.

    ``head`` is ``(soft, ky, k1, kt)`` of :mod:`oblong.solvers.linear.row_loops`.
    """

    head: tuple[bool, float, float, float]
    a: np.ndarray
    s: np.ndarray
    v: np.ndarray
    e: np.ndarray

    def at(self, part: slice) -> Numbers:
        """Slacks and multipliers of some rows."""
        return self.a[part], self.s[part], self.v[part], self.e[part]


def middle(problem: LinearProblem, t: float, options: LinearOptions) -> list[Kind]:
    """Start in the middle: outputs zero, the bound ``t``, hinge multipliers half of ``C``."""
    n = problem.rows.n
    y, C = problem.y, problem.C
    # Equal sums of the multipliers in both classes make the bias stationary at once.
    a = 0.5 * C
    if problem.intercept:
        positive = y > 0
        up, down = a[positive].sum(), a[~positive].sum()
        a = np.where(positive, a * min(1.0, down / up), a * min(1.0, up / down))
    v = C - a
    kinds = [Kind((True, 1.0, 0.0, 0.0), a, np.ones(n), v, np.full(n, 2.0))]
    if not problem.bounded:
        return kinds
    kt = 0.0 if problem.D is None else 1.0
    # Products of slacks and multipliers not much smaller than those of the hinge make a good
    # start, even where a small D makes them too large for Σe <= D at first.
    size = options.bound_start * float(a.mean())
    share = size / t
    if problem.D is not None:
        share = max(share, problem.D / (4.0 * n))
    for side in (-1.0, 1.0):
        bound = np.full(n, share)
        slack = np.full(n, t)
        rest = (bound, slack)
        if problem.U is not None:
            bound = np.minimum(bound, 0.5 * problem.U)
            room = problem.U - bound
            excess = np.maximum(0.5 * t, size / room)
            rest = (room, excess)
            slack = slack + excess
        kinds.append(Kind((problem.U is not None, 0.0, side, kt), bound, slack, *rest))
    if problem.D is not None:
        # The inequality t >= 1, the last.
        floor, slack = np.full(1, max(0.5 * problem.D, size)), np.full(1, t - 1.0)
        kinds.append(Kind((False, 0.0, 0.0, 1.0), floor, slack, floor, slack))
    return kinds
