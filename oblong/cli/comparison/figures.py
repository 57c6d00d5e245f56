"""The pictures of the report, as SVG that goes into the page itself."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from oblong.cli.comparison.models import MAJORITY
from oblong.cli.comparison.projection import Projection
from oblong.cli.comparison.results import Comparison
from oblong.cli.shared.svg import draw_svg
from oblong.display import EllipsoidDisplay, MarginDisplay
from oblong.display._plane import draw_points, grid_around
from oblong.display._style import INK, model_style


def fold_figure(comparison: Comparison) -> str:
    """Held-out errors of every fold, the same fold joined across models.

    The majority class is left out: beside its errors, the others could not be told apart.
    """
    models = [m for m in comparison.models if m.name != MAJORITY] or comparison.models

    def draw(ax: Axes) -> None:
        errors = np.array(
            [[100 * fold.error for fold in comparison.results[m.name]] for m in models]
        )
        heights = np.arange(len(models))[::-1]
        # Equal errors would hide each other: a fold keeps the same small shift in every row.
        shifts = np.linspace(-0.16, 0.16, errors.shape[1])
        for fold, shift in enumerate(shifts):
            ax.plot(errors[:, fold], heights + shift, color=INK, alpha=0.25, linewidth=0.8)
        for position, height in enumerate(heights):
            color = model_style(comparison.models.index(models[position]))["color"]
            ax.scatter(errors[position], height + shifts, s=34, color=color, alpha=0.85, zorder=3)
            mean = errors[position].mean()
            ax.plot([mean, mean], [height - 0.3, height + 0.3], color=color, linewidth=2.4)
        ax.set_yticks(heights, [model.title for model in models])
        ax.set_ylim(-0.6, len(models) - 0.4)
        room = 0.04 * max(errors.max(), 1.0)
        ax.set_xlim(-room, errors.max() + room)
        ax.tick_params(axis="y", length=0)
        ax.set_xlabel("held-out error, %")
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)

    title = (
        "Held-out error of every fold for "
        + " and ".join(m.title for m in models)
        + "; a bar marks each mean."
    )
    return draw_svg(draw, (7.4, 0.95 + 0.75 * len(models)), title)


def margin_figure(comparison: Comparison, pair: tuple[object, object] | None) -> str | None:
    """Signed training outputs of the first fold, for models that have outputs."""
    train = comparison.folds[0][0]
    X, y = comparison.dataset.X[train], comparison.dataset.y[train]
    estimators = {}
    for model in comparison.models:
        if model.kind == "baseline" or model.name == "logistic":
            continue
        estimator = comparison.results[model.name][0].estimator
        if estimator is None or not hasattr(estimator, "decision_function"):
            continue
        if pair is None or "model__decision_function_shape" in estimator.get_params():
            estimators[model.title] = estimator
    if not estimators:
        return None
    title = (
        "Histograms of the signed outputs on the training rows for "
        + " and ".join(estimators)
        + ", with the margin at 1."
    )
    size = (7.4, 1.0 + 1.15 * len(estimators))
    return draw_svg(
        lambda ax: MarginDisplay.from_estimator(estimators, X, y, pair=pair, ax=ax), size, title
    )


def confused_pair(comparison: Comparison) -> tuple[object, object] | None:
    """Return the two classes most often taken for each other; None with two classes."""
    classes = np.unique(comparison.dataset.y)
    if len(classes) == 2:
        return None
    models = [model for model in comparison.models if model.kind != "baseline"]
    confusion = np.sum([comparison.confusion(model) for model in models], axis=0)
    np.fill_diagonal(confusion, -1)
    i, j = np.unravel_index(np.argmax(confusion + confusion.T), confusion.shape)
    return classes[min(i, j)], classes[max(i, j)]


def boundary_figure(comparison: Comparison, projection: Projection) -> str:
    """Boundaries in the plane over the points."""
    first, second = projection.axis_labels
    names = " and ".join(projection.estimators)
    title = f"Decision boundaries of {names} in the plane of {first} and {second}."

    def draw(ax: Axes) -> None:
        how = _names(comparison, projection)
        draw_boundaries(ax, projection.estimators, projection.points, projection.y, **how)

    return draw_svg(draw, (7.4, 4.6), title)


def ellipsoid_figure(comparison: Comparison, projection: Projection) -> str:
    """Smallest ellipses around most points of each class."""
    names = [_short(name) for name in comparison.dataset.target_names]
    ellipsoids = {names[k]: fitted for k, fitted in projection.ellipsoids.items()}
    title = "Smallest ellipses around " + " and ".join(ellipsoids) + "."

    def draw(ax: Axes) -> None:
        how = _names(comparison, projection)
        EllipsoidDisplay.from_estimator(ellipsoids, projection.points, projection.y, ax=ax, **how)

    return draw_svg(draw, (7.4, 4.6), title)


def _names(comparison: Comparison, projection: Projection) -> dict[str, Any]:
    """Names of the classes and of the axes."""
    return {
        "class_names": [_short(name) for name in comparison.dataset.target_names],
        "axis_labels": tuple(_short(label, 60) for label in projection.axis_labels),
    }


def draw_boundaries(
    ax: Axes, estimators: Mapping[str, Any], points: np.ndarray, y: np.ndarray, *,
    class_names: Sequence[str], axis_labels: tuple[str, ...],
) -> None:  # fmt: skip
    """Draw the boundaries of classifiers of two features over the points."""
    xx0, xx1, grid = grid_around(points, points, 200, 0.06)
    entries = draw_points(ax, points, y, class_names, axis_labels) + len(estimators)
    for position, (name, estimator) in enumerate(estimators.items()):
        style = model_style(position)
        # The first, dashed, lies on top: it stays visible where others coincide with it.
        line: dict[str, Any] = {f"{key}s": [value] for key, value in style.items()}
        line |= {"levels": [0.0], "linewidths": 1.9, "zorder": 3.0 - 0.01 * position}
        for response in _responses(estimator, grid):
            if response.min() < 0 < response.max():
                ax.contour(xx0, xx1, response.reshape(xx0.shape), **line)
        # A contour has no legend entry of its own.
        ax.plot([], [], label=name, linewidth=1.9, **style)
    ax.set_xlim(xx0.min(), xx0.max())
    ax.set_ylim(xx1.min(), xx1.max())
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, ncols=1 + entries // 17)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _responses(estimator: Any, grid: np.ndarray) -> list[np.ndarray]:
    """Functions that vanish on the boundary: the decision function, or one for each class."""
    classes = estimator.classes_
    if len(classes) == 2 and hasattr(estimator, "decision_function"):
        return [np.asarray(estimator.decision_function(grid), dtype=float).ravel()]
    predicted = estimator.predict(grid)
    # The last class borders only on the others.
    return [np.where(predicted == label, 1.0, -1.0) for label in classes[:-1]]


def _short(text: str, limit: int = 24) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
