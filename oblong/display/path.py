"""How the error and the relative margin change from the SVM to the tightest bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, column_or_1d

from oblong.batch import RelativeMarginClassifierCV, RelativeMarginPath
from oblong.display._style import Axes, Display, model_style, split_steps


@dataclass(kw_only=True, eq=False, repr=False)
class PathDisplay(Display):
    """Error and relative margin along a path of spreads.

    The spread falls from left (1, the support vector machine) to right (0, every output held
    between -1 and 1). The relative margin, drawn on an axis of its own, grows on the way; the
    error shows how much of that is good.

    It is best made with :meth:`from_path` or :meth:`from_estimator`.

    Parameters
    ----------
    spreads : ndarray of shape (n_spreads,)
        The spreads.
    errors : ndarray of shape (n_spreads,)
        Fraction of misclassified rows, or another loss.
    relative_margins : ndarray of shape (n_spreads,)
        Margins over the spread of the training outputs.
    deviations : ndarray of shape (n_spreads,), default=None
        Standard deviations of the errors, drawn as a band.
    chosen : float, default=None
        Spread to mark.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the error, after :meth:`plot`.
    margin_ax_ : matplotlib Axes
        Axes with the relative margin.
    figure_ : matplotlib Figure
        Their figure.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.preprocessing import StandardScaler
    >>> from oblong import relative_margin_path
    >>> from oblong.display import PathDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)
    >>> X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    >>> display = PathDisplay.from_path(relative_margin_path(X, y), X_test, y_test)
    >>> bool(display.relative_margins[0] < display.relative_margins[-1])
    True
    """

    spreads: np.ndarray
    errors: np.ndarray
    relative_margins: np.ndarray
    deviations: np.ndarray | None = None
    chosen: float | None = None

    @classmethod
    def from_path(
        cls, path: RelativeMarginPath, X: Any, y: Any, *, ax: Axes | None = None
    ) -> PathDisplay:
        """Plot the models of a path with their errors on some rows.

        Parameters
        ----------
        path : RelativeMarginPath
            The result of :func:`oblong.relative_margin_path`.
        X : array-like of shape (n_samples, n_features)
            Rows to predict, best those that the path was not fitted to.
        y : array-like of shape (n_samples,)
            Their labels.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        PathDisplay
            The display, plotted.
        """
        y = column_or_1d(y)
        errors = (path.predict(X) != y).mean(axis=1)
        order = np.argsort(-path.spreads, kind="stable")
        return cls(
            spreads=path.spreads[order],
            errors=errors[order],
            relative_margins=path.relative_margin[order],
        ).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls, estimator: RelativeMarginClassifierCV, *, ax: Axes | None = None
    ) -> PathDisplay:
        """Plot what cross-validation found along the spreads, at the best C and gamma.

        Parameters
        ----------
        estimator : RelativeMarginClassifierCV
            A fitted classifier, or a pipeline that ends in one.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        PathDisplay
            The display, plotted; the band is one standard deviation over the folds.
        """
        final = split_steps(estimator)[1]
        if not isinstance(final, RelativeMarginClassifierCV):
            raise TypeError(
                f"expected a RelativeMarginClassifierCV, got {type(final).__name__}: it has no "
                f"results along the spreads; use relative_margin_path and from_path"
            )
        check_is_fitted(final)
        results, best = final.cv_results_, final.best_params_
        params = results["params"]
        rows = np.flatnonzero([all(p[k] == best[k] for k in ("C", "gamma")) for p in params])
        spreads = np.array([params[k]["spread"] for k in rows])
        rows = rows[np.argsort(-spreads, kind="stable")]
        return cls(
            spreads=np.sort(spreads)[::-1],
            errors=1.0 - results["mean_test_score"][rows],
            relative_margins=results["mean_relative_margin"][rows],
            deviations=results["std_test_score"][rows],
            chosen=best["spread"],
        ).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> PathDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        ax = self._axes(ax, 6.4, 3.6)
        # Spreads crowd towards zero: give each the same room.
        places = np.arange(len(self.spreads))
        error, margin = model_style(1), model_style(2)
        other = ax.twinx()
        ax.plot(places, self.errors, marker="o", markersize=4, **error)
        if self.deviations is not None:
            low = np.maximum(self.errors - self.deviations, 0.0)
            high = self.errors + self.deviations
            ax.fill_between(places, low, high, color=error["color"], alpha=0.15, linewidth=0)
        other.plot(places, self.relative_margins, marker="s", markersize=4, **margin)
        if self.chosen is not None:
            where = int(np.flatnonzero(self.spreads == self.chosen)[0])
            ring: dict[str, Any] = {"fillstyle": "none", "linestyle": "none", "markersize": 11}
            ax.plot([where], [self.errors[where]], marker="o", color=error["color"], **ring)
        ax.set_xticks(places, [f"{spread:g}" for spread in self.spreads])
        ax.set_xlabel("spread: from the SVM (1) to the tightest bound (0)")
        ax.set_ylabel("error", color=error["color"])
        other.set_ylabel("relative margin", color=margin["color"])
        other.set_ylim(0.0, 1.05 * max(1.0, float(np.max(self.relative_margins))))
        other.spines["top"].set_visible(False)
        self.margin_ax_ = other
        return self._drawn(ax, ["top"])
