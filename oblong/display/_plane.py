"""Points in the plane: the input of displays that show them, and the scatter they draw over."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from oblong.display._style import class_style


def plane_points(X: Any, axis_labels: Sequence[str] | None) -> tuple[np.ndarray, Any]:
    """Points with two features, and the labels of the axes: the columns' names by default."""
    if axis_labels is None and hasattr(X, "columns"):
        axis_labels = tuple(str(c) for c in X.columns)
    points = np.asarray(X, dtype=float)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"expected points with 2 features, got the shape {points.shape}")
    return points, axis_labels


def grid_around(
    X: Any, points: np.ndarray, resolution: int, share: float
) -> tuple[np.ndarray, np.ndarray, Any]:
    """A grid that is larger than the points by a fraction of their range, and its rows.

    Rows have the columns of a pandas or polars frame ``X``, so that no estimator warns.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    room = share * np.where(high > low, high - low, 1.0)
    xx0, xx1 = np.meshgrid(
        *(np.linspace(a, b, resolution) for a, b in zip(low - room, high + room))
    )
    rows: Any = np.column_stack([xx0.ravel(), xx1.ravel()])
    if hasattr(X, "iloc"):
        rows = type(X)(rows, columns=X.columns)
    elif hasattr(X, "schema"):
        rows = type(X)(rows, schema=X.columns)
    return xx0, xx1, rows


def draw_points(ax: Any, X: np.ndarray, y: Any, class_names: Any, axis_labels: Any) -> int:
    """Scatter points by class, label the axes, and return the number of classes."""
    classes = [] if y is None else list(np.unique(y))
    names = [str(c) for c in (classes if class_names is None else class_names)]
    if len(names) != len(classes):
        raise ValueError(f"expected {len(classes)} class names, got {len(names)}")
    dots: dict[str, Any] = {"s": 20, "alpha": 0.75, "linewidths": 0.4, "edgecolors": "white"}
    if y is None:
        ax.scatter(*X.T, color="#8a93a3", **dots)
    for position, (label, name) in enumerate(zip(classes, names)):
        ax.scatter(*X[y == label].T, label=name, **dots, **class_style(position))
    if axis_labels is not None:
        ax.set_xlabel(axis_labels[0])
        ax.set_ylabel(axis_labels[1])
    return len(classes)
