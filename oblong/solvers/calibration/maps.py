"""Maps from the outputs of a classifier to probabilities that agree with its predictions.

Two classes: Platt's sigmoid, held on its own side of one half. One-vs-one: the sigmoids of all
pairs, put together by a softmax of their summed logarithms. One-vs-rest: a softmax of the outputs.
"""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, log_expit, softmax

from oblong._native import calibration

# Least fraction of the sigmoid's slope that is left where its offset would change the side.
LEAST_SLOPE = 0.01
# What a pooled class gives away so that the predicted one leads.
LEAD = 1e-9
# A class counts as so many rows at most: targets stay below one.
_MOST_ROWS = 1e12
# The temperature times the largest difference of two scores is at most this.
_STEEPEST = 1e6


def _smoothed(weight: float) -> float:
    """Platt's target for a class of so many rows: their fraction if one more row were wrong."""
    weight = min(weight, _MOST_ROWS)
    return (weight + 1.0) / (weight + 2.0)


def fit_sigmoid(
    outputs: np.ndarray, positive: np.ndarray, weights: np.ndarray
) -> tuple[float, float]:
    """Fit Platt's sigmoid ``P(positive) = σ(A f + B)`` with ``A >= 0``.

    Minimises the cross entropy with smoothed targets, by Newton's method with backtracking
    (see Lin, Lin and Weng, "A note on Platt's probabilistic outputs for support vector machines",
    Machine Learning 68, 2007).

    Parameters
    ----------
    outputs : ndarray of shape (n,)
        Outputs ``f`` of models that have not seen the rows.
    positive : ndarray of bool of shape (n,)
        Which rows belong to the positive class.
    weights : ndarray of shape (n,)
        How many rows each of them stands for.

    Returns
    -------
    slope, offset : float
        ``A`` and ``B``.
    """
    heavy, light = float(weights[positive].sum()), float(weights[~positive].sum())
    targets = np.where(positive, _smoothed(heavy), 1.0 - _smoothed(light))
    scale = float(np.abs(outputs).max(initial=0.0)) or 1.0
    # Only the targets depend on the sum of the weights, whose squares may overflow.
    slope, offset = calibration.fit_sigmoid(outputs / scale, targets, weights / (heavy + light))
    return slope / scale, offset


def agreeing_log_odds(
    outputs: np.ndarray, slope: np.ndarray | float, offset: np.ndarray | float
) -> np.ndarray:
    """Log odds ``A f + B``, held on the side of zero that the sign of the output ``f`` says.

    Arrays broadcast. The log odds ascend with the outputs, in steps of at least a hundredth of
    the slope, and are zero at zero.
    """
    z, least = slope * outputs + offset, LEAST_SLOPE * slope * outputs
    held = np.where(outputs > 0, np.maximum(z, least), np.minimum(z, least))
    return np.where(outputs == 0, 0.0, held)


def two_class_probabilities(outputs: np.ndarray, slope: float, offset: float) -> np.ndarray:
    """Probabilities of the negative and the positive class, of shape (n, 2).

    That of the positive class is above one half exactly where the output is above zero.
    """
    p = expit(agreeing_log_odds(outputs, slope, offset))
    p = np.where(outputs > 0, np.maximum(p, np.nextafter(0.5, 1.0)), p)
    p = np.where(outputs < 0, np.minimum(p, np.nextafter(0.5, 0.0)), p)
    return np.column_stack([1.0 - p, p])


def pair_log_odds(outputs: np.ndarray, sigmoids: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Log odds of the first class of every pair against the second, of the shape of the outputs.

    No odds are more extreme than the smoothed targets of the ``sizes`` rows of the pair support.
    """
    z = agreeing_log_odds(outputs, sigmoids[:, 0], sigmoids[:, 1])
    limit = np.log1p(sizes)
    return np.clip(z, -limit, limit)


def summed_logarithms(
    log_odds: np.ndarray, pairs: Sequence[tuple[int, int]], n_classes: int
) -> np.ndarray:
    """Sum, for each class, the log probabilities with which it wins its pairs."""
    total = np.zeros((len(log_odds), n_classes))
    for z, (first, second) in zip(log_odds.T, pairs):
        log_odds_of_first = log_expit(z)
        total[:, first] += log_odds_of_first
        total[:, second] += log_odds_of_first - z
    return total


def fit_temperature(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """Find the factor ``τ > 0`` with the least cross entropy of ``softmax(τ scores)``.

    One more row, of which nothing is known, is spread over the targets, so that scores which
    never err do not make for certainty.

    Parameters
    ----------
    scores : ndarray of shape (n, n_classes)
        Scores of models that have not seen the rows.
    labels : ndarray of int of shape (n,)
        Classes by number.
    weights : ndarray of shape (n,)
        How many rows each of them stands for.
    """
    n_classes = scores.shape[1]
    unknown = 1.0 / (float(weights.sum()) + 1.0)
    targets = np.full(scores.shape, unknown / n_classes)
    targets[np.arange(len(labels)), labels] += 1.0 - unknown
    scores = scores - scores.max(axis=1, keepdims=True)
    widest = -float(scores.min())
    if widest == 0.0:
        return 1.0
    scores = scores / widest
    aim = float(weights @ (targets * scores).sum(axis=1))

    def slope(logarithm: float) -> float:
        p = softmax(np.exp(logarithm) * scores, axis=1)
        return float(weights @ (p * scores).sum(axis=1)) - aim

    # The derivative ascends in τ.
    ends = -np.log(_STEEPEST), np.log(_STEEPEST)
    far = [end for end, sign in zip(ends, (1.0, -1.0)) if sign * slope(end) >= 0.0]
    return float(np.exp(far[0] if far else brentq(slope, *ends, xtol=1e-12))) / widest


def pool(probabilities: np.ndarray, leaders: np.ndarray) -> np.ndarray:
    """Let the predicted class lead, with the least change of the probabilities.

    Where another class is ahead, it and the leader get the average of both, and so does every
    further class that is above this average: the nearest point at which the leader is not behind.
    The leader then takes a billionth from the others.

    Parameters
    ----------
    probabilities : ndarray of shape (n, n_classes)
        Rows that sum to one.
    leaders : ndarray of bool of shape (n, n_classes)
        The predicted class; several where a tie is broken at random, which all get the same.

    Returns
    -------
    ndarray of shape (n, n_classes)
        The probabilities; a new array.
    """
    P = probabilities.copy()
    others = np.where(leaders, -1.0, P)
    weakest = np.where(leaders, P, np.inf).min(axis=1)
    rows = np.flatnonzero((others.max(axis=1) >= weakest) | (leaders.sum(axis=1) > 1))
    if rows.size == 0:
        return P
    ahead, part = leaders[rows], P[rows]
    order = np.argsort(-others[rows], axis=1, kind="stable")
    falling = np.take_along_axis(others[rows], order, axis=1)
    count = ahead.sum(axis=1)
    total = np.where(ahead, part, 0.0).sum(axis=1)
    # Average of the leaders and the m largest others, for m = 0, 1, ...
    real = np.maximum(falling, 0.0)
    upto = total[:, None] + np.hstack([np.zeros((len(rows), 1)), np.cumsum(real, axis=1)[:, :-1]])
    average = upto / (count[:, None] + np.arange(P.shape[1]))
    joins = np.logical_and.accumulate((falling >= average) & (falling >= 0.0), axis=1)
    m = joins.sum(axis=1)
    value = np.take_along_axis(average, np.minimum(m, P.shape[1] - 1)[:, None], axis=1)
    pooled = np.zeros_like(ahead)
    np.put_along_axis(pooled, order, joins, axis=1)
    part = np.where(pooled, value * (1.0 - LEAD), part)
    P[rows] = np.where(ahead, value * (1.0 + LEAD * (m / count)[:, None]), part)
    return P
