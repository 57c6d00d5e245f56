"""Times of classifiers as a table on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from oblong.cli.comparison.table import format_seconds
from oblong.cli.timing.contenders import GROUPS

__all__ = ["print_times"]


def print_times(record: dict[str, Any]) -> None:
    """Print what ``oblong bench`` has found, and below it how to read it."""
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    grid.add_column("model")
    for name in ("first fit", "fit", "ratio", "predict", "ratio", "error %"):
        grid.add_column(name, justify="right")
    for group, about in GROUPS.items():
        members = [model for model in record["models"] if model["group"] == group]
        if members:
            grid.add_row(Text(about, style="dim"))
        for model in members:
            grid.add_row(*_cells(model))
    rows = record["fit_rows"] + record["predict_rows"]
    some = f" of {record['rows']:,}" if rows < record["rows"] else ""
    facts = (
        f"  {record['fit_rows']:,} rows to fit, {record['predict_rows']:,} to predict{some}, "
        f"{record['features']:,} features, {record['classes']} classes"
    )
    console = Console(highlight=False)
    console.print()
    # User text must not be read as markup.
    console.print(Text(record["data"], style="bold") + Text(facts), soft_wrap=True)
    console.print(grid)
    console.print(Text("\n".join(_notes(record)), style="dim"), soft_wrap=True)


def _cells(model: dict[str, Any]) -> Iterator[str | Text]:
    mark = "" if model["converged"] else " *"
    ours = model["package"] == "oblong"
    yield Text(f" {model['title']}{mark}", style="bold" if ours else "")
    yield _seconds(model["first_fit_seconds"])
    for what in ("fit", "predict"):
        yield _seconds(model[f"{what}_seconds"])
        yield _ratio(model[f"{what}_ratio"])
    yield "–" if model["error"] is None else f"{100 * model['error']:.2f}"


def _seconds(value: float | None) -> str:
    return "–" if value is None else format_seconds(value)


def _ratio(value: float | None) -> Text:
    if value is None:
        return Text("–")
    text = f"{value:#.3g}".rstrip(".") if value < 100 else f"{value:,.0f}"
    return Text(text, style="green" if value < 1.0 else "")


def _notes(record: dict[str, Any]) -> Iterator[str]:
    turns = "One turn" if record["repeats"] == 1 else f"Medians of {record['repeats']} turns"
    yield f"{turns}, each model in its turn, after a warm-up; {record['machine']}."
    yield "ratio: time over that of the first model of the group."
    if any(model["first_fit_seconds"] is not None for model in record["models"]):
        yield "first fit: in a fresh process that has imported all modules."
    if not all(model["converged"] for model in record["models"]):
        yield "*: stopped at its limit of iterations before it had converged."
    for model in record["models"]:
        if model["failure"]:
            yield f"{model['title']} failed: {model['failure']}"
