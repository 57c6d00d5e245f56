"""One fold of a search over C, gamma and the spread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state

from oblong._core.class_weights import class_factors
from oblong._core.threads import chunks
from oblong.batch._device import SearchOnDevice
from oblong.batch._fold_models import PairModels, SearchKernel, solve_pairs
from oblong.batch._one_vs_one import class_scores, votes_of
from oblong.kernels import Kernel, resolve_gamma
from oblong.linalg.definite import check_kernel_definite

__all__ = ["FoldScores", "Grid", "GridFold"]

# Outputs computed at once.
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
    """What one fold says about every combination.

    Attributes
    ----------
    scores : ndarray of shape (n_candidates,)
        Scores on the test rows.
    relative_margins : ndarray of shape (n_candidates,)
        Relative margins on the training rows.
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
class GridFold:
    """The search over a grid on one fold; the parameters are those of the estimator."""

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

    @property
    def uses_gamma(self) -> bool:
        """Whether the kernel has a gamma."""
        return self.kernel in ("rbf", "poly", "sigmoid")

    def products(self, X: Any) -> SearchKernel | SearchOnDevice:
        """Compute what all folds and gammas share."""
        definite = self.kernel in ("linear", "rbf") or (self.kernel == "poly" and self.coef0 >= 0)
        if self.on_device is not None and definite:
            return SearchOnDevice(self.on_device)
        numbers = [resolve_gamma(gamma, X) for gamma in self.grid.gammas if self.uses_gamma]
        # Parts of the rows may have another "scale".
        return SearchKernel(self.kernel, X, 2.0 * max(numbers, default=0.5))

    def run(
        self,
        kernels: SearchKernel | SearchOnDevice,
        X: Any,
        y: np.ndarray,
        weights: np.ndarray | None,
        train: np.ndarray,
        test: np.ndarray,
        threads: int = 1,
    ) -> FoldScores:
        """Fit every combination to the training rows and score it on the test rows."""
        train, test = np.asarray(train), np.asarray(test)
        if weights is not None:
            train, test = (part[weights[part] > 0] for part in (train, test))
        classes, labels = np.unique(y[train], return_inverse=True)
        if classes.size < 2 or test.size == 0:
            raise ValueError(
                "every fold needs rows of two classes to train on and a row to test on, with "
                "weights above zero: use fewer folds"
            )
        order = np.argsort(labels, kind="stable")
        train, labels = train[order], labels[order]
        starts = np.searchsorted(labels, np.arange(classes.size + 1))
        own = np.ones(train.size) if weights is None else weights[train]
        penalties = own * class_factors(self.class_weight, classes, labels, own)[labels]
        gamma_weights = None if weights is None else own
        rows = X[train] if self.uses_gamma else None
        numbers = [
            resolve_gamma(gamma, rows, gamma_weights) if self.uses_gamma else 1.0
            for gamma in self.grid.gammas
        ]
        ascending = np.argsort(self.grid.Cs, kind="stable")
        shape = (len(self.grid.Cs), len(self.grid.gammas), len(self.grid.spreads))
        scores, margins = np.empty(shape), np.empty(shape)
        gaps, n_iter = [], 0
        for place, number in enumerate(numbers):
            kernel = Kernel(self.kernel, number, self.degree, self.coef0)
            K, K_test = kernels.matrices(kernel, train, test)
            if self.grid.spreads.min() < 1.0:
                _check_definite(kernel, K)
            models = solve_pairs(
                K,
                starts,
                penalties,
                self.grid.Cs[ascending],
                self.grid.spreads,
                tol=self.tol,
                max_iter=self.max_iter,
                threads=threads,
                definite=kernel.always_positive_semidefinite,
            )
            scored = self._scores(models, K_test, starts, classes, X, y, weights, test)
            scores[ascending, place] = scored.reshape(shape[0], shape[2])
            margins[ascending, place] = models.relative_margins.reshape(shape[0], shape[2])
            gaps.append(models.gap)
            n_iter += models.n_iter
            if self.report is not None:
                self.report(
                    f"{train.size} rows to train on, {test.size} to test on, gamma {number:.3g}: "
                    f"best score {scored.max():.4f}"
                )
        gap = float("nan") if np.isnan(gaps).all() else float(np.nanmax(gaps))
        return FoldScores(scores.ravel(), margins.ravel(), gap, n_iter)

    def _scores(
        self,
        models: PairModels,
        K_test: np.ndarray,
        starts: np.ndarray,
        classes: np.ndarray,
        X: Any,
        y: np.ndarray,
        weights: np.ndarray | None,
        test: np.ndarray,
    ) -> np.ndarray:
        """Score every model on the test rows."""
        n_pairs, n_models = models.which.shape
        noise = None
        if self.break_ties == "random" and classes.size > 2:
            noise = check_random_state(self.random_state).random_sample((test.size, classes.size))
        by_scores = self.break_ties in (True, "confidence") and classes.size > 2
        which = list(models.which)
        labels, decisions = [], []
        for start, stop in chunks(test.size, max(1, _OUTPUTS // (n_pairs * n_models))):
            different = models.outputs(K_test[start:stop], starts)
            if not by_scores:
                part = None if noise is None else noise[start:stop]
                labels.append(_vote(different, which, classes.size, part))
            if by_scores or self.scorer is not None:
                outputs = np.stack([out[k] for out, k in zip(different, which)], axis=2)
                if by_scores:
                    labels.append(_scored(outputs, classes.size).argmax(axis=2))
                if self.scorer is not None:
                    decisions.append(self._decision(outputs, classes.size))
        predicted = classes[np.concatenate(labels, axis=1)]
        truth = y[test]
        own = None if weights is None else weights[test]
        if self.scorer is None:
            return np.average(predicted == truth, axis=1, weights=own)
        rows = X[test]
        options = {} if own is None else {"sample_weight": own}
        known = zip(predicted, np.concatenate(decisions, axis=1))
        return np.array(
            [self.scorer(_FixedPredictions(classes, *k), rows, truth, **options) for k in known]
        )

    def _decision(self, outputs: np.ndarray, n_classes: int) -> np.ndarray:
        """Decision values of every model, in the shape the estimator gives them."""
        if n_classes == 2:
            return outputs[:, :, 0]
        if self.decision_function_shape == "ovo":
            return outputs
        return _scored(outputs, n_classes)


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
