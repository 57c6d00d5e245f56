"""Boundaries of several classifiers over one scatter of points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from oblong.display._plane import draw_points, grid_around, plane_points
from oblong.display._style import Axes, Display, as_mapping, model_style


@dataclass(kw_only=True, eq=False, repr=False)
class BoundaryDisplay(Display):
    """Decision boundaries of classifiers in the plane, over the points.

    It is best made with :meth:`from_estimator`.

    Parameters
    ----------
    X : ndarray of shape (n_samples, 2)
        Points.
    y : ndarray of shape (n_samples,)
        Their labels.
    xx0, xx1 : ndarray of shape (resolution, resolution)
        Grid, as made by ``numpy.meshgrid``.
    responses : mapping of str to sequence of ndarray
        For each classifier functions on the grid that vanish on its boundary.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the picture, after :meth:`plot`.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> from oblong.datasets import make_tilted_gaussians
    >>> from oblong.display import BoundaryDisplay
    >>> X, y = make_tilted_gaussians(60, random_state=0)
    >>> svm = SVC(kernel="linear").fit(X, y)
    >>> display = BoundaryDisplay.from_estimator({"SVM": svm}, X, y, grid_resolution=50)
    >>> display.ax_.get_legend_handles_labels()[1]
    ['0', '1', 'SVM']
    """

    X: np.ndarray
    y: np.ndarray
    xx0: np.ndarray
    xx1: np.ndarray
    responses: Mapping[str, Sequence[np.ndarray]]

    @classmethod
    def from_estimator(
        cls, estimators: ClassifierMixin | Mapping[str, ClassifierMixin], X: Any, y: Any, *,
        grid_resolution: int = 200, class_names: Sequence[str] | None = None,
        axis_labels: Sequence[str] | None = None, ax: Axes | None = None,
    ) -> BoundaryDisplay:  # fmt: skip
        """Evaluate fitted classifiers on a grid and plot their boundaries.

        Parameters
        ----------
        estimators : classifier, or mapping of str to classifier
            Classifiers fitted on two features.
        X : array-like of shape (n_samples, 2)
            Points to show.
        y : array-like of shape (n_samples,)
            Their labels.
        grid_resolution : int, default=200
            Grid points per side.
        class_names : sequence of str, optional
            How to print the sorted labels.
        axis_labels : sequence of two str, optional
            Axis labels; the columns' names by default where `X` has them.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        BoundaryDisplay
            The display, plotted.
        """
        points, axis_labels = plane_points(X, axis_labels)
        y = column_or_1d(y)
        check_consistent_length(points, y)
        xx0, xx1, grid = grid_around(X, points, grid_resolution, 0.06)
        responses = {}
        for name, estimator in as_mapping(estimators).items():
            check_is_fitted(estimator)
            responses[name] = [r.reshape(xx0.shape) for r in _responses(estimator, grid)]
        display = cls(X=points, y=y, xx0=xx0, xx1=xx1, responses=responses)
        return display.plot(class_names=class_names, axis_labels=axis_labels, ax=ax)

    def plot(
        self, *, class_names: Sequence[str] | None = None,
        axis_labels: Sequence[str] | None = None, ax: Axes | None = None,
    ) -> BoundaryDisplay:  # fmt: skip
        """Draw the display.

        Parameters
        ----------
        class_names : sequence of str, optional
            How to print the sorted labels.
        axis_labels : sequence of two str, optional
            Axis labels.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        ax = self._axes(ax, 6.4, 4.8)
        entries = draw_points(ax, self.X, self.y, class_names, axis_labels) + len(self.responses)
        for position, (name, responses) in enumerate(self.responses.items()):
            style = model_style(position)
            # The first, dashed, lies on top: it stays visible where others coincide with it.
            line: dict[str, Any] = {f"{name}s": [value] for name, value in style.items()}
            line |= {"levels": [0.0], "linewidths": 1.9, "zorder": 3.0 - 0.01 * position}
            for response in responses:
                if response.min() < 0 < response.max():
                    ax.contour(self.xx0, self.xx1, response, **line)
            # A contour has no legend entry of its own.
            ax.plot([], [], label=name, linewidth=1.9, **style)
        ax.set_xlim(self.xx0.min(), self.xx0.max())
        ax.set_ylim(self.xx1.min(), self.xx1.max())
        ax.legend(
            loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, ncols=1 + entries // 17
        )
        return self._drawn(ax)


def _responses(estimator: ClassifierMixin, grid: Any) -> list[np.ndarray]:
    """Functions that vanish on the boundary: the decision function, or one for each class."""
    classes = estimator.classes_
    if len(classes) == 2 and hasattr(estimator, "decision_function"):
        return [np.asarray(estimator.decision_function(grid), dtype=float).ravel()]
    predicted = estimator.predict(grid)
    # The last class borders only on the others.
    return [np.where(predicted == label, 1.0, -1.0) for label in classes[:-1]]
