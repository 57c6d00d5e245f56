"""Solve a batch of margin problems on the cores."""

from __future__ import annotations

import numpy as np

from oblong._core.progress import ProgressCallback
from oblong._core.threads import run_chunks
from oblong.linalg.columns import KernelColumns, SymmetricColumns
from oblong.solvers.margin.batch import loops
from oblong.solvers.margin.batch.problem import STATUS, BatchResult, GramTiles, MarginBatch
from oblong.solvers.margin.batch.tiles import prepare
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.problem import Pieces
from oblong.solvers.margin.small import SharedColumns
from oblong.solvers.margin.solver import MarginResult, solve_margin

__all__ = ["solve_batch"]

_NO_LIMIT = np.iinfo(np.int64).max


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
    work = _Work(batch, cache_bytes, progress, options)
    n_groups = batch.n_groups
    # As many chunks as threads: groups of one chunk share blocks of the kernel matrix.
    run_chunks(work.run, n_groups, -(-n_groups // max(1, threads)), threads)
    return work.result()


class _Work:
    """The state of a batch while it is solved."""

    def __init__(
        self,
        batch: MarginBatch,
        cache_bytes: float,
        progress: ProgressCallback | None,
        options: MarginOptions,
    ) -> None:
        self.batch, self.options = batch, options
        self.cache_bytes, self.progress = cache_bytes, progress
        self.source = prepare(batch.matrix)
        m, sizes = batch.n_problems, batch.sizes
        self.shift = np.zeros(0) if self.source is None else self.source.shift
        places = np.concatenate([[0], np.cumsum(m * sizes)])
        unique, names = np.unique(batch.segments.reshape(-1, 2), axis=0, return_inverse=True)
        shared = np.diff(unique, axis=1)[:, 0] ** 2
        if isinstance(batch.matrix, GramTiles):
            shared[:] = 0
        linear = not isinstance(batch.matrix, GramTiles) and batch.matrix.kernel.name == "linear"
        coefs, images = np.zeros((2, places[-1]))
        self.state = loops.BatchState(
            segments=np.ascontiguousarray(batch.segments, dtype=np.int64),
            names=names.reshape(batch.segments.shape[:2]),
            own_places=np.concatenate([[0], np.cumsum(shared)]),
            signs=np.ascontiguousarray(batch.signs, dtype=np.float64),
            penalties=np.ascontiguousarray(batch.penalties, dtype=np.float64),
            Cs=np.asarray(batch.Cs, dtype=np.float64),
            spreads=np.asarray(batch.spreads, dtype=np.float64),
            bounds=np.full(batch.n_groups, np.inf) if batch.bounds is None else batch.bounds,
            places=places,
            coefs=coefs,
            images=images,
            values=np.full((batch.n_groups, m, 9), np.nan),
            counts=np.zeros((batch.n_groups, m, 3), dtype=np.int64),
            directions=np.zeros((batch.n_groups, m, batch.matrix.X.shape[1] if linear else 0)),
        )
        if linear and self.source is None:
            self.shift = np.zeros(self.state.directions.shape[2])
        self.pending = np.zeros(batch.n_groups, dtype=np.int64)
        for g, start in enumerate(batch.starts or ()):
            own_coefs, own_images = self._arrays(g)
            own_coefs[0] = start
            own_images[0] = batch.image(g, start)

    def run(self, first: int, last: int) -> None:
        """Solve the groups from ``first`` to ``last``."""
        together, patience = first, self.options.batch_patience
        sizes = self.batch.sizes
        for g in range(first, last):
            if self.source is None or sizes[g] > self.options.batch_rows:
                self._together(together, g, 0, patience)
                together = g + 1
        self._together(together, last, 0, patience)
        for g in range(first, last):
            if self.pending[g] < self.batch.n_problems:
                self._finish(g)

    def _together(self, first: int, last: int, begin: int, patience: int) -> None:
        if first >= last or self.source is None:
            return
        options, batch = self.options, self.batch
        loops.solve_groups(
            self.state, self.source, first, last, begin, batch.tol,
            _NO_LIMIT if batch.max_iter < 0 else batch.max_iter, patience,
            options.promise(batch.tol) if batch.polish else np.inf, options.tiled_rows,
            self.pending,
        )  # fmt: skip

    def _finish(self, g: int) -> None:
        """Solve what is left of a group, with the careful solver where it is needed."""
        m, columns = self.batch.n_problems, self._columns(g)
        together = self.source is not None and columns.n <= self.options.batch_rows
        newton_steps = 0
        while self.pending[g] < m:
            found = self._alone(g, int(self.pending[g]), columns, together)
            newton_steps += 0 if found is None else found.n_newton
            if newton_steps >= self.options.inverted_after and isinstance(columns, SharedColumns):
                # With the inverse at hand Newton steps come first, and pair steps wait.
                columns.invert(self.options)
                newton_steps = -_NO_LIMIT
            self.pending[g] += 1
            if together:
                patience = self.options.batch_patience if columns.inverse is None else 0
                self._together(g, g + 1, int(self.pending[g]), patience)

    def _columns(self, g: int) -> SymmetricColumns:
        matrix, rows = self.batch.matrix, self.batch.rows(g)
        if isinstance(matrix, GramTiles):
            whole = rows.size == matrix.n and bool((np.diff(rows) == 1).all())
            columns = SharedColumns(matrix.K if whole else matrix.K[np.ix_(rows, rows)])
            columns.definite = matrix.definite
            return columns
        return KernelColumns(matrix.kernel, matrix.X[rows], cache_bytes=self.cache_bytes)

    def _alone(self, g: int, k: int, columns: SymmetricColumns, begun: bool) -> MarginResult | None:
        """Solve one problem by the careful solver, from where its coefficients are."""
        state, batch, q = self.state, self.batch, columns.n
        y, v = batch.y(g), state.penalties[batch.rows(g)]
        p, s = np.empty((q, 4)), np.empty((q, 3))
        bounded = loops.write_terms(state, g, k, y, v, p, s)
        coefs, images = self._arrays(g)
        if not begun:
            twin = loops.find_twin(state, g, k, y, v, coefs, bounded)
            if twin >= k - k % (batch.spreads.size + 1):
                loops.copy_solution(state, g, k, twin, coefs, images)
                return None
            loops.begin(state, g, k, coefs, images, p, s)
        values, counts = state.values[g, k], state.counts[g, k]
        start = coefs[k] if coefs[k].any() else None
        result = solve_margin(
            columns,
            Pieces(p, s),
            tol=batch.tol,
            max_iter=batch.max_iter if batch.max_iter < 0 else batch.max_iter - int(counts[0]),
            start=start,
            start_image=None if start is None else images[k],
            polish=batch.polish,
            progress=self.progress,
            options=self.options,
        )
        coefs[k], images[k] = result.dual_coef, result.image
        bias = result.bias - columns.offset(result.coef, result.direction)
        if result.direction is not None:
            state.directions[g, k] = result.direction
            bias += float(result.direction @ self.shift)
        largest = float(np.abs(result.outputs).max())
        theta = values[loops.THETA]
        if batch.bounds is None and k % (batch.spreads.size + 1) == 0:
            theta = largest
        values[:] = (
            bias, result.scale, result.objective, result.dual_objective, result.rounding,
            result.violation, values[loops.BOUND], theta, largest,
        )  # fmt: skip
        counts[:] = counts[0] + result.n_iter, STATUS.index(result.status), k
        return result

    def _arrays(self, g: int) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and images of the problems of a group."""
        part = slice(self.state.places[g], self.state.places[g + 1])
        shape = (self.batch.n_problems, -1)
        return self.state.coefs[part].reshape(shape), self.state.images[part].reshape(shape)

    def result(self) -> BatchResult:
        """Put the solutions together."""
        values, counts = self.state.values, self.state.counts
        bias, scale, objective, dual, rounding, violation, bound, theta, largest = (
            values[:, :, k] for k in range(values.shape[2])
        )
        linear = self.state.directions.shape[2] > 0
        if linear:
            bias = bias - self.state.directions @ self.shift
        coefs = [self._arrays(g)[0] * scale[g][:, None] for g in range(self.batch.n_groups)]
        return BatchResult(
            coefs, bias, scale, objective, dual, rounding, violation, bound, theta, largest,
            counts[:, :, 0], counts[:, :, 1], counts[:, :, 2],
            self.state.directions if linear else None,
        )  # fmt: skip
