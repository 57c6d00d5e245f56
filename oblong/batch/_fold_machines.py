"""Kernel matrices of one fold, and the machines of every pair of classes on them.

The products of the rows (or their distances) are computed once a fold, the kernel matrix once
a gamma, and its blocks serve every pair of classes, penalty and spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong.batch._one_vs_one import pairs_of
from oblong.kernels import Kernel
from oblong.solvers._margin_whole import SharedColumns
from oblong.solvers.margin import MarginResult
from oblong.solvers.relative_margin_path import solve_relative_margin_path

__all__ = ["FoldKernel", "Machines", "solve_machines"]

# Above this number of training rows kernel matrices are kept in single precision.
_SINGLE_ABOVE = 4096
# Matrices of more rows than the solver takes as one block are not inverted; the others after so
# many Newton steps.
_INVERTED_UP_TO = 1024
_INVERTED_AFTER = 12


class FoldKernel:
    """Kernel matrices of one fold, of every gamma, from one product of its rows.

    Parameters
    ----------
    name : str or callable
        The kernel, as in :class:`~oblong.kernels.Kernel`.
    train, test : array or CSR matrix
        Rows of the two parts of the fold; for a precomputed kernel their kernel values against
        the training rows.
    """

    def __init__(self, name: Any, train: Any, test: Any) -> None:
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
        self._train = _product(rows, rows)
        self._test = _product(kernel.prepare(test, dtype, shift), rows)

    def matrices(self, kernel: Kernel) -> tuple[np.ndarray, np.ndarray]:
        """Kernel matrices (train, train) and (test, train) for one set of parameters."""
        return self._mapped(self._train, kernel), self._mapped(self._test, kernel)

    def _mapped(self, product: np.ndarray, kernel: Kernel) -> np.ndarray:
        if callable(self.name) or self.name in ("precomputed", "linear"):
            return product
        argument = np.multiply(product, product.dtype.type(kernel.gamma))
        if self.name == "rbf":
            return np.exp(argument, out=argument)
        argument += product.dtype.type(kernel.coef0)
        # The power needs its argument to the end, so that it cannot be overwritten.
        out = np.empty_like(argument)
        kernel.pointwise(argument, out, 0)
        return out


def _product(left: Any, right: Any) -> np.ndarray:
    """Products of prepared rows: scalar products, or minus the squared distances."""
    if not sp.issparse(left.left):
        return left.left @ right.right.T
    values = (left.left @ right.right.T).toarray()
    if left.half_norms is not None:
        values -= left.half_norms[:, None]
        values -= right.half_norms
    return values


@dataclass(frozen=True)
class Machines:
    """Machines of every pair of classes for a grid of penalties and spreads.

    Attributes
    ----------
    coefs : list of ndarray of shape (n_machines, n_pair)
        Coefficients of the rows of each pair: those of its first class, then of its second.
    biases : ndarray of shape (n_pairs, n_machines)
        Their biases.
    relative_margins : ndarray of shape (n_machines,)
        ``1 / max |f_i|`` on the training rows, averaged over the pairs.
    gap : float
        Largest relative gap of a machine that did not converge; NaN if all did.
    n_iter : int
        Steps of the solver in all.
    """

    coefs: list[np.ndarray]
    biases: np.ndarray
    relative_margins: np.ndarray
    gap: float
    n_iter: int

    def outputs(self, K: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Outputs on rows with kernel values ``K``, of shape (n_machines, n_rows, n_pairs)."""
        n_pairs, n_machines = self.biases.shape
        result = np.empty((n_pairs, n_machines, K.shape[0]))
        for place, (first, second) in enumerate(pairs_of(len(starts) - 1)):
            coef = self.coefs[place].astype(K.dtype, copy=False)
            a = slice(starts[first], starts[first + 1])
            b = slice(starts[second], starts[second + 1])
            split = a.stop - a.start
            result[place] = coef[:, :split] @ K[:, a].T
            result[place] += coef[:, split:] @ K[:, b].T
            result[place] += self.biases[place][:, None]
        return result.transpose(1, 2, 0)


def solve_machines(
    K: np.ndarray,
    starts: np.ndarray,
    penalties: np.ndarray,
    Cs: np.ndarray,
    spreads: np.ndarray,
    *,
    tol: float,
    max_iter: int,
    threads: int = 1,
) -> Machines:
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
        As in :func:`~oblong.solvers.relative_margin_path.solve_relative_margin_path`.
    threads : int, default=1
        Threads of the solver.

    Returns
    -------
    Machines
        One for each penalty and spread, the spread varying fastest.
    """
    coefs, biases, margins, gaps = [], [], [], []
    n_iter = 0
    for first, second in pairs_of(len(starts) - 1):
        block = _pair_block(K, starts, first, second)
        rows = np.r_[starts[first] : starts[first + 1], starts[second] : starts[second + 1]]
        y = np.ones(rows.size)
        y[starts[first + 1] - starts[first] :] = -1.0
        columns = SharedColumns(block, threads)
        path = None
        newton_steps, inverted = 0, rows.size > _INVERTED_UP_TO
        solved: list[MarginResult] = []
        for C in Cs:
            path = solve_relative_margin_path(
                columns,
                y,
                C * penalties[rows],
                spreads,
                tol=tol,
                max_iter=max_iter,
                near=path,
                polish=False,
            )
            solved += path.margins
            n_iter += path.n_iter
            newton_steps += sum(margin.n_newton for margin in path.margins)
            if not inverted and newton_steps >= _INVERTED_AFTER:
                columns.invert()
                inverted = True
        coefs.append(np.array([margin.coef for margin in solved]))
        biases.append([margin.bias for margin in solved])
        spread_out = np.abs([margin.outputs for margin in solved]).max(axis=1)
        margins.append(1.0 / np.maximum(spread_out, 1e-300))
        gaps += [margin.relative_gap for margin in solved if margin.status != "converged"]
    return Machines(
        coefs,
        np.array(biases),
        np.mean(margins, axis=0),
        max(gaps, default=float("nan")),
        n_iter,
    )


def _pair_block(K: np.ndarray, starts: np.ndarray, first: int, second: int) -> np.ndarray:
    """Copy the principal block of two classes, the rows of ``first`` in front."""
    parts = [slice(starts[k], starts[k + 1]) for k in (first, second)]
    sizes = [part.stop - part.start for part in parts]
    block = np.empty((sum(sizes), sum(sizes)), dtype=K.dtype)
    edges = (slice(0, sizes[0]), slice(sizes[0], None))
    for rows, into in zip(parts, edges):
        for columns, across in zip(parts, edges):
            block[into, across] = K[rows, columns]
    return block
