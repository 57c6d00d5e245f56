"""Rounds of many margin problems side by side on a CUDA device.

A round chooses working sets, takes pair steps on them and carries the changes to the images. Where
rounds are many, Newton steps or an interior point method come in between.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from oblong._core.threads import chunks
from oblong.solvers.margin.batch import cuda_kernels as kernels
from oblong.solvers.margin.batch.cuda_certificate import balance, certify
from oblong.solvers.margin.batch.cuda_interior_point import BoxSolver
from oblong.solvers.margin.batch.cuda_matrix import DeviceMatrix, launch
from oblong.solvers.margin.batch.cuda_newton import newton_steps
from oblong.solvers.margin.batch.cuda_options import CudaOptions

__all__ = ["HALVINGS", "Rounds"]

# Halvings of the interval of the factor between the dual point and the model.
HALVINGS = 50
# Problems that are many for the interior point method.
_MANY = 16
# Relative difference of gammas up to which kernel matrices are alike.
_ALIKE = 0.1


class Rounds:
    """Problems on the device, and rounds of working sets until violations meet their targets."""

    def __init__(
        self,
        rows: np.ndarray,
        sizes: np.ndarray,
        cap: np.ndarray,
        c: np.ndarray,
        bound: np.ndarray,
        limits: np.ndarray,
        which: np.ndarray,
        matrix: DeviceMatrix,
        options: CudaOptions,
    ) -> None:
        self.matrix, self.options = matrix, options
        self.shape = c.shape
        m = c.shape[0]
        self.host_rows, self.host_sizes = rows, sizes
        # The matrix of each problem, and the line where it begins.
        self.which, self.base = which, cuda.to_device((which * matrix.n).astype(np.int32))
        self.steps = np.zeros(m, dtype=np.int64)
        self.target = np.zeros(m)
        self.rows, self.sizes = cuda.to_device(rows), cuda.to_device(sizes)
        self.cap, self.c = cuda.to_device(np.ascontiguousarray(cap)), cuda.to_device(c)
        self.u = cuda.to_device(np.zeros(c.shape))
        self.set_bounds(bound)
        self.limits = cuda.to_device(limits)
        self.stamp = cuda.to_device(np.zeros(c.shape, dtype=np.int32))
        self.chosen = cuda.to_device(np.zeros((m, options.working_set), dtype=np.int32))
        self.counts = cuda.to_device(np.zeros(m, dtype=np.int32))
        self.span = cuda.to_device(np.zeros((m, 2)))
        self.moved = cuda.to_device(np.zeros(c.shape, dtype=np.int32))
        self.delta = cuda.to_device(np.zeros(c.shape))
        self.moves = cuda.to_device(np.zeros(m, dtype=np.int32))
        self.out = cuda.to_device(np.zeros((m, 8)))
        self.turn = 0
        # Matrices of the working sets.
        self.sets: Any = None
        self.boxes: dict[int, BoxSolver] = {}
        self.inside = np.zeros(m, dtype=np.bool_)
        # Memory of Newton steps, once there are any.
        self.free: Any = None
        self.image: Any = None
        self.rise: Any = None
        self.n_free: Any = None

    def set_bounds(self, bound: np.ndarray) -> None:
        """Set the bounds of all problems."""
        self.host_bound, self.bound = bound, cuda.to_device(bound)

    def by_problem(self, kernel: Any, part: Any, *args: Any) -> None:
        """Start a kernel with a block per problem."""
        launch(kernel, part.size, self.options.working_set, self.matrix.stream, part, *args)

    def by_row(self, kernel: Any, part: Any, *args: Any) -> None:
        """Start a kernel with a thread per row of every problem."""
        tile = self.options.tile
        grid = (-(-self.shape[1] // tile), part.size)
        launch(kernel, grid, tile, self.matrix.stream, part, *args)

    def start_from(self, places: np.ndarray, sources: np.ndarray) -> None:
        """Let problems start from the solutions of others."""
        if places.size:
            source = cuda.to_device(sources.astype(np.int32))
            self.by_row(kernels.copy_starts, _ids(places), source, self.sizes, self.c, self.u)

    def line(self, place: int) -> np.ndarray:
        """Coefficients of one problem."""
        return self.c[place].copy_to_host()

    def set_line(self, place: int, c: np.ndarray, u: np.ndarray) -> None:
        """Set the coefficients and the image of one problem."""
        for into, values in ((self.c, c), (self.u, u)):
            padded = np.zeros(self.shape[1])
            padded[: c.size] = values
            into[place].copy_to_device(padded)

    def run(self, places: np.ndarray, limit: float) -> np.ndarray:
        """Go on until the problems meet their targets; return which ones make no progress."""
        options = self.options
        self.device_target = cuda.to_device(self.target)
        self.device_steps = cuda.to_device(self.steps)
        m = self.shape[0]
        best, idle, given_up = np.full(m, np.inf), np.zeros(m, dtype=np.int64), np.zeros(m, bool)
        patience = options.patience
        patience += options.patience_per_set * (self.shape[1] // options.working_set)
        rounds, active = 0, places
        while active.size:
            fits = options.side_by_side
            if not self.matrix.whole:
                fits = min(fits, max(1, self.matrix.capacity // options.working_set))
            parts = [_ids(active[a:b]) for a, b in chunks(active.size, fits)]
            for _ in range(options.look):
                rounds += 1
                for part in parts:
                    self._round(part)
            span, taken = self.span.copy_to_host(), self.device_steps.copy_to_host()
            violation = span[:, 0] - span[:, 1]
            idle[active] += options.look
            better = violation < 0.9 * best
            idle[better], best[better] = 0, violation[better]
            given_up[active] |= (idle[active] > patience) | ~np.isfinite(violation[active])
            done = (violation <= self.target) | given_up | (taken >= limit)
            active = active[~done[active]]
            # Where problems crawled before, those of larger penalties will.
            soon = options.interior_after // (5 if self.boxes else 1)
            if rounds % max(1, soon) == 0 and self._may_go_inside:
                crawling = active[~self.inside[active] & np.isinf(self.host_bound[active])]
                if crawling.size >= _MANY or rounds >= options.interior_patience:
                    self.inside[crawling] = True
                    self._interior_point(crawling)
            newton = rounds >= options.newton_after and rounds % options.newton_every == 0
            if newton and self.matrix.whole and active.size:
                late = rounds >= options.newton_late and rounds % (4 * options.newton_every) == 0
                newton_steps(self, active, options.newton_rows if late else options.newton_cheap)
        self.steps[:] = self.device_steps.copy_to_host()
        return given_up[places]

    @property
    def _may_go_inside(self) -> bool:
        matrix, options = self.matrix, self.options
        return 4 * options.landmarks <= matrix.n and matrix.whole and matrix.dtype == np.float64

    def _interior_point(self, places: np.ndarray) -> None:
        """Solve support vector machines over most rows of a matrix in double precision."""
        matrix, options = self.matrix, self.options
        places = places[self.host_sizes[places] > matrix.n // 2]
        # Kernels whose widths are about the same have matrices that are alike.
        gammas = [1.0 if rows is None else rows.kernel.gamma for rows in matrix.stack]
        first = np.array([np.argmax(np.isclose(gammas, gamma, rtol=_ALIKE)) for gamma in gammas])
        for k in np.unique(first[self.which[places]]).tolist():
            if k not in self.boxes:
                self.boxes[k] = BoxSolver(matrix, options.landmarks, options.panel, k)
            if self.boxes[k].missed_share <= options.landmarks_miss:
                some = places[first[self.which[places]] == k]
                order = np.argsort(self.which[some], kind="stable")
                self._go_inside(some[order], self.boxes[k])

    def _go_inside(self, places: np.ndarray, boxes: BoxSolver) -> None:
        cap, _ = self._dense(places, self.cap)
        target = float(self.target[places].min())
        c, u, violation = boxes.solve(cap, self.which[places], target)
        before = self.span.copy_to_host()[places]
        better = np.isfinite(violation) & (violation < before[:, 0] - before[:, 1])
        taken = self.matrix.arrays.put(np.flatnonzero(better))
        for values, into in ((c, self.c), (u, self.u)):
            self._take(places[better], values[:, taken], into)

    def _round(self, part: Any) -> None:
        matrix, options = self.matrix, self.options
        accuracy = options.accuracy if matrix.whole else options.cached_accuracy
        self.turn += 1
        self.by_problem(
            kernels.choose, part, self.sizes, self.cap, self.bound, self.limits, self.c, self.u,
            self.device_target, self.stamp, self.turn, self.chosen, self.counts, self.span,
        )  # fmt: skip
        if not matrix.whole:
            chosen, counts = self.chosen.copy_to_host(), self.counts.copy_to_host()
            wanted = [self.host_rows[p, chosen[p, : counts[p]]] for p in part.copy_to_host()]
            matrix.fetch(np.unique(np.concatenate(wanted)))
        if self.sets is None or len(self.sets) < part.size:
            width = options.working_set
            self.sets = matrix.arrays.empty((part.size, width, width), matrix.dtype)
        launch(
            kernels.gather_sets, (min(64, options.working_set), part.size), options.tile,
            matrix.stream, part, self.rows, self.device_target, self.span, self.chosen,
            self.counts, matrix.store, matrix.lines, self.base, self.sets,
        )  # fmt: skip
        self.by_problem(
            kernels.ascend, part, self.rows, self.cap, self.bound, self.limits, self.c, self.u,
            self.device_target, self.span, self.chosen, self.counts, self.sets, matrix.lines,
            self.base, matrix.own, accuracy, options.round_steps, self.device_steps,
            self.moved, self.delta, self.moves,
        )  # fmt: skip
        self.add_columns(part, self.u)

    def add_columns(self, part: Any, u: Any) -> None:
        """Add the columns of what moved to images."""
        self.by_row(
            kernels.add_columns, part, self.rows, self.sizes, self.matrix.store, self.moved,
            self.delta, self.moves, u,
        )  # fmt: skip

    def balance(self, places: np.ndarray) -> None:
        """Make the coefficients sum to zero but for one rounding."""
        self.by_problem(
            balance, _ids(places), self.sizes, self.cap, self.bound, self.limits, self.c
        )

    def images(self, places: np.ndarray, linear: bool) -> tuple[Any, np.ndarray | None]:
        """Images over all rows in double precision, and the weight vectors of a linear kernel."""
        matrix = self.matrix
        dense, support = self._dense(places, self.c)
        coefs = dense[matrix.arrays.put(support)]
        if linear:
            w, images = matrix.directions(support, coefs)
            return images, w
        kinds = self.which[places]
        if not kinds.any():
            return matrix.images(support, coefs), None
        images = matrix.arrays.empty((matrix.n, places.size), np.float64)
        for k in np.unique(kinds).tolist():
            mine = matrix.arrays.put(np.flatnonzero(kinds == k))
            images[:, mine] = matrix.images(support, coefs[:, mine], k)
        return images, None

    def _dense(self, places: np.ndarray, values: Any) -> tuple[Any, np.ndarray]:
        """Numbers of problems as columns over all rows, and the rows where there are some."""
        dense = self.matrix.arrays.put(np.zeros((self.matrix.n, places.size)))
        used = cuda.to_device(np.zeros(self.matrix.n, dtype=np.int8))
        self.by_row(kernels.scatter, _ids(places), self.rows, self.sizes, values, dense, used)
        return dense, np.flatnonzero(used.copy_to_host())

    def _take(self, places: np.ndarray, columns: Any, into: Any) -> None:
        """Undo :meth:`_dense`."""
        if places.size:
            self.by_row(kernels.gather_images, _ids(places), self.rows, self.sizes, columns, into)

    def set_images(self, places: np.ndarray, images: Any) -> None:
        """Take the images of problems from columns over all rows."""
        self._take(places, images, self.u)

    def certify(
        self,
        places: np.ndarray,
        roots: Any,
        unit: float,
        lengths: np.ndarray,
        far: np.ndarray,
        promise: float,
    ) -> np.ndarray:
        """Return the numbers of the certificates."""
        self.by_problem(
            certify, _ids(places), self.rows, self.sizes, self.cap, self.bound, self.limits, self.c,
            self.u, roots, unit, cuda.to_device(lengths), cuda.to_device(far), promise, HALVINGS,
            self.out,
        )  # fmt: skip
        return self.out.copy_to_host()[places]


def _ids(places: np.ndarray) -> Any:
    return cuda.to_device(places.astype(np.int32))
