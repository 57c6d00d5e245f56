"""What a comparison is asked and what it finds."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from sklearn.metrics import confusion_matrix
from sklearn.pipeline import Pipeline

from oblong.cli.comparison.models import Model
from oblong.cli.comparison.significance import corrected_t_test, holm
from oblong.io.dataset import Dataset


@dataclass(frozen=True)
class Settings:
    """How to cross-validate.

    With `nested`, parameters are chosen on the training rows of every fold; otherwise once, on
    all rows, which takes less time and favours models with many parameters. `impute` says what
    gaps are filled with, the mean, the median or the most frequent value of the training rows. At
    most `search_rows` training rows are used to choose parameters, and at most `kernel_rows` to
    fit a kernel model.
    """

    cv: int = 5
    repeats: int = 1
    seed: int = 0
    jobs: int = 1
    nested: bool = True
    impute: str | None = None
    search_rows: int | None = None
    kernel_rows: int | None = None


@dataclass(frozen=True, eq=False)
class FoldResult:
    """One model on one fold.

    Attributes
    ----------
    model : str
        Name of the model.
    fold : int
        Position among all folds of all repeats.
    error : float
        Fraction of held-out rows predicted wrongly.
    balanced_error : float
        Mean over the classes of the fraction of their rows that are misclassified.
    auc, log_loss : float or None
        Area under the ROC curve, each class against the rest, and the loss of the probabilities.
    fit_seconds, predict_seconds : float
        Time to fit the training rows with the chosen parameters, and to predict the held-out ones.
    search_seconds, seconds : float
        Time to choose the parameters, and of all.
    memory : int or None
        Bytes that choosing and fitting took at their peak, if the system reports it.
    parameters : dict
        Parameters chosen on the training rows alone, or on all rows if not nested.
    predicted : ndarray
        Labels predicted for the held-out rows.
    gap : float or None
        Largest relative duality gap of the fit, for models that certify it.
    stopped_early : int
        Fits, those of the search included, that stopped at their iteration limit.
    estimator : Pipeline or None
        The fitted model, kept for the first fold only.
    """

    model: str
    fold: int
    error: float
    balanced_error: float
    auc: float | None
    log_loss: float | None
    fit_seconds: float
    predict_seconds: float
    search_seconds: float
    seconds: float
    memory: int | None
    parameters: dict[str, object]
    predicted: np.ndarray
    gap: float | None
    stopped_early: int
    estimator: Pipeline | None


@dataclass(frozen=True)
class Summary:
    """One model over all folds; differences and p-values are against the reference."""

    model: Model
    mean: float
    std: float
    balanced_error: float
    f1: float
    auc: float | None
    log_loss: float | None
    fit_seconds: float
    predict_seconds: float
    memory: float | None
    difference: float | None
    p_value: float | None


@dataclass(frozen=True, eq=False)
class Comparison:
    """All that a comparison found out. The first model is the reference.

    `left_out` are titles of models that had no time.
    """

    dataset: Dataset
    models: list[Model]
    settings: Settings
    folds: list[tuple[np.ndarray, np.ndarray]]
    results: dict[str, list[FoldResult]]
    left_out: list[str] = field(default_factory=list)

    def confusion(self, model: Model) -> np.ndarray:
        """Held-out rows by their class and by the one predicted, over all folds."""
        classes = np.unique(self.dataset.y)
        truth = np.concatenate([self.dataset.y[test] for _, test in self.folds])
        predicted = np.concatenate([fold.predicted for fold in self.results[model.name]])
        return confusion_matrix(truth, predicted, labels=classes)

    def f1(self, model: Model) -> float:
        """Mean over the classes of the F1 score on the held-out rows of all folds."""
        counts = self.confusion(model)
        sums = counts.sum(axis=0) + counts.sum(axis=1)
        return float(np.mean(2 * np.diag(counts) / np.maximum(sums, 1)))

    def summaries(self) -> list[Summary]:
        """Mean, spread, time and corrected significance of every model."""
        errors = {
            name: np.array([fold.error for fold in results])
            for name, results in self.results.items()
        }
        reference, *others = self.models
        ratio, step = 1.0 / (self.settings.cv - 1), 1.0 / len(self.folds[0][1])
        p_values = holm(
            [corrected_t_test(errors[m.name] - errors[reference.name], ratio, step) for m in others]
        )
        tests = dict(zip([m.name for m in others], p_values))
        found = []
        for model in self.models:
            own, folds = errors[model.name], self.results[model.name]
            gap = None if model is reference else float((own - errors[reference.name]).mean())
            errs = (float(own.mean()), float(own.std(ddof=1)))
            fair = (self._mean(model, "balanced_error") or 0.0, self.f1(model))
            scores = (self._mean(model, "auc"), self._mean(model, "log_loss"))
            fit, predict = (
                float(np.median([getattr(fold, name) for fold in folds]))
                for name in ("fit_seconds", "predict_seconds")
            )
            memory, p = _median([fold.memory for fold in folds]), tests.get(model.name)
            costs = (fit, predict)
            found.append(Summary(model, *errs, *fair, *scores, *costs, memory, gap, p))
        return found

    def _mean(self, model: Model, name: str) -> float | None:
        """Mean of a number over the folds; None if a fold has none."""
        values = [getattr(result, name) for result in self.results[model.name]]
        return None if None in values else float(np.mean(values))


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None
