"""The grid of bounds, and the choice among equal ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

# B = 1 + spread (theta - 1); the first is the support vector machine.
SPREADS = (1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.0)


def best_on_grid(
    errors: Sequence[float] | np.ndarray,
    settings: Sequence[Sequence[float]],
    spreads: Sequence[float] = SPREADS,
) -> int:
    """Position of the smallest validation error, among settings of certain spreads.

    Of equal ones the largest spread wins, then the smallest C, then the first.

    Parameters
    ----------
    errors : sequence of float
        Validation errors.
    settings : sequence of sequences
        ``(C, spread, ...)`` of each.
    spreads : sequence of float
        The spreads that count.

    Examples
    --------
    >>> from oblong_reproduction.rmm._grid import best_on_grid
    >>> settings = [(1.0, 1.0), (1.0, 0.5), (10.0, 1.0), (10.0, 0.5)]
    >>> best_on_grid([0.3, 0.1, 0.2, 0.1], settings)
    1
    >>> best_on_grid([0.3, 0.1, 0.2, 0.1], settings, spreads=(1.0,))
    2
    """
    among = [k for k, setting in enumerate(settings) if setting[1] in spreads]
    return min(among, key=lambda k: (_rounded(errors[k]), -settings[k][1], settings[k][0]))


def first_least(errors: Sequence[float] | np.ndarray) -> int:
    """Position of the smallest validation error; of equal ones the first."""
    return min(range(len(errors)), key=lambda k: _rounded(errors[k]))


def _rounded(error: Any) -> float:
    # Means over splits that are equal but for rounding are ties.
    return round(float(error), 9)
