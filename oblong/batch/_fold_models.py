"""Kernel matrices of one fold, and the models of every pair of classes on them.

The products of the rows (or their distances) are computed once per fold, the kernel matrix once
per gamma, and its blocks serve every pair of classes, penalty and spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong.batch._one_vs_one import pairs_of
from oblong.kernels import Kernel, KernelRows, distant_squares
from oblong.solvers.margin.grid import MarginGrid, solve_margin_grid
from oblong.solvers.margin.path import solve_relative_margin_path
from oblong.solvers.margin.small import SharedColumns
from oblong.solvers.margin.solver import MarginResult

__all__ = ["FoldKernel", "PairModels", "solve_pairs"]

# Above this number of training rows kernel matrices are kept in single precision.
_SINGLE_ABOVE = 4096
# Up to this number of rows the matrix of a pair is one block.
_ONE_BLOCK = 1024


class FoldKernel:
    """Kernel matrices of one fold, of every gamma, from one product of its rows.

    Parameters
    ----------
    name : str or callable
        The kernel, as in :class:`~oblong.kernels.Kernel`.
    train, test : array or CSR matrix
        Rows of the two parts of the fold; for a precomputed kernel their kernel values against
        the training rows.
    gamma : float, default=1.0
        The largest that will be asked for, at which rounding shows most.
    """

    def __init__(self, name: Any, train: Any, test: Any, gamma: float = 1.0) -> None:
        self.name = name
        dtype = np.float32 if train.shape[0] > _SINGLE_ABOVE else np.float64
        if callable(name) or name == "precomputed":
            kernel = Kernel(name)
            rows = kernel.prepare(train, dtype)
            both = (
                (train, test)
                if name == "precomputed"
                else (
                    kernel.block(rows, rows),
                    kernel.block(kernel.prepare(test, dtype), rows),
                )
            )
            self._train, self._test = (np.asarray(part, dtype=dtype) for part in both)
            return
        # With gamma = 1 and no constant, the product is all that the pointwise map needs.
        kernel = Kernel("rbf" if name == "rbf" else "linear")
        dense = not sp.issparse(train)
        shift = train.mean(axis=0) if dense and Kernel(name).shift_invariant else None
        rows = kernel.prepare(train, dtype, shift)
        self._train = _product(rows, rows, gamma)
        self._test = _product(kernel.prepare(test, dtype, shift), rows, gamma)

    def matrices(self, kernel: Kernel, last: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Kernel matrices (train, train) and (test, train) for one set of parameters.

        ``last`` says that nothing more will be asked for, so that memory can be used again.
        """
        return self._mapped(self._train, kernel, last), self._mapped(self._test, kernel, last)

    def _mapped(self, product: np.ndarray, kernel: Kernel, last: bool) -> np.ndarray:
        if callable(self.name) or self.name in ("precomputed", "linear"):
            return product
        argument = np.multiply(
            product, product.dtype.type(kernel.gamma), out=product if last else None
        )
        if self.name == "rbf":
            kernel.pointwise(argument, argument, 0)
            return argument
        argument += product.dtype.type(kernel.coef0)
        # The power needs its argument to the end, so that it cannot be overwritten.
        out = np.empty_like(argument)
        kernel.pointwise(argument, out, 0)
        return out


def _product(left: KernelRows, right: KernelRows, gamma: float) -> np.ndarray:
    """Products of prepared rows: scalar products, or minus the squared distances."""
    if left.is_coarse(gamma) or right.is_coarse(gamma):
        return (-0.5 * distant_squares(left, right)).astype(left.left.dtype, copy=False)
    if not sp.issparse(left.left):
        return left.left @ right.right.T
    values = (left.left @ right.right.T).toarray()
    if left.half_norms is not None:
        values -= left.half_norms[:, None]
        values -= right.half_norms
    return values


@dataclass(frozen=True)
class PairModels:
    """Models of every pair of classes for a grid of penalties and spreads.

    Attributes
    ----------
    pairs : list of MarginGrid
        Those of each pair, with coefficients of the rows of its first class, then of its second.
    relative_margins : ndarray of shape (n_models,)
        ``1 / max |f_i|`` on the training rows, averaged over the pairs.
    gap : float
        Largest relative gap of a model that did not converge; NaN if all did.
    n_iter : int
        Steps of the solver in all.
    """

    pairs: list[MarginGrid]
    relative_margins: np.ndarray
    gap: float
    n_iter: int

    def outputs(self, K: np.ndarray, starts: np.ndarray) -> list[np.ndarray]:
        """Outputs of the models that differ, on rows with kernel values ``K``.

        For each pair they have the shape (n_different, n_rows).
        """
        pairs = pairs_of(len(starts) - 1)
        result = [np.repeat(pair.biases[:, None], len(K), axis=1) for pair in self.pairs]
        for cls in range(len(starts) - 1):
            rows = slice(starts[cls], starts[cls + 1])
            size = rows.stop - rows.start
            mine = [place for place, pair in enumerate(pairs) if cls in pair]
            # One product for all pairs of a class instead of many small ones.
            coefs = np.concatenate(
                [
                    self.pairs[k].coefs[:, :size]
                    if pairs[k][0] == cls
                    else self.pairs[k].coefs[:, -size:]
                    for k in mine
                ]
            )
            values = coefs.astype(K.dtype, copy=False) @ K[:, rows].T
            start = 0
            for k in mine:
                stop = start + len(result[k])
                result[k] += values[start:stop]
                start = stop
        return result


def solve_pairs(
    K: np.ndarray,
    starts: np.ndarray,
    penalties: np.ndarray,
    Cs: np.ndarray,
    spreads: np.ndarray,
    *,
    tol: float,
    max_iter: int,
    threads: int = 1,
    definite: bool = False,
) -> PairModels:
    """Solve all pairs of classes for every penalty and spread.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel matrix of rows sorted by class.
    starts : ndarray of shape (n_classes + 1,)
        Where each class starts, and the last one ends.
    penalties : ndarray of shape (n,)
        Factors of ``C`` by row.
    Cs : ndarray
        Penalties, ascending.
    spreads : ndarray
        Spreads.
    tol, max_iter
        As in :func:`~oblong.solvers.margin.path.solve_relative_margin_path`.
    threads : int, default=1
        Threads of the solver.
    definite : bool, default=False
        Whether the matrix is positive semidefinite but for rounding.

    Returns
    -------
    PairModels
        One for each penalty and spread, the spread varying fastest.
    """
    pairs, margins, gaps = [], [], []
    n_iter = 0
    largest = int(np.sort(np.diff(starts))[-2:].sum())
    # All pairs share the memory: touching fresh memory takes longer than filling it.
    memory = np.empty(largest**2, dtype=K.dtype)
    weights = np.empty(largest**2, dtype=np.float32)
    for first, second in pairs_of(len(starts) - 1):
        rows = np.r_[starts[first] : starts[first + 1], starts[second] : starts[second + 1]]
        n = rows.size
        block = memory[: n**2].reshape(n, n)
        _fill_block(K, starts, first, second, block)
        y = np.ones(n)
        y[starts[first + 1] - starts[first] :] = -1.0
        columns = SharedColumns(block, threads, weights)
        columns.definite = definite
        if columns.block is not None and n <= _ONE_BLOCK:
            pair = solve_margin_grid(
                columns, y, penalties[rows], Cs, spreads, tol=tol, max_iter=max_iter
            )
        else:
            pair = _solve_apart(columns, y, penalties[rows], Cs, spreads, tol, max_iter)
        pairs.append(pair)
        margins.append(1.0 / np.maximum(pair.largest[pair.which.ravel()], 1e-300))
        gaps.append(pair.gap)
        n_iter += pair.n_iter
    gap = float("nan") if np.isnan(gaps).all() else float(np.nanmax(gaps))
    return PairModels(pairs, np.mean(margins, axis=0), gap, n_iter)


def _solve_apart(
    columns: SharedColumns,
    y: np.ndarray,
    penalties: np.ndarray,
    Cs: np.ndarray,
    spreads: np.ndarray,
    tol: float,
    max_iter: int,
) -> MarginGrid:
    """Solve the models of one pair whose matrix is too large for one block."""
    path = None
    n_iter = 0
    solved: list[MarginResult] = []
    unfinished = []
    for C in Cs:
        path = solve_relative_margin_path(
            columns,
            y,
            C * penalties,
            spreads,
            tol=tol,
            max_iter=max_iter,
            near=path,
            polish=False,
        )
        solved += path.margins
        # The support vector machine sets the scale of the bounds.
        every = (path.svm, *path.margins)
        unfinished += [margin.relative_gap for margin in every if margin.status != "converged"]
        n_iter += path.n_iter
    return MarginGrid(
        np.array([margin.coef for margin in solved]),
        np.arange(len(solved)).reshape(len(Cs), len(spreads)),
        np.array([margin.bias for margin in solved]),
        np.array([np.abs(margin.outputs).max() for margin in solved]),
        max(unfinished, default=float("nan")),
        n_iter,
    )


def _fill_block(
    K: np.ndarray, starts: np.ndarray, first: int, second: int, block: np.ndarray
) -> None:
    """Copy the principal block of two classes, the rows of ``first`` in front."""
    parts = [slice(starts[k], starts[k + 1]) for k in (first, second)]
    split = parts[0].stop - parts[0].start
    edges = (slice(0, split), slice(split, None))
    for rows, into in zip(parts, edges):
        for columns, across in zip(parts, edges):
            block[into, across] = K[rows, columns]
