"""Compiled loops of the linear solvers: rows of the interior point, and coordinate descent.

The interior point has up to three inequalities ``a_r'z + e_r >= ρ_r`` per sample, all with the
output ``f`` of the sample in them. Their coefficient of ``f`` is ``ky y + k1`` and that of the
bound ``t`` is ``kt``, so that one loop serves the hinge (1, 0, 0) and the bounds from above
(0, -1, 1) and from below (0, 1, 1). A soft inequality pays ``p_r e_r``; its multiplier ``a`` and
the multiplier ``v = p - a`` of ``e >= 0`` are stored side by side, as their difference would
lose all digits. For the same reason the slacks ``s`` are carried along from a feasible start,
not computed from ``z``.
"""

from __future__ import annotations

import numpy as np

from oblong._core.compile import compiled, fast_max


@compiled
def _weight(soft, a, s, v, e):
    return 1.0 / (s / a + e / v) if soft else a / s


@compiled
def weigh_rows(soft, ky, k1, kt, y, a, s, v, e, weight, cross, rhs, coef):
    """Add one kind of row to the Newton system, less the products with the data.

    ``weight`` and ``cross`` receive the weights of ``x x'`` and of ``x`` times ``t``, ``rhs``
    the right-hand side of the affine step and ``coef`` the multipliers with their signs.

    Returns
    -------
    tuple of float
        Sums of the weights, of the right-hand sides and of the multipliers.
    """
    weights = 0.0
    targets = 0.0
    multipliers = 0.0
    for i in range(a.size):
        k = ky * y[i] + k1
        w = _weight(soft, a[i], s[i], v[i], e[i])
        r = w * ((e[i] if soft else 0.0) - s[i])
        weight[i] += w
        cross[i] += kt * k * w
        rhs[i] += k * r
        coef[i] += k * a[i]
        weights += w
        targets += r
        multipliers += a[i]
    return weights, targets, multipliers


@compiled
def predict_rows(soft, ky, k1, kt, y, df, dt, a, s, v, e, centre, second):
    """Measure the affine step, and prepare the right-hand side that corrects it.

    ``centre`` receives the part that is multiplied by the centring parameter, ``second`` the
    part of second order.

    Returns
    -------
    tuple of float
        The largest relative decrease of a slack or multiplier, the second-order change of the
        complementarity, and the sums of the two parts.
    """
    decrease = 0.0
    change = 0.0
    centres = 0.0
    seconds = 0.0
    for i in range(a.size):
        k = ky * y[i] + k1
        w = _weight(soft, a[i], s[i], v[i], e[i])
        da = w * ((e[i] if soft else 0.0) - s[i] - k * df[i] - kt * dt)
        ra = da / a[i]
        rs = -1.0 - ra
        decrease = fast_max(decrease, fast_max(-ra, -rs))
        product = da * s[i] * rs
        first = 1.0 / a[i]
        last = -ra * s[i] * rs
        if soft:
            rv = da / v[i]
            re = rv - 1.0
            decrease = fast_max(decrease, fast_max(rv, -re))
            product -= da * e[i] * re
            first -= 1.0 / v[i]
            last -= rv * e[i] * re
        change += product
        first *= w
        last *= w
        centre[i] += k * first
        second[i] += k * last
        centres += first
        seconds += last
    return decrease, change, centres, seconds


@compiled
def _direction(soft, dqa, dq, mu, a, s, v, e):
    """Change of ``a``, ``s`` and ``e`` in the corrected step, which changes ``a_r'z`` by ``dq``.

    ``dqa`` is the change in the affine step.
    """
    w = _weight(soft, a, s, v, e)
    base = (e if soft else 0.0) - s
    affine = w * (base - dqa)
    target = mu - affine * (-s - s * affine / a)
    da = w * (base - dq) + w * target / a
    de = 0.0
    if soft:
        opposite = mu + affine * (e * affine / v - e)
        da -= w * opposite / v
        de = opposite / v - e + e * da / v
    ds = target / a - s - s * da / a
    return da, ds, de


@compiled
def bound_step(soft, ky, k1, kt, y, dfa, dta, df, dt, mu, a, s, v, e):
    """Return the largest relative decrease of a slack or multiplier in the corrected step."""
    decrease = 0.0
    for i in range(a.size):
        k = ky * y[i] + k1
        dqa, dq = k * dfa[i] + kt * dta, k * df[i] + kt * dt
        da, ds, de = _direction(soft, dqa, dq, mu, a[i], s[i], v[i], e[i])
        decrease = fast_max(decrease, fast_max(-da / a[i], -ds / s[i]))
        if soft:
            decrease = fast_max(decrease, fast_max(da / v[i], -de / e[i]))
    return decrease


@compiled
def advance_rows(soft, ky, k1, kt, y, dfa, dta, df, dt, mu, step, a, s, v, e):
    """Take the corrected step; return the complementarity after it."""
    total = 0.0
    for i in range(a.size):
        k = ky * y[i] + k1
        dqa, dq = k * dfa[i] + kt * dta, k * df[i] + kt * dt
        da, ds, de = _direction(soft, dqa, dq, mu, a[i], s[i], v[i], e[i])
        a[i] += step * da
        s[i] += step * ds
        total += a[i] * s[i]
        if soft:
            v[i] -= step * da
            e[i] += step * de
            total += v[i] * e[i]
    return total


@compiled
def _dot(values, indices, w):
    """Product of a row with ``w``; a row without indices is dense.

    Four running sums hide the latency of the additions.
    """
    first = second = third = fourth = 0.0
    n = values.size
    blocks = n // 4
    if indices.size:
        for k in range(blocks):
            j = 4 * k
            first += values[j] * w[indices[j]]
            second += values[j + 1] * w[indices[j + 1]]
            third += values[j + 2] * w[indices[j + 2]]
            fourth += values[j + 3] * w[indices[j + 3]]
        for j in range(4 * blocks, n):
            first += values[j] * w[indices[j]]
    else:
        for k in range(blocks):
            j = 4 * k
            first += values[j] * w[j]
            second += values[j + 1] * w[j + 1]
            third += values[j + 2] * w[j + 2]
            fourth += values[j + 3] * w[j + 3]
        for j in range(4 * blocks, n):
            first += values[j] * w[j]
    return (first + second) + (third + fourth)


@compiled
def _add(values, indices, change, w):
    if indices.size:
        for k in range(values.size):
            w[indices[k]] += change * values[k]
    else:
        for k in range(values.size):
            w[k] += change * values[k]


@compiled
def row_products(data, indices, indptr, rows, w, out):
    """Write the products of some rows with ``w`` to ``out``."""
    for k in range(rows.size):
        i = rows[k]
        part = slice(indptr[i], indptr[i + 1])
        out[k] = _dot(data[part], indices[part], w)


@compiled
def add_rows(data, indices, indptr, rows, coef, out):
    """Add the combination of some rows with ``coef`` to ``out``."""
    for k in range(rows.size):
        if coef[k] != 0.0:
            i = rows[k]
            part = slice(indptr[i], indptr[i + 1])
            _add(data[part], indices[part], coef[k], out)


@compiled
def _coordinate(a, g, k, C, U, T, excess, rho):
    """Maximise the dual over one coefficient ``a = y c``, given ``g = y f``.

    The slope of the dual is ``T - g`` below zero, ``1 - g`` up to ``C`` and ``-T - g`` beyond;
    going outward, the excess raises ``T`` by ``rho`` a unit.
    """
    low = (T - rho * excess - g + k * a) / (k + rho)
    if low < 0.0:
        return max(low, -U)
    middle = a + (1.0 - g) / k
    if middle <= 0.0:
        return 0.0
    if middle < C:
        return middle
    high = (rho * (C + excess) - T - g + k * a) / (k + rho)
    return min(max(high, C), C + U)


@compiled
def _slopes(a, C, U, T):
    """Right and left slope of the concave term at ``a``; infinite where it ends."""
    if a < 0.0:
        return T, (T if a > -U else np.inf)
    if a == 0.0:
        return 1.0, (T if U > 0.0 else np.inf)
    if a < C:
        return 1.0, 1.0
    if a == C:
        return (-T if U > 0.0 else -np.inf), 1.0
    return (-T if a < C + U else -np.inf), -T


@compiled
def descend(
    data, indices, indptr, order, y, C, U, norms, along, c, w,
    b, total, t, excess, drift, square, R2, rho, D, shrink,
):  # fmt: skip
    """Visit the rows in ``order`` once, maximising the dual over one coefficient at a time.

    ``b`` and ``t`` are the multipliers of the bias and of the bound; ``total`` is the sum of the
    coefficients, ``excess`` that of their excess, and ``drift`` is ``w·m``. The rows count as if
    their mean ``m`` were subtracted: ``along`` has their products with it, ``square`` is its
    squared norm and ``norms`` are squared distances from it. ``order`` is overwritten: rows whose
    output is farther than ``shrink`` inside its interval, at a kink of the dual, are dropped.

    Returns
    -------
    active : int
        Rows that are left at the front of ``order``.
    worst : float
        Largest violation met.
    gap : float
        What the rows met lacked to complementarity: at rest, the gap of primal and dual.
    total, excess, drift : float
        The sums afterwards.
    """
    gap = 0.0
    worst = 0.0
    active = 0
    for place in range(order.size):
        i = order[place]
        part = slice(indptr[i], indptr[i + 1])
        values = data[part]
        columns = indices[part]
        label = y[i]
        Ci = C[i]
        Ui = U[i]
        a = label * c[i]
        centre = drift + total * (along[i] - square)
        g = label * (_dot(values, columns, w) - centre + b + R2 * total)
        T = max(1.0, t + rho * (excess - D)) if rho > 0.0 else t
        right, left = _slopes(a, Ci, Ui, T)
        if g - right > shrink and left - g > shrink:
            continue
        order[active] = i
        active += 1
        worst = max(worst, right - g, g - left)
        e = -a if a < 0.0 else (a - Ci if a > Ci else 0.0)
        gap += Ci * (max(0.0, 1.0 - g) + max(0.0, abs(g) - T)) - min(max(a, 0.0), Ci) + a * g
        if e > 0.0:
            gap += T * e
        new = _coordinate(a, g, norms[i] + R2, Ci, Ui, T, e, rho)
        if new != a:
            change = label * (new - a)
            c[i] = label * new
            total += change
            drift += change * along[i]
            excess += (-new if new < 0.0 else (new - Ci if new > Ci else 0.0)) - e
            _add(values, columns, change, w)
    return active, worst, gap, total, excess, drift
