"""The comparison as a table on the terminal."""

from dataclasses import fields
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from oblong.cli.comparison.models import MAJORITY
from oblong.cli.comparison.results import Comparison, Summary
from oblong.cli.comparison.significance import LEVEL, RARE, corrected_t_test, mcnemar

# Names in JSON, where they differ, and what it has of a fold.
_JSON = {"mean": "error", "memory": "memory_bytes", "p_value": "p"}
_FOLD = ("error", "parameters", "gap", "stopped_early")
# Columns that the table needs with all it shows.
_WIDE = 92


def print_table(console: Console, comparison: Comparison) -> None:
    """Print the table of a comparison, below it how to read it, and the verdict."""
    reference = comparison.models[0]
    # A terminal may have no more than 80 columns: then deviations are for the report.
    narrow = console.width < _WIDE
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("model")
    heads = ["err %", "bal %"] if narrow else ["error %", "bal. %"]
    for name in (*heads, "F1", "AUC", "loss" if narrow else "log loss", "fit", "predict"):
        table.add_column(name, justify="right")
    # The first word has to do.
    table.add_column(f"vs {reference.title.partition(',')[0]}")
    for summary in comparison.summaries():
        word = verdict(summary)
        errors, *others = shown(summary)
        table.add_row(
            # User text must not be read as markup.
            Text(summary.model.title, style="bold"),
            errors.partition(" ±")[0] if narrow else errors,
            *others,
            Text(word, style={"better": "green", "worse": "red"}.get(word, "dim")),
        )
    console.print()
    console.print(Text(comparison.dataset.name, style="bold") + Text(f"  {facts(comparison)}"))
    console.print(table)
    how = protocol(comparison)
    console.print(Text(how.replace(" ± standard deviation", "") if narrow else how, style="dim"))
    console.print(Text(f"Verdict: {decision(comparison)}", style="bold"), soft_wrap=True)


def shown(summary: Summary) -> list[str]:
    """Errors, scores and times, as both tables show them."""
    scores = ["–" if x is None else f"{x:.3f}" for x in (summary.f1, summary.auc, summary.log_loss)]
    times = [format_seconds(x) for x in (summary.fit_seconds, summary.predict_seconds)]
    errors = f"{100 * summary.mean:.2f} ± {100 * summary.std:.2f}"
    return [errors, f"{100 * summary.balanced_error:.2f}", *scores, *times]


def protocol(comparison: Comparison) -> str:
    """How the numbers came about, in a sentence or two."""
    settings, reference = comparison.settings, comparison.models[0]
    repeats = "" if settings.repeats == 1 else f" x {settings.repeats}"
    folds = len(comparison.folds)
    some = f", {folds} of them done" if folds < settings.cv * settings.repeats else ""
    chosen = "inside each" if settings.nested else "once, on all rows"
    several = ", Holm" if len(comparison.models) > 2 else ""
    text = (
        f"Mean ± standard deviation over {settings.cv}{repeats} held-out folds{some}; parameters "
        f"chosen {chosen}{reduced(comparison)}.\nbetter, worse: corrected resampled t-test against "
        f"the {reference.title}{several}, p < {LEVEL}."
    )
    if any(model.name == "rmm" for model in comparison.models):
        text += "\nRMM: relative margin machine, oblong's RelativeMarginClassifier."
    if comparison.left_out:
        text += f"\nNo time was left for {', '.join(comparison.left_out)}."
    return text


def reduced(comparison: Comparison) -> str:
    """What was done with fewer rows than there are."""
    settings = comparison.settings
    parts = []
    if settings.search_rows is not None:
        parts.append(f" on {settings.search_rows:,} of its rows")
    if settings.kernel_rows is not None:
        parts.append(f", kernel models fitted to {settings.kernel_rows:,}")
    return "".join(parts)


def decision(comparison: Comparison) -> str:
    """The answer in one sentence."""
    reference, *others = summaries = comparison.summaries()
    contenders = [s for s in summaries if s.model.name != MAJORITY]
    best = min(contenders, key=lambda s: (s.mean, s.fit_seconds))
    majority = next((s for s in summaries if s.model.name == MAJORITY), None)
    counts = np.unique(comparison.dataset.y, return_counts=True)[1]
    rare = counts.min() < RARE * counts.sum()
    if majority is not None and _p(comparison, best, majority) >= LEVEL:
        better = (
            "no model is clearly better than always predicting the most frequent class, which is "
            f"wrong for {100 * majority.mean:.2f} % of the rows"
        )
        ranking = max(contenders, key=lambda s: s.auc or 0.0)
        if rare and _ranks(comparison, ranking):
            better += (
                f"; but {ranking.model.title} ranks rows of the rarer classes higher (AUC "
                f"{ranking.auc:.3f}), and --class-weight balanced or --threshold of oblong train "
                "finds more of them"
            )
        return f"{better}."
    if best is reference or best.mean == reference.mean:
        better = f"the {reference.model.title} has the lowest error, {100 * reference.mean:.2f} %"
        models = [s for s in others if s.model.name != MAJORITY]
        equal, unclear = (
            [s.model.title.replace(",", "") for s in models if verdict(s) == word]
            for word in ("equal", "not clear")
        )
        if equal:
            better += f", as {'has' if len(equal) == 1 else 'have'} {_listed(equal, 'and')}"
        if unclear:
            better += f", but not clearly below that of {_listed(unclear, 'or')}"
    else:
        clear = verdict(best) == "better"
        p = format_p(best.p_value)
        p = f"p {p}" if p.startswith("<") else f"p = {p}"
        few = comparison.settings.kernel_rows
        if best.model.kind == "kernel" or reference.model.kind != "kernel":
            few = None
        better = (
            f"{best.model.title} has the lowest error, {100 * best.mean:.2f} % against "
            f"{100 * reference.mean:.2f} % for the {reference.model.title}, "
            + (f"fitted to {few:,} rows only, " if few else "")
            + ("a clear difference" if clear else "a difference that may be chance")
            + f" ({p}), and fits in {format_seconds(best.fit_seconds)} against "
            f"{format_seconds(reference.fit_seconds)}"
        )
    fairest = min(contenders, key=lambda s: s.balanced_error)
    if rare and fairest.balanced_error < best.balanced_error:
        better += (
            f"; with all classes weighted equally {fairest.model.title} leads, "
            f"{100 * fairest.balanced_error:.2f} % against {100 * best.balanced_error:.2f} %"
        )
    return f"{better}."


def _listed(names: list[str], word: str) -> str:
    *most, last = names
    return f"{', '.join(most)} {word} {last}" if most else last


def _p(comparison: Comparison, first: Summary, second: Summary) -> float:
    """How likely chance alone makes the first as much better than the second; 1 if it is not."""
    wins = losses = 0
    results = (comparison.results[s.model.name] for s in (first, second))
    for (_, test), own, other in zip(comparison.folds, *results):
        # Later repeats hold out the same rows.
        if own.fold < comparison.settings.cv:
            truth = comparison.dataset.y[test]
            right, also = own.predicted == truth, other.predicted == truth
            wins += int(np.count_nonzero(right & ~also))
            losses += int(np.count_nonzero(also & ~right))
    return mcnemar(wins, losses)


def _ranks(comparison: Comparison, model: Summary) -> bool:
    """Whether the AUC of a model is clearly above that of no order."""
    areas = np.array([fold.auc for fold in comparison.results[model.model.name]], dtype=float)
    ratio = 1.0 / (comparison.settings.cv - 1)
    return bool(areas.mean() > 0.5 and corrected_t_test(areas - 0.5, ratio) < LEVEL)


def summary_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as JSON values."""
    dataset, settings = comparison.dataset, comparison.settings
    return {
        "data": dataset.name,
        "rows": int(dataset.X.shape[0]),
        "features": int(dataset.X.shape[1]),
        "classes": list(dataset.target_names),
        **{f.name: getattr(settings, f.name) for f in fields(settings) if f.name != "jobs"},
        "verdict": decision(comparison),
        "left_out": comparison.left_out,
        "models": [
            {
                "name": summary.model.name,
                "title": summary.model.title,
                **{_JSON.get(k, k): v for k, v in vars(summary).items() if k != "model"},
                "verdict": verdict(summary),
                "confusion": comparison.confusion(summary.model).tolist(),
                "folds": [
                    {name: getattr(result, name) for name in _FOLD}
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
    if abs(summary.difference) < 1e-12:
        # Of two models that are never wrong, above all, no more can be said.
        return "equal"
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
