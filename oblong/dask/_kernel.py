"""The relative margin classifier with a kernel, over blocks of rows.

The coefficients of a solution are zero for most rows. Working rows are solved for in this process;
a pass evaluates the model on all rows and returns the worst of those that the model should have
known, which join. The dual value of the working rows, with zeros for all others, is a lower bound
for all rows, and the pass gives the upper bound.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from oblong._core.class_weights import class_factors
from oblong._core.progress import Progress, print_pass
from oblong._core.rollback import all_or_nothing
from oblong.batch import RelativeMarginClassifier
from oblong.batch._one_vs_one import pairs_of, places_of
from oblong.batch._passes import take_columns
from oblong.dask._estimators import DaskEstimator, over_a_cluster
from oblong.dask._passes import CollectionRows, DaskPasses
from oblong.solvers.linear.passes.bands import SCALES
from oblong.solvers.linear.passes.first import look, stacked
from oblong.solvers.linear.passes.rows import Part, Present, known_labels

__all__ = ["DaskRelativeMarginClassifier"]

# Working rows at the start, and the most rounds.
_FIRST, _ROUNDS = 2000, 60

_ROWS = """
    working_rows : int, default=50000
        Most rows that are solved for in this process at a time.
"""


def _judge(
    rows: Present, model: Any, bounds: np.ndarray, known: np.ndarray, C: np.ndarray, count: int
) -> Part:
    """Losses of a block for every pair of classes, and the rows that violate conditions most."""
    codes = known_labels(rows, model.classes_)
    n = rows.X.shape[0]
    outputs = model._outputs(rows.X) if n else np.zeros((0, len(bounds)))
    worst = np.full(n, -np.inf)
    sums: dict[Any, Any] = {}
    largest: dict[Any, Any] = {}
    for p, (positive, negative) in enumerate(pairs_of(len(model.classes_))):
        mine = np.flatnonzero((codes == positive) | (codes == negative))
        f = outputs[mine, p]
        margins = np.where(codes[mine] == positive, f, -f)
        weight = rows.weight[mine] * C[codes[mine]]
        losses = [weight @ np.maximum(1.0 - scale * margins, 0.0) for scale in SCALES]
        sums[p] = np.array(losses)
        largest[p] = float(np.abs(f).max(initial=0.0))
        excess = np.maximum(1.0 - margins, np.abs(f) - bounds[p])
        worst[mine] = np.maximum(worst[mine], excess)
    new = np.flatnonzero((worst > model.tol) & ~np.isin(rows.numbers, known))
    new = new[np.lexsort((new, -worst[new]))][:count]
    assert rows.y is not None
    found = (rows.X[new], rows.y[new], rows.weight[new], rows.numbers[new], worst[new])
    return Part(sums, largest, found)


@over_a_cluster("predict", "decision_function", parameters=_ROWS, working_rows=50_000)
class DaskRelativeMarginClassifier(DaskEstimator, RelativeMarginClassifier):
    """:class:`~oblong.RelativeMarginClassifier` on a Dask cluster, with ``B`` or ``spread``.

    The rows that have a coefficient are kept in this process, where the problem of the working
    rows is solved; all others are only read. For more rows than that allows, map them to features
    (:class:`sklearn.kernel_approximation.Nystroem`) and use
    :class:`DaskLinearRelativeMarginClassifier`.
    """

    _local = RelativeMarginClassifier
    working_rows: int

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit to Dask collections, or to a row source that the workers read.

        Parameters
        ----------
        X : dask.array.Array, dask.dataframe.DataFrame or row source
            The rows.
        y, sample_weight : Dask collections, default=None
            Labels and weights, in the same partitions.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        if self.D is not None or self.kernel == "precomputed":
            raise ValueError("over blocks, the bound is B or spread, and the kernel is a function")
        source = X if hasattr(X, "n_blocks") else CollectionRows(X, y, sample_weight, np.inf)
        if not getattr(source, "labelled", True):
            raise ValueError("the rows have no labels")
        with all_or_nothing(self):
            self._fit_blocks(DaskPasses(source, self.client_))
        return self

    def _fit_blocks(self, passes: DaskPasses) -> None:
        n = sum(passes.source.lengths or ())
        seen = look(passes, min(1.0, _FIRST / max(n, 1)))
        classes, totals = seen.labels, np.array([part.weight for part in seen.moments])
        if len(classes) < 2:
            raise ValueError(f"expected at least two classes, got {len(classes)}")
        if len(classes) > 2 and self.B is None and self.spread < 1.0:
            raise ValueError("over blocks, several classes take B, or spread=1")
        factors = class_factors(self.class_weight, classes, np.arange(len(classes)), totals)
        gamma, every = self.gamma, seen.of(range(len(classes)))
        if gamma == "scale":
            S = every.covariance
            variance = float(np.mean(S if S.ndim == 1 else S.diagonal()) + np.var(every.mean))
            gamma = 1.0 / (len(every.mean) * variance) if variance > 0.0 else 1.0
        params = self.get_params(deep=False)
        params = {name: value for name, value in params.items() if name not in self._own}
        weights = dict(zip(classes.tolist(), factors.tolist()))
        params |= {"gamma": gamma, "class_weight": weights, "B": None, "spread": 1.0, "verbose": 0}
        rows: tuple[Any, ...] = (seen.X, classes[seen.codes], seen.weight, seen.numbers)
        theta, form = np.full(len(pairs_of(len(classes))), np.nan), {"B": self.B}
        C = float(self.C) * factors
        if self.B is None:
            model, rows, values = self._rounds(passes, params, rows, C, "svm")
            theta = np.array([largest for _, _, largest in values])
            form = {"B": max(1.0, 1.0 + self.spread * (float(theta[0]) - 1.0))}
        if self.B is not None or self.spread < 1.0:
            model, rows, values = self._rounds(passes, params | form, rows, C, "relative margin")
        fitted = {name: value for name, value in vars(model).items() if name not in params}
        self.__dict__.update(fitted)
        take_columns(self, passes.source)
        self.support_ = rows[3][model.support_]
        self.objective_ = np.array([value for value, _, _ in values])
        self.dual_gap_ = np.array([gap for _, gap, _ in values])
        largest = np.array([largest for _, _, largest in values])
        self.theta_, self.relative_margin_ = theta, 1.0 / largest
        self.B_ = theta.copy() if self.B is None and self.spread == 1.0 else model.B_
        self.n_passes_, self.working_rows_ = passes.n_passes, len(rows[1])
        promise = max(self.tol, 1e-3)
        self.converged_ = bool(model.converged_ and self.dual_gap_.max() <= promise)
        if not self.converged_:
            warnings.warn(
                f"{type(self).__name__} did not converge to a relative duality gap of "
                f"{promise:g}: the gap reached is {self.dual_gap_.max():.3g}. Allow more "
                f"working_rows (now {self.working_rows}).",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _rounds(
        self, passes: DaskPasses, params: dict, rows: tuple[Any, ...], C: np.ndarray, stage: str
    ) -> tuple[Any, tuple[Any, ...], list[tuple[float, float, float]]]:
        """Solve for working rows until no other violates the conditions by more than ``tol``."""
        best: Any = None
        bound: Any = -np.inf
        promise = max(self.tol, 1e-3)
        for turn in range(_ROUNDS):
            X, y, weight, numbers = rows
            with warnings.catch_warnings():
                # The certificate below is that of all rows.
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = RelativeMarginClassifier(**params).fit(X, y, sample_weight=weight)
            bounds = np.full(len(model.B_), np.inf) if params["B"] is None else model.B_
            count = max(_FIRST, len(y)) // 2 + 1
            answer = passes.run(_judge, model, bounds, numbers, C, count)
            held = _judge(Present(X, y, weight, numbers), model, bounds, numbers, C, 0)
            bound = np.maximum(bound, model.objective_ * (1.0 - model.dual_gap_))
            values, scales = [], []
            for p in range(len(model.B_)):
                losses, largest = answer.sums[p], float(answer.largest[p])
                norm = max(0.0, float(model.objective_[p] - held.sums[p][0]))
                scale = min(1.0, bounds[p] / largest) if largest > 0.0 else 1.0
                # A chord of a convex function is an upper bound.
                value = scale**2 * norm + float(np.interp(-scale, -SCALES, losses))
                gap = max(0.0, value - bound[p]) / max(value, np.finfo(float).tiny)
                values.append((value, gap, scale * largest))
                scales.append(scale)
            worst = max(gap for _, gap, _ in values)
            if best is None or worst <= max(gap for _, gap, _ in best[2]):
                best = (_scaled(model, np.array(scales)), rows, values)
            if self.verbose:
                print_pass(Progress(stage, turn + 1, worst, promise))
            parts = [part for part in answer.rows if len(part[1])]
            if not parts or len(y) >= self.working_rows:
                break
            found = [stacked([part[i] for part in parts]) for i in range(5)]
            order = np.lexsort((found[3], -found[4]))[: min(count, self.working_rows - len(y))]
            rows = tuple(stacked([old, new[order]]) for old, new in zip(rows, found))
        return best


def _scaled(model: Any, scales: np.ndarray) -> Any:
    """Shrink the outputs of pairs of classes."""
    if (scales < 1.0).any():
        ends = np.concatenate([[0], np.cumsum(model.n_support_)])
        for scale, pair in zip(scales, pairs_of(len(model.classes_))):
            for k, place in zip(pair, places_of(*pair)):
                model.dual_coef_[place, ends[k] : ends[k + 1]] *= scale
        model.intercept_ = model.intercept_ * scales
        if hasattr(model, "coef_"):
            model.coef_ = model.coef_ * scales[:, None]
    return model
