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
    from oblong.solvers.margin.batch.cuda_matrix import DeviceMatrix

__all__ = ["newton_steps", "solve_definite"]

# Ridge, over the mean diagonal, of matrices in either precision.
_RIDGE = {"float32": 1e-6, "float64": 1e-10}


def newton_steps(state: _Rounds, active: np.ndarray, largest: int) -> None:
    """Solve ``K_FF d + β 1 = σ - u_F, 1'd = 0`` and move along ``d`` by an exact line search.

    ``F`` are the coefficients strictly inside a piece of slope ``σ``; problems with more than
    ``largest`` of them are left out. The curvature is measured with the image of the direction, so
    that no error in it makes the dual objective fall.
    """
    options = state.options
    if state.free is None:
        state.free = cuda.to_device(np.zeros(state.shape, dtype=np.int32))
        state.image = cuda.to_device(np.zeros(state.shape))
        state.rise = cuda.to_device(np.zeros(state.shape[0]))
        state.n_free = cuda.to_device(np.zeros(state.shape[0], dtype=np.int32))
    part = cuda.to_device(active.astype(np.int32))
    state.by_problem(
        kernels.find_free, part, state.sizes, state.cap, state.bound, state.c, state.free,
        state.n_free,
    )  # fmt: skip
    sizes = state.n_free.copy_to_host()[active]
    fits = (sizes >= 2) & (sizes <= largest)
    order = np.argsort(sizes[fits], kind="stable")
    active, sizes = active[fits][order], sizes[fits][order]
    while active.size:
        # Problems of about the same size share a batch of matrices.
        widest = -(-int(sizes[-1]) // options.panel) * options.panel
        most = max(1, int(options.newton_bytes // (state.matrix.dtype.itemsize * widest**2)))
        count = min(most, int(np.count_nonzero(sizes > widest // 2 - options.panel)))
        _step(state, active[-count:], widest)
        active, sizes = active[:-count], sizes[:-count]


def _step(state: _Rounds, active: np.ndarray, width: int) -> None:
    options, matrix = state.options, state.matrix
    part = cuda.to_device(active.astype(np.int32))
    A = matrix.arrays.empty((active.size, width, width), matrix.dtype)
    rhs = matrix.arrays.empty((active.size, width, 2), matrix.dtype)
    ridge = _RIDGE[matrix.dtype.name] * float(np.abs(matrix.diagonal).mean())
    launch(
        kernels.gather, (-(-width // options.tile), min(width, 1024), active.size), options.tile,
        matrix.stream, part, state.rows, state.cap, state.bound, state.c, state.u, state.span,
        state.free, state.n_free, matrix.store, matrix.lines, ridge, A, rhs,
    )  # fmt: skip
    solution = solve_definite(matrix, options.panel, A, rhs)
    state.by_problem(
        kernels.direct, part, state.rows, state.cap, state.bound, state.c, state.u, state.free,
        state.n_free, matrix.lines, solution, state.moved, state.delta, state.moves, state.rise,
    )  # fmt: skip
    state.by_row(kernels.clear, part, state.sizes, state.image)
    state.add_columns(part, state.image)
    state.by_problem(
        kernels.walk, part, state.sizes, state.cap, state.bound, state.c, state.u, state.image,
        state.free, state.delta, state.moves, state.rise,
    )  # fmt: skip


def solve_definite(matrix: DeviceMatrix, panel: int, A: Any, rhs: Any) -> Any:
    """Solve positive definite systems by blocks of ``panel`` columns; both are overwritten."""
    count, width, _ = A.shape
    inverses = []
    parts = list(chunks(width, panel))
    for first, last in parts:
        inverse = matrix.arrays.empty((count, panel, panel), matrix.dtype)
        launch(kernels.factor_panel, count, panel, matrix.stream, A, first, inverse)
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
