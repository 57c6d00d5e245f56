r"""The normal distribution as operators, in double precision and without loss in its tail.

Runtimes compute ``Erf`` in single precision only, where probabilities below 1e-7 are zero. With
:math:`t = 2 / (2 + x)` the complementary error function is

.. math::

    \operatorname{erfc}(x) = t \, e^{-x^2 + P(t)}, \qquad x \ge 0,

and ``P`` is so smooth on (0, 1] that a polynomial of degree 16 gives all digits that matter, for
the logarithm too.
"""

from functools import cache

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from scipy.special import erfcx

from oblong.export._graph import Graph

_DEGREE = 16
# Beyond, a square would overflow and every probability is 0 or 1.
_FAR = 1e8


@cache
def _coefficients() -> tuple[float, ...]:
    """Coefficients of ``P`` in powers of ``2 t - 1``, the highest first."""

    def exponent(u: np.ndarray) -> np.ndarray:
        t = (u + 1.0) / 2.0
        return np.log(erfcx(2.0 / t - 2.0) / t)

    fit = Chebyshev.interpolate(exponent, _DEGREE)
    return tuple(fit.convert(kind=Polynomial).coef[::-1].tolist())


def _log_tail(graph: Graph, z: str) -> str:
    """``log Φ(-|z|)``."""
    distance = graph.node("Min", graph.node("Abs", z), graph.constant(_FAR))
    x = graph.scaled(distance, np.sqrt(0.5))
    t = graph.node("Div", graph.constant(2.0), graph.plus(x, 2.0))
    u = graph.plus(graph.scaled(t, 2.0), -1.0)
    first, *rest = _coefficients()
    value = graph.constant(first)
    for coefficient in rest:
        value = graph.plus(graph.node("Mul", value, u), coefficient)
    value = graph.node("Sub", value, graph.node("Mul", x, x))
    half = graph.scaled(t, 0.5)
    return graph.node("Add", value, graph.node("Log", half))


def _above(graph: Graph, z: str) -> str:
    return graph.node("Greater", z, graph.constant(0.0))


def _rest(graph: Graph, p: str) -> str:
    return graph.node("Sub", graph.constant(1.0), p)


def normal(graph: Graph, z: str) -> str:
    """``Φ(z)``."""
    tail = graph.node("Exp", _log_tail(graph, z))
    return graph.node("Where", _above(graph, z), _rest(graph, tail), tail)


def log_normal(graph: Graph, z: str) -> str:
    """``log Φ(z)``."""
    tail = _log_tail(graph, z)
    rest = graph.node("Log", _rest(graph, graph.node("Exp", tail)))
    return graph.node("Where", _above(graph, z), rest, tail)


def both_sides(graph: Graph, z: str) -> str:
    """``Φ(-z)`` and ``Φ(z)`` of the only column."""
    return normal(graph, graph.node("Concat", graph.node("Neg", z), z, axis=1))


def sigmoid(graph: Graph, z: str) -> str:
    """``1 / (1 + exp(-z))``."""
    growth = graph.plus(graph.node("Exp", graph.node("Neg", z)), 1.0)
    return graph.node("Div", graph.constant(1.0), growth)


def shares(graph: Graph, logarithms: str) -> str:
    """Softmax: exponentials of a row, divided by their sum."""
    return graph.node("Softmax", logarithms, axis=1)


def against_best_other(graph: Graph, f: str, v: str, n_classes: int) -> str:
    """Probability that each class beats the best other one, normalised to sum to one in a row.

    Parameters
    ----------
    graph : Graph
        Where to.
    f, v : str
        Outputs and their variances, one column per class.
    n_classes : int
        Number of columns.
    """
    top, places = graph.nodes_of("TopK", 2, f, graph.constant([2], np.int64), axis=1)
    variances = graph.node("GatherElements", v, places, axis=1)
    best = graph.node(
        "Equal", graph.constant(np.arange(n_classes), np.int64), graph.part(places, 0)
    )

    def rival(pair: str) -> str:
        return graph.node("Where", best, graph.part(pair, 1), graph.part(pair, 0))

    spread = graph.node("Add", v, rival(variances))
    p = normal(graph, graph.standardised(graph.node("Sub", f, rival(top)), spread))
    # The best class stays ahead of the second also where rounding makes it a tie.
    p = graph.node("Where", best, graph.at_least(p, 0.5 + 1e-12), p)
    return graph.node("Div", p, graph.sum(p))
