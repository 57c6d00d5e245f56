"""Bounds on the mistakes of second-order online learners."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.special import ndtri
from sklearn.utils import check_array

from oblong.bounds._input import check_number

# Factors of the memory this close to one no longer change the product.
_NEGLIGIBLE = 1e-17
_MOST_STEPS = 5_000_000


def mistake_bound_cellip(gamma: float, a: float = 1.0) -> float:
    r"""Bound the mistakes of the classical ellipsoid method on separable examples.

    If some :math:`u` with :math:`\|u\| = 1` has :math:`y \, u \cdot x \ge \gamma` on all examples,
    and :math:`\|x\| \le 1`, the learner with this :math:`\gamma` makes at most

    .. math:: \frac{1 + 2 (1 - a) \gamma}{(a \gamma)^2}

    mistakes, however many examples there are and in whatever order they come. It is least at
    :math:`a = 1`, where it is that of the perceptron.

    Parameters
    ----------
    gamma : float
        The margin, above 0 and at most 1.
    a : float, default=1.0
        Fraction of the margin that a cut requires, above 0 and at most 1.

    Returns
    -------
    float
        The bound.

    Notes
    -----
    It holds for two classes, the full shape matrix and the ellipsoid of the paper, whether mistakes
    only or all small margins cut. If there is an intercept, :math:`x` is the example with a
    constant feature of one, so the rows themselves must be shorter.

    It replaces theorem 3 of [1]_, which mixes two initial ellipsoids. The new one lies inside
    :math:`\prod_i (1 - A_i^2)` times the first, :math:`A_i` being the depth of the cuts in units of
    the ellipsoid. With :math:`R = 1 + (1 - a)\gamma` every mistake takes at least
    :math:`(a \gamma / R)^2` from that product. It cannot fall below :math:`((1 - a) \gamma / R)^2`,
    for the ball of radius :math:`(1 - a) \gamma` around :math:`u` is never cut.

    References
    ----------
    .. [1] L. Yang, R. Jin and J. Ye, "Online Learning by Ellipsoid Method", International
       Conference on Machine Learning, 2009.

    Examples
    --------
    >>> from oblong.bounds import mistake_bound_cellip
    >>> round(mistake_bound_cellip(0.1))
    100
    >>> round(mistake_bound_cellip(0.1, a=0.5))
    440
    """
    _check_share(gamma, "gamma")
    _check_share(a, "a")
    return (1.0 + 2.0 * (1.0 - a) * gamma) / (a * gamma) ** 2


def mistake_bound_iellip(
    gamma: float,
    c: float = 0.1,
    b: float = 0.3,
    *,
    trigger: str = "mistake",
    margins: Any = None,
    norms: Any = None,
) -> float:
    r"""Bound the mistakes of the improved ellipsoid method.

    Let :math:`\|u\| = 1` and :math:`\eta = y \, u \cdot x` be its margin on an example with
    :math:`\|x\| \le 1`. With :math:`c_k = c \, b^{k-1}`,
    :math:`\pi_k = \prod_{i \le k} (1 - c_i)` and the limit :math:`\pi` of the latter, the number of
    mistakes is at most

    .. math::

        \frac{1}{\gamma^2} \Bigl(1 + \sum_{k \ge 1} \frac{s_k}{\pi_k}
            + \frac{1}{\pi} \sum_{i:\, \eta_i < \gamma} \frac{e_i}{\|x_i\|^2}\Bigr),
        \qquad
        e_i = \begin{cases}
            2 \gamma (\gamma - \eta_i) & \eta_i \ge 0, \\
            (\gamma - \eta_i)^2 + \gamma^2 & \eta_i < 0,
        \end{cases}

    where :math:`s_k = (1 - \gamma) [c_k (1 + \gamma) - 2 \gamma]_+` for a learner that learns from
    mistakes only, and :math:`s_k = (1 - \gamma)^2 c_k` for one that learns from small margins too.
    Separable examples, the default, have no second sum, and mistake-driven learners with
    :math:`c \le 2 \gamma / (1 + \gamma)` no first one either: at most :math:`1 / \gamma^2`.

    Parameters
    ----------
    gamma : float
        The margin, above 0 and at most 1.
    c : float, default=0.1
        The first step of the shape, from 0 to below 1.
    b : float, default=0.3
        Its decay, above 0 and at most 1.
    trigger : {"mistake", "margin"}, default="mistake"
        What the learner learns from, the parameter of
        :class:`~oblong.ImprovedEllipsoidClassifier`.
    margins : array-like of shape (n_examples,), default=None
        Margins :math:`\eta` of a weight vector of norm one on all examples, in any order and as
        often as they are presented. By default none is below :math:`\gamma`.
    norms : array-like of shape (n_examples,), default=None
        Norms of these examples, at most 1; all 1 by default.

    Returns
    -------
    float
        The bound; infinite if ``b=1`` and the sums do not end.

    Notes
    -----
    It holds for two classes, the full shape matrix, and a decay by updates. If there is an
    intercept, :math:`x` is the example with a constant feature of one.

    Theorem 4 of [1]_ is smaller and does not hold: its proof drops a term that is positive if
    :math:`2 \eta` is below the margin of the learner, and uses :math:`|\eta| \le \gamma`. With
    :math:`m` the margin of the learner, :math:`v = x^\top P x` and
    :math:`q = (u - w)^\top P^{-1} (u - w)`, an update gives exactly

    .. math::

        q' = (1 - c_k) q + \bigl(\gamma^2 - 2 \gamma \eta + c_k \eta^2
             + (1 - c_k) \, m (2 \eta - m)\bigr) / v .

    For a mistake the last bracket is at most :math:`-(1 - c_k) \gamma^2` plus what the sums above
    count. Dividing by :math:`\pi_k` and adding up, with
    :math:`\|x\|^2 \le v \le \|x\|^2 / \pi_{k-1}`, gives the bound.

    References
    ----------
    .. [1] L. Yang, R. Jin and J. Ye, "Online Learning by Ellipsoid Method", International
       Conference on Machine Learning, 2009.

    Examples
    --------
    >>> from oblong.bounds import mistake_bound_iellip
    >>> round(mistake_bound_iellip(0.1))
    100
    >>> round(mistake_bound_iellip(0.2, c=0.8, b=0.15))
    81
    >>> round(mistake_bound_iellip(0.1, trigger="margin"))
    113
    """
    _check_share(gamma, "gamma")
    check_number(c, "c", low=0.0, below=1.0)
    _check_share(b, "b")
    if trigger not in ("mistake", "margin"):
        raise ValueError(f'trigger must be "mistake" or "margin", got {trigger!r}')
    outliers = _outliers(float(gamma), margins, norms)
    separable, shrinkage = _memory_terms(float(gamma), float(c), float(b), trigger)
    # No outliers cost nothing, also where the shape grows without end.
    return (1.0 + separable + (outliers * shrinkage if outliers else 0.0)) / gamma**2


def _memory_terms(gamma: float, c: float, b: float, trigger: str) -> tuple[float, float]:
    """Return ``Σ s_k / π_k`` and ``1 / π``."""
    needed = 0.0 if trigger == "margin" else 2.0 * gamma / (1.0 + gamma)
    if b == 1.0 and c > 0.0:
        return (0.0 if c <= needed or gamma == 1.0 else math.inf), math.inf
    shrinkage = _product(c, b, _NEGLIGIBLE)[1]
    if trigger == "margin":
        # Σ c_k / π_k telescopes.
        return ((1.0 - gamma) ** 2 * (shrinkage - 1.0) if gamma < 1.0 else 0.0), shrinkage
    steps, _ = _product(c, b, needed)
    if steps is None:
        return math.inf, shrinkage
    with np.errstate(over="ignore"):
        inverse = np.exp(-np.cumsum(np.log1p(-steps)))
    costs = (1.0 - gamma) * np.maximum(0.0, steps * (1.0 + gamma) - 2.0 * gamma)
    positive = costs > 0.0
    return float(costs[positive] @ inverse[positive]), shrinkage


def _product(c: float, b: float, least: float) -> tuple[np.ndarray | None, float]:
    """Return the steps ``c bᵏ`` that are not below ``least``, and ``1 / Π (1 - c bᵏ)`` of them.

    Where there are too many of them to write down, there are None, and the product is infinite,
    which it is for all practical purposes.
    """
    if c <= least:
        return np.empty(0), 1.0
    count = math.ceil(math.log(least / c) / math.log(b))
    if count > _MOST_STEPS:
        return None, math.inf
    steps = c * b ** np.arange(count)
    with np.errstate(over="ignore"):
        return steps, float(np.exp(-np.log1p(-steps).sum()))


def _outliers(gamma: float, margins: Any, norms: Any) -> float:
    """Return the sum of ``e / ‖x‖²`` over the examples with too small a margin."""
    if margins is None:
        if norms is not None:
            raise ValueError("norms need margins as well")
        return 0.0
    check = partial(check_array, ensure_2d=False, ensure_min_samples=0, dtype=np.float64)
    eta = check(margins, input_name="margins")
    length = np.ones_like(eta) if norms is None else check(norms, input_name="norms")
    if eta.ndim != 1 or eta.shape != length.shape:
        raise ValueError(
            f"margins and norms must be vectors of one length, got {eta.shape} and {length.shape}"
        )
    slack = 1.0 + 1e-9
    if (length < 0.0).any() or (length > slack).any() or (abs(eta) > length * slack).any():
        raise ValueError("norms must lie between 0 and 1, and margins between -norm and norm")
    # An example of length zero has no direction to learn from, and never causes an update.
    keep = (eta < gamma) & (length > 0.0)
    loss, length = gamma - eta[keep], length[keep]
    cost = np.where(eta[keep] >= 0.0, 2.0 * gamma * loss, loss**2 + gamma**2)
    return float((cost / length**2).sum())


def mistake_bound_cw(
    mean: Any, covariance: Any, confidence: float = 0.9, *, target_covariance: Any = None
) -> float:
    r"""Bound the mistakes of confidence-weighted learning (CW-Stdev) on separable examples.

    After any number of examples, with the full covariance :math:`\Sigma` that the learner then has
    and :math:`\varphi = \Phi^{-1}(\eta)`, the number of mistakes so far is at most

    .. math:: \frac{1 + \varphi^2}{\varphi^2} \; \mu^{*\top} \Sigma^{-1} \mu^*

    for every :math:`\mu^*` whose margins :math:`y \, \mu^* \cdot x` are at least those that the
    learner had right after each of its updates. As it starts with the variance :math:`a` and
    variances only shrink, :math:`y \, \mu^* \cdot x \ge \varphi \sqrt{a} \, \|x\|` suffices.

    Parameters
    ----------
    mean : array-like of shape (n_features,)
        The weight vector :math:`\mu^*`. If :math:`u` separates the examples with
        :math:`y \, u \cdot x \ge \gamma \|x\|`, take :math:`\varphi \sqrt{a} \, u / \gamma`.
    covariance : array-like of shape (n_features, n_features)
        The learner's covariance at the end, symmetric and positive definite.
    confidence : float, default=0.9
        The learner's :math:`\eta`, between 0.5 and 1.
    target_covariance : array-like of shape (n_features, n_features), default=None
        The matrix :math:`\Sigma^*` of theorem 4 of [1]_, which adds
        :math:`\operatorname{tr} \Sigma^* - \log\det \Sigma^* - d \ge 0` to the last factor, for
        comparison with the paper. It is not needed.

    Returns
    -------
    float
        The bound.

    Notes
    -----
    It holds for two classes and the full matrix. If there is an intercept, mean and covariance have
    an entry for it. On noisy streams the learner may change the unit of its weights; the
    covariance has to be in the unit of the start.

    With :math:`h = \Sigma^{-1} \mu`, an update of step :math:`\alpha` adds
    :math:`(1 + \varphi^2) \alpha y x` to :math:`h`, and the margin after it is
    :math:`m' = m + \alpha v`. From
    :math:`(\mu^* - \mu)^\top \Sigma^{-1} (\mu^* - \mu) \ge 0` at the end it follows that

    .. math:: \sum_i \alpha_i^2 v_i + \varphi^2 \sum_i \alpha_i m'_i
              \le \mu^{*\top} \Sigma^{-1} \mu^*,

    and :math:`\alpha^2 v \ge \varphi^2 / (1 + \varphi^2)` for a mistake. The last factor is missing
    in the first inequality of the paper's theorem.

    References
    ----------
    .. [1] K. Crammer, M. Dredze and F. Pereira, "Exact Convex Confidence-Weighted Learning",
       Advances in Neural Information Processing Systems 21, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import norm
    >>> from oblong import ConfidenceWeightedClassifier
    >>> from oblong.bounds import mistake_bound_cw
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> X = X[abs(X[:, 0]) > 0.2 * np.linalg.norm(X, axis=1)]
    >>> model = ConfidenceWeightedClassifier(fit_intercept=False)
    >>> model = model.partial_fit(X, X[:, 0] > 0, classes=[False, True])
    >>> mean = norm.ppf(0.9) * np.array([1.0, 0.0, 0.0]) / 0.2
    >>> model.n_mistakes_ <= mistake_bound_cw(mean, model.covariance_)
    True
    """
    check_number(confidence, "confidence", above=0.5, below=1.0)
    mean = check_array(mean, ensure_2d=False, dtype=np.float64, input_name="mean")
    if mean.ndim != 1:
        raise ValueError(f"mean must be a vector, got an array of shape {mean.shape}")
    root = _root(covariance, len(mean), "covariance")
    distance = solve_triangular(root, mean, lower=True, check_finite=False)
    total = float(distance @ distance)
    if target_covariance is not None:
        target = _root(target_covariance, len(mean), "target_covariance")
        total += float((target**2).sum() - 2.0 * np.log(np.diag(target)).sum() - len(mean))
    square = float(ndtri(confidence)) ** 2
    return (1.0 + square) / square * total


def _root(matrix: Any, d: int, name: str) -> np.ndarray:
    """Check a covariance and return its lower Cholesky factor."""
    matrix = check_array(matrix, dtype=np.float64, input_name=name)
    if matrix.shape != (d, d):
        raise ValueError(f"{name} must have shape {(d, d)}, got {matrix.shape}")
    if not np.allclose(matrix, matrix.T, rtol=0.0, atol=1e-8 * np.abs(matrix).max()):
        raise ValueError(f"{name} is not symmetric")
    try:
        return cholesky(matrix, lower=True, check_finite=False)
    except LinAlgError:
        raise ValueError(f"{name} is not positive definite") from None


def _check_share(value: Any, name: str) -> None:
    check_number(value, name, above=0.0)
    if value > 1.0:
        raise ValueError(f"{name} must be at most 1, got {value!r}")
