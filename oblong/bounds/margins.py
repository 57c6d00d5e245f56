"""The largest margins of the three classes, for data without error."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from oblong.bounds._input import (
    Coordinates,
    check_number,
    check_signs,
    coordinates,
    whitened,
)
from oblong.bounds._least_distance import solve_least_distance


@dataclass(frozen=True)
class ClassMargin:
    """The largest margin in a class of functions; ``float`` turns it into a number.

    Attributes
    ----------
    value : float
        The margin, attained by a function of the class. Zero if no function of the class
        separates the data.
    gap : float
        Relative distance to a certified upper bound of the largest margin.
    """

    value: float
    gap: float

    def __float__(self) -> float:
        return self.value


def margin_svm(X: Any, y: Any, *, E: float = 1.0, kernel: str = "linear") -> ClassMargin:
    r"""Largest margin of the functions of the support vector machine.

    .. math::

        \max_{w, \gamma} \gamma \quad \text{subject to} \quad
        y_i w^\top x_i \ge \gamma, \ \tfrac12 w^\top w \le E .

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows, or their kernel matrix of shape (n_samples, n_samples).
    y : array-like of shape (n_samples,)
        Labels, of two classes.
    E : float, default=1.0
        Size of the class.
    kernel : {"linear", "precomputed"}, default="linear"
        Whether ``X`` holds rows or a kernel matrix.

    Returns
    -------
    ClassMargin
        The margin and its certificate.

    Examples
    --------
    >>> from oblong.bounds import margin_svm
    >>> round(margin_svm([[3.0, 1.0], [-3.0, 1.0]], [1, 0], E=0.5).value, 9)
    3.0
    """
    return margin_sigma(X, y, D=0.0, E=E, kernel=kernel)


def margin_sigma(
    X: Any, y: Any, *, D: float, E: float = 1.0, landmarks: Any = None, kernel: str = "linear"
) -> ClassMargin:
    r"""Largest margin of the functions of the Sigma-SVM (equation 32).

    .. math::

        \max_{w, \gamma} \gamma \quad \text{subject to} \quad
        y_i w^\top x_i \ge \gamma, \
        \tfrac12 (1 - D)\, w^\top w + \tfrac{D}{2m} \sum_j (w^\top v_j)^2 \le E .

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows, or their kernel matrix of shape (n_samples, n_samples).
    y : array-like of shape (n_samples,)
        Labels, of two classes.
    D : float
        How much the spread counts against the norm, in [0, 1).
    E : float, default=1.0
        Size of the class.
    landmarks : array-like of shape (n_landmarks, n_features), default=None
        As in `rademacher_sigma`.
    kernel : {"linear", "precomputed"}, default="linear"
        Whether ``X`` holds rows or a kernel matrix.

    Returns
    -------
    ClassMargin
        The margin and its certificate.

    Examples
    --------
    >>> from oblong.bounds import margin_sigma
    >>> X, y = [[3.0, 1.0], [-3.0, 1.0]], [1, 0]
    >>> round(margin_sigma(X, y, D=0.5, E=0.5).value, 4)
    1.3416
    """
    return _margin(whitened(_separation(X, y, D, E, landmarks, kernel), D), E)


def margin_rmm(
    X: Any, y: Any, *, D: float, E: float = 1.0, landmarks: Any = None, kernel: str = "linear"
) -> ClassMargin:
    r"""Largest margin of the functions of the relative margin machine.

    .. math::

        \max_{w, \gamma} \gamma \quad \text{subject to} \quad
        y_i w^\top x_i \ge \gamma, \
        \tfrac12 (1 - D)\, w^\top w + \tfrac{D}{2} (w^\top v_j)^2 \le E \ \text{for all } j .

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows, or their kernel matrix of shape (n_samples, n_samples).
    y : array-like of shape (n_samples,)
        Labels, of two classes.
    D : float
        How much the spread counts against the norm, in [0, 1).
    E : float, default=1.0
        Size of the class.
    landmarks : array-like of shape (n_landmarks, n_features), default=None
        As in `rademacher_rmm`.
    kernel : {"linear", "precomputed"}, default="linear"
        Whether ``X`` holds rows or a kernel matrix.

    Returns
    -------
    ClassMargin
        The margin and its certificate.

    Examples
    --------
    >>> from oblong.bounds import margin_rmm
    >>> X, y = [[3.0, 1.0], [-3.0, 1.0]], [1, 0]
    >>> round(margin_rmm(X, y, D=0.5, E=0.5).value, 4)
    1.3416
    """
    signed, points, _ = _separation(X, y, D, E, landmarks, kernel)
    if D == 0.0:
        return _margin(signed, E)
    # With q = (√(1-D) w, √D r) the quadratic constraint is |q|² <= 2E; r bounds the outputs.
    bar = 1.0 - D
    tilt = np.sqrt(D / bar) * points
    # Where the landmarks are the rows themselves, one side of their bound is the margin's.
    sides = [-tilt, tilt] if landmarks is not None else [-np.sqrt(D / bar) * signed]
    spread = np.column_stack([np.vstack(sides), np.ones(sum(len(side) for side in sides))])
    between = np.column_stack([signed / np.sqrt(bar), np.zeros(len(signed))])
    result = solve_least_distance(
        np.vstack([between, spread]), np.repeat([1.0, 0.0], [len(between), len(spread)])
    )
    w = result.point[:-1] / np.sqrt(bar)
    size = np.sqrt(bar * (w @ w) + D * np.max(np.abs(points @ w)) ** 2)
    return _class_margin(float(np.min(signed @ w)), size, result.lower_bound, E)


def _separation(X: Any, y: Any, D: float, E: float, landmarks: Any, kernel: str) -> Coordinates:
    """Check everything; return coordinates with the rows times their labels."""
    check_number(D, "D", low=0.0, below=1.0)
    check_number(E, "E", low=0.0)
    sign = check_signs(y)
    space = coordinates(X, landmarks, kernel)
    if len(sign) != len(space.rows):
        raise ValueError(f"X has {len(space.rows)} rows, but y has {len(sign)} labels")
    return space._replace(rows=space.rows * sign[:, None])


def _margin(signed: np.ndarray, E: float) -> ClassMargin:
    result = solve_least_distance(signed, np.ones(len(signed)))
    w = result.point
    return _class_margin(float(np.min(signed @ w)), float(np.linalg.norm(w)), result.lower_bound, E)


def _class_margin(worst: float, size: float, distance: float, E: float) -> ClassMargin:
    """Scale a function of the given size into the class; the distance is its best possible."""
    if distance == np.inf:
        return ClassMargin(0.0, 0.0)
    ratio = worst / size if size > 0.0 else 0.0
    gap = max(0.0, float(1.0 - distance * max(ratio, 0.0)))
    if gap > 1e-6:
        warnings.warn(
            f"the margin is known only to a relative gap of {gap:.1e}: scale X, or lower D",
            ConvergenceWarning,
            stacklevel=3,
        )
    return ClassMargin(float(np.sqrt(2.0 * E) * max(ratio, 0.0)), gap)
