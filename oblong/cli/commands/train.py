"""``oblong train``: fit one model to a file and save it.

Train one model on a file and save it with everything that prediction needs: the scaling of the
columns, the encoding of text, the values for missing cells, the spelling of the labels. Without
--model, a quick search chooses the model. Prints the error on held-out rows, by cross-validation.

models:
{models}
  or the name of any classifier of the library, such as AROWClassifier

examples:
  oblong train patients.csv --target outcome -o patients.oblong
  oblong train iris --model rmm --cv -o iris.oblong
  oblong train adult.csv --categorical auto --impute --model rmm-linear -o adult.oblong
  oblong train orders.csv --drop id --dates when --text comment --sep ";" --decimal , -o m.oblong
  oblong train fraud.csv --class-weight balanced --proba --threshold f1 -o fraud.oblong
  oblong train train.libsvm.zst --model AROWClassifier --param r=0.1 -o news.oblong
  oblong train big/*.parquet --target y --model rmm-linear -o big.oblong
"""  # noqa: D405, D406, D407

from __future__ import annotations

import argparse
import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from oblong._core.text import quote
from oblong.cli.comparison.models import listing, trainable
from oblong.cli.shared import options
from oblong.cli.shared.tables import (
    add_pass_options,
    add_table_options,
    is_many,
    labelled_table,
)
from oblong.io.errors import DataFileError

if TYPE_CHECKING:
    from oblong.cli.shared.fitting import Fitted
    from oblong.io.dataset import Table

_LISTED = 1000


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = options.add_command(subparsers, "train", __doc__, models=listing(trainable()))
    add = options.adder(parser)
    data = "file, name of a data set, or - for standard input; a folder or several files are "
    add("data DATA", data + "read in passes", nargs="+")
    add("--model NAME", "which model to train (default: chosen by a quick search)")
    add_pass_options(parser)
    about = "parameter of the model; may be given several times"
    add("--param K=V", about, options.parameter, [], action="append")
    about = "choose the other parameters by cross-validation with K folds (5)"
    add("--cv K", about, options.whole_number(2), nargs="?", const=5)
    about = "weights of the classes: inversely proportional to their frequency, or as given"
    add("--class-weight balanced|A=2,…", about, _class_weight)
    add("--proba", "calibrate the model to give probabilities")
    about = "decide between two classes where the balanced accuracy or the F1 score of the second "
    about += "is best on held-out rows, or at X: a probability, or else a decision value"
    add("--threshold balanced|f1|X", about, _threshold)
    add("--no-score", "do not estimate the error on held-out rows")
    add("--seed N", "seed (default: %(default)s)", options.seed, 0)
    add("--jobs N", "threads for the folds (default: one per core)", options.jobs)
    add("-o --output FILE", "the model", options.output_file, required=True)
    add("--json", "print JSON instead of sentences")
    add_table_options(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    in_passes = bool(args.cluster) or is_many(args.data)
    if in_passes and args.model is None:
        args.model = "rmm-linear"
    if args.model is None and (args.param or args.cv):
        raise DataFileError("--param, --cv", "belong to a model; name it with --model")
    _check_threshold(args)
    if not in_passes:
        named = options.is_set_by_name(args.data[0])
        options.check_apart([] if named else args.data, [args.output])
    if args.model is not None:
        # Before anything is read. Here and not above, since it takes a second.
        from oblong.cli.shared.fitting import classifier_of

        _, classifier = classifier_of(args, None)
        _check_threshold(args, classifier)
        if in_passes:
            from oblong.cli.shared import many_files

            return many_files.train(args, classifier)
    args.data = args.data[0]
    with options.busy(f"reading {args.data}"):
        table = labelled_table(args)
    # When there is something to fit.
    from oblong.cli.shared.fitting import train
    from oblong.cli.shared.preparation import check_labels

    check_labels(table, args.cv)
    started = time.perf_counter()
    with options.plain_warnings(), options.busy(f"training on {table.X.shape[0]:,} rows"):
        fitted = train(table, args)
    seconds = time.perf_counter() - started
    found = _verdicts(table, args, fitted)
    for text in found:
        options.note(f"{table.name}: {text}")
    table = replace(table, notes=(*table.notes, *found))
    training = _training(table, args, fitted)
    options.save_model(fitted.pipeline, args.output, training)
    more = ("cross_validation", "scores", "search", "threshold")
    options.tell_saved(args, fitted.name, training, seconds, more, _lines(table, fitted))
    return 0


def _check_threshold(args: argparse.Namespace, classifier: Any = None) -> None:
    """Refuse a number that is no threshold of the model."""
    value = args.threshold
    if not isinstance(value, float):
        return
    if args.model is None and not args.proba:
        problem = "a number is a probability or a decision value, depending on the model; add "
        raise DataFileError("--threshold", problem + "--proba, or name a --model")
    if (args.proba or hasattr(classifier, "predict_proba")) and not 0.0 < value < 1.0:
        problem = f"expected a probability between 0 and 1, got {value:g}"
        raise DataFileError("--threshold", problem)


def _verdicts(table: Table, args: argparse.Namespace, fitted: Fitted) -> list[str]:
    """What held-out rows say against the model, and why they may say nothing."""
    from oblong.cli.shared.scoring import fewest, lone_class, verdict

    if args.no_score:
        return []
    scores = fitted.scores or fitted.chosen
    if scores is not None:
        # Those who give rarer classes their due accept more errors.
        fair = args.class_weight is not None or args.threshold is not None
        text = None if fair else verdict(table, scores)
        return [] if text is None else [text]
    reason = "not every fold can be fitted"
    if fewest(table) < 2:
        reason = f"class {lone_class(table)} has a single row"
    return [f"there is no error on held-out rows, since {reason}"]


def _lines(table: Table, fitted: Fitted) -> list[str]:
    """What there is to say about a model."""
    import numpy as np

    lines = []
    if table.schema.categories:
        names = table.schema.feature_names or [str(j + 1) for j in range(table.X.shape[1])]
        counts = [f"{names[j]} ({len(np.unique(table.X[:, j]))})" for j in table.schema.categories]
        lines.append(f"one column per word of: {', '.join(counts)}")
    if fitted.search is not None:
        others = [f"{e['model']} {100 * e['error']:.2f} %" for e in fitted.search["candidates"]]
        lines.append(
            f"model chosen by a quick search on {fitted.search['rows']:,} rows: "
            f"{fitted.search['model']} ({_listed(fitted.search['parameters'])}); errors: "
            + ", ".join(others)
        )
    if fitted.chosen is not None:
        listed = _listed(fitted.chosen["parameters"])
        lines.append(f"chosen by {fitted.chosen['folds']}-fold cross-validation: {listed}")
        lines.append(f"error {100 * fitted.chosen['error']:.2f} % on held-out rows")
    if fitted.threshold is not None:
        lines.append(f"threshold {fitted.threshold:.4g}")
    if fitted.scores is not None:
        scores = fitted.scores
        known = [
            f"balanced error {100 * scores['balanced_error']:.2f} %",
            *(f"{title} {scores[name]:.3f}" for name, title in _TITLES if scores[name] is not None),
        ]
        lines.append(
            f"error {100 * scores['error']:.2f} % on held-out rows ({scores['how']}); "
            + ", ".join(known)
        )
    lines.append(f"error {100 * fitted.training_error:.2f} % on the training rows")
    return lines


_TITLES = (("auc", "AUC"), ("log_loss", "log loss"))


def _listed(parameters: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in parameters.items())


def _class_weight(text: str) -> str | dict[str, float]:
    if text == "balanced":
        return text
    weights = {}
    for part in text.split(","):
        name, equals, value = part.rpartition("=")
        try:
            weights[name.strip()] = float(value)
        except ValueError:
            equals = ""
        if not equals or not 0.0 <= weights[name.strip()] < math.inf:
            problem = f"expected balanced, or classes and weights such as yes=2, got {quote(text)}"
            raise argparse.ArgumentTypeError(problem)
    return weights


def _threshold(text: str) -> str | float:
    if text in ("balanced", "f1"):
        return text
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"expected balanced, f1 or a number, got {quote(text)}")
    return value


def _training(table: Table, args: argparse.Namespace, fitted: Fitted) -> dict[str, Any]:
    """What the file remembers of the data."""
    import numpy as np

    counts = np.unique(table.y, return_counts=True)[1]
    weights = args.class_weight
    return {
        "source": table.name,
        "rows": int(table.X.shape[0]),
        "features": int(table.X.shape[1]),
        "class_counts": [[n, int(c)] for n, c in zip(table.target_names, counts)][:_LISTED],
        "target_names": list(table.target_names),
        "schema": table.schema.to_json(),
        "notes": list(table.notes),
        "gaps": args.impute is not None,
        "model": fitted.model,
        "training_error": fitted.training_error,
        "cross_validation": fitted.chosen,
        "scores": fitted.scores,
        "search": fitted.search,
        "threshold": fitted.threshold,
        "class_weight": weights,
        "seed": args.seed,
    }
