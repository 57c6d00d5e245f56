"""Forgetting: the precision goes down by a factor after every update.

The factor goes into that of the covariance, ``σ``, so it costs nothing. What the prior loses has to
come back, or else variances of features that hardly ever occur would grow without end. A full
covariance gets it back whenever half of it is gone; the variances of a diagonal are held at their
initial value, each when it is used; a sketch is renewed when it is cut.
"""

from oblong._core.compile import compiled
from oblong.solvers.online.slots import DIAGONAL, EXPONENT, FULL, SIGMA
from oblong.solvers.online.structures.full import add_precision

# Factor of the covariance at which half of the prior is gone.
RENEWAL = 2.0
# Factor at which the variances of a diagonal are multiplied by it; far from underflow.
_LARGE = 2.0**40


@compiled
def hold(columns, table, scale, k, initial):
    """Hold variances of the features of a row at their initial value."""
    column, most = scale.shape[0] + k, initial / scale[k, SIGMA]
    if table[0, column] > most:
        table[0, column] = most
    for p in range(columns.size):
        j = columns[p] + 1
        if table[j, column] > most:
            table[j, column] = most


@compiled
def renew(structure, table, covariance, scale, counters, initial, k, spare):
    """Give a covariance back what its prior has lost; ``spare`` is destroyed."""
    sigma = scale[k, SIGMA]
    if structure == FULL and sigma >= RENEWAL:
        S = covariance[k]
        size = S.shape[0]
        for r in range(size):
            for c in range(size):
                S[r, c] *= sigma
        # The share 1/σ of the prior is left.
        exponent = max(-350, min(350, counters[EXPONENT]))
        lost = (1.0 - 1.0 / sigma) / (initial * 4.0**exponent)
        for j in range(size):
            add_precision(S, j, lost / (1.0 + lost * S[j, j]), spare)
        scale[k, SIGMA] = 1.0
    elif structure == DIAGONAL and sigma >= _LARGE:
        column = scale.shape[0] + k
        for j in range(table.shape[0]):
            table[j, column] = min(table[j, column] * sigma, initial)
        scale[k, SIGMA] = 1.0
