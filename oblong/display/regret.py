"""How the mistakes of online learners add up over a stream."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import _num_samples, check_consistent_length

from oblong.display._style import Axes, Display, as_mapping, model_style


class RegretDisplay(Display):
    """Cumulative mistakes of online learners.

    Every example is predicted before it is learned from, so each one is a test. The slope of the
    curve is the current error rate; a learner whose curve is flat makes no more mistakes.

    It is best made with :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    rounds : ndarray of shape (n_points,)
        Numbers of examples after which mistakes were counted, ascending.
    mistakes : mapping of str to ndarray of shape (n_points,) or (n_repeats, n_points)
        Mistakes of each learner up to these rounds, in one order of the examples or in several.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the picture, after :meth:`plot`.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> import numpy as np
    >>> from oblong import AROWClassifier, PassiveAggressiveClassifier
    >>> from oblong.display import RegretDisplay
    >>> X = np.random.default_rng(0).normal(size=(1000, 20)) * np.linspace(1, 5, 20)
    >>> learners = {"PA": PassiveAggressiveClassifier(), "AROW": AROWClassifier()}
    >>> display = RegretDisplay.from_estimator(learners, X, X[:, 0] > 0)
    >>> bool(display.mistakes["AROW"][0, -1] < display.mistakes["PA"][0, -1])
    True
    """

    def __init__(self, *, rounds: np.ndarray, mistakes: Mapping[str, np.ndarray]) -> None:
        self.rounds = np.asarray(rounds)
        self.mistakes = {name: np.atleast_2d(counts) for name, counts in mistakes.items()}
        for name, counts in self.mistakes.items():
            if counts.ndim != 2 or counts.shape[1] != len(self.rounds):
                raise ValueError(
                    f"the mistakes of {name!r} have shape {counts.shape}, but there are "
                    f"{len(self.rounds)} rounds"
                )

    @classmethod
    def from_estimator(
        cls, estimators: ClassifierMixin | Mapping[str, ClassifierMixin], X: Any, y: Any, *,
        n_repeats: int = 1, n_points: int = 200, batch_size: int = 1, rate: bool = False,
        random_state: int | np.random.RandomState | None = None, ax: Axes | None = None,
    ) -> RegretDisplay:  # fmt: skip
        """Let learners go through a stream and plot their mistakes.

        Parameters
        ----------
        estimators : classifier, or mapping of str to classifier
            Learners with ``partial_fit``. They are cloned and start from nothing.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows of the stream.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Their labels.
        n_repeats : int, default=1
            With 1, the stream has the order of the rows; otherwise it is repeated this many times,
            each time for untrained learners and in a random order that is the same for all.
        n_points : int, default=200
            Points of a curve at most.
        batch_size : int, default=1
            Rows predicted at once by learners that do not count their mistakes themselves
            (``n_mistakes_``), before they learn from all of them. A larger number saves time and
            puts these learners at a disadvantage.
        rate : bool, default=False
            Whether to draw the fraction of mistakes instead of their number.
        random_state : int, RandomState instance or None, default=None
            Source of the orders.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        RegretDisplay
            The display, plotted.
        """
        numbers = {"n_repeats": n_repeats, "n_points": n_points, "batch_size": batch_size}
        for name, value in numbers.items():
            if not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
        learners = as_mapping(estimators)
        for name, learner in learners.items():
            if not hasattr(learner, "partial_fit"):
                raise TypeError(f"{name!r} ({type(learner).__name__}) has no partial_fit")
        check_consistent_length(X, y)
        X = X.tocsr() if sp.issparse(X) else X
        y = y.tocsr() if sp.issparse(y) else np.asarray(y)
        n = _num_samples(X)
        generator = check_random_state(random_state)
        rounds = np.unique(np.linspace(0, n, min(n, n_points) + 1).round().astype(int))[1:]
        counts = {name: np.empty((n_repeats, len(rounds)), dtype=int) for name in learners}
        for repeat in range(n_repeats):
            order = np.arange(n) if n_repeats == 1 else generator.permutation(n)
            rows, labels = _safe_indexing(X, order), _safe_indexing(y, order)
            for name, learner in learners.items():
                counts[name][repeat] = _progressive(
                    clone(learner), rows, labels, rounds, batch_size
                )
        return cls(rounds=rounds, mistakes=counts).plot(rate=rate, ax=ax)

    @classmethod
    def from_predictions(
        cls, y_true: Any, predictions: Any, *, rate: bool = False, ax: Axes | None = None
    ) -> RegretDisplay:
        """Plot the mistakes among predictions that were made before the labels were known.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,) or (n_samples, n_labels)
            Labels of the stream, in its order.
        predictions : array-like, or mapping of str to array-like
            What each learner predicted, in the shape of ``y_true``. A set of labels is right if
            all of it is.
        rate : bool, default=False
            Whether to draw the fraction of mistakes instead of their number.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        RegretDisplay
            The display, plotted.
        """
        y_true = np.asarray(y_true)
        if y_true.ndim not in (1, 2) or not len(y_true):
            raise ValueError(f"expected labels of at least one row, got shape {y_true.shape}")
        if not isinstance(predictions, Mapping):
            predictions = {"predictions": predictions}
        if not predictions:
            raise ValueError("expected the predictions of at least one learner")
        mistakes = {}
        for name, labels in predictions.items():
            labels = np.asarray(labels)
            if labels.shape != y_true.shape:
                raise ValueError(
                    f"the predictions of {name!r} have shape {labels.shape}, the labels have "
                    f"{y_true.shape}"
                )
            mistakes[name] = np.cumsum(_wrong(y_true, labels))
        return cls(rounds=np.arange(1, len(y_true) + 1), mistakes=mistakes).plot(rate=rate, ax=ax)

    def plot(self, *, rate: bool = False, ax: Axes | None = None) -> RegretDisplay:
        """Draw the display.

        Parameters
        ----------
        rate : bool, default=False
            Whether to draw the fraction of mistakes instead of their number.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        ax = self._axes(ax, 6.4, 4.0)
        for position, (name, counts) in enumerate(self.mistakes.items()):
            values = counts / self.rounds if rate else counts
            mean, deviation = values.mean(axis=0), values.std(axis=0)
            style = model_style(position)
            final = f"{mean[-1]:.1%}" if rate else f"{mean[-1]:.0f}"
            ax.plot(self.rounds, mean, label=f"{name}: {final}", linewidth=1.6, **style)
            if len(values) > 1:
                low = np.maximum(mean - deviation, 0.0)
                ax.fill_between(
                    self.rounds, low, mean + deviation, color=style["color"], alpha=0.13, lw=0
                )
        ax.set_xlabel("examples")
        ax.set_ylabel("fraction of mistakes" if rate else "mistakes")
        # Axes shared with other curves still grow with them.
        ax.margins(x=0.0)
        ax.set_xlim(left=0, auto=None)
        ax.set_ylim(bottom=0, auto=None)
        ax.legend(frameon=False)
        return self._drawn(ax)


def _wrong(y_true: np.ndarray, y_pred: np.ndarray) -> np.ndarray:
    wrong = y_true != y_pred
    return wrong.any(axis=1) if wrong.ndim == 2 else wrong


def _progressive(learner: Any, X: Any, y: Any, rounds: np.ndarray, batch_size: int) -> np.ndarray:
    """Count the mistakes of a fresh learner up to each of the rounds."""
    options = {} if y.ndim == 2 else {"classes": unique_labels(y)}
    if hasattr(type(learner), "n_mistakes_"):
        counts = []
        for start, stop in zip([0, *rounds[:-1]], rounds):
            rows = slice(int(start), int(stop))
            learner.partial_fit(_safe_indexing(X, rows), _safe_indexing(y, rows), **options)
            options = {}
            counts.append(learner.n_mistakes_)
        return np.array(counts)
    wrong = np.ones(int(rounds[-1]), dtype=bool)
    for start in range(0, len(wrong), batch_size):
        rows = slice(start, min(start + batch_size, len(wrong)))
        some, labels = _safe_indexing(X, rows), _safe_indexing(y, rows)
        # What has seen nothing is wrong about everything.
        if start:
            truth = labels.toarray() if sp.issparse(labels) else labels
            wrong[rows] = _wrong(truth, np.asarray(learner.predict(some)))
        learner.partial_fit(some, labels, **options)
        options = {}
    return np.cumsum(wrong)[rounds - 1]
