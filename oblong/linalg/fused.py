"""Products of a kernel matrix with vectors, without the matrix.

A tile of the matrix is computed, used and overwritten while it is in second-level cache: writing a
column to memory costs more than computing it again, unless it is used several times.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from oblong._core.exp2 import add_powers, add_powers_both_ways
from oblong._core.threads import chunks, run_chunks
from oblong.kernels import Kernel, KernelRows

# Bytes of a tile and its columns; sums over these are in its precision, sums of tiles in double.
_TILE = 1 << 19
_COLUMNS = 512
# Multiplications up to which OpenBLAS copies nothing before it computes a product, which is faster
# if tiles that small are not much smaller than others.
_NOT_PACKED = 10**6
# Rows and columns of a tile that is used in both directions.
_SQUARE = 256
# Rows that chunks of several threads are a multiple of.
_ROWS = 128
# Entries computed at a time where there are no tiles: sparse rows, kernels that are functions.
_BLOCK = 1 << 22


def in_tiles(kernel: Kernel, *parts: KernelRows) -> bool:
    """Whether the matrix of these rows is a product and a map."""
    return not callable(kernel.name) and not any(
        sp.issparse(part.left) or part.coarse for part in parts
    )


def add_product(
    kernel: Kernel,
    A: KernelRows,
    B: KernelRows,
    coef: np.ndarray,
    out: np.ndarray,
    threads: int = 1,
) -> None:
    """Add ``k(A, B) @ coef`` to ``out``.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    A, B : KernelRows
        Rows prepared for it. One product is fastest if ``B.right`` is in Fortran order.
    coef : ndarray of shape (B.n,) or (B.n, k)
        Coefficients.
    out : ndarray of shape (A.n,) or (A.n, k)
        In double precision.
    threads : int, default=1
        Threads over the rows.
    """
    if A.n == 0 or B.n == 0:
        return
    if not in_tiles(kernel, A, B):

        def whole(start: int, stop: int) -> None:
            for first, last in chunks(stop - start, max(1, _BLOCK // B.n)):
                some = slice(start + first, start + last)
                out[some] += kernel.block(A.take(some), B) @ coef

        # A kernel that is a Python function may not expect several threads.
        run_chunks(whole, A.n, _share(A.n, threads), 1 if callable(kernel.name) else threads)
        return
    dtype = A.left.dtype
    right = np.asfortranarray(B.right).T
    coef = coef.astype(dtype, copy=False)

    def tiles(start: int, stop: int) -> None:
        entries, few = _TILE // dtype.itemsize, _NOT_PACKED // A.left.shape[1]
        if 4 * few >= entries:
            entries = min(few, entries)
        height = min(entries // min(B.n, _COLUMNS), stop - start)
        # A single row takes all columns at once.
        width = min(B.n, entries // height)
        memory = np.empty(height * width, dtype=dtype)
        for first, last in chunks(stop - start, height):
            rows = slice(start + first, start + last)
            for left, end in chunks(B.n, width):
                tile = memory[: (last - first) * (end - left)].reshape(last - first, end - left)
                np.matmul(A.left[rows], right[:, left:end], out=tile)
                if kernel.name == "rbf" and out.ndim == 1:
                    add_powers(tile, coef[left:end], out[rows])
                else:
                    kernel.map_columns(tile, 0, end - left)
                    out[rows] += tile @ coef[left:end]

    run_chunks(tiles, A.n, _share(A.n, threads), threads)


def add_both_products(
    kernel: Kernel,
    A: KernelRows,
    B: KernelRows,
    coefs: tuple[np.ndarray, np.ndarray],
    outs: tuple[np.ndarray, np.ndarray],
    threads: int = 1,
) -> None:
    """Add ``k(A, B) @ coefs[1]`` to ``outs[0]`` and ``k(B, A) @ coefs[0]`` to ``outs[1]``.

    In double precision.
    If ``A`` is ``B``, add ``k(A, A) @ coefs[0]`` to ``outs[0]`` alone, from half of the matrix.
    """
    same = A is B
    right = np.asfortranarray(B.right).T
    across: dict[int, np.ndarray] = {}

    def tiles(start: int, stop: int) -> None:
        tile = np.empty((_SQUARE, _SQUARE), dtype=A.left.dtype)
        sums = across[start] = np.zeros(B.n)
        for first, last in chunks(stop - start, _SQUARE):
            rows = slice(start + first, start + last)
            for left, end in chunks(B.n, _SQUARE):
                if same and left < rows.start:
                    continue
                some = tile.reshape(-1)[: (last - first) * (end - left)].reshape(-1, end - left)
                np.matmul(A.left[rows], right[:, left:end], out=some)
                once = same and left == rows.start
                if kernel.name == "rbf":
                    down = np.zeros(last - first) if once else coefs[0][rows]
                    out = outs[0][rows]
                    add_powers_both_ways(some, down, coefs[1][left:end], out, sums[left:end])
                    continue
                kernel.map_columns(some, 0, end - left)
                outs[0][rows] += some @ coefs[1][left:end]
                if not once:
                    sums[left:end] += coefs[0][rows] @ some

    run_chunks(tiles, A.n, _SQUARE if threads > 1 else A.n, threads)
    for _, sums in sorted(across.items()):
        outs[1][...] += sums


def _share(rows: int, threads: int) -> int:
    """Rows of a chunk: four chunks per thread, in whole tiles."""
    return rows if threads <= 1 else _ROWS * max(1, round(rows / (4 * threads * _ROWS)))
