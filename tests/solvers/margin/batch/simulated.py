"""Small problems on Numba's CUDA simulator, next to the same on cores.

Run as a program, because the simulator has to be chosen before Numba is imported. Prints JSON.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from numba.cuda.simulator.kernel import BlockManager, BlockThread

from oblong import RelativeMarginClassifier, RelativeMarginClassifierCV
from oblong.batch import _device, relative_margin
from oblong.kernels import Kernel
from oblong.solvers.margin.batch import cuda_bounds
from oblong.solvers.margin.batch.cuda import solve_batch_on_device
from oblong.solvers.margin.batch.cuda_bounds import solve_bounds_on_device
from oblong.solvers.margin.batch.cuda_certificate import balance
from oblong.solvers.margin.batch.cuda_interior_point import BoxSolver
from oblong.solvers.margin.batch.cuda_kernels import clear
from oblong.solvers.margin.batch.cuda_matrix import DeviceArrays, DeviceRows
from oblong.solvers.margin.batch.cuda_newton import factor_panel, solve_definite, walk
from oblong.solvers.margin.batch.cuda_options import CudaOptions
from oblong.solvers.margin.batch.cuda_reduce import THREADS
from oblong.solvers.margin.batch.cuda_rounds import Rounds
from oblong.solvers.margin.batch.problem import GramTiles, MarginBatch, RowTiles
from oblong.solvers.margin.batch.solve import solve_batch

SMALL = CudaOptions(
    working_set=4, tile=4, panel=2, look=2, newton_after=4, newton_every=4, newton_late=100
)
# One round of pair steps: all else is left to the interior point method.
INSIDE = replace(
    SMALL,
    interior_after=1,
    interior_patience=1,
    look=1,
    newton_after=1000,
    landmarks=2,
    landmarks_miss=1.0,
)
# Six columns of the eight-byte numbers of twelve rows, of a gigabyte that the simulator has.
CACHED = CudaOptions(
    working_set=4, tile=4, look=2, memory_share=6 * 12 * 8 / 2**30, sample_above=8, sample_step=2
)


class Turns(BlockThread):
    """A thread that runs to the next barrier, or to its end, when it is its turn."""

    ended = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.turn, self.waiting = threading.Lock(), threading.Lock()
        self.turn.acquire(), self.waiting.acquire()

    def go(self) -> None:
        """Let the thread run, and wait for it."""
        self.turn.release()
        self.waiting.acquire()
        if self.exception:
            raise self.exception[0].with_traceback(self.exception[1])

    def syncthreads(self) -> None:
        self.waiting.release()
        self.turn.acquire()

    def run(self) -> None:
        self.turn.acquire()
        super().run()
        self.ended = True
        self.waiting.release()


def run_in_turns(block: BlockManager, place: tuple[int, ...], *arguments: Any) -> None:
    """Run the threads of a block one after the other from barrier to barrier, there and back.

    The simulator's own loop asks all threads again and again whether they wait, which takes ten
    times as long. Here the order is the same in every run, and so is what a missing barrier does.
    """
    threads = [
        Turns(partial(block._f, *arguments), block, place, own, block._debug)
        for own in np.ndindex(*block._block_dim)
    ]
    for thread in threads:
        thread.start()
    while threads:
        for thread in threads:
            thread.go()
        threads = [thread for thread in reversed(threads) if not thread.ended]


def parts(rng: np.random.Generator) -> dict[str, float]:
    """Largest errors of kernel values, of a factor and of the solution of a system."""
    X = rng.normal(size=(5, 2))
    errors = {}
    for kernel in (Kernel("poly", 0.7, 3, 1.0), Kernel("sigmoid", 0.2, 3, 0.1), Kernel("rbf", 2.0)):
        rows = DeviceRows(RowTiles(kernel, X))
        errors[str(kernel.name)] = np.abs(rows.values(X[:3]) - kernel(X[:3], X)).max()
    A = rng.normal(size=(2, 4, 4))
    A = A @ A.swapaxes(1, 2) + np.eye(4)
    factored, inverse, rhs = A.copy(), np.empty((2, 2, 2)), rng.normal(size=(2, 4, 2))
    factor_panel[2, 2](factored, 2, inverse)
    L = np.linalg.cholesky(A[:, 2:, 2:])
    errors["factor"] = np.abs(np.tril(factored[:, 2:, 2:]) - L).max()
    errors["inverse"] = np.abs(inverse - np.linalg.inv(L)).max()
    c, sizes = np.array([[0.5, -0.3, 1.0]]), np.array([3])
    caps, none = np.array([[1.0, -1.0, 1.0]]), np.array([np.inf])
    balance[1, 4](np.array([0]), sizes, caps, none, none, c)
    # A coefficient at its end stays there.
    errors["balance"] = np.abs(c - [[-0.7, -0.3, 1.0]]).max()
    clear[1, THREADS // 256](np.array([0]), sizes, c)
    errors["clear"] = np.abs(c).max()
    # A long step of a support vector machine ends at the caps, not just beyond, where a bound that
    # comes later lets coefficients go.
    active, c, caps = np.array([0]), np.array([[0.5, -0.5]]), np.array([[1.0, -1.0]])
    delta = np.array([[1.0, -1.0]])
    walk[1, 2](
        active, np.array([2]), caps, none, np.full((1, 2), 1e-3), c, np.zeros((1, 2)),
        1e-8 * delta, np.array([[0, 1]]), delta, np.array([2]), np.array([2.0]),
    )  # fmt: skip
    errors["walk"] = np.abs(c - caps).max()
    matrix = SimpleNamespace(arrays=DeviceArrays(A), dtype=A.dtype, stream=0)
    solution = solve_definite(matrix, 2, A.copy(), rhs.copy())
    errors["solution"] = np.abs(solution - np.linalg.solve(A, rhs)).max()
    return errors


def counted(owner: type, name: str) -> list[str]:
    """Note every call of a method."""
    calls, method = [], getattr(owner, name)

    def noted(self: object, *arguments: object) -> object:
        calls.append(name)
        return method(self, *arguments)

    setattr(owner, name, noted)
    return calls


def two_folds(X: np.ndarray, gammas: Sequence[float], options: CudaOptions) -> dict[str, float]:
    """Two folds, each with its own penalties, in one batch, and one by one on cores."""
    kernels = [Kernel("rbf", gamma) for gamma in gammas]
    segments = np.array([[[0, 6], [6, 10]], [[2, 6], [6, 12]]])
    signs, penalties = np.array([[1.0, -1.0]] * 2), np.array([[1.0] * 12, [0.5] * 12])
    others = [np.array([10, 11]), np.array([0, 1])]
    batch = MarginBatch(
        RowTiles(kernels[0], X), segments, signs, penalties, np.array([2.0]), np.array([]),
        tol=1e-4, others=others, kernels=kernels,
    )  # fmt: skip
    device = solve_batch_on_device(batch, device=options)
    errors = {"converged": bool((device.status == 0).all()), "steps": int(device.n_iter.sum())}
    for g, kernel in enumerate(kernels):
        one = MarginBatch(
            RowTiles(kernel, X), segments[g : g + 1], signs[:1], penalties[g], np.array([2.0]),
            np.array([]), tol=1e-4,
        )  # fmt: skip
        cores = solve_batch(one)
        outputs = kernel(X[others[g]], X[one.rows(0)]) @ cores.coefs[0][0] + cores.bias[0, 0]
        errors[f"dual {g}"] = abs(device.dual_objective[g, 0] / cores.dual_objective[0, 0] - 1.0)
        errors[f"outputs {g}"] = float(np.abs(device.outputs[g][0] - outputs).max())
    return errors


def search(X: np.ndarray) -> float:
    """Largest difference between the results of a search by one batch and by folds on cores."""
    y = np.tile([0, 1, 2], 4)
    settings = {"Cs": (2.0,), "spreads": (1.0, 0.5), "cv": 2, "class_weight": "balanced"}
    models = [RelativeMarginClassifierCV(**settings, fold_tol=1e-3, refit=False) for _ in range(2)]
    models[0].fit(X, y)
    models[1]._rows_on_device = X
    with patch.object(_device, "solve_batch", partial(solve_batch_on_device, device=SMALL)):
        models[1]._fit(X, y, None, None)
    names = ("mean_test_score", "mean_relative_margin")
    here, there = (np.array([model.cv_results_[name] for name in names]) for model in models)
    return float(np.abs(here - there).max())


def bounds(X: np.ndarray) -> dict[str, dict[str, float]]:
    """Bounds with a price: differences between all pairs side by side and one by one on cores."""
    weights, found = np.linspace(0.5, 1.5, 12), {}
    on_device = partial(solve_bounds_on_device, device=SMALL)
    for kernel, classes, nu in (("rbf", 2, None), ("linear", 3, 4.0)):
        y = np.arange(12) % classes
        Z = X + np.eye(3)[y, :2]
        settings = {"kernel": kernel, "C": 5.0, "D": 0.05, "nu": nu}
        here, there = (RelativeMarginClassifier(**settings) for _ in range(2))
        here.fit(Z, y, weights)
        there._rows_on_device = Z
        with (
            patch.object(cuda_bounds, "solve_bounds_on_device", on_device),
            patch.object(relative_margin, "solve_variable_bound", None),
        ):
            there._fit(Z, y, weights)
        found[kernel] = {
            "converged": there.converged_,
            "gap": there.dual_gap_.max(),
            "bounds above one": int((here.B_ > 1.01).sum()),
            "objective": np.abs(there.objective_ / here.objective_ - 1.0).max(),
            "theta": np.abs(there.theta_ - here.theta_).max(),
            "outputs": np.abs(there._outputs(Z) - here._outputs(Z)).max(),
        }
    return found


def main() -> None:
    BlockManager.run = run_in_turns
    made, taken = counted(BoxSolver, "__init__"), counted(Rounds, "_interior_point")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2)) + np.repeat([[1.0, 0.5], [-0.5, 0.0]], 6, axis=0)
    rbf, linear = Kernel("rbf", 0.5), Kernel("linear")
    rows = {
        "rbf, Newton steps": (RowTiles(rbf, X), [2.0], SMALL),
        "linear": (RowTiles(linear, X), [0.5], replace(SMALL, working_set=16)),
        "interior point": (RowTiles(rbf, X), [2.0, 100.0], INSIDE),
        "precomputed": (GramTiles(rbf(X), True), [1.0], replace(SMALL, working_set=16)),
    }
    found: dict[str, Any] = {"parts": parts(rng), "search": search(X)}
    for name, (matrix, Cs, options) in rows.items():
        made.clear(), taken.clear()
        batch = MarginBatch(
            matrix, np.array([[[0, 6], [6, 12]]]), np.array([[1.0, -1.0]]),
            np.linspace(0.5, 1.5, 12), np.array(Cs), np.array([0.5] if "rbf" in name else []),
            tol=1e-4,
        )  # fmt: skip
        device, cores = solve_batch_on_device(batch, device=options), solve_batch(batch)
        found[name] = {
            "converged": bool((device.status == 0).all()),
            "gap": float(device.relative_gap.max()),
            "violation": float(device.violation.max()),
            "dual": (device.dual_objective[0, -1] / cores.dual_objective[0, -1] - 1.0),
            "steps": int(device.n_iter.sum()),
            "interior point": bool(made and taken),
            "bias": device.bias[0, -1] - cores.bias[0, -1],
            "sum": float(np.abs(device.coefs[0].sum(axis=1)).max()),
        }
    found["cached columns"] = two_folds(X, (0.5, 0.5), CACHED)
    found["two matrices"] = two_folds(X, (0.5, 0.52), INSIDE)
    found["bounds"] = bounds(X)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
