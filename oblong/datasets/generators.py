"""Two-class problems on which the shape of the data decides."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state, check_scalar


def make_parallel_lines(
    n_samples: int = 100,
    *,
    gap: float = 0.5,
    offset: float = 0.5,
    stretch: float = 1.0,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Draw two classes on two parallel lines, shifted along them.

    With :math:`s = \pm 1` for the classes 1 and 0, and :math:`u` uniform on [0, 1],

    .. math:: x = s \, (\text{stretch} \cdot (\text{offset} + u),\ \text{gap}).

    The horizontal boundary maps every row to exactly :math:`\pm` its margin, whatever the
    stretch. The largest margin belongs to the normal through the two nearest points, near
    :math:`(\text{stretch} \cdot \text{offset}, \text{gap})`: it turns towards the lines as they
    are stretched.

    Parameters
    ----------
    n_samples : int, default=100
        Rows, divided evenly between the classes.
    gap : float, default=0.5
        Half the distance between the lines.
    offset : float, default=0.5
        Where the points of each line begin.
    stretch : float, default=1.0
        Factor along the lines.
    random_state : int, RandomState instance or None, default=None
        Seed.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Points.
    y : ndarray of shape (n_samples,)
        Classes 0 and 1.

    References
    ----------
    P. Shivaswamy and T. Jebara, Maximum Relative Margin and Data-Dependent Regularization,
    Journal of Machine Learning Research 11, 2010 (after its figure 1).

    Examples
    --------
    >>> from oblong.datasets import make_parallel_lines
    >>> X, y = make_parallel_lines(6, gap=2.0, random_state=0)
    >>> X[:, 1] * (2 * y - 1)
    array([2., 2., 2., 2., 2., 2.])
    """
    check_scalar(n_samples, "n_samples", Integral, min_val=2)
    for value, name in ((gap, "gap"), (stretch, "stretch")):
        check_scalar(value, name, Real, min_val=0, include_boundaries="neither")
    rng = check_random_state(random_state)
    y = rng.permutation(np.arange(n_samples) % 2)
    sign = 2.0 * y - 1.0
    along = stretch * (offset + rng.uniform(size=n_samples))
    return np.column_stack([sign * along, sign * gap]), y


_MEANS = np.array([[19.0, 13.0], [1.0, 1.0]])
_COVARIANCE = np.array([[17.0, 15.0], [15.0, 17.0]])


def make_tilted_gaussians(
    n_samples: int = 100,
    *,
    stretch: float = 1.0,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Draw two long Gaussians side by side, which can be stretched along their boundary.

    Class 1 is :math:`N((1, 1), S)`, class 0 is :math:`N((19, 13), S)` with
    :math:`S = \begin{pmatrix} 17 & 15 \\ 15 & 17 \end{pmatrix}`, in equal number. The best
    classifier is linear with the normal :math:`w \propto S^{-1}(\mu_1 - \mu_0)`; its error is
    :math:`\Phi(-\sqrt{23.0625}/2) \approx 0.82\,\%`. With the unit vector :math:`v \perp w` the
    points become

    .. math:: x + (\text{stretch} - 1)\, v v^\top x,

    which keeps :math:`w^\top x`, and so the best boundary and its error, as they are.

    Parameters
    ----------
    n_samples : int, default=100
        Rows, divided evenly between the classes.
    stretch : float, default=1.0
        Factor along the best boundary.
    random_state : int, RandomState instance or None, default=None
        Seed.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Points.
    y : ndarray of shape (n_samples,)
        Classes 0 and 1.

    References
    ----------
    P. Shivaswamy and T. Jebara, Maximum Relative Margin and Data-Dependent Regularization,
    Journal of Machine Learning Research 11, 2010 (section 5.1, equations 34 and 35).

    Examples
    --------
    >>> from oblong.datasets import make_tilted_gaussians
    >>> X, y = make_tilted_gaussians(10000, random_state=0)
    >>> X[y == 1].mean(axis=0).round()
    array([1., 1.])
    """
    check_scalar(n_samples, "n_samples", Integral, min_val=2)
    check_scalar(stretch, "stretch", Real, min_val=0, include_boundaries="neither")
    rng = check_random_state(random_state)
    y = rng.permutation(np.arange(n_samples) % 2)
    X = _MEANS[y] + rng.standard_normal((n_samples, 2)) @ np.linalg.cholesky(_COVARIANCE).T
    w = np.linalg.solve(_COVARIANCE, _MEANS[1] - _MEANS[0])
    v = np.array([-w[1], w[0]]) / np.linalg.norm(w)
    return X + (stretch - 1.0) * np.outer(X @ v, v), y


_GAP = 0.12452
_HEIGHT = 0.23043


def make_bound_toys(toy: int = 1) -> tuple[np.ndarray, np.ndarray]:
    r"""Make one cloud of points with two ways to label it, for which risk bounds differ.

    Eight hundred points, symmetric about both axes, wide along the first and narrow along the
    second. With :math:`s` from 0 to 1 in 200 even steps and :math:`g = 0.12452`,

    .. math::

        |x_1| = g + (1 - g)\, s^{1.54}, \qquad |x_2| = g + (0.23043 - g)(1 - s^{0.787}),

    with all four pairs of signs. Toy 1 has the labels :math:`\operatorname{sign}(x_1)`, along the
    wide direction, toy 2 has :math:`\operatorname{sign}(x_2)`, across it. The margin through the
    origin is the same in both, and so is the support vector machine's bound. The bounds of
    classifiers that measure the margin against the spread tell the two apart.

    Parameters
    ----------
    toy : {1, 2}, default=1
        Which labels.

    Returns
    -------
    X : ndarray of shape (800, 2)
        Points.
    y : ndarray of shape (800,)
        Classes 0 and 1.

    See Also
    --------
    oblong.bounds.data_terms : The bounds' terms that depend on the data.

    Notes
    -----
    The paper prints bounds (its table 1) for two toys that it shows only as pictures. This is not
    that data but a stand-in: a shape with four constants, which were chosen so that the printed
    values come out to three decimals.

    References
    ----------
    P. Shivaswamy and T. Jebara, Maximum Relative Margin and Data-Dependent Regularization,
    Journal of Machine Learning Research 11, 2010 (section 4.7, after its figure 2).

    Examples
    --------
    >>> from oblong.datasets import make_bound_toys
    >>> X, y = make_bound_toys(2)
    >>> X.shape, abs(X).max(axis=0).round(2), abs(X).min(axis=0).round(2)
    ((800, 2), array([1.  , 0.23]), array([0.12, 0.12]))
    """
    if isinstance(toy, bool) or toy not in (1, 2):
        raise ValueError(f"toy must be 1 or 2, got {toy!r}")
    s = np.linspace(0.0, 1.0, 200)
    wide = _GAP + (1.0 - _GAP) * s**1.54
    narrow = _GAP + (_HEIGHT - _GAP) * (1.0 - s**0.787)
    X = np.vstack(
        [
            np.column_stack([across * wide, up * narrow])
            for across in (1.0, -1.0)
            for up in (1.0, -1.0)
        ]
    )
    return X, (X[:, toy - 1] > 0).astype(int)


def make_rotated_stripe(
    n_samples: int = 1000,
    *,
    n_noise: int = 18,
    length: float = 2.0,
    noise_variance: float = 2.0,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Draw a stripe at 45 degrees whose long axis parts two classes, and features of noise.

    The first two features are a Gaussian with the standard deviation ``length`` along the
    diagonal and 1 across it,

    .. math:: x = \tfrac{1}{\sqrt 2} (a - b,\ a + b), \qquad
        a \sim N(0, \text{length}^2), \quad b \sim N(0, 1),

    and the class is 1 where :math:`b > 0`. The other features are independent of the class. So the
    classes are separable, by the weights (-1, 1, 0, ..., 0), but each of the two features says
    little by itself, and the noise is louder than what matters.

    Parameters
    ----------
    n_samples : int, default=1000
        Rows.
    n_noise : int, default=18
        Features of noise.
    length : float, default=2.0
        Standard deviation along the stripe, relative to that across it.
    noise_variance : float, default=2.0
        Variance of the noise.
    random_state : int, RandomState instance or None, default=None
        Seed.

    Returns
    -------
    X : ndarray of shape (n_samples, 2 + n_noise)
        Points.
    y : ndarray of shape (n_samples,)
        Classes 0 and 1.

    Notes
    -----
    The paper gives the standard deviation 1 of the rotated Gaussian and the noise N(0, 2), but not
    the length of the stripe. With twice the width, the order of the learners and most of their
    numbers of mistakes come out as printed.

    References
    ----------
    K. Crammer, M. Dredze and F. Pereira, Exact Convex Confidence-Weighted Learning, Advances in
    Neural Information Processing Systems 21, 2008 (section 5).

    Examples
    --------
    >>> from oblong import ConfidenceWeightedClassifier, PassiveAggressiveClassifier
    >>> from oblong.datasets import make_rotated_stripe
    >>> X, y = make_rotated_stripe(random_state=0)
    >>> first = PassiveAggressiveClassifier(fit_intercept=False)
    >>> second = ConfidenceWeightedClassifier(confidence=0.95, fit_intercept=False)
    >>> mistakes = [m.partial_fit(X, y, classes=[0, 1]).n_mistakes_ for m in (first, second)]
    >>> mistakes[0] > 2 * mistakes[1]
    True
    """
    check_scalar(n_samples, "n_samples", Integral, min_val=1)
    check_scalar(n_noise, "n_noise", Integral, min_val=0)
    for value, name in ((length, "length"), (noise_variance, "noise_variance")):
        check_scalar(value, name, Real, min_val=0, include_boundaries="neither")
    rng = check_random_state(random_state)
    along, across = length * rng.normal(size=n_samples), rng.normal(size=n_samples)
    noise = rng.normal(scale=np.sqrt(noise_variance), size=(n_samples, n_noise))
    stripe = np.column_stack([along - across, along + across]) / np.sqrt(2.0)
    return np.hstack([stripe, noise]), (across > 0).astype(int)
