"""What progressive validation has found so far, in constant memory."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

__all__ = ["Metrics", "Window"]

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
    """

    rows: int
    length: int
    mistakes: int
    total: int
    seconds: float
    examples: int
    total_examples: int

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
            "rows_per_second": round(self.speed, 1),
        }


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
        self.windows = [Window(*(0 + value for value in row)) for row in state["windows"]]
        self.counts: list[int] = [int(count) for count in state["counts"]]
        # Seconds of rows that no window has yet.
        self.pending = float(state["pending"])

    def state(self) -> dict[str, Any]:
        """Everything as JSON values."""
        windows = [list(astuple(window)) for window in self.windows]
        return {"windows": windows, "counts": self.counts, "pending": self.pending}

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
    )
