"""Newton steps on a CUDA device, on all free coefficients of many problems at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import cuda

from oblong._core.threads import chunks
from oblong.solvers.margin.batch import cuda_kernels as kernels
from oblong.solvers.margin.batch.cuda_matrix import launch

if TYPE_CHECKING:
    from oblong.solvers.margin.batch.cuda import _Rounds

__all__ = ["newton_steps"]

# Ridge, over the mean diagonal, of matrices in single precision.
_RIDGE = 1e-6


def newton_steps(state: _Rounds, active: np.ndarray) -> None:
    """Solve ``K_FF d + β 1 = σ - u_F, 1'd = 0`` and move along ``d`` by an exact line search.

    ``F`` are the coefficients strictly inside a piece of slope ``σ``. The curvature is measured
    with the image of the direction, so that no error in it makes the dual objective fall.
    """
    options, matrix = state.options, state.matrix
    part = cuda.to_device(active.astype(np.int32))
    free = cuda.to_device(np.zeros(state.shape, dtype=np.int32))
    counts = cuda.to_device(np.zeros(state.shape[0], dtype=np.int32))
    launch(
        kernels.find_free, part.size, options.working_set, matrix.stream,
        part, state.sizes, state.cap, state.bound, state.c, free, counts,
    )  # fmt: skip
    sizes = counts.copy_to_host()[active]
    active = active[(sizes >= 2) & (sizes <= options.newton_rows)]
    sizes = counts.copy_to_host()[active]
    order = np.argsort(sizes, kind="stable")
    active, sizes = active[order], sizes[order]
    while active.size:
        # Problems of about the same size share a batch of matrices.
        widest = -(-int(sizes[-1]) // options.panel) * options.panel
        count = max(1, int(options.newton_bytes // (4 * widest**2)))
        count = min(count, int(np.count_nonzero(sizes > 0.7 * widest - options.panel)))
        _step(state, active[-count:], widest, free, counts)
        active, sizes = active[:-count], sizes[:-count]


def _step(state: _Rounds, active: np.ndarray, width: int, free: Any, counts: Any) -> None:
    options, matrix, stream = state.options, state.matrix, state.matrix.stream
    part = cuda.to_device(active.astype(np.int32))
    A = matrix.arrays.empty((active.size, width, width), np.float32)
    rhs = matrix.arrays.empty((active.size, width, 2), np.float32)
    ridge = _RIDGE * float(np.abs(matrix.diagonal).mean())
    launch(
        kernels.gather, (-(-width // options.tile), min(width, 1024), active.size), options.tile,
        stream, part, state.rows, state.cap, state.bound, state.c, state.u, state.span, free,
        counts, matrix.store, matrix.lines, ridge, A, rhs,
    )  # fmt: skip
    solution = _solve(state, A, rhs)
    rise = cuda.to_device(np.zeros(state.shape[0]))
    launch(
        kernels.direct, part.size, options.working_set, stream,
        part, state.rows, state.cap, state.bound, state.c, state.u, free, counts, matrix.lines,
        solution, state.moved, state.delta, state.moves, rise,
    )  # fmt: skip
    image = cuda.to_device(np.zeros(state.shape))
    state.add_columns(part, image)
    launch(
        kernels.walk, part.size, options.working_set, stream,
        part, state.sizes, state.cap, state.bound, state.c, state.u, image, free, state.delta,
        state.moves, rise,
    )  # fmt: skip


def _solve(state: _Rounds, A: Any, rhs: Any) -> Any:
    """Solve positive definite systems by blocks, one factor per problem; A is overwritten."""
    panel, (count, width, _) = state.options.panel, A.shape
    inverses = []
    parts = list(chunks(width, panel))
    for first, last in parts:
        inverse = state.matrix.arrays.empty((count, panel, panel), np.float32)
        launch(kernels.factor_panel, count, panel, state.matrix.stream, A, first, inverse)
        inverses.append(inverse)
        if last < width:
            below = A[:, last:, first:last] @ inverse.swapaxes(1, 2)
            A[:, last:, first:last] = below
            A[:, last:, last:] -= below @ below.swapaxes(1, 2)
    for (first, last), inverse in zip(parts, inverses):
        rest = rhs[:, first:last] - A[:, first:last, :first] @ rhs[:, :first]
        rhs[:, first:last] = inverse @ rest
    for (first, last), inverse in zip(parts[::-1], inverses[::-1]):
        rest = rhs[:, first:last] - A[:, last:, first:last].swapaxes(1, 2) @ rhs[:, last:]
        rhs[:, first:last] = inverse.swapaxes(1, 2) @ rest
    return rhs
