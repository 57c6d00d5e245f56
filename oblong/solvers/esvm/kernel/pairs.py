"""A model of the kernel dual around given weights, and its maximum by pairs of weights.

Around ``α0``, where the products are ``Q`` and ``q`` is their diagonal, moves ``δ = α - α0`` change
the log-determinant by ::

    r ln|I + Q diag(δ) / r|  ≈  r Σ ln(1 + q_i δ_i / r) - Σ_{i<j} Q_ij² β_i β_j / r

with ``β_i = δ_i / (1 + q_i δ_i / r)``, continued linearly where a weight falls a lot. It is exact
for one weight, right to third order for two, and has the Hessian of the log-determinant. ``|v|``
is kept as it is. Pairs of weights move as in the sequential algorithm
(Momma, Hatano and Nakayama, Ellipsoidal Support Vector Machines, ACML 2010, section 3.2), but a
move in the model costs four rows of matrices instead of a matrix.
"""

from __future__ import annotations

import numpy as np

from oblong._core.compile import compiled, fast_max, fast_min


@compiled
def _terms(d, q, r, fall):  # pragma: no cover - compiled
    """``β`` and its two derivatives, and the factor ``1 / (1 + q δ / r)``."""
    x = d * q / r
    factor = 1.0 / (1.0 + x)
    if x > fall:
        square = factor * factor
        return d * factor, square, -2.0 * (q / r) * square * factor, factor
    edge = 1.0 / (1.0 + fall)
    return (r / q) * edge * (fall + (x - fall) * edge), edge * edge, 0.0, factor


@compiled
def _along(signs, moves, products, offs, cross, line, r, bound, rules):  # pragma: no cover
    """Length ``t`` of the best move ``δ_i + y_i t``, ``δ_j - y_j t``: Newton in a bracket.

    ``|v|²`` is ``V + c1 t + c2 t²``, and ``offs`` are the slopes of the coupling so far.
    """
    y_i, y_j = signs
    d_i, d_j = moves
    q_i, q_j = products
    off_i, off_j = offs
    V, c1, c2 = line
    steps, precision, fall = rules
    at_i, at_j = _terms(d_i, q_i, r, fall)[0], _terms(d_j, q_j, r, fall)[0]
    low, high, t = 0.0, bound, 0.0
    for _ in range(steps):
        b_i, s_i, bend_i, f_i = _terms(d_i + y_i * t, q_i, r, fall)
        b_j, s_j, bend_j, f_j = _terms(d_j - y_j * t, q_j, r, fall)
        o_i, o_j = off_i + cross * (b_j - at_j), off_j + cross * (b_i - at_i)
        square = V + t * (c1 + c2 * t)
        if square <= 0.0:
            high, t = t, 0.5 * (low + t)
            continue
        root, falls = square**0.5, c1 + 2.0 * c2 * t
        slope = y_i * (q_i * f_i - o_i * s_i) - y_j * (q_j * f_j - o_j * s_j) - 0.5 * falls / root
        bend = -(q_i * q_i * f_i * f_i + q_j * q_j * f_j * f_j) / r - o_i * bend_i - o_j * bend_j
        bend += 2.0 * y_i * y_j * cross * s_i * s_j - c2 / root
        bend += 0.25 * falls * falls / (root * square)
        if slope > 0.0:
            if t >= bound:
                return bound
            low = t
        else:
            high = t
        step = t - slope / bend if bend < 0.0 else high
        if step >= high and high == bound:
            step = bound
        elif step <= low or step >= high:
            step = 0.5 * (low + high)
        if abs(step - t) <= precision * step:
            return step
        t = step
    return low


@compiled
def move_pairs(K, Q, y, low, high, start, alpha, q, g, r, tol, limit, rules):  # pragma: no cover
    """Move the pair that violates its conditions most, again and again; return how often.

    Parameters
    ----------
    K, Q : ndarray of shape (n, n), float32
        Dot products, and the products at the centre, or their absolute values.
    y : ndarray of shape (n,)
        Labels.
    low, high, start : ndarray of shape (n,)
        Least and largest weights, and those around which the model is made.
    alpha : ndarray of shape (n,)
        Weights to begin with, which are moved; ``Σ y_i α_i`` is kept.
    q, g : ndarray of shape (n,)
        ``q_i`` at the centre, and ``K (y∘α)``, which is overwritten.
    r : float
        Weight of the log-determinant.
    tol : float
        Largest violation of the optimality conditions of the model.
    limit : int
        Limit on pairs.
    rules : tuple
        Newton steps per pair, precision of a move, and where the model is linear.
    """
    n = len(y)
    fall_below = rules[2]
    off, V = np.zeros(n), 0.0
    # The slope of the model is `first - second off`; both change for a weight that moves only.
    first, second = np.empty(n), np.empty(n)
    # Infinite where a weight may not move to this side.
    up, down = np.empty(n), np.empty(n)
    for j in range(n):
        V += y[j] * alpha[j] * g[j]
        value, slope, _, factor = _terms(alpha[j] - start[j], q[j], r, fall_below)
        first[j], second[j] = q[j] * factor, slope
        if value != 0.0:
            row, value = Q[j], value / r
            for k in range(n):
                off[k] += value * (row[k] * row[k])
            off[j] -= value * (row[j] * row[j])
        rises = 0.0 if alpha[j] < high[j] else np.inf
        falls = 0.0 if alpha[j] > low[j] else np.inf
        up[j], down[j] = (rises, falls) if y[j] > 0 else (falls, rises)
    rising, falling = np.empty(n), np.empty(n)
    x_i, x_j, t = 0.0, 0.0, 0.0
    row_i, row_j, kernel_i, kernel_j = Q[0], Q[0], K[0], K[0]
    for step in range(limit):
        inverse = 1.0 / V**0.5
        lowest, highest = np.inf, -np.inf
        for k in range(n):
            off[k] += x_i * (row_i[k] * row_i[k]) + x_j * (row_j[k] * row_j[k])
            g[k] += t * (kernel_i[k] - kernel_j[k])
            h = g[k] * inverse - y[k] * (first[k] - off[k] * second[k])
            rising[k], falling[k] = h + up[k], h - down[k]
            lowest = fast_min(lowest, rising[k])
            highest = fast_max(highest, falling[k])
        if not highest - lowest > tol:
            return step
        i, j = 0, 0
        while i < n - 1 and rising[i] != lowest:
            i += 1
        while j < n - 1 and falling[j] != highest:
            j += 1
        room_i = high[i] - alpha[i] if y[i] > 0 else alpha[i] - low[i]
        room_j = alpha[j] - low[j] if y[j] > 0 else high[j] - alpha[j]
        c1, c2 = 2.0 * (g[i] - g[j]), K[i, i] + K[j, j] - 2.0 * K[i, j]
        c2 = max(c2, 0.0)
        d_i, d_j = alpha[i] - start[i], alpha[j] - start[j]
        cross = float(Q[i, j]) ** 2 / r
        bound = min(room_i, room_j)
        signs, moves, products, offs = (y[i], y[j]), (d_i, d_j), (q[i], q[j]), (off[i], off[j])
        t = _along(signs, moves, products, offs, cross, (V, c1, c2), r, bound, rules)
        if t <= 0.0:
            return step
        x_i = -_terms(d_i, q[i], r, fall_below)[0]
        x_j = -_terms(d_j, q[j], r, fall_below)[0]
        # A bound is met exactly.
        alpha[i] += y[i] * t
        if t >= room_i:
            alpha[i] = high[i] if y[i] > 0 else low[i]
        alpha[j] -= y[j] * t
        if t >= room_j:
            alpha[j] = low[j] if y[j] > 0 else high[j]
        for k in (i, j):
            value, slope, _, factor = _terms(alpha[k] - start[k], q[k], r, fall_below)
            first[k], second[k] = q[k] * factor, slope
            rises = 0.0 if alpha[k] < high[k] else np.inf
            falls = 0.0 if alpha[k] > low[k] else np.inf
            up[k], down[k] = (rises, falls) if y[k] > 0 else (falls, rises)
            if k == i:
                x_i += value
            else:
                x_j += value
        row_i, row_j, kernel_i, kernel_j = Q[i], Q[j], K[i], K[j]
        x_i, x_j = x_i / r, x_j / r
        # A weight is not coupled to itself.
        off[i] -= x_i * (row_i[i] * row_i[i])
        off[j] -= x_j * (row_j[j] * row_j[j])
        V += t * (c1 + c2 * t)
        if V <= 0.0:
            return step + 1
    return limit
