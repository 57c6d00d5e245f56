"""What progressive validation has found so far, in constant memory."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oblong.online.predicted import Predicted
from oblong.online.progressive import Window as CountedWindow
from oblong.solvers.online.drift import Adwin

# Numbers of a window in the order of checkpoints, and those that neighbours add up.
_NUMBERS = ("rows", "length", "mistakes", "total_mistakes", "seconds", "examples", "total_examples")
_ADDED = ("length", "mistakes", "seconds", "examples")
# Points of the curve; beyond, neighbours are put together.
_MOST_POINTS = 512


@dataclass(frozen=True)
class Window(CountedWindow):
    """A window of consecutive rows, and the time it took."""

    seconds: float = 0.0

    @property
    def speed(self) -> float:
        """Rows per second."""
        return self.length / max(self.seconds, 1e-9)

    def as_json(self) -> dict[str, Any]:
        """The window as JSON values."""
        return {
            "rows": self.rows,
            "window_rows": self.length,
            "window_error": self.error,
            "error": self.total_error,
            "mistakes": self.total_mistakes,
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
    >>> metrics.add_window(100, 30, 0.5).error
    0.3
    >>> window = metrics.add_window(200, 40, 0.5)
    >>> window.error, window.total_error
    (0.1, 0.2)
    """

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        state = state or {"windows": [], "counts": [], "pending": 0.0}
        # Numbers, or an error here and not later: they come from a file.
        self.windows = [
            Window(
                **dict(zip(_NUMBERS, (0 + value for value in row[:7]), strict=True)),
                scores=_numbers(row[7] if len(row) > 7 else {}),
            )
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
        scores = [{name: plain(x) for name, x in w.scores.items()} for w in self.windows]
        numbers = [[getattr(w, name) for name in _NUMBERS] for w in self.windows]
        windows = [[*row, own] for row, own in zip(numbers, scores)]
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
        last = self.windows[-1] if self.windows else Window(0, 0, 0, 0, 0, 0)
        examples = rows if examples is None else examples
        counts = (examples, examples - last.total_examples, mistakes)
        scores = {} if self.scores is None else self.scores.end_window()
        own = mistakes - last.total_mistakes
        window = Window(rows, rows - last.rows, *counts, own, scores, seconds)
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
    sums = {n: sum(getattr(w, n) for w in windows) for n in _ADDED}
    return replace(last, scores={name: _mean(windows, name) for name in last.scores}, **sums)


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
        kept = np.nan_to_num(rows, nan=-2e300).tolist()
        return {"rows": kept, "second": self._second, "adwin": adwin}

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
        with warnings.catch_warnings(action="ignore"):
            # A window may lack a class.
            return {name: _score(name, self._second, *rows.T) for name in self.names}


def _score(
    name: str, second: int, codes: Any, guesses: Any, scores: Any, chances: Any, weights: Any
) -> float:
    """A metric over rows; nan where there is none. `second` is the second of two classes, or -1."""
    fine = np.isfinite({"auc": scores, "log-loss": chances}.get(name, codes))
    if not fine.any():
        return math.nan
    if name == "log-loss":
        loss = -np.log(np.maximum(chances[fine], np.finfo(float).eps))
        return float(np.average(loss, weights=weights[fine]))
    # Here, since few streams ask for more than the error.
    from sklearn.metrics import balanced_accuracy_score, f1_score, roc_auc_score

    if name == "balanced-error":
        return 1.0 - float(balanced_accuracy_score(codes, guesses, sample_weight=weights))
    if name == "f1":
        how: dict[str, Any] = {"sample_weight": weights, "zero_division": 0.0}
        if second < 0:
            return float(f1_score(codes, guesses, average="macro", **how))
        return float(f1_score(codes == second, guesses == second, **how))
    positive = (codes == second)[fine]
    if second < 0 or not positive.any() or positive.all():
        return math.nan
    return float(roc_auc_score(positive, scores[fine], sample_weight=weights[fine]))
