"""Columns of a kernel matrix, computed on demand and cached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from oblong._core.threads import chunks, even_share, run_chunks
from oblong.kernels import Kernel, KernelRows
from oblong.linalg.columns import UNIT, Expansion, ExplicitColumns, add_columns, rounding_bound
from oblong.linalg.fused import add_both_products, add_product, in_tiles
from oblong.linalg.prepared_rows import PreparedRows

# Rows and columns of a product in double precision that are prepared at a time.
_IMAGE_ROWS = 1024
_IMAGE_COLUMNS = 4096

# Rows of a block that are computed at a time.
_BLOCK_ROWS = 128

# Columns of a product that are computed at a time, and bytes of a tile of them.
_NEW_COLUMNS = 512
_TILE_BYTES = 1 << 20

# Columns of narrower rows are not kept: to compute an entry again takes about as long as to have
# memory for it, and less for the rbf kernel, whose map and sum are one loop.
_KEPT_WIDTH = 40
_KEPT_WIDTH_RBF = 60

# Below this relative size of the rounding of γ|x-z|² single precision is good enough.
_SINGLE_EXPONENT_ERROR = 1e-5
# Kernel values of this size neither overflow in single precision nor vanish.
_SINGLE_RANGE = (1e-25, 1e30)


def single_precision_suffices(kernel: Kernel, X: PreparedRows) -> bool:
    """Whether the rounding of single precision leaves enough of the kernel."""
    if X.rows.half_norms is not None:
        exponent = float(X.rows.half_norms.max())
        return exponent * float(np.finfo(np.float32).eps) <= _SINGLE_EXPONENT_ERROR
    with np.errstate(over="ignore"):
        try:
            largest = float(np.abs(kernel.diagonal(X.rows)).max())
        except ValueError:
            return False
    return _SINGLE_RANGE[0] < largest < _SINGLE_RANGE[1]


class KernelColumns(ExplicitColumns):
    """Columns of a kernel matrix, computed on demand in blocks and cached.

    The least recently used columns make room when the memory limit is reached. With many dense rows
    products and blocks are computed from the rows directly (``direct``): writing a column to memory
    pays only if it is used several times, the more often the shorter the rows are.

    Parameters
    ----------
    kernel : Kernel
        The kernel function.
    X : array, CSR matrix or PreparedRows of shape (n, d)
        The rows; or what several problems share of them, in single precision.
    cache_bytes : float, default=2**30
        Memory limit of the cache; two columns are always kept.
    dtype : dtype, default=None
        Precision of the cached columns. By default single precision for more than
        ``single_above`` rows when the rounding of the kernel's argument allows it.
    single_above : int, default=2048
        Number of rows above which single precision is the default.
    direct_above : int, default=3000
        Number of rows above which columns are kept only where that pays.
    threads : int, default=1
        Threads for blocks and products.
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        *,
        cache_bytes: float = 2.0**30,
        dtype: np.dtype | type | None = None,
        single_above: int = 2048,
        direct_above: int = 3000,
        threads: int = 1,
    ) -> None:
        self.kernel = kernel
        self.n = X.shape[0]
        self.threads = threads
        self._cache_bytes = cache_bytes
        self._promoted: KernelColumns | None = None
        if isinstance(X, PreparedRows):
            self._X, dtype = X, dtype or np.float32
        else:
            if dtype is None:
                large = self.n > single_above and not callable(kernel.name)
                dtype = np.float32 if large else np.float64
            self._X = PreparedRows.of(kernel, X, dtype)
        if np.dtype(dtype) == np.float32 and not single_precision_suffices(kernel, self._X):
            dtype = np.float64
            self._X = PreparedRows.of(kernel, self._X.given, dtype)
        self._rows = self._X.rows
        self.exact = np.dtype(dtype) == np.float64
        self.definite = kernel.always_positive_semidefinite
        # Before any work: no value of a kernel with a formula exceeds those of its diagonal.
        self._diagonal = self._X.diagonal
        if self._diagonal is None and not callable(kernel.name):
            self._diagonal = kernel.diagonal(self._rows)[self._X.at]
        column_bytes = self.n * np.dtype(dtype).itemsize
        capacity = int(min(self.n, max(2, cache_bytes // column_bytes)))
        # The operating system backs these pages only as columns are written.
        self._memory = self._X.memory(capacity * self.n, dtype)
        self.capacity = min(capacity, self._memory.size // self.n)
        self.store = self._memory[: self.capacity * self.n].reshape(self.capacity, self.n)
        self._slot_of = np.full(self.n, -1, dtype=np.intp)
        self._direct_above = direct_above
        self.direct = self.n > direct_above and in_tiles(kernel, self._rows)
        width = _KEPT_WIDTH_RBF if kernel.name == "rbf" else _KEPT_WIDTH
        self._keeps = self._X.shape[1] >= width
        self.fleeting = self.direct and self.definite and not self._keeps
        # Which columns were used before, and which of these are to be kept; which ones were
        # missing when a block was asked for.
        self._uses = np.zeros(self.n if self.direct else 0, dtype=np.int8)
        self._missed = np.empty(0, dtype=np.intp)
        self._owner = np.full(self.capacity, -1, dtype=np.intp)
        self._last_use = np.zeros(self.capacity, dtype=np.int64)
        self._clock = 0
        self._filled = 0
        # The last product of support vectors among themselves, and the size of what it was summed
        # from.
        self._own = (np.empty(0, dtype=np.intp), np.empty(0), np.empty(0), 0.0)

    def release(self) -> None:
        """Leave the memory of the columns to the next problem that shares rows with this one."""
        self._X.spare.append(self._memory)

    def fetch(self, indices: np.ndarray) -> np.ndarray:
        """Slots of the columns ``indices``, computing those that are missing."""
        self._clock += 1
        slots = self._slot_of[indices]
        self._last_use[slots[slots >= 0]] = self._clock
        missing = indices[slots < 0]
        if missing.size:
            free = self._make_room(missing.size)
            self._compute(missing, free)
            self._place(missing, free)
            slots = self._slot_of[indices]
        return slots

    def _place(self, columns: np.ndarray, slots: np.ndarray) -> None:
        self._slot_of[columns] = slots
        self._owner[slots] = columns
        self._last_use[slots] = self._clock

    def _make_room(self, count: int) -> np.ndarray:
        fresh = np.arange(self._filled, min(self.capacity, self._filled + count))
        self._filled += fresh.size
        short = count - fresh.size
        if short == 0:
            return fresh
        # Columns of the present request carry the present clock and so go last.
        evicted = np.argpartition(self._last_use[: fresh[0] if fresh.size else None], short - 1)
        evicted = evicted[:short]
        self._slot_of[self._owner[evicted]] = -1
        return np.concatenate([fresh, evicted])

    def _compute(self, columns: np.ndarray, slots: np.ndarray) -> None:
        # Groups bound the scratch memory of a block, which a sparse product needs whole.
        for start, stop in chunks(columns.size, _NEW_COLUMNS):
            group = slots[start:stop]
            contiguous = group[-1] - group[0] == group.size - 1 and (np.diff(group) == 1).all()
            out = self.store[group[0] : group[-1] + 1] if contiguous else None
            if out is None:
                out = np.empty((group.size, self.n), dtype=self.store.dtype)
            some = self._X.take(columns[start:stop])
            for part, place in self._X.placed:
                self.kernel.block(some, part, out, self.threads, place.start)
            if not contiguous:
                self.store[group] = out

    def slots(self, indices: np.ndarray) -> np.ndarray:
        """Slots of the columns, -1 for those that are not there and need not be."""
        if not self.direct:
            return self.fetch(indices)
        if self._keeps:
            missing = indices[self._slot_of[indices] < 0]
            # If nearly all that were missing here before have been kept since, the columns are
            # computed right away: that saves computing this part of them as well.
            lost = np.count_nonzero(self._uses[self._missed] < 2)
            if lost * self.n < self._missed.size * indices.size:
                self.fetch(missing[: self.capacity - self._filled])
            self._missed = missing
        return self._slot_of[indices]

    def write_rows(
        self, rows: np.ndarray, others: np.ndarray, into: np.ndarray, out: np.ndarray
    ) -> None:
        """Compute ``K[rows, others]`` and write it to the rows ``into`` of ``out``, ascending."""
        left = self._rows.left[self._X.at[rows]]
        right = np.asfortranarray(self._rows.right[self._X.at[others]]).T

        def write(start: int, stop: int) -> None:
            for first, last in chunks(stop - start, _BLOCK_ROWS):
                some = slice(start + first, start + last)
                place = into[some]
                if place[-1] - place[0] == last - first - 1:
                    tile = out[place[0] : place[-1] + 1]
                    np.matmul(left[some], right, out=tile[:, : others.size])
                    self.kernel.map_columns(tile, 0, others.size)
                    continue
                tile = left[some] @ right
                self.kernel.map_columns(tile, 0, others.size)
                out[place, : others.size] = tile

        share = even_share(rows.size, others.size, self.threads)
        run_chunks(write, rows.size, share, self.threads)

    def add(
        self, image: np.ndarray, indices: np.ndarray, coef: np.ndarray, again: np.ndarray | None
    ) -> None:
        """Add ``K[:, indices] @ coef`` to ``image``.

        ``again`` says of which columns to expect that they are asked for again; None of none.
        """
        if self.direct:
            missing = self._slot_of[indices] < 0
            if again is not None and self._keeps:
                self._uses[indices] = 1 + (again | (self._uses[indices] > 0))
                pays = missing & (self._uses[indices] > 1)
                # Those to be kept come first.
                new = np.concatenate([np.flatnonzero(pays), np.flatnonzero(missing & ~pays)])
                kept = min(int(np.count_nonzero(pays)), self.capacity - self._filled)
                self._add_new(image, indices[new], coef[new], kept)
            else:
                some = self._X.take(indices[missing])
                for part, place in self._X.placed:
                    add_product(self.kernel, part, some, coef[missing], image[place], self.threads)
            indices, coef = indices[~missing], coef[~missing]
        for first, last in chunks(indices.size, self.capacity):
            add_columns(image, self, self.fetch(indices[first:last]), coef[first:last])

    def add_to(
        self, image: np.ndarray, rows: np.ndarray, indices: np.ndarray, coef: np.ndarray
    ) -> None:
        """Add ``K[rows, indices] @ coef`` to ``image`` on some rows."""
        # One side of each: copying takes its time, too.
        left = self._rows.left[self._X.at[rows]]
        right = self._rows.right[self._X.at[indices]]
        product = np.zeros(rows.size)
        sides = KernelRows(left, left), KernelRows(right, right)
        add_product(self.kernel, *sides, coef, product, self.threads)
        image[rows] += product

    def _add_new(self, image: np.ndarray, indices: np.ndarray, coef: np.ndarray, kept: int) -> None:
        """Add columns that are not there to ``image``, and keep the first ``kept`` of them.

        Both while a tile is in cache, and with one look at the rows: there are few columns, so that
        reading the rows takes as long as multiplying them.
        """
        coef = coef.astype(self.store.dtype)
        for first, last in chunks(indices.size, _NEW_COLUMNS):
            left, own = self._rows.left[self._X.at[indices[first:last]]], coef[first:last]
            keep = max(0, min(kept, last) - first)
            store = self.store[self._filled : self._filled + keep]
            for part, place in self._X.placed:

                def fill(
                    start: int, stop: int, right: Any = part.right, begin: int = place.start,
                    left: Any = left, own: Any = own, store: Any = store,
                ) -> None:  # fmt: skip
                    tile = left @ right[start:stop].T
                    self.kernel.map_columns(tile, 0, stop - start)
                    where = slice(begin + start, begin + stop)
                    image[where] += own @ tile
                    store[:, where] = tile[: len(store)]

                width = max(64, _TILE_BYTES // (own.size * left.itemsize))
                run_chunks(fill, part.n, width, self.threads)
            self._place(indices[first : first + keep], self._make_room(keep))

    def image(self, rows: np.ndarray, columns: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Product ``K[rows, columns] @ coef`` in double precision."""
        result = np.zeros(rows.size)
        if rows.size == 0:
            return result
        # Both sides in parts: copies of all rows in double precision would be large.
        for first, last in chunks(columns.size, _IMAGE_COLUMNS):
            right = self._doubled(columns[first:last])

            def fill(
                start: int, stop: int, right: Any = right, part: Any = coef[first:last]
            ) -> None:
                left = self._doubled(rows[start:stop])
                add_product(self.kernel, left, right, part, result[start:stop])

            run_chunks(fill, rows.size, _IMAGE_ROWS, self.threads)
        return result

    def own_image(self, rows: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Product ``K[rows, rows] @ coef`` in double precision, from half of the block.

        Where few coefficients have changed since the last one, from their columns.
        """
        known_rows, known, result, weight = self._own
        sizes = np.ones(self.n) if self._diagonal is None else np.sqrt(np.abs(self._diagonal))
        total = float(np.abs(coef) @ sizes[rows])
        known_coef = np.zeros(self.n)
        known_coef[known_rows] = known
        change = -known_coef
        change[rows] += coef
        moved = np.flatnonzero(change)
        new = np.setdiff1d(rows, known_rows, assume_unique=True)
        weight += float(np.abs(change) @ sizes)
        # As many entries as half of the block has; or the rounding of coefficients that are gone.
        if 2 * (moved.size + new.size) >= rows.size or not weight <= 2.0 * total:
            result, weight = self._own_image(rows, coef), total
        elif moved.size:
            image = np.zeros(self.n)
            image[known_rows] = result
            old = np.setdiff1d(rows, new, assume_unique=True)
            image[old] += self.image(old, moved, change[moved])
            image[new] = self.image(new, rows, coef)
            result = image[rows]
        self._own = rows, coef.copy(), result, weight
        return result

    def _own_image(self, rows: np.ndarray, coef: np.ndarray) -> np.ndarray:
        if not in_tiles(self.kernel, self._rows):
            return self.image(rows, rows, coef)
        result = np.zeros(rows.size)
        parts = [slice(*ends) for ends in chunks(rows.size, _IMAGE_COLUMNS)]
        for k, some in enumerate(parts):
            A = self._doubled(rows[some])
            for other in parts[k:]:
                B = A if other is some else self._doubled(rows[other])
                both = (coef[some], coef[other]), (result[some], result[other])
                add_both_products(self.kernel, A, B, *both, self.threads)
        return result

    def _doubled(self, rows: np.ndarray) -> KernelRows:
        part = self.kernel.prepare(self._X[rows], np.float64, self._X.shift)
        return replace(part, coarse=part.coarse or self._rows.coarse)

    def rounding(self, columns: np.ndarray, coef: np.ndarray, dtype: Any = None) -> np.ndarray:
        """Bound, row by row, on the error of ``K[:, columns] @ coef`` from the cache.

        Unknown, and zero here, for a kernel that is a Python function.
        """
        if self._diagonal is None:
            return np.zeros(self.n)
        unit = self.kernel.rounding(self._rows) * float(np.finfo(dtype or self.store.dtype).eps)
        return rounding_bound(self._diagonal, columns, coef, unit)

    def expand(
        self,
        coef: np.ndarray,
        image: np.ndarray,
        matter: Callable[[float], np.ndarray] | None,
    ) -> Expansion:
        """Evaluate a solution in double precision, by the weight vector where there is one."""
        support = np.flatnonzero(coef)
        if self.kernel.name == "linear":
            return self._by_direction(support, coef[support])
        if self.exact:
            fresh = np.zeros(self.n)
            self.add(fresh, support, coef[support], None)
        else:
            fresh = image.copy()
            fresh[support] = self.own_image(support, coef[support])
            seen = float(np.abs(fresh[support] - image[support]).max(initial=0.0))
            rest = np.ones(self.n, dtype=np.bool_)
            rest[support] = False
            others = np.flatnonzero(rest if matter is None else rest & matter(seen))
            fresh[others] = self.image(others, support, coef[support])
        return Expansion.of(coef, fresh, self.rounding(support, coef[support], np.float64))

    def direction(self, support: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Weight vector of the linear kernel: ``Σ c_i (x_i - shift)``, as ``Σc = 0``."""
        total = np.zeros(self._X.shape[1])
        for first, last in chunks(support.size, _IMAGE_ROWS):
            total += coef[first:last] @ self._doubled(support[first:last]).left
        return total

    def _by_direction(self, support: np.ndarray, coef: np.ndarray) -> Expansion:
        # Only a kernel that is a Python function comes without its diagonal.
        assert self._diagonal is not None
        w = self.direction(support, coef)
        image = np.empty(self.n)
        for first, last in chunks(self.n, _IMAGE_ROWS):
            image[first:last] = self._doubled(np.arange(first, last)).left @ w
        sizes = np.sqrt(self._diagonal)
        length = float(np.linalg.norm(w))
        # The bias of the rows as they are is rounded to the size of w·shift.
        shift = self._X.shift
        far = 0.0 if shift is None else float(np.abs(w) @ np.abs(shift))
        # The vector itself is off from that of the exact coefficients by this much.
        doubt = UNIT * float(np.abs(coef) @ sizes[support])
        return Expansion(
            image, UNIT * (sizes * length + far), length**2, doubt * (2.0 * length + doubt), w
        )

    def offset(self, coef: np.ndarray, direction: np.ndarray | None = None) -> float:
        """What the outputs lack by the shift of the rows: ``w·shift`` for the linear kernel."""
        if self._X.shift is None or self.kernel.name != "linear":
            return 0.0
        if direction is None:
            support = np.flatnonzero(coef)
            direction = self.direction(support, coef[support])
        return float(direction @ self._X.shift)

    def promoted(self) -> KernelColumns:
        """Columns in double precision, which from now on are also the :attr:`latest`."""
        if self.exact:
            return self
        if self._promoted is None:
            self._promoted = self._like(self._X.given, np.float64)
        return self._promoted

    @property
    def latest(self) -> KernelColumns:
        """The promoted columns where there are some, else these."""
        return self if self._promoted is None else self._promoted

    def restricted(self, rows: np.ndarray) -> KernelColumns:
        """Columns of the principal block of some rows."""
        return self._like(self._X.copied(rows), self.store.dtype)

    def _like(self, X: Any, dtype: np.dtype | type) -> KernelColumns:
        return KernelColumns(
            self.kernel,
            X,
            cache_bytes=self._cache_bytes,
            dtype=dtype,
            direct_above=self._direct_above,
            threads=self.threads,
        )
