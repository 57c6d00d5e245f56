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
def ascend_pairs(K, diagonal, p, s, c, u, right, left, gain, tol, tiny, snap, max_steps):
    """Ascend the dual of one block by maximal violating pairs, second-order choice.

    Maximises ``Σ g_i(c_i) - ½ c'Kc`` over ``c`` with ``Σc`` fixed, starting from ``c`` with
    ``u = Kc`` plus whatever lies outside the block. Stops when
    ``max(right - u) - min(left - u) <= tol``. All arrays are updated in place.

    Returns
    -------
    steps : int
        Steps taken.
    violation : float
        Violation reached; NaN if the values are not finite.
    """
    q = c.size
    top = -np.inf
    bottom = np.inf
    for k in range(q):
        top = fast_max(top, right[k] - u[k])
        bottom = fast_min(bottom, left[k] - u[k])
    for step in range(max_steps):
        if top - bottom <= tol:
            return step, top - bottom
        i = q
        for k in range(q):
            i = min(i, k if right[k] - u[k] == top else q)
        if i == q:
            return step, np.nan
        Ki = K[i]
        Kii = diagonal[i]
        best = 0.0
        for k in range(q):
            gap = fast_max(top - (left[k] - u[k]), 0.0)
            value = gap * gap / fast_max(Kii + diagonal[k] - 2.0 * Ki[k], tiny)
            gain[k] = value
            best = fast_max(best, value)
        j = q
        for k in range(q):
            j = min(j, k if gain[k] == best else q)
        if j == q:
            return step, np.nan
        Kj = K[j]
        curvature = max(Kii + diagonal[j] - 2.0 * Ki[j], tiny)
        ci, cj = _pair_step(p[i], s[i], c[i], p[j], s[j], c[j], u[j] - u[i], curvature, snap)
        di = ci - c[i]
        dj = cj - c[j]
        c[i] = ci
        c[j] = cj
        right[i] = _right_slope(p[i], s[i], ci)
        left[i] = _left_slope(p[i], s[i], ci)
        right[j] = _right_slope(p[j], s[j], cj)
        left[j] = _left_slope(p[j], s[j], cj)
        top = -np.inf
        bottom = np.inf
        for k in range(q):
            value = u[k] + di * Ki[k] + dj * Kj[k]
            u[k] = value
            top = fast_max(top, right[k] - value)
            bottom = fast_min(bottom, left[k] - value)
    return max_steps, top - bottom
