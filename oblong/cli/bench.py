"""``oblong bench``: how fast the library is on one's own data, next to peers."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from oblong._core.text import quote
from oblong.cli.errors import RunError
from oblong.cli.interrupts import insistent_interrupts
from oblong.cli.labelled import add_table_options, check_labels, labelled_table
from oblong.cli.options import busy, seed, whole_number
from oblong.cli.preparation import make_pipeline
from oblong.datasets import DataFileError, Dataset
from oblong.io.tables import Table

__all__ = ["add_parser"]

GENERATED = "generated"
DEFAULT_DATA = "breast_cancer"
# A class has rows to fit and rows to predict.
_LEAST_ROWS = 4

_DESCRIPTION = """\
Time classifiers of the library next to those of scikit-learn, and next to scikit-learn-intelex,
lightning and River where these are installed, on your data: the first fit in a fresh process, then
fits and predictions by turns. All have their default parameters, on scaled columns; the error on
held-out rows tells whether speed is bought.
"""

_EPILOG = """\
models:
{models}
  or a whole group: kernel, linear, online; or all

examples:
  oblong bench
  oblong bench patients.csv --target outcome
  oblong bench train.libsvm.gz --models linear,online --rows 100000
  oblong bench generated --rows 20000 --models rmm-linear,linear-svc --json
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    from oblong.cli.entrants import entrants

    parser = subparsers.add_parser(
        "bench",
        help="time models next to peers on one data set",
        description=_DESCRIPTION,
        epilog=_EPILOG.format(
            models="\n".join(f"  {e.name:<18}  {e.title} ({e.package})" for e in entrants())
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "data",
        nargs="?",
        default=DEFAULT_DATA,
        metavar="DATA",
        help=f'built-in set, file, "{GENERATED}" for random rows, or - for standard input '
        f"(default: {DEFAULT_DATA})",
    )
    add_table_options(parser)
    parser.add_argument(
        "--models",
        type=_names,
        metavar="NAME,…",
        help="models or groups, separated by commas; peers of their groups join",
    )
    parser.add_argument(
        "--rows",
        type=whole_number(10),
        default=5000,
        metavar="N",
        help="rows at most, drawn at random, a fifth of them to predict (default: %(default)s)",
    )
    parser.add_argument(
        "--repeats",
        type=whole_number(1),
        default=5,
        metavar="N",
        help="turns of each model (default: %(default)s)",
    )
    parser.add_argument(
        "--cold",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="time first fits, each in a process of its own (default: yes)",
    )
    parser.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="seed (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.set_defaults(run=_run)


def _names(text: str) -> list[str]:
    from oblong.cli.entrants import choose

    names = [name.strip() for name in text.split(",")]
    try:
        choose(names)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return names


def _run(args: argparse.Namespace) -> int:
    if find_spec("rich") is None:
        raise DataFileError("oblong bench", 'needs rich: pip install "oblong[cli]"')
    # Here and not above, so that help works without the extra.
    from oblong.cli.entrants import choose
    from oblong.cli.progress import step_progress
    from oblong.cli.race import race
    from oblong.cli.race_table import print_times

    entrants = choose(args.models)
    with busy(f"reading {args.data}"):
        table = _table(args)
        data, rows = _data(table, args)
    steps = len(entrants) * (args.repeats + 1 + args.cold)
    with insistent_interrupts(), step_progress(steps) as advance:
        found = race(entrants, data, args.repeats, advance, cold=args.cold)
    ours = [found[entrant.name] for entrant in entrants if entrant.ours]
    if ours and all(times.failure for times in ours):
        raise RunError(f"no model could be fitted to {table.name}: {ours[0].failure}")
    record = _record(table, rows, data, entrants, found, args)
    if args.json:
        print(json.dumps(record))
    else:
        print_times(record)
    return 0


# The data ----------------------------------------------------------------------------------------


def _table(args: argparse.Namespace) -> Table:
    if args.data == GENERATED and not os.path.lexists(GENERATED):
        if args.target is not None:
            raise DataFileError(GENERATED, "random rows have their own labels; leave --target out")
        X, y = make_classification(
            args.rows, n_features=20, n_informative=10, random_state=args.seed
        )
        return Table.of(Dataset(X, y, None, ("0", "1"), GENERATED))
    table = labelled_table(args)
    check_labels(table, None)
    return table


def _data(table: Table, args: argparse.Namespace) -> tuple[Any, int]:
    """Rows to fit and to predict, prepared, and how many rows there were in the file."""
    from oblong.cli.race import Data

    total, codes = table.X.shape[0], np.unique(table.y, return_inverse=True)[1]
    _check_rows(table, codes)
    chosen = np.arange(total)
    if total > args.rows:
        if args.rows < _LEAST_ROWS * len(table.target_names):
            least = _LEAST_ROWS * len(table.target_names)
            problem = f"{len(table.target_names)} classes need {least} rows or more"
            raise DataFileError("--rows", problem)
        chosen, _ = train_test_split(
            chosen, train_size=args.rows, stratify=codes, random_state=args.seed
        )
        chosen.sort()
        _check_rows(table, codes, chosen)
    X, y = table.X[chosen], codes[chosen]
    X = make_pipeline(table, "passthrough", args.impute)[:-1].fit_transform(X)
    X = sp.csr_matrix(X) if sp.issparse(X) else np.ascontiguousarray(X, dtype=np.float64)
    share = max(0.2, len(table.target_names) / len(y))
    fit, new = train_test_split(
        np.arange(len(y)), test_size=share, stratify=y, random_state=args.seed
    )
    return Data(X[fit], y[fit], X[new], y[new]), total


def _check_rows(table: Table, codes: np.ndarray, chosen: np.ndarray | None = None) -> None:
    counts = np.bincount(
        codes if chosen is None else codes[chosen], minlength=len(table.target_names)
    )
    if counts.min() >= _LEAST_ROWS:
        return
    name, few = quote(table.target_names[int(counts.argmin())]), int(counts.min())
    rows = "1 row" if few == 1 else f"{few} rows"
    where = "" if chosen is None else " among those drawn; raise --rows"
    raise DataFileError(table.name, f"class {name} has {rows}, fewer than {_LEAST_ROWS}{where}")


# What was found ----------------------------------------------------------------------------------


def _record(
    table: Table, rows: int, data: Any, entrants: Sequence[Any], found: Any, args: Any
) -> dict[str, Any]:
    """Everything, as JSON values."""
    references = {e.group: found[e.name] for e in entrants if e.reference}
    models = []
    for entrant in entrants:
        times, reference = found[entrant.name], references[entrant.group]
        values = asdict(times)
        models.append(
            {
                "name": entrant.name,
                "title": entrant.title,
                "group": entrant.group,
                "package": entrant.package,
                "version": entrant.version,
                "reference": entrant.reference,
                "first_fit_seconds": values["first"],
                "fit_seconds": _value(times.fit),
                "fit_ratio": _value(times.fit / reference.fit),
                "predict_seconds": _value(times.predict),
                "predict_ratio": _value(times.predict / reference.predict),
                "error": _value(times.error),
                "converged": times.converged,
                "failure": times.failure,
            }
        )
    return {
        "data": table.name,
        "rows": rows,
        "fit_rows": int(data.X.shape[0]),
        "predict_rows": int(data.X_new.shape[0]),
        "features": int(data.X.shape[1]),
        "classes": len(table.target_names),
        "repeats": args.repeats,
        "seed": args.seed,
        "machine": f"{platform.machine()}, {_processors()} processors",
        "python": platform.python_version(),
        "models": models,
    }


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _value(number: float) -> float | None:
    return number if math.isfinite(number) else None
