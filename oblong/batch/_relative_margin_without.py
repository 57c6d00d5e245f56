"""The relative margin classifier without some of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from oblong._core.threads import single_threaded_blas
from oblong.batch._one_vs_one import pairs_of, unpack_coefficients
from oblong.batch._pairwise import PairFit
from oblong.batch.relative_margin import RelativeMarginClassifier
from oblong.solvers.margin.folds import image_of, inside, solve_without
from oblong.solvers.margin.problem import Pieces, relaxed_margin_pieces, svm_pieces
from oblong.solvers.margin.result import MarginResult

__all__ = ["RelativeMarginWithout", "can_leave_out"]


def can_leave_out(model: Any) -> bool:
    """Whether the folds of a fitted model are its own problem without some rows."""
    return type(model) is RelativeMarginClassifier and not model._indefinite


class RelativeMarginWithout:
    """A fitted relative margin classifier, to be solved without some of its rows.

    The kernel, the class weights and the bounds remain those of all rows, so that the problems
    share kernel columns and the solution with all rows is near theirs.

    Parameters
    ----------
    model : RelativeMarginClassifier
        Fitted to all rows.
    X, y : arrays of n_samples rows
        What it was fitted to.
    kept : ndarray of int
        Rows with a weight above zero.
    weights : ndarray of shape (n_samples,) or None
        Weights of the rows.
    """

    def __init__(
        self,
        model: RelativeMarginClassifier,
        X: Any,
        y: np.ndarray,
        kept: np.ndarray,
        weights: np.ndarray | None,
    ) -> None:
        self.model, self.kept = model, kept
        self.X = validate_data(
            model,
            X,
            dtype=[np.float64, np.float32],
            order="C",
            accept_sparse="csr",
            accept_large_sparse=False,
            reset=False,
        )
        self.labels = np.searchsorted(model.classes_, y[kept])
        self.weights = np.ones(kept.size) if weights is None else weights[kept]
        self.penalties = model.C * model._penalties(self.labels, self.weights)
        pairs = pairs_of(len(model.classes_))
        self.positive = [pair[0] for pair in pairs]
        self.members = [np.flatnonzero((self.labels == i) | (self.labels == j)) for i, j in pairs]
        # Coefficients of the fit, in the order of the rows.
        packed = unpack_coefficients(model.dual_coef_, model.n_support_)
        self.coef = np.zeros((len(pairs), self.X.shape[0]))
        self.coef[:, model.support_] = packed
        self.coef = self.coef[:, kept]

    def solve(
        self, folds: Sequence[np.ndarray], tol: float, *, keep: bool
    ) -> tuple[np.ndarray, list[RelativeMarginClassifier], list[MarginResult]]:
        """Solve every pair of classes without each fold.

        Parameters
        ----------
        folds : sequence of ndarray of int
            Places in ``kept`` of the rows to leave out.
        tol : float
            Tolerance of the solver.
        keep : bool
            Whether to return the models of the folds.

        Returns
        -------
        outputs : ndarray of shape (n, n_pairs)
            Outputs on each row by the model without it.
        models : list of RelativeMarginClassifier
            The model of each fold, if asked for.
        margins : list of MarginResult
            All solutions that differ from those with all rows.
        """
        n_pairs, jobs = len(self.members), effective_n_jobs(self.model.n_jobs)
        with single_threaded_blas():
            if jobs == 1 or n_pairs == 1:
                solved = [self._solve_pair(k, folds, tol) for k in range(n_pairs)]
            else:
                tasks = (delayed(self._solve_pair)(k, folds, tol) for k in range(n_pairs))
                solved = Parallel(n_jobs=min(jobs, n_pairs), prefer="threads")(tasks)
        models = []
        if keep:
            by_fold = zip(*([fit for _, fit in pair] for pair in solved))
            models = [self._model(fits) for fits in by_fold]
        margins = [margin for pair in solved for margin, _ in pair if margin is not None]
        outputs = np.empty((self.kept.size, n_pairs))
        if keep and n_pairs > 1:
            # The pairs are asked about rows of all classes.
            for model, test in zip(models, folds):
                outputs[test] = model._outputs(self.X[self.kept[test]])
            return outputs, models, margins
        if n_pairs > 1 or len(margins) < len(folds):
            # A pair changes only without rows that have a coefficient in it.
            outputs[...] = self.model._outputs(self.X[self.kept])
        for k, (rows, pair) in enumerate(zip(self.members, solved)):
            place = np.full(self.kept.size, -1)
            place[rows] = np.arange(rows.size)
            for (margin, _), test in zip(pair, folds):
                if margin is not None:
                    mine = test[place[test] >= 0]
                    outputs[mine, k] = margin.outputs[place[mine]]
        return outputs, models, margins

    def _solve_pair(
        self, k: int, folds: Sequence[np.ndarray], tol: float
    ) -> list[tuple[MarginResult | None, PairFit]]:
        """Solve one pair of classes without each fold; None where nothing changes."""
        model, rows = self.model, self.members[k]
        every = self.kept[rows]
        y = np.where(self.labels[rows] == self.positive[k], 1.0, -1.0)
        pieces = self._pieces(k, y)
        columns = model._columns(model._select(self.X, every))
        coef = self.coef[k, rows]
        start = inside(pieces, coef)
        image = image_of(columns, start)
        place = np.full(self.kept.size, -1)
        place[rows] = np.arange(rows.size)
        unchanged = PairFit(
            None,
            coef,
            float(model.intercept_[k]),
            float(model.objective_[k]),
            float(model.dual_gap_[k]),
            0,
            direction=model.coef_[k] if model.kernel == "linear" else None,
        )
        found: list[tuple[MarginResult | None, PairFit]] = []
        for test in folds:
            out = place[test]
            out = out[out >= 0]
            if not coef[out].any():
                found.append((None, unchanged))
                continue
            margin = solve_without(
                columns, pieces, start, image, out, tol=tol, max_iter=model.max_iter
            )
            bias = margin.bias - columns.offset(margin.coef, margin.direction)
            found.append(
                (margin, model._pair_fit(_Solved(margin), margin.coef, bias, margin.direction))
            )
        return found

    def _pieces(self, k: int, y: np.ndarray) -> Pieces:
        """Terms of a pair of classes, with the bound of all rows."""
        model, C = self.model, self.penalties[self.members[k]]
        if model.D == 0.0 or (model.D is None and model.B is None and model.spread == 1.0):
            return svm_pieces(y, C)
        U: np.ndarray | float = np.inf
        if model.D is not None and model.nu is not None:
            own = self.weights[self.members[k]]
            U = model.D * model.nu * own / own.sum()
        return relaxed_margin_pieces(y, C, float(model.B_[k]), U)

    def _model(self, fits: Sequence[PairFit]) -> RelativeMarginClassifier:
        """Put the pairs of one fold together as a classifier."""
        model = clone(self.model)
        vars(model).update(
            {name: value for name, value in vars(self.model).items() if name not in vars(model)}
        )
        model._store(self.X, self.kept, self.labels, self.members, list(fits))
        return model


class _Solved(NamedTuple):
    """What a kernel classifier asks of a solution."""

    margin: MarginResult

    @property
    def n_iter(self) -> int:
        """Steps taken."""
        return self.margin.n_iter
