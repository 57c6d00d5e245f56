"""A kernel matrix by few of its columns: the partial Cholesky factor with pivots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from oblong._core.threads import available_threads, own_threads_only, run_chunks

# Columns computed at a time: enough for matrix products, few enough for good pivots.
_BLOCK = 64
# Columns of such a block that are reduced at a time.
_COLUMNS = 1024
# Rows up to which the whole matrix is factored at once.
_WHOLE = 1024
# A pivot has to have this fraction of the largest residual at the start of its block.
_ACCEPTED_SHARE = 0.5


@dataclass(frozen=True)
class LowRank:
    """The approximation ``K ≈ F F'``, exact in the columns of the pivots.

    Attributes
    ----------
    features : ndarray of shape (n, r)
        The rows of ``F``.
    pivots : ndarray of shape (r,)
        Rows whose columns of ``K`` were used.
    factor : ndarray of shape (r, r)
        Their features, a lower triangular matrix ``T``. A new row ``x`` has the features
        ``T^-1 k(pivots, x)``.
    residual : float
        Trace of ``K - F F'`` over the trace of ``K``.
    """

    features: np.ndarray
    pivots: np.ndarray
    factor: np.ndarray
    residual: float

    def coefficients(self, direction: np.ndarray) -> np.ndarray:
        """Coefficients of the pivots' kernel functions that make ``direction · features``."""
        return solve_triangular(self.factor, direction, lower=True, trans="T")


@own_threads_only()
def pivoted_cholesky(
    columns: Callable[[np.ndarray], np.ndarray],
    diagonal: np.ndarray,
    rank: int,
    *,
    tolerance: float = 1e-12,
) -> LowRank:
    """Factor a positive semidefinite matrix partially, largest residual first.

    Parameters
    ----------
    columns : callable
        ``columns(indices)`` is the block ``K[indices, :]`` of shape (len(indices), n).
    diagonal : ndarray of shape (n,)
        Diagonal of ``K``.
    rank : int
        Largest number of columns to use.
    tolerance : float, default=1e-12
        Stop when no diagonal entry of the residual exceeds this fraction of the largest one of
        ``K``; further pivots would be round-off.

    Returns
    -------
    LowRank
        The factor.

    Notes
    -----
    Candidates come in blocks with the largest residuals, so that the work is matrix products;
    inside a block, pivots that the earlier ones have made redundant are passed over.
    """
    n = len(diagonal)
    rank = min(rank, n)
    residual = np.array(diagonal, dtype=np.float64)
    _reject_infinite(residual)
    total, scale = residual.sum(), residual.max()
    if n <= _WHOLE and scale > 0.0:
        matrix = columns(np.arange(n))
        _reject_infinite(matrix)
        L, order, found, _ = dpstrf(matrix, tol=tolerance * scale, lower=True)
        found = min(found, rank)
        pivots, factor = order[:found] - 1, np.tril(L[:found, :found])
        features = np.empty((n, found), dtype=matrix.dtype)
        features[order - 1] = np.tril(L)[:, :found]
        rest = residual - np.einsum("ij,ij->i", features, features)
        return LowRank(features, pivots, factor, float(np.maximum(rest, 0.0).sum() / total))
    rows: np.ndarray | None = None
    pivots = np.empty(rank, dtype=np.intp)
    done = 0
    while done < rank and residual.max() > tolerance * scale:
        size = min(_BLOCK, rank - done)
        candidates = np.argpartition(-residual, size - 1)[:size]
        candidates = candidates[np.argsort(-residual[candidates], kind="stable")]
        block = columns(candidates)
        _reject_infinite(block)
        if rows is None:
            # The transposed factor: a product with all of it runs along memory.
            rows = np.empty((rank, n), dtype=block.dtype)
        if done:
            block = _reduced(block, rows[:done], candidates)
        small = block[:, candidates].astype(np.float64)
        least = max(_ACCEPTED_SHARE * residual.max(), tolerance * scale)
        if not small.diagonal().max() >= least:
            # The residual's diagonal was round-off already.
            break
        corner, order, found, _ = dpstrf(small, tol=least, lower=True)
        chosen = order[:found] - 1
        stop = done + chosen.size
        corner = corner[:found, :found].astype(block.dtype)
        rows[done:stop] = solve_triangular(corner, block[chosen], lower=True, check_finite=False)
        pivots[done:stop] = candidates[chosen]
        residual -= np.einsum("ij,ij->j", rows[done:stop], rows[done:stop])
        np.maximum(residual, 0.0, out=residual)
        residual[pivots[:stop]] = 0.0
        done = stop
    if rows is None or done == 0:
        if not np.any(diagonal):
            raise ValueError(
                "all rows are the same in the feature space: the kernel matrix is zero"
            )
        raise ValueError("the kernel matrix is not positive semidefinite")
    features = rows[:done].T
    pivots = pivots[:done]
    factor = np.tril(features[pivots].astype(np.float64))
    # What a pivot has beyond its own column is rounding, and zeros save solvers work.
    features[pivots] = factor
    return LowRank(features, pivots, factor, float(residual.sum() / total))


def _reduced(block: np.ndarray, rows: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """What the rows so far leave of some new ones."""
    result, known = np.empty_like(block), np.ascontiguousarray(rows[:, candidates].T)

    def task(start: int, stop: int) -> None:
        np.subtract(block[:, start:stop], known @ rows[:, start:stop], out=result[:, start:stop])

    run_chunks(task, block.shape[1], _COLUMNS, available_threads())
    return result


def _reject_infinite(values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        raise ValueError("the kernel matrix has values that are not finite: scale the data")
