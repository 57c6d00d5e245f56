"""Kernel matrices of the folds of a search, and the models of every pair of classes on them.

The products of the rows (or their distances) are computed once, the kernel matrix once per gamma
where folds can share it, and otherwise once per fold and gamma. Its blocks serve every pair of
classes, penalty and spread.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong._core.compile import compiled
from oblong.batch._one_vs_one import pairs_of
from oblong.kernels import Kernel, KernelRows
from oblong.solvers.margin.batch.problem import BatchResult, GramTiles, MarginBatch
from oblong.solvers.margin.batch.solve import BatchSolver
from oblong.solvers.margin.options import DEFAULTS

# Rows of a pair up to which coarse solutions come from the loop of small problems.
STAGED_ROWS = 6000

# Above this number of rows kernel matrices are kept in single precision; above a quarter of it
# where the tolerance is no smaller than this.
_SINGLE_ABOVE = 4096
_SINGLE_TOL = 5e-4
# Segments of rows to train on, per class, up to which a matrix of all rows serves all folds.
_SEGMENTS = 4


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
    tol : float, default=0.0
        The tolerance of the solutions.
    """

    def __init__(self, name: Any, X: Any, gamma: float = 1.0, tol: float = 0.0) -> None:
        self.name = name
        above = _SINGLE_ABOVE if tol < _SINGLE_TOL else _SINGLE_ABOVE // 4
        dtype = np.float32 if X.shape[0] > above else np.float64
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
        self._values = _product(kernel, rows, gamma)

    def matrices(
        self, kernel: Kernel, train: np.ndarray, test: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Kernel matrices (train, train) and (test, train) of one fold."""
        return self.matrix(kernel, train, train), self.matrix(kernel, test, train)

    def matrix(self, kernel: Kernel, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Kernel values of some rows with others."""
        factor, constant = 1.0, 0.0
        if self.name in ("rbf", "poly", "sigmoid"):
            factor = kernel.gamma
            constant = 0.0 if self.name == "rbf" else kernel.coef0
        out = gathered(self._values, rows, columns, factor, constant)
        if not callable(self.name) and self.name != "precomputed":
            kernel.map_columns(out, 0, columns.size)
        return out


def gathered(
    values: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    factor: float = 1.0,
    constant: float = 0.0,
) -> np.ndarray:
    """Rows and columns of a matrix, times a factor, plus a constant."""
    out = np.empty((rows.size, columns.size), dtype=values.dtype)
    cast = out.dtype.type
    _gather(values, rows, columns, cast(factor), cast(constant), out)
    return out


@compiled
def _gather(values, rows, columns, factor, constant, out):
    for a in range(rows.size):
        row, into = values[rows[a]], out[a]
        for b in range(columns.size):
            # Places that are unsigned cannot count from the end.
            into[b] = factor * row[np.uintp(columns[b])] + constant


def _product(kernel: Kernel, rows: KernelRows, gamma: float) -> np.ndarray:
    """Products of prepared rows: scalar products, or minus the squared distances."""
    if rows.is_coarse(gamma):
        return (-0.5 * kernel.distant_squares(rows, rows)).astype(rows.left.dtype, copy=False)
    if not sp.issparse(rows.left):
        return rows.left @ rows.right.T
    values = (rows.left @ rows.right.T).toarray()
    if rows.half_norms is not None:
        values -= rows.half_norms[:, None]
        values -= rows.half_norms
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
    steps : int ndarray of shape (n_models,)
        Steps of the solver for each, without those of support vector machines not asked for.
    n_iter : int
        Steps of the solver in all.
    """

    coefs: list[np.ndarray]
    biases: list[np.ndarray]
    which: np.ndarray
    relative_margins: np.ndarray
    gap: float
    steps: np.ndarray
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


class SharedRows:
    """All rows in one order, and kernel matrices in it that all folds can use.

    In that order the rows of a class that are tested on together follow each other, so that those
    to train on are a few segments.

    Parameters
    ----------
    y : ndarray of shape (n,)
        The labels.
    used : ndarray of bool
        Rows with a weight above zero.
    splits : list of tuple
        Rows to train and to test on, by number.

    Attributes
    ----------
    order : int ndarray
        The rows by number.
    place : int ndarray of shape (n,)
        Where each of them is in the order.
    few_segments : bool
        Whether the rows to train on are so few segments that a matrix of all rows is of use.
    matrices : list of ndarray or None
        For each gamma the matrix, where the folds have one in common.
    """

    def __init__(self, y: np.ndarray, used: np.ndarray, splits: list[tuple]) -> None:
        tested = np.full(y.size, len(splits))
        for number, (_, test) in enumerate(splits):
            tested[test] = number
        classes, labels = np.unique(y, return_inverse=True)
        self.order = np.lexsort((tested, labels))
        self.order = self.order[used[self.order]]
        self.place = np.full(y.size, -1)
        self.place[self.order] = np.arange(self.order.size)
        self.few_segments = all(
            np.count_nonzero(np.diff(np.sort(self.place[train[used[train]]])) > 1)
            < _SEGMENTS * classes.size
            for train, _ in splits
        )
        self.matrices: list[np.ndarray | None] = []


def class_segments(places: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Places in ascending order as segments that follow each other without a gap, class by class.

    ``starts`` says where each class starts among them, and the last one ends. The result has the
    shape (n_classes, n_segments, 2); classes with fewer segments than others have empty ones.
    """
    begins = np.r_[True, np.diff(places) != 1]
    begins[starts[:-1]] = True
    first = np.flatnonzero(begins)
    last = np.r_[first[1:], places.size]
    of_class = np.searchsorted(starts, first, side="right") - 1
    rank = np.arange(first.size) - np.searchsorted(of_class, of_class)
    segments = np.zeros((starts.size - 1, rank.max() + 1, 2), dtype=np.int64)
    segments[of_class, rank] = np.column_stack([places[first], places[last - 1] + 1])
    return segments


class PairSolver:
    """All pairs of classes for every penalty and spread, solved in stages.

    Parameters
    ----------
    segments : int ndarray of shape (n_classes, n_segments, 2)
        Rows of the kernel matrix to train on: for each class where its segments begin and end.
    penalties : ndarray of shape (n,)
        Factors of ``C`` for every row of the kernel matrix.
    Cs : ndarray
        Penalties, ascending.
    spreads : ndarray
        Spreads.
    max_iter : int
        As in :class:`~oblong.solvers.margin.batch.problem.MarginBatch`.
    threads : int, default=1
        Threads of the solver.
    """

    def __init__(
        self,
        segments: np.ndarray,
        penalties: np.ndarray,
        Cs: np.ndarray,
        spreads: np.ndarray,
        max_iter: int,
        threads: int = 1,
    ) -> None:
        self._pairs = np.array(pairs_of(len(segments)))
        self._segments = segments[self._pairs].reshape(len(self._pairs), -1, 2)
        self._signs = np.repeat([1.0, -1.0], segments.shape[1])
        self.penalties, self.Cs = penalties, Cs
        self._order = np.argsort(-spreads, kind="stable")
        self.spreads = spreads[self._order]
        self._max_iter, self._threads = max_iter, threads
        self._solver: BatchSolver | None = None

    def solve(self, K: Any, definite: bool, tols: np.ndarray, keep: bool = False) -> PairModels:
        """Solve the models, in a later stage from the solutions before.

        Parameters
        ----------
        K : array of shape (n, n)
            Kernel matrix, the same in every stage.
        definite : bool
            Whether it is positive semidefinite but for rounding.
        tols : ndarray of shape (n_Cs, n_spreads)
            Largest violation of the optimality conditions; infinite for models that are not asked
            for, in a later stage.
        keep : bool, default=False
            Whether to keep what follows from the matrix for the next stage.

        Returns
        -------
        PairModels
            Those asked for, the spread varying fastest.
        """
        # Bounds are relative to the support vector machine of the penalty.
        every = np.column_stack([tols.min(axis=1), tols[:, self._order]])
        if self._solver is None:
            batch = MarginBatch(
                GramTiles(K, definite),
                self._segments,
                np.tile(self._signs, (len(self._pairs), 1)),
                self.penalties,
                self.Cs,
                self.spreads,
                tol=tols.min(),
                max_iter=self._max_iter,
                polish=False,
            )
            options = replace(DEFAULTS, batch_rows=STAGED_ROWS) if keep else DEFAULTS
            self._solver = BatchSolver(batch, threads=self._threads, options=options)
        elif not keep:
            self._solver.hold(GramTiles(K, definite))
        found = self._solver.solve(every.ravel())
        if not keep:
            self._solver.hold(None)
        return self.models(found, tols < np.inf)

    def coefs(self, C: int, spread: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the matrix of the first pair, and coefficients of two of its models, not scaled.

        They are the support vector machine of a penalty and the model of a spread, by number.
        """
        assert self._solver is not None
        first = C * (self.spreads.size + 1)
        place = first + 1 + int(np.flatnonzero(self._order == spread)[0])
        return self._solver.rows_of(0), self._solver.arrays(0)[0][[first, place]]

    def models(self, found: BatchResult, wanted: np.ndarray) -> PairModels:
        """Pick the models that are asked for from what was found."""
        by_spread = np.empty((2, len(self._pairs), *wanted.shape), dtype=np.intp)
        both = np.stack([found.source, found.n_iter])
        by_spread[..., self._order] = both.reshape(*by_spread.shape[:3], -1)[..., 1:]
        source, steps = by_spread[:, :, wanted]
        used = np.zeros(found.bias.shape, dtype=np.bool_)
        np.put_along_axis(used, source, True, axis=1)
        which = np.take_along_axis(used.cumsum(axis=1) - 1, source, axis=1)
        margins = 1.0 / np.maximum(np.take_along_axis(found.largest, source, axis=1), 1e-300)
        # Support vector machines set the scale of the bounds, and count even if not asked for.
        gaps = found.relative_gap[found.status > 0]
        return PairModels(
            [coefs[own] for coefs, own in zip(found.coefs, used)],
            [bias[own] for bias, own in zip(found.bias, used)],
            which,
            margins.mean(axis=0),
            float(gaps.max(initial=-np.inf)) if gaps.size else float("nan"),
            steps.sum(axis=0),
            int(found.n_iter.sum()),
        )
