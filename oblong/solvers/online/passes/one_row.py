"""One row: where it is in a batch, and a check of it that the loops do themselves."""

import numpy as np

from oblong._core.compile import compiled

# Bits of the exponent in double precision, and those of 2^499, whose square is far from infinite.
_EXPONENT = 0x7FF << 52
_LARGE = (1023 + 499) << 52


@compiled
def moderate(values):
    """Whether values are numbers, and none is so large that squares overflow.

    Compiled arithmetic takes for granted that there is no NaN, so it is their bits that tell.
    Values in single precision are not looked at.
    """
    if values.itemsize != 8:
        return True
    bits = values.view(np.int64)
    largest = 0
    for k in range(bits.size):
        largest = max(largest, bits[k] & _EXPONENT)
    return largest < _LARGE


@compiled
def row_at(i, data, indices, indptr, dense):
    """Columns and values of a row."""
    start, stop = indptr[i], indptr[i + 1]
    return indices[: stop - start] if dense else indices[start:stop], data[start:stop]
