"""What progressive validation has found so far, in constant memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Metrics", "Window"]

# Points of the curve; beyond, neighbours are put together.
_MOST_POINTS = 512


@dataclass(frozen=True)
class Window:
    """Some rows in a row: how many there were before and are now, and what they cost."""

    rows: int
    length: int
    mistakes: int
    total: int
    seconds: float

    @property
    def window_error(self) -> float:
        """Share of the rows of the window that were predicted wrongly."""
        return self.mistakes / self.length

    @property
    def error(self) -> float:
        """Share of all rows so far that were predicted wrongly."""
        return self.total / self.rows

    @property
    def speed(self) -> float:
        """Rows a second."""
        return self.length / max(self.seconds, 1e-9)

    def as_json(self) -> dict[str, Any]:
        """The window for machines."""
        return {
            "rows": self.rows,
            "window_rows": self.length,
            "window_error": self.window_error,
            "error": self.error,
            "mistakes": self.total,
            "rows_per_second": round(self.speed, 1),
        }


class Metrics:
    """Errors by window, and rows of each class.

    Examples
    --------
    >>> from oblong.cli.stream.metrics import Metrics
    >>> metrics = Metrics()
    >>> metrics.add_window(100, 30, 0.5).window_error
    0.3
    >>> metrics.add_window(200, 40, 0.5)
    Window(rows=200, length=100, mistakes=10, total=40, seconds=0.5)
    """

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        state = state or {"windows": [], "counts": [], "pending": 0.0}
        self.windows = [Window(*values) for values in state["windows"]]
        self.counts: list[int] = list(state["counts"])
        # Seconds of rows that no window has yet.
        self.pending = float(state["pending"])

    def state(self) -> dict[str, Any]:
        """Everything as JSON values."""
        windows = [[w.rows, w.length, w.mistakes, w.total, w.seconds] for w in self.windows]
        return {"windows": windows, "counts": self.counts, "pending": self.pending}

    def count(self, codes: np.ndarray) -> None:
        """Count the classes of rows."""
        found = np.bincount(codes, minlength=len(self.counts))
        found[: len(self.counts)] += np.array(self.counts, dtype=np.int64)
        self.counts = found.tolist()

    def add_window(self, rows: int, mistakes: int, seconds: float) -> Window:
        """End a window after so many rows with so many mistakes in all."""
        last = self.windows[-1] if self.windows else Window(0, 0, 0, 0, 0.0)
        window = Window(rows, rows - last.rows, mistakes - last.total, mistakes, seconds)
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
        return 1.0 - max(self.counts) / sum(self.counts)


def _together(windows: list[Window]) -> Window:
    last = windows[-1]
    return Window(
        last.rows,
        sum(w.length for w in windows),
        sum(w.mistakes for w in windows),
        last.total,
        sum(w.seconds for w in windows),
    )
