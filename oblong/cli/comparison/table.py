"""The comparison as a table on the terminal."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from oblong.cli.comparison.results import Comparison, Summary

__all__ = [
    "facts",
    "format_memory",
    "format_p",
    "format_points",
    "format_seconds",
    "print_table",
    "summary_json",
    "verdict",
]

LEVEL = 0.05


def print_table(console: Console, comparison: Comparison) -> None:
    """Print the table of a comparison, and below it how to read it."""
    settings, reference = comparison.settings, comparison.models[0]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("model")
    table.add_column("error %", justify="right")
    table.add_column("fit time", justify="right")
    table.add_column("memory", justify="right")
    # The first word has to do: a terminal has 80 columns.
    table.add_column(f"vs {reference.title.partition(',')[0]}", justify="right")
    table.add_column("p", justify="right")
    table.add_column("")
    for summary in comparison.summaries():
        word = verdict(summary)
        table.add_row(
            # User text must not be read as markup.
            Text(summary.model.title, style="bold"),
            f"{100 * summary.mean:.2f} ± {100 * summary.std:.2f}",
            format_seconds(summary.fit_seconds),
            format_memory(summary.memory),
            format_points(summary.difference),
            format_p(summary.p_value),
            Text(word, style={"better": "green", "worse": "red"}.get(word, "dim")),
        )
    console.print()
    console.print(Text(comparison.dataset.name, style="bold") + Text(f"  {facts(comparison)}"))
    console.print(table)
    repeats = "" if settings.repeats == 1 else f" x {settings.repeats}"
    chosen = "inside each" if settings.nested else "once, on all rows"
    several = ", Holm" if len(comparison.models) > 2 else ""
    console.print(
        Text(
            f"Mean ± deviation over {settings.cv}{repeats} held-out folds; parameters chosen "
            f"{chosen}.\np: corrected resampled t-test against the {reference.title}{several}.",
            style="dim",
        )
    )


def summary_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as JSON values."""
    dataset, settings = comparison.dataset, comparison.settings
    return {
        "data": dataset.name,
        "rows": int(dataset.X.shape[0]),
        "features": int(dataset.X.shape[1]),
        "classes": list(dataset.target_names),
        "cv": settings.cv,
        "repeats": settings.repeats,
        "seed": settings.seed,
        "nested": settings.nested,
        "models": [
            {
                "name": summary.model.name,
                "title": summary.model.title,
                "error": summary.mean,
                "std": summary.std,
                "fit_seconds": summary.fit_seconds,
                "memory_bytes": summary.memory,
                "difference": summary.difference,
                "p": summary.p_value,
                "verdict": verdict(summary),
                "folds": [
                    {
                        "error": result.error,
                        "parameters": result.parameters,
                        "gap": result.gap,
                        "stopped_early": result.stopped_early,
                    }
                    for result in comparison.results[summary.model.name]
                ],
            }
            for summary in comparison.summaries()
        ],
    }


def facts(comparison: Comparison) -> str:
    """Size of the data set in words."""
    rows, columns = comparison.dataset.X.shape
    return f"{rows:,} rows, {columns:,} features, {len(comparison.dataset.target_names)} classes"


def verdict(summary: Summary) -> str:
    """Say in a word how a model stands against the reference."""
    if summary.p_value is None or summary.difference is None:
        return "reference"
    if summary.p_value >= LEVEL:
        return "not clear"
    return "better" if summary.difference < 0 else "worse"


def format_points(difference: float | None) -> str:
    """Print a difference of shares in percentage points; nothing for the reference."""
    if difference is None:
        return ""
    text = f"{100 * difference:+.2f}"
    return "0.00" if float(text) == 0 else text.replace("-", "−")


def format_p(p: float | None) -> str:
    """Print a p-value with two digits that matter; nothing for the reference."""
    if p is None:
        return ""
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def format_memory(size: float | None) -> str:
    """Print bytes in the unit that suits them; a dash where they are not known."""
    if size is None:
        return "–"
    megabytes = size / 2**20
    if megabytes < 1:
        return "< 1 MB"
    return f"{megabytes:,.0f} MB" if megabytes < 1e4 else f"{megabytes / 1024:,.1f} GB"


def format_seconds(seconds: float) -> str:
    """Print a time with three digits, in the unit that suits it."""
    factor, unit = (1e6, "µs") if seconds < 1e-3 else (1e3, "ms") if seconds < 1 else (1.0, "s")
    return f"{factor * seconds:#.3g}".rstrip(".") + f" {unit}"
