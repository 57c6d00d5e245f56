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
from oblong.io.dataset import Table
from oblong.io.errors import DataFileError, first_line

_FOLDS = 5
# Rows of the quick search; above the second number kernels are left out of it, and above the third
# a fifth of the rows is held out once, in place of cross-validation.
_SEARCH_ROWS, _KERNEL_ROWS, _MANY_ROWS = 1000, 20_000, 50_000


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
            if _fewest(table) < 2:
                raise DataFileError(table.name, "--proba needs two rows of every class")
            classifier = CalibratedMarginClassifier(classifier)
        if args.threshold is not None:
            classifier = _with_threshold(table, classifier, args)
            threshold = float(classifier.threshold)
        pipeline = make_pipeline(table, classifier, args.impute).fit(table.X, table.y)
        error = float(np.mean(pipeline.predict(table.X) != table.y))
        # A search has its score already, and would have to be done again in every fold.
        scores = None if args.no_score or chosen is not None else _scores(table, pipeline, args)
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


def _fewest(table: Table) -> int:
    return int(np.unique(table.y, return_counts=True)[1].min())


def _folds(table: Table, args: argparse.Namespace, k: int = _FOLDS) -> selection.StratifiedKFold:
    """So many folds, or as many as the smallest class has rows."""
    k = min(k, _fewest(table))
    return selection.StratifiedKFold(k, shuffle=True, random_state=args.seed)


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
    if _fewest(table) < 2:
        raise DataFileError(table.name, "a search needs two rows of every class; name a --model")
    splitter = _folds(table, args)
    y = table.y[rows]
    prepared = make_pipeline(table, "passthrough", args.impute)[:-1]
    Z = prepared.fit_transform(table.X[rows], y)
    unit, settings = spread_of(Z), Settings(seed=args.seed)
    found = []
    known = {model.name: model for model in select(["all"])}
    with warnings.catch_warnings(action="ignore"):
        for name in names:
            model = known[name]
            classifier = _prepared(model.factory(), args, table)
            parameters = choose(model, Z, y, unit, settings, "in the search")
            classifier.set_params(**parameters)
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
        cv=_folds(table, args, args.cv),
        n_jobs=args.jobs or -1,
        error_score="raise",
        refit=False,
    )
    # Threads share the data, and end with Ctrl-C.
    with parallel_config("threading"):
        search.fit(table.X, table.y)
    best = search.best_params_
    return {
        "folds": args.cv,
        "error": float(1.0 - search.best_score_),
        "parameters": {name.removeprefix("model__"): value for name, value in best.items()},
    }


def _with_threshold(
    table: Table, classifier: Any, args: argparse.Namespace
) -> selection.FixedThresholdClassifier:
    """A classifier that decides between two classes at a threshold."""
    if len(table.target_names) != 2:
        problem = f"decides between two classes, and {table.name} has {len(table.target_names)}"
        raise DataFileError("--threshold", problem)
    second, threshold = np.unique(table.y)[1], args.threshold
    if isinstance(threshold, str):
        if _fewest(table) < 2:
            raise DataFileError("--threshold", "finding it needs two rows of every class")
        scoring = make_scorer(balanced_accuracy_score)
        if threshold == "f1":
            scoring = make_scorer(f1_score, pos_label=second, zero_division=0.0)
        search = selection.TunedThresholdClassifierCV(
            make_pipeline(table, classifier, args.impute), scoring=scoring, cv=_folds(table, args)
        )
        threshold = search.fit(table.X, table.y).best_threshold_
    return selection.FixedThresholdClassifier(
        clone(classifier), threshold=float(threshold), pos_label=second
    )


def _scores(table: Table, pipeline: Pipeline, args: argparse.Namespace) -> dict[str, Any] | None:
    """Scores on held-out rows, of models fitted to the others; None if a class has one row."""
    if _fewest(table) < 2:
        return None
    splitter: Any = _folds(table, args)
    how = f"{splitter.n_splits} folds"
    if len(table.y) > _MANY_ROWS:
        splitter = selection.StratifiedShuffleSplit(1, test_size=0.2, random_state=args.seed)
        how = "a fifth, held out once"
    if args.model is None:
        how += ", on rows that were also used to choose the model"
    two = len(table.target_names) == 2
    scoring = {"error": "accuracy", "balanced_error": "balanced_accuracy"}
    if hasattr(pipeline, "predict_proba"):
        scoring |= {"auc": "roc_auc" if two else "roc_auc_ovr", "log_loss": "neg_log_loss"}
    elif two:
        scoring["auc"] = "roc_auc"
    with warnings.catch_warnings(action="ignore"), parallel_config("threading"):
        # A fold may lack what a score or a fit needs; then there is none.
        found = selection.cross_validate(
            clone(pipeline), table.X, table.y, cv=splitter, scoring=scoring, n_jobs=args.jobs or -1
        )

    def mean(name: str) -> float | None:
        values = found.get(f"test_{name}")
        return None if values is None or np.isnan(values).any() else float(np.mean(values))

    accuracy, balanced, loss = mean("error"), mean("balanced_error"), mean("log_loss")
    if accuracy is None or balanced is None:
        return None
    return {
        "error": 1.0 - accuracy,
        "balanced_error": 1.0 - balanced,
        "auc": mean("auc"),
        "log_loss": None if loss is None else -loss,
        "how": how,
    }
