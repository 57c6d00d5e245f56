"""Detection of drift: ADWIN, which keeps the longest window whose halves have the same mean.

A. Bifet and R. Gavaldà, "Learning from time-changing data with adaptive windowing", SIAM
International Conference on Data Mining, 2007. The window is kept in buckets of 1, 2, 4, … values,
at most ``_MOST`` of each size, so that memory grows with the logarithm of its length. A cut
between two buckets is made if the means on both sides differ by more than

    ε = √(2/m σ² ln(2/δ')) + 2/(3m) ln(2/δ'),     1/m = 1/n₀ + 1/n₁,     δ' = δ / ln(n),

with the variance σ² of the window and its length n. After a cut the window starts again, as in
River.
"""

import math

import numpy as np

from oblong._core.compile import compiled

# Buckets of one size, and sizes: 2^48 values are more than there are.
_MOST, _SIZES = 5, 48
# Values between two looks, and the least on either side of a cut, as in River.
_CLOCK, _LEAST, _GRACE = 32, 5, 10
_N, _TOTAL, _SQUARES, _SEEN, _CUT = range(5)


@compiled
def _feed(values, delta, counts, sums, squares, numbers, alarms):
    """Take in values, and mark those at which the window was cut because they have grown."""
    for i in range(values.size):
        x = values[i]
        alarms[i] = False
        if numbers[_CUT] > 0.0:
            counts[:] = 0
            numbers[:] = 0.0
        numbers[_SEEN] += 1.0
        # The newest bucket of a size is the last of its row.
        size, carried, carried_squares = 0, x, x * x
        while True:
            c = counts[size]
            sums[size, c], squares[size, c] = carried, carried_squares
            counts[size] += 1
            if counts[size] <= _MOST:
                break
            carried = sums[size, 0] + sums[size, 1]
            carried_squares = squares[size, 0] + squares[size, 1]
            for b in range(2, counts[size]):
                sums[size, b - 2], squares[size, b - 2] = sums[size, b], squares[size, b]
            counts[size] -= 2
            size += 1
        numbers[_N] += 1.0
        numbers[_TOTAL] += x
        numbers[_SQUARES] += x * x
        if int(numbers[_SEEN]) % _CLOCK != 0 or numbers[_N] <= _GRACE:
            continue
        cut = True
        while cut:
            cut = False
            n, total = numbers[_N], numbers[_TOTAL]
            variance = max(0.0, numbers[_SQUARES] / n - (total / n) ** 2)
            bound = math.log(2.0 * math.log(n) / delta)
            before, sum_before = 0.0, 0.0
            for s in range(_SIZES - 1, -1, -1):
                for b in range(counts[s]):
                    before += 2.0**s
                    sum_before += sums[s, b]
                    after = n - before
                    if before < _LEAST or after < _LEAST:
                        continue
                    gap = sum_before / before - (total - sum_before) / after
                    inverse = 1.0 / (before - _LEAST + 1.0) + 1.0 / (after - _LEAST + 1.0)
                    epsilon = math.sqrt(2.0 * inverse * variance * bound)
                    if abs(gap) > epsilon + 2.0 / 3.0 * inverse * bound:
                        cut = True
                        alarms[i] = alarms[i] or gap < 0.0
                        break
                if cut:
                    break
            if cut:
                # The oldest bucket goes.
                s = _SIZES - 1
                while counts[s] == 0:
                    s -= 1
                numbers[_N] -= 2.0**s
                numbers[_TOTAL] -= sums[s, 0]
                numbers[_SQUARES] -= squares[s, 0]
                for b in range(1, counts[s]):
                    sums[s, b - 1], squares[s, b - 1] = sums[s, b], squares[s, b]
                counts[s] -= 1
                numbers[_CUT] = 1.0
                cut = numbers[_N] > _GRACE


class Adwin:
    """Adaptive windowing over a stream of numbers, such as errors of a learner.

    Parameters
    ----------
    delta : float, default=0.002
        Bound of the probability of a false alarm, as in River.
    state : list, default=None
        What :meth:`state` returned.

    Examples
    --------
    >>> import numpy as np
    >>> from oblong.solvers.online.drift import Adwin
    >>> detector = Adwin()
    >>> rng = np.random.default_rng(0)
    >>> errors = np.concatenate([rng.random(2000) < 0.1, rng.random(2000) < 0.4])
    >>> places = detector.feed(errors)
    >>> bool(2000 < places[0] < 2300)
    True
    """

    def __init__(self, delta: float = 0.002, state: list | None = None) -> None:
        self.delta = delta
        self._counts = np.zeros(_SIZES, dtype=np.int64)
        self._sums, self._squares = np.zeros((2, _SIZES, _MOST + 1))
        self._numbers = np.zeros(5)
        if state is not None:
            for own, kept in zip((self._counts, self._sums, self._squares, self._numbers), state):
                own[...] = kept

    @property
    def width(self) -> int:
        """Values in the window."""
        return int(self._numbers[_N])

    @property
    def mean(self) -> float:
        """Mean over the window."""
        return float(self._numbers[_TOTAL] / max(1.0, self._numbers[_N]))

    def feed(self, values: np.ndarray) -> np.ndarray:
        """Take in values, and return the places of those at which they were found to have grown.

        A window is cut as well where values have become smaller, as the errors of a learner do.
        """
        values, alarms = np.asarray(values, dtype=np.float64), np.zeros(len(values), dtype=bool)
        own = (self._counts, self._sums, self._squares, self._numbers)
        _feed(values, self.delta, *own, alarms)
        return np.flatnonzero(alarms)

    def state(self) -> list:
        """Everything as JSON values."""
        own = (self._counts, self._sums, self._squares, self._numbers)
        return [array.tolist() for array in own]
