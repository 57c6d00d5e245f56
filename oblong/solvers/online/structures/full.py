"""Full covariances ``σ S``, one symmetric matrix ``S`` per output in double precision."""

import math

from oblong._core.compile import compiled, fast_max
from oblong.solvers.online import slots

# Older compilers have no logarithm to the base two.
LN_2 = math.log(2.0)


@compiled
def inner(a, b):
    """Inner product, in four sums that do not wait for each other."""
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    quarters = a.size // 4
    for g in range(quarters):
        p = 4 * g
        first += a[p] * b[p]
        second += a[p + 1] * b[p + 1]
        third += a[p + 2] * b[p + 2]
        fourth += a[p + 3] * b[p + 3]
    for p in range(4 * quarters, a.size):
        first += a[p] * b[p]
    return (first + second) + (third + fourth)


@compiled
def full_product(columns, values, bias, covariance, product):
    """Compute ``S x`` and return ``x'S x``."""
    # Four rows at a time: the product is read and written once for all of them.
    n, size = values.size, product.size
    first = covariance[0]
    for r in range(size):
        product[r] = bias * first[r]
    quarters = n // 4
    for g in range(quarters):
        p = 4 * g
        a, b, c, d = values[p], values[p + 1], values[p + 2], values[p + 3]
        ra, rb = covariance[columns[p] + 1], covariance[columns[p + 1] + 1]
        rc, rd = covariance[columns[p + 2] + 1], covariance[columns[p + 3] + 1]
        for r in range(size):
            product[r] += (a * ra[r] + b * rb[r]) + (c * rc[r] + d * rd[r])
    for p in range(4 * quarters, n):
        a = values[p]
        ra = covariance[columns[p] + 1]
        for r in range(size):
            product[r] += a * ra[r]
    v = bias * product[0]
    for p in range(n):
        v += values[p] * product[columns[p] + 1]
    return v


@compiled
def full_update(covariance, table, total, k, product, step, shrink, t):
    """``w_k += step S x`` and ``S -= β S x x'S``; ``product`` is destroyed.

    The factor ``√β`` goes into the product first: then entries across the diagonal are the same
    product of two numbers and S stays symmetric to the last bit, without which it would lose its
    definiteness after some thousand updates.
    """
    size = product.size
    for r in range(size):
        table[r, k] += step * product[r]
    if total.shape[0] > 0:
        for r in range(size):
            total[r, k] += t * step * product[r]
    if shrink <= 0.0:
        return
    root = math.sqrt(shrink)
    for r in range(size):
        product[r] *= root
    for r in range(size):
        row, factor = covariance[r], product[r]
        for c in range(size):
            row[c] -= factor * product[c]


@compiled
def add_precision(S, j, beta, row):
    """``S -= β s s'`` with the column ``s`` of a feature, which is left in ``row``.

    With ``β = a / (1 + a S_jj)`` that adds ``a`` to an entry of the diagonal of the inverse.
    """
    size = S.shape[0]
    for r in range(size):
        row[r] = S[j, r]
    root = math.sqrt(beta)
    for r in range(size):
        left = root * row[r]
        if left != 0.0:
            own = S[r]
            for c in range(size):
                own[c] -= left * (root * row[c])


@compiled
def _middle(covariance):
    """Binary logarithm of the middle between the largest and the smallest variance."""
    largest, smallest = 0.0, math.inf
    for k in range(covariance.shape[0]):
        for r in range(covariance.shape[1]):
            variance = covariance[k, r, r]
            if variance > 0.0:
                largest = fast_max(largest, variance)
                smallest = min(smallest, variance)
    return 0.5 * (math.log(largest) + math.log(smallest)) / LN_2 if largest > 0.0 else 0.0


@compiled
def _rescale_weights(table, total, scale, n_columns, exponent):
    """Multiply weights by 2ᵏ, and with them the scale of the outputs that sigmoids know."""
    factor = 2.0**exponent
    for r in range(table.shape[0]):
        for k in range(n_columns):
            table[r, k] *= factor
    for r in range(total.shape[0]):
        for k in range(n_columns):
            total[r, k] *= factor
    if scale.shape[1] > slots.N_PLAIN:
        for k in range(scale.shape[0]):
            scale[k, slots.SQUARE] *= factor * factor


@compiled
def rescale(invariance, table, covariance, total, scale, counters):
    """Multiply covariances by 4ᵏ if the variances have left the middle of the range of numbers.

    Weights go along by 2ᵏ for rules that allow only both. The middle of the largest and the
    smallest variance counts: features that hardly ever occur keep their large variance while that
    of others vanishes, and neither may leave the range of numbers. Powers of two cost no digit.
    Returns whether anything changed.
    """
    weights_too = invariance == slots.UNIT_OF_BOTH
    n_outputs, size = covariance.shape[0], covariance.shape[1]
    largest = 0.0
    for k in range(n_outputs):
        largest = fast_max(largest, scale[k, slots.SIGMA])
    if not weights_too and (largest > 2.0**40 or largest < 2.0**-40):
        factor = 4.0 ** (-math.floor(0.5 * math.log(largest) / LN_2))
        for k in range(n_outputs):
            scale[k, slots.SIGMA] *= factor
    middle = _middle(covariance)
    if -20.0 <= middle <= 20.0:
        return False
    exponent = -math.floor(0.5 * middle)
    factor = 4.0**exponent
    for k in range(n_outputs):
        for r in range(size):
            row = covariance[k, r]
            for c in range(size):
                row[c] *= factor
    if weights_too:
        _rescale_weights(table, total, scale, n_outputs, exponent)
    counters[slots.RESCALED] += 1
    counters[slots.EXPONENT] += exponent
    return True
