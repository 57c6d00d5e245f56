"""How training outputs are distributed about the margin."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from oblong.display._style import INK, Axes, Display, as_mapping, model_style, split_steps


@dataclass(kw_only=True, eq=False, repr=False)
class MarginDisplay(Display):
    r"""Distribution of the signed outputs :math:`y f(x)` of classifiers, one ridge for each.

    An output below 0 is an error, one below 1 is inside the margin. The relative margin machine
    keeps every training output at or below its bound :math:`B`, which is marked where a
    classifier has one.

    It is best made with :meth:`from_estimator`.

    Parameters
    ----------
    margins : mapping of str to ndarray
        Signed outputs of each classifier.
    bounds : mapping of str to float
        Bound of those classifiers that have one.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the picture, after :meth:`plot`.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.svm import SVC
    >>> from oblong.display import MarginDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> svm = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    >>> display = MarginDisplay.from_estimator({"SVM": svm}, X, y)
    >>> bool((display.margins["SVM"] > 0).mean() > 0.98)
    True
    """

    margins: Mapping[str, np.ndarray]
    bounds: Mapping[str, float] | None = None

    @classmethod
    def from_estimator(
        cls, estimators: ClassifierMixin | Mapping[str, ClassifierMixin], X: Any, y: Any, *,
        pair: tuple[object, object] | None = None, bins: int = 40, ax: Axes | None = None,
    ) -> MarginDisplay:  # fmt: skip
        """Compute the signed outputs of fitted classifiers and plot them.

        Parameters
        ----------
        estimators : classifier, or mapping of str to classifier
            Fitted classifiers, or pipelines that end in one, with a ``decision_function``.
        X : array-like of shape (n_samples, n_features)
            Rows; the bound holds on the rows of the fit.
        y : array-like of shape (n_samples,)
            Their labels.
        pair : tuple of two labels, optional
            With more than two classes: the two whose own (one-vs-one) decision function is
            shown, on their rows only. The first two classes by default.
        bins : int, default=40
            Number of bins over the whole range.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        MarginDisplay
            The display, plotted.
        """
        y = column_or_1d(y)
        check_consistent_length(X, y)
        margins, bounds = {}, {}
        for name, estimator in as_mapping(estimators).items():
            check_is_fitted(estimator)
            margins[name], bound = _signed_outputs(estimator, X, y, pair)
            if bound is not None and np.isfinite(bound):
                bounds[name] = bound
        return cls(margins=margins, bounds=bounds).plot(bins=bins, ax=ax)

    def plot(self, *, bins: int = 40, ax: Axes | None = None) -> MarginDisplay:
        """Draw the display.

        Parameters
        ----------
        bins : int, default=40
            Number of bins over the whole range.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        count = len(self.margins)
        ax = self._axes(ax, 7.0, 1.0 + 1.1 * count)
        everything = np.concatenate([*self.margins.values(), [0.0, 1.0]])
        edges = np.linspace(everything.min(), everything.max(), bins + 1)
        above: dict[str, Any] = {"textcoords": "offset points", "va": "top"}
        for position, (name, values) in enumerate(self.margins.items()):
            base = count - 1 - position
            color = model_style(position)["color"]
            counts = np.histogram(values, edges)[0]
            filled = np.flatnonzero(counts)
            shown = slice(filled[0], filled[-1] + 1)
            tops = base + 0.82 * counts[shown] / counts.max()
            # The outer bins end with the outputs, so that none seems to pass the bound.
            steps = np.clip(edges[shown.start : shown.stop + 1], values.min(), values.max())
            ax.stairs(tops, steps, baseline=base, fill=True, color=color, alpha=0.3)
            ax.stairs(tops, steps, baseline=base, color=color, linewidth=1.3)
            if bound := (self.bounds or {}).get(name):
                ax.plot([bound, bound], [base, base + 0.9], color=color, linewidth=1.6)
                where: dict[str, Any] = {"xytext": (4, -2), "color": color, **above}
                ax.annotate(f"B = {bound:.3g}", (bound, base + 0.9), **where)
        ax.axvline(1.0, color=INK, linewidth=1.0, linestyle=(0, (4, 3)), zorder=0)
        ax.axvline(0.0, color=INK, linewidth=1.0, zorder=0)
        above["xycoords"] = ("data", "axes fraction")
        ax.annotate("boundary", (0.0, 1.0), xytext=(-4, 0), ha="right", **above)
        ax.annotate("margin", (1.0, 1.0), xytext=(4, 0), ha="left", **above)
        ax.set_yticks([count - 1 - p + 0.3 for p in range(count)], list(self.margins))
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(-0.05, count + 0.15)
        ax.set_xlabel("signed output  y f(x)")
        return self._drawn(ax, ("top", "right", "left"))


def _signed_outputs(
    estimator: ClassifierMixin, X: Any, y: np.ndarray, pair: tuple[object, object] | None
) -> tuple[np.ndarray, float | None]:
    """Return the outputs of one binary problem, positive where right, and its bound."""
    classes = estimator.classes_.tolist()
    unknown = set(y.tolist()).difference(classes)
    if unknown:
        raise ValueError(f"y has labels that are not among the classes {classes}: {unknown}")
    before, final = split_steps(estimator)
    X = X if before is None else before.transform(X)
    bounds: Any = getattr(final, "B_", None)
    if np.ndim(bounds) > 1:
        # A matrix by that name is not a bound of the outputs.
        bounds = None
    if len(classes) == 2:
        outputs = np.asarray(final.decision_function(X), dtype=float).ravel()
        return np.where(y == classes[1], outputs, -outputs), _pick(bounds, 0)

    pair = tuple(pair or classes[:2])
    if len(set(pair)) != 2 or not set(pair) <= set(classes):
        raise ValueError(f"pair must be two of the classes {classes}, got {pair}")
    first, second = sorted(classes.index(label) for label in pair)
    rows = (y == classes[first]) | (y == classes[second])
    if not rows.any():
        raise ValueError(f"there are no rows of the classes {classes[first]} and {classes[second]}")
    params = final.get_params()
    if "decision_function_shape" not in params or params.get("multi_class") == "ovr":
        # One model per class: the larger output decides between the two.
        scores = np.asarray(final.decision_function(X), dtype=float)[rows]
        outputs = scores[:, first] - scores[:, second]
        return np.where(y[rows] == classes[first], outputs, -outputs), None
    column = first * len(classes) - first * (first + 1) // 2 + second - first - 1
    # The shape is a matter of prediction only: a shallow copy leaves the user's estimator alone.
    final = copy.copy(final).set_params(decision_function_shape="ovo")
    outputs = np.asarray(final.decision_function(X), dtype=float)[rows, column]
    # One-vs-one outputs are positive for the first class of the pair.
    return np.where(y[rows] == classes[first], outputs, -outputs), _pick(bounds, column)


def _pick(bounds: Any, position: int) -> float | None:
    return None if bounds is None else float(np.atleast_1d(bounds)[position])
