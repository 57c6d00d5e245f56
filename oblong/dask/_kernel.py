"""The relative margin classifier with a kernel, over blocks of rows.

The coefficients of a solution are zero for most rows. For each pair of classes, working rows are
solved for in this process; a pass evaluates the models on all rows and returns the worst of those
that a model should have known, which join. The dual value of the working rows, with zeros for all
others, is a lower bound for all rows, and the pass gives the upper bound.
"""

import warnings
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from oblong._core.class_weights import class_factors
from oblong._core.progress import Progress, print_pass
from oblong._core.rollback import all_or_nothing
from oblong.batch import RelativeMarginClassifier
from oblong.batch._one_vs_one import pairs_of
from oblong.batch._pairwise import PairFit, PairTable
from oblong.batch._passes import take_columns
from oblong.dask._estimators import DaskEstimator, over_a_cluster
from oblong.dask._passes import CollectionRows, DaskPasses
from oblong.linalg.first_pass import FirstLook, look, stacked
from oblong.linalg.row_passes import Part, Present, known_labels, together
from oblong.solvers.linear.passes.bands import SCALES

# Working rows at the start, and the most rounds.
_FIRST, _ROUNDS = 2000, 60

_ROWS = """
    working_rows : int, default=50000
        Most rows of a pair of classes that are solved for in this process at a time.
"""


@dataclass(frozen=True)
class _Question:
    """A model of one pair of classes, to be judged on all rows.

    Attributes
    ----------
    pair : tuple of int
        Places of the positive and the negative label.
    C : tuple of float
        Penalties of rows of weight one, likewise.
    model : RelativeMarginClassifier
        That of the working rows.
    bound : float
        What outputs should not exceed.
    known : ndarray of int
        Numbers of the working rows.
    count : int
        Most rows that may join.
    """

    pair: tuple[int, int]
    C: tuple[float, float]
    model: Any
    bound: float
    known: np.ndarray
    count: int


class _Pair(NamedTuple):
    """The solution of a pair of classes: its working rows, and the certificate for all rows."""

    fit: PairFit
    X: Any
    y: np.ndarray
    numbers: np.ndarray
    bound: float
    theta: float
    largest: float


def _judge(rows: Present, questions: dict[int, _Question], labels: np.ndarray) -> Part:
    """Losses of a block, and the rows that violate the conditions most."""
    codes = known_labels(rows, labels)
    sums: dict[Any, Any] = {}
    largest: dict[Any, Any] = {}
    found: dict[int, tuple[Any, ...]] = {}
    for j, question in questions.items():
        positive, negative = question.pair
        mine = np.flatnonzero((codes == positive) | (codes == negative))
        X, y = rows.X[mine], np.where(codes[mine] == positive, 1.0, -1.0)
        weight, numbers = rows.weight[mine], rows.numbers[mine]
        f = question.model._outputs(X)[:, 0] if len(mine) else np.zeros(0)
        C = weight * np.where(y > 0.0, *question.C)
        losses = [C @ np.maximum(1.0 - scale * y * f, 0.0) for scale in SCALES]
        beyond = np.abs(f) - question.bound
        sums[j, "loss"] = np.array(losses)
        sums[j, "over"] = float(weight @ np.maximum(beyond, 0.0))
        largest[j, "output"] = float(np.abs(f).max(initial=0.0))
        excess = np.maximum(1.0 - y * f, beyond)
        new = np.flatnonzero((excess > question.model.tol) & ~np.isin(numbers, question.known))
        new = new[np.lexsort((new, -excess[new]))][: question.count]
        found[j] = X[new], y[new], weight[new], numbers[new], excess[new]
    return Part(sums, largest, found)


@over_a_cluster("predict", "decision_function", parameters=_ROWS, working_rows=50_000)
class DaskRelativeMarginClassifier(DaskEstimator, RelativeMarginClassifier):
    """:class:`~oblong.RelativeMarginClassifier` on a Dask cluster.

    The rows that have a coefficient are kept in this process, where the problems of the working
    rows are solved; all others are only read. For more rows than that allows, map them to features
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
        if self.kernel == "precomputed":
            raise ValueError('over blocks the kernel is a function, not "precomputed"')
        self._check_rows(None)
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
        self._check_classes(len(classes))
        C = class_factors(self.class_weight, classes, np.arange(len(classes)), totals)
        C = float(self.C) * C
        gamma, every = self.gamma, seen.of(range(len(classes)))
        if gamma == "scale":
            S = every.covariance
            variance = float(np.mean(S if S.ndim == 1 else S.diagonal()) + np.var(every.mean))
            gamma = 1.0 / (len(every.mean) * variance) if variance > 0.0 else 1.0
        blank = self._blank(gamma=gamma, C=1.0, class_weight=None, verbose=0)
        params = blank.get_params(deep=False)
        methods = [self._solve(passes, params, seen, C, pair) for pair in pairs_of(len(classes))]
        found: list[_Pair] = together(passes, methods, _judge, classes)
        self.classes_, self._gamma = classes, gamma
        take_columns(self, passes.source)
        self._store_pairs(found)
        self.n_passes_ = passes.n_passes
        self.working_rows_ = max(len(pair.numbers) for pair in found)
        if not self.converged_:
            warnings.warn(
                f"{type(self).__name__} did not converge to a relative duality gap of "
                f"{max(self.tol, 1e-3):g}: the gap reached is {self.dual_gap_.max():.3g}. Allow "
                f"more working_rows (now {self.working_rows}).",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _store_pairs(self, found: list[_Pair]) -> None:
        """Put the pairs together, over the rows that any of them has kept."""
        joined, first = np.unique(
            np.concatenate([pair.numbers for pair in found]), return_index=True
        )
        codes = [
            np.where(pair.y > 0.0, *places)
            for pair, places in zip(found, pairs_of(len(self.classes_)))
        ]
        labels = np.concatenate(codes)[first]
        members = [np.searchsorted(joined, pair.numbers) for pair in found]
        table = PairTable.of([pair.fit for pair in found], members, labels)
        X = stacked([pair.X for pair in found])[first]
        self._store_table(X, np.arange(len(joined)), labels, table)
        self.support_ = joined[self.support_]
        self.B_, self.theta_, largest = np.array([pair[-3:] for pair in found]).T
        self.relative_margin_ = 1.0 / largest

    def _solve(
        self,
        passes: DaskPasses,
        params: dict[str, Any],
        seen: FirstLook,
        C: np.ndarray,
        pair: tuple[int, int],
    ) -> Generator[_Question, Part, _Pair]:
        """Choose the bound of a pair, and solve."""
        mine = np.flatnonzero((seen.codes == pair[0]) | (seen.codes == pair[1]))
        y = np.where(seen.codes[mine] == pair[0], 1.0, -1.0)
        rows: tuple[Any, ...] = (seen.X[mine], y, seen.weight[mine], seen.numbers[mine])
        total = sum(seen.moments[code].weight for code in pair)
        # In the order in which the two labels are sorted out.
        costs = (float(C[pair[0]]), float(C[pair[1]]))
        if self.D is not None or self.B is not None:
            found, _ = yield from self._rounds(passes, params, rows, costs, pair, total)
            return found
        free = params | {"spread": 1.0}
        found, rows = yield from self._rounds(passes, free, rows, costs, pair, total)
        theta = found.largest
        if self.spread < 1.0 and theta > 1.0:
            bounded = params | {"B": 1.0 + self.spread * (theta - 1.0)}
            found, _ = yield from self._rounds(passes, bounded, rows, costs, pair, total)
        return found._replace(theta=theta)

    def _rounds(
        self,
        passes: DaskPasses,
        params: dict[str, Any],
        rows: tuple[Any, ...],
        C: tuple[float, float],
        pair: tuple[int, int],
        total: float,
    ) -> Generator[_Question, Part, tuple[_Pair, tuple[Any, ...]]]:
        """Solve for working rows until no other violates the conditions by more than ``tol``."""
        D, nu = params["D"], params["nu"]
        bounded = D is not None or params["B"] is not None
        promise = max(self.tol, 1e-3)
        best: tuple[_Pair, tuple[Any, ...]] | None = None
        lower = -np.inf
        for _ in range(_ROUNDS):
            X, y, weight, numbers = rows
            if D is not None and nu is not None:
                # The penalty D ν s / Σs of a row is that among all rows.
                params = params | {"nu": nu * float(weight.sum()) / total}
            model = RelativeMarginClassifier(**params | {"class_weight": {1.0: C[0], -1.0: C[1]}})
            with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
                # The certificate below is that of all rows.
                model.fit(X, y, sample_weight=weight)
            T = float(model.B_[0]) if bounded else np.inf
            count = max(_FIRST, len(y)) // 2 + 1
            answer = yield _Question(pair, C, model, T, numbers, count)
            lower = max(lower, float(model.objective_[0] * (1.0 - model.dual_gap_[0])))
            losses, largest = answer.sums["loss"], float(answer.largest["output"])
            scale = 1.0 if D is not None or largest <= T else T / largest
            # A chord of a convex function is an upper bound.
            value = scale**2 * _half_square(model) + float(np.interp(-scale, -SCALES, losses))
            if D is not None:
                T = T if nu is not None else max(1.0, largest)
                value += D * T + (0.0 if nu is None else D * nu / total * answer.sums["over"])
            gap = max(0.0, value - lower) / max(value, np.finfo(float).tiny)
            if best is None or gap <= best[0].fit.relative_gap:
                done = model.converged_ and gap <= promise
                coef = np.zeros(len(y))
                coef[model.support_] = scale * model.dual_coef_[0]
                fit = PairFit(
                    None,
                    coef,
                    scale * float(model.intercept_[0]),
                    value,
                    gap,
                    int(model.n_iter_[0]),
                    "converged" if done else "max_iter",
                    scale * model.coef_[0] if hasattr(model, "coef_") else None,
                )
                own = (T if bounded else largest, float(model.theta_[0]), scale * largest)
                best = _Pair(fit, X, y, numbers, *own), rows
            if self.verbose:
                stage = "relative margin" if bounded else "svm"
                print_pass(Progress(stage, passes.n_passes, gap, promise))
            parts = [part for part in answer.rows if len(part[1])]
            if not parts or len(y) >= self.working_rows:
                break
            found = [stacked([part[i] for part in parts]) for i in range(5)]
            order = np.lexsort((found[3], -found[4]))[: min(count, self.working_rows - len(y))]
            rows = tuple(stacked([old, new[order]]) for old, new in zip(rows, found))
        assert best is not None
        return best


def _half_square(model: Any) -> float:
    """Half of the squared norm of a model with two classes."""
    if hasattr(model, "coef_"):
        return 0.5 * float(model.coef_[0] @ model.coef_[0])
    outputs = model._outputs(model.support_vectors_)[:, 0] - model.intercept_[0]
    return 0.5 * float(model.dual_coef_[0] @ outputs)
