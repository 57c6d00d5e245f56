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

from oblong._core.compile import compiled, uncounted
from oblong._core.gap import PrimalDual
from oblong.linalg.expansion import UNIT, Expansion
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.problem import Pieces, loss_and_slope, term

# Halvings of the interval of the scale: its last digits do not matter.
_HALVINGS = 50


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
) -> Expansion:
    """Evaluate a solution in double precision, on all rows whose outputs matter.

    ``u`` is the image by the cached columns. If these are in single precision, rows far beyond the
    margin, whose loss is zero whatever the rounding, keep it.
    """
    if columns.exact:
        return columns.expand(c, u, None)
    f = u + bias
    error = 0.0
    matters = np.ones(c.size, dtype=np.bool_)

    def matter(rounding: float) -> np.ndarray:
        nonlocal error
        # Ten times the rounding seen on some rows bounds that of the others.
        error = 10.0 * options.beyond_sample * rounding
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
    outputs = (expansion.image, expansion.error, expansion.norm, expansion.norm_error)
    bias, scale, objective, upper, dual, doubt = appraise(
        *pieces, c, *outputs, direction is None, bias, promise
    )
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


@compiled
def appraise(p, s, c, u, error, norm, norm_error, by_coefficients, bias, promise):
    """Find the factor between a dual point and its model, and the values that certify it.

    Parameters
    ----------
    p, s : ndarray of shape (n, 4) and (n, 3)
        Breakpoints and slopes of the terms.
    c, u, error : ndarray of shape (n,)
        Coefficients, their image and a bound on its rounding.
    norm, norm_error : float
        Squared norm of the model, and a bound on its error.
    by_coefficients : bool
        Whether the model is its coefficients, so that rounding hides its norm, and not a weight
        vector.
    bias, promise : float
        The bias, and the relative gap that is small enough.

    Returns
    -------
    bias, scale, objective, upper, dual, doubt : float
        Bias and factor of the model, its primal objective and what that may be with rounding, the
        dual objective and by how much it may be smaller.
    """
    terms = total = lost = 0.0
    for i in range(c.size):
        terms += term(p, s, i, c[i])
        # The sum of coefficients with the rounding of each addition kept.
        new = total + c[i]
        lost += (total - new) + c[i] if abs(total) >= abs(c[i]) else (c[i] - new) + total
        total = new
    dual = terms - 0.5 * norm
    # A sum of coefficients other than zero meets every bias, the optimal one too.
    doubt = 0.5 * norm_error + abs(total + lost) * 2.0 * max(1.0, abs(bias))
    if not (dual < np.inf and dual - doubt >= 0.0):
        # Zero coefficients are a dual point too.
        dual = doubt = 0.0
    hidden = norm_error if by_coefficients else 0.0
    scale = min(1.0, _largest_scale(p, s, u, error, bias))
    objective, upper = _primal(p, s, u, error, norm, hidden, bias, scale)
    if not upper - dual + doubt <= promise * abs(objective):
        # The bias of the interval, of least loss, and of least outputs.
        for other in (bias, _best_bias(p, s, u, _HALVINGS), -0.5 * (u.max() + u.min())):
            limit = min(_largest_scale(p, s, u, error, other), 4.0)
            best = _best_scale(p, s, u, other, norm, limit, _HALVINGS)
            found, found_upper = _primal(p, s, u, error, norm, hidden, other, best)
            if not upper <= found_upper:
                bias, scale, objective, upper = other, best, found, found_upper
    return bias, scale, objective, upper, dual, doubt


@uncounted
def _primal(p, s, u, error, norm, hidden, bias, scale):
    """Primal objective at a multiple of the model, and what it may be with rounding."""
    objective = upper = 0.5 * scale**2 * max(norm, 0.0)
    upper += 0.5 * scale**2 * hidden
    for i in range(u.size):
        f = scale * (u[i] + bias)
        # An output beside a kink, and its loss, are small differences of numbers of this size.
        doubt = scale * (error[i] + UNIT * (abs(u[i]) + abs(bias)))
        objective += loss_and_slope(p, s, i, f)[0]
        above = loss_and_slope(p, s, i, f + doubt)[0]
        upper += max(above, loss_and_slope(p, s, i, f - doubt)[0])
    return objective, max(upper, objective)


@uncounted
def _largest_scale(p, s, u, error, bias):
    """Find the largest factor with which outputs meet all hard bounds."""
    excess = 0.0
    for i in range(u.size):
        high, low = u[i] + bias + error[i], u[i] + bias - error[i]
        # An unbounded tail is a hard bound: of zero, only outputs on its right side meet it.
        if p[i, 0] == -np.inf and high > 0.0:
            excess = max(excess, high / s[i, 0] if s[i, 0] > 0.0 else np.inf)
        if p[i, 3] == np.inf and low < 0.0:
            excess = max(excess, low / s[i, 2] if s[i, 2] < 0.0 else np.inf)
    return 1.0 / excess if excess > 0.0 else np.inf


@compiled
def _best_bias(p, s, u, halvings):
    """Minimise ``Σ h_i(u_i + b)`` over ``b`` by halving."""
    high = 1.0 + np.abs(u).max()
    low = -high
    for _ in range(halvings):
        bias = 0.5 * (low + high)
        slope = 0.0
        for i in range(u.size):
            slope += loss_and_slope(p, s, i, u[i] + bias)[1]
        if slope > 0.0:
            high = bias
        else:
            low = bias
    return low


@uncounted
def _best_scale(p, s, u, bias, norm, limit, halvings):
    """Minimise ``½ κ² |w|² + Σ h_i(κ f_i)`` over ``0 <= κ <= limit`` by halving."""
    low, high = 0.0, limit
    for _ in range(halvings):
        scale = 0.5 * (low + high)
        slope = scale * norm
        for i in range(u.size):
            f = u[i] + bias
            slope += loss_and_slope(p, s, i, scale * f)[1] * f
        if slope > 0.0:
            high = scale
        else:
            low = scale
    return low
