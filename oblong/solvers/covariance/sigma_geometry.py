"""The geometry of the Σ-SVM: the metric ``(1-D)I + DΣ`` in the space of a kernel or of rows.

With the row weights ``p`` of sum one, ``μ`` is the mean ``Σ p_i φ_i`` and ``Σ`` the covariance
``Σ p_i (φ_i - μ)(φ_i - μ)'``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cholesky, eigh, qr, solve_triangular
from scipy.linalg.lapack import dpotri

from oblong._core.threads import chunks
from oblong.solvers.covariance.options import CovarianceOptions

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
            elif CovarianceOptions.closed_form_share <= D:
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
