"""Times of classifiers on the same rows."""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from oblong.cli.timing.contenders import Contender

# A turn lasts at least this long, so that a fit of a millisecond is not measured with the caches
# that another classifier has left behind.
_TURN_SECONDS = 0.02
_MAX_CALLS = 100


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows to fit and rows to predict."""

    X: Any
    y: np.ndarray
    X_new: Any
    y_new: np.ndarray


@dataclass(frozen=True)
class Times:
    """Median seconds of fits and predictions, the error, and why there are none if a fit failed."""

    fit_seconds: float | None = None
    predict_seconds: float | None = None
    error: float | None = None
    converged: bool = True
    failure: str | None = None


def measure(
    contenders: Sequence[Contender],
    rows: Rows,
    repeats: int,
    on_step: Callable[[str], None] = lambda what: None,
) -> dict[str, Times]:
    """Time classifiers by turns, so that other load on the computer affects all alike.

    `on_step` is called with a title before each of the ``repeats + 1`` steps of every classifier.
    """
    found: dict[str, Times] = {}
    runners: dict[str, _Runner] = {}
    for turn in range(repeats + 1):
        for contender in contenders:
            on_step(contender.title)
            if contender.name in found:
                continue
            try:
                if turn == 0:
                    runners[contender.name] = _Runner(contender, rows)
                else:
                    runners[contender.name].turn()
            except Exception as error:
                reason = (str(error).splitlines() or [""])[0] or type(error).__name__
                found[contender.name] = Times(failure=reason)
    times = {name: runner.times() for name, runner in runners.items() if name not in found}
    return found | times


class _Runner:
    """A classifier that was fitted once, to warm up, and the times of its turns."""

    def __init__(self, contender: Contender, rows: Rows) -> None:
        self._make, self._rows = contender.make, rows
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self._fit()
        self._converged = not any(issubclass(w.category, ConvergenceWarning) for w in caught)
        self._error = float(np.mean(self._model.predict(rows.X_new) != rows.y_new))
        self._calls = [(call, _calls_per_turn(call)) for call in (self._fit, self._predict)]
        self._seconds: list[list[float]] = []

    def _fit(self) -> None:
        self._model = self._make().fit(self._rows.X, self._rows.y)

    def _predict(self) -> None:
        self._model.predict(self._rows.X_new)

    def turn(self) -> None:
        """Time one turn of fits and one of predictions."""
        self._seconds.append([_clock(call, number) for call, number in self._calls])

    def times(self) -> Times:
        """Medians over the turns."""
        fit, predict = (statistics.median(column) for column in zip(*self._seconds))
        return Times(fit, predict, self._error, self._converged)


def _calls_per_turn(call: Callable[[], None]) -> int:
    return min(_MAX_CALLS, math.ceil(_TURN_SECONDS / max(_clock(call, 1), 1e-6)))


def _clock(call: Callable[[], None], number: int) -> float:
    """Mean seconds of a number of calls."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        for _ in range(number):
            call()
        return (time.perf_counter() - began) / number
