"""``oblong bench``: how fast the library is on your own data, compared with other libraries.

Time classifiers of the library against those of scikit-learn, and of scikit-learn-intelex and
lightning if these are installed, on your data. The models take turns, after a warm-up. All have
their default parameters, on scaled columns; the error on held-out rows shows whether speed costs
accuracy.

models:
{models}
  or a whole group: kernel, linear, online; or all

examples:
  oblong bench
  oblong bench patients.csv --target outcome
  oblong bench train.libsvm.gz --models linear,online --rows 100000
"""  # noqa: D405, D406, D407

import argparse
import platform
from dataclasses import asdict
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import cpu_count
from sklearn.model_selection import train_test_split

from oblong._core.text import quote
from oblong.cli.shared import options
from oblong.cli.shared.preparation import make_pipeline
from oblong.cli.shared.tables import add_table_options, check_labels, labelled_table
from oblong.datasets import DataFileError
from oblong.io.tables import Table

DEFAULT_DATA = "breast_cancer"
# A class needs rows to fit and rows to predict.
_LEAST_ROWS = 4


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    from oblong.cli.timing.contenders import contenders

    listed = "\n".join(f"  {c.name:<15}  {c.title} ({c.package})" for c in contenders())
    parser = options.add_command(subparsers, "bench", __doc__, models=listed)
    add = options.adder(parser)
    about = f"built-in set, file, or - for standard input (default: {DEFAULT_DATA})"
    add("data DATA", about, default=DEFAULT_DATA, nargs="?")
    add_table_options(parser)
    about = "models or groups, separated by commas; the reference of each group is added"
    add("--models NAME,…", about, _names)
    about = "use at most N random rows, a fifth of them to predict (default: %(default)s)"
    add("--rows N", about, options.whole_number(10), 5000)
    add(
        "--repeats N",
        "how often each model is timed (default: %(default)s)",
        options.whole_number(1),
        5,
    )
    add("--seed N", "seed (default: %(default)s)", options.seed, 0)
    add("--json", "print JSON instead of the table")
    parser.set_defaults(run=_run)


def _names(text: str) -> list[str]:
    from oblong.cli.timing.contenders import choose

    names = [name.strip() for name in text.split(",")]
    try:
        choose(names)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return names


def _run(args: argparse.Namespace) -> int:
    options.require("oblong bench", "rich")
    # Here and not above, so that help works without the extra.
    from oblong.cli.shared.progress import step_progress
    from oblong.cli.timing.contenders import choose
    from oblong.cli.timing.measure import measure

    chosen = choose(args.models)
    with options.busy(f"reading {args.data}"):
        table = labelled_table(args)
        check_labels(table, None)
        rows = _rows(table, args)
    with step_progress(len(chosen) * (args.repeats + 1)) as advance:
        times = measure(chosen, rows, args.repeats, advance)
    ours = [times[contender.name] for contender in chosen if contender.package == "oblong"]
    if ours and all(each.failure for each in ours):
        raise options.RunError(f"no model could be fitted to {table.name}: {ours[0].failure}")
    references = {c.group: times[c.name] for c in chosen if c.reference}
    record: dict[str, Any] = {
        "data": table.name,
        "rows": int(table.X.shape[0]),
        "fit_rows": int(rows[0].shape[0]),
        "predict_rows": int(rows[1].shape[0]),
        "features": int(rows[0].shape[1]),
        "classes": len(table.target_names),
        "repeats": args.repeats,
        "seed": args.seed,
        "machine": f"{platform.machine()}, {cpu_count()} processors",
        "models": [],
    }
    for contender in chosen:
        model = {name: getattr(contender, name) for name in ("name", "title", "group", "package")}
        own, other = times[contender.name], references[contender.group]
        model["fit_ratio"] = _ratio(own.fit_seconds, other.fit_seconds)
        model["predict_ratio"] = _ratio(own.predict_seconds, other.predict_seconds)
        record["models"].append(model | asdict(own))
    if args.json:
        options.print_json(record)
    else:
        _print(record)
    return 0


def _rows(table: Table, args: argparse.Namespace) -> list[Any]:
    """Rows to fit and to predict, drawn from the table and prepared, and their labels."""
    y = np.unique(table.y, return_inverse=True)[1]
    order = np.random.default_rng(args.seed).permutation(len(y))
    drawn = np.sort(order[: args.rows])
    counts = np.bincount(y[drawn], minlength=len(table.target_names))
    if counts.min() < _LEAST_ROWS:
        name = quote(table.target_names[int(counts.argmin())])
        where = " among those drawn; raise --rows" if len(drawn) < len(y) else ""
        problem = f"class {name} has {counts.min()} rows, fewer than {_LEAST_ROWS}{where}"
        raise DataFileError(table.name, problem)
    X, y = table.X[drawn], y[drawn]
    X = make_pipeline(table, "passthrough", args.impute)[:-1].fit_transform(X)
    X = sp.csr_matrix(X) if sp.issparse(X) else np.ascontiguousarray(X, dtype=np.float64)
    share = max(0.2, len(counts) / len(y))
    return train_test_split(X, y, test_size=share, stratify=y, random_state=args.seed)


def _ratio(own: float | None, other: float | None) -> float | None:
    return own / other if own and other else None


def _print(record: dict[str, Any]) -> None:
    """Print the table, and below it how to read it."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    from oblong.cli.comparison.table import format_seconds

    def shown(value: float | None, form: Any) -> str:
        return "–" if value is None else form(value)

    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    grid.add_column("model")
    for name in ("fit", "ratio", "predict", "ratio", "error %"):
        grid.add_column(name, justify="right")
    rounds = "1 round" if record["repeats"] == 1 else f"{record['repeats']} rounds"
    notes = [
        f"Medians of {rounds} after a warm-up; {record['machine']}.",
        "ratio: time divided by that of the first model of the group.",
    ]
    group = None
    for model in record["models"]:
        if group not in (None, model["group"]):
            grid.add_section()
        group = model["group"]
        grid.add_row(
            Text(model["title"] + ("" if model["converged"] else " *")),
            shown(model["fit_seconds"], format_seconds),
            shown(model["fit_ratio"], "{:.2f}".format),
            shown(model["predict_seconds"], format_seconds),
            shown(model["predict_ratio"], "{:.2f}".format),
            shown(model["error"], lambda error: f"{100 * error:.2f}"),
        )
        if model["failure"]:
            notes.append(f"{model['title']} failed: {model['failure']}")
    if not all(model["converged"] for model in record["models"]):
        notes.append("*: reached its iteration limit before converging.")
    facts = (
        f"  {record['fit_rows']:,} rows to fit, {record['predict_rows']:,} to predict of "
        f"{record['rows']:,}, {record['features']:,} features, {record['classes']} classes"
    )
    console = Console(highlight=False)
    console.print()
    # User text must not be read as markup.
    console.print(Text(record["data"], style="bold") + Text(facts), soft_wrap=True)
    console.print(grid)
    console.print(Text("\n".join(notes), style="dim"), soft_wrap=True)
