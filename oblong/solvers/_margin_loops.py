"""Compiled loops of the margin solver: pairwise ascent inside one dense block."""

from __future__ import annotations

import numpy as np

from oblong._compile import compiled, fast_max, fast_min

__all__ = ["ascend_pairs"]


@compiled
def _right_slope(p, s, c):
    if c >= p[3]:
        return -np.inf
    if c >= p[2]:
        return s[2]
    return s[1] if c >= p[1] else s[0]


@compiled
def _left_slope(p, s, c):
    if c <= p[0]:
        return np.inf
    if c <= p[1]:
        return s[0]
    return s[1] if c <= p[2] else s[2]


@compiled
def _next_above(p, c):
    for k in range(4):
        if p[k] > c:
            return p[k]
    return np.inf


@compiled
def _next_below(p, c):
    for k in range(3, -1, -1):
        if p[k] < c:
            return p[k]
    return -np.inf


@compiled
def _snap(p, c, snap):
    for k in range(4):
        if abs(c - p[k]) <= snap:
            return p[k]
    return c


@compiled
def _pair_step(pi, si, ci, pj, sj, cj, slope, curvature, snap):
    """Raise ``ci`` and lower ``cj`` by the exact maximiser of the dual along that line.

    ``slope`` is ``u_j - u_i``. The dual is piecewise quadratic along the line: walk from
    kink to kink, landing exactly on each, until its derivative is no longer positive.
    """
    moved = 0.0
    while True:
        rise = _right_slope(pi, si, ci) - _left_slope(pj, sj, cj) + slope - curvature * moved
        if not rise > 0.0:
            break
        step = rise / curvature
        top = _next_above(pi, ci)
        bottom = _next_below(pj, cj)
        room_i = top - ci
        room_j = cj - bottom
        if step < room_i and step < room_j:
            ci = _snap(pi, ci + step, snap)
            cj = _snap(pj, cj - step, snap)
            break
        if room_i <= room_j:
            moved += room_i
            cj = _snap(pj, cj - room_i, snap)
            ci = top
        else:
            moved += room_j
            ci = _snap(pi, ci + room_j, snap)
            cj = bottom
    return ci, cj


@compiled
def _first_equal(values, target):
    found = values.size
    for k in range(values.size):
        found = min(found, k if values[k] == target else values.size)
    return found


@compiled
def _shift(up, low, di, Ki, dj, Kj):
    """Subtract a change of the image; return the largest of ``up`` and the least of ``low``."""
    highest = -np.inf
    lowest = np.inf
    for k in range(up.size):
        change = di * Ki[k] + dj * Kj[k]
        above = up[k] - change
        below = low[k] - change
        up[k] = above
        low[k] = below
        highest = fast_max(highest, above)
        lowest = fast_min(lowest, below)
    return highest, lowest


@compiled
def _gains(top, low, Kii, diagonal, Ki, tiny, gains):
    """Gains, to second order, of pairing a coefficient with each of the others."""
    largest = 0.0
    for k in range(low.size):
        gap = fast_max(top - low[k], 0.0)
        gain = gap * gap / fast_max(Kii + diagonal[k] - 2.0 * Ki[k], tiny)
        gains[k] = gain
        largest = fast_max(largest, gain)
    return largest


@compiled
def ascend_pairs(K, diagonal, p, s, c, up, low, scratch, tol, tiny, snap, max_steps):
    """Ascend the dual of one block by maximal violating pairs, second-order choice.

    Maximises ``Σ g_i(c_i) - ½ c'Kc`` over ``c`` with ``Σc`` fixed. ``up`` and ``low`` are the
    right and left slopes at ``c`` less the image ``u``; the search stops when
    ``max(up) - min(low) <= tol``. The three arrays are updated in place.

    Extrema are found strip by strip (``scratch`` has the length of a strip): the index is
    looked for only in strips that improve on the value so far, while they are in cache.

    Returns
    -------
    steps : int
        Steps taken.
    violation : float
        Violation reached; NaN if the values are not finite.
    """
    q = c.size
    strip = scratch.size
    di = dj = 0.0
    i = j = 0
    for step in range(max_steps + 1):
        Ki = K[i]
        Kj = K[j]
        top = -np.inf
        bottom = np.inf
        for start in range(0, q, strip):
            part = slice(start, min(q, start + strip))
            highest, lowest = _shift(up[part], low[part], di, Ki[part], dj, Kj[part])
            bottom = min(bottom, lowest)
            if highest > top:
                top = highest
                i = start + _first_equal(up[part], top)
        if top - bottom <= tol or step == max_steps:
            return step, top - bottom
        if not top - bottom < np.inf:
            return step, np.nan
        Ki = K[i]
        Kii = diagonal[i]
        best = 0.0
        for start in range(0, q, strip):
            part = slice(start, min(q, start + strip))
            gains = scratch[: part.stop - start]
            largest = _gains(top, low[part], Kii, diagonal[part], Ki[part], tiny, gains)
            if largest > best:
                best = largest
                j = start + _first_equal(gains, best)
        curvature = max(Kii + diagonal[j] - 2.0 * Ki[j], tiny)
        ui = _right_slope(p[i], s[i], c[i]) - up[i]
        uj = _left_slope(p[j], s[j], c[j]) - low[j]
        ci, cj = _pair_step(p[i], s[i], c[i], p[j], s[j], c[j], uj - ui, curvature, snap)
        di = ci - c[i]
        dj = cj - c[j]
        c[i] = ci
        c[j] = cj
        up[i] = _right_slope(p[i], s[i], ci) - ui
        low[i] = _left_slope(p[i], s[i], ci) - ui
        up[j] = _right_slope(p[j], s[j], cj) - uj
        low[j] = _left_slope(p[j], s[j], cj) - uj
    return max_steps, np.nan
