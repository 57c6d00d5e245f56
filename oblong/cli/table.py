"""The comparison as a table on the terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from oblong.cli.protocol import Comparison, Summary

__all__ = ["facts", "format_p", "format_points", "format_seconds", "print_table", "verdict"]

LEVEL = 0.05


def print_table(console: Console, comparison: Comparison) -> None:
    """Print the table of a comparison, and below it how to read it."""
    settings, reference = comparison.settings, comparison.models[0]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("model")
    table.add_column("error %", justify="right")
    table.add_column("fit time", justify="right")
    table.add_column(f"vs {reference.title}", justify="right")
    table.add_column("p", justify="right")
    table.add_column("")
    for summary in comparison.summaries():
        word = verdict(summary)
        table.add_row(
            # User text must not be read as markup.
            Text(summary.model.title, style="bold"),
            f"{100 * summary.mean:.2f} ± {100 * summary.std:.2f}",
            format_seconds(summary.fit_seconds),
            format_points(summary.difference),
            format_p(summary.p_value),
            Text(word, style={"better": "green", "worse": "red"}.get(word, "dim")),
        )
    console.print()
    console.print(Text(comparison.dataset.name, style="bold") + Text(f"  {facts(comparison)}"))
    console.print(table)
    repeats = "" if settings.repeats == 1 else f" x {settings.repeats}"
    console.print(
        Text(
            f"Mean ± deviation over {settings.cv}{repeats} held-out folds; parameters chosen "
            f"inside each.\np: corrected resampled t-test against the {reference.title}"
            f"{', Holm' if len(comparison.models) > 2 else ''}.",
            style="dim",
        )
    )


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


def format_seconds(seconds: float) -> str:
    """Print a time with three digits, in the unit that suits it."""
    factor, unit = (1e6, "µs") if seconds < 1e-3 else (1e3, "ms") if seconds < 1 else (1.0, "s")
    return f"{factor * seconds:#.3g}".rstrip(".") + f" {unit}"
