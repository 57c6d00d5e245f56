"""Kernel matrices of the folds of a search, and the models of every pair of classes on them.

The products of the rows (or their distances) are computed once, the kernel matrix once per fold and
gamma, and its blocks serve every pair of classes, penalty and spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong.batch._one_vs_one import pairs_of
from oblong.kernels import Kernel, KernelRows, distant_squares
from oblong.solvers.margin.batch.problem import GramTiles, MarginBatch
from oblong.solvers.margin.batch.solve import solve_batch

__all__ = ["PairModels", "SearchKernel", "solve_pairs"]

# Above this number of rows kernel matrices are kept in single precision.
_SINGLE_ABOVE = 4096


class SearchKernel:
    """Kernel matrices of every fold and gamma, from one product of all rows.

    Parameters
    ----------
    name : str or callable
        The kernel, as in :class:`~oblong.kernels.Kernel`.
    X : array or CSR matrix
        All rows, or their kernel matrix for a precomputed kernel.
    gamma : float, default=1.0
        The largest that will be asked for, at which rounding shows most.
    """

    def __init__(self, name: Any, X: Any, gamma: float = 1.0) -> None:
        self.name = name
        dtype = np.float32 if X.shape[0] > _SINGLE_ABOVE else np.float64
        # With gamma = 1 and no constant, the product is all that the pointwise map needs.
        named = isinstance(name, str) and name != "precomputed"
        kernel = Kernel(("rbf" if name == "rbf" else "linear") if named else name)
        if not named:
            rows = kernel.prepare(X, dtype)
            values = X if name == "precomputed" else kernel.block(rows, rows)
            self._values = np.asarray(values, dtype=dtype)
            return
        dense = not sp.issparse(X)
        shift = X.mean(axis=0) if dense and Kernel(name).shift_invariant else None
        rows = kernel.prepare(X, dtype, shift)
        self._values = _product(rows, rows, gamma)

    def matrices(
        self, kernel: Kernel, train: np.ndarray, test: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Kernel matrices (train, train) and (test, train) of one fold."""
        return self._mapped(kernel, train, train), self._mapped(kernel, test, train)

    def _mapped(self, kernel: Kernel, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        values = self._values[rows][:, columns]
        if callable(self.name) or self.name in ("precomputed", "linear"):
            return values
        values *= values.dtype.type(kernel.gamma)
        if self.name == "rbf":
            kernel.pointwise(values, values, 0)
            return values
        values += values.dtype.type(kernel.coef0)
        # The power needs its argument to the end, so that it cannot be overwritten.
        out = np.empty_like(values)
        kernel.pointwise(values, out, 0)
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
    coefs : list of ndarray of shape (n_different, n_rows)
        For each pair the coefficients of the models that differ, of the rows of its first class,
        then of its second.
    biases : list of ndarray of shape (n_different,)
        Their biases.
    which : ndarray of shape (n_pairs, n_models)
        Which of them each model is.
    relative_margins : ndarray of shape (n_models,)
        ``1 / max |f_i|`` on the training rows, averaged over the pairs.
    gap : float
        Largest relative gap of a model that did not converge; NaN if all did.
    n_iter : int
        Steps of the solver in all.
    """

    coefs: list[np.ndarray]
    biases: list[np.ndarray]
    which: np.ndarray
    relative_margins: np.ndarray
    gap: float
    n_iter: int

    def outputs(self, K: np.ndarray, starts: np.ndarray) -> list[np.ndarray]:
        """Outputs of the models that differ, on rows with kernel values ``K``.

        For each pair they have the shape (n_different, n_rows).
        """
        pairs = pairs_of(len(starts) - 1)
        result = [np.repeat(biases[:, None], len(K), axis=1) for biases in self.biases]
        for cls in range(len(starts) - 1):
            rows = slice(starts[cls], starts[cls + 1])
            size = rows.stop - rows.start
            mine = [place for place, pair in enumerate(pairs) if cls in pair]
            # One product for all pairs of a class instead of many small ones.
            coefs = np.concatenate(
                [
                    self.coefs[k][:, :size] if pairs[k][0] == cls else self.coefs[k][:, -size:]
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
        As in :class:`~oblong.solvers.margin.batch.problem.MarginBatch`.
    threads : int, default=1
        Threads of the solver.
    definite : bool, default=False
        Whether the matrix is positive semidefinite but for rounding.

    Returns
    -------
    PairModels
        One for each penalty and spread, the spread varying fastest.
    """
    pairs = np.array(pairs_of(len(starts) - 1))
    order = np.argsort(-spreads, kind="stable")
    found = solve_batch(
        MarginBatch(
            GramTiles(K, definite),
            np.column_stack([starts[:-1], starts[1:]])[pairs],
            np.tile([1.0, -1.0], (len(pairs), 1)),
            penalties,
            Cs,
            spreads[order],
            tol=tol,
            max_iter=max_iter,
            polish=False,
        ),
        threads=threads,
    )
    shape = (len(pairs), len(Cs), len(spreads) + 1)
    source = np.empty((len(pairs), len(Cs), len(spreads)), dtype=np.intp)
    source[:, :, order] = found.source.reshape(shape)[:, :, 1:]
    source = source.reshape(len(pairs), -1)
    different = [np.unique(own) for own in source]
    margins = 1.0 / np.maximum(np.take_along_axis(found.largest, source, axis=1), 1e-300)
    # Support vector machines set the scale of the bounds, and count even if not asked for.
    gaps = found.relative_gap[found.status > 0]
    return PairModels(
        [coefs[own] for coefs, own in zip(found.coefs, different)],
        [bias[own] for bias, own in zip(found.bias, different)],
        np.array([np.searchsorted(own, every) for own, every in zip(different, source)]),
        margins.mean(axis=0),
        float(gaps.max(initial=-np.inf)) if gaps.size else float("nan"),
        int(found.n_iter.sum()),
    )
