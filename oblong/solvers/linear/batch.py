"""Many linear problems over the same rows at once: one class against the rest, or pairs.

Every problem is a support vector machine, perhaps with a bound on its outputs::

    min ½|w|² + Σ C_i h(y_i f_i),  f_i = w·x_i + b,  |f_i| <= B,  h(m) = [1 - m]_+ or its square.

A row matters to a problem only near its margin, and in one-vs-rest each row does to a few problems,
however many classes there are. So the work is a few passes, in each of which one product gives the
outputs of all problems, and coordinate descent of each problem on the rows that the passes found
(:mod:`oblong.solvers.linear.batch_descent`, C++). The dual point of the descent and the outputs of
the weights as they are stored, in double precision, prove how far each problem is from its minimum.
"""

from __future__ import annotations

import numpy as np

from oblong._core.progress import ProgressCallback
from oblong._core.threads import own_threads_only
from oblong.solvers.linear.batch_problem import (
    DEFAULTS,
    BatchOptions,
    LinearBatch,
    LinearBatchResult,
)
from oblong.solvers.linear.batch_rounds import Search


@own_threads_only()
def solve_linear_batch(
    batch: LinearBatch,
    *,
    B: float | None = None,
    spread: float = 1.0,
    tol: float = 1e-4,
    max_iter: int = 1000,
    threads: int = 1,
    seed: int = 0,
    progress: ProgressCallback | None = None,
    options: BatchOptions = DEFAULTS,
) -> LinearBatchResult:
    """Solve many linear problems over the same rows.

    Parameters
    ----------
    batch : LinearBatch
        The problems.
    B : float, default=None
        Bound on the outputs of all problems, at least one; for the hinge alone.
    spread : float, default=1.0
        Without ``B``: the bound of each problem is ``1 + spread (theta - 1)``, where ``theta`` is
        the largest absolute output of its support vector machine.
    tol : float, default=1e-4
        Largest relative gap between the primal and the dual objective.
    max_iter : int, default=1000
        Limit on the epochs of each problem; -1 for none.
    threads : int, default=1
        Threads, which share the problems and the rows; the result does not depend on them.
    seed : int, default=0
        Seed of samples and random orders.
    progress : callable, default=None
        Called after every pass.
    options : BatchOptions
        Tuning constants.

    Returns
    -------
    LinearBatchResult
        The solutions.
    """
    least = options.single_gap
    if B is not None or spread < 1.0:
        least = options.single_bounded_gap
    search = Search(batch, tol, max_iter, threads, seed, progress, options, tol >= least)
    search.start()
    everything = list(range(len(batch.problems)))
    theta = np.full(len(everything), np.nan)
    bounds = np.full(len(everything), np.inf)
    if B is None:
        search.solve(everything, "svm", tol)
        theta = np.array([search.state(k).largest for k in everything])
        bounds = np.maximum(1.0, 1.0 + spread * (theta - 1.0))
        bounded = np.flatnonzero(theta > bounds).tolist()
    else:
        search.solve(everything, "svm", max(tol, 1e-2))
        bounds[:] = B
        bounded = everything
    if bounded:
        search.bound(bounded, bounds)
        search.solve(bounded, "relative margin", tol)
    search.certify(everything, tol)
    states = [search.state(k) for k in everything]
    if B is None and spread >= 1.0:
        # Of the weights as they are stored.
        theta = np.array([state.largest for state in states])
        bounds = np.maximum(1.0, theta)
    coef = np.empty((len(everything), batch.X.shape[1]))
    for k, row in enumerate(coef):
        search.native.read_weights(k, row)
    gaps = [state.primal - state.dual for state in states]
    status = [
        "converged" if gap <= tol * state.primal else search.why(k)
        for k, (gap, state) in enumerate(zip(gaps, states))
    ]
    return LinearBatchResult(
        coef,
        np.array([state.bias for state in states]),
        np.array([state.primal for state in states]),
        np.array([state.dual for state in states]),
        bounds,
        theta,
        np.array([state.largest for state in states]),
        np.array([state.epochs for state in states]),
        tuple(status),
        search.passes,
    )
