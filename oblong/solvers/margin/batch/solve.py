"""Solve a batch of margin problems on the cores."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from oblong._core.progress import ProgressCallback
from oblong._core.threads import run_chunks
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.batch import loops
from oblong.solvers.margin.batch.problem import (
    STATUS,
    BatchResult,
    GramTiles,
    MarginBatch,
    RowTiles,
    rows_of_segments,
)
from oblong.solvers.margin.batch.tiles import prepare
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.problem import relative_margin_pieces, svm_pieces
from oblong.solvers.margin.small import SharedColumns
from oblong.solvers.margin.solver import solve_margin

__all__ = ["BatchSolver", "solve_batch"]

_NO_LIMIT = np.iinfo(np.int64).max
# Fields of the result, in the order of the table.
_VALUES = (
    "bias", "scale", "objective", "dual_objective", "rounding", "violation", "bound", "theta",
    "largest", "n_iter", "status", "source",
)  # fmt: skip


def solve_batch(
    batch: MarginBatch,
    *,
    threads: int = 1,
    cache_bytes: float = 2.0**30,
    progress: ProgressCallback | None = None,
    options: MarginOptions = DEFAULTS,
) -> BatchResult:
    """Solve all problems of a batch, each with its certificate.

    One compiled loop goes through the groups, in single precision with outputs checked in double.
    What pair steps are slow on, or single precision cannot do, goes to
    :func:`~oblong.solvers.margin.solver.solve_margin` from where it is.

    Parameters
    ----------
    batch : MarginBatch
        The problems. Segments of rows that are not a matrix must be equal or disjoint.
    threads : int, default=1
        Threads, which share the groups among them.
    cache_bytes : float, default=2**30
        Memory limit of the kernel columns of one problem that is solved on its own.
    progress : callable, default=None
        Called with the state of problems that are solved on their own.
    options : MarginOptions
        Tuning constants.

    Returns
    -------
    BatchResult
        The solutions.
    """
    given = batch.matrix.K if isinstance(batch.matrix, GramTiles) else batch.matrix.X
    if not isinstance(given, np.ndarray):
        # Imported only here: cores need nothing of CUDA.
        from oblong.solvers.margin.batch.cuda import solve_batch_on_device

        return solve_batch_on_device(batch, cache_bytes=cache_bytes, options=options)
    return BatchSolver(
        batch, threads=threads, cache_bytes=cache_bytes, progress=progress, options=options
    ).solve(batch.tol)


class BatchSolver:
    """A batch that is solved in stages, each to a smaller tolerance; for rows on cores.

    The parameters are those of :func:`solve_batch`.
    """

    def __init__(
        self,
        batch: MarginBatch,
        *,
        threads: int = 1,
        cache_bytes: float = 2.0**30,
        progress: ProgressCallback | None = None,
        options: MarginOptions = DEFAULTS,
    ) -> None:
        self.batch, self.options, self.threads = batch, options, threads
        self.cache_bytes, self.progress = cache_bytes, progress
        self.promise = options.promise(batch.tol) if batch.polish else np.inf
        self.prepared = prepare(batch.matrix, options.matrix_rows)
        self.kept: tuple[np.ndarray, ...] | None = None
        self.solved = False
        m, n_groups, segments = batch.n_problems, batch.n_groups, batch.segments
        lengths = segments[:, :, 1] - segments[:, :, 0]
        begins = np.cumsum(lengths, axis=1) - lengths
        unique, names = np.unique(segments.reshape(-1, 2), axis=0, return_inverse=True)
        matrix = batch.matrix
        # Blocks that groups share are worth keeping where there is no matrix.
        gram = self.prepared is not None and not self.prepared[1].rows.size
        own = np.diff(unique, axis=1)[:, 0] ** 2 * (not gram)
        places = (np.cumsum(own) - own)[names].reshape(lengths.shape)
        self.own_size = int(own.sum())
        ends = np.concatenate([[0], np.cumsum(lengths.sum(axis=1))])
        index = rows_of_segments(segments.reshape(-1, 2))
        self.groups = loops.Groups(
            np.dstack([segments, begins, places]).astype(np.int64),
            ends,
            index,
            np.repeat(batch.signs.ravel().astype(np.float64), lengths.ravel()),
            np.asarray(batch.penalties, dtype=np.float64)[index],
        )
        self.Cs = np.asarray(batch.Cs, dtype=np.float64)
        self.spreads = np.asarray(batch.spreads, dtype=np.float64)
        self.bounds = np.full(n_groups, np.inf) if batch.bounds is None else batch.bounds
        self.coefs, self.images = np.zeros((2, m * ends[-1]))
        self.table = np.full((n_groups, m, 12), np.nan)
        self.table[:, :, loops.STEPS] = 0.0
        d = 0
        if isinstance(matrix, RowTiles) and matrix.kernel.name == "linear":
            d = matrix.X.shape[1]
        self.directions = np.zeros((n_groups, m, d))
        self.shift = self.prepared[1].shift if d and self.prepared is not None else np.zeros(d)
        self.pending = np.zeros(n_groups, dtype=np.int64)
        self.tols = np.full(m, batch.tol)
        self.todo = np.full((n_groups, m), loops.FRESH, dtype=np.int8)
        for g, start in enumerate(batch.starts or ()):
            coefs, images = self.arrays(g)
            coefs[0], images[0] = start, batch.image(g, start)

    def solve(self, tols: float | np.ndarray) -> BatchResult:
        """Solve the problems, from their solutions of the stage before if there was one.

        Parameters
        ----------
        tols : float or ndarray of shape (m,)
            Largest violation of the optimality conditions; infinite for problems that keep their
            solutions, in a later stage. A spread needs the support vector machine of its penalty.
        """
        self.tols[...] = tols
        if self.solved:
            self.todo[...] = np.where(self.tols < np.inf, loops.AGAIN, loops.DONE)
        n_groups = self.batch.n_groups
        self.pending[...] = 0
        entries = self.batch.n_problems * float(np.square(self.batch.sizes).sum())
        threads = min(self.threads, 1 + int(entries // self.options.thread_entries))
        # As many chunks as threads: groups of one chunk share blocks of the kernel matrix.
        run_chunks(self._run, n_groups, -(-n_groups // max(1, threads)), threads)
        self.solved = True
        matrix = self.batch.matrix
        if isinstance(matrix, GramTiles) and matrix.K.dtype == np.float32:
            # Rows in the precision of the loop are cheap to copy once more.
            self.kept = None
        return self.result()

    def hold(self, matrix: GramTiles | None) -> None:
        """Have the kernel matrix, the same one, for the next stage; or let go of it."""
        self.prepared = self.kept = None
        if matrix is not None:
            self.prepared = prepare(matrix)
            self.batch = replace(self.batch, matrix=matrix)

    def _run(self, first: int, last: int) -> None:
        """Solve the groups from ``first`` to ``last``."""
        if self.prepared is not None:
            together = np.diff(self.groups.ends)[first:last] <= self.options.batch_rows
            edges = np.flatnonzero(np.diff(together, prepend=False, append=False))
            for begin, end in edges.reshape(-1, 2):
                self._together(first + begin, first + end, 0, self.options.batch_patience)
        for g in range(first, last):
            if self.pending[g] < self.batch.n_problems:
                self._finish(g)

    def _together(self, first: int, last: int, problem: int, patience: int) -> None:
        assert self.prepared is not None
        options, batch, whole = self.options, self.batch, self._whole()
        tiled = int(options.tiled_per_column * self.prepared[1].rows.shape[1])
        if self.kept is None:
            n = self.groups.rows.size if batch.n_groups == 1 else 0
            matrix = np.empty(n * n * (not whole.size), dtype=np.float32)
            self.kept = matrix, np.zeros(n, dtype=np.bool_)
        loops.solve_groups(
            self.groups, *self.prepared, self.Cs, self.spreads, self.bounds, self.coefs,
            self.images, self.table, self.directions, first, last, problem, self.tols,
            _NO_LIMIT if batch.max_iter < 0 else batch.max_iter, patience,
            self.promise,
            max(options.tiled_rows, tiled),
            self.own_size, self.pending, self.todo, whole, self.kept,
        )  # fmt: skip

    def _whole(self) -> np.ndarray:
        """Return a matrix that every group can use as it is; an empty one if there is none."""
        matrix = self.batch.matrix
        if isinstance(matrix, GramTiles) and matrix.K.dtype == np.float32:
            groups, every = self.groups, np.arange(matrix.n)
            if matrix.K.flags.c_contiguous and np.array_equal(
                groups.rows, np.tile(every, len(groups.parts))
            ):
                return matrix.K
        return np.empty((0, 0), dtype=np.float32)

    def _finish(self, g: int) -> None:
        """Solve what is left of a group, with the careful solver where it is needed."""
        columns = self._columns(g)
        together = self.prepared is not None and columns.n <= self.options.batch_rows
        while self.pending[g] < self.batch.n_problems:
            if self.todo[g, self.pending[g]] == loops.DONE:
                self.pending[g] += 1
                continue
            begun = together or bool(self.todo[g, self.pending[g]] == loops.AGAIN)
            self._alone(g, int(self.pending[g]), columns, begun)
            self.pending[g] += 1
            if together:
                self._together(g, g + 1, int(self.pending[g]), self.options.batch_patience)

    def _columns(self, g: int) -> KernelMatrix:
        matrix, rows = self.batch.matrix, self.rows_of(g)
        if isinstance(matrix, GramTiles):
            whole = rows.size == matrix.n and bool((np.diff(rows) == 1).all())
            values = matrix.K if whole else matrix.K[np.ix_(rows, rows)]
            return SharedColumns(values, definite=matrix.definite)
        return KernelMatrix.of_rows(matrix.kernel, matrix.X[rows], cache_bytes=self.cache_bytes)

    def _alone(self, g: int, k: int, columns: KernelMatrix, begun: bool) -> None:
        """Solve one problem by the careful solver.

        ``begun`` says that its coefficients are somewhere on the way.
        """
        batch, own = self.batch, self.spreads.size + 1
        part = slice(self.groups.ends[g], self.groups.ends[g + 1])
        y, C = self.groups.y[part], self.Cs[k // own] * self.groups.v[part]
        coefs, images = self.arrays(g)
        values, svm = self.table[g, k], k - k % own
        if k > svm:
            theta = values[loops.THETA] = self.table[g, svm, loops.THETA]
            values[loops.BOUND] = max(1.0, 1.0 + self.spreads[k - svm - 1] * (theta - 1.0))
        else:
            values[loops.BOUND] = self.bounds[g]
        bound = values[loops.BOUND]
        # Rounding may hide that an unproven model breaks the bound: it is solved under it.
        proven = loops.proven(self.table[g, svm], self.promise)
        if k > svm and proven and not bound < values[loops.THETA]:
            self.table[g, k] = self.table[g, svm]
            values[loops.BOUND], values[loops.STEPS] = bound, 0
            coefs[k], images[k] = coefs[svm], images[svm]
            self.directions[g, k] = self.directions[g, svm]
            return
        pieces = relative_margin_pieces(y, C, bound) if bound < np.inf else svm_pieces(y, C)
        if not begun and k > 0:
            near = [k - 1] if k > svm else []
            near += [k - own] if k >= own else []
            best = max(near, key=lambda j: pieces.dual(coefs[j], images[j]))
            coefs[k], images[k] = coefs[best], images[best]
        # Single precision may have lost its way among values that it cannot tell apart.
        start = coefs[k] if coefs[k].any() and np.isfinite(coefs[k] + images[k]).all() else None
        spent = int(values[loops.STEPS])
        result = solve_margin(
            columns,
            pieces,
            tol=float(self.tols[k]),
            max_iter=batch.max_iter if batch.max_iter < 0 else max(0, batch.max_iter - spent),
            start=start,
            start_image=None if start is None else images[k],
            polish=batch.polish,
            progress=self.progress,
            options=self.options,
        )
        coefs[k], images[k] = result.dual_coef, result.image
        bias = result.bias - columns.offset(result.coef, result.direction)
        if result.direction is not None:
            self.directions[g, k] = result.direction
            bias += float(result.direction @ self.shift)
        largest = float(np.abs(result.outputs).max())
        theta = largest if k == svm and own > 1 else values[loops.THETA]
        status = STATUS.index(result.status)
        values[:] = (
            bias, result.scale, result.objective, result.dual_objective, result.rounding,
            result.violation, bound, theta, largest, spent + result.n_iter, status, k,
        )  # fmt: skip

    def rows_of(self, g: int) -> np.ndarray:
        """Rows of a group, by number."""
        return self.groups.rows[self.groups.ends[g] : self.groups.ends[g + 1]]

    def arrays(self, g: int) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients, before scaling, and images of the problems of a group."""
        m = self.batch.n_problems
        part = slice(m * self.groups.ends[g], m * self.groups.ends[g + 1])
        return self.coefs[part].reshape(m, -1), self.images[part].reshape(m, -1)

    def result(self) -> BatchResult:
        """Put the solutions together."""
        values = np.moveaxis(self.table, 2, 0)
        values = np.concatenate([values[:1] - self.directions @ self.shift, values[1:]])
        m, ends = self.batch.n_problems, self.groups.ends
        sizes = np.repeat(np.diff(ends), m)
        scaled = self.coefs * np.repeat(values[loops.SCALE].ravel(), sizes)
        coefs = [scaled[m * a : m * b].reshape(m, -1) for a, b in pairwise(ends.tolist())]
        counts = values[loops.STEPS :].astype(np.int64)
        directions = self.directions if self.directions.size else None
        named = zip(_VALUES, (*values[: loops.STEPS], *counts))
        return BatchResult(coefs=coefs, directions=directions, **dict(named))
