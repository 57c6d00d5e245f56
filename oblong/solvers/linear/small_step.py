"""A step of the linear interior point as one compiled loop, for rows that are small in all.

It is the step of :mod:`oblong.solvers.linear.interior_point`, which calls NumPy some sixty times:
for a few hundred rows these calls take ten times as long as the arithmetic.
"""

from __future__ import annotations

import numpy as np

from oblong._core.compile import compiled
from oblong.solvers.linear.row_loops import advance_rows, bound_step, predict_rows, weigh_rows


@compiled
def _factor(matrix, lower):
    """Write the Cholesky factor of a matrix to ``lower``; false if it is not positive definite."""
    for i in range(len(matrix)):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            if i > j:
                lower[i, j] = total / lower[j, j]
            elif total > 0.0:
                lower[i, i] = np.sqrt(total)
            else:
                return False
    return True


@compiled
def _solve(lower, x):
    """Solve ``L L' x = rhs`` in place."""
    p = len(x)
    for i in range(p):
        for k in range(i):
            x[i] -= lower[i, k] * x[k]
        x[i] /= lower[i, i]
    for i in range(p - 1, -1, -1):
        for k in range(i + 1, p):
            x[i] -= lower[k, i] * x[k]
        x[i] /= lower[i, i]


@compiled
def _refined(scaled, lower, scale, rhs):
    """Solve with the matrix whose scale was taken out, with one step of refinement."""
    p = len(rhs)
    x = scale * rhs
    rest = x.copy()
    _solve(lower, x)
    for i in range(p):
        for k in range(p):
            rest[i] -= (scaled[i, k] if k <= i else scaled[k, i]) * x[k]
    _solve(lower, rest)
    return scale * (x + rest)


@compiled
def _combined(Z, columns):
    """Sums of the rows with the coefficients of each column."""
    out = np.zeros((len(columns), Z.shape[1]))
    for i in range(len(Z)):
        for q in range(len(columns)):
            for j in range(Z.shape[1]):
                out[q, j] += columns[q, i] * Z[i, j]
    return out


@compiled
def _gram(Z, weight):
    """Lower triangle of the weighted Gram matrix, four rows at a time."""
    n, p = Z.shape
    out = np.zeros((p, p))
    blocks = n // 4
    for block in range(blocks):
        i = 4 * block
        for j in range(p):
            first, second = weight[i] * Z[i, j], weight[i + 1] * Z[i + 1, j]
            third, fourth = weight[i + 2] * Z[i + 2, j], weight[i + 3] * Z[i + 3, j]
            for k in range(j + 1):
                out[j, k] += (first * Z[i, k] + second * Z[i + 1, k]) + (
                    third * Z[i + 2, k] + fourth * Z[i + 3, k]
                )
    for i in range(4 * blocks, n):
        for j in range(p):
            for k in range(j + 1):
                out[j, k] += weight[i] * Z[i, j] * Z[i, k]
    return out


@compiled
def _outputs(Z, direction, out):
    for i in range(len(Z)):
        total = 0.0
        for j in range(Z.shape[1]):
            total += Z[i, j] * direction[j]
        out[i] = total


@compiled
def small_step(
    Z, d, y, offset, soft, heads, numbers, f, z, residual,
    total, pairs, least, damping,
):  # fmt: skip
    """Take one predictor-corrector step.

    ``Z`` has the rows, followed by ones if there is a bias; the ``d`` weights before it are
    regularised. ``numbers`` has the slacks and multipliers ``a, s, v, e`` of every kind of
    inequality, whose ``(ky, k1)`` are in ``heads``. They, the outputs ``f``, the point ``z`` and
    the dual ``residual`` are overwritten. ``total`` is the complementarity, ``least`` what its
    mean is not asked to go below.

    Returns
    -------
    float
        The complementarity after the step; -1 if rounding leaves no direction.
    """
    n, p = Z.shape
    kinds = len(numbers)
    columns = np.zeros((4, n))
    columns[3] = offset
    for q in range(kinds):
        a, s, v, e = numbers[q, 0], numbers[q, 1], numbers[q, 2], numbers[q, 3]
        weigh_rows(
            soft[q], heads[q, 0], heads[q, 1], 0.0, y, a, s, v, e,
            columns[0], columns[1], columns[2], columns[3],
        )  # fmt: skip
    matrix = _gram(Z, columns[0])
    sums = _combined(Z, columns[2:])
    residual[:] = -sums[1]
    for j in range(d):
        matrix[j, j] += 1.0
        residual[j] += z[j]
    scale = np.empty(p)
    for j in range(p):
        if not 0.0 < matrix[j, j] < np.inf:
            return -1.0
        scale[j] = 1.0 / np.sqrt(matrix[j, j])
    for j in range(p):
        for k in range(j + 1):
            matrix[j, k] *= scale[j] * scale[k]
    lower = np.empty((p, p))
    ridge, found = 0.0, _factor(matrix, lower)
    while not found and ridge < 1e-9:
        ridge = 1e-15 if ridge == 0.0 else 100.0 * ridge
        found = _factor(matrix + ridge * np.eye(p), lower)
    if not found:
        return -1.0
    affine = _refined(matrix, lower, scale, sums[0] - residual)
    dfa, df = np.empty(n), np.empty(n)
    _outputs(Z, affine, dfa)
    columns[:2] = 0.0
    decrease = change = 0.0
    for q in range(kinds):
        a, s, v, e = numbers[q, 0], numbers[q, 1], numbers[q, 2], numbers[q, 3]
        worst, second, _, _ = predict_rows(
            soft[q], heads[q, 0], heads[q, 1], 0.0, y, dfa, 0.0, a, s, v, e,
            columns[0], columns[1],
        )  # fmt: skip
        decrease = max(decrease, worst)
        change += second
    step = min(1.0, 1.0 / decrease) if decrease > 0.0 else 1.0
    predicted = (1.0 - step) * total + step**2 * change
    mu = total / pairs
    target = max(mu * min(1.0, max(predicted / total, 0.0)) ** 3, min(mu, least))
    centre, second = _combined(Z, columns[:2])
    direction = affine + _refined(matrix, lower, scale, target * centre + second)
    for j in range(p):
        if not np.isfinite(direction[j]):
            return -1.0
    _outputs(Z, direction, df)
    decrease = 0.0
    for q in range(kinds):
        a, s, v, e = numbers[q, 0], numbers[q, 1], numbers[q, 2], numbers[q, 3]
        worst = bound_step(
            soft[q], heads[q, 0], heads[q, 1], 0.0, y, dfa, 0.0, df, 0.0, target, a, s, v, e
        )
        decrease = max(decrease, worst)
    step = min(1.0, damping / decrease) if decrease > 0.0 else 1.0
    if not step > 1e-10:
        return -1.0
    total = 0.0
    for q in range(kinds):
        a, s, v, e = numbers[q, 0], numbers[q, 1], numbers[q, 2], numbers[q, 3]
        total += advance_rows(
            soft[q], heads[q, 0], heads[q, 1], 0.0, y, dfa, 0.0, df, 0.0, target, step, a, s, v, e
        )
    f += step * df
    z += step * direction
    residual *= 1.0 - step
    return total if np.isfinite(total) else -1.0
