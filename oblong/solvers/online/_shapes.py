"""What the structures of the shape matrix do for one example: variance, and update.

The weights lie in a table with one row a feature and one column a class, the intercept in row 0,
so that the columns of an example pick short contiguous pieces of it. Variances of a diagonal shape
follow the weights in the same row: an example of a binary model then costs one cache line a
feature. Full shapes are ``σ S`` with one matrix ``S`` a class, in double precision.

All examples are sparse here: those of a dense batch share the one list of all columns. Sums are
in double precision whatever the type of the table.
"""

from __future__ import annotations

import math

from oblong._core.compile import compiled, fast_max
from oblong.solvers.online._sigmoid import SQUARE

__all__ = [
    "LN_2",
    "LOOK",
    "TINY",
    "full_product",
    "full_shrink",
    "full_update",
    "rescale",
    "rescale_weights",
    "row_scores",
    "table_update",
    "table_variance",
]

# Variances below are round-off of a shape that has vanished.
TINY = 1e-280
# Updates between two looks at the size of the shape.
LOOK = 32
# Older compilers have no logarithm to the base two.
LN_2 = math.log(2.0)


@compiled
def row_scores(columns, values, bias, table, scores):
    """Outputs ``w_k'x`` of all classes."""
    n = values.size
    if scores.size == 1:
        # Four sums, so that the additions do not wait for each other.
        a, b, c, d = bias * table[0, 0], 0.0, 0.0, 0.0
        quarters = n // 4
        for g in range(quarters):
            p = 4 * g
            a += values[p] * table[columns[p] + 1, 0]
            b += values[p + 1] * table[columns[p + 1] + 1, 0]
            c += values[p + 2] * table[columns[p + 2] + 1, 0]
            d += values[p + 3] * table[columns[p + 3] + 1, 0]
        for p in range(4 * quarters, n):
            a += values[p] * table[columns[p] + 1, 0]
        scores[0] = (a + b) + (c + d)
        return
    for k in range(scores.size):
        scores[k] = bias * table[0, k]
    for p in range(n):
        x = values[p]
        row = table[columns[p] + 1]
        for k in range(scores.size):
            scores[k] += x * row[k]


@compiled
def table_variance(columns, values, bias, table, column):
    """Variance ``Σ D_j x_j²`` with the diagonal in a column of the table, or 1 if -1."""
    a, b = bias * bias, 0.0
    if column >= 0:
        a *= table[0, column]
    n = values.size
    half = n // 2
    for g in range(half):
        p = 2 * g
        x, z = values[p], values[p + 1]
        if column >= 0:
            a += x * x * table[columns[p] + 1, column]
            b += z * z * table[columns[p + 1] + 1, column]
        else:
            a += x * x
            b += z * z
    for p in range(2 * half, n):
        x = values[p]
        a += x * x * (table[columns[p] + 1, column] if column >= 0 else 1.0)
    return a + b


@compiled
def _shrunk(variance, x, precision, floor):
    """``1/D += τ x²``, held at the floor."""
    return fast_max(variance / (1.0 + precision * variance * x * x), floor)


@compiled
def table_update(columns, values, bias, table, total, k, column, step, precision, floor, t):
    """``w_k += step D x`` and ``1/D += τ x²`` for a diagonal in a column of the table, or for 1.

    ``t`` is the number of the rounds before this one. Returns how many variances are held at the
    floor.
    """
    keeps = total.shape[0] > 0
    held = 0
    # The intercept takes its turn after the other features.
    for p in range(values.size + 1):
        last = p == values.size
        x = bias if last else float(values[p])
        j = 0 if last else columns[p] + 1
        change = step * x
        if column >= 0:
            variance = float(table[j, column])
            change *= variance
            if precision > 0.0:
                shrunk = _shrunk(variance, x, precision, floor)
                held += shrunk == floor
                table[j, column] = shrunk
        table[j, k] += change
        if keeps:
            total[j, k] += t * change
    return held


@compiled
def full_product(columns, values, bias, shape, product):
    """Compute ``S x`` and return ``x'S x``."""
    # Four rows at a time: the product is read and written once for all of them.
    n, size = values.size, product.size
    first = shape[0]
    for r in range(size):
        product[r] = bias * first[r]
    quarters = n // 4
    for g in range(quarters):
        p = 4 * g
        a, b, c, d = values[p], values[p + 1], values[p + 2], values[p + 3]
        ra, rb = shape[columns[p] + 1], shape[columns[p + 1] + 1]
        rc, rd = shape[columns[p + 2] + 1], shape[columns[p + 3] + 1]
        for r in range(size):
            product[r] += (a * ra[r] + b * rb[r]) + (c * rc[r] + d * rd[r])
    for p in range(4 * quarters, n):
        a = values[p]
        ra = shape[columns[p] + 1]
        for r in range(size):
            product[r] += a * ra[r]
    v = bias * product[0]
    for p in range(n):
        v += values[p] * product[columns[p] + 1]
    return v


@compiled
def full_update(shape, table, total, k, product, step, shrink, t):
    """``w_k += step S x`` and ``S -= β S x x'S``; ``product`` is destroyed."""
    size = product.size
    for r in range(size):
        table[r, k] += step * product[r]
    if total.shape[0] > 0:
        for r in range(size):
            total[r, k] += t * step * product[r]
    full_shrink(shape, product, shrink)


@compiled
def full_shrink(shape, product, shrink):
    """``S -= β S x x'S``; ``product`` is destroyed.

    The factor ``√β`` goes into the product first: then entries across the diagonal are the same
    product of two numbers and S stays symmetric to the last bit, without which it would lose its
    definiteness after some thousand updates.
    """
    size = product.size
    if shrink <= 0.0:
        return
    root = math.sqrt(shrink)
    for r in range(size):
        product[r] *= root
    for r in range(size):
        row, factor = shape[r], product[r]
        for c in range(size):
            row[c] -= factor * product[c]


@compiled
def _middle(shape):
    """Binary logarithm of the middle between the largest and the smallest variance."""
    largest, smallest = 0.0, math.inf
    for k in range(shape.shape[0]):
        for r in range(shape.shape[1]):
            variance = shape[k, r, r]
            if variance > 0.0:
                largest = fast_max(largest, variance)
                smallest = min(smallest, variance)
    return 0.5 * (math.log(largest) + math.log(smallest)) / LN_2 if largest > 0.0 else 0.0


@compiled
def rescale_weights(table, total, scale, n_columns, exponent):
    """Multiply weights by 2ᵏ, and with them the scale of the outputs that sigmoids know."""
    factor = 2.0**exponent
    for r in range(table.shape[0]):
        for k in range(n_columns):
            table[r, k] *= factor
    for r in range(total.shape[0]):
        for k in range(n_columns):
            total[r, k] *= factor
    if scale.shape[1] > SQUARE:
        for k in range(scale.shape[0]):
            scale[k, SQUARE] *= factor * factor


@compiled
def rescale(shape, table, total, scale, weights_too):
    """Multiply shapes by 4ᵏ, and weights by 2ᵏ, if the variances have left the middle of the range.

    The middle of the largest and the smallest counts: features that hardly ever occur keep their
    large variance while that of others vanishes, and neither may leave the range of numbers. Powers
    of two cost no digit. Returns ``k``, the exponent of the weights.
    """
    size = shape.shape[1]
    largest = 0.0
    for k in range(shape.shape[0]):
        largest = fast_max(largest, scale[k, 0])
    if not weights_too and (largest > 2.0**40 or largest < 2.0**-40):
        factor = 4.0 ** (-math.floor(0.5 * math.log(largest) / LN_2))
        for k in range(shape.shape[0]):
            scale[k, 0] *= factor
    middle = _middle(shape)
    if -20.0 <= middle <= 20.0:
        return 0
    exponent = -math.floor(0.5 * middle)
    factor = 4.0**exponent
    for k in range(shape.shape[0]):
        for r in range(size):
            row = shape[k, r]
            for c in range(size):
                row[c] *= factor
    if weights_too:
        rescale_weights(table, total, scale, shape.shape[0], exponent)
    return exponent
