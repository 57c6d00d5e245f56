"""The half-spaces of a version space: which of them count, and a point inside all of them."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from oblong._core.threads import chunks
from oblong.linalg.feature_map import row_norms
from oblong.solvers.bayes_point.options import DEFAULTS, BayesPointOptions


@dataclass(frozen=True)
class Sites:
    """Factors ``Φ(y f / √noise)^copies`` of the likelihood, a step where the noise is zero.

    Attributes
    ----------
    F : ndarray of shape (m, p)
        Rows.
    y : ndarray of shape (m,)
        Labels, -1 or +1.
    copies : ndarray of shape (m,)
        How many equal factors each stands for.
    noise : ndarray of shape (m,)
        Variances of the slack.
    """

    F: np.ndarray
    y: np.ndarray
    copies: np.ndarray
    noise: np.ndarray

    @property
    def hard(self) -> bool:
        """Whether there is no slack."""
        return not self.noise.any()


def find_sites(
    F: np.ndarray,
    y: np.ndarray,
    soft: float,
    weights: np.ndarray,
    options: BayesPointOptions = DEFAULTS,
) -> Sites:
    """Turn weighted rows into factors of the likelihood.

    A hard half-space is the same however often it is given, so that those that coincide are
    merged. With slack, a weight of ``2.3`` is two factors and a third one with the slack
    variance ``soft / 0.3``.
    """
    norms = row_norms(F)
    shortest = options.short_row * norms.max(initial=0.0)
    rows = np.flatnonzero((weights > 0.0) & (norms > shortest))
    if rows.size == 0:
        none = np.empty(0)
        return Sites(F[:0], none, none, none)
    if soft == 0.0:
        rows = rows[_distinct(F, y, norms, rows, options)]
        ones = np.ones(rows.size)
        return Sites(_rows(F, rows), y[rows], ones, np.zeros(rows.size))
    whole = np.floor(weights[rows])
    part = weights[rows] - whole
    full, rest = whole > 0.0, part > 0.0
    places = np.concatenate([rows[full], rows[rest]])
    copies = np.concatenate([whole[full], np.ones(int(rest.sum()))])
    noise = soft / np.concatenate([np.ones(int(full.sum())), part[rest]])
    return Sites(_rows(F, places), y[places], copies, noise)


def _rows(F: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Some rows, without a copy if they are all."""
    return F if rows.size == len(F) and (np.diff(rows) == 1).all() else F[rows]


def _distinct(
    F: np.ndarray, y: np.ndarray, norms: np.ndarray, rows: np.ndarray, options: BayesPointOptions
) -> np.ndarray:
    """Places in ``rows`` of the half-spaces that differ, the first of each kind."""
    # Sort by a random projection, so that duplicates become neighbours.
    direction = np.random.default_rng(0).normal(size=(F.shape[1],))
    scale = y[rows] / norms[rows]
    values = outputs_of(F, direction, options.chunk_values)[rows] * scale
    order = np.argsort(values, kind="stable")
    nearest = options.same_projection * np.linalg.norm(direction)
    close = np.flatnonzero(np.diff(values[order]) <= nearest)
    first, second = order[close], order[close + 1]
    same = np.zeros(close.size, dtype=bool)
    for start, stop in chunks(close.size, max(1, options.chunk_values // F.shape[1])):
        one, other = first[start:stop], second[start:stop]
        difference = F[rows[one]] * scale[one, None] - F[rows[other]] * scale[other, None]
        same[start:stop] = np.abs(difference).max(axis=1) <= options.same_normal
    # Chains of neighbours are one half-space.
    group = np.ones(rows.size, dtype=np.intp)
    group[0] = 0
    group[close[same] + 1] = 0
    group = np.cumsum(group)
    least = np.full(group[-1] + 1, rows.size)
    np.minimum.at(least, group, order)
    return np.sort(least)


def signed_outputs(sites: Sites, w: np.ndarray) -> np.ndarray:
    """Outputs ``y f``, all of them positive inside the version space."""
    return sites.y * outputs_of(sites.F, w)


def outputs_of(
    F: np.ndarray, w: np.ndarray, chunk_values: int = BayesPointOptions.chunk_values
) -> np.ndarray:
    """``Fw`` in double precision; a chunk at a time, as rows in single precision are cast."""
    outputs = np.empty(len(F))
    for start, stop in chunks(len(F), max(1, chunk_values // F.shape[1])):
        outputs[start:stop] = F[start:stop] @ w
    return outputs


def interior_direction(
    sites: Sites, guess: np.ndarray, options: BayesPointOptions = DEFAULTS
) -> np.ndarray | None:
    """Find a weight vector inside the version space, or prove that there is none.

    A few rows that forbid every direction prove that all rows do. So a linear program for the
    largest margin is solved over few rows, those that its solutions violate most are added, and
    it ends when none of them is violated, or when the few leave no room.

    Parameters
    ----------
    sites : Sites
        The half-spaces.
    guess : ndarray of shape (p,)
        A vector that is likely to be inside, or nearly.
    options : BayesPointOptions
        Settings.

    Returns
    -------
    ndarray of shape (p,) or None
        A vector with positive outputs; None if the version space is empty.
    """
    p = sites.F.shape[1]
    norms = row_norms(sites.F)
    step = options.first_rows + 2 * p
    chosen = np.array([], dtype=np.intp)
    w = guess
    while True:
        margins = signed_outputs(sites, w) / norms
        if margins.min() > 0.0:
            return w
        fresh = np.setdiff1d(np.argsort(margins)[:step], chosen)
        fresh = fresh[margins[fresh] <= 0.0] if chosen.size else fresh
        if fresh.size == 0:
            return None
        chosen = np.union1d(chosen, fresh)
        G = sites.F[chosen] * (sites.y[chosen] / norms[chosen])[:, None]
        # Maximise the smallest margin over the cube |w|_∞ <= 1.
        found = linprog(
            np.append(np.zeros(p), -1.0),
            A_ub=np.column_stack([-G, np.ones(len(G))]),
            b_ub=np.zeros(len(G)),
            bounds=[(-1.0, 1.0)] * p + [(None, None)],
            method="highs",
        )
        if found.status != 0 or -found.fun <= options.interior:
            return None
        w = found.x[:p]
