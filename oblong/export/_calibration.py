"""Probabilities that agree with predictions, as operators.

The formulas are those of :mod:`oblong.solvers.calibration.maps`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oblong.export._graph import Graph
from oblong.export._normal import sigmoid
from oblong.solvers.calibration.maps import LEAD, LEAST_SLOPE


def _log_odds(graph: Graph, f: str, slope: np.ndarray, offset: np.ndarray) -> str:
    """Log odds of the sigmoids, with the sign of the outputs."""
    z = graph.plus(graph.scaled(f, slope), offset)
    least = graph.scaled(f, LEAST_SLOPE * slope)
    zero = graph.constant(0.0)
    below = graph.node("Less", f, zero)
    held = graph.node("Where", below, graph.node("Min", z, least), graph.scaled(f, 0.0))
    return graph.node("Where", graph.node("Greater", f, zero), graph.node("Max", z, least), held)


def two_class_chances(graph: Graph, f: str, slope: float, offset: float) -> str:
    """Probabilities of two classes from one column of outputs."""
    p = sigmoid(graph, _log_odds(graph, f, np.asarray(slope), np.asarray(offset)))
    zero = graph.constant(0.0)
    above = graph.at_least(p, np.nextafter(0.5, 1.0))
    below = graph.node("Min", p, graph.constant(np.nextafter(0.5, 0.0)))
    p = graph.node("Where", graph.node("Greater", f, zero), above, p)
    p = graph.node("Where", graph.node("Less", f, zero), below, p)
    return graph.node("Concat", graph.node("Sub", graph.constant(1.0), p), p, axis=1)


def pair_scores(
    graph: Graph,
    f: str,
    sigmoids: np.ndarray,
    sizes: np.ndarray,
    pairs: Sequence[tuple[int, int]],
) -> str:
    """Summed log probabilities with which each class wins its pairs."""
    limit = np.log1p(sizes)
    z = _log_odds(graph, f, sigmoids[:, 0], sigmoids[:, 1])
    z = graph.node("Min", graph.at_least(z, -limit), graph.constant(limit))
    k = max(max(pair) for pair in pairs) + 1
    first, second = (np.eye(k)[[pair[side] for pair in pairs]] for side in (0, 1))
    won = graph.node("Log", sigmoid(graph, z))
    lost = graph.node("Log", sigmoid(graph, graph.node("Neg", z)))
    return graph.node("Add", graph.times(won, first), graph.times(lost, second))


def pooled(graph: Graph, P: str, places: str, k: int) -> str:
    """Make the predicted class the most probable one, as :func:`~.calibration.maps.pool` does."""
    column = graph.node("Unsqueeze", places, graph.constant([1], np.int64))
    leads = graph.node("Equal", column, graph.constant(np.arange(k), np.int64))
    others = graph.node("Where", leads, graph.constant(-1.0), P)
    falling, _ = graph.nodes_of("TopK", 2, others, graph.constant([k], np.int64), axis=1)
    own = graph.sum(graph.node("Mul", P, graph.number(leads)))
    before = graph.node(
        "CumSum", graph.at_least(falling, 0.0), graph.constant(1, np.int64), exclusive=1
    )
    average = graph.node("Div", graph.node("Add", own, before), graph.constant(1.0 + np.arange(k)))
    joins = graph.number(graph.node("GreaterOrEqual", falling, average))
    count = graph.sum(joins)
    # At most all other classes are pooled, so their number is a valid index into the row.
    value = graph.node("GatherElements", average, graph.node("Cast", count, to=7), axis=1)
    joined = graph.node("GreaterOrEqual", others, value)
    rest = graph.node("Where", joined, graph.scaled(value, 1.0 - LEAD), P)
    lead = graph.node("Mul", value, graph.plus(graph.scaled(count, LEAD), 1.0))
    return graph.node("Where", leads, lead, rest)
