"""One fold of a search over C, gamma and the spread."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state

from oblong._core.class_weights import class_factors
from oblong._core.threads import chunks
from oblong.batch._one_vs_one import class_scores, votes_of
from oblong.batch._pair_batch import ClassPairs
from oblong.batch._search_kernel import SearchKernel
from oblong.kernels import Kernel, resolve_gamma
from oblong.linalg.definite import check_kernel_definite
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.grid import GridResult, solve_grid, variants_of

# Outputs that are computed at a time.
_OUTPUTS = 1 << 23


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


@dataclass(frozen=True)
class FoldScores:
    """What one fold says about every combination of one gamma.

    Attributes
    ----------
    scores, relative_margins : ndarray of shape (n_Cs, n_spreads)
        Scores on the test rows, and relative margins on the training rows.
    gap : float
        Largest relative gap of a model that did not converge; NaN if all did.
    n_iter : int
        Steps of the solver in all.
    """

    scores: np.ndarray
    relative_margins: np.ndarray
    gap: float
    n_iter: int


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
class FoldSearch:
    """What the folds of a search share; the parameters are those of the estimator."""

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

    @property
    def uses_gamma(self) -> bool:
        """Whether the kernel has a gamma."""
        return self.kernel in ("rbf", "poly", "sigmoid")

    def products(self, X: Any) -> SearchKernel:
        """Compute what all folds and gammas share."""
        numbers = [resolve_gamma(gamma, X) for gamma in self.grid.gammas if self.uses_gamma]
        # Parts of the rows may have another "scale".
        return SearchKernel(self.kernel, X, 2.0 * max(numbers, default=0.5))

    def run(
        self,
        kernels: SearchKernel,
        X: Any,
        y: np.ndarray,
        weights: np.ndarray | None,
        split: tuple[np.ndarray, np.ndarray],
        gamma: Any,
    ) -> FoldScores:
        """Fit every combination of a gamma to the training rows and score it on the test rows."""
        train, test = (np.asarray(part) for part in split)
        if weights is not None:
            train, test = (part[weights[part] > 0] for part in (train, test))
        train = train[np.argsort(y[train], kind="stable")]
        classes, labels = np.unique(y[train], return_inverse=True)
        if classes.size < 2 or test.size == 0:
            raise ValueError(
                "every fold needs rows of two classes to train on and a row to test on, with "
                "weights above zero: use fewer folds"
            )
        own = np.ones(train.size) if weights is None else weights[train]
        number = 1.0
        if self.uses_gamma:
            number = resolve_gamma(gamma, X[train], None if weights is None else own)
        kernel = Kernel(self.kernel, number, self.degree, self.coef0)
        K = kernels.matrix(kernel, train, train)
        spreads = np.sort(self.grid.spreads)[::-1]
        if spreads[-1] < 1.0:
            _check_definite(kernel, K)
        columns = KernelMatrix(K, definite=kernel.always_positive_semidefinite)
        pairs = ClassPairs.of(labels)
        penalties = own * class_factors(self.class_weight, classes, labels, own)[labels]
        found = solve_grid(
            columns,
            pairs.groups(pairs.svm_pieces(penalties)),
            variants_of(np.sort(self.grid.Cs), tol=self.tol, spreads=spreads),
            max_iter=self.max_iter,
            polish=K.dtype == np.float64,
        )
        del K, columns
        wanted = self._order(spreads)
        K_test = kernels.matrix(kernel, test, train)
        models = _PairModels.of(found, pairs, wanted)
        truth = None if weights is None else weights[test]
        scores = self._scores(models, K_test, classes, X, test, y[test], truth)
        if self.report is not None:
            self.report(
                f"{train.size} rows to train on, {test.size} to test on, gamma {number:.3g}: "
                f"best score {scores.max():.4f}"
            )
        # Support vector machines set the scale of the bounds, and count even if not asked for.
        gaps = found.relative_gap[found.values["status"] > 0]
        shape = (len(self.grid.Cs), len(spreads))
        return FoldScores(
            scores.reshape(shape),
            models.relative_margins.reshape(shape),
            float(gaps.max()) if gaps.size else float("nan"),
            int(found.values["n_iter"].sum()),
        )

    def _order(self, spreads: np.ndarray) -> np.ndarray:
        """Variants of the grid in the order of the combinations, spreads varying fastest."""
        rank_of_C = np.argsort(np.argsort(self.grid.Cs, kind="stable"))
        rank_of_spread = np.argsort(np.argsort(-self.grid.spreads, kind="stable"))
        per = len(spreads) + 1
        return (rank_of_C[:, None] * per + 1 + rank_of_spread).ravel()

    def _scores(
        self,
        models: "_PairModels",
        K: np.ndarray,
        classes: np.ndarray,
        X: Any,
        test: np.ndarray,
        truth: np.ndarray,
        weights: np.ndarray | None,
    ) -> np.ndarray:
        """Score every model on the test rows, which have the kernel values ``K``."""
        n_classes = classes.size
        noise = None
        if self.break_ties == "random" and n_classes > 2:
            noise = check_random_state(self.random_state).random_sample((test.size, n_classes))
        by_scores = self.break_ties in (True, "confidence") and n_classes > 2
        labels, decisions = [], []
        for start, stop in chunks(test.size, max(1, _OUTPUTS // models.which.size)):
            different = models.outputs(K[start:stop])
            if not by_scores:
                part = None if noise is None else noise[start:stop]
                labels.append(_vote(different, list(models.which), n_classes, part))
            if by_scores or self.scorer is not None:
                outputs = np.stack([out[k] for out, k in zip(different, models.which)], axis=2)
                if by_scores:
                    labels.append(_scored(outputs, n_classes).argmax(axis=2))
                if self.scorer is not None:
                    decisions.append(self._decision(outputs, n_classes))
        predicted = np.concatenate(labels, axis=1)
        if self.scorer is None:
            return np.average(classes[predicted] == truth, axis=1, weights=weights)
        options = {} if weights is None else {"sample_weight": weights}
        known = zip(classes[predicted], np.concatenate(decisions, axis=1))
        rows = X[test]
        return np.array(
            [self.scorer(_FixedPredictions(classes, *k), rows, truth, **options) for k in known]
        )

    def _decision(self, outputs: np.ndarray, n_classes: int) -> np.ndarray:
        """Decision values of every model, in the shape the estimator gives them."""
        if n_classes == 2:
            return outputs[:, :, 0]
        return outputs if self.decision_function_shape == "ovo" else _scored(outputs, n_classes)


@dataclass(frozen=True)
class _PairModels:
    """Models of every pair of classes.

    Attributes
    ----------
    coefs : list of ndarray of shape (n_different, n_rows)
        For each pair the coefficients of the models that differ, of its rows.
    biases : list of ndarray of shape (n_different,)
        Their biases.
    which : ndarray of shape (n_pairs, n_models)
        Which of them each model is.
    relative_margins : ndarray of shape (n_models,)
        ``1 / max |f_i|`` on the training rows, averaged over the pairs.
    pairs : ClassPairs
        The pairs, whose rows are sorted by class.
    """

    coefs: list[np.ndarray]
    biases: list[np.ndarray]
    which: np.ndarray
    relative_margins: np.ndarray
    pairs: ClassPairs

    @classmethod
    def of(cls, found: GridResult, pairs: ClassPairs, wanted: np.ndarray) -> "_PairModels":
        """Pick the models that are asked for, in their order."""
        source, scale = found.values["source"][:, wanted], found.values["scale"]
        used = [np.unique(own) for own in source]
        largest = found.values["largest"][:, wanted]
        return cls(
            [scale[g, own, None] * found.coefs[g][own] for g, own in enumerate(used)],
            [found.bias[g, own] for g, own in enumerate(used)],
            np.array([np.searchsorted(own, row) for own, row in zip(used, source)]),
            (1.0 / np.maximum(largest, 1e-300)).mean(axis=0),
            pairs,
        )

    def outputs(self, K: np.ndarray) -> list[np.ndarray]:
        """Outputs of the models that differ on rows with kernel values ``K``, pair by pair."""
        if len(self.coefs) == 1:
            values = self.coefs[0].astype(K.dtype, copy=False) @ K.T
            return [values + self.biases[0][:, None]]
        result = [np.repeat(biases[:, None], len(K), axis=1) for biases in self.biases]
        for cls, rows in enumerate(self.pairs.rows):
            mine = [g for g, pair in enumerate(self.pairs.pairs) if cls in pair]
            first = [self.pairs.pairs[g][0] == cls for g in mine]
            # One product for all pairs of a class instead of many small ones.
            coefs = np.concatenate(
                [
                    self.coefs[g][:, : rows.size] if head else self.coefs[g][:, -rows.size :]
                    for g, head in zip(mine, first)
                ]
            )
            part = K[:, rows[0] : rows[-1] + 1]
            values = coefs.astype(K.dtype, copy=False) @ part.T
            ends = np.cumsum([len(self.coefs[g]) for g in mine])
            for g, own in zip(mine, np.split(values, ends[:-1])):
                result[g] += own
        return result


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
