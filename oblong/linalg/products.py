"""Products of a kernel matrix with vectors, without the matrix.

A tile of the matrix is computed, used and overwritten while it is in second-level cache: writing a
column to memory costs more than computing it again, unless it is used several times.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from oblong._core.threads import chunks, even_share, run_chunks
from oblong._native import linalg
from oblong.kernels import Kernel, KernelRows

# Bytes of a tile and its columns; sums over these are in its precision, sums of tiles in double.
_TILE = 1 << 19
_COLUMNS = 512
# Where rows of a tile are multiples of this many bytes, many of them share a line of the cache.
_ALIKE = 2048
# Multiplications up to which OpenBLAS copies nothing before it computes a product, which is faster
# if tiles that small are not much smaller than others.
_NOT_PACKED = 10**6
# Rows and columns of a tile that is used in both directions.
_SQUARE = 240
# Rows that chunks of several threads are a multiple of.
_ROWS = 128
# Entries computed at a time where there are no tiles: sparse rows, kernels that are functions.
_BLOCK = 1 << 22
# Entries of the image that stay in first-level cache while rows of a matrix stream past.
_STRIP = 8192


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
        Rows prepared for it. Few rows are multiplied fastest if ``B.right`` is in Fortran order.
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
    coef = coef.astype(dtype, copy=False)
    height, width = _tile_shape(A, B)
    degree = kernel.degree_of_map
    if degree is not None and out.ndim == 1 and A.n > height:
        panels = _panels(B.right, width)

        def tiles(start: int, stop: int) -> None:
            left, sums = np.ascontiguousarray(A.left[start:stop]), np.zeros(stop - start)
            linalg.add_tiles(left, panels, coef, sums, height, width, degree)
            out[start:stop] += sums

    else:
        right = np.asfortranarray(B.right).T

        def tiles(start: int, stop: int) -> None:
            own = np.empty(height * width, dtype=dtype)
            for first, last in chunks(stop - start, height):
                rows = slice(start + first, start + last)
                for left, end in chunks(B.n, width):
                    tile = own[: (last - first) * (end - left)].reshape(last - first, end - left)
                    np.matmul(A.left[rows], right[:, left:end], out=tile)
                    kernel.map_columns(tile, 0, end - left)
                    out[rows] += tile @ coef[left:end]

    run_chunks(tiles, A.n, _share(A.n, threads), threads)


def _tile_shape(A: KernelRows, B: KernelRows) -> tuple[int, int]:
    """Rows and columns of a tile."""
    itemsize = A.left.dtype.itemsize
    entries, few = _TILE // itemsize, _NOT_PACKED // A.left.shape[1]
    if 4 * few >= entries:
        entries = min(few, entries)
    # Tiles of about the same width.
    width = -(-B.n // -(-B.n // _COLUMNS))
    width += -width % 16
    width += 16 * (width * itemsize % _ALIKE == 0)
    height = max(1, entries // width)
    # A single row takes all columns at once.
    return (height, min(B.n, width)) if A.n > height else (A.n, min(B.n, max(1, entries // A.n)))


def _panels(right: np.ndarray, width: int) -> np.ndarray:
    """Some columns of ``right.T`` after the other, each some in one piece of memory."""
    n, d = right.shape
    panels = np.empty(n * d, dtype=right.dtype)
    for first, last in chunks(n, width):
        panels[d * first : d * last].reshape(d, -1)[...] = right[first:last].T
    return panels


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
    length = _SQUARE if threads > 1 else A.n
    across = {start: np.zeros(B.n) for start, _ in chunks(A.n, length)}
    degree = kernel.degree_of_map
    if degree is not None:
        panels = _panels(B.right, _SQUARE)

        def tiles(start: int, stop: int) -> None:
            left = np.ascontiguousarray(A.left[start:stop])
            given, found = (coefs[0][start:stop], coefs[1]), (outs[0][start:stop], across[start])
            place = start if same else -1
            linalg.add_square_tiles(left, panels, *given, *found, _SQUARE, place, degree)

    else:
        right = np.asfortranarray(B.right).T

        def tiles(start: int, stop: int) -> None:
            sums = across[start]
            for first, last in chunks(stop - start, _SQUARE):
                rows = slice(start + first, start + last)
                for left, end in chunks(B.n, _SQUARE):
                    if same and left < rows.start:
                        continue
                    tile = A.left[rows] @ right[:, left:end]
                    kernel.map_columns(tile, 0, end - left)
                    outs[0][rows] += tile @ coefs[1][left:end]
                    if not (same and left == rows.start):
                        sums[left:end] += coefs[0][rows] @ tile

    run_chunks(tiles, A.n, length, threads)
    for sums in across.values():
        outs[1][...] += sums


def _share(rows: int, threads: int) -> int:
    """Rows of a chunk: four chunks per thread, in whole tiles."""
    return rows if threads <= 1 else _ROWS * max(1, round(rows / (4 * threads * _ROWS)))


def add_columns(
    image: np.ndarray, store: np.ndarray, slots: np.ndarray, coef: np.ndarray, threads: int = 1
) -> None:
    """Add ``coef @ store[slots]`` to ``image``, in double precision."""
    if slots.size == 0:
        return

    def strips(start: int, stop: int) -> None:
        for first, last in chunks(stop - start, _STRIP):
            linalg.add_rows(image, store, slots, coef, start + first, start + last)

    share = even_share(image.size, slots.size, threads)
    run_chunks(strips, image.size, share, threads, blas=False)


def copy_block(
    store: np.ndarray,
    slots: np.ndarray,
    cols: np.ndarray,
    into: np.ndarray,
    out: np.ndarray,
    threads: int = 1,
) -> None:
    """Write ``store[slots][:, cols]`` to the rows ``into`` of ``out``."""
    cols = np.ascontiguousarray(cols)

    def copy(start: int, stop: int) -> None:
        linalg.copy_block(store, slots[start:stop], cols, into[start:stop], out)

    share = even_share(slots.size, cols.size, threads)
    run_chunks(copy, slots.size, share, threads, blas=False)


def mirror(block: np.ndarray, new: np.ndarray) -> None:
    """Write the columns that are new to a symmetric block, from its rows that are new.

    Parameters
    ----------
    block : ndarray of shape (q, q or more)
        The block, in its first columns.
    new : ndarray of bool of shape (q,)
        Which of its rows are new.
    """
    linalg.mirror(block, np.flatnonzero(new), new)
