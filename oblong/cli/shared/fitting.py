"""The model of ``oblong train``: which one, its parameters, its threshold and its score."""

import argparse
import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import parallel_config
from sklearn import model_selection as selection
from sklearn.base import ClassifierMixin, clone, is_classifier
from sklearn.metrics import balanced_accuracy_score, f1_score, make_scorer
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import InvalidParameterError

from oblong._core.text import no_such, quote
from oblong.batch import CalibratedMarginClassifier
from oblong.cli.comparison.models import Model, select, trainable
from oblong.cli.comparison.protocol import choose, some_rows
from oblong.cli.comparison.results import Settings
from oblong.cli.shared.options import RunError
from oblong.cli.shared.preparation import make_pipeline, spread_of
from oblong.cli.shared.scoring import (
    against_majority,
    fewest,
    folds,
    held_out_scores,
    judged,
    lone_class,
)
from oblong.io.dataset import Table
from oblong.io.errors import DataFileError, first_line

# Rows of the quick search; above the second number kernels are left out of it.
_SEARCH_ROWS, _KERNEL_ROWS = 1000, 20_000


@dataclass(frozen=True)
class Fitted:
    """A trained model and what is known of it.

    Attributes
    ----------
    pipeline : Pipeline
        The model.
    model, name : str
        What it is called on the command line, and its class.
    training_error : float
        Fraction of the training rows predicted wrongly.
    chosen, search, scores : dict or None
        Parameters chosen by cross-validation, the quick search, and scores on held-out rows.
    threshold : float or None
        Where it decides between two classes, if not where the classifier does.
    """

    pipeline: Pipeline
    model: str
    name: str
    training_error: float
    chosen: dict[str, Any] | None
    search: dict[str, Any] | None
    scores: dict[str, Any] | None
    threshold: float | None


def train(table: Table, args: argparse.Namespace) -> Fitted:
    """Fit the model that the arguments mean, or the winner of a quick search."""
    with _failures(args.model or "the search", table):
        search = chosen = threshold = None
        name = args.model
        if name is None:
            search, classifier = _quick_search(table, args)
            name = search["model"]
        else:
            model, classifier = classifier_of(args, table)
            if args.cv and model is not None:
                chosen = _tuned(table, model, classifier, args)
                classifier.set_params(**chosen["parameters"])
        kind = type(classifier).__name__
        if args.proba and not hasattr(classifier, "predict_proba"):
            if fewest(table) < 2:
                problem = f"needs two rows of every class, and {lone_class(table)} has one"
                raise DataFileError("--proba", problem)
            classifier = CalibratedMarginClassifier(classifier)
        if args.threshold is not None:
            classifier = _with_threshold(table, classifier, args)
            threshold = float(classifier.threshold)
        pipeline = make_pipeline(table, classifier, args.impute).fit(table.X, table.y)
        error = float(np.mean(pipeline.predict(table.X) != table.y))
        # A search has its score already, and would have to be done again in every fold.
        scores = None
        if not args.no_score and chosen is None:
            tried = 1 if search is None else search["tried"]
            scores = held_out_scores(table, pipeline, args, tried)
    return Fitted(pipeline, name, kind, error, chosen, search, scores, threshold)


@contextmanager
def _failures(what: str, table: Table) -> Iterator[None]:
    """Say in one line why a model could not be fitted."""
    try:
        yield
    except DataFileError:
        raise
    except InvalidParameterError as error:
        raise DataFileError("--param", " ".join(str(error).split())) from None
    except (ValueError, TypeError, MemoryError, FloatingPointError) as error:
        raise RunError(f"{what} failed on {table.name}: {first_line(error)}") from None


# Which model -------------------------------------------------------------------------------------


def classifier_of(args: argparse.Namespace, table: Table | None) -> tuple[Model | None, Any]:
    """The registered model, if it is one, and the classifier with its parameters."""
    registered = {model.name: model for model in trainable()}
    model = registered.get(args.model)
    if model is not None:
        classifier = model.factory()
    else:
        classifier = _by_class(args.model, list(registered))
        if args.cv:
            problem = f"--cv needs a model with values to try: one of {', '.join(registered)}"
            raise DataFileError("--model", problem)
    known = classifier.get_params(deep=False)
    for name, _ in args.param:
        if name not in known:
            problem = no_such("parameter", name, known)
            raise DataFileError(f"--model {args.model}", problem)
    classifier = _prepared(classifier, args, table).set_params(**dict(args.param))
    try:
        classifier._validate_params()
    except InvalidParameterError as error:
        raise DataFileError("--param", " ".join(str(error).split())) from None
    return model, classifier


def _prepared(classifier: Any, args: argparse.Namespace, table: Table | None) -> Any:
    """A classifier with its seed and its class weights."""
    known = classifier.get_params(deep=False)
    if "random_state" in known:
        classifier.set_params(random_state=args.seed)
    if args.class_weight is not None:
        if "class_weight" not in known:
            name = type(classifier).__name__
            raise DataFileError("--class-weight", f"{name} has no weights of classes")
        if table is not None:
            classifier.set_params(class_weight=_weights(args.class_weight, table))
    return classifier


def _weights(given: str | dict[str, float], table: Table) -> Any:
    if isinstance(given, str):
        return given
    labels = dict(zip(table.target_names, np.unique(table.y).tolist()))
    for name in given:
        if name not in labels:
            shown = ", ".join(quote(known) for known in list(labels)[:12])
            problem = f"no class {quote(name)}; the classes are {shown}"
            raise DataFileError("--class-weight", problem)
    return {labels[name]: weight for name, weight in given.items()}


def _by_class(name: str, registered: list[str]) -> ClassifierMixin:
    import oblong

    values = (getattr(oblong, public) for public in oblong.__all__ if public[0].isupper())
    classes = {v.__name__: v for v in values if inspect.isclass(v) and hasattr(v, "get_params")}
    classes = {public: kind for public, kind in classes.items() if is_classifier(kind())}
    if name in classes:
        return classes[name]()
    problem = no_such("model", name, [*registered, *classes], registered)
    raise DataFileError("--model", problem)


def _quick_search(table: Table, args: argparse.Namespace) -> tuple[dict[str, Any], Any]:
    """The best of a few models, with parameters chosen on some of the rows."""
    n, classes = len(table.y), len(table.target_names)
    names = ["logistic"] if n <= _KERNEL_ROWS else ["logistic", "arow"]
    if n > _KERNEL_ROWS or classes == 2:
        names.insert(0, "rmm-linear")
    if n <= _KERNEL_ROWS:
        names.insert(0, "rmm")
    rows = some_rows(table.y, _SEARCH_ROWS, args.seed)
    if fewest(table) < 2:
        problem = f"class {lone_class(table)} has a single row, and a search needs two of every "
        raise DataFileError(table.name, problem + "class; name a --model")
    splitter = folds(table, args)
    y = table.y[rows]
    prepared = make_pipeline(table, "passthrough", args.impute)[:-1]
    Z = prepared.fit_transform(table.X[rows], y)
    unit, settings = spread_of(Z), Settings(seed=args.seed)
    found, tried = [], 0
    known = {model.name: model for model in select(["all"])}
    with warnings.catch_warnings(action="ignore"):
        for name in names:
            model = known[name]
            classifier = _prepared(model.factory(), args, table)
            parameters = choose(model, Z, y, unit, settings, "in the search")
            classifier.set_params(**parameters)
            tried += len(selection.ParameterGrid(dict(model.grid(unit))))
            scores = selection.cross_validate(classifier, Z, y, cv=splitter, error_score="raise")
            error = float(1.0 - np.mean(scores["test_score"]))
            found.append((error, name, parameters, classifier))
    # Among equals the first.
    error, name, parameters, classifier = min(found, key=lambda each: each[0])
    summary = {
        "model": name,
        "parameters": parameters,
        "error": error,
        "rows": len(rows),
        "folds": splitter.n_splits,
        "tried": tried,
        "candidates": [{"model": each[1], "error": each[0]} for each in found],
    }
    return summary, classifier


# Its parameters, threshold and score -------------------------------------------------------------


def _tuned(table: Table, model: Model, classifier: Any, args: argparse.Namespace) -> dict[str, Any]:
    """Parameters that cross-validation chooses."""
    pipeline = make_pipeline(table, classifier, args.impute)
    fixed = {name for name, _ in args.param}
    unit = spread_of(pipeline[:-1].fit_transform(table.X, table.y))
    grid = {
        f"model__{name}": list(values)
        for name, values in model.grid(unit).items()
        if name not in fixed
    }
    search = selection.GridSearchCV(
        pipeline,
        grid,
        scoring={"accuracy": "accuracy"} | against_majority(table),
        cv=folds(table, args, args.cv),
        n_jobs=args.jobs or -1,
        error_score="raise",
        refit=False,
    )
    # Threads share the data, and end with Ctrl-C.
    with parallel_config("threading"):
        found = search.fit(table.X, table.y).cv_results_
    best = int(np.argmin(found["rank_test_accuracy"]))
    tried, parameters = len(found["params"]), found["params"][best]
    wins, losses = (
        int(sum(found[f"split{k}_test_{name}"][best] for k in range(args.cv)))
        for name in ("wins", "losses")
    )
    return {
        "folds": args.cv,
        "error": float(1.0 - found["mean_test_accuracy"][best]),
        "parameters": {name.removeprefix("model__"): value for name, value in parameters.items()},
    } | judged(table, wins, losses, tried)


def _with_threshold(
    table: Table, classifier: Any, args: argparse.Namespace
) -> selection.FixedThresholdClassifier:
    """A classifier that decides between two classes at a threshold."""
    if len(table.target_names) != 2:
        problem = f"decides between two classes, and {table.name} has {len(table.target_names)}"
        raise DataFileError("--threshold", problem)
    second, threshold = np.unique(table.y)[1], args.threshold
    if isinstance(threshold, str):
        if fewest(table) < 2:
            problem = f"finding it needs two rows of every class, and {lone_class(table)} has one"
            raise DataFileError("--threshold", problem)
        # A fold leaves out one of them.
        if args.proba and fewest(table) < 3:
            problem = "finding it with --proba needs three rows of every class, and one has two"
            raise DataFileError("--threshold", problem)
        scoring = make_scorer(balanced_accuracy_score)
        if threshold == "f1":
            scoring = make_scorer(f1_score, pos_label=second, zero_division=0.0)
        search = selection.TunedThresholdClassifierCV(
            make_pipeline(table, classifier, args.impute), scoring=scoring, cv=folds(table, args)
        )
        try:
            threshold = search.fit(table.X, table.y).best_threshold_
        except ValueError as error:
            if "constant predictions" not in str(error):
                raise
            problem = f"no fold tells the classes apart; the rarer one has {fewest(table):,} rows"
            raise DataFileError("--threshold", problem, advice="give a number") from None
    return selection.FixedThresholdClassifier(
        clone(classifier), threshold=float(threshold), pos_label=second
    )
