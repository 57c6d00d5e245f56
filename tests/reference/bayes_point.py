"""Posterior moments of a Bayes point machine, by brute force."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

Array = NDArray[np.float64]


def brute_force(
    F: Array, y: Array, soft: float = 0.0, n: int = 400_000, seed: int = 0
) -> tuple[Array, Array, float]:
    """Mean, covariance and log evidence from draws of the prior, weighted by the likelihood."""
    draws = np.random.default_rng(seed).normal(size=(n, F.shape[1]))
    outputs = (draws @ F.T) * y
    if soft == 0.0:
        likelihood = (outputs > 0.0).all(axis=1).astype(float)
    else:
        likelihood = np.exp(log_ndtr(outputs / np.sqrt(soft)).sum(axis=1))
    share = likelihood / likelihood.sum()
    mean = share @ draws
    covariance = (draws * share[:, None]).T @ draws - np.outer(mean, mean)
    return mean, covariance, float(np.log(likelihood.mean()))


def sector(F: Array, y: Array) -> tuple[float, float]:
    """First and last angle of a version space in the plane that is not empty."""
    angles = np.sort(np.arctan2(y * F[:, 1], y * F[:, 0]))
    # The directions of the half-spaces lie in a sector themselves: start it after the widest gap.
    gaps = np.append(np.diff(angles), angles[0] + 2 * np.pi - angles[-1])
    first = int(np.argmax(gaps)) + 1
    angles = np.append(angles[first:], angles[:first] + 2 * np.pi)
    return float(angles[-1] - np.pi / 2), float(angles[0] + np.pi / 2)
