"""``oblong train``: fit one model to a file and save it."""

from __future__ import annotations

import argparse
import inspect
import json
import re
import time
from difflib import get_close_matches
from typing import Any

import numpy as np
from joblib import cpu_count, parallel_config
from sklearn.base import ClassifierMixin, is_classifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import InvalidParameterError

from oblong._core.text import quote
from oblong.cli.comparison.grids import Model, select
from oblong.cli.shared import large
from oblong.cli.shared.errors import RunError
from oblong.cli.shared.options import (
    busy,
    check_apart,
    is_set_by_name,
    output_file,
    plain_warnings,
    seed,
    whole_number,
)
from oblong.cli.shared.preparation import make_pipeline, spread_of
from oblong.cli.shared.tables import add_table_options, check_labels, labelled_table
from oblong.datasets import DataFileError
from oblong.io.tables import Table

__all__ = ["add_parser"]

_LISTED = 1000

_DESCRIPTION = """\
Train one model on a file and save it with all that prediction needs: the scaling of the
columns, the encoding of text, the values for gaps, the spelling of the labels.
"""

_EPILOG = """\
models:
{models}
  or the name of a classifier of the library, such as AROWClassifier

examples:
  oblong train iris --model rmm -o iris.oblong
  oblong train patients.csv --target outcome --model rmm --cv -o patients.oblong
  oblong train adult.csv --categorical auto --impute --model rmm-linear -o adult.oblong
  oblong train train.libsvm.zst --model AROWClassifier --param r=0.1 -o news.oblong
  oblong train big/*.parquet --target y --model rmm-linear -o big.oblong
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    models = select(["all"])
    parser = subparsers.add_parser(
        "train",
        description=_DESCRIPTION,
        epilog=_EPILOG.format(models="\n".join(f"  {m.name:<16}  {m.title}" for m in models)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "data",
        nargs="+",
        metavar="DATA",
        help="file, name of a data set, or - for standard input; a folder or several files are "
        "read in passes",
    )
    large.add_options(parser)
    add_table_options(parser)
    parser.add_argument("--model", required=True, metavar="NAME", help="what to train")
    parser.add_argument(
        "--param",
        action="append",
        type=_parameter,
        default=[],
        metavar="K=V",
        help="parameter of the model; may be given several times",
    )
    parser.add_argument(
        "--cv",
        nargs="?",
        const=5,
        type=whole_number(2),
        metavar="K",
        help="choose the other parameters by cross-validation with K folds (5)",
    )
    parser.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="seed (default: %(default)s)"
    )
    parser.add_argument(
        "--jobs",
        type=whole_number(1),
        default=cpu_count(),
        metavar="N",
        help="threads for --cv (default: one per core)",
    )
    parser.add_argument(
        "-o", "--output", required=True, type=output_file, metavar="FILE", help="the model"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of sentences")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from oblong.persistence import ModelFileError, save

    model, classifier = _classifier(args)
    if args.cluster or large.is_large(args.data):
        return large.train(args, classifier)
    args.data = args.data[0]
    check_apart([] if is_set_by_name(args.data) else [args.data], [args.output])
    with busy(f"reading {args.data}"):
        table = labelled_table(args)
    check_labels(table, args.cv)
    pipeline = make_pipeline(table, classifier, args.impute)
    started = time.perf_counter()
    with plain_warnings(), busy(f"training on {table.X.shape[0]:,} rows"):
        pipeline, chosen = _fit(pipeline, model, table, args)
        error = float(np.mean(pipeline.predict(table.X) != table.y))
    seconds = time.perf_counter() - started
    training = _training(table, args, chosen, error)
    try:
        save(pipeline, args.output, training=training)
    except ModelFileError as problem:
        raise RunError(str(problem)) from None
    rows, features = table.X.shape
    if args.json:
        names = ("source", "rows", "features", "target_names", "training_error", "cross_validation")
        found = {name: training[name] for name in names}
        found |= {"model": type(pipeline[-1]).__name__, "file": str(args.output)}
        print(json.dumps(found | {"seconds": round(seconds, 3)}, default=str))
        return 0
    print(
        f"{args.output}: {type(pipeline[-1]).__name__}, {rows:,} rows, {features:,} features, "
        f"{len(table.target_names)} classes, {seconds:.2f} s"
    )
    if chosen is not None:
        values = ", ".join(f"{name}={value}" for name, value in chosen["parameters"].items())
        print(f"chosen by {chosen['folds']}-fold cross-validation: {values}")
        print(f"error {100 * chosen['error']:.2f} % on held-out rows")
    print(f"error {100 * error:.2f} % on the training rows")
    return 0


# The model ---------------------------------------------------------------------------------------


def _classifier(args: argparse.Namespace) -> tuple[Model | None, Any]:
    """The registered model, if it is one, and the classifier with its parameters."""
    registered = {model.name: model for model in select(["all"])}
    model = registered.get(args.model)
    if model is not None:
        classifier = model.factory()
    else:
        classifier = _by_class(args.model, list(registered))
        if args.cv:
            problem = f"--cv needs a model with values to try: one of {', '.join(registered)}"
            raise DataFileError("--model", problem)
    known = classifier.get_params(deep=False)
    if "random_state" in known:
        classifier.set_params(random_state=args.seed)
    for name, value in args.param:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {quote(close[0])}?" if close else f"it has {', '.join(known)}"
            raise DataFileError("--param", f"{args.model} has no parameter {quote(name)}; {hint}")
        classifier.set_params(**{name: value})
    return model, classifier


def _by_class(name: str, registered: list[str]) -> ClassifierMixin:
    import oblong

    values = (getattr(oblong, public) for public in oblong.__all__ if public[0].isupper())
    classes = {v.__name__: v for v in values if inspect.isclass(v) and hasattr(v, "get_params")}
    classes = {public: kind for public, kind in classes.items() if is_classifier(kind())}
    if name in classes:
        return classes[name]()
    close = get_close_matches(name, [*registered, *classes], n=1)
    hint = f" (did you mean {quote(close[0])}?)" if close else ""
    problem = f"no model {quote(name)}{hint}; the models are {', '.join(registered)}"
    raise DataFileError("--model", problem)


def _parameter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise argparse.ArgumentTypeError(f"expected name=value, got {quote(text)}")
    words = {"none": None, "true": True, "false": False}
    value = value.strip()
    if value.lower() in words:
        return name.strip(), words[value.lower()]
    # Numbers as JSON has them; all else is a word.
    if re.fullmatch(r"[+-]?[0-9]{1,18}", value):
        return name.strip(), int(value)
    try:
        return name.strip(), float(value)
    except ValueError:
        pass
    if value.startswith(("{", "[")):
        try:
            return name.strip(), json.loads(value)
        except (ValueError, RecursionError):
            raise argparse.ArgumentTypeError(f"expected JSON, got {quote(value)}") from None
    return name.strip(), value


def _training(table: Table, args: argparse.Namespace, chosen: Any, error: float) -> dict[str, Any]:
    """What the file remembers of the data."""
    counts = np.unique(table.y, return_counts=True)[1]
    return {
        "source": table.name,
        "rows": int(table.X.shape[0]),
        "features": int(table.X.shape[1]),
        "class_counts": [[n, int(c)] for n, c in zip(table.target_names, counts)][:_LISTED],
        "target_names": list(table.target_names),
        "schema": table.schema.to_json(),
        "gaps": args.impute is not None,
        "model": args.model,
        "training_error": error,
        "cross_validation": chosen,
        "seed": args.seed,
    }


# The fit -----------------------------------------------------------------------------------------


def _fit(
    pipeline: Pipeline, model: Model | None, table: Table, args: argparse.Namespace
) -> tuple[Pipeline, dict[str, Any] | None]:
    try:
        if not args.cv or model is None:
            return pipeline.fit(table.X, table.y), None
        fixed = {name for name, _ in args.param}
        unit = spread_of(pipeline[:-1].fit_transform(table.X, table.y))
        grid = {
            f"model__{name}": list(values)
            for name, values in model.grid(unit).items()
            if name not in fixed
        }
        search = GridSearchCV(
            pipeline,
            grid,
            cv=StratifiedKFold(args.cv, shuffle=True, random_state=args.seed),
            n_jobs=args.jobs,
            error_score="raise",
        )
        # Threads share the data, and end with Ctrl-C.
        with parallel_config("threading"):
            search.fit(table.X, table.y)
    except InvalidParameterError as error:
        raise DataFileError("--param", " ".join(str(error).split())) from None
    except (ValueError, TypeError, MemoryError, FloatingPointError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise RunError(f"{args.model} failed on {table.name}: {reason}") from None
    chosen = {
        "folds": args.cv,
        "error": float(1.0 - search.best_score_),
        "parameters": {
            name.removeprefix("model__"): value for name, value in search.best_params_.items()
        },
    }
    return search.best_estimator_, chosen
