"""Relative margin classifiers, with kernels and linear, without some of their rows."""

from collections.abc import Sequence
from copy import copy
from itertools import pairwise, starmap
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs

from oblong._core.threads import available_threads, single_threaded_blas
from oblong.batch._calibration_folds import CrossFit
from oblong.batch._one_vs_one import pairs_of, places_of, unpack_coefficients
from oblong.batch._pairwise import PairTable
from oblong.batch._rows import validated_rows
from oblong.batch._workers import in_threads, threads_of
from oblong.batch.linear_relative_margin import LinearRelativeMarginClassifier
from oblong.batch.relative_margin import RelativeMarginClassifier
from oblong.solvers.margin.batch.problem import STATUS, GramTiles, RowTiles
from oblong.solvers.margin.batch.without import (
    TIGHT,
    UNCHANGED,
    LeftOut,
    WithoutResult,
    solve_all_without,
)
from oblong.solvers.margin.folds import image_of, inside, solve_without
from oblong.solvers.margin.problem import Pieces, relaxed_margin_pieces, svm_pieces

# Rows of a pair above which its folds are solved one after the other, by working sets.
_TOGETHER = 6000


def can_leave_out(model: Any) -> bool:
    """Whether the folds of a fitted model are its own problem without some rows."""
    return type(model) is RelativeMarginClassifier and not model._indefinite


class RelativeMarginWithout:
    """A fitted relative margin classifier, to be solved without some of its rows.

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
    """

    def __init__(
        self,
        model: RelativeMarginClassifier,
        X: Any,
        y: np.ndarray,
        kept: np.ndarray,
        weights: np.ndarray | None,
        folds: Sequence[np.ndarray],
    ) -> None:
        self.model = model
        # Rows that the fit has seen as they are need no other look.
        ready = isinstance(X, np.ndarray) and X.dtype.char in "fd" and X.flags.c_contiguous
        self.X = X if ready else validated_rows(model, X, reset=False)
        # Products of sparse rows that fit in memory are faster if they are dense.
        dense = sp.issparse(self.X) and not callable(model.kernel) and model._dense(self.X)
        self.values = self.X.toarray() if dense else self.X
        self.folds, n_classes = folds, len(model.classes_)
        labels = np.searchsorted(model.classes_, y[kept])
        fold_of = np.empty(kept.size, dtype=np.int64)
        for number, test in enumerate(folds):
            fold_of[test] = number
        self.pairs = pairs_of(n_classes)
        # Everything below is in an order in which the rows of a cell follow each other: those of a
        # class; with two classes the support vectors of both, whose kernel rows are needed, first.
        cells, parts = labels, np.array(self.pairs)
        if n_classes == 2:
            other = np.ones(self.X.shape[0], dtype=np.intp)
            other[model.support_] = 0
            cells, parts = 2 * other[kept] + (labels == 0), np.arange(4)[None]
        self.order = np.lexsort((fold_of, cells))
        self.kept, self.labels = kept[self.order], labels[self.order]
        self.fold_of = fold_of[self.order]
        self.weights = np.ones(kept.size) if weights is None else weights[self.kept]
        counts = np.bincount(cells, minlength=parts.max() + 1)
        ends = counts.cumsum()
        self.segments = np.stack([ends - counts, ends], axis=1)[parts]
        lengths = counts[parts]
        self.signs = np.tile([1.0, -1.0], (len(parts), parts.shape[1] // 2))
        self.ends = np.concatenate([[0], lengths.sum(axis=1).cumsum()])
        # The rows of all pairs, and where their coefficients are in those of the classifier.
        self.rows = np.concatenate([np.arange(*span) for span in self.segments.reshape(-1, 2)])
        places = np.tile([places_of(*pair) for pair in self.pairs], parts.shape[1] // 2)
        self.places = np.repeat(places.ravel(), lengths.ravel())
        self.pair_of = np.repeat(np.arange(len(parts)), lengths.sum(axis=1))
        self.y = np.repeat(self.signs.ravel(), lengths.ravel())
        packed = np.zeros((len(model.classes_) - 1, self.X.shape[0]))
        packed[:, model.support_] = model.dual_coef_
        self.coef = packed[:, self.kept][self.places, self.rows]
        self.pieces = self._pieces()
        self.start = inside(self.pieces, self.coef)

    def _pieces(self) -> Pieces:
        """Terms of the rows of all pairs, with the bounds of all rows."""
        model = self.model
        penalties = model.C * model._penalties(self.labels, self.weights)[self.rows]
        if model.D == 0.0 or (model.D is None and model.B is None and model.spread == 1.0):
            return svm_pieces(self.y, penalties)
        U: np.ndarray | float = np.inf
        if model.D is not None and model.nu is not None:
            own = self.weights[self.rows]
            U = model.D * model.nu * own / np.bincount(self.pair_of, own)[self.pair_of]
        return relaxed_margin_pieces(self.y, penalties, model.B_[self.pair_of], U)

    def solve(self, tol: float, *, keep: bool) -> CrossFit:
        """Solve every pair of classes without each fold.

        Parameters
        ----------
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
        gap : float
            Largest relative duality gap of a problem.
        n_iter : int
            Steps of the solver in all.
        converged : bool
            Whether all problems were solved.
        """
        n_pairs, jobs = len(self.pairs), threads_of(self.model.n_jobs)
        with single_threaded_blas():
            found = self._together(tol, keep, jobs)
            left = np.flatnonzero((found.status == STATUS.index("unsolved")).any(axis=1)).tolist()
            in_threads(self._alone, [(g, found, tol) for g in left], jobs)
            same = found.status == UNCHANGED
            packed, models = self._models(found, same) if keep else (None, [])
            outputs = np.empty((self.kept.size, n_pairs))
            if packed is not None and n_pairs > 1:
                # The pairs are asked about rows of all classes.
                exact = tol < TIGHT or len(found.base) == 0 or self.model.kernel == "linear"
                for fold, model in enumerate(models):
                    rows = np.flatnonzero(self.fold_of == fold)
                    outputs[self.order[rows]] = (
                        model._outputs(self.X[self.kept[rows]])
                        if exact
                        else self._outputs(packed[fold], model.intercept_, rows, found)
                    )
            else:
                # A pair changes only without rows that have a coefficient in it.
                known = ~same[self.pair_of, self.fold_of[self.rows]]
                if not known.all() or n_pairs > 1:
                    outputs[self.order] = self.model._outputs(self.X[self.kept])
                outputs[self.order[self.rows[known]], self.pair_of[known]] = found.outputs[known]
        return CrossFit(
            outputs,
            models,
            float(found.relative_gap[~same].max(initial=0.0)),
            int(found.n_iter.sum()),
            bool((found.status <= 0).all()),
        )

    def _together(self, tol: float, keep: bool, jobs: int) -> WithoutResult:
        """Solve all pairs in one loop; what it does not solve is marked."""
        model, found = self.model, None
        support, n = len(model.support_), self.kept.size
        gram = callable(model.kernel) or model.kernel == "precomputed"
        if (
            model.kernel != "sigmoid"
            and model._dense(self.X)
            and np.diff(self.ends).max() <= _TOGETHER
            and 4.0 * support * n <= model.cache_size * 2.0**20
        ):
            rows = model._select(self.values, self.kept)
            if callable(model.kernel):
                rows = model._kernel()(rows)
            matrix = GramTiles(rows) if gram else RowTiles(model._kernel(), rows)
            found = solve_all_without(
                LeftOut(
                    matrix,
                    self.segments,
                    self.signs,
                    self.pieces,
                    self.start,
                    self.fold_of,
                    keep,
                    tol,
                    model.max_iter,
                ),
                threads=jobs,
            )
        if found is None:
            shape = (len(self.pairs), len(self.folds))
            status = np.full(shape, UNCHANGED)
            changed = self.coef != 0.0
            status[self.pair_of[changed], self.fold_of[self.rows[changed]]] = STATUS.index(
                "unsolved"
            )
            d = self.X.shape[1] if model.kernel == "linear" and keep else 0
            found = WithoutResult(
                np.full(self.rows.size, np.nan),
                np.zeros((shape[1] if keep else 0, self.rows.size)),
                np.full(shape, np.nan),
                np.full(shape, np.nan),
                np.full(shape, np.nan),
                np.zeros(shape, dtype=np.int64),
                status,
                np.zeros((*shape, d)),
                np.empty((0, n), dtype=np.float32),
                np.full(n, -1),
            )
        return found

    def _alone(self, g: int, found: WithoutResult, tol: float) -> None:
        """Solve what is left of a pair of classes by the careful solver."""
        model, part = self.model, slice(self.ends[g], self.ends[g + 1])
        rows = self.rows[part]
        columns = model._columns(model._select(self.values, self.kept[rows]))
        pieces, start, folds = self.pieces.take(part), self.start[part], self.fold_of[rows]
        image = image_of(columns, start)
        for fold in np.flatnonzero(found.status[g] == STATUS.index("unsolved")):
            out = np.flatnonzero(folds == fold)
            margin = solve_without(
                columns, pieces, start, image, out, tol=tol, max_iter=model.max_iter
            )
            found.outputs[part][out] = margin.outputs[out]
            found.bias[g, fold] = margin.bias - columns.offset(margin.coef, margin.direction)
            found.objective[g, fold] = margin.objective
            found.relative_gap[g, fold] = margin.relative_gap
            found.n_iter[g, fold] += margin.n_iter
            found.status[g, fold] = STATUS.index(margin.status)
            if len(found.coefs):
                found.coefs[fold, part] = margin.coef
                if margin.direction is not None:
                    found.directions[g, fold] = margin.direction

    def _models(
        self, found: WithoutResult, same: np.ndarray
    ) -> tuple[np.ndarray, list[RelativeMarginClassifier]]:
        """Packed coefficients of each fold, and its classifier."""
        full = self.model
        unchanged = same.T[:, self.pair_of]
        coefs = np.where(unchanged, self.coef, found.coefs)
        packed = np.zeros((len(coefs), len(full.classes_) - 1, self.kept.size))
        packed[:, self.places, self.rows] = coefs
        bias = np.where(same, full.intercept_[:, None], found.bias)
        gap = np.where(same, full.dual_gap_[:, None], found.relative_gap)
        objective = np.where(same, full.objective_[:, None], found.objective)
        by_class, models = np.argsort(self.labels, kind="stable"), []
        for fold in range(len(coefs)):
            # A clone would check the parameters again.
            model = copy(full)
            directions: Sequence[np.ndarray | None] = ()
            if full.kernel == "linear":
                directions = list(
                    np.where(same[:, fold, None], full.coef_, found.directions[:, fold])
                )
            model._store_table(
                self.X,
                self.kept,
                self.labels,
                PairTable(
                    by_class,
                    packed[fold][:, by_class],
                    bias[:, fold],
                    objective[:, fold],
                    gap[:, fold],
                    found.n_iter[:, fold],
                    directions,
                    bool((found.status[:, fold] <= 0).all()),
                ),
            )
            models.append(model)
        return packed, models

    def _outputs(
        self, packed: np.ndarray, bias: np.ndarray, rows: np.ndarray, found: WithoutResult
    ) -> np.ndarray:
        """Outputs of all pairs on the rows of a fold, mostly by kernel values that are at hand."""
        n_classes, known = len(self.model.classes_), found.place >= 0
        base, every = np.flatnonzero(known), np.arange(n_classes + 1)
        own, at = (
            np.searchsorted(self.labels[base], every),
            np.searchsorted(self.labels[rows], every),
        )
        # For each class the sum over its rows, for all of its pairs at once.
        sums = np.empty((n_classes, n_classes - 1, rows.size))
        for cls, part in enumerate(starmap(slice, pairwise(own))):
            coefs = packed[:, base[part]].astype(np.float32)
            for start, stop in pairwise(at):
                if stop > start:
                    # Rows of a fold and a class follow each other.
                    columns = slice(rows[start], rows[stop - 1] + 1)
                    sums[cls, :, start:stop] = coefs @ found.base[part, columns]
        i, j = np.array(self.pairs).T
        first, second = np.array([places_of(*pair) for pair in self.pairs]).T
        outputs = sums[i, first] + sums[j, second] + bias[:, None]
        rest = np.flatnonzero(~known & packed.any(axis=0))
        if rest.size:
            counts = np.bincount(self.labels[rest], minlength=n_classes)
            values = self.model._kernel()(
                self.values[self.kept[rest]], self.values[self.kept[rows]]
            )
            outputs += unpack_coefficients(packed[:, rest], counts) @ values
        return outputs.T


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
    :class:`~oblong.batch._relative_margin_without.RelativeMarginWithout`.
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
