"""Labelled tables from the command line: which columns are what, and what to do about gaps."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from oblong._core.text import quote
from oblong.cli.shared.options import (
    adder,
    is_set_by_name,
    note,
    option_words,
    spelled,
    whole_number,
)
from oblong.io.errors import DataFileError

if TYPE_CHECKING:
    from oblong.io.dataset import Dataset, Table
    from oblong.io.dialect import Dialect


def is_many(data: list[str]) -> bool:
    """Whether the data is a folder, a pattern or several files."""
    name = data[0]
    pattern = not os.path.lexists(name) and any(letter in name for letter in "*?[")
    return len(data) > 1 or os.path.isdir(name) or pattern


def add_pass_options(parser: argparse.ArgumentParser, *, memory: bool = True) -> None:
    """Add the options of rows that are read in passes."""
    add = adder(parser)
    if memory:
        about = "memory for rows kept between passes over a folder or files (default: 256MB)"
        add("--memory SIZE", about, _size)
    add("--cluster ADDRESS", "scheduler of a Dask cluster that reads the rows")


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a table is meant."""
    group = parser.add_argument_group("table")
    add = adder(group)
    add("--target COL", "label column of a table (default: the last)")
    add("--drop COL,…", "columns to leave out", _columns, [])
    about = "one-hot encode columns of text: all of them, or those named"
    add("--categorical auto|COL,…", about, _categorical, "none")
    about = "columns of free text, whose words are hashed to columns"
    add("--text COL,…", about, _columns, [])
    add("--dates COL,…", "columns of dates, which become days since 1970", _columns, [])
    about = "how dates are written, such as %%d.%%m.%%Y (default: inferred)"
    add("--date-format FORMAT", about)
    about = "fill missing numbers (with the median), and treat missing text as its own category"
    fillings = ("mean", "median", "most_frequent")
    add("--impute", about, nargs="?", const="median", choices=fillings)
    add("--skip-bad", "skip and count rows of text that are malformed")
    add("--zero-based", "indices of LIBSVM rows count from 0")
    add_dialect_options(group)


def add_dialect_options(group: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    """Add the options that say how delimited text is written."""
    add = adder(group)
    add("--sep C", "what separates columns (default: inferred)", _mark)
    add("--decimal C", "decimal mark (default: .)", _mark)
    add("--thousands C", "mark between groups of three digits", _mark)
    about = "lines above the header to skip, such as titles"
    add("--skip-rows N", about, whole_number(0))
    add("--encoding NAME", "encoding of the text (default: utf-8)")
    add("--missing WORD,…", "further words for a missing value, such as -", _columns)


def dialect_of(args: argparse.Namespace, known: Dialect | None = None) -> Dialect:
    """The dialect that the arguments mean, where they say nothing as it is known."""
    # Here and below, so that help needs none of the libraries.
    from oblong.io.dialect import Dialect

    known = known or Dialect()
    thousands = known.thousands if args.thousands is None else args.thousands
    if thousands is None and args.decimal is not None:
        # Who says how decimals are written has no doubts.
        thousands = ""
    given = [mark for mark in (args.sep, args.decimal, args.thousands) if mark]
    try:
        if len(set(given)) < len(given):
            raise ValueError
        return Dialect(
            args.sep or known.delimiter,
            args.decimal or known.decimal,
            thousands,
            args.encoding or known.encoding,
            known.missing if args.missing is None else tuple(args.missing),
            getattr(args, "skip_bad", False),
            args.skip_rows or 0,
        )
    except ValueError:
        problem = "expected different characters"
        raise DataFileError("--sep, --decimal, --thousands", problem) from None


def _size(text: str) -> float:
    from oblong.io.row_source import as_bytes

    try:
        return as_bytes(text)
    except ValueError:
        problem = f"expected a size such as 256MB, got {quote(text)}"
        raise argparse.ArgumentTypeError(problem) from None


def _categorical(text: str) -> str | list[str]:
    return text if text in ("auto", "none") else _columns(text)


def _columns(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _mark(text: str) -> str:
    mark = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "point": "."}.get(text, text)
    if len(mark) != 1 or not mark.isascii() or mark in '"\n\r' or mark.isalnum():
        raise argparse.ArgumentTypeError(f"expected one character, or tab, got {quote(text)}")
    return mark


def table_words(args: argparse.Namespace) -> list[str]:
    """The words of a command line that say how the table is meant."""
    names = "target drop categorical text dates date_format impute sep decimal thousands encoding"
    names += " missing skip_bad skip_rows zero_based"
    values = {"--" + name.replace("_", "-"): getattr(args, name) for name in names.split()}
    return [word for option in values.items() for word in option_words(*option)]


def labelled_table(args: argparse.Namespace, data: str | None = None) -> Table:
    """Read the table, or the set by name, that the arguments mean; says what is odd about it."""
    from oblong.cli.shared.remarks import remarks
    from oblong.datasets import load
    from oblong.io.dataset import Table
    from oblong.io.tables import read_training_table

    data = args.data if data is None else data
    if is_set_by_name(data):
        if args.target is not None:
            raise DataFileError(data, "a named data set has its own labels; omit --target")
        return Table.of(load(data))
    try:
        named = ("target", "categorical", "drop", "dates", "date_format", "text")
        columns = {name: getattr(args, name) for name in named}
        columns |= {"gaps": args.impute is not None, "dialect": dialect_of(args)}
        table = read_training_table(data, zero_based=args.zero_based or None, **columns)
    except DataFileError as error:
        if error.cause == "missing" and args.impute is None:
            error.problem += " (--impute fills gaps)"
        elif error.cause == "text" and args.categorical == "none":
            error.problem += " (--categorical auto encodes text)"
        elif error.cause == "columns":
            error.advice = "choose another separator with --sep"
        raise
    table = replace(table, notes=(*table.notes, *remarks(table)))
    for text in table.notes:
        note(f"{table.name}: {spelled(text)}")
    return table


def labelled_numbers(args: argparse.Namespace, data: str) -> Dataset:
    """Read a table of numbers: one column per category, and hashed words of free text."""
    from oblong.datasets import load
    from oblong.io.dataset import Dataset

    if is_set_by_name(data) and args.target is None:
        return load(data)
    table = labelled_table(args, data)
    schema, X, names = table.schema, table.X, table.schema.feature_names
    if schema.text:
        from sklearn.impute import SimpleImputer

        from oblong.cli.shared.preparation import TEXT_FEATURES, by_kind

        hashed, categories = schema.hashed or [], schema.categories
        names = names or [str(j + 1) for j in range(schema.n_features)]
        step: Any = "passthrough"
        if hashed and args.impute is not None:
            # Sparse rows have no gaps later.
            step = SimpleImputer(strategy=args.impute, keep_empty_features=True)
        # Which words there are tells nothing of the labels, so all rows may have a say.
        made = by_kind(table, step, sparse_threshold=1.0)
        X = made.fit_transform(X)
        columns = [names[j] for j in schema.numbers]
        known = made.named_transformers_["text"].categories_ if categories else []
        columns += [f"{names[j]}={word}" for j, words in zip(categories, known) for word in words]
        names = columns + [f"{names[j]}#{k}" for j in hashed for k in range(TEXT_FEATURES)]
    columns_or_none = None if names is None else tuple(names)
    return Dataset(X, table.y, columns_or_none, table.target_names, table.name)
