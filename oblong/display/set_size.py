"""How large prediction sets are, and whether they cover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from oblong.display._style import INK, Axes, Display, class_style, require_pyplot


@dataclass(kw_only=True, eq=False, repr=False)
class SetSizeDisplay(Display):
    """Sizes of prediction sets against the confidence asked for.

    Each confidence has the fractions of rows whose set is empty, has one class, two classes and so
    on. With labels, one line for each class shows the coverage: the fraction of its rows whose set
    contains the class. On or above the diagonal, the sets cover as promised.

    It is best made with :meth:`from_estimator`.

    Parameters
    ----------
    confidences : ndarray of shape (n_confidences,)
        Confidences, ascending.
    shares : ndarray of shape (n_confidences, n_classes + 1)
        Fractions of the rows with sets of 0, 1, ... classes.
    coverage : ndarray of shape (n_confidences, n_classes), default=None
        Coverage of each class; NaN for a class without rows.
    labels : sequence, default=None
        Names of the classes.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the picture, after :meth:`plot`.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oblong import CalibratedMarginClassifier
    >>> from oblong.display import SetSizeDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CalibratedMarginClassifier().fit(X[::2], y[::2])
    >>> display = SetSizeDisplay.from_estimator(model, X[1::2], y[1::2], confidences=[0.8, 0.9])
    >>> display.shares.shape
    (2, 4)
    """

    confidences: np.ndarray
    shares: np.ndarray
    coverage: np.ndarray | None = None
    labels: Sequence[object] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        confidences: Any = None,
        ax: Axes | None = None,
    ) -> SetSizeDisplay:
        """Predict sets at several confidences and plot their sizes.

        Parameters
        ----------
        estimator : CalibratedMarginClassifier
            A fitted classifier with ``predict_p``.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that it has not been fitted to.
        y : array-like of shape (n_samples,), default=None
            Their labels, for the coverage.
        confidences : array-like of shape (n_confidences,), default=None
            Confidences between 0 and 1; from 0.5 to 0.99 by default.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        SetSizeDisplay
            The display, plotted.
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "predict_set"):
            raise TypeError(f"{type(estimator).__name__} has no predict_set")
        levels = np.linspace(0.5, 0.99, 50) if confidences is None else np.sort(confidences)
        sets = estimator.predict_set(X, confidence=levels)
        n, k, _ = sets.shape
        sizes = sets.sum(axis=1)
        shares = np.array([np.bincount(column, minlength=k + 1) / n for column in sizes.T])
        coverage = None
        if y is not None:
            y = column_or_1d(y)
            check_consistent_length(X, y)
            coverage = np.full((levels.size, k), np.nan)
            for place, label in enumerate(estimator.classes_):
                if (own := y == label).any():
                    coverage[:, place] = sets[own, place].mean(axis=0)
        labels = estimator.classes_.tolist()
        display = cls(confidences=levels, shares=shares, coverage=coverage, labels=labels)
        return display.plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> SetSizeDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        ax = self._axes(ax, 6.0, 4.0)
        k = np.shape(self.shares)[1] - 1
        names = ["empty", "1 class", *(f"{size} classes" for size in range(2, k + 1))]
        greys = require_pyplot().get_cmap("Greys")(np.linspace(0.05, 0.6, k + 1))
        ax.stackplot(self.confidences, np.transpose(self.shares), labels=names, colors=greys)
        if self.coverage is not None:
            ax.plot(self.confidences, self.confidences, color=INK, linewidth=1.0)
            labels = range(k) if self.labels is None else self.labels
            for place, (label, values) in enumerate(zip(labels, np.transpose(self.coverage))):
                color = class_style(place)["color"]
                ax.plot(self.confidences, values, color=color, label=f"coverage of {label}")
        ax.set_xlabel("confidence")
        ax.set_ylabel("fraction of rows")
        ax.set_xlim(self.confidences[0], self.confidences[-1])
        ax.set_ylim(0.0, 1.0)
        ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        return self._drawn(ax, [])
