"""The Σ-SVM: a support vector machine that regularises the spread of its outputs.

Shivaswamy and Jebara, "Maximum Relative Margin and Data-Dependent Regularization", Journal of
Machine Learning Research 11 (2010), equation (6)::

    min_{w,b}  ½(1-D)|w|² + ½D w'Σw + Σ C_i [1 - y_i (w·(φ_i - μ) + b)]_+

With the row weights ``p`` of sum one, ``μ`` is the mean ``Σ p_i φ_i`` and ``Σ`` the covariance
``Σ p_i (φ_i - μ)(φ_i - μ)'``. The dual is that of the support vector machine for the kernel
``(φ_i - μ)' ((1-D)I + DΣ)^-1 (φ_j - μ)``, which is found in one of three ways: from the kernel
matrix, from the rows of a linear kernel, or from the features of a low-rank approximation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
from scipy.linalg import solve_triangular

from oblong._core.progress import Run
from oblong.kernels import Kernel
from oblong.linalg.columns import ExplicitColumns
from oblong.linalg.kernel_columns import KernelColumns
from oblong.linalg.low_rank import LowRank
from oblong.solvers.covariance.certificate import (
    Certificate,
    StoredOutputs,
    certify_kernel,
    certify_linear,
)
from oblong.solvers.covariance.sigma_geometry import (
    SigmaFactor,
    Whitening,
    centred_sum,
)
from oblong.solvers.margin.svm import MarginResult, solve_svm


@dataclass(frozen=True)
class SigmaResult:
    """Solution of the Σ-SVM.

    Attributes
    ----------
    margin : MarginResult
        The support vector machine in the changed geometry, and its certificate.
    coef : ndarray of shape (n,)
        Coefficients ``g`` of the classifier ``f(x) = Σ g_j k(x_j, x) + bias`` in terms of the
        kernel itself.
    bias : float
        Its bias, which the mean has gone into.
    n_iter : int
        Pair steps.
    direction : ndarray of shape (d,), default=None
        The weight vector of a linear classifier.
    certificate : Certificate, default=None
        That of the model ``coef`` or ``direction`` and ``bias``, where it was asked for; that of
        ``margin`` belongs to the changed geometry.
    """

    margin: MarginResult
    coef: np.ndarray
    bias: float
    n_iter: int
    direction: np.ndarray | None = None
    certificate: Certificate | None = None


def solve_sigma_kernel(
    geometry: SigmaFactor,
    y: np.ndarray,
    C: np.ndarray,
    *,
    threads: int = 1,
    **run: Unpack[Run],
) -> SigmaResult:
    """Solve the Σ-SVM from the covariance of its rows in feature space.

    Parameters
    ----------
    geometry : SigmaFactor
        The covariance, which serves every ``y`` and ``C``.
    y, C : ndarray of shape (n,)
        Labels, -1 or +1, and penalties.
    threads : int, default=1
        Threads for products with the matrix.
    **run : object
        ``tol``, ``max_iter`` and ``progress`` of
        :func:`~oblong.solvers.margin.solver.solve_margin`.

    Returns
    -------
    SigmaResult
        The solution.
    """
    columns = ExplicitColumns(geometry.matrix, threads)
    margin = solve_svm(columns, y, C, stage="sigma", **run)
    g = geometry.coefficients(margin.coef)
    # The bias lacks the output w·μ of the mean.
    return SigmaResult(margin, g, margin.bias - float(geometry.means @ g), margin.n_iter)


def solve_sigma_linear(
    X: Any,
    y: np.ndarray,
    C: np.ndarray,
    D: float,
    *,
    weights: np.ndarray | None = None,
    cache_bytes: float = 2.0**30,
    threads: int = 1,
    **run: Unpack[Run],
) -> SigmaResult:
    """Solve the Σ-SVM with the linear kernel by whitening the rows; the cost is ``n d²``.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        The rows.
    D : float
        Fraction of the covariance, at least zero and below one.
    y, C, threads, **run
        As for :func:`solve_sigma_kernel`.
    weights : ndarray of shape (n,), default=None
        Weights above zero of the rows in the mean and the covariance.
    cache_bytes : float, default=2**30
        Memory limit of the kernel cache.

    Returns
    -------
    SigmaResult
        The solution, with its ``direction``.
    """
    whitening = Whitening.of(X, D, weights)
    columns = KernelColumns(
        Kernel("linear"), whitening.transform(X), cache_bytes=cache_bytes, threads=threads
    )
    margin = solve_svm(columns, y, C, stage="sigma", **run)
    c = margin.coef
    moment = centred_sum(c, X, whitening.mean)
    w = whitening.direction(solve_triangular(whitening.factor, moment, lower=True))
    # The columns are those of rows shifted to an unweighted mean of zero.
    shift = columns.offset(c)
    bias = margin.bias - shift - float(w @ whitening.mean)
    outputs, dual = StoredOutputs.of_rows(X, w, bias), (margin.dual_coef, margin.scale)
    certificate = certify_linear(X, outputs, w, bias, *dual, whitening, y=y, C=C)
    g = whitening.coefficients(c, margin.outputs - margin.bias + shift)
    return SigmaResult(margin, g, bias, margin.n_iter, w, certificate)


def certified_kernel(
    solution: SigmaResult,
    K: np.ndarray,
    y: np.ndarray,
    C: np.ndarray,
    D: float,
    weights: np.ndarray,
    rows: tuple[Any, np.ndarray, np.ndarray] | None = None,
    unit: float = 0.0,
) -> SigmaResult:
    """Certify a solution from a kernel matrix as it is stored.

    Parameters
    ----------
    solution : SigmaResult
        The solution for the matrix ``K``.
    K : ndarray of shape (n, n)
        The kernel matrix; that of a linear kernel may belong to shifted rows.
    y, C, D, weights
        As for :func:`solve_sigma_linear`.
    rows : tuple of (X, shift, moved), default=None
        For the linear kernel: the rows, what was subtracted from them, and the difference. The
        model is then stored as a weight vector for ``X``.
    unit : float, default=0.0
        Rounding of the kernel's values.
    """
    g, bias, direction = solution.coef, solution.bias, None
    if rows is None:
        outputs = StoredOutputs.of_kernel(K, g, bias, unit)
        inner = bias
    else:
        X, shift, moved = rows
        direction = np.asarray(g @ moved)
        inner, bias = bias, bias - float(direction @ shift)
        outputs = StoredOutputs.of_rows(X, direction, bias)
    share, dual = weights / weights.sum(), (solution.margin.dual_coef, solution.margin.scale)
    certificate = certify_kernel(K, outputs, g, inner, *dual, y=y, C=C, D=D, share=share)
    return replace(solution, bias=bias, direction=direction, certificate=certificate)


def solve_sigma_low_rank(
    approximation: LowRank, y: np.ndarray, C: np.ndarray, D: float, **options: Any
) -> SigmaResult:
    """Solve the Σ-SVM for the kernel matrix ``F F'`` of a low-rank approximation.

    The certificate is that of this problem. Only the pivots get coefficients.

    Parameters
    ----------
    approximation : LowRank
        Features, and the pivots they come from.
    y, C, D
        As for :func:`solve_sigma_kernel`.
    **options : object
        Options of :func:`solve_sigma_linear`.

    Returns
    -------
    SigmaResult
        The solution.
    """
    linear = solve_sigma_linear(approximation.features, y, C, D, **options)
    assert linear.direction is not None
    coef = np.zeros(len(y))
    coef[approximation.pivots] = approximation.coefficients(linear.direction)
    return replace(linear, coef=coef, direction=None)
