"""Times of classifiers on the same rows."""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from timeit import Timer
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from oblong.cli.timing.contenders import Contender
from oblong.io.errors import first_line

# A turn lasts at least this long, so that a fit of a millisecond is not measured with the caches
# that another classifier has left behind.
_TURN_SECONDS = 0.02
_MAX_CALLS = 100


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
    rows: Sequence[Any],
    repeats: int,
    on_step: Callable[[str], None] = lambda what: None,
) -> dict[str, Times]:
    """Time classifiers by turns, so that other load on the computer affects all alike.

    `rows` are rows to fit and rows to predict, and the labels of both. `on_step` is called with a
    title before each of the ``repeats + 1`` steps of every classifier.
    """
    running = {contender.name: _turns(contender.make, *rows) for contender in contenders}
    found: dict[str, Times] = {}
    for _ in range(repeats + 1):
        for contender in contenders:
            on_step(contender.title)
            try:
                found[contender.name] = next(
                    running[contender.name], found.get(contender.name, Times())
                )
            except Exception as error:
                found[contender.name] = Times(failure=first_line(error))
    return found


def _turns(
    make: Callable[[], Any], X: Any, X_new: Any, y: np.ndarray, y_new: np.ndarray
) -> Iterator[Times]:
    """Fit once, to warm up, and then time a turn at each step; medians so far."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        model = make().fit(X, y)
        error = float(np.mean(model.predict(X_new) != y_new))
        timers = Timer(lambda: make().fit(X, y)), Timer(lambda: model.predict(X_new))
        seconds = [max(timer.timeit(1), 1e-6) for timer in timers]
    converged = not any(issubclass(w.category, ConvergenceWarning) for w in caught)
    calls = [min(_MAX_CALLS, math.ceil(_TURN_SECONDS / each)) for each in seconds]
    yield Times()
    turns = []
    while True:
        with warnings.catch_warnings(action="ignore"):
            turns.append([timer.timeit(n) / n for timer, n in zip(timers, calls)])
        fit, predict = np.median(turns, axis=0).tolist()
        yield Times(fit, predict, error, converged)
