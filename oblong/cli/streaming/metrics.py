"""What progressive validation has found so far, in constant memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

import numpy as np

from oblong.online.predicted import Predicted
from oblong.solvers.online.drift import Adwin

__all__ = ["Metrics", "Scores", "Window"]

# Points of the curve; beyond, neighbours are put together.
_MOST_POINTS = 512


@dataclass(frozen=True)
class Window:
    """A window of consecutive rows: cumulative and own counts, and time.

    Attributes
    ----------
    rows, length : int
        Rows up to the end of the window, and in it.
    total, mistakes : int
        Mistakes up to the end of the window, and in it.
    seconds : float
        Time of the window.
    total_examples, examples : int
        Examples up to the end of the window, and in it: rows, each as often as its weight says.
    scores : dict
        Other metrics over the window.
    """

    rows: int
    length: int
    mistakes: int
    total: int
    seconds: float
    examples: int
    total_examples: int
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def window_error(self) -> float:
        """Share of the examples of the window that were predicted wrongly."""
        return self.mistakes / max(1, self.examples)

    @property
    def error(self) -> float:
        """Share of all examples so far that were predicted wrongly."""
        return self.total / max(1, self.total_examples)

    @property
    def speed(self) -> float:
        """Rows per second."""
        return self.length / max(self.seconds, 1e-9)

    def as_json(self) -> dict[str, Any]:
        """The window as JSON values."""
        return {
            "rows": self.rows,
            "window_rows": self.length,
            "window_error": self.window_error,
            "error": self.error,
            "mistakes": self.total,
            **{f"window_{name.replace('-', '_')}": plain(x) for name, x in self.scores.items()},
            "rows_per_second": round(self.speed, 1),
        }


def plain(value: float) -> float | None:
    """A number, or None where there is none, which JSON cannot say otherwise."""
    return value if math.isfinite(value) else None


class Metrics:
    """Errors by window, and examples of each class.

    Examples
    --------
    >>> from oblong.cli.streaming.metrics import Metrics
    >>> metrics = Metrics()
    >>> metrics.add_window(100, 30, 0.5).window_error
    0.3
    >>> window = metrics.add_window(200, 40, 0.5)
    >>> window.window_error, window.error
    (0.1, 0.2)
    """

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        state = state or {"windows": [], "counts": [], "pending": 0.0}
        # Numbers, or an error here and not later: they come from a file.
        self.windows = [
            Window(*(0 + value for value in row[:7]), *map(_numbers, row[7:8]))
            for row in state["windows"]
        ]
        self.counts: list[int] = [int(count) for count in state["counts"]]
        # Seconds of rows that no window has yet.
        self.pending = float(state["pending"])
        self.scores: Scores | None = None
        self._scores = state.get("scores")
        self.drifts: list[int] = [int(row) for row in state.get("drifts", ())]

    def ask(self, names: Sequence[str], drift: bool) -> None:
        """Ask for other metrics, or go on with those of a checkpoint."""
        if names or drift:
            self.scores = Scores(names, drift, self._scores)

    def state(self) -> dict[str, Any]:
        """Everything as JSON values."""
        windows = [list(astuple(window)) for window in self.windows]
        for row in windows:
            row[-1] = {name: plain(value) for name, value in row[-1].items()}
        found = {"windows": windows, "counts": self.counts, "pending": self.pending}
        if self.scores is not None:
            found.update(scores=self.scores.state(), drifts=self.drifts)
        return found

    def count(self, codes: np.ndarray, weights: np.ndarray | None = None) -> None:
        """Count the classes of rows; one of weight k counts as k."""
        times = None if weights is None else np.ceil(weights)
        found = np.bincount(codes, times, minlength=len(self.counts)).astype(np.int64)
        found[: len(self.counts)] += np.array(self.counts, dtype=np.int64)
        self.counts = found.tolist()

    @property
    def examples(self) -> int:
        """Examples of all classes."""
        return sum(self.counts)

    def add_window(
        self, rows: int, mistakes: int, seconds: float, examples: int | None = None
    ) -> Window:
        """End a window after so many rows and examples with so many mistakes in all."""
        last = self.windows[-1] if self.windows else Window(0, 0, 0, 0, 0.0, 0, 0)
        examples = rows if examples is None else examples
        window = Window(
            rows,
            rows - last.rows,
            mistakes - last.total,
            mistakes,
            seconds,
            examples - last.total_examples,
            examples,
            {} if self.scores is None else self.scores.end_window(),
        )
        self.windows.append(window)
        if len(self.windows) > _MOST_POINTS:
            # An odd one out at the end stays by itself.
            pairs = [self.windows[i : i + 2] for i in range(0, len(self.windows), 2)]
            self.windows = [_together(pair) for pair in pairs]
        return window

    @property
    def seconds(self) -> float:
        """Time of all windows."""
        return sum(window.seconds for window in self.windows) + self.pending

    @property
    def majority_error(self) -> float:
        """Error of always predicting the class that turns out to be the most frequent."""
        return 1.0 - max(self.counts) / self.examples

    @property
    def totals(self) -> dict[str, float | None]:
        """The other metrics, each the mean over the windows, by their rows."""
        names = dict.fromkeys(name for window in self.windows for name in window.scores)
        return {name: plain(_mean(self.windows, name)) for name in names}


def _numbers(scores: Any) -> dict[str, float]:
    return {str(k): math.nan if value is None else float(value) for k, value in scores.items()}


def _mean(windows: Sequence[Window], name: str) -> float:
    found = [(w.scores.get(name, math.nan), w.length) for w in windows]
    known = [(value, length) for value, length in found if math.isfinite(value)]
    if not known:
        return math.nan
    return sum(value * n for value, n in known) / sum(n for _, n in known)


def _together(windows: list[Window]) -> Window:
    last = windows[-1]
    return Window(
        last.rows,
        sum(w.length for w in windows),
        sum(w.mistakes for w in windows),
        last.total,
        sum(w.seconds for w in windows),
        sum(w.examples for w in windows),
        last.total_examples,
        {name: _mean(windows, name) for name in last.scores},
    )


class Scores:
    """Metrics over the rows of a window, and drift of the errors.

    Parameters
    ----------
    names : sequence of str
        Names of metrics.
    drift : bool
        Whether to look for drift.
    state : dict, default=None
        What :meth:`state` returned.
    """

    def __init__(
        self, names: Sequence[str], drift: bool = False, state: dict[str, Any] | None = None
    ) -> None:
        self.names, self.rows = list(names), 0
        kept = state or {"rows": [], "second": -1, "adwin": None}
        self._rows = [np.array(part, dtype=np.float64).reshape(-1, 5) for part in [kept["rows"]]]
        self._second = int(kept["second"])
        self._adwin = Adwin(state=kept["adwin"]) if drift else None

    def state(self) -> dict[str, Any]:
        """Everything as JSON values; rows of the window that has not ended included."""
        rows = np.vstack(self._rows)
        adwin = None if self._adwin is None else self._adwin.state()
        # A guess or score that there is none of is no JSON number.
        return {"rows": np.nan_to_num(rows, nan=-2e300).tolist(), "second": self._second} | {
            "adwin": adwin
        }

    def add(self, found: Predicted) -> np.ndarray:
        """Take in predictions; returns the rows of the batch at which there was drift."""
        n = len(found.codes)
        weights = np.ones(n) if found.weights is None else found.weights
        self._second = found.second
        if self.names:
            parts = (found.codes, found.guesses, found.scores, found.chances, weights)
            self._rows.append(np.column_stack(parts).astype(np.float64))
        if self._adwin is None:
            return np.empty(0, dtype=int)
        # A row without weight is not predicted.
        counted = np.flatnonzero(weights > 0.0)
        return counted[self._adwin.feed(found.wrong[counted])]

    def end_window(self) -> dict[str, float]:
        """The metrics over the rows since the last window."""
        rows = np.vstack(self._rows)
        self._rows = [rows[:0]]
        rows = rows[(rows[:, 1] >= 0) & (rows[:, 4] > 0.0)]
        rows[rows == -2e300] = np.nan
        return {name: _SCORE[name](self._second, *rows.T) for name in self.names}


def _recalls(codes: np.ndarray, guesses: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weights of each class: that are right, there are, and are predicted."""
    k = int(max(codes.max(), guesses.max())) + 1
    truth, found = codes.astype(int), guesses.astype(int)
    right = truth == found
    return np.array(
        [
            np.bincount(truth[right], weights[right], k),
            np.bincount(truth, weights, k),
            np.bincount(found, weights, k),
        ]
    )


def _balanced_error(second: int, codes: Any, guesses: Any, _: Any, __: Any, weights: Any) -> float:
    if not codes.size:
        return math.nan
    right, there, _ = _recalls(codes, guesses, weights)
    known = there > 0.0
    return float(1.0 - (right[known] / there[known]).mean())


def _f1(second: int, codes: Any, guesses: Any, _: Any, __: Any, weights: Any) -> float:
    if not codes.size:
        return math.nan
    right, there, found = _recalls(codes, guesses, weights)
    if second >= 0:
        if second >= len(right):
            return 0.0
        right, there, found = right[[second]], there[[second]], found[[second]]
    known = there + found > 0.0
    return float((2.0 * right[known] / (there + found)[known]).mean()) if known.any() else 0.0


def _auc(second: int, codes: Any, guesses: Any, scores: Any, _: Any, weights: Any) -> float:
    """Share of pairs of both classes in the right order, ties half, by weight."""
    fine = np.isfinite(scores)
    positive, scores, weights = (codes == second)[fine], scores[fine], weights[fine]
    if second < 0 or not positive.any() or positive.all():
        return math.nan
    _, places = np.unique(scores, return_inverse=True)
    above = np.bincount(places, weights * positive)
    below = np.bincount(places, weights * ~positive)
    won = above @ (np.cumsum(below) - 0.5 * below)
    return float(won / (above.sum() * below.sum()))


def _log_loss(second: int, codes: Any, guesses: Any, _: Any, chances: Any, weights: Any) -> float:
    fine = np.isfinite(chances)
    if not fine.any():
        return math.nan
    loss = -np.log(np.maximum(chances[fine], np.finfo(float).eps))
    return float(np.average(loss, weights=weights[fine]))


_SCORE = {"auc": _auc, "f1": _f1, "balanced-error": _balanced_error, "log-loss": _log_loss}
