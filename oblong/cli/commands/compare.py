"""``oblong compare``: the library's models against the SVM and baselines.

Compare classifiers and baselines on a data set by nested cross-validation: in every fold, each
model's parameters are chosen on the training rows alone before the held-out rows are predicted.
Prints a table and a verdict, and writes one self-contained HTML report. If all rows would take too
long, parameters are chosen and kernel models fitted on some of them, after a message that says so.
Finished folds are kept: after an interruption, --resume computes only what is missing.

data:
  a built-in set    {sets}
  a folder of sets  <name>.npz in the folder named by the variable OBLONG_DATA
  a file            .csv .tsv (with or without a header), .libsvm .svmlight .svm,
                    .jsonl, .parquet, .npz, or any of these with .gz or .zst
  -                 standard input

models:
{models}

examples:
  oblong compare
  oblong compare wine --cv 10 --report wine.html
  oblong compare patients.csv --target outcome --repeats 3
  oblong compare adult.csv --categorical auto --impute
  oblong compare digits --models all --no-nested --resume
  oblong compare large.csv --time 5m
  zcat train.libsvm.gz | oblong compare - --models svm-linear,rmm-linear
"""  # noqa: D405, D406, D407

from __future__ import annotations

import argparse
import re
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from oblong._core.text import quote
from oblong.cli.comparison.models import Model, default_models, listing, select
from oblong.cli.shared import options
from oblong.cli.shared.tables import add_table_options, labelled_numbers, table_words
from oblong.datasets.loading import BUILT_IN
from oblong.io.errors import DataFileError

if TYPE_CHECKING:
    from oblong.cli.comparison.journal import ComparisonJournal
    from oblong.cli.comparison.projection import Projection
    from oblong.cli.comparison.results import Comparison, FoldResult, Settings
    from oblong.io.dataset import Dataset

# One task of the kind the library is for, with many classes, and one where it has no advantage.
DEFAULT_DATA = ("digits", "breast_cancer")
DEFAULT_REPORT = "oblong-report.html"
# A comparison that takes more seconds than this is announced before it starts.
_TOO_LONG = 600.0
# A limit of more seconds is a typing error, and more than the system's timers take.
_CENTURY = 3.2e9
# With at least this many rows the time is estimated before the start.
_MANY_ROWS = 3000


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    defaults = [model.name for model in select()]
    sets = ("\n" + 20 * " ").join(BUILT_IN)
    listed = listing(select(["all"]))
    parser = options.add_command(subparsers, "compare", __doc__, sets=sets, models=listed)
    add = options.adder(parser)
    sets = f"built-in sets, files, or - for standard input (default: {' and '.join(DEFAULT_DATA)})"
    add("data DATA", sets, default=DEFAULT_DATA, nargs="*")
    add_table_options(parser)
    about = f'models separated by commas, or "all" (default: {", ".join(defaults)}; rmm-linear '
    add("--models NAME,…", about + "and arow where they suit the data)", _models)
    add("--cv K", "folds (default: %(default)s)", options.whole_number(2), 5)
    add(
        "--repeats N",
        "how often to repeat the cross-validation with new folds (default: %(default)s)",
        options.whole_number(1),
        1,
    )
    add("--seed N", "seed of the folds (default: %(default)s)", options.seed, 0)
    add("--jobs N", "worker processes (default: one per core)", options.jobs)
    add("--report FILE", "the report (default: %(default)s)", options.output_file, DEFAULT_REPORT)
    about = "choose parameters inside every fold, or once on all rows, which is faster but "
    how = {"action": argparse.BooleanOptionalAction, "default": True}
    add("--nested", about + "optimistically biased (default: inside)", **how)
    about = "where finished folds are kept (default: next to the report, until it is written)"
    add("--state FILE", about, options.output_file)
    add("--resume", "continue an interrupted run")
    about = "time limit, in s, m or h; rows, folds and models are left out to meet it"
    add("--time 5m", about, _duration)
    add("--full", "use all rows for everything, however long it takes")
    add("--json", "print JSON instead of the table")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    options.require("oblong compare", "rich", "matplotlib")
    if args.full and args.time is not None:
        raise DataFileError("--full", "takes as long as it needs; drop --time")
    began = time.monotonic()
    files = [data for data in args.data if not options.is_set_by_name(data)]
    states = [_state(args, position) for position in range(len(args.data))]
    options.check_apart(files, [args.report, *states])
    sets = [labelled_numbers(args, data) for data in args.data]
    # Here and not above, so that help works without the extra, and that what is wrong with the
    # files is said at once.
    from joblib import cpu_count
    from rich.console import Console

    from oblong.cli.comparison import report
    from oblong.cli.comparison.journal import ComparisonJournal
    from oblong.cli.comparison.protocol import check_classes
    from oblong.cli.comparison.table import print_table, summary_json

    args.jobs = args.jobs or cpu_count()
    # The table has 80 columns on a terminal that has no more.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 100)
    for dataset in sets:
        check_classes(dataset, args.cv)
    parts: list[tuple[Comparison, Projection | None]] = []
    journals = []
    for position, dataset in enumerate(sets):
        left = None if args.time is None else args.time - (time.monotonic() - began)
        share = None if left is None else left / (len(sets) - position)
        journals.append(ComparisonJournal(states[position], dataset))
        comparison = _compare(args, dataset, journals[-1], share)
        if not args.json:
            print_table(console, comparison)
        with options.busy("drawing the report"):
            parts.append((comparison, _plane(comparison, args, began)))
    options.write_whole(args.report, report.render(parts, _command(args, parts[0][0].models)))
    if args.state is None:
        for journal in journals:
            journal.remove()
    if args.json:
        for comparison, _ in parts:
            options.print_json(summary_json(comparison) | {"report": str(args.report)})
    else:
        console.print(f"Report: {args.report}", markup=False, soft_wrap=True)
    return 0


def _compare(
    args: argparse.Namespace, dataset: Dataset, journal: ComparisonJournal, limit: float | None
) -> Comparison:
    """One data set, in at most so many seconds if there is a limit."""
    from oblong.cli.comparison.plan import Remaining
    from oblong.cli.comparison.protocol import OutOfTime, compare
    from oblong.cli.shared.progress import fold_progress

    began = time.monotonic()
    models = args.models or default_models(dataset.X, dataset.y)
    if hasattr(dataset.X, "nnz") and "boosting" in [model.name for model in models]:
        options.note(f"{dataset.name}: boosting is left out, it needs dense rows")
        models = [model for model in models if model.name != "boosting"]
    settings, expected = _planned(args, dataset, models, journal, limit)
    # Those that the time is too short for, even on few rows.
    slow = [model for model in models if expected and model.name not in expected]
    models = [model for model in models if model not in slow]
    journal.settle(settings)
    done = journal.resume(models) if args.resume else {}
    if not args.resume:
        journal.start()
    finished = [name for name, _ in done]
    folds = settings.cv * settings.repeats
    remaining = Remaining([m.name for m in models], folds, settings.jobs, finished, expected)
    titles = {model.name: model.title for model in models}
    # The report takes some time too.
    end = None if limit is None else began + max(0.5 * limit, min(0.85 * limit, limit - 5.0))
    with fold_progress(titles, folds, finished, remaining.text) as advance, _at(end):

        def keep(result: FoldResult) -> None:
            journal.add(result)
            remaining.add(result)
            advance(result.model)
            if end is not None and time.monotonic() > end:
                raise OutOfTime

        comparison = compare(dataset, models, settings, keep, done, limit is not None)
    return replace(comparison, left_out=[m.title for m in slow] + comparison.left_out)


def _planned(
    args: argparse.Namespace,
    dataset: Dataset,
    models: list[Model],
    journal: ComparisonJournal,
    limit: float | None,
) -> tuple[Settings, dict[str, float]]:
    """The settings, with fewer rows where all would take too long, and seconds of a fold.

    Models that have no seconds are too slow, even so. Nothing is known where there are none at all.
    """
    from oblong.cli.comparison.plan import about, estimate, fit_to
    from oblong.cli.comparison.results import Settings

    settings = Settings(args.cv, args.repeats, args.seed, args.jobs, args.nested, args.impute)
    if args.resume:
        return replace(settings, **journal.plan()), {}
    if args.full or len(dataset.y) < _MANY_ROWS:
        return settings, {}
    if not sys.stderr.isatty():
        print(f"oblong: {dataset.name}: estimating the time", file=sys.stderr, flush=True)
    with options.busy("estimating the time"):
        per_fold = estimate(dataset, models, settings)
    most = _TOO_LONG if limit is None else 0.6 * limit
    chosen, seconds, whole = fit_to(most, settings, per_fold)
    expected = per_fold(chosen)
    # A limit that no fold reaches is none.
    train = len(dataset.y) - len(dataset.y) // args.cv
    search, kernel = (
        n if n is not None and n < train else None for n in (chosen.search_rows, chosen.kernel_rows)
    )
    chosen = replace(chosen, search_rows=search, kernel_rows=kernel)
    slow = []
    while limit is not None and seconds > most and len(expected) > 2:
        # The first is what the others are compared with.
        name = max(list(expected)[1:], key=lambda name: expected[name])
        slow.append(name)
        seconds -= expected.pop(name) * args.cv * args.repeats / args.jobs
    if chosen != settings:
        ways = []
        if chosen.search_rows is not None:
            ways.append(f"parameters are chosen on {chosen.search_rows:,} rows of each fold")
        if chosen.kernel_rows is not None:
            ways.append(f"kernel models are fitted to {chosen.kernel_rows:,}")
        left_out = f"There is no time for {', '.join(slow)}. " if slow else ""
        print(
            f"oblong: {dataset.name}: on all rows this would take about {about(whole)}. Instead, "
            f"{' and '.join(ways)}; linear and online models and the baselines are fitted to all "
            f"rows. {left_out}That takes about {about(seconds)}. --full insists on all rows, "
            "--time 5m sets a limit.",
            file=sys.stderr,
            flush=True,
        )
    elif seconds > 10.0:
        print(f"oblong: this takes about {about(seconds)}", file=sys.stderr, flush=True)
    return chosen, expected


def _plane(comparison: Comparison, args: argparse.Namespace, began: float) -> Projection | None:
    """The models in the plane, if there is time."""
    from oblong.cli.comparison.projection import project

    if args.time is not None and time.monotonic() - began > 0.9 * args.time:
        return None
    return project(comparison.dataset, comparison.models, comparison.settings)


@contextmanager
def _at(end: float | None) -> Iterator[None]:
    """Raise ``OutOfTime`` at a time, where the system can; too early, it is an error."""
    from oblong.cli.comparison.protocol import TOO_LITTLE_TIME, OutOfTime

    main = threading.current_thread() is threading.main_thread()
    if end is None or not main or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(1e-3, end - time.monotonic()))
    try:
        yield
    except OutOfTime:
        raise options.RunError(TOO_LITTLE_TIME) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _state(args: argparse.Namespace, position: int) -> Path:
    """The file of finished results, beside the report unless it is named."""
    path = args.state or args.report.with_name(args.report.name + ".state")
    return Path(f"{path}.{position + 1}") if position else path


def _command(args: argparse.Namespace, models: list[Model]) -> str:
    """Return the command line with everything that decides the result."""
    words = ["oblong", "compare", *args.data, *table_words(args)]
    given = {
        "--models": None if args.models is None else [model.name for model in models],
        "--cv": args.cv,
        "--repeats": args.repeats,
        "--seed": str(args.seed),
        "--no-nested": not args.nested,
        "--full": args.full,
        "--time": None if args.time is None else f"{args.time:g}s",
    }
    return shlex.join(
        words + [word for each in given.items() for word in options.option_words(*each)]
    )


def _duration(text: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(s|m|h)?", text.strip())
    seconds = float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2] or "s"] if found else 0.0
    if not 0.0 < seconds < _CENTURY:
        raise argparse.ArgumentTypeError(f"expected a time such as 90s or 5m, got {quote(text)}")
    return seconds


def _models(text: str) -> list[Model]:
    try:
        return select([name.strip() for name in text.split(",")])
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
