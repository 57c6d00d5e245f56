"""Relative margin classifiers, with kernels and linear, without some of their rows."""

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from oblong._core.threads import available_threads
from oblong.batch._calibration_folds import CrossFit
from oblong.batch._one_vs_one import pairs_of
from oblong.batch._pair_batch import ClassPairs, PairSolutions
from oblong.batch._rows import validated_rows
from oblong.batch._workers import in_threads, threads_of
from oblong.batch.linear_relative_margin import LinearRelativeMarginClassifier
from oblong.batch.relative_margin import RelativeMarginClassifier
from oblong.solvers.margin.grid import GridResult, solve_grid, without_folds
from oblong.solvers.margin.problem import Pieces, relaxed_margin_pieces, svm_pieces

# Folds that are solved at a time: the coefficients of all rows are kept for each.
_TOGETHER = 64
# A gap of more than so many tolerances is worth a more exact solution.
_LOOSE = 10.0
# Tolerance below which outputs are wanted in double precision.
_TIGHT = 1e-3
# Coefficients this close to a breakpoint, relatively, were at it before they were scaled.
_NEAR = 1e-3


def can_leave_out(model: Any) -> bool:
    """Whether the folds of a fitted model are its own problem without some rows."""
    return type(model) is RelativeMarginClassifier and not model._indefinite


def leave_out(
    model: RelativeMarginClassifier,
    X: Any,
    y: np.ndarray,
    kept: np.ndarray,
    weights: np.ndarray | None,
    folds: Sequence[np.ndarray],
    *,
    tol: float,
    keep: bool,
) -> CrossFit:
    """Solve every pair of classes of a fitted model without each fold.

    The kernel, the class weights and the bounds remain those of all rows, so that the problems
    share kernel values and the solution with all rows is near theirs.

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
    folds : sequence of ndarray of int
        Places in ``kept`` of the rows to leave out.
    tol : float
        Tolerance of the solver.
    keep : bool
        Whether to return the models of the folds.

    Returns
    -------
    CrossFit
        Outputs on each row by the model without it.
    """
    X = validated_rows(model, X, reset=False)
    fold_of = np.empty(kept.size, dtype=np.int64)
    for number, test in enumerate(folds):
        fold_of[test] = number
    problem = _LeftOut(model, X, kept, np.searchsorted(model.classes_, y[kept]), weights, fold_of)
    outputs = model._outputs(X[kept])
    models: list[RelativeMarginClassifier] = []
    gaps, n_iter, converged = [0.0], 0, True
    for first in range(0, len(folds), _TOGETHER):
        some = np.arange(first, min(first + _TOGETHER, len(folds)))
        found = problem.solve(some, tol)
        changed = found.values["source"][:, 1:] > 0
        gaps.append(float(found.relative_gap[:, 1:][changed].max(initial=0.0)))
        n_iter += int(found.values["n_iter"][:, 1:].sum())
        converged &= not found.values["status"][:, 1:][changed].any()
        for k, fold in enumerate(some, start=1):
            if not changed[:, k - 1].any():
                models += [model] if keep else []
                continue
            rows = np.flatnonzero(fold_of == fold)
            # A pair is asked about rows of other classes, too.
            others = len(problem.pairs.members) > 1 and rows.size > 1
            exact = tol < _TIGHT and kept.size > 1024
            if keep or others or exact:
                without = problem.model_without(found, k)
                models += [without] if keep else []
                if others or exact:
                    outputs[rows] = without._outputs(X[kept[rows]])
                    continue
            problem.write_outputs(found, k, int(fold), outputs)
    return CrossFit(outputs, models, max(gaps), n_iter, bool(converged))


class _LeftOut:
    """The problems of a fitted classifier, which are to be solved without some rows."""

    def __init__(
        self, model: RelativeMarginClassifier, X: Any, kept: np.ndarray, labels: np.ndarray,
        weights: np.ndarray | None, fold_of: np.ndarray,
    ) -> None:  # fmt: skip
        self.model, self.X, self.kept, self.fold_of = model, X, kept, fold_of
        self.pairs = ClassPairs.of(labels)
        self.threads = threads_of(model.n_jobs)
        own = np.ones(kept.size) if weights is None else weights[kept]
        pieces = self._pieces(model.C * model._penalties(labels, own), own)
        self.groups = self.pairs.groups(pieces, fold_of)
        packed = np.zeros((len(model.classes_) - 1, X.shape[0]))
        packed[:, model.support_] = model.dual_coef_
        self.coefs = self.pairs.unpacked(packed[:, kept])
        self.start = _inside(pieces, np.concatenate(self.coefs))
        self.columns = model._columns(model._select(X, kept), self.threads)

    def _pieces(self, C: np.ndarray, weights: np.ndarray) -> Pieces:
        """Terms of the rows of all pairs, with the bounds of all rows."""
        model, rows = self.model, np.concatenate(self.pairs.members)
        y = np.concatenate(self.pairs.y)
        if model.D == 0.0 or (model.D is None and model.B is None and model.spread == 1.0):
            return svm_pieces(y, C[rows])
        sizes = [len(members) for members in self.pairs.members]
        U: np.ndarray | float = np.inf
        if model.D is not None and model.nu is not None:
            sums = [weights[members].sum() for members in self.pairs.members]
            U = model.D * model.nu * weights[rows] / np.repeat(sums, sizes)
        return relaxed_margin_pieces(y, C[rows], np.repeat(model.B_, sizes), U)

    def solve(self, folds: np.ndarray, tol: float) -> GridResult:
        """Solve all pairs without each of some folds; the first variant is that with all rows."""
        return solve_grid(
            self.columns,
            self.groups,
            without_folds(folds, tol=tol),
            promise=_LOOSE * tol,
            max_iter=self.model.max_iter,
            starts=self.start,
            threads=self.threads,
        )

    def model_without(self, found: GridResult, k: int) -> RelativeMarginClassifier:
        """The classifier of a fold, by the number of its variant."""
        full = self.model
        own = PairSolutions.of_grid(found, k)
        for g in np.flatnonzero(found.values["source"][:, k] == 0):
            own.coefs[g], own.bias[g] = self.coefs[g], full.intercept_[g]
            own.relative_gap[g], own.objective[g] = full.dual_gap_[g], full.objective_[g]
            own.directions[g] = full.coef_[g] if full.kernel == "linear" else None
        # A clone would check the parameters again.
        model = copy(full)
        model._store_table(self.X, self.kept, self.pairs.labels, self.pairs.table(own))
        return model

    def write_outputs(self, found: GridResult, k: int, fold: int, outputs: np.ndarray) -> None:
        """Outputs of a fold's models on its own rows, for pairs of their classes."""
        for g, members in enumerate(self.pairs.members):
            if found.values["source"][g, k] == 0:
                continue
            out = np.flatnonzero(self.fold_of[members] == fold)
            values = found.values[g, k]
            outputs[members[out], g] = values["scale"] * found.images[g][k, out] + values["bias"]


def _inside(pieces: Pieces, coef: np.ndarray) -> np.ndarray:
    """Bring the coefficients of a model, which may have been scaled, back to their breakpoints."""
    p = pieces.breakpoints
    coef = np.clip(coef, p[:, 0], p[:, 3])
    for point in p.T:
        near = np.isfinite(point) & (np.abs(coef - point) <= _NEAR * np.abs(point))
        coef = np.where(near, point, coef)
    return coef


def leave_out_linear(
    model: LinearRelativeMarginClassifier,
    X: Any,
    y: np.ndarray,
    kept: np.ndarray,
    weights: np.ndarray | None,
    folds: Sequence[np.ndarray],
    *,
    tol: float,
    keep: bool,
    n_jobs: int | None,
) -> CrossFit:
    """Solve every pair of classes of a fitted model without each fold.

    The class weights and the bounds remain those of all rows: to find a bound takes a solution
    more. The solutions themselves start again, as an interior point gains nothing by another's.
    Parameters and results are those of
    :func:`leave_out`.
    """
    X = validated_rows(model, X, reset=False)
    labels, pairs = np.searchsorted(model.classes_, y[kept]), pairs_of(len(model.classes_))
    own = np.ones(kept.size) if weights is None else weights[kept]
    penalties = model._penalties(labels, own)
    held = model.D != 0.0 and model.nu is None and (model.D is not None or model.spread < 1.0)
    parts = [copy(model) for _ in pairs]
    for part, B in zip(parts, model.B_):
        part.tol = tol
        if part.B is None and held:
            part.B, part.D = max(1.0, float(B)), None
    jobs = min(len(folds), effective_n_jobs(n_jobs))
    threads = 1 if jobs > 1 else available_threads()

    def solve(test: np.ndarray) -> tuple[LinearRelativeMarginClassifier, np.ndarray]:
        rest, fits = np.delete(np.arange(kept.size), test), []
        for part, (positive, negative) in zip(parts, pairs):
            first = labels[rest] == positive
            pair = first | (labels[rest] == negative)
            rows, signs = rest[pair], np.where(first[pair], 1.0, -1.0)
            fits.append(part._fit_pair(X[kept[rows]], signs, penalties[rows], own[rows], threads))
        found = copy(model)
        found._store_weights(fits)
        found._keep([fit.solution for fit in fits])
        return found, found._evaluate(X[kept[test]])

    found = in_threads(solve, [(test,) for test in folds], jobs)
    models, outputs = [each for each, _ in found], np.empty((kept.size, len(pairs)))
    for test, (_, values) in zip(folds, found):
        outputs[test] = values
    return CrossFit(
        outputs,
        models if keep else [],
        float(max(each.dual_gap_.max() for each in models)),
        int(sum(each.n_iter_.sum() for each in models)),
        all(each.converged_ for each in models),
    )
