"""The comparison itself: cross-validation of several models on the same folds."""

import math
import multiprocessing
import signal
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.pipeline import Pipeline

from oblong._core.text import quote
from oblong.batch import CalibratedMarginClassifier
from oblong.cli.comparison.models import Model
from oblong.cli.comparison.results import Comparison, FoldResult, Settings
from oblong.cli.shared.memory import peak_memory
from oblong.cli.shared.options import RunError
from oblong.cli.shared.preparation import class_counts, scaling, spread_of
from oblong.io.dataset import Dataset, Matrix
from oblong.io.errors import DataFileError, first_line

INNER_FOLDS = 5
TOO_LITTLE_TIME = "the time ran out before two folds were done; allow more --time"
# A search that shares kernel matrices keeps one in memory; for more rows it would not fit.
_SHARED_ROWS = 6000
# Rows up to which a fit to every fold takes less time than to compile what solves them together.
_PLAIN_ROWS = 2000
_E = TypeVar("_E", GridSearchCV, Pipeline)


class OutOfTime(BaseException):
    """The time that a comparison may take is over; not a failure of the model that is fitted."""


def compare(
    dataset: Dataset,
    models: Sequence[Model],
    settings: Settings,
    on_result: Callable[[FoldResult], None] = lambda result: None,
    done: Mapping[tuple[str, int], FoldResult] = MappingProxyType({}),
    fold_by_fold: bool = False,
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
        Called with each result as it comes in. If it raises :class:`OutOfTime`, no more follow, and
        the folds that all models have finished make the comparison.
    done : mapping
        Results of an earlier run by model and fold, which are not computed again.
    fold_by_fold : bool
        Whether all models finish a fold before the next one begins: a run may be cut short.
    """
    check_classes(dataset, settings.cv)
    splitter = RepeatedStratifiedKFold(
        n_splits=settings.cv, n_repeats=settings.repeats, random_state=settings.seed
    )
    X, y = dataset.X, dataset.y
    folds = list(splitter.split(np.zeros(len(y)), y))
    unit = width_unit(X, settings.impute)
    everything = [(fold, model) for fold in range(len(folds)) for model in models]
    missing = [(fold, model) for fold, model in everything if (model.name, fold) not in done]
    if not fold_by_fold:
        # After an installation our models compile their loops in their first fold, while others do
        # the baselines. It comes first: a process that grows later looks like a leak to joblib.
        missing.sort(key=lambda task: task[1].is_ours() * (1 if task[0] else -1))
    chosen: dict[str, dict[str, object]] = {}
    if not settings.nested:
        chosen = {name: result.parameters for (name, _), result in done.items()}
        names = {model.name for _, model in missing} - set(chosen)
        tasks = [delayed(_choose)(m, X, y, unit, settings) for m in models if m.name in names]
        chosen |= dict(in_parallel(tasks, settings.jobs))
    tasks = [
        delayed(evaluate)(model, X, y, fold, folds[fold], unit, settings, chosen.get(model.name))
        for fold, model in missing
    ]
    results: dict[str, list[FoldResult]] = {model.name: [] for model in models}
    running = in_parallel(tasks, settings.jobs)
    try:
        for result in running:
            results[result.model].append(result)
            on_result(result)
    except OutOfTime:
        running.close()
    train = folds[0][0]
    for model in models:
        mine = [result for (name, _), result in done.items() if name == model.name]
        for result in mine:
            if result.fold == 0 and result.estimator is None:
                # Pictures need the model itself.
                with warnings.catch_warnings(action="ignore"):
                    fitted = fit_with(
                        model, X[train], y[train], result.parameters, settings, "on fold 1"
                    )
                result = replace(result, estimator=fitted)
            results[model.name].append(result)
    for per_fold in results.values():
        per_fold.sort(key=lambda result: result.fold)
    return _complete(Comparison(dataset, list(models), settings, folds, results))


def _complete(comparison: Comparison) -> Comparison:
    """Models and folds of which every combination is there, if the time was short."""
    models = list(comparison.models)
    while True:
        done = [{r.fold for r in comparison.results[model.name]} for model in models]
        common = sorted(set.intersection(*done))
        if len(common) == len(comparison.folds):
            return comparison
        if len(common) > 1:
            break
        slowest = min(range(1, len(models)), key=lambda k: len(done[k]), default=0)
        if len(done[0]) < 2 or slowest == 0:
            raise RunError(TOO_LITTLE_TIME)
        del models[slowest]
    results = {m.name: [r for r in comparison.results[m.name] if r.fold in common] for m in models}
    folds = [comparison.folds[fold] for fold in common]
    left_out = [m.title for m in comparison.models if m not in models]
    return replace(comparison, models=models, folds=folds, results=results, left_out=left_out)


def check_classes(dataset: Dataset, cv: int) -> None:
    """Refuse data whose classes cannot be spread over the folds."""
    counts = class_counts(dataset)
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


def make_scaler(X: Matrix, impute: str | None = None) -> Any:
    """Bring features to one scale; sparse ones keep their zeros, and gaps are filled before."""
    steps = scaling(X, impute)
    return steps[0][1] if len(steps) == 1 else Pipeline(steps)


def width_unit(X: Matrix, impute: str | None = None) -> float:
    """The unit of the width grids of the scaled data.

    The labels play no part in it, so sharing it between folds gives nothing away.
    """
    return spread_of(make_scaler(X, impute).fit_transform(X))


def choose(
    model: Model, X: Matrix, y: np.ndarray, unit: float, settings: Settings, where: str
) -> dict[str, object]:
    """Choose a model's parameters by cross-validation, on some of the rows if there are many."""
    grid = model.grid(unit)
    if math.prod(len(values) for values in grid.values()) <= 1:
        return {name: values[0] for name, values in grid.items()}
    rows = some_rows(y, settings.search_rows, settings.seed)
    X, y = X[rows], y[rows]
    folds = min(INNER_FOLDS, int(np.unique(y, return_counts=True)[1].min()))
    splitter = StratifiedKFold(folds, shuffle=True, random_state=settings.seed)
    if model.search is not None and len(y) <= _SHARED_ROWS:
        search = model.search(grid, splitter)
        pipeline = Pipeline([("scale", make_scaler(X, settings.impute)), ("model", search)])
        found = _fitted(pipeline, X, y, model, where)[-1].best_params_
        return {name: found[name] for name in grid}
    grid_search = GridSearchCV(
        _pipeline(model, X, settings),
        {f"model__{name}": list(values) for name, values in grid.items()},
        cv=splitter,
        error_score="raise",
        refit=False,
    )
    best = _fitted(grid_search, X, y, model, where).best_params_
    return {name.removeprefix("model__"): value for name, value in best.items()}


def some_rows(y: np.ndarray, most: int | None, seed: int) -> np.ndarray:
    """Rows in the proportions of the classes, with enough of each to cross-validate."""
    if most is None or len(y) <= most:
        return np.arange(len(y))
    order = np.random.RandomState(seed).permutation(len(y))
    parts = []
    for label, count in zip(*np.unique(y, return_counts=True)):
        least = min(count, INNER_FOLDS)
        parts.append(order[y[order] == label][: max(least, round(most / len(y) * count))])
    return np.sort(np.concatenate(parts))


def fit_with(
    model: Model,
    X: Matrix,
    y: np.ndarray,
    parameters: Mapping[str, object],
    settings: Settings,
    where: str,
) -> Pipeline:
    """Fit a model with given parameters."""
    pipeline = _pipeline(model, X, settings)
    pipeline.set_params(**{f"model__{name}": value for name, value in parameters.items()})
    return _fitted(pipeline, X, y, model, where)


def _pipeline(model: Model, X: Matrix, settings: Settings) -> Pipeline:
    classifier = model.factory()
    if "random_state" in classifier.get_params():
        classifier.set_params(random_state=settings.seed)
    return Pipeline([("scale", make_scaler(X, settings.impute)), ("model", classifier)])


def _fitted(estimator: _E, X: Matrix, y: np.ndarray, model: Model, where: str) -> _E:
    try:
        return estimator.fit(X, y)
    except Exception as error:
        raise RunError(f"{model.title} failed {where}: {first_line(error)}") from error


def _choose(
    model: Model, X: Matrix, y: np.ndarray, unit: float, settings: Settings
) -> tuple[str, dict[str, object]]:
    """Choose a model's parameters on all rows."""
    _leave_interrupts()
    with warnings.catch_warnings(action="ignore"):
        return model.name, choose(model, X, y, unit, settings, "on all rows")


def _leave_interrupts() -> None:
    """Ctrl-C reaches every process of the terminal; the main one ends the workers."""
    if multiprocessing.parent_process() is not None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def in_parallel(tasks: Sequence, jobs: int) -> Generator:
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


def evaluate(
    model: Model,
    X: Matrix,
    y: np.ndarray,
    fold: int,
    rows: tuple[np.ndarray, np.ndarray],
    unit: float,
    settings: Settings,
    parameters: dict[str, object] | None = None,
) -> FoldResult:
    """One model on one fold, its parameters chosen on the training rows unless they are given."""
    _leave_interrupts()
    (train, test), where = rows, f"on fold {fold + 1}"
    began = time.perf_counter()
    with warnings.catch_warnings(record=True, action="always") as caught, peak_memory() as peak:
        if parameters is None:
            parameters = choose(model, X[train], y[train], unit, settings, where)
        searched = time.perf_counter() - began
        if model.kind == "kernel":
            train = train[some_rows(y[train], settings.kernel_rows, settings.seed)]
        start = time.perf_counter()
        estimator = fit_with(model, X[train], y[train], parameters, settings, where)
        fitted = time.perf_counter()
        predicted = estimator.predict(X[test])
        done = time.perf_counter()
    found = judge(estimator, X, y, train, test, predicted)
    gaps = getattr(estimator[-1], "dual_gap_", None)
    return FoldResult(
        model=model.name,
        fold=fold,
        error=float(np.mean(predicted != y[test])),
        fit_seconds=fitted - start,
        predict_seconds=done - fitted,
        search_seconds=searched,
        seconds=time.perf_counter() - began,
        memory=peak.size,
        parameters=parameters,
        predicted=predicted,
        gap=None if gaps is None else float(np.max(gaps)),
        stopped_early=sum(issubclass(w.category, ConvergenceWarning) for w in caught),
        estimator=estimator if fold == 0 else None,
        **found,
    )


def judge(
    estimator: Pipeline,
    X: Matrix,
    y: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    predicted: np.ndarray,
) -> dict[str, Any]:
    """Balanced error, AUC and log loss of a fitted model on held-out rows.

    A model without probabilities of its own gets those of
    :class:`~oblong.CalibratedMarginClassifier`, from its training rows alone.
    """
    classes, truth = estimator.classes_, y[test]
    probabilities: np.ndarray | None = None
    with warnings.catch_warnings(action="ignore"):
        if hasattr(estimator, "predict_proba"):
            probabilities = estimator.predict_proba(X[test])
        else:
            folds = min(INNER_FOLDS, int(np.unique(y[train], return_counts=True)[1].min()))
            if folds > 1:
                model, Z, others = estimator, X[train], X[test]
                if len(train) > _PLAIN_ROWS:
                    # The scaling is that of the model: labels have no part in it.
                    model, scale = estimator[-1], estimator[:-1].transform
                    Z, others = scale(Z), scale(others)
                calibrated = CalibratedMarginClassifier(clone(model), cv=folds).fit(Z, y[train])
                probabilities = calibrated.predict_proba(others)
        loss = None
        if probabilities is not None:
            loss = float(log_loss(truth, probabilities, labels=classes))
        # Probabilities may all be 0 or 1, and then have no order.
        if hasattr(estimator, "decision_function"):
            scores = np.asarray(estimator.decision_function(X[test]))
        else:
            scores = np.asarray(probabilities)
        if scores.ndim == 1:
            scores = np.column_stack([-scores, scores])
        # One class against the rest, and the mean over the classes.
        areas = [
            roc_auc_score(truth == label, scores[:, k])
            for k, label in enumerate(classes)
            if scores.shape[1] == len(classes) and 0 < np.count_nonzero(truth == label) < len(truth)
        ]
        return {
            "balanced_error": float(1.0 - balanced_accuracy_score(truth, predicted)),
            "auc": float(np.mean(areas)) if areas else None,
            "log_loss": loss,
        }
