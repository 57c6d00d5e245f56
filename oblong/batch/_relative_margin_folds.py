"""One fold of a search over C, gamma and the spread."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state

from oblong._core.class_weights import class_factors
from oblong._core.compile import compiled
from oblong._core.threads import chunks
from oblong.batch._device import SearchOnDevice
from oblong.batch._fold_models import (
    PairModels,
    PairSolver,
    SearchKernel,
    SharedRows,
    class_segments,
    gathered,
)
from oblong.batch._one_vs_one import class_scores, pairs_of, votes_of
from oblong.kernels import Kernel, resolve_gamma
from oblong.linalg.definite import check_kernel_definite

# By which multiple of the violation outputs near zero still change on the way to the solution, as a
# rule: labels that changed had outputs below the first, nine times in ten, none above the second.
_OPEN, _SETTLED = 0.3, 2.0


@dataclass(frozen=True)
class Grid:
    """The combinations to try, ``spreads`` varying fastest, then ``gammas``, then ``Cs``."""

    Cs: np.ndarray
    gammas: list
    spreads: np.ndarray

    def candidates(self) -> list[dict[str, Any]]:
        """All combinations, in the order of scikit-learn's ParameterGrid."""
        every = product(self.Cs.tolist(), self.gammas, self.spreads.tolist())
        return [{"C": C, "gamma": gamma, "spread": spread} for C, gamma, spread in every]


@dataclass
class FoldScores:
    """What one fold says about every combination.

    Attributes
    ----------
    scores : ndarray of shape (n_Cs, n_gammas, n_spreads)
        Scores on the test rows.
    lowest, highest, variance : ndarray of the same shape
        What the scores may be once the models are solved to the last tolerance, and their variance
        if each row that is open then is right with a probability of one half.
    settled : bool ndarray of the same shape
        Whether the scores are as good as known.
    relative_margins : ndarray of the same shape
        Relative margins on the training rows.
    steps : ndarray of the same shape
        Steps of the solver for each.
    gaps : ndarray of shape (n_gammas,)
        Largest relative gap of a model that did not converge; NaN if all did.
    n_iter : int ndarray of shape (n_gammas,)
        Steps of the solver in all.
    """

    scores: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray
    variance: np.ndarray
    settled: np.ndarray
    relative_margins: np.ndarray
    steps: np.ndarray
    gaps: np.ndarray
    n_iter: np.ndarray


class _FixedPredictions(ClassifierMixin, BaseEstimator):
    """A classifier whose predictions are known, in the shape that scorers ask for."""

    def __init__(self, classes: np.ndarray, labels: np.ndarray, decision: np.ndarray) -> None:
        self.classes_ = classes
        self._labels = labels
        self._decision = decision

    def predict(self, X: Any) -> np.ndarray:
        return self._labels

    def decision_function(self, X: Any) -> np.ndarray:
        return self._decision


@dataclass(frozen=True)
class GridFold:
    """What the folds of a search share.

    The parameters are those of the estimator; ``outputs`` is how many are computed at once.
    """

    kernel: Any
    degree: int
    coef0: float
    grid: Grid
    tol: float
    max_iter: int
    class_weight: Any
    break_ties: str | bool
    decision_function_shape: str
    random_state: Any
    scorer: Callable | None = None
    report: Callable[[str], None] | None = None
    on_device: Any = None
    outputs: int = 1 << 23

    @property
    def uses_gamma(self) -> bool:
        """Whether the kernel has a gamma."""
        return self.kernel in ("rbf", "poly", "sigmoid")

    @property
    def settles_labels(self) -> bool:
        """Whether outputs far from zero settle what a test row counts for."""
        return self.scorer is None and self.break_ties in ("first", False)

    def kernel_for(self, gamma: Any, X: Any, weights: np.ndarray | None = None) -> Kernel:
        """Return the kernel of a gamma that may depend on the rows to train on."""
        number = resolve_gamma(gamma, X, weights) if self.uses_gamma else 1.0
        return Kernel(self.kernel, number, self.degree, self.coef0)

    def products(self, X: Any) -> SearchKernel | SearchOnDevice:
        """Compute what all folds and gammas share."""
        definite = self.kernel in ("linear", "rbf") or (self.kernel == "poly" and self.coef0 >= 0)
        if self.on_device is not None and definite:
            return SearchOnDevice(self.on_device)
        numbers = [resolve_gamma(gamma, X) for gamma in self.grid.gammas if self.uses_gamma]
        # Parts of the rows may have another "scale".
        return SearchKernel(self.kernel, X, 2.0 * max(numbers, default=0.5), self.tol)


class Fold:
    """One fold: every combination is fitted to its training rows and scored on its test rows.

    Parameters
    ----------
    search : GridFold
        What the folds share.
    kernels : SearchKernel or SearchOnDevice
        Kernel matrices of all rows.
    X, y, weights : arrays
        All rows with their labels and, unless None, weights.
    train, test : int ndarray
        The rows of the fold.
    shared : SharedRows
        The order of all rows, and matrices that folds have in common.
    keep : bool
        Whether to keep the kernel matrices from one stage to the next.
    threads : int, default=1
        Threads of the solver.
    """

    def __init__(
        self,
        search: GridFold,
        kernels: SearchKernel | SearchOnDevice,
        X: Any,
        y: np.ndarray,
        weights: np.ndarray | None,
        train: np.ndarray,
        test: np.ndarray,
        shared: SharedRows,
        keep: bool,
        threads: int = 1,
    ) -> None:
        train, test = np.asarray(train), np.asarray(test)
        if weights is not None:
            train, test = (part[weights[part] > 0] for part in (train, test))
        # By class, as the order of all rows is.
        train = train[np.argsort(shared.place[train], kind="stable")]
        self.classes, labels = np.unique(y[train], return_inverse=True)
        if self.classes.size < 2 or test.size == 0:
            raise ValueError(
                "every fold needs rows of two classes to train on and a row to test on, with "
                "weights above zero: use fewer folds"
            )
        own = np.ones(train.size) if weights is None else weights[train]
        factors = class_factors(search.class_weight, self.classes, labels, own)
        self.search, self.kernels, self.keep = search, kernels, keep
        self.train, self.test = train, test
        self.X, self.truth = X, y[test]
        self.weights = None if weights is None else weights[test]
        self.starts = np.searchsorted(labels, np.arange(self.classes.size + 1))
        grid = search.grid
        rows = X[train] if search.uses_gamma else None
        self.gammas = [
            search.kernel_for(gamma, rows, None if weights is None else own)
            for gamma in grid.gammas
        ]
        self.ascending = np.argsort(grid.Cs, kind="stable")
        self.order = shared.order
        self.shared = shared.matrices or [None] * len(self.gammas)
        self.places = [
            np.arange(train.size) if K is None else shared.place[train] for K in self.shared
        ]
        self.test_places = shared.place[test]
        self.solvers = []
        for places, K in zip(self.places, self.shared):
            penalties = np.zeros(train.size if K is None else len(K))
            penalties[places] = own * factors[labels]
            self.solvers.append(
                PairSolver(
                    class_segments(places, self.starts), penalties, grid.Cs[self.ascending],
                    grid.spreads, search.max_iter, threads,
                )
            )  # fmt: skip
        self.matrices: list[tuple | None] = [None] * len(self.gammas)
        # Models that were solved together with those of other folds.
        self.known: list[PairModels | None] = [None] * len(self.gammas)
        shape = (len(grid.Cs), len(self.gammas), len(grid.spreads))
        scores, lowest, highest, variance, margins, steps = np.empty((6, *shape))
        self.outcome = FoldScores(
            scores, lowest, highest, variance, np.zeros(shape, dtype=bool), margins, steps,
            np.empty(len(self.gammas)), np.full(len(self.gammas), -1),
        )  # fmt: skip

    def rows(self, place: int, places: np.ndarray) -> np.ndarray:
        """Rows by number that are in these places of the matrix of a gamma."""
        return (self.train if self.shared[place] is None else self.order)[places]

    def solve(self, place: int, tols: np.ndarray) -> None:
        """Solve the combinations of one gamma to violations of ``tols`` and score them.

        Those with an infinite one keep their solutions and scores, after a first call without any.
        """
        out, search, kernel = self.outcome, self.search, self.gammas[place]
        tols = tols[self.ascending]
        both, models, K = self.matrices[place], self.known[place], self.shared[place]
        if models is not None:
            both = None, np.arange(self.test.size)
        else:
            assert isinstance(self.kernels, SearchKernel)
            if K is not None:
                # Quicker to copy than to keep.
                both = K, gathered(K, self.test_places, self.places[place])
            elif both is None:
                both = self.kernels.matrices(kernel, self.train, self.test)
            if out.n_iter[place] < 0 and search.grid.spreads.min() < 1.0:
                _check_definite(kernel, both[0])
            definite = kernel.always_positive_semidefinite
            models = self.solvers[place].solve(both[0], definite, tols, self.keep)
        wanted = np.nonzero(tols < np.inf)
        at = (self.ascending[wanted[0]], place, wanted[1])
        reached = np.where(tols > search.tol, tols, 0.0)[wanted]
        arrays = (out.scores, out.lowest, out.highest, out.variance, out.settled)
        for array, values in zip(arrays, self._scores(models, both[1], reached)):
            array[at] = values
        out.relative_margins[at], out.steps[at] = models.relative_margins, models.steps
        if search.report is not None and out.n_iter[place] < 0:
            search.report(
                f"{self.train.size} rows to train on, {self.test.size} to test on, "
                f"gamma {kernel.gamma:.3g}: best score {out.scores[at].max():.4f}"
            )
        out.gaps[place], out.n_iter[place] = models.gap, models.n_iter
        self.matrices[place] = both if self.keep and K is None else None

    def _scores(
        self, models: PairModels, K_test: np.ndarray, reached: np.ndarray
    ) -> tuple[np.ndarray | float | bool, ...]:
        """Score every model, and say what is possible given the violations ``reached``.

        The order is that of :class:`FoldScores`.
        """
        n_pairs, n_models = models.which.shape
        search, classes, test = self.search, self.classes, self.test
        noise = None
        if search.break_ties == "random" and classes.size > 2:
            noise = check_random_state(search.random_state).random_sample((test.size, classes.size))
        by_scores = search.break_ties in (True, "confidence") and classes.size > 2
        which = list(models.which)
        truth = np.searchsorted(classes, self.truth)
        truth[classes[np.minimum(truth, classes.size - 1)] != self.truth] = classes.size
        labels, decisions = [], []
        sure: list[np.ndarray] = []
        possible: list[np.ndarray] = []
        settled = np.ones(n_models, dtype=bool)
        for start, stop in chunks(test.size, max(1, search.outputs // (n_pairs * n_models))):
            different = models.outputs(K_test[start:stop], self.starts)
            if not by_scores:
                part = None if noise is None else noise[start:stop]
                labels.append(_vote(different, which, classes.size, part))
            if reached.any():
                for share in (_OPEN, _SETTLED):
                    low, high = _settled(
                        different, which, classes.size, truth[start:stop], share * reached
                    )
                    settled &= (low == high).all(axis=1)
                    if share == _OPEN:
                        sure.append(low)
                        possible.append(high)
                    if not settled.any():
                        break
            if by_scores or search.scorer is not None:
                outputs = np.stack([out[k] for out, k in zip(different, which)], axis=2)
                if by_scores:
                    labels.append(_scored(outputs, classes.size).argmax(axis=2))
                if search.scorer is not None:
                    decisions.append(self._decision(outputs, classes.size))
        predicted = np.concatenate(labels, axis=1)
        if search.scorer is None:
            kinds = [predicted == truth]
            kinds += [np.concatenate(found, axis=1) for found in (sure, possible) if found]
            means = [np.average(kind, axis=1, weights=self.weights) for kind in kinds]
            shares = np.ones(test.size) if self.weights is None else self.weights
            variance = (kinds[-2 if sure else 0] != kinds[-1]) @ (0.5 * shares / shares.sum()) ** 2
            return means[0], means[-2 if sure else 0], means[-1], variance, settled
        options = {} if self.weights is None else {"sample_weight": self.weights}
        known = zip(classes[predicted], np.concatenate(decisions, axis=1))
        fixed = [_FixedPredictions(classes, *k) for k in known]
        rows = self.X[test]
        scores = np.array([search.scorer(k, rows, self.truth, **options) for k in fixed])
        return scores, scores, scores, 0.0, True

    def _decision(self, outputs: np.ndarray, n_classes: int) -> np.ndarray:
        """Decision values of every model, in the shape the estimator gives them."""
        if n_classes == 2:
            return outputs[:, :, 0]
        if self.search.decision_function_shape == "ovo":
            return outputs
        return _scored(outputs, n_classes)


def mean_coefficients(folds: list[Fold], n: int, C: int, gamma: int, spread: int) -> Any:
    """Coefficients of ``n`` rows, averaged over the folds, for a model of two classes on all rows.

    Those of the support vector machine and of the model of a spread, by number; None unless every
    row is in as many folds, so that their sums stay zero, and its penalty the same in all.
    """
    if folds[0].search.class_weight == "balanced":
        return None
    coefs, counts = np.zeros((2, n)), np.zeros(n)
    for fold in folds:
        place = int(np.flatnonzero(fold.ascending == C)[0])
        rows, own = fold.solvers[gamma].coefs(place, spread)
        coefs[:, fold.rows(gamma, rows)] += own
        counts[fold.train] += 1.0
    used = np.unique(counts[counts > 0.0])
    return coefs / used[0] if used.size == 1 else None


def _check_definite(kernel: Kernel, K: np.ndarray) -> None:
    check_kernel_definite(
        kernel,
        lambda chosen: K[np.ix_(chosen, chosen)],
        len(K),
        "a bound on the outputs has no solution; use another kernel, or spreads=(1,)",
    )


def _scored(outputs: np.ndarray, n_classes: int) -> np.ndarray:
    """Scores of the classes, of shape (n_models, n_rows, n_classes)."""
    flat = outputs.reshape(-1, outputs.shape[2])
    return class_scores(flat, n_classes).reshape(*outputs.shape[:2], n_classes)


def _vote(
    outputs: list[np.ndarray], which: list[np.ndarray], n_classes: int, noise: np.ndarray | None
) -> np.ndarray:
    """Classes by number, of shape (n_models, n_rows), from the outputs of every pair."""
    if n_classes == 2:
        return (outputs[0] > 0)[which[0]].astype(np.intp)
    wins = ((own >= 0)[places] for own, places in zip(outputs, which))
    votes = votes_of(wins, (which[0].size, outputs[0].shape[1]), n_classes)
    if noise is None:
        return votes.argmax(axis=0)
    return (votes.transpose(1, 2, 0) + 0.5 * noise).argmax(axis=2)


def _settled(
    outputs: list[np.ndarray],
    which: list[np.ndarray],
    n_classes: int,
    truth: np.ndarray,
    slack: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows that are right, and those that may be, if outputs of a model change by its ``slack``.

    Both have the shape (n_models, n_rows); ``truth`` are classes by number.
    """
    # One class more for labels that the training rows do not have: it never wins.
    low, high = np.zeros((2, n_classes + 1, which[0].size, truth.size), dtype=np.int16)
    firsts = np.cumsum([0, *map(len, outputs[:-1])])
    places = np.array(which) + firsts[:, None]
    _count_votes(np.concatenate(outputs), places, np.array(pairs_of(n_classes)), slack, low, high)
    # Of equal votes those for the first class win.
    order = np.arange(n_classes + 1, dtype=np.int16)[:, None, None]
    for votes in (low, high):
        votes *= np.int16(n_classes + 1)
        votes -= order
    rows, least = np.arange(truth.size), np.iinfo(np.int16).min
    mine, best = low[truth, :, rows].T, high[truth, :, rows].T
    low[truth, :, rows] = high[truth, :, rows] = least
    known = truth < n_classes
    return (mine > high.max(axis=0)) & known, (best > low.max(axis=0)) & known


@compiled
def _count_votes(outputs, places, pairs, slack, low, high):
    for k in range(len(pairs)):
        for model in range(places.shape[1]):
            own, near = outputs[places[k, model]], slack[model]
            for side in range(2):
                sign = 1.0 - 2.0 * side
                sure, possible = low[pairs[k, side], model], high[pairs[k, side], model]
                for row in range(own.size):
                    sure[row] += sign * own[row] > near
                    possible[row] += sign * own[row] >= -near
