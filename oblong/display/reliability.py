"""Whether predicted probabilities are right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from scipy.stats import beta
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from oblong.display._style import INK, Axes, Display, as_mapping, model_style


@dataclass(kw_only=True, eq=False, repr=False)
class ReliabilityDisplay(Display):
    """Observed frequencies against predicted probabilities.

    Rows with similar probabilities are taken together. Right probabilities lie on the diagonal:
    of the rows with a probability of 0.8, four in five belong to the class. The bars are exact
    binomial intervals of 95 % for the frequencies; a model is wrong where most of them miss the
    diagonal.

    It is best made with :meth:`from_estimator`.

    Parameters
    ----------
    predicted : mapping of str to ndarray of shape (n_bins,)
        Mean predicted probability of each bin, by model.
    observed : mapping of str to ndarray of shape (n_bins,)
        Frequency of the class in each bin.
    counts : mapping of str to ndarray of shape (n_bins,)
        Probabilities in each bin.
    what : str, default="a class"
        What the probabilities belong to, for the axes.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the picture, after :meth:`plot`.
    figure_ : matplotlib Figure
        Its figure.

    See Also
    --------
    sklearn.calibration.CalibrationDisplay : The same for two classes, without intervals.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from oblong import CalibratedMarginClassifier
    >>> from oblong.display import ReliabilityDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CalibratedMarginClassifier().fit(X[:300], y[:300])
    >>> display = ReliabilityDisplay.from_estimator(model, X[300:], y[300:], n_bins=4)
    >>> int(display.counts["CalibratedMarginClassifier"].sum())
    269
    """

    predicted: Mapping[str, np.ndarray]
    observed: Mapping[str, np.ndarray]
    counts: Mapping[str, np.ndarray]
    what: str = "a class"

    @classmethod
    def from_estimator(
        cls, estimators: ClassifierMixin | Mapping[str, ClassifierMixin], X: Any, y: Any, *,
        label: object = None, n_bins: int = 10, ax: Axes | None = None,
    ) -> ReliabilityDisplay:  # fmt: skip
        """Compare the probabilities of fitted classifiers with the labels, and plot that.

        Parameters
        ----------
        estimators : classifier, or mapping of str to classifier
            Fitted classifiers with ``predict_proba``.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that the classifiers have not been fitted to.
        y : array-like of shape (n_samples,)
            Their labels.
        label : object, default=None
            The class whose probabilities are shown. By default the second of two classes; of more,
            the probabilities of all classes are taken together.
        n_bins : int, default=10
            Bins, each with about as many probabilities.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ReliabilityDisplay
            The display, plotted.
        """
        if not isinstance(n_bins, Integral) or n_bins < 1:
            raise ValueError(f"n_bins must be a whole number of at least 1, got {n_bins!r}")
        y = column_or_1d(y)
        check_consistent_length(X, y)
        predicted, observed, counts = {}, {}, {}
        what = "a class"
        for name, estimator in as_mapping(estimators).items():
            check_is_fitted(estimator)
            if not hasattr(estimator, "predict_proba"):
                raise TypeError(f"{name!r} ({type(estimator).__name__}) has no predict_proba")
            classes = estimator.classes_.tolist()
            P = estimator.predict_proba(X)
            shown = label if label is not None or len(classes) > 2 else classes[1]
            if shown is None:
                p, hits = P.ravel(), (y[:, None] == estimator.classes_).ravel()
            elif shown in classes:
                p, hits = P[:, classes.index(shown)], y == shown
                what = str(shown)
            else:
                raise ValueError(f"label must be one of the classes {classes}, got {shown!r}")
            parts = np.array_split(np.argsort(p, kind="stable"), min(n_bins, p.size))
            predicted[name] = np.array([p[part].mean() for part in parts])
            observed[name] = np.array([hits[part].mean() for part in parts])
            counts[name] = np.array([part.size for part in parts])
        return cls(predicted=predicted, observed=observed, counts=counts, what=what).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> ReliabilityDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        ax = self._axes(ax, 4.6, 4.4)
        ax.plot([0, 1], [0, 1], color=INK, linewidth=1.0, zorder=0)
        for position, (name, p) in enumerate(self.predicted.items()):
            frequency, count = map(np.asarray, (self.observed[name], self.counts[name]))
            hits = frequency * count
            # Clopper and Pearson's interval; its ends are certain where nothing, or all, was hit.
            low = np.where(hits > 0, beta.ppf(0.025, np.maximum(hits, 1e-9), count - hits + 1), 0.0)
            high = np.where(
                hits < count, beta.ppf(0.975, hits + 1, np.maximum(count - hits, 1e-9)), 1.0
            )
            style = model_style(position)
            ax.plot(p, frequency, label=name, marker="o", markersize=4, **style)
            ax.vlines(p, low, high, color=style["color"], linewidth=1.0, alpha=0.6)
        ax.set_xlabel(f"predicted probability of {self.what}")
        ax.set_ylabel("observed frequency")
        ax.set_xlim(-0.02, 1.02)
        ax.set_ylim(-0.02, 1.02)
        ax.set_aspect("equal")
        ax.legend(frameon=False, loc="upper left")
        return self._drawn(ax)
