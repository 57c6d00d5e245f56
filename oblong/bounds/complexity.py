"""Bounds on the Rademacher complexity of the three classes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from oblong.bounds._input import check_number, check_rows, coordinates, whitened
from oblong.bounds._optimal_design import solve_optimal_design


@dataclass(frozen=True)
class RademacherBound:
    """A bound on the complexity of the relative margin class; ``float`` turns it into a number.

    Attributes
    ----------
    value : float
        The bound T2.
    gap : float
        Relative distance to a certified lower bound of the minimum that defines T2. The value
        bounds the complexity whatever the gap.
    weights : ndarray of shape (n_landmarks,)
        Optimal weights of the landmarks, of sum one. The multipliers of the paper are these times
        a factor.
    n_iter : int
        Rounds of the solver.
    """

    value: float
    gap: float
    weights: np.ndarray
    n_iter: int

    def __float__(self) -> float:
        return self.value


def rademacher_svm(X: Any, *, E: float = 1.0, kernel: str = "linear") -> float:
    r"""Bound the complexity of the class of the support vector machine.

    The bound T0 of theorem 9 on the empirical Rademacher complexity of
    :math:`\{\tfrac12 w^\top w \le E\}`,

    .. math:: T_0 = \frac{2\sqrt{2E}}{n} \sqrt{\operatorname{tr} K} .

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows, or their kernel matrix of shape (n_samples, n_samples).
    E : float, default=1.0
        Size of the class.
    kernel : {"linear", "precomputed"}, default="linear"
        Whether ``X`` holds rows or a kernel matrix.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> from oblong.bounds import rademacher_svm
    >>> rademacher_svm([[3.0, 4.0], [0.0, 5.0]], E=2.0)
    14.14...
    """
    check_number(E, "E", low=0.0)
    X = check_rows(X, kernel)
    if kernel == "precomputed":
        trace = float(np.trace(X))
        if trace < 0.0:
            raise ValueError(f"the kernel matrix has the negative trace {trace:g}")
    else:
        trace = float(np.einsum("ij,ij->", X, X, dtype=np.float64))
    return _complexity(len(X), E, trace)


def rademacher_sigma(
    X: Any, *, D: float, E: float = 1.0, landmarks: Any = None, kernel: str = "linear"
) -> float:
    r"""Bound the complexity of the class of the Sigma-SVM.

    The bound T1 of theorem 11 on the empirical Rademacher complexity of
    :math:`\mathcal G`, with landmarks :math:`v_1, \ldots, v_m`,

    .. math::

        T_1 = \frac{2\sqrt{2E}}{n} \sqrt{\sum_i x_i^\top M^{-1} x_i},
        \qquad M = (1 - D) I + \frac{D}{m} \sum_j v_j v_j^\top .

    It bounds the complexity for any landmarks; it bears on the risk where they were chosen without
    regard to ``X``, and is a diagnostic otherwise.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows, or their kernel matrix of shape (n_samples, n_samples).
    D : float
        How much the spread counts against the norm, in [0, 1).
    E : float, default=1.0
        Size of the class (B in the paper).
    landmarks : array-like of shape (n_landmarks, n_features), default=None
        The landmarks; ``X`` itself by default. With ``kernel="precomputed"`` a pair of matrices:
        the kernel between ``X`` and the landmarks, and that of the landmarks.
    kernel : {"linear", "precomputed"}, default="linear"
        Whether ``X`` holds rows or a kernel matrix.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> from oblong.bounds import rademacher_sigma
    >>> from oblong.datasets import make_tilted_gaussians
    >>> X, _ = make_tilted_gaussians(200, random_state=0)
    >>> rademacher_sigma(X, D=0.9) < rademacher_sigma(X, D=0.0)
    True
    """
    check_number(D, "D", low=0.0, below=1.0)
    check_number(E, "E", low=0.0)
    rows = whitened(coordinates(X, landmarks, kernel), D)
    return _complexity(len(rows), E, np.vdot(rows, rows))


def rademacher_rmm(
    X: Any, *, D: float, E: float = 1.0, landmarks: Any = None, kernel: str = "linear"
) -> RademacherBound:
    r"""Bound the complexity of the class of the relative margin machine.

    The bound T2 of theorem 10 on the empirical Rademacher complexity of :math:`\mathcal H`, with
    landmarks :math:`v_1, \ldots, v_m`. It is printed as a minimum over multipliers
    :math:`\lambda \ge 0`, which splits into a scale with a closed form and weights :math:`p` of
    sum one,

    .. math::

        T_2 = \frac{2\sqrt{2E}}{n} \min_p \sqrt{\sum_i x_i^\top M(p)^{-1} x_i},
        \qquad M(p) = (1 - D) I + D \sum_j p_j v_j v_j^\top .

    The weights are an A-optimal design, found together with a lower bound of the minimum. Equal
    weights give T1, so T2 is never larger than T1 on the same landmarks.

    It bounds the complexity for any landmarks; it bears on the risk where they were chosen without
    regard to ``X``, and is a diagnostic otherwise.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows, or their kernel matrix of shape (n_samples, n_samples).
    D : float
        How much the spread counts against the norm, in [0, 1).
    E : float, default=1.0
        Size of the class.
    landmarks : array-like of shape (n_landmarks, n_features), default=None
        The landmarks; ``X`` itself by default. With ``kernel="precomputed"`` a pair of matrices:
        the kernel between ``X`` and the landmarks, and that of the landmarks.
    kernel : {"linear", "precomputed"}, default="linear"
        Whether ``X`` holds rows or a kernel matrix.

    Returns
    -------
    RademacherBound
        The bound, its certificate and the weights.

    Examples
    --------
    >>> from oblong.bounds import rademacher_rmm, rademacher_sigma
    >>> from oblong.datasets import make_tilted_gaussians
    >>> X, _ = make_tilted_gaussians(200, random_state=0)
    >>> bound = rademacher_rmm(X, D=0.9)
    >>> bound.value <= rademacher_sigma(X, D=0.9), bound.gap < 1e-9
    (True, True)
    """
    check_number(D, "D", low=0.0, below=1.0)
    check_number(E, "E", low=0.0)
    rows, points, lengths = coordinates(X, landmarks, kernel)
    # Where the landmarks have no extent, M is a multiple of the identity.
    rank = max(1, int(np.sum(lengths > len(points) * np.finfo(float).eps * lengths[0])))
    inside, outside = rows[:, :rank], rows[:, rank:]
    result = solve_optimal_design(
        points[:, :rank], inside.T @ inside, D, rest=float(np.vdot(outside, outside))
    )
    # The value is a square root, so its gap is about half of the design's.
    gap = 1.0 - np.sqrt(1.0 - result.gap)
    if result.status != "converged" and gap > 1e-8:
        warnings.warn(
            f"the design stopped at a relative gap of {gap:.1e}; the bound holds, but may not be "
            "the smallest",
            ConvergenceWarning,
            stacklevel=2,
        )
    value = _complexity(len(rows), E, result.objective)
    return RademacherBound(value, float(gap), result.weights, result.n_iter)


def _complexity(n: int, E: float, total: float) -> float:
    """Return ``(2/n) √(2E total)``; neither factor is squared on the way."""
    value = 2.0 / n * float(np.sqrt(2.0 * E) * np.sqrt(total))
    if not np.isfinite(value):
        raise ValueError("the bound is too large to be represented: scale X")
    return value
