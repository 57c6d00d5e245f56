"""An order of rows that depends on their content, not on where they stand.

A shuffled pass of an online learner usually depends on the order in which the rows were given. Here
the shuffle is by a random hash of the row and its label, so that the given order does not
matter, copies of a row follow each other, and a row of weight two is the same as two rows.
"""

import math

import numpy as np

from oblong._core.threads import chunks

_CHUNK = 1 << 20


def _mix(keys: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64: every bit depends on every bit."""
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


def _exponent(data: np.ndarray) -> int:
    """Power of two to divide numbers by that single precision does not hold, else 0."""
    largest = max(float(data.max(initial=0.0)), -float(data.min(initial=0.0)))
    return 0 if 1e-30 < largest < 1e30 or largest == 0.0 else math.frexp(largest)[1]


def row_keys(
    data: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    dense: bool,
    labels: np.ndarray,
    random_state: np.random.RandomState,
) -> np.ndarray:
    """Hash rows and their labels; equal up to single precision means equal keys.

    Parameters
    ----------
    data, indices, indptr : ndarray
        The rows in CSR form; for dense rows ``indices`` is the list of all columns.
    dense : bool
        Whether the rows are dense.
    labels : ndarray of int, of shape (n_rows, n)
        The labels of the rows.
    random_state : RandomState
        Source of the hash function.

    Returns
    -------
    keys : ndarray of uint64, of shape (n_rows,)
        The keys. Zeros do not contribute, so that sparse and dense rows have the same keys.
    """
    n, d = len(indptr) - 1, int(indices.max(initial=-1)) + 1
    draw = np.random.RandomState(random_state.randint(2**31))
    # Labels draw first: then the factors of the columns do not depend on their number.
    sides = draw.randint(0, 2**64, size=labels.shape[1], dtype=np.uint64) | np.uint64(1)
    factors = draw.randint(0, 2**64, size=d, dtype=np.uint64) | np.uint64(1)
    keys = _mix((labels.astype(np.uint64) + np.uint64(1)) @ sides)
    width = max(1, int(np.diff(indptr).max(initial=1)))
    exponent = _exponent(data)
    for start, stop in chunks(n, max(1, _CHUNK // width)):
        low, high = indptr[start], indptr[stop]
        values = data[low:high]
        if exponent:
            values = np.ldexp(values, -exponent)
        # Adding zero makes a positive zero of a negative one.
        bits = (values.astype(np.float32) + np.float32(0.0)).view(np.uint32)
        bits = bits.astype(np.uint64)
        if dense:
            bits = bits.reshape(stop - start, -1)
            keys[start:stop] += (bits * factors[: bits.shape[1]]).sum(axis=1, dtype=np.uint64)
            continue
        bits *= factors[indices[low:high]]
        # Differences of running sums, which may wrap around.
        sums = np.concatenate([[np.uint64(0)], np.cumsum(bits, dtype=np.uint64)])
        ends = (indptr[start : stop + 1] - low).astype(np.intp)
        keys[start:stop] += sums[ends[1:]] - sums[ends[:-1]]
    return keys


def shuffled(keys: np.ndarray, random_state: np.random.RandomState) -> np.ndarray:
    """A random order of the rows, the same for the same keys in whatever order."""
    salt = random_state.randint(0, 2**64, size=1, dtype=np.uint64)
    return np.argsort(_mix(keys ^ salt), kind="stable").astype(np.int64)
