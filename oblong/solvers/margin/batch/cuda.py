"""Solve a batch of margin problems on a CUDA device.

All problems go on side by side, a thread block each. A round chooses working sets, takes pair steps
on them and carries the changes to the images; where rounds are many, Newton steps on all free
coefficients of a problem come in between. Columns are in single precision, coefficients and
images in double. What the rounds find is certified from outputs in double precision, as on cores,
and what they do not finish goes to the careful solver on cores from where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numba import cuda

from oblong._core.threads import chunks
from oblong.kernels import Kernel
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.batch.cuda_matrix import DeviceMatrix
from oblong.solvers.margin.batch.cuda_options import CUDA_DEFAULTS, CudaOptions
from oblong.solvers.margin.batch.cuda_rounds import HALVINGS, Rounds
from oblong.solvers.margin.batch.problem import (
    STATUS,
    BatchResult,
    GramTiles,
    MarginBatch,
    RowTiles,
)
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.problem import Pieces, relaxed_margin_pieces, svm_pieces
from oblong.solvers.margin.solver import solve_margin

__all__ = ["CUDA_DEFAULTS", "CudaOptions", "DeviceWork", "solve_batch_on_device"]

# Columns of the numbers of a certificate, in the order in which the kernel writes them.
BIAS, SCALE, OBJECTIVE, DUAL, ROUNDING, HIGH, LOW, LARGEST = range(8)


def solve_batch_on_device(
    batch: MarginBatch,
    *,
    cache_bytes: float = 2.0**30,
    options: MarginOptions = DEFAULTS,
    device: CudaOptions = CUDA_DEFAULTS,
) -> BatchResult:
    """Solve all problems of a batch whose matrix is on a CUDA device, each with its certificate.

    Parameters
    ----------
    batch : MarginBatch
        The problems; the rows or the kernel matrix are an array of CuPy or PyTorch.
    cache_bytes : float, default=2**30
        Memory limit of the kernel columns of a problem that is left to the cores.
    options : MarginOptions
        Tuning constants of the certificate and of the solver on cores.
    device : CudaOptions
        Tuning constants of the solver on the device.

    Returns
    -------
    BatchResult
        The solutions, as arrays of NumPy.
    """
    return DeviceWork(batch, cache_bytes, options, device).run()


class DeviceWork:
    """The state of a batch while it is solved: one line of every array per problem.

    Problem ``g m + k`` is problem ``k`` of group ``g``. Lines are padded to the longest group.

    Parameters
    ----------
    batch, cache_bytes, options, device
        Those of :func:`solve_batch_on_device`.
    prices : list of ndarray, default=None
        For every group what it costs each row to break a finite bound; infinite by default.
    """

    def __init__(
        self,
        batch: MarginBatch,
        cache_bytes: float,
        options: MarginOptions,
        device: CudaOptions,
        prices: list[np.ndarray] | None = None,
    ) -> None:
        self.batch, self.options, self.device = batch, options, device
        self.cache_bytes = cache_bytes
        kernels, which = _different(batch)
        self.matrix = DeviceMatrix(batch.matrix, device.memory_share, kernels[1:])
        if not self.matrix.whole and self.matrix.capacity < device.working_set:
            raise MemoryError("the columns of a working set do not fit")
        large = not self.matrix.whole and batch.sizes.max() > device.sample_above
        if large and batch.starts is None and batch.bounds is None:
            self.batch = batch = replace(batch, starts=self._sample_starts())
        n_groups, m = batch.n_groups, batch.n_problems
        self.own = m // len(batch.Cs)
        sizes, count = batch.sizes, n_groups * m
        self.longest = int(sizes.max())
        self.host_rows = np.zeros((n_groups, self.longest), dtype=np.int32)
        signed = np.ones((n_groups, self.longest))
        c = np.zeros((count, self.longest))
        for g, size in enumerate(sizes):
            self.host_rows[g, :size] = batch.rows(g)
            signed[g, :size] = batch.y(g) * batch.factors(g)
            if batch.starts is not None:
                c[g * m, :size] = batch.starts[g]
        self.cap = np.repeat(batch.Cs, self.own)[None, :, None] * signed[:, None]
        self.bound = np.full(count, np.inf)
        if batch.bounds is not None:
            self.bound = np.repeat(np.asarray(batch.bounds, dtype=np.float64), m)
        self.prices, limits = prices, np.full(1, np.inf)
        if prices is not None:
            limits = np.full((count, self.longest), np.inf)
            for g, own in enumerate(prices):
                limits[g * m : (g + 1) * m, : own.size] = own
        self.theta = np.full(count, np.nan)
        self.source = np.tile(np.arange(m), n_groups)
        self.values = np.full((count, 8), np.nan)
        self.status = np.zeros(count, dtype=np.int64)
        self.directions = np.zeros((count, 0))
        self.rounds = Rounds(
            np.repeat(self.host_rows, m, axis=0), np.repeat(sizes, m).astype(np.int32),
            self.cap.reshape(count, -1), c, self.bound, limits, np.repeat(which, m), self.matrix,
            device,
        )  # fmt: skip
        self.sizes_root = cuda.to_device(np.sqrt(np.abs(self.matrix.diagonal)))

    def _sample_starts(self) -> list[np.ndarray]:
        """Coefficients for the first problem of every group, from the outputs of a sample's model.

        A row of the sample stands for ``sample_step`` rows, so its penalty is as many times larger.
        Coefficients fall from their caps to zero where ``y f`` passes one, over ``sample_ramp`` to
        either side, and the bias is that for which they sum to zero.
        """
        batch, step, arrays = self.batch, self.device.sample_step, self.matrix.arrays
        matrix = batch.matrix
        assert not isinstance(matrix, GramTiles)  # a matrix that was given fits
        sample = replace(
            batch,
            matrix=replace(matrix, X=matrix.X[::step]),
            segments=-(-batch.segments // step),
            penalties=step * batch.penalties[..., ::step],
            Cs=batch.Cs[:1],
            spreads=np.empty(0),
            tol=3.0 * batch.tol,
            polish=False,
            others=None,
        )
        found = solve_batch_on_device(
            sample, cache_bytes=self.cache_bytes, options=self.options, device=self.device
        )
        dense = np.zeros((sample.matrix.n, batch.n_groups))
        for g, coefs in enumerate(found.coefs):
            dense[sample.rows(g), g] = coefs[0]
        support = np.flatnonzero(dense.any(axis=1))
        images = self.matrix.images(step * support, arrays.put(dense[support]))
        starts = []
        for g in range(batch.n_groups):
            rows = batch.rows(g)
            y = arrays.put(batch.y(g))
            cap = arrays.put(batch.Cs[0] * batch.factors(g))
            f, slope = images[arrays.put(rows), g], 0.5 / self.device.sample_ramp
            low, high = -1.0 - float(f.max()), 1.0 - float(f.min())
            low, high = low - 1.0, high + 1.0
            for _ in range(HALVINGS):
                bias = 0.5 * (low + high)
                c = y * cap * arrays.module.clip(0.5 + slope * (1.0 - y * (f + bias)), 0.0, 1.0)
                low, high = (bias, high) if float(c.sum()) > 0.0 else (low, bias)
            starts.append(arrays.get(c))
        return starts

    @property
    def linear(self) -> bool:
        """Whether the kernel is linear, so that models have weight vectors."""
        matrix = self.batch.matrix
        return not isinstance(matrix, GramTiles) and matrix.kernel.name == "linear"

    def run(self) -> BatchResult:
        """Solve everything: penalties in waves, ascending, then the spreads, descending."""
        batch, own = self.batch, self.own
        groups = np.arange(batch.n_groups) * batch.n_problems
        # Of several matrices each has fewer problems, and products with few columns are costly.
        most = self.device.wave if len(self.matrix.stack) == 1 else self.device.side_by_side
        wave = max(1, most // batch.n_groups)
        for first, last in chunks(len(batch.Cs), wave):
            places = (groups[:, None] + own * np.arange(first, last)).ravel()
            if first > 0:
                before = np.repeat(groups + own * (first - 1), last - first)
                self.rounds.start_from(places, before)
            elif batch.starts is not None:
                self.rounds.balance(groups)
                self.refresh(groups)
                self.rounds.start_from(places, np.repeat(groups, last))
            self.solve(places)
        svm = (groups[:, None] + own * np.arange(len(batch.Cs))).ravel()
        for k in range(own - 1):
            here = svm + k + 1
            theta = self.values[svm, LARGEST]
            self.theta[svm] = self.theta[here] = theta
            self.bound[here] = np.maximum(1.0, 1.0 + batch.spreads[k] * (theta - 1.0))
            self.rounds.start_from(here, here - 1)
            same = (theta <= self.bound[here]) & (self.status[svm] == 0)
            self.values[here[same]] = self.values[svm[same]]
            self.source[here[same]] = svm[same] % batch.n_problems
            if self.linear:
                self.directions[here[same]] = self.directions[svm[same]]
            self.rounds.start_from(here[same], svm[same])
            self.solve(here[~same])
        return self._result()

    def solve(self, places: np.ndarray) -> None:
        """Solve problems side by side, to their certificates."""
        batch, options, rounds = self.batch, self.options, self.rounds
        if not places.size or not self.matrix.usable:
            # Cores have other means, or the right error.
            self._hand_over(places)
            return
        promise = options.promise(batch.tol)
        limit = np.inf if batch.max_iter < 0 else batch.max_iter
        rounds.set_bounds(self.bound)
        rounds.target[places] = batch.tol
        pending = places
        for turn in range(options.refreshes + options.tightenings):
            given_up = rounds.run(pending, limit)
            rounds.balance(pending)
            self.refresh(pending)
            values = self.values
            objective, rounding = values[pending, OBJECTIVE], values[pending, ROUNDING]
            gap = np.maximum(objective - values[pending, DUAL], 0.0) + rounding
            close = values[pending, HIGH] - values[pending, LOW] <= batch.tol * (1.0 + 1e-6)
            small = gap <= promise * np.abs(objective)
            spent = rounds.steps[pending] >= limit
            self.status[pending[spent]] = STATUS.index("max_iter")
            good = close & (small | (not batch.polish))
            # More steps help neither where rounding is most of the gap nor where nothing moves.
            lost = ~good & ~spent & (given_up | (close & (rounding > 0.5 * gap)))
            self._hand_over(pending[lost])
            on = ~(good | spent | lost)
            share = 0.5 * promise / np.maximum(gap / np.abs(objective), promise)
            # Where outputs in double precision show a larger violation, fresh images may do.
            less = np.where(close, np.clip(share, 1e-3, 0.1), 1.0 if turn < 2 else 0.5)
            rounds.target[pending[on]] *= less[on]
            pending = pending[on]
            if not pending.size:
                return
        self._hand_over(pending)

    def refresh(self, places: np.ndarray) -> None:
        """Compute images in double precision from the rows, and certificates with them."""
        matrix, rounds, count = self.matrix, self.rounds, places.size
        lengths, far = np.full(count, -1.0), np.zeros(count)
        # As many problems at a time as have room for their coefficients of all rows.
        for first, last in chunks(count, max(1, int(4e9 // (16 * matrix.n)))):
            images, w = rounds.images(places[first:last], self.linear)
            if w is not None:
                self._keep_directions(places[first:last], w)
                lengths[first:last] = np.linalg.norm(w, axis=0)
                far[first:last] = np.abs(w.T) @ np.abs(matrix.shift)
            rounds.set_images(places[first:last], images)
        self.values[places] = rounds.certify(
            places, self.sizes_root, matrix.unit, lengths, far,
            self.options.promise(self.batch.tol),
        )  # fmt: skip

    def _keep_directions(self, places: np.ndarray, w: np.ndarray) -> None:
        """Keep the weight vectors of dual points."""
        if not self.directions.size:
            self.directions = np.zeros((len(self.bound), len(w)))
        self.directions[places] = w.T

    def _pieces(self, place: int, size: int) -> Pieces:
        g, k = divmod(place, self.batch.n_problems)
        cap, bound = self.cap[g, k, :size], self.bound[place]
        if np.isinf(bound):
            return svm_pieces(cap, np.abs(cap))
        prices = np.inf if self.prices is None else self.prices[g]
        return relaxed_margin_pieces(cap, np.abs(cap), bound, prices)

    def _hand_over(self, places: Sequence[int] | np.ndarray) -> None:
        """Solve problems on cores, from where they are."""
        for place in places:
            g, limit = place // self.batch.n_problems, self.batch.max_iter
            size = int(self.batch.sizes[g])
            taken = int(self.rounds.steps[place])
            found = solve_margin(
                self._columns(g, self.host_rows[g, :size]),
                self._pieces(place, size),
                tol=self.batch.tol,
                max_iter=limit if limit < 0 else max(0, limit - taken),
                start=self.rounds.line(place)[:size],
                polish=self.batch.polish,
                options=self.options,
            )
            m, M = found.bias_interval
            self.values[place] = (
                found.bias, found.scale, found.objective, found.dual_objective, found.rounding,
                m, M, np.abs(found.outputs).max(),
            )  # fmt: skip
            self.status[place] = STATUS.index(found.status)
            self.rounds.steps[place] += found.n_iter
            self.rounds.set_line(place, found.dual_coef, found.image)
            if found.direction is not None:
                self._keep_directions(np.array([place]), found.direction[:, None] / found.scale)

    def _columns(self, g: int, rows: np.ndarray) -> KernelMatrix:
        given, arrays = self.batch.matrix, self.matrix.arrays
        some = arrays.put(rows.astype(np.int64))
        if isinstance(given, GramTiles):
            return KernelMatrix(arrays.get(given.K[some][:, some]))
        kernel = given.kernel if self.batch.kernels is None else self.batch.kernels[g]
        return KernelMatrix.of_rows(kernel, arrays.get(given.X[some]), cache_bytes=self.cache_bytes)

    def _outputs(self) -> list[np.ndarray] | None:
        """Outputs of all models on the rows asked for."""
        batch, arrays = self.batch, self.matrix.arrays
        if batch.others is None:
            return None
        found = []
        for g, others in enumerate(batch.others):
            places = np.arange(g * batch.n_problems, (g + 1) * batch.n_problems)
            images, _ = self.rounds.images(places, self.linear)
            values = self.values[places]
            outputs = arrays.get(images[arrays.put(others.astype(np.int64))]).T
            found.append(values[:, SCALE, None] * outputs + values[:, BIAS, None])
        return found

    def _result(self) -> BatchResult:
        shape = (self.batch.n_groups, self.batch.n_problems)
        values = self.values.reshape(*shape, -1)
        coefs = self.rounds.c.copy_to_host().reshape(*shape, -1) * values[:, :, SCALE, None]
        bias, directions = values[:, :, BIAS], None
        if self.linear:
            directions = self.directions.reshape(*shape, -1) * values[:, :, SCALE, None]
            bias = bias - directions @ self.matrix.shift
        return BatchResult(
            coefs=[own[:, :size] for own, size in zip(coefs, self.batch.sizes)],
            bias=bias,
            scale=values[:, :, SCALE],
            objective=values[:, :, OBJECTIVE],
            dual_objective=values[:, :, DUAL],
            rounding=values[:, :, ROUNDING],
            violation=values[:, :, HIGH] - values[:, :, LOW],
            bound=self.bound.reshape(shape),
            theta=self.theta.reshape(shape),
            largest=values[:, :, LARGEST],
            n_iter=self.rounds.steps.reshape(shape),
            status=self.status.reshape(shape),
            source=self.source.reshape(shape),
            directions=directions,
            outputs=self._outputs(),
        )


def _different(batch: MarginBatch) -> tuple[list[Kernel], np.ndarray]:
    """Return the different kernels of the groups, and which each of them has."""
    every = batch.kernels or []
    kernels = list(dict.fromkeys(every))
    if isinstance(batch.matrix, RowTiles) and not kernels:
        kernels = [batch.matrix.kernel]
    return kernels, np.array([kernels.index(k) for k in every] or [0] * batch.n_groups)
