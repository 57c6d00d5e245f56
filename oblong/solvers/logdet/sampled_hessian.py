"""The Hessian of smoothed log-determinant problems, from a sample of the rows near the boundary."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oblong.linalg.log_det import quadratic_features

__all__ = ["sampled_hessian"]

# Columns of a block of quadratic features.
_BLOCK = 512


def sampled_hessian(
    zone: np.ndarray,
    count: int,
    rng: np.random.Generator,
    weights: np.ndarray,
    rows: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
) -> np.ndarray:
    """Sum of ``weight_i U_i U_i'`` with ``U_i = (svec(z_i z_i'), e_i)``, exact or estimated.

    Parameters
    ----------
    zone : ndarray of int
        Rows that count.
    count : int
        Size of the sample that stands for more of them.
    rng : Generator
        Draws the sample.
    weights : ndarray of shape (n,)
        Weights of all rows.
    rows : callable
        ``rows(places)`` is the pair of the vectors ``z_i`` and ``e_i``, both in columns.

    Returns
    -------
    ndarray of shape (m, m)
        The Hessian, of the size of the vectors ``U_i``.
    """
    share = 1.0
    if len(zone) > count:
        share = len(zone) / count
        zone = np.sort(rng.choice(zone, count, replace=False))
    hessian: np.ndarray | None = None
    # One block, perhaps an empty one, tells the size.
    for start in range(0, max(len(zone), 1), _BLOCK):
        places = zone[start : start + _BLOCK]
        Z, extra = rows(places)
        P = len(Z) * (len(Z) + 1) // 2
        if hessian is None:
            size = P + len(extra)
            hessian, memory = np.zeros((size, size)), np.empty((size, _BLOCK))
        U = memory[:, : len(places)]
        quadratic_features(Z, U[:P])
        U[P:] = extra
        U *= np.sqrt(share * weights[places])
        hessian += U @ U.T
    return hessian
