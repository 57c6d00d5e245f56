"""Factors of the classes, as ``class_weight`` states them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

# Penalties that solvers can square and sum up.
_LARGEST_PENALTY = 1e150


def class_factors(
    class_weight: Mapping[Any, float] | str | None,
    classes: np.ndarray,
    codes: np.ndarray,
    sample_weight: np.ndarray,
    *,
    allow_zero: bool = False,
) -> np.ndarray:
    """Factor of the weights of the rows of each class.

    Parameters
    ----------
    class_weight : mapping, "balanced" or None
        Factors by class, 1 for a class that is not named. "balanced" gives all classes the same
        total weight and leaves the weight of all rows together as it is.
    classes : ndarray of shape (n_classes,)
        The classes.
    codes : ndarray of shape (n,)
        Class of each row, by its position in ``classes``.
    sample_weight : ndarray of shape (n,)
        Weights of the rows.
    allow_zero : bool, default=False
        Whether a mapping may hold zeros, which leave classes out.

    Returns
    -------
    ndarray of shape (n_classes,)
        The factors; 0 in place of a balanced factor of a class without rows.

    Raises
    ------
    ValueError
        If a mapping holds numbers that are no factors, or lacks a class while it names others
        that do not exist. (A class alone may be missing from a fold.)
    """
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str):
        totals = np.bincount(codes, sample_weight, len(classes))
        share = totals.sum() / len(classes)
        return np.divide(share, totals, out=np.zeros(len(classes)), where=totals > 0.0)
    names = classes.tolist()
    missing = [name for name in names if name not in class_weight]
    if missing and any(key not in names for key in class_weight):
        raise ValueError(f"The classes, {missing}, are not in class_weight")
    factors = np.array([float(class_weight.get(name, 1.0)) for name in names])
    if allow_zero and not np.all((factors >= 0.0) & (factors < np.inf)):
        raise ValueError("class_weight must contain finite, non-negative numbers")
    if not allow_zero and not np.all((factors > 0.0) & (factors < np.inf)):
        raise ValueError("class_weight must contain finite numbers above zero")
    return factors


def row_penalties(C: float, factors: np.ndarray) -> np.ndarray:
    """Penalties of the rows, ``C`` times their factors.

    Raises
    ------
    ValueError
        If one is too large to be reckoned with.
    """
    with np.errstate(over="ignore"):
        penalties = float(C) * factors
    largest = float(penalties.max(initial=0.0))
    if not largest <= _LARGEST_PENALTY:
        raise ValueError(
            f"C={C:g} times the weight of a row is {largest:.3g}, and at most "
            f"{_LARGEST_PENALTY:g} is possible: lower C or the weights"
        )
    return penalties
