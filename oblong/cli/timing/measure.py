"""Times of classifiers on the same data: the first call in a fresh process, and later ones."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from oblong.cli.timing.contenders import Entrant, choose

__all__ = ["Data", "Times", "race"]

# A turn lasts at least this long, so that a fit of a millisecond is not measured with the caches
# that another classifier has left behind.
_TURN = 0.02
_MOST_CALLS = 100


@dataclass(frozen=True, eq=False)
class Data:
    """Rows to fit and rows to predict; labels count from zero."""

    X: Any
    y: np.ndarray
    X_new: Any
    y_new: np.ndarray


@dataclass(frozen=True)
class Times:
    """What a classifier took, in seconds.

    Attributes
    ----------
    first : float or None
        The first fit in a process that has loaded all modules, but run nothing yet.
    fit, predict : float
        Medians of later calls.
    error : float
        Share of the new rows that were predicted wrongly.
    converged : bool
        Whether the fit ended without a warning that it had not converged.
    failure : str or None
        Why there are no times.
    """

    first: float | None = None
    fit: float = math.nan
    predict: float = math.nan
    error: float = math.nan
    converged: bool = True
    failure: str | None = None


def race(
    entrants: Sequence[Entrant],
    data: Data,
    repeats: int,
    on_step: Callable[[str], None] = lambda what: None,
    *,
    cold: bool = True,
) -> dict[str, Times]:
    """Time classifiers by turns, so that what else the machine does hits all alike.

    Parameters
    ----------
    entrants : sequence of Entrant
        Who takes part.
    data : Data
        The rows.
    repeats : int
        Turns of each.
    on_step : callable
        Called before each step with what comes next; there are ``repeats + 1`` steps for each
        classifier, and one more if `cold`.
    cold : bool, default=True
        Whether to time first calls, each in a process of its own.
    """
    found: dict[str, Times] = {}
    runners: dict[str, _Runner] = {}
    for entrant in entrants:
        first = None
        if cold:
            on_step(f"{entrant.title}: first call")
            first = _first_call(entrant, data)
        on_step(f"{entrant.title}: warming up")
        if isinstance(first, str):
            found[entrant.name] = Times(failure=first)
            continue
        try:
            runner = _Runner(entrant, data)
        except Exception as error:
            found[entrant.name] = Times(failure=_reason(error))
            continue
        found[entrant.name] = Times(first=first)
        runners[entrant.name] = runner
    for _ in range(repeats):
        for entrant in entrants:
            on_step(entrant.title)
            if entrant.name not in runners:
                continue
            try:
                runners[entrant.name].turn()
            except Exception as error:
                found[entrant.name] = Times(failure=_reason(error))
                del runners[entrant.name]
    for name, runner in runners.items():
        found[name] = runner.times(found[name].first)
    return found


class _Runner:
    """A classifier that was fitted once, with the times of its turns."""

    def __init__(self, entrant: Entrant, data: Data) -> None:
        self.entrant, self.y = entrant, data.y
        model = entrant.make()
        prepare = getattr(model, "prepare", lambda X: X)
        self.X, self.X_new = prepare(data.X), prepare(data.X_new)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.model = model.fit(self.X, self.y)
        self.converged = not any(issubclass(w.category, ConvergenceWarning) for w in caught)
        self.error = float(np.mean(self.model.predict(self.X_new) != data.y_new))
        self.numbers = [self._number(call) for call in (self._fit, self._predict)]
        self.seconds: tuple[list[float], list[float]] = ([], [])

    def _fit(self) -> None:
        self.model = self.entrant.make().fit(self.X, self.y)

    def _predict(self) -> None:
        self.model.predict(self.X_new)

    def _number(self, call: Callable[[], None]) -> int:
        """How many calls fill a turn."""
        seconds = _clock(call, 1)
        return min(_MOST_CALLS, max(1, math.ceil(_TURN / max(seconds, 1e-6))))

    def turn(self) -> None:
        """Time one turn of fits and one of predictions."""
        for call, number, seconds in zip((self._fit, self._predict), self.numbers, self.seconds):
            seconds.append(_clock(call, number))

    def times(self, first: float | None) -> Times:
        """The medians."""
        fit, predict = map(statistics.median, self.seconds)
        return Times(first, fit, predict, self.error, self.converged)


def _clock(call: Callable[[], None], number: int) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        for _ in range(number):
            call()
        return (time.perf_counter() - began) / number


def _reason(error: BaseException) -> str:
    return " ".join((str(error).splitlines() or [""])[0].split()) or type(error).__name__


# The first call ----------------------------------------------------------------------------------


def _first_call(entrant: Entrant, data: Data) -> float | str:
    """Seconds of the first fit in a fresh process, or why there was none."""
    context, start = _fresh_processes()
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(
        target=_report_first, args=(sender, entrant.name, data.X, data.y), daemon=True
    )
    try:
        start(process)
        sender.close()
        return receiver.recv()
    except EOFError:
        process.join()
        return f"its process ended with the code {process.exitcode}"
    finally:
        receiver.close()
        if process.pid is not None:
            process.terminate()
            process.join()


def _fresh_processes() -> tuple[Any, Callable[[Any], None]]:
    """How to make processes that have run nothing, and how to start them.

    They leave Ctrl-C to this process and say nothing when it ends before them. Where there is a
    server of processes, it loads the modules once for all, and hands this on to them.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():

        def start(process: Any) -> None:
            with _meek_children():
                process.start()

        return multiprocessing.get_context("spawn"), start
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["oblong.cli.timing.measure", "oblong.batch", "oblong.online"])
    with _meek_children():
        forkserver.ensure_running()
    return context, lambda process: process.start()


def _report_first(sender: Any, name: str, X: Any, y: np.ndarray) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = next(e for e in choose([name]) if e.name == name).make()
            rows = getattr(model, "prepare", lambda X: X)(X)
            began = time.perf_counter()
            model.fit(rows, y)
            sender.send(time.perf_counter() - began)
    except Exception as error:
        sender.send(_reason(error))


@contextmanager
def _meek_children() -> Iterator[None]:
    """Start processes that ignore Ctrl-C, which all of a terminal receive, and write nowhere."""
    before = kept = None
    # Signals belong to the main thread, and a service may have closed standard error.
    with suppress(ValueError):
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError):
        kept = os.dup(2)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
    try:
        yield
    finally:
        if kept is not None:
            os.dup2(kept, 2)
            os.close(kept)
        if before is not None:
            signal.signal(signal.SIGINT, before)
