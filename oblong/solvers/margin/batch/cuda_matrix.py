"""A kernel matrix on a CUDA device: whole, or the columns that were asked for last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numba import cuda

from oblong._core.threads import chunks
from oblong.kernels import Kernel
from oblong.solvers.margin.batch.cuda_kernels import kernel_values
from oblong.solvers.margin.batch.cuda_reduce import SIMULATED, TILE
from oblong.solvers.margin.batch.problem import GramTiles, RowTiles

__all__ = ["DeviceArrays", "DeviceMatrix", "DeviceRows", "launch"]

# Rounding of an exponent, and sizes of kernel values, that single precision can do.
_SINGLE_EXPONENT_ERROR = 1e-5
_SINGLE_RANGE = (1e-25, 1e30)
# Rounding of an exponent in double precision beyond which only differences of rows have digits.
_COARSE = 1e-9
_KINDS = {"rbf": 0, "poly": 1, "sigmoid": 2}
_POINTWISE = {
    "linear": lambda norms, coef0, degree: norms,
    "poly": lambda norms, coef0, degree: (norms + coef0) ** degree,
    "sigmoid": lambda norms, coef0, degree: np.tanh(norms + coef0),
}
# Rows that are prepared at a time.
_ROWS = 1 << 16
# Size of a matrix up to which it is in double precision.
_DOUBLE_BYTES = 1 << 30
# Bytes of a block of kernel values in double precision.
_BLOCK_BYTES = 1 << 31


class DeviceArrays:
    """What CuPy and PyTorch call by different names; NumPy in Numba's simulator.

    Parameters
    ----------
    like : array
        An array of the library, on the device.
    """

    def __init__(self, like: Any) -> None:
        self.name = type(like).__module__.partition(".")[0]
        self.module: Any = __import__(self.name)
        self.where = {"device": like.device} if self.name == "torch" else {}

    def _dtype(self, dtype: Any) -> Any:
        return getattr(self.module, np.dtype(dtype).name) if self.name == "torch" else dtype

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Allocate an array."""
        return self.module.empty(shape, dtype=self._dtype(dtype), **self.where)

    def put(self, values: np.ndarray) -> Any:
        """Copy an array of NumPy to the device."""
        return self.module.asarray(np.ascontiguousarray(values), **self.where)

    def get(self, values: Any) -> np.ndarray:
        """Copy an array to NumPy."""
        if self.name == "torch":
            return values.cpu().numpy()
        return values if self.name == "numpy" else values.get()

    def cast(self, values: Any, dtype: Any) -> Any:
        """Convert to another type of number."""
        if self.name == "torch":
            return values.to(self._dtype(dtype))
        return values.astype(dtype, copy=False)

    def free_bytes(self) -> int:
        """Memory that is left on the device."""
        if self.name == "torch":
            reserved = self.module.cuda.memory_reserved() - self.module.cuda.memory_allocated()
            return self.module.cuda.mem_get_info()[0] + reserved
        if self.name == "numpy":
            return 1 << 30
        pool = self.module.get_default_memory_pool()
        return self.module.cuda.runtime.memGetInfo()[0] + pool.free_bytes()

    def stream(self) -> Any:
        """Return the stream that the library works on, for Numba."""
        if self.name == "numpy":
            return 0
        current = self.module.cuda
        if self.name == "torch":
            address = current.current_stream().cuda_stream
        else:
            address = current.get_current_stream().ptr
        return cuda.external_stream(address) if address else 0


def launch(kernel: Any, grid: Any, threads: int, stream: Any, *args: Any) -> None:
    """Start a kernel; arrays of CuPy and PyTorch are handed over where they are."""
    if not SIMULATED:
        args = tuple(
            cuda.as_cuda_array(arg, sync=False)
            if type(arg).__module__.partition(".")[0] in ("torch", "cupy")
            else arg
            for arg in args
        )
    kernel[grid, threads, stream](*args)


class DeviceRows:
    """Rows on a device, prepared for a kernel's blocks as :class:`oblong.kernels.Kernel` does.

    Parameters
    ----------
    tiles : RowTiles
        The kernel and the rows.
    """

    def __init__(self, tiles: RowTiles) -> None:
        self.kernel, self.X = tiles.kernel, tiles.X
        self.arrays = DeviceArrays(tiles.X)
        self.stream = self.arrays.stream()
        self.shift: Any = None
        if self.kernel.shift_invariant:
            parts = (self.X[first:last] for first, last in chunks(tiles.n, _ROWS))
            sums = [self.arrays.cast(part, np.float64).sum(axis=0) for part in parts]
            self.shift = sum(sums[1:], sums[0]) / tiles.n

    def prepared(self, X: Any, dtype: Any = np.float64) -> Any:
        """Shift and scale rows so that products of them are the argument of the kernel."""
        some = self.arrays.cast(X, np.float64)
        if self.shift is not None:
            some = some - self.shift
        if self.kernel.name != "linear":
            double = 2.0 if self.kernel.name == "rbf" else 1.0
            some = some * float(np.sqrt(self.kernel.gamma * double))
        return self.arrays.cast(some, dtype)

    def apply(self, G: Any, left: Any, right: Any) -> None:
        """Apply the kernel's pointwise map to products, given the half norms of both sides."""
        if self.kernel.name == "linear":
            return
        coef0 = np.array([self.kernel.coef0], dtype=str(G.dtype).rpartition(".")[2])
        threads, most = (4, 1) if SIMULATED else (TILE, 4096)
        launch(
            kernel_values, (-(-G.shape[1] // threads), min(G.shape[0], most)), threads, self.stream,
            G, left, right, _KINDS[str(self.kernel.name)], cuda.to_device(coef0),
            self.kernel.degree,
        )  # fmt: skip

    def block(self, left: Any, right: Any) -> Any:
        """Kernel matrix of prepared rows, in their precision."""
        G = left @ right.T
        self.apply(G, 0.5 * (left * left).sum(axis=1), 0.5 * (right * right).sum(axis=1))
        return G

    def values(self, Z: Any) -> Any:
        """Kernel matrix of other rows with these, in double precision."""
        return self.block(self.prepared(Z), self.prepared(self.X))

    def norms(self) -> np.ndarray:
        """Squared norms of the prepared rows."""
        parts = (self.prepared(self.X[first:last]) for first, last in chunks(len(self.X), _ROWS))
        return np.concatenate([self.arrays.get((part * part).sum(axis=1)) for part in parts])


class DeviceMatrix:
    """Columns of the kernel matrix of a batch.

    ``store[lines[r]]`` is column ``r``. If the whole matrix does not fit into the memory given,
    columns make room for each other: :meth:`fetch` computes what is missing. Columns are in single
    precision where its rounding allows it.

    Parameters
    ----------
    tiles : RowTiles or GramTiles
        The matrix, of rows or values on the device.
    memory_share : float
        Share of the free memory that the columns may take.
    others : sequence of Kernel, default=()
        Further rbf kernels. Their matrices follow, one below the other, and have to fit.
    """

    def __init__(
        self, tiles: RowTiles | GramTiles, memory_share: float, others: Sequence[Kernel] = ()
    ) -> None:
        self.n = tiles.n
        self.rows = DeviceRows(tiles) if isinstance(tiles, RowTiles) else None
        self.stack = [self.rows]
        if isinstance(tiles, RowTiles):
            self.stack += [DeviceRows(replace(tiles, kernel=kernel)) for kernel in others]
        given = tiles.K if isinstance(tiles, GramTiles) else tiles.X
        self.arrays = arrays = DeviceArrays(given)
        self.stream = arrays.stream()
        half_norm, units, capacity = 0.0, 4.0, self.n
        if self.rows is None:
            self.store = given
            self.diagonal = np.array(arrays.get(given.diagonal()), dtype=np.float64)
        else:
            norms, kernel = self.rows.norms(), self.rows.kernel
            single = np.finfo(np.float32)
            if kernel.name == "rbf":
                half_norm = 0.5 * float(norms.max())
                self.diagonal = np.ones(self.n)
                coarse = half_norm * float(single.eps) > _SINGLE_EXPONENT_ERROR
                units += half_norm
            else:
                with np.errstate(over="ignore"):
                    self.diagonal = _POINTWISE[str(kernel.name)](norms, kernel.coef0, kernel.degree)
                largest = float(np.abs(self.diagonal).max())
                coarse = not _SINGLE_RANGE[0] < largest < _SINGLE_RANGE[1]
                units += kernel.degree if kernel.name == "poly" else 0.0
            # Of few rows the last digits cost nothing, and Newton steps can tell small eigenvalues.
            coarse |= 8 * self.n**2 <= _DOUBLE_BYTES
            dtype = np.dtype(np.float64 if coarse else np.float32)
            memory = memory_share * arrays.free_bytes()
            capacity = int(min(self.n, max(2, memory // (self.n * dtype.itemsize))))
            if others and memory < len(self.stack) * self.n**2 * dtype.itemsize:
                raise MemoryError(f"{len(self.stack)} kernel matrices do not fit")
            self.store = arrays.empty((len(self.stack) * capacity, self.n), dtype)
        # Rounding of a kernel value in double precision, over the geometric mean of diagonals.
        self.dtype = np.dtype(str(self.store.dtype).rpartition(".")[2])
        self.unit = units * float(np.finfo(np.float64).eps)
        self.usable = bool(np.isfinite(self.diagonal).all())
        if half_norm * float(np.finfo(np.float64).eps) > _COARSE:
            self.usable = False
        self.capacity = capacity
        self.whole = capacity == self.n
        self.own = cuda.to_device(self.diagonal.astype(np.float32))
        self._lines = np.arange(self.n, dtype=np.int32) if self.whole else np.full(self.n, -1, "i4")
        self.lines = cuda.to_device(self._lines)
        if not self.whole:
            self._owner = np.full(capacity, -1)
            self._last_use = np.zeros(capacity, dtype=np.int64)
            self._clock = 0
        for k, rows in enumerate(self.stack):
            if rows is not None:
                self._fill(rows, norms if k == 0 else rows.norms(), self.matrix(k))

    def matrix(self, k: int) -> Any:
        """Return matrix ``k``, or what there is of the only one."""
        return self.store[k * self.capacity : (k + 1) * self.capacity]

    def _fill(self, rows: DeviceRows, norms: np.ndarray, store: Any) -> None:
        """Prepare the rows, and compute the matrix if it is whole."""
        self.wide = rows.prepared(rows.X, self.dtype)
        self.half_norms = self.arrays.put((0.5 * norms).astype(self.dtype))
        if not self.whole:
            return
        # Half of the matrix, and its mirror image.
        for first, last in chunks(self.n, _ROWS // 16):
            part, rest = slice(first, last), slice(first, None)
            G = self.wide[part] @ self.wide[rest].T
            rows.apply(G, self.half_norms[part], self.half_norms[rest])
            store[part, rest] = G
            if last < self.n:
                store[last:, part] = G[:, last - first :].T

    def fetch(self, wanted: np.ndarray) -> None:
        """Make sure that columns are there; at most :attr:`capacity` of them."""
        assert self.rows is not None  # a matrix that was given is whole
        self._clock += 1
        here = self._lines[wanted]
        self._last_use[here[here >= 0]] = self._clock
        missing = wanted[here < 0]
        if missing.size == 0:
            return
        room = np.argpartition(self._last_use, missing.size - 1)[: missing.size]
        evicted = self._owner[room]
        self._lines[evicted[evicted >= 0]] = -1
        for first, last in chunks(missing.size, max(1, _BLOCK_BYTES // (8 * self.n))):
            part, into = self.arrays.put(missing[first:last]), self.arrays.put(room[first:last])
            G = self.wide[part] @ self.wide.T
            self.rows.apply(G, self.half_norms[part], self.half_norms)
            self.store[into] = G
        self._lines[missing] = room
        self._owner[room] = missing
        self._last_use[room] = self._clock
        self.lines = cuda.to_device(self._lines)

    def images(self, support: np.ndarray, coefs: Any, which: int = 0) -> Any:
        """Products ``K[:, support] @ coefs`` in double precision, from the rows themselves.

        Parameters
        ----------
        support : ndarray of shape (k,)
            Rows.
        coefs : array of shape (k, m)
            Their coefficients in several problems, on the device as the result is.
        which : int, default=0
            Of which matrix.
        """
        arrays, rows = self.arrays, self.stack[which]
        out = arrays.empty((self.n, coefs.shape[1]), np.float64)
        chosen = arrays.put(support)
        right = None if rows is None else rows.prepared(rows.X[chosen])
        for first, last in chunks(self.n, max(1, _BLOCK_BYTES // (8 * max(1, support.size)))):
            if rows is None:
                G = arrays.cast(self.store[first:last][:, chosen], np.float64)
            else:
                G = rows.block(rows.prepared(rows.X[first:last]), right)
            out[first:last] = G @ coefs
        return out

    def directions(self, support: np.ndarray, coefs: Any) -> tuple[np.ndarray, Any]:
        """Weight vectors of the linear kernel, of shape (d, m), and the products of the rows."""
        arrays, rows = self.arrays, self.rows
        assert rows is not None
        w = rows.prepared(rows.X[arrays.put(support)]).T @ coefs
        out = arrays.empty((self.n, coefs.shape[1]), np.float64)
        for first, last in chunks(self.n, _ROWS):
            out[first:last] = rows.prepared(rows.X[first:last]) @ w
        return arrays.get(w), out

    @property
    def shift(self) -> np.ndarray:
        """What was subtracted from the rows of a linear kernel."""
        assert self.rows is not None
        return self.arrays.get(self.rows.shift)
