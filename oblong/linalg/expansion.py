"""A function by its values on rows, with a bound on their rounding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Relative error of a sum of products, whose errors have random signs.
UNIT = 4.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Expansion:
    """The function ``Σ c_i k(x_i, ·)`` on the rows, in double precision, with its rounding.

    Attributes
    ----------
    image : ndarray of shape (n,)
        Values ``u = Kc``; on rows that were not asked for, those in the working precision.
    error : ndarray of shape (n,)
        Bound on the rounding of each value.
    norm : float
        Squared norm ``c'Kc`` of the function.
    norm_error : float
        Bound on the difference of the squared norm from that of the exact coefficients.
    direction : ndarray of shape (d,) or None
        For the linear kernel, the weight vector ``Σ c_i x_i`` that the values come from.
    """

    image: np.ndarray
    error: np.ndarray
    norm: float
    norm_error: float
    direction: np.ndarray | None = None

    @classmethod
    def of(cls, coef: np.ndarray, image: np.ndarray, error: np.ndarray) -> Expansion:
        """The function by its values on the rows."""
        return cls(image, error, float(coef @ image), float(np.abs(coef) @ error))
