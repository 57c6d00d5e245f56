"""The run over a stream: read, predict, learn, count, save."""

from __future__ import annotations

import queue
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from oblong.cli.shared.errors import RunError
from oblong.cli.streaming.checkpoint import write_checkpoint
from oblong.cli.streaming.metrics import Metrics, Window
from oblong.datasets import DataFileError
from oblong.online import progressive_validation
from oblong.online.incremental import CodedRows, FixedFeatures, IncrementalLearner, TooLarge
from oblong.online.progressive import Window as Progress
from oblong.streams import Batch, Position, RowReader

__all__ = ["Schedule", "StreamRun"]

# Most rows of a batch.
CHUNK = 10_000
# Seconds between checkpoints of rows that arrive one by one.
_SECONDS = 10.0


@dataclass(frozen=True)
class Schedule:
    """After which rows something happens.

    Batches end at rows whose numbers depend on nothing else, so that a run that was stopped and
    resumed learns from the same batches.

    Attributes
    ----------
    window : int
        Rows of a window of the metrics.
    checkpoint : Path or None
        Where checkpoints go.
    every : int
        Rows between checkpoints.
    options : dict
        What decides the result, kept in the checkpoints.
    live : bool
        Whether rows are learned from as they arrive. There is a checkpoint after some seconds too.
    """

    window: int
    checkpoint: Path | None
    every: int
    options: dict[str, Any]
    live: bool = False

    def size(self, rows: int) -> int:
        """Rows of the batch that starts after so many."""
        marks = [CHUNK, self.window] + ([self.every] if self.checkpoint else [])
        return min(mark - rows % mark for mark in marks)


class StreamRun:
    """A learner on its way through a stream, and what was found so far.

    Parameters
    ----------
    learner : IncrementalLearner
        The learner.
    metrics : Metrics
        What was found before.
    messages : sequence of str
        Warnings of the learner, each once.
    """

    def __init__(
        self, learner: IncrementalLearner, metrics: Metrics, messages: Sequence[str] = ()
    ) -> None:
        self.learner = learner
        self.metrics = metrics
        self.messages = list(messages)
        self._began = 0.0
        self.stopped = False

    def stop(self) -> None:
        """Stop after the rows that are being learned from."""
        self.stopped = True

    def go(
        self,
        reader: RowReader,
        schedule: Schedule,
        on_window: Callable[[Window], None] = lambda window: None,
        on_prediction: Callable[[Any], None] | None = None,
    ) -> int:
        """Run over all rows and return the number of those skipped.

        Parameters
        ----------
        reader : RowReader
            The rows, from the first on or after a checkpoint.
        schedule : Schedule
            Windows and checkpoints.
        on_window : callable
            Called with each window.
        on_prediction : callable, default=None
            Called with the class predicted for each row, before it is learned from; None as long
            as there is no class.
        """
        metrics = self.metrics
        self.learner.rows, self.learner.examples = reader.rows, metrics.examples
        self._began = time.perf_counter() - metrics.pending

        def end_window(window: Progress) -> None:
            now = time.perf_counter()
            seconds, self._began, metrics.pending = now - self._began, now, 0.0
            on_window(
                metrics.add_window(
                    window.rows, window.total_mistakes, seconds, window.total_examples
                )
            )

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            rows = self._rows(reader, schedule, caught, on_prediction)
            try:
                progressive_validation(
                    self.learner, rows, window=schedule.window, on_window=end_window
                )
            except TooLarge as error:
                raise RunError(
                    f"a model of {error.n_features:,} features does not fit in memory; hash them "
                    "with --hash-bits, or use --param covariance=diag"
                ) from error
            except FixedFeatures as error:
                raise RunError(f"{error}: give --features or --hash-bits") from error
            except DataFileError:
                raise
            except ValueError as error:
                raise RunError(str(error).splitlines()[0]) from error
        return reader.skipped

    def _rows(
        self,
        reader: RowReader,
        schedule: Schedule,
        caught: list[warnings.WarningMessage],
        on_prediction: Callable[[Any], None] | None,
    ) -> Iterator[CodedRows]:
        """Batches of the reader; what comes after a batch happens when it has been learned from."""
        learner, metrics = self.learner, self.metrics
        closed = learner.declared
        rows, position = reader.rows, None
        saved, last = rows, time.monotonic()

        def save(position: Position) -> None:
            if schedule.checkpoint is not None:
                write_checkpoint(
                    schedule.checkpoint,
                    schedule.options,
                    reader,
                    position,
                    learner,
                    metrics,
                    self.messages,
                )

        grows = learner.model._takes_new_features
        wait = not closed and not grows
        with _ahead(reader, schedule, rows, wait=wait, stopped=lambda: self.stopped) as batches:
            for batch in batches:
                if not closed and not grows:
                    _close(reader, learner, len(batch))
                    closed = True
                metrics.count(batch.codes, batch.weights)
                coded = _coded(batch, reader.labels[: batch.position.n_labels])
                if on_prediction is None:
                    yield coded
                else:
                    # The rows before have been learned from when the next is asked for.
                    for i, (x, _, _) in enumerate(coded.singles()):
                        on_prediction(learner.predict_one(x)[0])
                        yield coded.part(i, i + 1)
                self._note(caught)
                position, rows = batch.position, batch.position.rows
                if rows % schedule.every == 0 or (
                    schedule.live and time.monotonic() > last + _SECONDS
                ):
                    save(position)
                    saved, last = rows, time.monotonic()
        if not metrics.examples and not self.stopped:
            weight = " with a weight above 0" if metrics.counts else ""
            raise DataFileError(reader.source, f"expected rows{weight}, got none")
        if position is not None and rows > saved:
            save(position)

    def _note(self, caught: list[warnings.WarningMessage]) -> None:
        """Keep the time and the warnings of the batch that has been learned from."""
        self.metrics.pending = time.perf_counter() - self._began
        for warning in caught:
            text = str(warning.message)
            if issubclass(warning.category, ConvergenceWarning) and text not in self.messages:
                self.messages.append(text)
        caught.clear()


def _coded(batch: Batch, labels: Sequence[Any]) -> CodedRows:
    """A batch of the reader as the learner takes it."""
    n = len(batch)
    if batch.columns is None:
        X = batch.values.reshape(n, -1)
    else:
        width = int(batch.columns.max(initial=-1)) + 1
        X = sp.csr_matrix((batch.values, batch.columns, batch.indptr), shape=(n, max(1, width)))
        X.has_canonical_format = True
    return CodedRows(X, batch.codes, labels, batch.weights)


def _close(reader: RowReader, learner: IncrementalLearner, rows: int) -> None:
    """Take the classes of the first batch for all there are."""
    if len(reader.labels) < 2:
        problem = (
            f"{type(learner.model).__name__} has to know the classes, and the first {rows:,} rows "
            "have only one; name them with --classes"
        )
        raise DataFileError(reader.source, problem)
    reader.close_labels()
    learner.declared = True


@contextmanager
def _ahead(
    reader: RowReader,
    schedule: Schedule,
    rows: int,
    *,
    wait: bool,
    stopped: Callable[[], bool],
) -> Iterator[Iterator[Batch]]:
    """Read batches on a thread of their own, one ahead of the learner, until it has `stopped`.

    With `wait`, the first batch is used before the second is read, and is complete.
    """
    batches: queue.Queue[Any] = queue.Queue(maxsize=1)
    stop, go_on = threading.Event(), threading.Event()
    if not wait:
        go_on.set()

    def put(item: Any) -> None:
        while not stop.is_set():
            try:
                batches.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def work() -> None:
        done = rows
        try:
            while not stop.is_set():
                whole = not schedule.live or not go_on.is_set()
                batch = reader.read(schedule.size(done), wait=whole)
                put(batch)
                if batch is None:
                    return
                done = batch.position.rows
                while not go_on.wait(0.1) and not stop.is_set():
                    pass
        except BaseException as error:
            put(error)

    def received() -> Iterator[Batch]:
        while not stopped():
            try:
                # A signal does not end the wait for rows by itself.
                item = batches.get(timeout=0.1)
            except queue.Empty:
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
            go_on.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield received()
    finally:
        stop.set()
