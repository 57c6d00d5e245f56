"""The rules of the second-order online learners: what one example does to the model.

A rule looks at the margin ``m = y w'x`` of an example and at the variance ``v = x'Sx`` of that
margin and answers with three numbers, the step ``α``, the increment ``τ`` of the precision and
the factor ``λ`` of the covariance:

    w ← w + α y S x,        S⁻¹ ← (S⁻¹ + τ x x') / λ.

These mean the same for every structure of the covariance, so a rule knows nothing of it. ``α = 0``
leaves the model alone. ``λ = 0`` asks for the covariance to be put back to its initial value before
the rule is asked once more; ``λ < 0`` says that the example fits no covariance and is left out.

The first parameter of every rule is the least margin at which an example changes nothing, whatever
its variance (infinity if that depends on the variance): examples beyond it cost no look at the
covariance.
"""

import math
from typing import NamedTuple

from oblong._core.compile import compiled
from oblong.solvers.online.slots import (
    MEMORY,
    N_PARAMETERS,
    UNIT_FIXED,
    UNIT_OF_BOTH,
    UNIT_OF_COVARIANCE,
)

PA, AROW, NHERD, CW_STDEV, CW_VAR, SCW_1, SCW_2, CELLIP, CELLIP_SMALLEST, IELLIP = range(10)

# Slots of the parameters, after the limit.
CAP, RIDGE = 1, 2
R = 1
C = 1
PHI, COST = 1, 2
MARGIN, SKIPS, DIMENSION = 1, 2, 3
DECAY, BY_ROUNDS = 2, 3

# The smallest margin that is no mistake, as a limit for rules that learn from mistakes only.
MISTAKE = 1e-300
# Hard rules meet their margin exactly: what a copy of an example is short of it is rounding, that
# of outputs which may be many times the margin.
MET = 1.0 - 1e-9
# Below, 1 - c is 1.
_NO_DECAY_LEFT = 1e-17


class Rule(NamedTuple):
    """A rule with its parameters; the functions of this module make them.

    Attributes
    ----------
    code : int
        Which rule.
    limit : float
        Margins from this one on change nothing.
    parameters : tuple of float
        Up to three parameters of the rule, in the order of their slots.
    memory : float
        Initial value of the one number that the rule carries along.
    soft : bool
        Whether the rule has a cost for a violation, so that fractions of an example make sense.
    invariance : {UNIT_FIXED, UNIT_OF_BOTH, UNIT_OF_COVARIANCE}
        Which change of the unit leaves decisions as they are. The covariance is kept in range by
        such changes.
    floor : float
        Smallest variance of a diagonal covariance, relative to the initial one.
    shrinks : bool
        Whether outputs shrink without end along with the covariance, on labels that are wrong.
    """

    code: int
    limit: float
    parameters: tuple[float, ...] = ()
    memory: float = 0.0
    soft: bool = False
    invariance: int = UNIT_FIXED
    floor: float = 0.0
    shrinks: bool = False

    def packed(self) -> list[float]:
        """The limit and the parameters, as they stand first in the settings of a model."""
        numbers = [self.limit, *self.parameters]
        return numbers + [0.0] * (N_PARAMETERS - len(numbers))


def passive_aggressive(*, cap: float = math.inf, ridge: float = 0.0, soft: bool = True) -> Rule:
    """PA, with neither cap nor ridge; PA-I, with the cap C; PA-II, with the ridge 1/(2C)."""
    return Rule(PA, 1.0, (cap, ridge), soft=soft)


def arow(r: float) -> Rule:
    """AROW: ridge regression on the labels of the examples whose margin is below 1."""
    return Rule(AROW, 1.0, (r,), soft=True)


def second_order_perceptron() -> Rule:
    """AROW with ``r = 1`` that learns from mistakes only."""
    return Rule(AROW, MISTAKE, (1.0,))


def normal_herd(C: float) -> Rule:
    """Normal herd, full or diagonal in the exact form."""
    return Rule(NHERD, 1.0, (C,), soft=True)


def confidence_weighted(phi: float, *, of_variance: bool = False, floor: float = 0.0) -> Rule:
    """CW-Stdev, ``m >= φ √v``, or CW-Var, ``m >= φ v``, after every example."""
    if of_variance:
        return Rule(CW_VAR, math.inf, (phi,), floor=floor, shrinks=True)
    return Rule(CW_STDEV, math.inf, (phi,), invariance=UNIT_OF_BOTH, floor=floor, shrinks=True)


def soft_confidence_weighted(
    phi: float, cost: float, *, squared: bool = False, floor: float = 0.0
) -> Rule:
    """SCW-I, whose loss is linear, or SCW-II, whose loss is squared."""
    return Rule(SCW_2 if squared else SCW_1, math.inf, (phi, cost), soft=True, floor=floor)


def classical_ellipsoid(
    margin: float, dimension: int, *, limit: float, smallest: bool = False, skips: bool = False
) -> Rule:
    """CELLIP: the ellipsoid cut at ``margin``, by the paper or of least volume.

    If nothing is left of the ellipsoid it starts again, or ``skips`` the example.
    """
    code = CELLIP_SMALLEST if smallest else CELLIP
    return Rule(code, limit, (margin, float(skips), float(dimension)))


def improved_ellipsoid(
    margin: float,
    c: float,
    b: float,
    *,
    limit: float,
    by_rounds: bool = False,
    floor: float = 0.0,
) -> Rule:
    """IELLIP, whose ``c`` decays by the factor ``b`` with updates or with rounds."""
    parameters = (margin, b, float(by_rounds))
    invariance = UNIT_OF_COVARIANCE
    return Rule(IELLIP, limit, parameters, memory=c, invariance=invariance, floor=floor)


@compiled
def asks_for_deviation(code):
    """Whether the rule acts only if ``m < φ √v`` and its covariance only ever shrinks."""
    return code in (CW_STDEV, SCW_1, SCW_2)


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
    """The ellipsoid cut by the half-space ``y w'x >= g``: by the paper, or of least volume."""
    deviation = math.sqrt(v)
    depth = (p[MARGIN] - m) / deviation
    if depth >= 1.0:
        if p[SKIPS] == 1.0:
            return 0.0, 0.0, -1.0
        if again == 0:
            return 0.0, 0.0, 0.0
    if again == 1:
        depth = min(depth, 0.5)
    d = p[DIMENSION]
    if code == CELLIP or d < 2.0:
        if m >= MET * p[MARGIN]:
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
def respond(code, m, v, weight, p, numbers, t, again):
    """Answer of a rule to an example.

    Parameters
    ----------
    code : int
        Which rule.
    m, v : float
        Margin of the example and variance of the margin.
    weight : float
        Factor of the cost of a violation; 1 for rules without one.
    p : ndarray
        The limit and the parameters of the rule.
    numbers : ndarray
        Numbers of the output, among them what the rule carries along; that is updated here.
    t : int
        Number of this round.
    again : {0, 1}
        Whether the rule has asked for a reset of the covariance and got it.

    Returns
    -------
    step, precision, scale : float
        ``α``, ``τ`` and ``λ``.
    """
    if code == PA:
        # α = min(C, (1-m) / (v + ridge))
        return min(p[CAP] * weight, (1.0 - m) / (v + p[RIDGE] / weight)), 0.0, 1.0
    if code == AROW:
        r = p[R] / weight
        return (1.0 - m) / (v + r), 1.0 / r, 1.0
    if code == NHERD:
        cost = p[C] * weight
        return (1.0 - m) / (v + 1.0 / cost), cost * (2.0 + cost * v), 1.0
    if code == CW_VAR:
        phi = p[PHI]
        if m >= MET * phi * v:
            return 0.0, 0.0, 1.0
        q = 1.0 + 2.0 * phi * m
        root = math.sqrt(q * q - 8.0 * phi * (m - phi * v))
        step = 2.0 * (phi * v - m) / (v * (q + root)) if q > 0.0 else (root - q) / (4.0 * phi * v)
        return step, 2.0 * step * phi, 1.0
    if code in (CW_STDEV, SCW_1, SCW_2):
        phi = p[PHI]
        if m >= MET * phi * math.sqrt(v):
            return 0.0, 0.0, 1.0
        if code == SCW_2:
            n = v + 0.5 / (p[COST] * weight)
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
                step = min(step, p[COST] * weight)
        return step, step * phi / _root_of_shrunk(step, phi, v), 1.0
    if code in (CELLIP, CELLIP_SMALLEST):
        return _ellipsoid(code, m, v, p, again)
    # IELLIP
    if m >= MET * p[MARGIN]:
        return 0.0, 0.0, 1.0
    c = numbers[MEMORY]
    if p[BY_ROUNDS] == 1.0:
        c *= p[DECAY] ** (t - 1)
    else:
        numbers[MEMORY] = c * p[DECAY]
    if c < _NO_DECAY_LEFT:
        return (p[MARGIN] - m) / v, 0.0, 1.0
    return (p[MARGIN] - m) / v, c / ((1.0 - c) * v), 1.0 / (1.0 - c)
