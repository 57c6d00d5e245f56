"""``oblong compare``: the models of the family against the SVM on one data set."""

from __future__ import annotations

import argparse
import json
import shlex
from importlib.util import find_spec

from joblib import cpu_count

from oblong.cli.comparison.grids import Model, select
from oblong.cli.comparison.journal import ComparisonJournal
from oblong.cli.comparison.protocol import check_classes
from oblong.cli.comparison.results import FoldResult, Settings
from oblong.cli.shared.options import (
    check_apart,
    is_set_by_name,
    output_file,
    seed,
    whole_number,
    write_whole,
)
from oblong.cli.shared.tables import add_table_options, labelled_numbers
from oblong.datasets import DataFileError, Dataset
from oblong.datasets.loading import BUILT_IN

__all__ = ["add_parser"]

DEFAULT_DATA = "breast_cancer"
DEFAULT_REPORT = "oblong-report.html"

_DESCRIPTION = """\
Compare classifiers on one data set by nested cross-validation: on every fold each
model's parameters are chosen on the training rows alone, then the held-out rows are
predicted. Prints a table and writes one self-contained HTML report. Finished folds are
kept: after a stop the same command with --resume does only the rest.
"""

_EPILOG = """\
data:
  a built-in set    {sets}
  a folder of sets  <name>.npz in the folder that the variable OBLONG_DATA names
  a file            .csv .tsv (with or without a header), .libsvm .svmlight .svm,
                    .parquet, .npz, or any of these with .gz or .zst
  -                 standard input

models:
{models}

examples:
  oblong compare
  oblong compare wine --cv 10 --report wine.html
  oblong compare patients.csv --target outcome --repeats 3
  oblong compare adult.csv --categorical auto --impute
  oblong compare digits --models all --no-nested --resume
  zcat train.libsvm.gz | oblong compare - --models svm-linear,rmm-linear
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    defaults = [model.name for model in select()]
    parser = subparsers.add_parser(
        "compare",
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
    add_table_options(parser)
    parser.add_argument(
        "--models",
        type=_models,
        default=",".join(defaults),
        metavar="NAME,…",
        help='models separated by commas, or "all" (default: %(default)s)',
    )
    parser.add_argument(
        "--cv", type=whole_number(2), default=5, metavar="K", help="folds (default: %(default)s)"
    )
    parser.add_argument(
        "--repeats",
        type=whole_number(1),
        default=1,
        metavar="N",
        help="times to draw the folds anew (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=seed,
        default=0,
        metavar="N",
        help="seed of the folds (default: %(default)s)",
    )
    parser.add_argument(
        "--jobs",
        type=whole_number(1),
        default=cpu_count(),
        metavar="N",
        help="worker processes (default: one per core)",
    )
    parser.add_argument(
        "--report",
        type=output_file,
        default=DEFAULT_REPORT,
        metavar="FILE",
        help="the report (default: %(default)s)",
    )
    parser.add_argument(
        "--nested",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="choose parameters inside every fold, or once on all rows, which is quicker and "
        "flatters (default: inside)",
    )
    parser.add_argument(
        "--state",
        type=output_file,
        metavar="FILE",
        help="where finished folds are kept (default: beside the report, until it is written)",
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on where a run that was stopped has ended"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    missing = [name for name in ("rich", "matplotlib") if find_spec(name) is None]
    if missing:
        needs = " and ".join(missing)
        raise DataFileError("oblong compare", f'needs {needs}: pip install "oblong[cli]"')
    # Here and not above, so that help works without the extra.
    from rich.console import Console

    from oblong.cli.comparison import report
    from oblong.cli.comparison.projection import project
    from oblong.cli.comparison.protocol import compare
    from oblong.cli.comparison.table import print_table, summary_json
    from oblong.cli.shared.progress import fold_progress, waiting

    check_apart([] if is_set_by_name(args.data) else [args.data], [args.report, args.state])
    dataset = labelled_numbers(args)
    settings = Settings(
        cv=args.cv,
        repeats=args.repeats,
        seed=args.seed,
        jobs=args.jobs,
        nested=args.nested,
        impute=args.impute,
    )
    check_classes(dataset, settings.cv)
    journal = _journal(args, dataset, settings)
    done = journal.resume(args.models) if args.resume else {}
    if not args.resume:
        journal.start()
    titles = {model.name: model.title for model in args.models}
    finished = [name for name, _ in done]
    with fold_progress(titles, settings.cv * settings.repeats, finished) as advance:

        def keep(result: FoldResult) -> None:
            journal.add(result)
            advance(result.model)

        comparison = compare(dataset, args.models, settings, keep, done)
    console = Console(highlight=False)
    if not args.json:
        print_table(console, comparison)
    with waiting("drawing the report"):
        projection = project(dataset, args.models, settings)
        text = report.render(comparison, projection, _command(args))
    write_whole(args.report, text)
    if args.state is None:
        journal.remove()
    if args.json:
        print(json.dumps(summary_json(comparison) | {"report": str(args.report)}))
    else:
        console.print(f"Report: {args.report}", markup=False, soft_wrap=True)
    return 0


def _journal(args: argparse.Namespace, dataset: Dataset, settings: Settings) -> ComparisonJournal:
    """The file of finished results, beside the report unless it is named."""
    path = args.state or args.report.with_name(args.report.name + ".state")
    return ComparisonJournal(path, dataset, settings)


def _command(args: argparse.Namespace) -> str:
    """Return the command line with everything that decides the result."""
    words = ["oblong", "compare", args.data]
    if args.target is not None:
        words += ["--target", args.target]
    if args.categorical != "none":
        named = args.categorical
        words += ["--categorical", named if isinstance(named, str) else ",".join(named)]
    if args.impute is not None:
        words += ["--impute", args.impute]
    if args.zero_based:
        words.append("--zero-based")
    words += ["--models", ",".join(model.name for model in args.models)]
    words += ["--cv", str(args.cv), "--repeats", str(args.repeats), "--seed", str(args.seed)]
    if not args.nested:
        words.append("--no-nested")
    return shlex.join(words)


def _models(text: str) -> list[Model]:
    try:
        return select([name.strip() for name in text.split(",")])
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
