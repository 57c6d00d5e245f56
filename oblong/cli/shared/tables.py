"""Labelled tables from the command line: which columns are what, and what to do about gaps."""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.preprocessing import OneHotEncoder

from oblong._core.text import quote
from oblong.cli.shared.options import is_set_by_name
from oblong.datasets import DataFileError, Dataset, load
from oblong.io.tables import Table, read_training_table

__all__ = [
    "add_table_options",
    "check_labels",
    "labelled_numbers",
    "labelled_table",
    "table_words",
]


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a table is meant."""
    parser.add_argument(
        "--target", metavar="COL", help="label column of a table (default: the last)"
    )
    parser.add_argument(
        "--categorical",
        type=_categorical,
        default="none",
        metavar="auto|COL,…",
        help="one-hot encode columns of text: all of them, or those named",
    )
    parser.add_argument(
        "--impute",
        nargs="?",
        const="median",
        choices=("mean", "median", "most_frequent"),
        help="fill missing numbers (with the median), and take missing text as a word of its own",
    )
    parser.add_argument(
        "--zero-based", action="store_true", help="indices of LIBSVM rows count from 0"
    )


def _categorical(text: str) -> str | list[str]:
    if text in ("auto", "none"):
        return text
    return [name.strip() for name in text.split(",")]


def table_words(args: argparse.Namespace) -> list[str]:
    """The words of a command line that say how the table is meant."""
    words = []
    if args.target is not None:
        words += ["--target", args.target]
    if args.categorical != "none":
        named = args.categorical
        words += ["--categorical", named if isinstance(named, str) else ",".join(named)]
    if args.impute is not None:
        words += ["--impute", args.impute]
    if args.zero_based:
        words.append("--zero-based")
    return words


def labelled_table(args: argparse.Namespace, data: str | None = None) -> Table:
    """Read the table, or the set by name, that the arguments mean."""
    data = args.data if data is None else data
    if is_set_by_name(data):
        if args.target is not None:
            raise DataFileError(data, "a named data set has its own labels; omit --target")
        return Table.of(load(data))
    try:
        return read_training_table(
            data,
            args.target,
            categorical=args.categorical,
            gaps=args.impute is not None,
            zero_based=args.zero_based or None,
        )
    except DataFileError as error:
        advice = {
            "missing": " (--impute fills gaps)" if args.impute is None else "",
            "text": " (--categorical auto encodes text)" if args.categorical == "none" else "",
        }.get(error.cause or "", "")
        if not advice:
            raise
        raise DataFileError(
            error.source, error.problem + advice, row=error.row, column=error.column
        ) from None


def labelled_numbers(args: argparse.Namespace, data: str) -> Dataset:
    """Read a table of numbers; of columns of text there is one column per word."""
    if is_set_by_name(data) and args.target is None:
        return load(data)
    table = labelled_table(args, data)
    text, X, names = table.schema.text or [], table.X, table.schema.feature_names
    if text:
        names = names or [str(j + 1) for j in range(table.schema.n_features)]
        among = set(text)
        numbers = [j for j in range(table.schema.n_features) if j not in among]
        # Which words there are tells nothing of the labels, so all rows may have a say.
        encoder = OneHotEncoder(sparse_output=False).fit(X[:, text])
        X = np.hstack([X[:, numbers].astype(np.float64), encoder.transform(X[:, text])])
        words = zip(text, encoder.categories_)
        names = [names[j] for j in numbers] + [f"{names[j]}={w}" for j, ws in words for w in ws]
    columns = None if names is None else tuple(names)
    return Dataset(X, table.y, columns, table.target_names, table.name)


def check_labels(table: Table, folds: int | None) -> None:
    """Refuse labels that are numbers to predict, and classes that `folds` would leave empty."""
    labels, counts = np.unique(table.y, return_counts=True)
    if len(labels) > max(2, len(table.y) // 2):
        problem = (
            f"expected class labels, got {len(labels)} different values in {len(table.y)} rows; "
            "choose the label column with --target"
        )
        raise DataFileError(table.name, problem)
    fewest = int(counts.min())
    if folds is not None and fewest < folds:
        name = quote(table.target_names[int(counts.argmin())])
        problem = f"class {name} has {fewest} rows, but --cv {folds} needs {folds} of every class"
        raise DataFileError(table.name, problem)
