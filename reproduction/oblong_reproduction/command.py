"""``oblong reproduce``: tables and figures of the papers, next to ours."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joblib import cpu_count

from oblong.datasets import DataFileError

if TYPE_CHECKING:
    from rich.console import Console

    from oblong_reproduction import Experiment

DEFAULT_FOLDER = "oblong-reproduction"

_DESCRIPTION = """\
Run experiments of the papers behind the methods and compare the published numbers with
ours. Without a name, list the experiments. Each writes NAME.json with the raw results,
NAME.md with a table (paper, ours, difference, verdict) and, where the paper has a figure,
NAME.svg. An interrupted run continues where it stopped.
"""

_EPILOG = """\
names:
  one or more experiments; the first part of a name (ekm, rmm, ...) stands for all
  experiments of a method, and "all" for every one

data:
  <name>.npz in the folder given with --data or named by the variable OBLONG_DATA.
  A set that is not there is taken from OpenML by its number, where OpenML has it in the
  same form; otherwise what needs it is listed as not run, with the reason.

examples:
  oblong reproduce
  oblong reproduce ekm-fig2 rmm-table1
  oblong reproduce all --quick --data sets -o quick
  oblong reproduce rmm-table2 --only 'usps/*' --jobs 2
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand; the entry point of this distribution in ``oblong.commands``."""
    parser = subparsers.add_parser(
        "reproduce",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments (default: list them)")
    parser.add_argument(
        "--data", type=_folder, metavar="DIR", help="folder of data sets (default: OBLONG_DATA)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a small version: fewer repetitions and rows"
    )
    parser.add_argument(
        "--jobs",
        type=_whole_number(1),
        default=cpu_count(),
        metavar="N",
        help="worker processes (default: one per core); the results do not depend on it",
    )
    parser.add_argument(
        "--seed",
        type=_whole_number(0),
        default=0,
        metavar="N",
        help="seed of all random numbers (default: %(default)s)",
    )
    parser.add_argument(
        "--only", metavar="PATTERN", help="run only the parts whose name matches, such as 'usps/*'"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="forget stored results of these experiments"
    )
    parser.add_argument(
        "--judge",
        action="store_true",
        help="run nothing: judge stored results again by the present rules, and write their tables",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=_new_folder,
        default=Path(DEFAULT_FOLDER),
        metavar="DIR",
        help="folder for the results (default: %(default)s)",
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    missing = [name for name in ("rich", "matplotlib") if find_spec(name) is None]
    if missing:
        needs = " and ".join(missing)
        raise DataFileError("oblong reproduce", f'needs {needs}: pip install "oblong[cli]"')
    # Here and not above, so that help works without the extra.
    from rich.console import Console

    from oblong_reproduction import (
        RunSettings,
        Sets,
        StoreError,
        catalogue,
        find,
        judge_again,
        run_experiment,
    )

    console = Console(highlight=False, soft_wrap=True)
    if not args.names:
        _list(console, list(catalogue().values()))
        return 0
    try:
        experiments = find(args.names)
    except ValueError as error:
        raise DataFileError("oblong reproduce", str(error)) from None
    if args.judge:
        for experiment in experiments:
            if judge_again(experiment, args.output, args.quick) is None:
                console.print(f"{experiment.name}: no results in {args.output}", markup=False)
        return 0
    settings = RunSettings(args.quick, args.seed, args.jobs, args.only, args.fresh)
    sets = Sets(args.data)
    failures = 0
    for experiment in experiments:
        _announce(console, experiment, sets, settings.quick)
        try:
            with _cell_progress(experiment.name) as advance:
                document = run_experiment(experiment, sets, settings, args.output, advance)
        except (StoreError, OSError) as error:
            print(f"oblong: error: {error}", file=sys.stderr)
            return 1
        _print(console, document)
        failures += len(document["failed"])
    console.print(f"Results: {args.output}", markup=False)
    return 1 if failures else 0


def _list(console: Console, experiments: list[Experiment]) -> None:
    """Print name, cost and subject of every experiment."""
    width = max(len(experiment.name) for experiment in experiments)
    paper = None
    for experiment in experiments:
        if experiment.paper != paper:
            paper = experiment.paper
            console.print(f"\n{paper.citation}", style="bold", markup=False)
        minutes = experiment.minutes
        cost = f"{minutes:.0f} min" if minutes >= 1 else "< 1 min"
        if minutes >= 100:
            cost = f"{minutes / 60:.0f} h"
        line = f"  {experiment.name:<{width}}  {cost:>8}  {experiment.title}"
        console.print(line, markup=False)
    console.print(
        "\nTimes are for the full experiment on two cores; --quick takes a fraction of them.",
        style="dim",
    )


def _announce(console: Console, experiment: Experiment, sets: Any, quick: bool) -> None:
    from rich.text import Text

    console.print()
    console.print(Text(experiment.name, style="bold") + Text(f"  {experiment.title}"))
    if quick:
        what = experiment.quick or "nothing left out"
        console.print(Text(f"Quick run: {what}.", style="yellow"))
    for name in experiment.data:
        source = sets.source(name)
        if source and source.startswith("OpenML"):
            console.print(Text(f"{name} is taken from {source}.", style="dim"))


def _print(console: Console, document: dict[str, Any]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from oblong_reproduction._report import edges

    styles = {
        "agrees": "green",
        "agrees: no difference": "green",
        "confirmed": "green",
        "differs": "red",
        "contradicted": "red",
        "not confirmed": "yellow",
    }
    if document["rows"]:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in ("", "paper", "ours", "difference", "verdict"):
            table.add_column(column, overflow="fold")
        for row in document["rows"]:
            cells = [Text(row[key]) for key in ("what", "paper", "ours", "difference")]
            table.add_row(*cells, Text(row["verdict"], style=styles.get(row["verdict"], "dim")))
        console.print(table)
    if flagged := edges(document):
        console.print(flagged, markup=False, style="yellow")
    for reason in sorted(set(document["not_run"].values())):
        count = sum(other == reason for other in document["not_run"].values())
        console.print(f"Not run ({count} parts): {reason}", markup=False)
    for name, reason in document["failed"].items():
        console.print(f"Failed: {name}: {reason}", markup=False, style="red")


@contextmanager
def _cell_progress(name: str) -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar over the cells on standard error, if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda cell, done, total: None
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=36),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[cell]}", style="dim"),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task(name, total=None, cell="")
        yield lambda cell, done, total: bar.update(task, completed=done, total=total, cell=cell)


def _whole_number(least: int) -> Callable[[str], int]:
    """A kind of option: whole numbers from some value up."""

    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(
                f"expected a whole number from {least} up, got {text!r}"
            )
        return int(text)

    return parse


def _folder(text: str) -> Path:
    path = Path(text).expanduser()
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"expected a folder, got {text!r}")
    return path


def _new_folder(text: str) -> Path:
    path = Path(text).expanduser()
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"expected a folder, got the file {text!r}")
    return path
