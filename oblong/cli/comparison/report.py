"""The comparison as one HTML page that needs nothing beside itself."""

from collections.abc import Sequence
from html import escape

import numpy as np

from oblong.cli.comparison import figures, table
from oblong.cli.comparison.projection import COVERAGE, Projection
from oblong.cli.comparison.protocol import INNER_FOLDS
from oblong.cli.comparison.results import Comparison
from oblong.cli.shared import html

# Tables of more classes than these are too wide to read.
_MOST_CLASSES = 30


def render(parts: Sequence[tuple[Comparison, Projection | None]], command: str) -> str:
    """Return the page.

    Parameters
    ----------
    parts : sequence of (Comparison, Projection or None)
        What was found on each data set, and the models in the plane, for the pictures.
    command : str
        Command line that gives the same comparison.
    """
    sections = []
    for comparison, projection in parts:
        if len(parts) > 1:
            sections.append(f"<h1>{escape(comparison.dataset.name)}</h1>\n{_lead(comparison)}\n")
        sections += [part(comparison) for part in (_data, _results, _classes, _margins)]
        sections += [part(comparison, projection) for part in (_boundaries, _ellipsoids)]
        sections += [part(comparison) for part in (_parameters, _certificates)]
    names = ", ".join(comparison.dataset.name for comparison, _ in parts)
    lead = _lead(parts[0][0]) if len(parts) == 1 else ""
    return html.frame("oblong compare", names, lead, [*sections, html.how_to_repeat(command)])


def _lead(comparison: Comparison) -> str:
    """Return the answer in a sentence."""
    text = escape(table.decision(comparison))
    return f'<p class="lead">{text[0].upper()}{text[1:]}</p>'


def _data(comparison: Comparison) -> str:
    dataset = comparison.dataset
    counts = np.unique(dataset.y, return_counts=True)[1]
    classes = [f"{name} ({count:,})" for name, count in zip(dataset.target_names, counts)]
    if len(classes) > 12:
        classes = [*classes[:12], f"and {len(classes) - 12} more"]
    rows, columns = dataset.X.shape
    found = {"rows": f"{rows:,}", "features": f"{columns:,}", "classes": f"{len(counts):,}"}
    if hasattr(dataset.X, "nnz"):
        found["non-zero"] = f"{dataset.X.nnz / (float(rows) * columns):.2%}"
    parts = [
        f"<p>{escape(dataset.description)}</p>" if dataset.description else "",
        html.facts(found),
        f'<p class="note">Rows of each class: {escape(", ".join(classes))}.</p>',
    ]
    if dataset.y_test is not None:
        parts.append(
            f'<p class="note">The test rows of the set ({len(dataset.y_test):,}) are not used.</p>'
        )
    return html.section("Data", *filter(None, parts))


def _results(comparison: Comparison) -> str:
    settings, reference = comparison.settings, comparison.models[0].title
    rows = []
    for summary in comparison.summaries():
        word = table.verdict(summary)
        memory, p = (
            escape(table.format_memory(summary.memory)),
            escape(table.format_p(summary.p_value)),
        )
        marked = f'<span class="{word}">{word}</span>' if word in ("better", "worse") else word
        against = [memory, table.format_points(summary.difference), p, marked]
        rows.append([escape(summary.model.title), *table.shown(summary), *against])
    scores = ["model", "error, %", "balanced error, %", "F1", "AUC", "log loss"]
    head = [*scores, "fit", "predict", "memory", f"vs {escape(reference)}", "p", "verdict"]
    repeats = f", repeated {settings.repeats} times" if settings.repeats > 1 else ""
    inner = f"by up to {INNER_FOLDS}-fold cross-validation"
    chosen = (
        f"Within each fold the parameters were chosen {inner} on the training rows alone."
        if settings.nested
        else f"The parameters were chosen once, {inner} on all rows, held-out ones included, "
        "which favours models with many parameters."
    )
    some = table.reduced(comparison)
    fewer = f" To save time, parameters were chosen{some}." if some else ""
    correction = ", with Holm's correction for several models" if len(rows) > 2 else ""
    return html.section(
        "Result",
        html.table(head, rows, numbers=range(1, 11)),
        f'<p class="note">Errors are mean ± standard deviation over {settings.cv} stratified '
        f"folds{repeats}, the same for all models. {chosen}{fewer} The balanced error weights all "
        "classes equally. F1 is the mean of the F1 scores of the classes, AUC the mean of the "
        "areas under their ROC curves, each class against the rest. For the log loss, models "
        "without probabilities are calibrated by cross-validation. The p-value is from the "
        f"corrected resampled t-test (Nadeau and Bengio, 2003){correction}; below 0.05 the "
        "difference counts as clear. Fit time is the median over the folds of one fit with the "
        "chosen parameters. Memory is the median of the peak while the parameters were chosen and "
        "the model fitted, beyond what the process used before.</p>",
        html.figure(
            figures.fold_figure(comparison),
            "Each dot is one fold; thin lines join the same fold, bars mark the means.",
        ),
    )


def _classes(comparison: Comparison) -> str:
    """Errors by class of all models, and the confusion matrix of the best."""
    names = [escape(name) for name in comparison.dataset.target_names]
    if len(names) > _MOST_CLASSES:
        return ""
    models = comparison.models
    confusions = [comparison.confusion(model) for model in models]
    missed = [1.0 - np.diag(c) / np.maximum(c.sum(axis=1), 1) for c in confusions]
    rows = [
        [name, f"{confusions[0][k].sum():,}", *(f"{100 * errors[k]:.2f}" for errors in missed)]
        for k, name in enumerate(names)
    ]
    head = ["class", "rows", *(escape(model.title) for model in models)]
    best = int(np.argmin([summary.mean for summary in comparison.summaries()]))
    matrix = [
        [name, *(f"<strong>{n:,}</strong>" if j == k else f"{n:,}" for j, n in enumerate(row))]
        for k, (name, row) in enumerate(zip(names, confusions[best].tolist()))
    ]
    return html.section(
        "Classes",
        "<p>Held-out rows of each class that were predicted wrongly, in %.</p>",
        html.table(head, rows, numbers=range(1, len(head))),
        f"<p>Confusion matrix of {escape(models[best].title)}: each line counts the rows of a "
        "class by the class that was predicted.</p>",
        html.table(["class", *names], matrix, numbers=range(1, len(names) + 1)),
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
        between = f" The outputs separate {first} from {second}, the pair confused most often."
    return html.section(
        "Margins",
        "<p>Left of 0 a row is on the wrong side of the boundary, right of 1 it is beyond the "
        "margin. A relative margin machine also keeps the output of every training row at or below "
        "its bound <var>B</var>: the margin is large relative to the spread of the outputs.</p>",
        html.figure(picture, f"Training rows of the first fold.{between}"),
    )


def _boundaries(comparison: Comparison, projection: Projection | None) -> str:
    if projection is None:
        return ""
    what = (
        "Both features, as they are."
        if projection.explained is None
        else "The first two principal components of the scaled data explain "
        f"{projection.explained:.0%} of its variance. The models were tuned and fitted again on "
        "these two alone, so the picture illustrates them; these are not the models of the table."
    )
    rows = len(comparison.dataset.y)
    some = f" {len(projection.y):,} of {rows:,} rows." if len(projection.y) < rows else ""
    return html.section(
        "Boundaries", html.figure(figures.boundary_figure(comparison, projection), what + some)
    )


def _ellipsoids(comparison: Comparison, projection: Projection | None) -> str:
    if projection is None or not projection.ellipsoids:
        return ""
    rows = []
    for k, ellipsoid in projection.ellipsoids.items():
        axes = np.linalg.svd(ellipsoid.inverse_factor_, compute_uv=False)
        lengths = [f"{axes.max():.3g}", f"{axes.min():.3g}", f"{axes.max() / axes.min():.1f}"]
        rows.append([escape(comparison.dataset.target_names[k]), *lengths])
    return html.section(
        "Shape",
        html.figure(
            figures.ellipsoid_figure(comparison, projection),
            f"The ellipses of least area around {COVERAGE:.0%} of the points of each class, in the "
            "plane of the picture above. The more elongated they are, the more there is to gain "
            "from the shape of the data.",
        ),
        html.table(
            ["class", "long half-axis", "short half-axis", "ratio"], rows, numbers=(1, 2, 3)
        ),
    )


def _parameters(comparison: Comparison) -> str:
    settings = comparison.settings
    groups, head, starts = ["<td></td>"], ["fold"], []
    for model in comparison.models:
        names = list(comparison.results[model.name][0].parameters)
        if model.kind == "baseline" and not names:
            continue
        groups.append(f'<th scope="colgroup" colspan="{len(names) + 1}">{escape(model.title)}</th>')
        starts.append(len(head))
        head += [*map(escape, names), "error, %"]
    rows = []
    for fold in range(len(comparison.folds)):
        repeat, part = divmod(fold, settings.cv)
        row = [f"{part + 1}" if settings.repeats == 1 else f"{repeat + 1}.{part + 1}"]
        for model in comparison.models:
            result = comparison.results[model.name][fold]
            if model.kind == "baseline" and not result.parameters:
                continue
            row += [escape(_value(value)) for value in result.parameters.values()]
            row.append(f"{100 * result.error:.2f}")
        rows.append(row)
    return html.section(
        "Chosen parameters",
        html.table(head, rows, numbers=range(1, len(head)), groups=groups, starts=starts),
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
    return html.section(
        "Certificates",
        "<p>The gap between the primal and the dual objective bounds how far a fit is from the "
        "best possible one, as a fraction of the objective.</p>",
        html.table(["model", "largest gap", "fits stopped early"], rows, numbers=(1, 2)),
    )
