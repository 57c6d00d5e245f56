"""What a comparison is asked and what it finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.pipeline import Pipeline

from oblong.cli.comparison.grids import Model
from oblong.cli.comparison.significance import corrected_t_test, holm
from oblong.datasets import Dataset

__all__ = ["Comparison", "FoldResult", "Settings", "Summary"]


@dataclass(frozen=True)
class Settings:
    """How to cross-validate.

    With `nested`, parameters are chosen anew on the training rows of every fold; otherwise once, on
    all rows, which takes less time and flatters models with many parameters. `impute` says what
    gaps are filled with, the mean, the median or the most frequent value of the training rows.
    """

    cv: int = 5
    repeats: int = 1
    seed: int = 0
    jobs: int = 1
    nested: bool = True
    impute: str | None = None


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
        Share of held-out rows predicted wrongly.
    fit_seconds : float
        Time to fit the training rows with the chosen parameters.
    memory : int or None
        Bytes that choosing and fitting took at their peak, where the system tells.
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
    fit_seconds: float
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
    fit_seconds: float
    memory: float | None
    difference: float | None
    p_value: float | None


@dataclass(frozen=True, eq=False)
class Comparison:
    """All that a comparison found out. The first model is the reference."""

    dataset: Dataset
    models: list[Model]
    settings: Settings
    folds: list[tuple[np.ndarray, np.ndarray]]
    results: dict[str, list[FoldResult]]

    def summaries(self) -> list[Summary]:
        """Mean, spread, time and corrected significance of every model."""
        errors = {
            name: np.array([fold.error for fold in results])
            for name, results in self.results.items()
        }
        reference, *others = self.models
        ratio = 1.0 / (self.settings.cv - 1)
        p_values = holm(
            [corrected_t_test(errors[m.name] - errors[reference.name], ratio) for m in others]
        )
        tests = dict(zip([m.name for m in others], p_values))
        return [
            Summary(
                model=model,
                mean=float(errors[model.name].mean()),
                std=float(errors[model.name].std(ddof=1)),
                fit_seconds=float(np.median([f.fit_seconds for f in self.results[model.name]])),
                memory=_median([f.memory for f in self.results[model.name]]),
                difference=None
                if model is reference
                else float((errors[model.name] - errors[reference.name]).mean()),
                p_value=tests.get(model.name),
            )
            for model in self.models
        ]


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None
