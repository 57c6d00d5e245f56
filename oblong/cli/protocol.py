"""The comparison itself: cross-validation of several models on the same folds."""

from __future__ import annotations

import multiprocessing
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from oblong.cli.memory import peak_memory
from oblong.cli.registry import Model
from oblong.cli.significance import corrected_t_test, holm
from oblong.datasets import DataFileError, Dataset
from oblong.datasets._dataset import Matrix, quote

__all__ = ["Comparison", "FoldResult", "RunError", "Settings", "Summary", "compare"]

INNER_FOLDS = 5
_E = TypeVar("_E", GridSearchCV, Pipeline)


class RunError(RuntimeError):
    """A model that failed on data that was fine."""


@dataclass(frozen=True)
class Settings:
    """How to cross-validate.

    With `nested`, parameters are chosen anew on the training rows of every fold; otherwise once, on
    all rows, which takes less time and flatters models with many parameters.
    """

    cv: int = 5
    repeats: int = 1
    seed: int = 0
    jobs: int = 1
    nested: bool = True


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


def compare(
    dataset: Dataset,
    models: Sequence[Model],
    settings: Settings,
    on_result: Callable[[FoldResult], None] = lambda result: None,
    done: Mapping[tuple[str, int], FoldResult] = MappingProxyType({}),
) -> Comparison:
    """Cross-validate models on the same folds.

    If nested, each model's parameters are chosen for every fold by cross-validation within the
    training rows; the held-out rows are only ever predicted.

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
    done : mapping
        Results of an earlier run by model and fold, which are not computed again.
    """
    check_classes(dataset, settings.cv)
    splitter = RepeatedStratifiedKFold(
        n_splits=settings.cv, n_repeats=settings.repeats, random_state=settings.seed
    )
    X, y = dataset.X, dataset.y
    folds = list(splitter.split(np.zeros(len(y)), y))
    unit = width_unit(X)
    missing = [
        (fold, model)
        for fold in range(len(folds))
        for model in models
        if (model.name, fold) not in done
    ]
    chosen: dict[str, dict[str, object]] = {}
    if not settings.nested:
        chosen = {name: result.parameters for (name, _), result in done.items()}
        names = {model.name for _, model in missing} - set(chosen)
        tasks = [delayed(_choose)(m, X, y, unit, settings) for m in models if m.name in names]
        chosen |= dict(in_parallel(tasks, settings.jobs))
    tasks = [
        delayed(_evaluate)(model, X, y, fold, folds[fold], unit, settings, chosen.get(model.name))
        for fold, model in missing
    ]
    results: dict[str, list[FoldResult]] = {model.name: [] for model in models}
    for result in in_parallel(tasks, settings.jobs):
        results[result.model].append(result)
        on_result(result)
    train = folds[0][0]
    for model in models:
        mine = [result for (name, _), result in done.items() if name == model.name]
        for result in mine:
            if result.fold == 0 and result.estimator is None:
                # Pictures need the model itself.
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    fitted = fit_with(
                        model, X[train], y[train], result.parameters, settings.seed, "on fold 1"
                    )
                result = replace(result, estimator=fitted)
            results[model.name].append(result)
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
    folds = min(INNER_FOLDS, int(np.unique(y, return_counts=True)[1].min()))
    search = GridSearchCV(
        _pipeline(model, X, seed),
        {f"model__{name}": list(values) for name, values in model.grid(unit).items()},
        cv=StratifiedKFold(folds, shuffle=True, random_state=seed),
        error_score="raise",
    )
    return _fitted(search, X, y, model, where)


def fit_with(
    model: Model,
    X: Matrix,
    y: np.ndarray,
    parameters: Mapping[str, object],
    seed: int,
    where: str,
) -> Pipeline:
    """Fit a model with given parameters."""
    pipeline = _pipeline(model, X, seed)
    pipeline.set_params(**{f"model__{name}": value for name, value in parameters.items()})
    return _fitted(pipeline, X, y, model, where)


def _pipeline(model: Model, X: Matrix, seed: int) -> Pipeline:
    classifier = model.factory()
    if "random_state" in classifier.get_params():
        classifier.set_params(random_state=seed)
    return Pipeline([("scale", make_scaler(X)), ("model", classifier)])


def _fitted(estimator: _E, X: Matrix, y: np.ndarray, model: Model, where: str) -> _E:
    try:
        return estimator.fit(X, y)
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise RunError(f"{model.title} failed {where}: {reason}") from error


def _parameters(search: GridSearchCV) -> dict[str, object]:
    return {name.removeprefix("model__"): value for name, value in search.best_params_.items()}


def _choose(
    model: Model, X: Matrix, y: np.ndarray, unit: float, settings: Settings
) -> tuple[str, dict[str, object]]:
    """Choose a model's parameters on all rows."""
    _leave_interrupts()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = tune(model, X, y, unit, settings.seed, where="on all rows")
    return model.name, _parameters(search)


def _leave_interrupts() -> None:
    """Ctrl-C reaches every process of the terminal; the main one ends the workers."""
    if multiprocessing.parent_process() is not None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def in_parallel(tasks: Sequence, jobs: int) -> Iterator:
    """Run delayed calls and yield their results as they come."""
    if not tasks:
        return
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
    parameters: dict[str, object] | None,
) -> FoldResult:
    _leave_interrupts()
    (train, test), where = rows, f"on fold {fold + 1}"
    with warnings.catch_warnings(record=True) as caught, peak_memory() as peak:
        warnings.simplefilter("always")
        if parameters is None:
            search = tune(model, X[train], y[train], unit, settings.seed, where)
            estimator, seconds = search.best_estimator_, float(search.refit_time_)
            parameters = _parameters(search)
        else:
            began = time.perf_counter()
            estimator = fit_with(model, X[train], y[train], parameters, settings.seed, where)
            seconds = time.perf_counter() - began
        predicted = estimator.predict(X[test])
    gaps = getattr(estimator[-1], "dual_gap_", None)
    return FoldResult(
        model=model.name,
        fold=fold,
        error=float(np.mean(predicted != y[test])),
        fit_seconds=seconds,
        memory=peak.size,
        parameters=parameters,
        predicted=predicted,
        gap=None if gaps is None else float(np.max(gaps)),
        stopped_early=sum(issubclass(w.category, ConvergenceWarning) for w in caught),
        estimator=estimator if fold == 0 else None,
    )
