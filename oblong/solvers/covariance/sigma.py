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

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cholesky, eigh, qr, solve_triangular
from scipy.linalg.lapack import dpotri

from oblong._core.progress import Run
from oblong._core.threads import chunks
from oblong.kernels import Kernel
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.linalg.low_rank import LowRank
from oblong.solvers.covariance.certificate import (
    Certificate,
    StoredOutputs,
    certify_kernel,
    certify_linear,
)
from oblong.solvers.covariance.options import CovarianceOptions
from oblong.solvers.margin.solver import MarginResult, solve_svm

# Negative eigenvalues up to this fraction of the kernel values are round-off.
_ROUND_OFF = 1e-10


@dataclass(frozen=True)
class SigmaFactor:
    """The covariance in feature space, for one share ``D`` of it.

    With the root weights ``r = sqrt(p)``, the centred kernel matrix ``K_c``,
    ``G = diag(r) K_c diag(r)`` and ``N = ((1-D)I + D G)^-1``, by Cholesky,
    ``K̂ = diag(1/r) G N diag(1/r)`` and ``G N = (I - (1-D) N) / D``.

    Attributes
    ----------
    roots, means : ndarray of shape (n,)
        ``r``, and ``K p``, the kernel's means over the rows.
    matrix : ndarray of shape (n, n)
        ``K̂``.
    inverse : ndarray of shape (n, n) or None
        ``N``; None stands for the identity, which it is for ``D = 0``.
    """

    roots: np.ndarray
    means: np.ndarray
    matrix: np.ndarray
    inverse: np.ndarray | None

    @classmethod
    def of(cls, K: np.ndarray, D: float, weights: np.ndarray | None = None) -> SigmaFactor:
        """Factor the covariance of rows with kernel matrix ``K`` and weights above zero."""
        roots, means, matrix = _centred_gram(K, weights)
        inverse = None
        if D > 0.0:
            metric = D * matrix
            metric.flat[:: len(K) + 1] += 1.0 - D
            inverse = _inverse(metric)
            if inverse is None:
                size = float(np.abs(K.diagonal()).max()) * float(roots.max()) ** 2
                matrix, inverse = _by_eigenvalues(matrix, D, size)
            elif CovarianceOptions.closed_form_from <= D:
                np.multiply(inverse, (D - 1.0) / D, out=matrix)
                matrix.flat[:: len(K) + 1] += 1.0 / D
            else:
                # The difference of two nearly equal matrices over a small number.
                matrix = matrix @ inverse
                matrix = 0.5 * (matrix + matrix.T)
        matrix /= roots
        matrix /= roots[:, None]
        return cls(roots, means, matrix, inverse)

    def coefficients(self, c: np.ndarray) -> np.ndarray:
        """Coefficients ``g`` of ``w = Σ g_j φ_j`` for the coefficients ``c`` of the dual."""
        if self.inverse is None:
            return c
        beta = self.roots * (self.inverse @ (c / self.roots))
        # Centring; the sum is zero but for round-off.
        return beta - beta.sum() * self.roots**2


@dataclass(frozen=True)
class Whitening:
    """The map ``z = L^-1 (x - μ)`` with ``L L' = (1-D)I + DΣ`` for rows of ``d`` features.

    Attributes
    ----------
    share : ndarray of shape (n,)
        Weights ``p`` of sum one.
    mean : ndarray of shape (d,)
        ``μ``.
    factor : ndarray of shape (d, d)
        ``L``.
    D : float
        Fraction of the covariance.
    """

    share: np.ndarray
    mean: np.ndarray
    factor: np.ndarray
    D: float

    @classmethod
    def of(cls, X: Any, D: float, weights: np.ndarray | None = None) -> Whitening:
        """Find the map from dense or CSR rows with weights above zero."""
        share = _share(X.shape[0], weights)
        mean = weighted_sum(share, X)
        metric = (1.0 - D) * np.eye(X.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            for start, stop, part in _centred_parts(X, mean):
                metric += (D * share[start:stop, None] * part).T @ part
        if not np.isfinite(metric).all():
            raise ValueError("the covariance of X is not finite: scale the data")
        try:
            factor = cholesky(metric, lower=True)
        except LinAlgError:
            # Columns that depend on others: squares have lost the identity, the rows have not.
            R = np.sqrt(1.0 - D) * np.eye(X.shape[1])
            for start, stop, part in _centred_parts(X, mean):
                roots = np.sqrt(D * share[start:stop, None])
                (R,) = qr(np.vstack([R, roots * part]), mode="r", check_finite=False)
                R = R[: X.shape[1]]
            factor = (np.where(R.diagonal() < 0.0, -1.0, 1.0)[:, None] * R).T
        return cls(share, mean, factor, D)

    def transform(self, X: Any) -> np.ndarray:
        """Whiten rows; the result is in double precision, as the model is."""
        result = np.empty(X.shape)
        for start, stop, part in _centred_parts(X, self.mean):
            result[start:stop] = solve_triangular(
                self.factor, part.T, lower=True, check_finite=False
            ).T
        return result

    def direction(self, w: np.ndarray) -> np.ndarray:
        """Weight vector for rows as they are, from one for whitened rows."""
        return solve_triangular(self.factor, w, lower=True, trans="T")

    def coefficients(self, c: np.ndarray, image: np.ndarray) -> np.ndarray:
        """Coefficients ``g`` of ``w = Σ g_i x_i``; ``image`` is ``w·(x_i - μ)``.

        They satisfy ``((1-D)I + D diag(p) K_c) g = c``.
        """
        return (c - self.D * self.share * image) / (1.0 - self.D)


def _share(n: int, weights: np.ndarray | None) -> np.ndarray:
    return np.full(n, 1.0 / n) if weights is None else weights / weights.sum()


def _inverse(metric: np.ndarray) -> np.ndarray | None:
    """Inverse of a matrix, which is overwritten, or None if it is not positive definite."""
    try:
        factor = cholesky(metric, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    # The upper triangle of the result is the factor's, which is zero.
    lower, _ = dpotri(factor, lower=1, overwrite_c=1)
    inverse = lower + lower.T
    inverse.flat[:: len(inverse) + 1] *= 0.5
    return inverse


def _by_eigenvalues(gram: np.ndarray, D: float, size: float) -> tuple[np.ndarray, np.ndarray]:
    """``G N`` and ``N`` for a centred matrix whose negative eigenvalues are rounding.

    ``size`` is that of the kernel values before centring, whose digits the matrix has lost.
    """
    values, vectors = eigh(gram, check_finite=False, driver="evd")
    if values[0] < -_ROUND_OFF * max(float(values[-1]), size):
        raise ValueError("the kernel matrix is not positive semidefinite: use another kernel")
    values = np.maximum(values, 0.0)
    metric = (1.0 - D) + D * values
    return (vectors * (values / metric)) @ vectors.T, (vectors / metric) @ vectors.T


def _centred_gram(
    K: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Root weights ``r``, kernel means ``K p``, and ``diag(r) K_c diag(r)``."""
    share = _share(len(K), weights)
    gram = np.array(K, dtype=np.float64)
    if not np.isfinite(gram).all():
        raise ValueError("the kernel matrix has values that are not finite: scale the data")
    means = gram @ share
    gram -= means
    gram -= (means - means @ share)[:, None]
    roots = np.sqrt(share)
    gram *= roots
    gram *= roots[:, None]
    return roots, means, gram


def weighted_sum(weights: np.ndarray, X: Any) -> np.ndarray:
    """Sum of weighted rows, without a copy of them all in double precision."""
    parts = (
        weights[start:stop] @ X[start:stop]
        for start, stop in chunks(X.shape[0], CovarianceOptions.chunk)
    )
    return np.asarray(sum(parts), dtype=np.float64)


def centred_sum(weights: np.ndarray, X: Any, mean: np.ndarray) -> np.ndarray:
    """Weighted sum of differences from a mean, which has digits far from the origin as well."""
    total = np.zeros(X.shape[1])
    for start, stop, part in _centred_parts(X, mean):
        total += weights[start:stop] @ part
    return total


def _centred_parts(X: Any, mean: np.ndarray) -> Iterator[tuple[int, int, np.ndarray]]:
    """Centred rows in double precision, a chunk at a time."""
    for start, stop in chunks(X.shape[0], CovarianceOptions.chunk):
        part = X[start:stop]
        yield start, stop, (part.toarray() if sp.issparse(part) else part) - mean


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
    columns = KernelMatrix(geometry.matrix, threads=threads)
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
    columns = KernelMatrix.of_rows(
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
