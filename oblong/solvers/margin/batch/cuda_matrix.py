"""A kernel matrix on a CUDA device: whole, or the columns that were asked for last."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import config, cuda

from oblong._core.threads import chunks
from oblong.solvers.margin.batch.cuda_kernels import TILE, kernel_values
from oblong.solvers.margin.batch.problem import GramTiles, RowTiles

__all__ = ["DeviceArrays", "DeviceMatrix", "launch"]

# Rounding of an exponent, and sizes of kernel values, that single precision can do.
_SINGLE_EXPONENT_ERROR = 1e-5
_SINGLE_RANGE = (1e-25, 1e30)
# Rounding of an exponent in double precision beyond which only differences of rows have digits.
_COARSE = 1e-9
_KINDS = {"rbf": 0, "poly": 1, "sigmoid": 2}
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
    if not config.ENABLE_CUDASIM:
        args = tuple(
            cuda.as_cuda_array(arg, sync=False)
            if type(arg).__module__.partition(".")[0] in ("torch", "cupy")
            else arg
            for arg in args
        )
    kernel[grid, threads, stream](*args)


class DeviceMatrix:
    """Columns of the kernel matrix of a batch.

    ``store[lines[r]]`` is column ``r``. If the whole matrix does not fit into the memory given,
    columns make room for each other: :meth:`fetch` computes what is missing.

    Parameters
    ----------
    tiles : RowTiles or GramTiles
        The matrix, of rows or values on the device.
    memory : float
        Bytes that the columns may take.
    double : bool
        Whether to use double precision; single precision is used where its rounding allows it.
    """

    def __init__(self, tiles: RowTiles | GramTiles, memory: float, double: bool = False) -> None:
        self.tiles = tiles
        self.n = tiles.n
        given = tiles.K if isinstance(tiles, GramTiles) else tiles.X
        self.arrays = arrays = self.arrays_of(tiles)
        self.stream = arrays.stream()
        self.shift: Any = None
        self.half_norm = 0.0
        if isinstance(tiles, GramTiles):
            self.dtype = np.dtype(str(given.dtype).rpartition(".")[2])
            self.store = given
            self.diagonal = np.array(arrays.get(given.diagonal()), dtype=np.float64)
            capacity = self.n
        else:
            kernel = tiles.kernel
            if kernel.shift_invariant:
                self.shift = arrays.cast(given, np.float64).mean(axis=0)
            norms = np.concatenate(
                [
                    arrays.get((part * part).sum(axis=1))
                    for part in (self._rows(slice(*ends)) for ends in chunks(self.n, 1 << 16))
                ]
            )
            if kernel.name == "rbf":
                self.half_norm = 0.5 * float(norms.max())
                self.diagonal = np.ones(self.n)
                single = self.half_norm * float(np.finfo(np.float32).eps) <= _SINGLE_EXPONENT_ERROR
            else:
                with np.errstate(over="ignore"):
                    self.diagonal = self._diagonal(norms)
                kernel.check_finite(self.diagonal[:, None], "k(x, x) of")
                single = _SINGLE_RANGE[0] < np.abs(self.diagonal).max() < _SINGLE_RANGE[1]
            self.dtype = np.dtype(np.float64 if double or not single else np.float32)
            self.wide = self._rows(slice(None), self.dtype)
            self.norms = arrays.put((0.5 * norms).astype(self.dtype))
            column = self.n * self.dtype.itemsize
            capacity = int(min(self.n, max(2, memory // column)))
            self.store = arrays.empty((capacity, self.n), self.dtype)
        self.capacity = capacity
        self.whole = capacity == self.n
        self.exact = self.dtype == np.float64 or isinstance(tiles, GramTiles)
        self.own = cuda.to_device(self.diagonal.astype(np.float32))
        self._lines = np.arange(self.n, dtype=np.int32) if self.whole else np.full(self.n, -1, "i4")
        self.lines = cuda.to_device(self._lines)
        if not self.whole:
            self._owner = np.full(capacity, -1)
            self._last_use = np.zeros(capacity, dtype=np.int64)
            self._clock = 0
        elif not isinstance(tiles, GramTiles):
            for first, last in chunks(self.n, 8192):
                self._fill(slice(first, last), slice(first, last))

    @staticmethod
    def arrays_of(tiles: RowTiles | GramTiles) -> DeviceArrays:
        """Return the array library of a matrix."""
        return DeviceArrays(tiles.K if isinstance(tiles, GramTiles) else tiles.X)

    @property
    def coarse(self) -> bool:
        """Whether squared distances by products have no digits left even in double precision."""
        return self.half_norm * float(np.finfo(np.float64).eps) > _COARSE

    def _diagonal(self, norms: np.ndarray) -> np.ndarray:
        kernel = self.tiles.kernel  # type: ignore[union-attr]  # rows only
        if kernel.name == "linear":
            return norms
        values = norms + kernel.coef0
        return np.tanh(values) if kernel.name == "sigmoid" else values**kernel.degree

    def _rows(self, rows: Any, dtype: Any = np.float64) -> Any:
        """Rows shifted and scaled so that products of them are the argument of the kernel."""
        kernel = self.tiles.kernel  # type: ignore[union-attr]  # rows only
        some = self.arrays.cast(self.tiles.X[rows], np.float64)  # type: ignore[union-attr]
        if self.shift is not None:
            some = some - self.shift
        if kernel.name != "linear":
            some = some * float(np.sqrt(kernel.gamma * (2.0 if kernel.name == "rbf" else 1.0)))
        return self.arrays.cast(some, dtype)

    def _values(self, G: Any, left: Any, right: Any) -> None:
        """Apply the kernel's pointwise map to products."""
        kernel = self.tiles.kernel  # type: ignore[union-attr]  # rows only
        if kernel.name == "linear":
            return
        coef0 = np.array([kernel.coef0], dtype=str(G.dtype).rpartition(".")[2])
        threads = min(TILE, 16 if config.ENABLE_CUDASIM else TILE)
        grid = (-(-G.shape[1] // threads), min(G.shape[0], 1 if config.ENABLE_CUDASIM else 4096))
        launch(
            kernel_values, grid, threads, self.stream,
            G, left, right, _KINDS[kernel.name], cuda.to_device(coef0), kernel.degree,
        )  # fmt: skip

    def _fill(self, rows: Any, lines: slice | None) -> Any:
        """Compute columns, into contiguous lines of the store where these are given."""
        left = self.wide[rows]
        if lines is None:
            G = left @ self.wide.T
        else:
            G = self.store[lines]
            self.arrays.module.matmul(left, self.wide.T, out=G)
        self._values(G, self.norms[rows], self.norms)
        return G

    def fetch(self, wanted: np.ndarray) -> None:
        """Make sure that columns are there; at most :attr:`capacity` of them."""
        if self.whole:
            return
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
            self.store[into] = self._fill(part, None)
        self._lines[missing] = room
        self._owner[room] = missing
        self._last_use[room] = self._clock
        self.lines = cuda.to_device(self._lines)

    def images(self, support: np.ndarray, coefs: Any) -> Any:
        """Products ``K[:, support] @ coefs`` in double precision, from the rows themselves.

        Parameters
        ----------
        support : ndarray of shape (k,)
            Rows.
        coefs : array of shape (k, m)
            Their coefficients in several problems, on the device as the result is.
        """
        arrays = self.arrays
        out = arrays.empty((self.n, coefs.shape[1]), np.float64)
        chosen = arrays.put(support)
        if isinstance(self.tiles, RowTiles):
            right = self._rows(chosen)
            right_norms = 0.5 * (right * right).sum(axis=1)
        for first, last in chunks(self.n, max(1, _BLOCK_BYTES // (8 * max(1, support.size)))):
            if isinstance(self.tiles, GramTiles):
                G = arrays.cast(self.store[first:last][:, chosen], np.float64)
            else:
                left = self._rows(slice(first, last))
                G = left @ right.T
                self._values(G, 0.5 * (left * left).sum(axis=1), right_norms)
            out[first:last] = G @ coefs
        return out

    def directions(self, support: np.ndarray, coefs: Any) -> tuple[np.ndarray, Any]:
        """Weight vectors of the linear kernel, of shape (d, m), and the products of the rows."""
        arrays = self.arrays
        w = self._rows(arrays.put(support)).T @ coefs
        out = arrays.empty((self.n, coefs.shape[1]), np.float64)
        for first, last in chunks(self.n, max(1, _BLOCK_BYTES // (8 * w.shape[0]))):
            out[first:last] = self._rows(slice(first, last)) @ w
        return arrays.get(w), out

    def unit(self) -> float:
        """Rounding of a kernel value in double precision, over the geometric mean of diagonals."""
        units = 4.0 + self.half_norm
        if isinstance(self.tiles, RowTiles) and self.tiles.kernel.name == "poly":
            units += self.tiles.kernel.degree
        return units * float(np.finfo(np.float64).eps)
