"""What the margin solver returns: the model, and a certificate for that model.

For any coefficients ``c`` with ``Σc = 0`` inside the domains of the terms, the dual objective
``Σ g_i(c_i) - ½ c'Kc`` is a lower bound of every primal objective. The primal point is the model
itself: ``κ Σ c_i φ_i`` with the bias ``κ b`` and the outputs that it gives in double precision. Its
objective minus the bound, plus what rounding may hide in both, is the duality gap.

The factor ``κ`` is one, or smaller where a hard bound on the outputs asks for it, or the best one
where the gap would be too large otherwise: with large penalties a violation of ``tol`` on many
rows costs much, and a slightly larger model costs little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oblong._core.gap import PrimalDual
from oblong._native import margin as native
from oblong.linalg.expansion import Expansion
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.problem import Pieces


@dataclass(frozen=True)
class MarginResult(PrimalDual):
    """Solution of the margin problem with its certificate.

    Attributes
    ----------
    coef : ndarray of shape (n,)
        Signed coefficients of the model.
    bias : float
        Its bias.
    outputs : ndarray of shape (n,)
        Its outputs ``f`` on the rows.
    dual_coef : ndarray of shape (n,)
        Coefficients of the dual point: ``coef`` before it was scaled.
    image : ndarray of shape (n,)
        The product ``K @ dual_coef``.
    scale : float
        The factor ``κ`` between the two.
    bias_interval : tuple of float
        ``(m, M)`` at the dual point, ascending at an exact optimum: every bias in it is optimal.
    objective : float
        Primal objective of the model.
    dual_objective : float
        Dual objective at ``dual_coef``.
    rounding : float
        What rounding may hide in the two objectives.
    violation : float
        ``m - M``.
    n_iter, n_newton, n_rounds : int
        Pair steps, Newton steps and working sets taken.
    status : {"converged", "max_iter", "stalled"}
        Why the solver stopped; ``"stalled"`` means that it makes no further progress.
    direction : ndarray of shape (d,) or None
        The weight vector of the model, for a linear kernel.
    """

    coef: np.ndarray
    bias: float
    outputs: np.ndarray
    dual_coef: np.ndarray
    image: np.ndarray
    scale: float
    bias_interval: tuple[float, float]
    objective: float
    dual_objective: float
    rounding: float
    violation: float
    n_iter: int
    n_newton: int
    n_rounds: int
    status: str
    direction: np.ndarray | None = None


def expand(
    columns: KernelMatrix,
    pieces: Pieces,
    c: np.ndarray,
    u: np.ndarray,
    bias: float,
    options: MarginOptions = DEFAULTS,
    seen: float = 0.0,
) -> Expansion:
    """Evaluate a solution in double precision, on all rows whose outputs matter.

    ``u`` is the image in working precision. If that is single, rows far beyond the margin, whose
    loss is zero whatever the rounding, keep it. ``seen`` is the largest rounding of ``u`` that was
    found and put right before.
    """
    if columns.exact:
        return columns.expand(c, u, None)
    f = u + bias
    error = 0.0
    matters = np.ones(c.size, dtype=np.bool_)

    def matter(rounding: float) -> np.ndarray:
        nonlocal error
        # Ten times the rounding seen on some rows bounds that of the others.
        error = 10.0 * options.beyond_sample * max(rounding, seen)
        np.greater(np.maximum(pieces.loss(f + error), pieces.loss(f - error)), 0.0, out=matters)
        if pieces.bounded:
            # The rows that come nearest to a hard bound set the scale.
            sizes = np.abs(f)
            matters[sizes >= sizes.max() - 2.0 * error] = True
        return matters

    expansion = columns.expand(c, u, matter)
    # The others keep the rounding of their columns, in case another bias or factor is better.
    expansion.error[~matters & (c == 0.0)] += error
    return expansion


def certify(
    pieces: Pieces,
    c: np.ndarray,
    expansion: Expansion,
    interval: tuple[float, float],
    counts: Sequence[int],
    status: str,
    promise: float,
) -> MarginResult:
    """Make the model of a dual point, and its certificate.

    Parameters
    ----------
    pieces : Pieces
        The terms.
    c : ndarray of shape (n,)
        Coefficients, inside the domains.
    expansion : Expansion
        What they are on the rows.
    interval : tuple of float
        Largest of the right slopes less the image, and least of the left slopes less it.
    counts : sequence of int
        Pair steps, Newton steps and rounds.
    status : str
        Why the solver stopped.
    promise : float
        Relative gap that is small enough: only for a larger one the best scale and bias are looked
        for.
    """
    m, M = interval
    bias = 0.5 * (m + M)
    if not math.isfinite(bias):
        bias = 0.0
    direction = expansion.direction
    (bias, _), scale, objective, upper, dual, doubt = native.certify(
        *pieces, len(c), np.zeros(2), c, expansion.image, expansion.error, expansion.norm,
        expansion.norm_error, direction is not None, (bias, 0.0), promise,
    )  # fmt: skip
    return MarginResult(
        coef=scale * c,
        bias=scale * bias,
        outputs=scale * (expansion.image + bias),
        dual_coef=c,
        image=expansion.image,
        scale=scale,
        bias_interval=(m, M),
        objective=objective,
        dual_objective=dual,
        rounding=upper - objective + doubt,
        violation=m - M,
        n_iter=counts[0],
        n_newton=counts[1],
        n_rounds=counts[2],
        status=status,
        direction=None if direction is None else scale * direction,
    )
