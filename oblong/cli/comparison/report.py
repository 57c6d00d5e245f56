"""The comparison as one HTML page that needs nothing beside itself."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from oblong.cli.comparison import figures
from oblong.cli.comparison.projection import COVERAGE, Projection
from oblong.cli.comparison.protocol import INNER_FOLDS
from oblong.cli.comparison.results import Comparison, Summary
from oblong.cli.comparison.table import (
    format_memory,
    format_p,
    format_points,
    format_seconds,
    verdict,
)
from oblong.cli.shared.html import figure, frame, how_to_repeat, section, table

__all__ = ["render"]


def render(comparison: Comparison, projection: Projection | None, command: str) -> str:
    """Return the page.

    Parameters
    ----------
    comparison : Comparison
        What was found.
    projection : Projection or None
        The models in the plane, for the picture of boundaries.
    command : str
        Command line that gives the same comparison.
    """
    sections = [
        _data(comparison),
        _results(comparison),
        _margins(comparison),
        _boundaries(comparison, projection),
        _ellipsoids(comparison, projection),
        _parameters(comparison),
        _certificates(comparison),
        how_to_repeat(command),
    ]
    return frame("oblong compare", comparison.dataset.name, _lead(comparison.summaries()), sections)


def _lead(summaries: Sequence[Summary]) -> str:
    """Return the answer in a sentence or two."""
    reference, *others = summaries
    sentences = [f"The {_share(reference)} of the held-out rows."]
    for word, judgement in (
        ("better", 'That is <span class="better">better</span>'),
        ("worse", 'That is <span class="worse">worse</span>'),
        ("not clear", "That is no clear difference"),
    ):
        those = [summary for summary in others if verdict(summary) == word]
        if those:
            listed = "; the ".join(_share(summary) for summary in those)
            p = f" (p&nbsp;{_equals(those[0].p_value)})" if len(those) == 1 else ""
            sentences.append(f"The {listed}. {judgement}{p}.")
    return f'<p class="lead">{" ".join(sentences)}</p>'


def _share(summary: Summary) -> str:
    return f"{escape(summary.model.title)} misses {100 * summary.mean:.2f}&nbsp;%"


def _equals(p: float | None) -> str:
    text = format_p(p)
    return escape(text) if text.startswith("<") else f"= {text}"


def _data(comparison: Comparison) -> str:
    dataset = comparison.dataset
    counts = np.unique(dataset.y, return_counts=True)[1]
    classes = [f"{name} ({count:,})" for name, count in zip(dataset.target_names, counts)]
    if len(classes) > 12:
        classes = [*classes[:12], f"and {len(classes) - 12} more"]
    facts = {
        "rows": f"{dataset.X.shape[0]:,}",
        "features": f"{dataset.X.shape[1]:,}",
        "classes": f"{len(counts):,}",
    }
    if hasattr(dataset.X, "nnz"):
        facts["non-zero"] = f"{dataset.X.nnz / np.prod(dataset.X.shape, dtype=float):.2%}"
    listed = "".join(f"<div><dt>{k}</dt><dd>{v}</dd></div>" for k, v in facts.items())
    parts = [
        f"<p>{escape(dataset.description)}</p>" if dataset.description else "",
        f'<dl class="facts">{listed}</dl>',
        f'<p class="note">Rows of each class: {escape(", ".join(classes))}.</p>',
    ]
    if dataset.y_test is not None:
        parts.append(
            f'<p class="note">The set\'s own test part ({len(dataset.y_test):,} rows) takes no '
            "part.</p>"
        )
    return section("Data", *filter(None, parts))


def _results(comparison: Comparison) -> str:
    settings, reference = comparison.settings, comparison.models[0].title
    rows = []
    for summary in comparison.summaries():
        word = verdict(summary)
        rows.append(
            [
                escape(summary.model.title),
                f"{100 * summary.mean:.2f} ± {100 * summary.std:.2f}",
                format_seconds(summary.fit_seconds),
                escape(format_memory(summary.memory)),
                format_points(summary.difference),
                escape(format_p(summary.p_value)),
                f'<span class="{word}">{word}</span>' if word in ("better", "worse") else word,
            ]
        )
    head = ["model", "error, %", "fit time", "memory", f"vs {escape(reference)}", "p", "verdict"]
    repeats = f", {settings.repeats} times over" if settings.repeats > 1 else ""
    inner = f"by up to {INNER_FOLDS}-fold cross-validation"
    chosen = (
        f"Within each fold the parameters were chosen {inner} on the training rows alone."
        if settings.nested
        else f"The parameters were chosen once, {inner} on all rows, held-out ones included, "
        "which flatters models with many parameters."
    )
    correction = ", with Holm's correction for several models" if len(rows) > 2 else ""
    return section(
        "Result",
        table(head, rows, numbers=(1, 2, 3, 4, 5)),
        f'<p class="note">Errors are mean ± standard deviation over {settings.cv} stratified '
        f"folds{repeats}, the same for all models. {chosen} The p-value is "
        f"that of the corrected resampled t-test (Nadeau and Bengio, 2003){correction}; below "
        "0.05 the difference counts as clear. Fit time is the median over the folds of one fit "
        "with the chosen parameters, memory that of the peak while they were chosen and fitted, "
        "beyond what the process held before.</p>",
        figure(
            figures.fold_figure(comparison),
            "Each dot is one fold; thin lines join the same fold, bars mark the means.",
        ),
    )


def _margins(comparison: Comparison) -> str:
    pair = figures.confused_pair(comparison)
    picture = figures.margin_figure(comparison, pair)
    if picture is None:
        return ""
    between = ""
    if pair is not None:
        names = dict(zip(np.unique(comparison.dataset.y).tolist(), comparison.dataset.target_names))
        first, second = (names[label.item() if hasattr(label, "item") else label] for label in pair)
        between = f" The outputs are those that tell {first} from {second}, most often confused."
    return section(
        "Margins",
        "<p>Left of 0 a row is on the wrong side of the boundary, right of 1 it is beyond the "
        "margin. A relative margin machine also holds every training row at or below its bound "
        "<var>B</var>: the margin is large relative to the spread of the outputs.</p>",
        figure(picture, f"Training rows of the first fold.{between}"),
    )


def _boundaries(comparison: Comparison, projection: Projection | None) -> str:
    if projection is None:
        return ""
    what = (
        "Both features, as they are."
        if projection.explained is None
        else "The first two principal components of the scaled data hold "
        f"{projection.explained:.0%} of its variance. The models were tuned and fitted again on "
        "these two alone, so the picture shows their manner, not the boundaries of the table."
    )
    rows = len(comparison.dataset.y)
    some = f" {len(projection.y):,} of {rows:,} rows." if len(projection.y) < rows else ""
    return section(
        "Boundaries", figure(figures.boundary_figure(comparison, projection), what + some)
    )


def _ellipsoids(comparison: Comparison, projection: Projection | None) -> str:
    if projection is None or not projection.ellipsoids:
        return ""
    rows = []
    for k, ellipsoid in projection.ellipsoids.items():
        axes = np.linalg.svd(ellipsoid.inverse_factor_, compute_uv=False)
        rows.append(
            [
                escape(comparison.dataset.target_names[k]),
                f"{axes.max():.3g}",
                f"{axes.min():.3g}",
                f"{axes.max() / axes.min():.1f}",
            ]
        )
    return section(
        "Shape",
        figure(
            figures.ellipsoid_figure(comparison, projection),
            f"The ellipses of least area around {COVERAGE:.0%} of the points of each class, in the "
            "plane of the picture above. The longer they are, the more there is to be gained from "
            "the shape of the data.",
        ),
        table(["class", "long half-axis", "short half-axis", "ratio"], rows, numbers=(1, 2, 3)),
    )


def _parameters(comparison: Comparison) -> str:
    settings = comparison.settings
    groups, head, starts = ["<td></td>"], ["fold"], []
    for model in comparison.models:
        names = list(comparison.results[model.name][0].parameters)
        groups.append(f'<th scope="colgroup" colspan="{len(names) + 1}">{escape(model.title)}</th>')
        starts.append(len(head))
        head += [*map(escape, names), "error, %"]
    rows = []
    for fold in range(len(comparison.folds)):
        repeat, part = divmod(fold, settings.cv)
        row = [f"{part + 1}" if settings.repeats == 1 else f"{repeat + 1}.{part + 1}"]
        for model in comparison.models:
            result = comparison.results[model.name][fold]
            row += [escape(_value(value)) for value in result.parameters.values()]
            row.append(f"{100 * result.error:.2f}")
        rows.append(row)
    return section(
        "Chosen parameters",
        table(head, rows, numbers=range(1, len(head)), groups=groups, starts=starts),
    )


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _certificates(comparison: Comparison) -> str:
    rows = []
    for model in comparison.models:
        results = comparison.results[model.name]
        gaps = [result.gap for result in results if result.gap is not None]
        if gaps:
            early = sum(result.stopped_early for result in results)
            rows.append([escape(model.title), f"{max(gaps):.1e}", f"{early:,}"])
    if not rows:
        return ""
    return section(
        "Certificates",
        "<p>The gap between the primal and the dual objective bounds how far a fit is from the "
        "best possible one, as a share of the objective.</p>",
        table(["model", "largest gap", "fits stopped early"], rows, numbers=(1, 2)),
    )
