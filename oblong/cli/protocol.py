"""The comparison itself: nested cross-validation of several models on the same folds."""

from __future__ import annotations

import multiprocessing
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from oblong.cli.registry import Model
from oblong.cli.significance import corrected_t_test, holm
from oblong.datasets import DataFileError, Dataset
from oblong.datasets._dataset import Matrix, quote

__all__ = ["Comparison", "FoldResult", "RunError", "Settings", "Summary", "compare"]

INNER_FOLDS = 5


class RunError(RuntimeError):
    """A model that failed on data that was fine."""


@dataclass(frozen=True)
class Settings:
    """How to cross-validate."""

    cv: int = 5
    repeats: int = 1
    seed: int = 0
    jobs: int = 1


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
    parameters : dict
        Parameters chosen on the training rows alone.
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
                difference=None
                if model is reference
                else float((errors[model.name] - errors[reference.name]).mean()),
                p_value=tests.get(model.name),
            )
            for model in self.models
        ]


def compare(
    dataset: Dataset,
    models: Sequence[Model],
    settings: Settings,
    on_result: Callable[[FoldResult], None] = lambda result: None,
) -> Comparison:
    """Cross-validate models on the same folds, choosing parameters inside each.

    For every fold, each model's parameters are chosen by cross-validation within the training
    rows; the held-out rows are only ever predicted.

    Parameters
    ----------
    dataset : Dataset
        The data; its own test part is left alone.
    models : sequence of Model
        The reference first.
    settings : Settings
        Folds, repeats, seed and worker processes. The seed alone decides the errors.
    on_result : callable
        Called with each result as it comes in.
    """
    check_classes(dataset, settings.cv)
    splitter = RepeatedStratifiedKFold(
        n_splits=settings.cv, n_repeats=settings.repeats, random_state=settings.seed
    )
    X, y = dataset.X, dataset.y
    folds = list(splitter.split(np.zeros(len(y)), y))
    unit = width_unit(X)
    tasks = [
        delayed(_evaluate)(model, X, y, fold, rows, unit, settings)
        for fold, rows in enumerate(folds)
        for model in models
    ]
    results: dict[str, list[FoldResult]] = {model.name: [] for model in models}
    for result in in_parallel(tasks, settings.jobs):
        results[result.model].append(result)
        on_result(result)
    for per_fold in results.values():
        per_fold.sort(key=lambda result: result.fold)
    return Comparison(dataset, list(models), settings, folds, results)


def check_classes(dataset: Dataset, cv: int) -> None:
    """Refuse data whose classes cannot be spread over the folds."""
    counts = np.unique(dataset.y, return_counts=True)[1]
    if len(counts) > max(2, len(dataset.y) // 2):
        problem = (
            f"expected class labels, got {len(counts)} different values in {len(dataset.y)} rows; "
            "choose the label column with --target"
        )
        raise DataFileError(dataset.name, problem)
    fewest = int(counts.min())
    # Two rows of each class must remain for the inner folds.
    if fewest >= cv and fewest - -(-fewest // cv) >= 2:
        return
    name = quote(dataset.target_names[int(counts.argmin())])
    rows = "1 row" if fewest == 1 else f"{fewest} rows"
    advice = f"use --cv {fewest}, or add rows" if fewest >= 3 else "add rows or leave the class out"
    needed = max(cv, 4 if cv == 2 else 3)
    problem = f"class {name} has {rows}, but --cv {cv} needs {needed} of every class; {advice}"
    raise DataFileError(dataset.name, problem)


def make_scaler(X: Matrix) -> StandardScaler | MaxAbsScaler:
    """Bring features to one scale; sparse ones keep their zeros."""
    return MaxAbsScaler() if sp.issparse(X) else StandardScaler()


def width_unit(X: Matrix) -> float:
    """Inverse of features times variance of the scaled data, the unit of the width grids.

    The labels play no part in it, so sharing it between folds gives nothing away.
    """
    scaled = make_scaler(X).fit_transform(X)
    if sp.issparse(scaled):
        variance = scaled.multiply(scaled).mean() - scaled.mean() ** 2
    else:
        variance = scaled.var()
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0 / X.shape[1]


def tune(
    model: Model, X: Matrix, y: np.ndarray, unit: float, seed: int, where: str
) -> GridSearchCV:
    """Choose a model's parameters by cross-validation and fit it with them."""
    classifier = model.factory()
    if "random_state" in classifier.get_params():
        classifier.set_params(random_state=seed)
    folds = min(INNER_FOLDS, int(np.unique(y, return_counts=True)[1].min()))
    search = GridSearchCV(
        Pipeline([("scale", make_scaler(X)), ("model", classifier)]),
        {f"model__{name}": list(values) for name, values in model.grid(unit).items()},
        cv=StratifiedKFold(folds, shuffle=True, random_state=seed),
        error_score="raise",
    )
    try:
        return search.fit(X, y)
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise RunError(f"{model.title} failed {where}: {reason}") from error


def in_parallel(tasks: Sequence, jobs: int) -> Iterator:
    """Run delayed calls and yield their results as they come."""
    pool = Parallel(n_jobs=min(jobs, len(tasks)), return_as="generator_unordered")
    try:
        yield from pool(tasks)
    except BrokenExecutor:
        raise RunError(
            "a worker process was killed, most likely for lack of memory; try fewer --jobs"
        ) from None


def _evaluate(
    model: Model,
    X: Matrix,
    y: np.ndarray,
    fold: int,
    rows: tuple[np.ndarray, np.ndarray],
    unit: float,
    settings: Settings,
) -> FoldResult:
    if multiprocessing.parent_process() is not None:
        # Ctrl-C reaches every process of the terminal; the main one ends the workers.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    train, test = rows
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search = tune(model, X[train], y[train], unit, settings.seed, where=f"on fold {fold + 1}")
        predicted = search.predict(X[test])
    fitted = search.best_estimator_[-1]
    gaps = getattr(fitted, "dual_gap_", None)
    return FoldResult(
        model=model.name,
        fold=fold,
        error=float(np.mean(predicted != y[test])),
        fit_seconds=float(search.refit_time_),
        parameters={
            name.removeprefix("model__"): value for name, value in search.best_params_.items()
        },
        predicted=predicted,
        gap=None if gaps is None else float(np.max(gaps)),
        stopped_early=sum(issubclass(w.category, ConvergenceWarning) for w in caught),
        estimator=search.best_estimator_ if fold == 0 else None,
    )
