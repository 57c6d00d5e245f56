"""``oblong predict``: labels or probabilities for the rows of a file.

Predict the rows of a file with a saved model. Prints one label per line, spelled as in the
training data. Columns are found by their names, in any order; a label column may be present.

examples:
  oblong predict iris.oblong new.csv
  oblong predict patients.oblong new.csv --proba -o probabilities.csv
  oblong predict big.oblong new/*.parquet -o labels.txt
  zcat new.libsvm.gz | oblong predict news.oblong - > labels.txt
"""  # noqa: D405, D406, D407

from __future__ import annotations

import argparse
import csv
import io
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

from oblong.cli.shared import options
from oblong.cli.shared.tables import add_dialect_options, add_pass_options, dialect_of, is_many
from oblong.io.errors import DataFileError, first_line

if TYPE_CHECKING:
    from oblong.io.dataset import Schema


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = options.add_command(subparsers, "predict", __doc__)
    add = options.adder(parser)
    add("model MODEL", "file that oblong train has written")
    about = "file, name of a data set, or - for standard input; a folder or several files are "
    add("data DATA", about + "read a block at a time", nargs="+")
    add("--proba", "print probabilities as comma separated text, one column per class")
    add("-o --output FILE", "where to write (default: standard output)", options.output_file)
    add_pass_options(parser, memory=False)
    add_dialect_options(parser.add_argument_group("table, where not as in training"))
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    folder = bool(args.cluster) or is_many(args.data)
    files, args.data = args.data, args.data[0]
    by_name = not folder and options.is_set_by_name(args.data)
    options.check_model(args.model)
    options.check_apart([args.model, *([] if by_name else files)], [args.output])
    # Here and not above, so that help and what is wrong with the files come at once.
    from sklearn.pipeline import Pipeline

    from oblong.persistence import load_with_manifest

    with warnings.catch_warnings(action="ignore", category=UserWarning):
        # Rows are found by name already; the model itself was fitted to plain arrays.
        model, manifest = load_with_manifest(args.model)
        training = manifest["training"]
        if args.proba and not hasattr(model, "predict_proba"):
            name = type(model[-1] if isinstance(model, Pipeline) else model).__name__
            problem = f"{name} has no probabilities; drop --proba, or train with --proba"
            raise DataFileError(args.model, problem)
        schema = _schema(model, training, args.model)
        if folder:
            from oblong.cli.shared import many_files

            names = _names(model, training)
            work = partial(_predict, model, names=names, args=args)
            parts = many_files.predictions(files, schema, work, args.cluster)
            options.write_text(parts, args.output)
            return 0
        with options.busy(f"reading {args.data}"):
            X = _rows(args, schema, training, by_name)
        with options.busy(f"predicting {X.shape[0]:,} rows"):
            text = _predict(model, X, _names(model, training), args)
    options.write_text([text], args.output)
    return 0


def _rows(args: argparse.Namespace, schema: Schema, training: dict[str, Any], by_name: bool) -> Any:
    """The rows of one file or set, with the columns of the training data."""
    from oblong.datasets import load
    from oblong.io.dialect import Dialect
    from oblong.io.prediction import of_width, read_rows

    if "hashing" in training:
        return _hashed(args, training["hashing"])
    if by_name:
        return of_width(load(args.data).X, schema, args.data)
    known = None if schema.dialect is None else Dialect.from_json(schema.dialect)
    gaps, dialect = bool(training.get("gaps")), dialect_of(args, known)
    return read_rows(args.data, schema, gaps=gaps, dialect=dialect)


def _hashed(args: argparse.Namespace, hashing: Any) -> Any:
    """Rows for a model of a stream whose features were hashed."""
    from oblong.io.prediction import read_hashed_rows

    try:
        return read_hashed_rows(args.data, hashing)
    except (KeyError, TypeError):
        raise DataFileError(args.model, "damaged: the description of the hashing") from None


def _schema(model: Any, training: dict[str, Any], source: str) -> Schema:
    from oblong.io.dataset import Schema

    if "schema" in training:
        try:
            return Schema.from_json(training["schema"])
        except ValueError:
            raise DataFileError(source, "damaged: the description of the columns") from None
    count = getattr(model, "n_features_in_", None)
    if not isinstance(count, int) or count < 1:
        raise DataFileError(source, "the model is not fitted")
    names = getattr(model, "feature_names_in_", None)
    known = None if names is None else [str(name) for name in names]
    return Schema(count, known, sparse=training.get("sparse"))


def _names(model: Any, training: dict[str, Any]) -> list[str] | None:
    """How to spell the classes, in their order; None for a model that has none."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        return None
    names = training.get("target_names")
    if isinstance(names, list) and len(names) == len(classes):
        return [str(name) for name in names]
    return [str(label) for label in classes]


def _predict(
    model: Any, X: Any, names: list[str] | None, args: argparse.Namespace, head: bool = True
) -> str:
    import numpy as np
    import scipy.sparse as sp

    stream = io.StringIO()
    # Only a label with a line break in it is quoted, or, among several columns, one with a comma.
    writer = csv.writer(stream, lineterminator="\n")
    try:
        if args.proba:
            values = model.predict_proba(X)
            if head:
                writer.writerow(names or range(values.shape[1]))
            writer.writerows(values.tolist())
            return stream.getvalue()
        predicted = np.asarray(model.predict(X))
    except (ValueError, TypeError, AttributeError, IndexError, MemoryError) as error:
        if sp.issparse(X) and not isinstance(error, MemoryError):
            problem = "expected a dense table, as in training, got sparse rows"
            raise DataFileError(args.data, problem) from None
        problem = f"{args.model} cannot predict {args.data}: {first_line(error)}"
        raise options.RunError(problem) from None
    if predicted.ndim == 2:
        writer.writerows(predicted.tolist())
        return stream.getvalue()
    if names is None:
        labels = [str(label) for label in predicted.tolist()]
    else:
        places = np.searchsorted(model.classes_, predicted)
        labels = [names[place] for place in places.tolist()]
    broken = {label for label in labels if "\n" in label or "\r" in label}
    quoted = {label: '"' + label.replace('"', '""') + '"' for label in broken}
    return "".join(f"{quoted.get(label, label)}\n" for label in labels)
