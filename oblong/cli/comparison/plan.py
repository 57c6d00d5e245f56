"""How long a comparison will take, and what to do if that is too long."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from oblong.cli.comparison.models import Model
from oblong.cli.comparison.protocol import evaluate, some_rows, width_unit
from oblong.cli.comparison.results import FoldResult, Settings
from oblong.io.dataset import Dataset

# Rows of the trial by which times are estimated, after one with a few of them that compiles. Of
# what grows in proportion there is one with five times as many, as most of so short a fit is fixed.
_TRIAL = 400
# Growth of the time of a kernel model with the rows, as a power.
_POWER = 2.1
# Rows to choose parameters on, and to fit kernel models to: from all to few.
_STEPS = tuple(
    zip(
        (None, 5000, 2000, 2000, 2000, 1000, 1000, 500),
        (None, None, None, 20_000, 10_000, 5000, 2000, 1000),
    )
)


@dataclass(frozen=True)
class _Times:
    """Seconds of a model on the rows of a trial: to search, to fit and judge, to predict."""

    kind: str
    rows: int
    held_out: int
    search: float
    fit: float
    predict: float
    smaller: _Times | None = None

    def seconds(self, train: int, test: int, search_rows: int, kernel_rows: int) -> float:
        """What a fold with so many rows takes."""
        fitted = min(train, kernel_rows) if self.kind == "kernel" else train
        predict = self.predict * test / self.held_out
        if self.kind == "kernel":
            predict *= fitted / self.rows
        return self._grown("search", min(train, search_rows)) + self._grown("fit", fitted) + predict

    def _grown(self, what: str, rows: int) -> float:
        """Seconds of a part for another number of rows."""
        own, before = getattr(self, what), self.smaller
        if self.kind == "kernel" or before is None:
            return own * (rows / self.rows) ** _POWER
        slope = max(0.0, own - getattr(before, what)) / max(1, self.rows - before.rows)
        return max(own + slope * (rows - self.rows), 0.5 * getattr(before, what))


def estimate(
    dataset: Dataset, models: Sequence[Model], settings: Settings
) -> Callable[[Settings], dict[str, float]]:
    """Try the models on a few rows; returns what tells the seconds of a fold for each of them."""
    trial = replace(settings, kernel_rows=None, search_rows=None)
    found: dict[str, _Times] = {}
    for size in (_TRIAL // 5, _TRIAL, 5 * _TRIAL):
        rows = some_rows(dataset.y, size, settings.seed)
        X, y = dataset.X[rows], dataset.y[rows]
        # Both parts need all classes.
        places = np.arange(len(y))
        unit = width_unit(X, settings.impute)
        for model in models:
            if size > _TRIAL and model.kind == "kernel":
                continue
            r = evaluate(model, X, y, 1, (places, places[::4]), unit, trial)
            rest = r.seconds - r.search_seconds - r.predict_seconds
            times = (r.search_seconds, rest, r.predict_seconds)
            before = found.get(model.name)
            found[model.name] = _Times(model.kind, len(y), len(places[::4]), *times, before)
    n = len(dataset.y)
    test = n // settings.cv

    def per_fold(settings: Settings) -> dict[str, float]:
        limits = (settings.search_rows or n, settings.kernel_rows or n)
        return {name: t.seconds(n - test, test, *limits) for name, t in found.items()}

    return per_fold


def fit_to(
    limit: float, settings: Settings, per_fold: Callable[[Settings], Mapping[str, float]]
) -> tuple[Settings, float, float]:
    """Settings with which a comparison takes at most so many seconds, if there are any.

    Returns them, the seconds that they take and those of the settings as given.
    """
    whole = None
    for search_rows, kernel_rows in _STEPS:
        trial = replace(settings, search_rows=search_rows, kernel_rows=kernel_rows)
        folds = settings.cv * settings.repeats
        seconds = folds * sum(per_fold(trial).values()) / settings.jobs
        whole = seconds if whole is None else whole
        if seconds <= limit:
            break
    return trial, seconds, whole or 0.0


class Remaining:
    """The time that is left, from the time that the finished folds took.

    Parameters
    ----------
    models : sequence of str
        Names.
    folds, jobs : int
        Folds of each model, and how many are worked on at once.
    done : sequence of str
        A name for each fold that an earlier run has finished.
    expected : mapping of str to float
        Seconds of a fold, where they were estimated.
    """

    def __init__(
        self,
        models: Sequence[str],
        folds: int,
        jobs: int,
        done: Sequence[str] = (),
        expected: Mapping[str, float] | None = None,
    ) -> None:
        self.left = {name: folds - list(done).count(name) for name in models}
        self.total = sum(self.left.values())
        self.began = time.monotonic()
        self._jobs = jobs
        self._seconds: dict[str, list[float]] = {name: [] for name in models}
        self._expected = dict(expected or {})

    def add(self, result: FoldResult) -> None:
        """Take note of a result."""
        self.left[result.model] -= 1
        self._seconds[result.model].append(result.seconds)

    def text(self) -> str:
        """How much is done, and how long the rest will take."""
        # Folds are alike, but the first of a model may have compiled its loops.
        known = {name: min(times) for name, times in self._seconds.items() if times}
        known = self._expected | known
        seconds = sum(n * known.get(name, 0.0) for name, n in self.left.items())
        finished = self.total - sum(self.left.values())
        text = f"{finished} of {self.total} fits with search done"
        if not any(self.left.values()):
            return ""
        if not known:
            return text
        least = any(n and name not in known for name, n in self.left.items())
        first = any(n and len(self._seconds[name]) == 1 for name, n in self.left.items())
        word = "at least" if least else "at most" if first else "about"
        busy = max(1, min(self._jobs, sum(self.left.values())))
        return f"{text}, {word} {about(seconds / busy)} left"


def about(seconds: float) -> str:
    """A time in words, roughly."""
    if seconds < 100:
        return f"{max(1, round(seconds)):d} s"
    if seconds < 100 * 60:
        return f"{round(seconds / 60):d} min"
    hours = seconds / 3600
    return f"{round(hours):d} h" if hours < 72 else f"{round(hours / 24):,d} days"
