"""Log-determinants of moment matrices: factors and quadratic features of rows."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.blas import dtrmm, strmm
from scipy.linalg.lapack import dpotrf, dtrtri, strtri

from oblong._core.threads import available_threads, run_chunks
from oblong.linalg.gram import OrderedSum

# Bytes of a chunk of rows in double precision: small enough for caches, large enough for threads.
_CHUNK_BYTES = 1 << 20
_ROOT_TWO = np.sqrt(2.0)
# Columns up to which LAPACK inverts a triangle itself.
_TRIANGLE = 64


def chunk_length(d: int) -> int:
    """Rows of a chunk for ``d`` columns."""
    return max(128, _CHUNK_BYTES // (8 * max(1, d)))


def inverse_factor(M: np.ndarray, overwrite: bool = False) -> tuple[np.ndarray, float]:
    """Return the lower triangular ``G`` with ``G'G = M^-1``, and ``ln|M|``.

    Only the lower triangle of ``M`` is read; it may be overwritten if that is allowed.

    Raises
    ------
    scipy.linalg.LinAlgError
        If ``M`` is not positive definite.
    """
    L, info = dpotrf(M, lower=1, clean=1, overwrite_a=overwrite)
    if info != 0:
        raise LinAlgError("the moment matrix is not positive definite")
    log_det = 2.0 * float(np.log(L.diagonal()).sum())
    if not np.isfinite(log_det):
        raise LinAlgError("the moment matrix is not positive definite")
    invert_triangle(L)
    return L, log_det


def invert_triangle(L: np.ndarray) -> None:
    """Invert a lower triangular matrix with non-zero diagonal in place, halves first.

    All but the smallest triangles are products of matrices, which LAPACK's own loop is far from.

    Parameters
    ----------
    L : ndarray of shape (n, n), float32 or float64
        The matrix, best in Fortran order; what is above the diagonal is neither read nor written.

    Examples
    --------
    >>> import numpy as np
    >>> from oblong.linalg.log_det import invert_triangle
    >>> L = np.array([[2.0, 0.0], [1.0, 4.0]], order="F")
    >>> invert_triangle(L)
    >>> L.tolist()
    [[0.5, 0.0], [-0.125, 0.25]]
    """
    double = L.dtype == np.float64
    trtri, trmm = (dtrtri, dtrmm) if double else (strtri, strmm)
    _invert(L, trtri, trmm)


def _invert(L, trtri, trmm) -> None:
    n = len(L)
    if n <= _TRIANGLE:
        # LAPACK hands the other triangle back as it was.
        L[...] = trtri(L, lower=1)[0]
        return
    # Blocks that are multiples of a cache line.
    half = -(-n // 64) * 32
    first, second, below = L[:half, :half], L[half:, half:], L[half:, :half]
    _invert(first, trtri, trmm)
    _invert(second, trtri, trmm)
    product = trmm(-1.0, second, below, lower=1)
    below[...] = trmm(1.0, first, product, side=1, lower=1, overwrite_b=1)


def moments(
    X: np.ndarray,
    center: np.ndarray,
    weights: np.ndarray | None = None,
    forward: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Sums ``Σ w_i z_i`` and ``Σ w_i z_i z_i'`` of ``z = (x - center) forward``.

    Without ``forward``, ``z = x - center``.
    """
    n, d = X.shape if forward is None else (len(X), forward.shape[1])
    total, chunk = OrderedSum(np.zeros((d + 1, d))), chunk_length(d)

    def task(start: int, stop: int) -> None:
        part, w = X[start:stop], None if weights is None else weights[start:stop]
        if w is not None:
            used = np.flatnonzero(w)
            if 2 * len(used) < len(w):
                part, w = part[used], w[used]
        part = part - center
        if forward is not None:
            part = part @ forward
        weighted = part if w is None else part * w[:, None]
        # Who asked refuses moments that are not finite.
        with np.errstate(over="ignore", invalid="ignore"):
            total.add(np.vstack([weighted.sum(axis=0), weighted.T @ part]), start // chunk)

    run_chunks(task, n, chunk, available_threads())
    return total.total[0], total.total[1:]


def quadratic_features(Z: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Features ``svec(z z')`` of the columns of ``Z``, whose dot products are ``(z'z̃)²``.

    Parameters
    ----------
    Z : ndarray of shape (p, n)
        Vectors in columns.
    out : ndarray of shape (p (p + 1) / 2, n), optional
        Where to write them.

    Returns
    -------
    ndarray of shape (p (p + 1) / 2, n)
        The products ``z_a z_b`` for ``a <= b``, those with ``a < b`` times the root of two.
    """
    p, n = Z.shape
    if out is None:
        out = np.empty((p * (p + 1) // 2, n))
    first = 0
    scaled = Z * _ROOT_TWO
    for a in range(p):
        last = first + p - a
        np.multiply(Z[a], Z[a], out=out[first])
        np.multiply(scaled[a + 1 :], Z[a], out=out[first + 1 : last])
        first = last
    return out


def symmetric_matrix(features: np.ndarray, p: int) -> np.ndarray:
    """Symmetric matrix whose quadratic features, in the order above, are given."""
    upper = np.zeros((p, p))
    upper[np.triu_indices(p)] = features
    upper /= _ROOT_TWO
    matrix = upper + upper.T
    matrix.flat[:: p + 1] = _ROOT_TWO * upper.diagonal()
    return matrix


def symmetric_features(matrix: np.ndarray) -> np.ndarray:
    """Entries of a symmetric matrix in the order and scale of the quadratic features."""
    scaled = matrix * _ROOT_TWO
    scaled.flat[:: len(matrix) + 1] = matrix.diagonal()
    return scaled[np.triu_indices(len(matrix))]
