"""The comparison itself: cross-validation of several models on the same folds."""

from __future__ import annotations

import multiprocessing
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from oblong._core.text import quote
from oblong.cli.comparison.grids import Model
from oblong.cli.comparison.results import Comparison, FoldResult, Settings
from oblong.cli.shared.errors import RunError
from oblong.cli.shared.memory import peak_memory
from oblong.datasets import DataFileError, Dataset
from oblong.io.dataset import Matrix

__all__ = [
    "check_classes",
    "compare",
    "fit_with",
    "in_parallel",
    "make_scaler",
    "tune",
    "width_unit",
]

INNER_FOLDS = 5
_E = TypeVar("_E", GridSearchCV, Pipeline)


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
    unit = width_unit(X, settings.impute)
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
                        model, X[train], y[train], result.parameters, settings, "on fold 1"
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


def make_scaler(X: Matrix, impute: str | None = None) -> StandardScaler | MaxAbsScaler | Pipeline:
    """Bring features to one scale; sparse ones keep their zeros, and gaps are filled before."""
    if sp.issparse(X):
        return MaxAbsScaler()
    if impute is None:
        return StandardScaler()
    filled = SimpleImputer(strategy=impute, keep_empty_features=True)
    return Pipeline([("impute", filled), ("scale", StandardScaler())])


def width_unit(X: Matrix, impute: str | None = None) -> float:
    """Inverse of features times variance of the scaled data, the unit of the width grids.

    The labels play no part in it, so sharing it between folds gives nothing away.
    """
    scaled = make_scaler(X, impute).fit_transform(X)
    if sp.issparse(scaled):
        variance = scaled.multiply(scaled).mean() - scaled.mean() ** 2
    else:
        variance = scaled.var()
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0 / X.shape[1]


def tune(
    model: Model,
    X: Matrix,
    y: np.ndarray,
    unit: float,
    seed: int,
    where: str,
    impute: str | None = None,
) -> GridSearchCV:
    """Choose a model's parameters by cross-validation and fit it with them."""
    folds = min(INNER_FOLDS, int(np.unique(y, return_counts=True)[1].min()))
    search = GridSearchCV(
        _pipeline(model, X, seed, impute),
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
    settings: Settings,
    where: str,
) -> Pipeline:
    """Fit a model with given parameters."""
    pipeline = _pipeline(model, X, settings.seed, settings.impute)
    pipeline.set_params(**{f"model__{name}": value for name, value in parameters.items()})
    return _fitted(pipeline, X, y, model, where)


def _pipeline(model: Model, X: Matrix, seed: int, impute: str | None) -> Pipeline:
    classifier = model.factory()
    if "random_state" in classifier.get_params():
        classifier.set_params(random_state=seed)
    return Pipeline([("scale", make_scaler(X, impute)), ("model", classifier)])


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
        search = tune(model, X, y, unit, settings.seed, "on all rows", settings.impute)
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
            search = tune(model, X[train], y[train], unit, settings.seed, where, settings.impute)
            estimator, seconds = search.best_estimator_, float(search.refit_time_)
            parameters = _parameters(search)
        else:
            began = time.perf_counter()
            estimator = fit_with(model, X[train], y[train], parameters, settings, where)
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
