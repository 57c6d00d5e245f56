"""``oblong compare``: the models of the family against the SVM on one data set."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

from joblib import cpu_count

from oblong.cli.registry import Model, select
from oblong.datasets import DataFileError, Dataset, available, load, read_table
from oblong.datasets._dataset import quote
from oblong.datasets.loading import BUILT_IN

__all__ = ["add_parser"]

DEFAULT_DATA = "breast_cancer"
DEFAULT_REPORT = "oblong-report.html"

_DESCRIPTION = """\
Compare classifiers on one data set by nested cross-validation: on every fold each
model's parameters are chosen on the training rows alone, then the held-out rows are
predicted. Prints a table and writes one self-contained HTML report.
"""

_EPILOG = """\
data:
  a built-in set    {sets}
  a folder of sets  <name>.npz in the folder that the variable OBLONG_DATA names
  a file            .csv .tsv (with or without a header), .libsvm .svmlight .svm,
                    .parquet, .npz, or any of these with .gz
  -                 standard input

models:
{models}

examples:
  oblong compare
  oblong compare wine --cv 10 --report wine.html
  oblong compare patients.csv --target outcome --repeats 3
  zcat train.libsvm.gz | oblong compare - --models svm-linear,rmm-linear
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    defaults = [model.name for model in select()]
    parser = subparsers.add_parser(
        "compare",
        help="cross-validate models on one data set and write a report",
        description=_DESCRIPTION,
        epilog=_EPILOG.format(
            sets=("\n" + 20 * " ").join(BUILT_IN),
            models="\n".join(f"  {model.name:<16}  {model.title}" for model in select(["all"])),
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "data",
        nargs="?",
        default=DEFAULT_DATA,
        metavar="DATA",
        help=f"built-in set, file, or - for standard input (default: {DEFAULT_DATA})",
    )
    parser.add_argument(
        "--target", metavar="COL", help="label column of a table (default: the last)"
    )
    parser.add_argument(
        "--models",
        type=_models,
        default=",".join(defaults),
        metavar="NAME,…",
        help='models separated by commas, or "all" (default: %(default)s)',
    )
    parser.add_argument(
        "--cv", type=_at_least(2), default=5, metavar="K", help="folds (default: %(default)s)"
    )
    parser.add_argument(
        "--repeats",
        type=_at_least(1),
        default=1,
        metavar="N",
        help="times to draw the folds anew (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=_at_least(0),
        default=0,
        metavar="N",
        help="seed of the folds (default: %(default)s)",
    )
    parser.add_argument(
        "--jobs",
        type=_at_least(1),
        default=cpu_count(),
        metavar="N",
        help="worker processes (default: one a core)",
    )
    parser.add_argument(
        "--report",
        type=_writable,
        default=DEFAULT_REPORT,
        metavar="FILE",
        help="where to write the report (default: %(default)s)",
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    missing = [name for name in ("rich", "matplotlib") if find_spec(name) is None]
    if missing:
        needs = " and ".join(missing)
        raise DataFileError("oblong compare", f'needs {needs}: pip install "oblong[cli]"')
    # Here and not above, so that help works without the extra.
    from rich.console import Console

    from oblong.cli import report
    from oblong.cli.progress import fold_progress, waiting
    from oblong.cli.projection import project
    from oblong.cli.protocol import RunError, Settings, compare
    from oblong.cli.table import print_table

    dataset = _dataset(args.data, args.target)
    settings = Settings(cv=args.cv, repeats=args.repeats, seed=args.seed, jobs=args.jobs)
    with fold_progress(args.models, settings) as advance:
        comparison = compare(dataset, args.models, settings, advance)
    console = Console(highlight=False)
    print_table(console, comparison)
    with waiting("drawing the report"):
        projection = project(dataset, args.models, settings)
        page = report.render(comparison, projection, _command(args))
    try:
        report.write(page, args.report)
    except OSError as error:
        raise RunError(f"{args.report} cannot be written: {error.strerror or error}") from None
    console.print(f"Report: {args.report}", markup=False, soft_wrap=True)
    return 0


def _dataset(data: str, target: str | None) -> Dataset:
    names = available()
    if data in names:
        if target is not None:
            raise DataFileError(data, "a set by name has its own labels; leave --target out")
        return load(data)
    if data != "-" and not os.path.lexists(data):
        close = get_close_matches(data, names, n=1)
        hint = (
            f"; did you mean {close[0]}?"
            if close
            else f"; the built-in sets are {', '.join(BUILT_IN)}"
        )
        raise DataFileError(quote(data, 80), f"no such file or data set{hint}")
    return read_table(data, target)


def _command(args: argparse.Namespace) -> str:
    """Return the command line with everything that decides the result."""
    words = ["oblong", "compare", args.data]
    if args.target is not None:
        words += ["--target", args.target]
    words += ["--models", ",".join(model.name for model in args.models)]
    words += ["--cv", str(args.cv), "--repeats", str(args.repeats), "--seed", str(args.seed)]
    return shlex.join(words)


def _models(text: str) -> list[Model]:
    try:
        return select([name.strip() for name in text.split(",")])
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(
                f"expected a whole number from {least} up, got {quote(text)}"
            )
        return int(text)

    return parse


def _writable(text: str) -> Path:
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"expected a file, got the folder {quote(text, 80)}")
    if not os.access(path.parent, os.W_OK):
        reason = "cannot be written to" if path.parent.is_dir() else "does not exist"
        raise argparse.ArgumentTypeError(f"the folder {quote(path.parent, 80)} {reason}")
    return path
