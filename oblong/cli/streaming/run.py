"""The run over a stream: read, predict, learn, count, save."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oblong.cli.streaming.checkpoint import write_checkpoint
from oblong.cli.streaming.learner import StreamLearner
from oblong.cli.streaming.metrics import Metrics, Window
from oblong.datasets import DataFileError
from oblong.streams import Batch, Position, RowReader

__all__ = ["Schedule", "run_stream"]

CHUNK = 10_000


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
    """

    window: int
    checkpoint: Path | None
    every: int
    options: dict[str, Any]

    def size(self, rows: int) -> int:
        """Rows of the batch that starts after so many."""
        marks = [CHUNK, self.window] + ([self.every] if self.checkpoint else [])
        return min(mark - rows % mark for mark in marks)


def run_stream(
    reader: RowReader,
    learner: StreamLearner,
    metrics: Metrics,
    schedule: Schedule,
    on_window: Callable[[Window], None] = lambda window: None,
) -> int:
    """Run over all rows and return the number of those skipped.

    Parameters
    ----------
    reader : RowReader
        The rows, from the first on or after a checkpoint.
    learner : StreamLearner
        The learner.
    metrics : Metrics
        What was found before.
    schedule : Schedule
        Windows and checkpoints.
    on_window : callable
        Called with each window.
    """
    closed = learner.declared
    rows = reader.rows
    position: Position | None = None
    began = time.perf_counter() - metrics.pending
    with _ahead(reader, schedule, rows, wait=not closed and not _discovers(learner)) as batches:
        for batch in batches:
            if not closed and not _discovers(learner):
                _close(reader, learner, len(batch))
                closed = True
            learner.learn(batch, reader.labels[: batch.position.n_labels])
            metrics.count(batch.codes, batch.weights)
            position, rows = batch.position, batch.position.rows
            metrics.pending = time.perf_counter() - began
            if rows % schedule.window == 0:
                window = _end_window(metrics, rows, learner)
                began, metrics.pending = time.perf_counter(), 0.0
                on_window(window)
            if schedule.checkpoint and rows % schedule.every == 0:
                write_checkpoint(
                    schedule.checkpoint, schedule.options, reader, position, learner, metrics
                )
    if not metrics.examples:
        weight = " with a weight above 0" if metrics.counts else ""
        raise DataFileError(reader.source, f"expected rows{weight}, got none")
    if schedule.checkpoint and position is not None and rows % schedule.every:
        write_checkpoint(schedule.checkpoint, schedule.options, reader, position, learner, metrics)
    if not metrics.windows or metrics.windows[-1].rows < rows:
        on_window(_end_window(metrics, rows, learner))
        metrics.pending = 0.0
    return reader.skipped


def _end_window(metrics: Metrics, rows: int, learner: StreamLearner) -> Window:
    return metrics.add_window(rows, learner.mistakes, metrics.pending, metrics.examples)


def _discovers(learner: StreamLearner) -> bool:
    """Whether the learner takes classes as they come."""
    return "allow_new_classes" in learner.model.get_params()


def _close(reader: RowReader, learner: StreamLearner, rows: int) -> None:
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
    reader: RowReader, schedule: Schedule, rows: int, *, wait: bool
) -> Iterator[Iterator[Batch]]:
    """Read batches on a thread of their own, one ahead of the learner.

    With `wait`, the first batch is used before the second is read.
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
                batch = reader.read(schedule.size(done))
                put(batch)
                if batch is None:
                    return
                done = batch.position.rows
                while not go_on.wait(0.1) and not stop.is_set():
                    pass
        except BaseException as error:
            put(error)

    def received() -> Iterator[Batch]:
        while True:
            item = batches.get()
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
