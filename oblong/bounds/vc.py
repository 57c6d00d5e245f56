"""Estimates of the VC dimension of gap-tolerant classifiers in a ball and in an ellipsoid."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_consistent_length

from oblong.bounds._input import check_number, check_rows, check_signs, coordinates
from oblong.solvers.ellipsoid.ball import solve_enclosing_ball
from oblong.solvers.ellipsoid.solve import solve_ellipsoid
from oblong.solvers.margin.hard import solve_hard_margin

# A ratio that is this close above a whole number is that number, but for rounding.
_ROUND_OFF = 1e-9
# The ratio is worth a warning if it is known less precisely than this.
_COARSE = 1e-6


@dataclass(frozen=True)
class VCEstimate:
    """An estimate of a VC dimension; ``int`` turns it into a number.

    Attributes
    ----------
    value : int
        The estimate, ``min(ceil(ratio), n_features) + 1``.
    ratio : float
        Squared diameter over squared margin. Infinite if the data cannot be separated.
    radius : float
        Radius of the smallest ball around the rows, after the map to the unit ball in case of
        an ellipsoid.
    margin : float
        Width of the widest margin between the classes, there as well; zero if there is none.
    n_features : int
        Dimension of the space that the rows span.
    gap : float
        By how much of itself the ratio may be too large.
    """

    value: int
    ratio: float
    radius: float
    margin: float
    n_features: int
    gap: float

    def __int__(self) -> int:
        return self.value


def vc_gap_tolerant(*, diameter: float, margin: float, n_features: int) -> int:
    r"""Bound the VC dimension of gap-tolerant classifiers in a ball.

    Linear classifiers that keep a margin of width :math:`M` between the classes, for points in a
    ball of diameter :math:`D` in :math:`m` dimensions, shatter at most

    .. math:: \min\{\lceil D^2 / M^2 \rceil,\, m\} + 1

    points.

    Parameters
    ----------
    diameter : float
        Diameter :math:`D` of the ball, at least zero.
    margin : float
        Width :math:`M` of the margin, above zero.
    n_features : int
        Number of dimensions :math:`m`.

    Returns
    -------
    int
        The bound.

    References
    ----------
    C. Burges, "A Tutorial on Support Vector Machines for Pattern Recognition", Data Mining and
    Knowledge Discovery 2, 1998.

    Examples
    --------
    >>> from oblong.bounds import vc_gap_tolerant
    >>> vc_gap_tolerant(diameter=2.0, margin=1.5, n_features=10)
    3
    """
    check_number(diameter, "diameter", low=0.0)
    check_number(margin, "margin", above=0.0)
    if not isinstance(n_features, Integral) or n_features < 1:
        raise ValueError(f"n_features must be an integer of at least 1, got {n_features!r}")
    return _dimension(float(diameter) / float(margin), int(n_features))


def vc_sphere(X: Any, y: Any, *, kernel: str = "linear") -> VCEstimate:
    r"""Estimate the VC dimension of the support vector machine's margin in a ball.

    With the radius :math:`R` of the smallest ball around the rows and the weight vector
    :math:`w` of the support vector machine without slack, whose margin has the width
    :math:`2 / \|w\|`,

    .. math:: h = \min\{\lceil R^2 \|w\|^2 \rceil,\, m\} + 1 .

    It is an estimate and no bound on the risk: ball and margin were chosen on the data.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows, or their kernel matrix of shape (n_samples, n_samples).
    y : array-like of shape (n_samples,)
        Labels, of two classes.
    kernel : {"linear", "precomputed"}, default="linear"
        Whether ``X`` holds rows or a kernel matrix.

    Returns
    -------
    VCEstimate
        The estimate and what it is made of.

    Examples
    --------
    >>> from oblong.bounds import vc_sphere
    >>> estimate = vc_sphere([[0.0, 0.0], [0.0, 1.0], [4.0, 0.0], [4.0, 1.0]], [0, 0, 1, 1])
    >>> estimate.value, round(estimate.ratio, 6)
    (3, 1.0625)
    """
    return _estimate(*_separable(X, y, kernel, center=True))


def vc_ellipsoid(
    X: Any, y: Any, *, coverage: float = 1.0, center: bool = True, kernel: str = "linear"
) -> VCEstimate:
    r"""Estimate the VC dimension of the ellipsoidal kernel machine's margin.

    The estimate of :func:`vc_sphere` for the rows :math:`t = \Sigma^{-1/2} (x - \mu)`, where
    :math:`\mu` and :math:`\Sigma` are those of the minimum-volume ellipsoid: the margin is that
    of the ellipsoidal kernel machine without slack, and the radius is one at most if all rows
    are inside. An ellipsoid with the largest half-axis :math:`R` fits into a ball of radius
    :math:`R`, so fewer points can be shattered in it at the same margin (theorem 2.2 of
    Shivaswamy and Jebara, "Ellipsoidal Kernel Machines", 2007).

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows, or their kernel matrix of shape (n_samples, n_samples).
    y : array-like of shape (n_samples,)
        Labels, of two classes.
    coverage : float, default=1.0
        Fraction of the rows inside the ellipsoid, from 0 to 1.
    center : bool, default=True
        Whether the centre of the ellipsoid is free; otherwise it is the origin.
    kernel : {"linear", "precomputed"}, default="linear"
        Whether ``X`` holds rows or a kernel matrix. In all directions of a nonsingular kernel
        matrix the ellipsoid is that of a simplex, and the estimate carries no information.

    Returns
    -------
    VCEstimate
        The estimate and what it is made of.

    Examples
    --------
    >>> from oblong.bounds import vc_ellipsoid, vc_sphere
    >>> from oblong.datasets import make_parallel_lines
    >>> X, y = make_parallel_lines(50, stretch=3, random_state=0)
    >>> vc_ellipsoid(X, y).ratio < vc_sphere(X, y).ratio
    True
    """
    check_number(coverage, "coverage", low=0.0)
    if coverage > 1.0:
        raise ValueError(f"coverage must be at most 1, got {coverage!r}")
    rows, sign = _separable(X, y, kernel, center)
    ellipsoid = solve_ellipsoid(rows, coverage=float(coverage), center=center, tol=1e-9)
    return _estimate((rows - ellipsoid.center) @ ellipsoid.factor, sign)


def shattering_margin(a: float, b: float) -> float:
    r"""Largest margin at which three points of an ellipse can be shattered.

    In :math:`x^2/a^2 + y^2/b^2 \le 1` with :math:`a \ge b` it is

    .. math:: \frac{6 a^2 b}{b^2 + 3 a^2} ,

    and :math:`3a/2` in the circle of radius :math:`a`. Streets of a width between the two can
    tell apart three points of the circle in every way, but only two of the ellipse.

    Parameters
    ----------
    a, b : float
        Half-axes, the larger one first.

    Returns
    -------
    float
        The margin.

    References
    ----------
    P. K. Shivaswamy and T. Jebara, "Ellipsoidal Kernel Machines", 2007 (section 2.4).

    Examples
    --------
    >>> from oblong.bounds import shattering_margin
    >>> shattering_margin(2.0, 2.0), round(shattering_margin(2.0, 1.0), 4)
    (3.0, 1.8462)
    """
    top, (_, low), _ = shattering_triangle(a, b)
    return float(top[1] - low)


def shattering_triangle(a: float, b: float) -> np.ndarray:
    r"""Three points of an ellipse that can be shattered at the largest margin.

    In :math:`x^2/a^2 + y^2/b^2 \le 1` with :math:`a \ge b` they are the corners of the
    equilateral triangle (figure 1 of the paper)

    .. math::

        (0, b), \quad \Bigl(\pm\frac{\sqrt{12}\, a^2 b}{b^2 + 3a^2},\
        \frac{b^2 - 3a^2}{b^2 + 3a^2}\, b\Bigr) .

    Parameters
    ----------
    a, b : float
        Half-axes, the larger one first.

    Returns
    -------
    ndarray of shape (3, 2)
        The points.

    Examples
    --------
    >>> from oblong.bounds import shattering_triangle
    >>> shattering_triangle(1.0, 1.0).round(3)
    array([[ 0.   ,  1.   ],
           [ 0.866, -0.5  ],
           [-0.866, -0.5  ]])
    """
    check_number(a, "a", above=0.0)
    check_number(b, "b", above=0.0)
    if b > a:
        raise ValueError(f"a must be the larger half-axis, got a={a!r} and b={b!r}")
    # Divided by a², which neither overflows nor vanishes.
    ratio = (b / a) ** 2
    side = np.sqrt(12.0) * b / (ratio + 3.0)
    low = b * (ratio - 3.0) / (ratio + 3.0)
    return np.array([[0.0, b], [side, low], [-side, low]])


def _separable(X: Any, y: Any, kernel: str, center: bool) -> tuple[np.ndarray, np.ndarray]:
    """Check everything; return rows along their principal axes, and signs."""
    X, sign = check_rows(X, kernel), check_signs(y)
    check_consistent_length(X, sign)
    X = X.astype(np.float64, copy=False)
    if center:
        # Nothing depends on the origin then, but rounding does.
        X = X - X.mean(axis=0)
        X = X - X.mean(axis=1, keepdims=True) if kernel == "precomputed" else X
    space = coordinates(X, None, kernel)
    extent = space.lengths > 1e-10 * space.lengths[0]
    return space.rows[:, extent], sign


def _estimate(rows: np.ndarray, sign: np.ndarray) -> VCEstimate:
    n_features = int(np.linalg.matrix_rank(rows - rows.mean(axis=0)))
    ball = solve_enclosing_ball(rows)
    widest = solve_hard_margin(rows, sign)
    if widest.margin == 0.0:
        return VCEstimate(n_features + 1, np.inf, ball.radius, 0.0, n_features, 0.0)
    ratio = 2.0 * ball.radius / widest.margin
    least = 2.0 * ball.lower_bound / widest.upper_bound
    gap = max(0.0, 1.0 - (least / ratio) ** 2)
    if gap > _COARSE:
        warnings.warn(
            f"the ratio is known only to a relative gap of {gap:.1e}: scale X",
            ConvergenceWarning,
            stacklevel=3,
        )
    value = _dimension(ratio, n_features)
    return VCEstimate(value, ratio**2, ball.radius, widest.margin, n_features, gap)


def _dimension(ratio: float, n_features: int) -> int:
    """``min(ceil(ratio²), n_features) + 1``, without overflow."""
    square = min(ratio, float(n_features)) ** 2
    return min(int(np.ceil(square * (1.0 - _ROUND_OFF))), n_features) + 1
