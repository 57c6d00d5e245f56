"""Ellipsoids in the plane, over the points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from oblong.display._plane import draw_points, grid_around, plane_points
from oblong.display._style import (
    INK,
    Axes,
    Display,
    as_mapping,
    model_style,
    require_pyplot,
    split_steps,
)
from oblong.geometry import MinimumVolumeEllipsoid

# Corners of an ellipse as it is drawn.
_CORNERS = 256


@dataclass(kw_only=True, eq=False, repr=False)
class EllipsoidDisplay(Display):
    """Ellipsoids in the plane, over the points.

    A linear ellipsoid is drawn as the ellipse it is, that of a kernel form as the contour of
    squared distance one. It is best made with :meth:`from_estimator`.

    Parameters
    ----------
    X : ndarray of shape (n_samples, 2)
        Points.
    curves : mapping of str to sequence of ndarray of shape (n_corners, 2)
        Boundary of each ellipsoid, as closed or open lines; a flat ellipsoid is a segment.
    centers : mapping of str to ndarray of shape (2,)
        Centres of those ellipsoids that have one in the plane.
    y : ndarray of shape (n_samples,), default=None
        Labels of the points.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the picture, after :meth:`plot`.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oblong import MinimumVolumeEllipsoid
    >>> from oblong.display import EllipsoidDisplay
    >>> X = load_iris().data[:, :2]
    >>> models = {
    ...     f"coverage {share:g}": MinimumVolumeEllipsoid(coverage=share).fit(X)
    ...     for share in (1.0, 0.9)
    ... }
    >>> display = EllipsoidDisplay.from_estimator(models, X)
    >>> display.ax_.get_legend_handles_labels()[1]
    ['coverage 1', 'coverage 0.9']
    """

    X: np.ndarray
    curves: Mapping[str, Sequence[np.ndarray]]
    centers: Mapping[str, np.ndarray] | None = None
    y: np.ndarray | None = None

    @classmethod
    def from_estimator(
        cls, estimators: BaseEstimator | Mapping[str, BaseEstimator], X: Any, y: Any = None, *,
        grid_resolution: int = 200, class_names: Sequence[str] | None = None,
        axis_labels: Sequence[str] | None = None, ax: Axes | None = None,
    ) -> EllipsoidDisplay:  # fmt: skip
        """Find the boundaries of fitted ellipsoids and plot them.

        Parameters
        ----------
        estimators : estimator, or mapping of str to estimator
            Fitted on two features: a :class:`~oblong.MinimumVolumeEllipsoid`, a classifier that
            has one as its ``ellipsoid_``, or a pipeline that ends in one of them.
        X : array-like of shape (n_samples, 2)
            Points to show.
        y : array-like of shape (n_samples,), default=None
            Their labels.
        grid_resolution : int, default=200
            Grid points per side, from which the contour of a kernel form is found.
        class_names : sequence of str, optional
            How to print the sorted labels.
        axis_labels : sequence of two str, optional
            Axis labels; the columns' names by default where `X` has them.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        EllipsoidDisplay
            The display, plotted.
        """
        points, axis_labels = plane_points(X, axis_labels)
        y = None if y is None else column_or_1d(y)
        check_consistent_length(points, y)
        curves, centers = {}, {}
        for name, estimator in as_mapping(estimators).items():
            check_is_fitted(estimator)
            steps, ellipsoid = _ellipsoid_of(estimator)
            if steps is None and ellipsoid.kernel is None:
                curves[name], centers[name] = [_ellipse(ellipsoid)], ellipsoid.center_
            else:
                curves[name] = _contour(steps, ellipsoid, X, points, grid_resolution)
        display = cls(X=points, curves=curves, centers=centers, y=y)
        return display.plot(class_names=class_names, axis_labels=axis_labels, ax=ax)

    def plot(
        self, *, class_names: Sequence[str] | None = None,
        axis_labels: Sequence[str] | None = None, ax: Axes | None = None,
    ) -> EllipsoidDisplay:  # fmt: skip
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
        n_classes = draw_points(ax, self.X, self.y, class_names, axis_labels)
        for position, (name, curves) in enumerate(self.curves.items()):
            # A single ellipsoid needs no dashes to be told from others.
            style = model_style(position) if len(self.curves) > 1 else {"color": INK}
            for curve in curves:
                ax.plot(*curve.T, linewidth=1.9, zorder=3.0 - 0.01 * position, **style)
            if (center := (self.centers or {}).get(name)) is not None:
                ax.plot(*center, marker="+", markersize=8, color=style["color"])
            ax.plot([], [], label=name, linewidth=1.9, **style)
        if n_classes + len(self.curves) > 1:
            ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
        return self._drawn(ax)


def _ellipsoid_of(estimator: Any) -> tuple[Any, MinimumVolumeEllipsoid]:
    """Return the steps of a pipeline before its ellipsoid, and the ellipsoid."""
    before, final = split_steps(estimator)
    ellipsoid = getattr(final, "ellipsoid_", final)
    if ellipsoid is None:
        raise ValueError(f'this {type(final).__name__} has no ellipsoid: it has shape="none"')
    if not isinstance(ellipsoid, MinimumVolumeEllipsoid):
        raise TypeError(
            f"expected a MinimumVolumeEllipsoid or a classifier with an ellipsoid_, got "
            f"{type(final).__name__}"
        )
    if ellipsoid.kernel == "precomputed":
        raise ValueError("an ellipsoid of a precomputed kernel has no boundary in the plane")
    if before is None and ellipsoid.n_features_in_ != 2:
        raise ValueError(
            f"expected an ellipsoid of 2 features, got one of {ellipsoid.n_features_in_}"
        )
    return before, ellipsoid


def _ellipse(ellipsoid: MinimumVolumeEllipsoid) -> np.ndarray:
    """Corners of an ellipse, or the ends of a segment."""
    if ellipsoid.rank_ == 1:
        return ellipsoid.inverse_transform([[-1.0], [1.0]])
    angle = np.linspace(0.0, 2.0 * np.pi, _CORNERS + 1)
    return ellipsoid.inverse_transform(np.column_stack([np.cos(angle), np.sin(angle)]))


def _contour(
    steps: Any, ellipsoid: MinimumVolumeEllipsoid, X: Any, points: np.ndarray, resolution: int
) -> list[np.ndarray]:
    """Lines on which the squared distance is one, on a grid somewhat larger than the points."""
    require_pyplot()
    # A dependency of matplotlib, which finds its own contours with it.
    from contourpy import contour_generator

    xx0, xx1, grid = grid_around(X, points, resolution, 0.35)
    squares = ellipsoid.mahalanobis(grid if steps is None else steps.transform(grid))
    lines = contour_generator(xx0[0], xx1[:, 0], squares.reshape(xx0.shape)).lines(1.0)
    # Generators of the default kind return arrays of points only.
    return cast(list[np.ndarray], lines)
