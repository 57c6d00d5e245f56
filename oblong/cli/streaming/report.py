"""The outcome of a stream, as a page or as JSON lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from oblong.cli.shared.options import json_text, write_whole
from oblong.cli.streaming.checkpoint import named
from oblong.cli.streaming.metrics import Metrics, Window


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run has found."""

    source: str
    learner: str
    model: Any
    labels: Sequence[int | str]
    rows: int
    metrics: Metrics
    mistakes: int
    skipped: int
    command: str

    @property
    def examples(self) -> int:
        """Examples learned from: rows, each as often as its weight says."""
        return self.metrics.examples

    @property
    def error(self) -> float:
        """Fraction of the examples that were predicted wrongly, each before it was learned from."""
        return self.mistakes / self.examples

    def as_json(self) -> dict[str, Any]:
        """The final record of the JSON lines."""
        seconds = self.metrics.seconds
        return {
            "final": True,
            "source": self.source,
            "learner": self.learner,
            "rows": self.rows,
            "examples": self.examples,
            "mistakes": self.mistakes,
            "error": self.error,
            "majority_error": self.metrics.majority_error,
            **{k.replace("-", "_"): value for k, value in self.metrics.totals.items()},
            **({"drifts": self.metrics.drifts} if self.metrics.drifts else {}),
            "skipped": self.skipped,
            "features": int(getattr(self.model, "n_features_in_", 0)),
            "classes": {str(k): n for k, n in zip(self.labels, self.metrics.counts)},
            "updates": int(getattr(self.model, "n_updates_", 0)),
            "seconds": round(seconds, 3),
            "rows_per_second": round(self.rows / max(seconds, 1e-9), 1),
        }


def write_report(outcome: Outcome, path: Path) -> None:
    """Write the report whole or not at all."""
    if path.suffix.lower() in (".json", ".jsonl"):
        points = [window.as_json() for window in outcome.metrics.windows]
        text = "".join(json_text(line) + "\n" for line in [*points, outcome.as_json()])
    else:
        text = _page(outcome)
    write_whole(path, text)


def _page(outcome: Outcome) -> str:
    from oblong.cli.shared import html

    end = outcome.as_json()
    weighted = outcome.examples != outcome.rows
    what = "examples (rows times their weights)" if weighted else "rows"
    lead = (
        f'<p class="lead">Of {outcome.examples:,} {what}, each predicted before it was learned '
        f"from, {escape(outcome.learner)} missed {100 * outcome.error:.2f}&nbsp;%. Always "
        "predicting the most frequent class would have missed "
        f"{100 * end['majority_error']:.2f}&nbsp;%.</p>"
    )
    facts = {name: f"{end[name]:,}" for name in ("rows", "features", "updates")}
    facts |= {"classes": f"{len(outcome.labels):,}", "rows/s": f"{end['rows_per_second']:,.0f}"}
    if outcome.skipped:
        facts["skipped"] = f"{outcome.skipped:,}"
    model = named(outcome.model, None)
    parameters = [[escape(k), escape(str(v))] for k, v in sorted(model.get_params().items())]
    classes = [
        [escape(str(label)), f"{n:,}", f"{100 * n / outcome.examples:.2f}"]
        for label, n in list(zip(outcome.labels, outcome.metrics.counts))[:100]
    ]
    head = ["class", "examples" if weighted else "rows", "share, %"]
    picture = _curve(outcome.metrics.windows)
    caption = "The error over each window of rows, and over all rows so far."
    sections = [
        html.section("Errors", html.figure(picture, caption), html.facts(facts)),
        html.section("Classes", html.table(head, classes, numbers=(1, 2))),
        html.section("Learner", html.table([type(model).__name__, "value"], parameters)),
        html.how_to_repeat(outcome.command),
    ]
    return html.frame("oblong stream", outcome.source, lead, sections)


def _curve(windows: Sequence[Window]) -> str:
    """Errors along a stream: over each window, and over all rows so far."""
    from matplotlib.ticker import MaxNLocator

    from oblong.cli.shared.svg import draw_svg
    from oblong.display._style import model_style

    def draw(ax: Any) -> None:
        rows = [window.rows for window in windows]
        for position, (label, values) in enumerate(
            {
                "window": [100 * window.error for window in windows],
                "so far": [100 * window.total_error for window in windows],
            }.items()
        ):
            marker = "o" if len(rows) == 1 else None
            color = model_style(position)["color"]
            ax.plot(rows, values, color=color, linewidth=1.6, marker=marker, label=label)
        ax.set_ylim(bottom=0)
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.set_xlabel("rows")
        ax.set_ylabel("error, %")
        ax.legend(frameon=False)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)

    return draw_svg(draw, (7.4, 3.6), "Errors over each window of rows and over all rows so far.")
