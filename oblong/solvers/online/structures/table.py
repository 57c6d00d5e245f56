"""Outputs and diagonal covariances: what lies in the table of a model.

The table has a row per feature and a column per output, the intercept in row 0, so that the columns
of an example pick short contiguous pieces of it. Variances of a diagonal covariance follow the
weights in the same row: an example of a binary model then costs one cache line per feature.

All examples are sparse here: those of a dense batch share the one list of all columns. Sums are
in double precision whatever the type of the table.
"""

from oblong._core.compile import compiled, fast_max


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
