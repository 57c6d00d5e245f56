"""The rules of the second-order online learners: what one example does to the model.

A rule looks at the margin ``m = y w'x`` of an example and at the variance ``v = x'Sx`` of that
margin and answers with three numbers, the step ``α``, the increment ``τ`` of the precision and
the factor ``λ`` of the shape:

    w ← w + α y S x,        S⁻¹ ← (S⁻¹ + τ x x') / λ.

These mean the same for every structure of the shape matrix, so a rule knows nothing of it.
``α = 0`` leaves the model alone. ``λ = 0`` asks for the shape to be put back to its initial value
before the rule is asked once more; ``λ < 0`` says that the example fits no shape and is left out.

Every rule has four parameters. The first is always the margin from which on the example changes
nothing, whatever its variance (infinity if that depends on the variance): examples beyond it cost
no look at the shape matrix.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from oblong._core.compile import compiled

__all__ = [
    "AROW",
    "CELLIP",
    "CELLIP_SMALLEST",
    "CW_STDEV",
    "CW_VAR",
    "IELLIP",
    "MET",
    "MISTAKE",
    "NHERD",
    "PA",
    "SCW_1",
    "SCW_2",
    "Rule",
    "respond",
]

PA, AROW, NHERD, CW_STDEV, CW_VAR, SCW_1, SCW_2, CELLIP, CELLIP_SMALLEST, IELLIP = range(10)

# The smallest margin that is no mistake, as a limit for rules that learn from mistakes only.
MISTAKE = 1e-300
# Hard rules meet their margin exactly: what a copy of an example is short of it is rounding, that
# of outputs which may be many times the margin.
MET = 1.0 - 1e-9


class Rule(NamedTuple):
    """A rule with its parameters.

    Attributes
    ----------
    code : int
        Which rule.
    limit : float
        Margins from this one on change nothing.
    first, second, third : float
        Parameters of the rule, see :func:`respond`.
    memory : float
        Initial value of the one number that the rule carries along.
    soft : bool
        Whether the rule has a cost for a violation, so that fractions of an example make sense.
    invariance : {0, 1, 2}
        Whether decisions stay the same under ``(w, S) → (w, S)`` only, under
        ``(2ᵏ w, 4ᵏ S)``, or under ``(w, 4ᵏ S)``. The shape is then kept in range by such a change.
    floor : float
        Smallest variance of a diagonal shape, relative to the initial one.
    """

    code: int
    limit: float
    first: float = 0.0
    second: float = 0.0
    third: float = 0.0
    memory: float = 0.0
    soft: bool = False
    invariance: int = 0
    floor: float = 0.0


@compiled
def _root_of_shrunk(step, phi, v):
    """Standard deviation after the update: √u with 1/u = 1/v + αφ/√u, without cancellation."""
    a = step * v * phi
    return 2.0 * v / (a + math.sqrt(a * a + 4.0 * v))


@compiled
def _confident_step(m, v, phi):
    """Step of CW-Stdev, after which the margin is ``φ`` of its standard deviations."""
    square = phi * phi
    psi = 1.0 + 0.5 * square
    root = math.sqrt(0.25 * m * m * square * square + v * square * (1.0 + square))
    if m <= 0.0:
        return (root - m * psi) / (v * (1.0 + square))
    return (square * v - m * m) / (v * (m * psi + root))


@compiled
def _ellipsoid(code, m, v, p, again):
    """The ellipsoid cut by the half-space ``y w'x >= g``: by the paper, or of least volume.

    ``g`` is the first parameter, the second says what happens if nothing is left of the ellipsoid
    (0: reset, 1: skip), the third is the dimension.
    """
    deviation = math.sqrt(v)
    depth = (p[1] - m) / deviation
    if depth >= 1.0:
        if p[2] == 1.0:
            return 0.0, 0.0, -1.0
        if again == 0:
            return 0.0, 0.0, 0.0
    if again == 1:
        depth = min(depth, 0.5)
    d = p[3]
    if code == CELLIP or d < 2.0:
        if m >= MET * p[1]:
            return 0.0, 0.0, 1.0
        return depth / deviation, 2.0 * depth / ((1.0 - depth) * v), 1.0 - depth * depth
    if depth <= -1.0 / d:
        return 0.0, 0.0, 1.0
    share = 1.0 + d * depth
    return (
        share / ((d + 1.0) * deviation),
        2.0 * share / ((d - 1.0) * (1.0 - depth) * v),
        d * d * (1.0 - depth * depth) / (d * d - 1.0),
    )


@compiled
def respond(code, m, v, weight, p, memory, t, again):
    """Answer of a rule to an example.

    Parameters
    ----------
    code : int
        Which rule.
    m, v : float
        Margin of the example and variance of the margin.
    weight : float
        Factor of the cost of a violation; 1 for rules without one.
    p : ndarray of shape (4,)
        The limit and the parameters of the rule.
    memory : ndarray of shape (1,)
        What the rule carries along from one update to the next; updated here.
    t : int
        Number of this round.
    again : {0, 1}
        Whether the rule has asked for a reset of the shape and got it.

    Returns
    -------
    step, precision, scale : float
        ``α``, ``τ`` and ``λ``.
    """
    if code == PA:
        # α = min(C, (1-m) / (v + ridge)): PA has neither cap nor ridge, PA-I the cap, PA-II the
        # ridge 1/(2C).
        return min(p[1] * weight, (1.0 - m) / (v + p[2] / weight)), 0.0, 1.0
    if code == AROW:
        r = p[1] / weight
        return (1.0 - m) / (v + r), 1.0 / r, 1.0
    if code == NHERD:
        C = p[1] * weight
        return (1.0 - m) / (v + 1.0 / C), C * (2.0 + C * v), 1.0
    if code == CW_VAR:
        phi = p[1]
        if m >= MET * phi * v:
            return 0.0, 0.0, 1.0
        q = 1.0 + 2.0 * phi * m
        root = math.sqrt(q * q - 8.0 * phi * (m - phi * v))
        step = 2.0 * (phi * v - m) / (v * (q + root)) if q > 0.0 else (root - q) / (4.0 * phi * v)
        return step, 2.0 * step * phi, 1.0
    if code in (CW_STDEV, SCW_1, SCW_2):
        phi = p[1]
        if m >= MET * phi * math.sqrt(v):
            return 0.0, 0.0, 1.0
        if code == SCW_2:
            n = v + 0.5 / (p[2] * weight)
            square = phi * phi
            root = math.sqrt(square * m * m * v * v + 4.0 * n * v * (n + square * v))
            # The difference of the two terms, by its conjugate where they nearly cancel.
            linear = m * (2.0 * n + square * v)
            if m <= 0.0:
                step = (phi * root - linear) / (2.0 * n * (n + v * square))
            else:
                step = 2.0 * (square * v - m * m) / (phi * root + linear)
        else:
            step = _confident_step(m, v, phi)
            if code == SCW_1:
                step = min(step, p[2] * weight)
        return step, step * phi / _root_of_shrunk(step, phi, v), 1.0
    if code in (CELLIP, CELLIP_SMALLEST):
        return _ellipsoid(code, m, v, p, again)
    # IELLIP: the margin γ, the factor b, and whether c decays with rounds instead of updates.
    if m >= MET * p[1]:
        return 0.0, 0.0, 1.0
    c = memory[0]
    if p[3] == 1.0:
        c *= p[2] ** (t - 1)
    else:
        memory[0] = c * p[2]
    if c < 1e-17:
        return (p[1] - m) / v, 0.0, 1.0
    return (p[1] - m) / v, c / ((1.0 - c) * v), 1.0 / (1.0 - c)
