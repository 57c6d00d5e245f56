"""Coordinates of rows in the feature space of a kernel, by its principal directions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from oblong._core.threads import chunks

# Eigenvalues below this fraction of the largest one are the round-off of the matrix.
_ROUND_OFF = 1e-10
# The default number of directions: what this fraction of the trace takes, within the two limits.
_TRACE_SHARE = 0.99
_ROWS_PER_DIRECTION = 10
_MOST_DIRECTIONS = 200
# Squared distances below this fraction of the largest diagonal entry make two rows one.
_SAME = 1e-12
_CHUNK = 1024


@dataclass(frozen=True)
class KernelCoordinates:
    """The first principal directions of rows in the feature space of a kernel.

    With weights ``ω`` of sum ``n`` and ``p = ω / n``, the kernel matrix is centred,
    ``K_c = (I - 1p') K (I - p1')``, and ``diag(√ω) K_c diag(√ω) = V diag(λ) V'``.

    Attributes
    ----------
    coordinates : ndarray of shape (n, k)
        ``diag(1/√ω) V diag(√λ)``, whose inner products are those of ``K_c`` but for the
        directions left out. A row of weight zero is projected like a new one.
    eigenvalues : ndarray of shape (k,)
        ``λ``, from the largest down.
    directions : ndarray of shape (n, k)
        Coefficients of the principal directions, ``diag(√ω) V diag(1/√λ)``, with columns of
        sum zero if the matrix is centred.
    means : ndarray of shape (n,)
        ``K p``, or zeros if the matrix is not centred.
    explained : float
        Fraction of the trace of the (centred) matrix that the directions take.
    """

    coordinates: np.ndarray
    eigenvalues: np.ndarray
    directions: np.ndarray
    means: np.ndarray
    explained: float

    @property
    def rank(self) -> int:
        """Number of directions."""
        return self.eigenvalues.size

    def project(self, K: np.ndarray) -> np.ndarray:
        """Coordinates of new rows, from their kernel values against the rows of the fit.

        ``p(x) = diag(1/√λ) V' diag(√ω) k_c(x)`` with the centred values
        ``k_c(x)_i = k(x, x_i) - Σ_j p_j k(x, x_j) - Σ_j p_j k(x_j, x_i) + p'Kp``.

        Parameters
        ----------
        K : ndarray of shape (m, n)
            Kernel values.

        Returns
        -------
        ndarray of shape (m, k)
            Coordinates.
        """
        # Two of the four terms are the same for every direction, whose coefficients have the
        # sum zero. The subtraction is not left to the product, which would lose its digits.
        return (K - self.means) @ self.directions


def kernel_coordinates(
    K: np.ndarray,
    *,
    center: bool = True,
    rank: int | str | None = None,
    sample_weight: np.ndarray | None = None,
) -> KernelCoordinates:
    """Find coordinates in which a kernel's rows are ordinary ones (kernel principal components).

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel matrix, symmetric and positive semidefinite.
    center : bool, default=True
        Whether the origin is moved to the mean of the rows.
    rank : int, "full" or None, default=None
        Number of directions. "full" takes all that are not round-off. None takes as many as
        99 % of the trace of the matrix need, but at most 200 and at most a tenth of the number
        of distinct rows. In all of its directions a nonsingular kernel matrix has no shape:
        the rows are the corners of a simplex.
    sample_weight : ndarray of shape (n,), default=None
        Weights. A row of weight two counts as two rows, one of weight zero as none.

    Returns
    -------
    KernelCoordinates
        The coordinates, and what projecting other rows takes.
    """
    n = K.shape[0]
    if not (K.ndim == 2 and K.shape[1] == n):
        raise ValueError(f"expected a square kernel matrix, got the shape {K.shape}")
    if not np.isfinite(K).all():
        raise ValueError("the kernel matrix has values that are not finite: scale the data")
    weights = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    kept = np.flatnonzero(weights > 0)
    if kept.size < n:
        return _with_dropped(K, kept, center, rank, weights)

    share = weights / weights.sum()
    gram = np.array(K, dtype=np.float64)
    means = gram @ share if center else np.zeros(n)
    if center:
        gram -= means
        gram -= (means - means @ share)[:, None]
    # The sum of the weights counts the rows only up to their unit, which nothing may depend on.
    roots = np.sqrt(weights / weights.mean())
    gram *= roots
    gram *= roots[:, None]
    trace = float(np.trace(gram))
    size = max(float(np.abs(K.diagonal()).max()), np.finfo(float).tiny)
    if trace <= 16.0 * np.finfo(float).eps * n * size:
        raise ValueError("all rows are the same in the feature space of the kernel")

    limit = n if rank == "full" else (_default_limit(K) if rank is None else min(int(rank), n))
    values, vectors = _largest(gram, limit)
    # Centring leaves the rounding of the values themselves, which may be far larger.
    rounding = 4.0 * np.finfo(float).eps * np.sqrt(n) * size
    keep = max(1, int((values > max(_ROUND_OFF * values[0], rounding)).sum()))
    if rank is None:
        needed = int(np.searchsorted(np.cumsum(values), _TRACE_SHARE * trace)) + 1
        keep = min(keep, needed)
    values, vectors = values[:keep], _signed(vectors[:, :keep])
    directions = vectors * roots[:, None] / np.sqrt(values)
    if center:
        directions -= np.outer(share, directions.sum(axis=0))
    return KernelCoordinates(
        coordinates=vectors * np.sqrt(values) / roots[:, None],
        eigenvalues=values,
        directions=directions,
        means=means,
        explained=min(1.0, float(values.sum()) / trace),
    )


def _with_dropped(
    K: np.ndarray, kept: np.ndarray, center: bool, rank: int | str | None, weights: np.ndarray
) -> KernelCoordinates:
    """Leave out rows of weight zero, then project them."""
    if kept.size == 0:
        raise ValueError("every row has the weight zero")
    inner = kernel_coordinates(
        K[np.ix_(kept, kept)], center=center, rank=rank, sample_weight=weights[kept]
    )
    directions = np.zeros((K.shape[0], inner.rank))
    directions[kept] = inner.directions
    means = np.zeros(K.shape[0])
    means[kept] = inner.means
    coordinates = np.empty_like(directions)
    coordinates[kept] = inner.coordinates
    dropped = np.setdiff1d(np.arange(K.shape[0]), kept)
    coordinates[dropped] = inner.project(K[np.ix_(dropped, kept)])
    return KernelCoordinates(coordinates, inner.eigenvalues, directions, means, inner.explained)


def _default_limit(K: np.ndarray) -> int:
    """Most directions of the default rule: copies of a row must not raise it."""
    diagonal = np.asarray(K.diagonal(), dtype=np.float64)
    least = _SAME * diagonal.max()
    distinct = 0
    for start, stop in chunks(len(K), _CHUNK):
        squares = diagonal[start:stop, None] + diagonal[:stop] - 2.0 * K[start:stop, :stop]
        distinct += int((~np.tril(squares <= least, start - 1).any(axis=1)).sum())
    return max(1, min(_MOST_DIRECTIONS, distinct // _ROWS_PER_DIRECTION))


def _largest(gram: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenpairs of the largest eigenvalues, from the largest down; the matrix is overwritten."""
    n = len(gram)
    if count <= n // 2:
        some = (n - count, n - 1)
        values, vectors = eigh(gram, check_finite=False, driver="evr", subset_by_index=some)
        # Where eigenvalues are all but equal, this driver may find none at all.
        if values.size == count:
            return values[::-1], vectors[:, ::-1]
    # Divide and conquer is the fastest way to all eigenvectors, but it cannot leave out any.
    values, vectors = eigh(gram, overwrite_a=True, check_finite=False, driver="evd")
    return values[::-1][:count], vectors[:, ::-1][:, :count]


def _signed(vectors: np.ndarray) -> np.ndarray:
    """Give every vector the sign that makes its largest entry positive."""
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return vectors * np.where(largest < 0.0, -1.0, 1.0)
