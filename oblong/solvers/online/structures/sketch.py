"""A covariance whose inverse is a diagonal and a few rows: frequent directions, compensated.

The precision of a class is ``Λ = D + B'B``. An update appends the row ``√τ x`` to ``B``. When there
is no room left, ``B`` is cut to its leading directions, all of whose squared singular values go
down by the largest that is lost, and ``D`` takes up what is missing on the diagonal of ``Λ``, which
is kept exactly. Products with the inverse go through the Cholesky factor of ``I + B D⁻¹ B'``, which
grows by a row with ``B``.

Column 1 of the table is ``1 / D`` and column 2 the diagonal of ``Λ``, per class. A block holds
``B``, one row per feature, and below it the Cholesky factor.
"""

import math
from typing import Any

import numpy as np

from oblong._core.compile import compiled
from oblong.solvers.online.structures.full import inner

# Variances are differences to that of the diagonal alone. Below this fraction of it they have few
# digits left, and no update makes them so small; the next number is what is round-off altogether.
_FLOOR = 1e-12
_ROUND_OFF = 1e-13


@compiled
def sketch_product(columns, values, bias, table, column, block, rank, solved):
    """Compute ``x'S x``, and ``L⁻¹ B D⁻¹ x`` on the way, with the Cholesky factor ``L``."""
    size, width = table.shape[0], solved.size
    for q in range(width):
        solved[q] = 0.0
    v = 0.0
    for p in range(values.size + 1):
        last = p == values.size
        x = bias if last else float(values[p])
        j = 0 if last else columns[p] + 1
        scaled = x * table[j, column]
        v += x * scaled
        row = block[j]
        for q in range(width):
            solved[q] += scaled * row[q]
    least = _ROUND_OFF * v
    for q in range(rank):
        row = block[size + q]
        t = solved[q]
        for o in range(q):
            t -= row[o] * solved[o]
        t /= row[q]
        solved[q] = t
        v -= t * t
    return max(v, least)


@compiled
def sketch_update(
    columns, values, bias, table, total, k, n_outputs, block, rank, solved, back, v, step, tau, t
):
    """``w_k += step S x`` and ``Λ += τ x x'``, as far as the variance stays above its floor.

    Returns the new number of rows of ``B``, and whether the variance is at its floor.
    """
    size, column, exact = table.shape[0], n_outputs + k, 2 * n_outputs + k
    plain = v
    for q in range(rank):
        plain += solved[q] * solved[q]
    limit = max(0.0, 1.0 / (_FLOOR * plain) - 1.0 / v)
    held = tau > limit
    tau = min(tau, limit)
    for q in range(back.size):
        back[q] = solved[q]
    for g in range(rank):
        q = rank - 1 - g
        row = block[size + q]
        back[q] /= row[q]
        for o in range(q):
            back[o] -= row[o] * back[q]
    keeps = total.shape[0] > 0
    for j in range(size):
        change = -step * table[j, column] * inner(block[j], back)
        table[j, k] += change
        if keeps:
            total[j, k] += t * change
    root = math.sqrt(tau)
    for p in range(values.size + 1):
        last = p == values.size
        x = bias if last else float(values[p])
        j = 0 if last else columns[p] + 1
        change = step * table[j, column] * x
        table[j, k] += change
        if keeps:
            total[j, k] += t * change
        if tau > 0.0:
            table[j, exact] += tau * x * x
            block[j, rank] = root * x
    if tau <= 0.0:
        return rank, held
    row = block[size + rank]
    for q in range(rank):
        row[q] = root * solved[q]
    row[rank] = math.sqrt(1.0 + tau * v)
    return rank + 1, held


@compiled
def downdate(L, rank, z):
    """Cholesky factor of ``LL' - zz'``, in place; ``z`` is destroyed.

    What is factored is the identity and more, so that no pivot is below one.
    """
    for q in range(rank):
        pivot = L[q, q]
        new = math.sqrt(max(1.0, pivot * pivot - z[q] * z[q]))
        cosine, sine = new / pivot, z[q] / pivot
        L[q, q] = new
        for o in range(q + 1, rank):
            L[o, q] = (L[o, q] - sine * z[o]) / cosine
            z[o] = cosine * z[o] - sine * L[o, q]


def refactor(block: np.ndarray, variances: np.ndarray, rank: int) -> None:
    """Recompute the Cholesky factor."""
    size = len(variances)
    B = block[:size, :rank]
    gram = np.eye(rank) + B.T @ (variances[:, None] * B)
    block[size:] = 0.0
    block[size : size + rank, :rank] = np.linalg.cholesky(gram)


def shrink(
    block: np.ndarray, inverse: np.ndarray, exact: np.ndarray, keep: int, least: float
) -> int:
    """Cut ``B`` to ``keep`` rows, in place, and return their number.

    Parameters
    ----------
    block : ndarray of shape (n_features + 1 + width, width)
        ``B'``, and below it the Cholesky factor, which is recomputed.
    inverse, exact : ndarray of shape (n_features + 1,)
        ``1 / D``, recomputed, and the diagonal of ``Λ``.
    keep : int
        Rows to keep.
    least : float
        Smallest entry of ``D``, the initial precision.
    """
    size = len(inverse)
    B = block[:size]
    values, vectors = np.linalg.eigh(B.T @ B)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    lost = values[keep] if keep < len(values) else 0.0
    lost = lost if lost > 1e-14 * values[0] else 0.0
    kept = int(np.count_nonzero(values[:keep] > lost + 1e-14 * values[0]))
    factors = np.sqrt(1.0 - lost / values[:kept])
    B[:, :kept] = B @ (vectors[:, :kept] * factors)
    B[:, kept:] = 0.0
    missing = exact - np.einsum("ij,ij->i", B, B)
    inverse[:] = 1.0 / np.maximum(missing, np.maximum(least, _FLOOR * exact))
    refactor(block, inverse, kept)
    return kept


def _solved(block: np.ndarray, rank: int, right: np.ndarray) -> np.ndarray:
    size = len(block) - block.shape[1]
    from scipy.linalg import solve_triangular

    L = block[size : size + rank, :rank]
    return solve_triangular(L, right, lower=True)


def sketch_variances(
    X: Any, bias: float, block: np.ndarray, inverse: np.ndarray, rank: int
) -> np.ndarray:
    """Variances ``x'S x`` of rows."""
    size = len(inverse)
    B = block[:size, :rank] * inverse[:, None]
    squares = X.multiply(X) if hasattr(X, "multiply") else X * X
    v = np.asarray(squares @ inverse[1:]) + bias**2 * inverse[0]
    if rank:
        products = np.asarray(X @ B[1:]) + bias * B[0]
        v = np.maximum(v - np.square(_solved(block, rank, products.T)).sum(axis=0), _ROUND_OFF * v)
    return v


def sketch_diagonal(block: np.ndarray, inverse: np.ndarray, rank: int) -> np.ndarray:
    """Diagonal of ``S``."""
    if not rank:
        return inverse.copy()
    B = block[: len(inverse), :rank] * inverse[:, None]
    return inverse - np.square(_solved(block, rank, B.T)).sum(axis=0)


def sketch_apply(
    block: np.ndarray, inverse: np.ndarray, rank: int, vector: np.ndarray
) -> np.ndarray:
    """Product ``S h``."""
    scaled = inverse * vector
    if not rank:
        return scaled
    from scipy.linalg import solve_triangular

    size = len(inverse)
    L, B = block[size : size + rank, :rank], block[:size, :rank]
    inner = solve_triangular(L, B.T @ scaled, lower=True)
    return scaled - inverse * (B @ solve_triangular(L, inner, lower=True, trans=1))
