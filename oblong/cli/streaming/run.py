"""The run over a stream: read, predict, learn, count, save."""

from __future__ import annotations

import pickle
import queue
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oblong.cli.shared.options import RunError
from oblong.cli.streaming.checkpoint import Checkpoint, write_checkpoint
from oblong.cli.streaming.metrics import Metrics, Window
from oblong.io.errors import DataFileError
from oblong.io.rows import Batch, Position, RowReader
from oblong.online.growing import TooLarge
from oblong.online.incremental import CodedRows, FixedFeatures, IncrementalLearner
from oblong.online.plain_learner import PlainLearner
from oblong.online.predicted import Predicted
from oblong.online.progressive import ProgressiveResult, progressive_validation
from oblong.online.progressive import Window as Progress
from oblong.solvers.online.rows import Rows

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
    options : dict
        What decides the result, kept in the checkpoints.
    window : int
        Rows of a window of the metrics.
    checkpoint : Path or None
        Where checkpoints go.
    every : int
        Rows between checkpoints.
    live : bool
        Whether rows are learned from as they arrive. There is a checkpoint after some seconds too.
    delay : int
        Rows that are predicted before the label of a row arrives.
    passes : int
        How often to go over the rows. The errors are those of the first time.
    test_only : bool
        Whether nothing is learned.
    """

    options: dict[str, Any]
    window: int
    checkpoint: Path | None
    every: int
    live: bool = False
    delay: int = 0
    passes: int = 1
    test_only: bool = False

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
    checkpoint : Checkpoint, default=None
        What an earlier run has come to.

    Attributes
    ----------
    messages : list of str
        Warnings of the learner, each once.
    """

    def __init__(
        self, learner: IncrementalLearner, metrics: Metrics, checkpoint: Checkpoint | None = None
    ) -> None:
        self.learner = learner
        self.metrics = metrics
        self.messages = list(checkpoint.messages) if checkpoint else []
        self._checkpoint = checkpoint
        # Passes that are finished, and rows of the next one; the first is where the reader is.
        self._passed = checkpoint.passed if checkpoint else (0, 0)
        self._position: Position | None = None
        self._began = 0.0
        self.stopped = False
        # Bytes of predictions that have been written, if any are.
        self.written: Callable[[], int | None] = lambda: None

    def stop(self) -> None:
        """Stop after the rows that are being learned from."""
        self.stopped = True

    def go(
        self,
        reader: RowReader,
        schedule: Schedule,
        on_window: Callable[[Window], None] = lambda window: None,
        on_prediction: Callable[[Sequence[Any]], None] | None = None,
        on_drift: Callable[[int], None] = lambda row: None,
    ) -> int:
        """Run over all rows and return the number of those skipped.

        Parameters
        ----------
        reader : RowReader
            The rows, from the start or after a checkpoint.
        schedule : Schedule
            Windows and checkpoints.
        on_window : callable
            Called with each window.
        on_prediction : callable, default=None
            Called with the classes predicted for rows, each before it was learned from; None as
            long as there is no class.
        on_drift : callable
            Called with the number of the row at which errors were found to have grown.
        """
        metrics = self.metrics
        self._reader, self._schedule = reader, schedule
        before = self._checkpoint.reader["rows"] if self._checkpoint else 0
        self.learner.rows, self.learner.examples = before, metrics.examples
        self._began = time.perf_counter() - metrics.pending

        def watch(found: Predicted) -> None:
            if on_prediction is not None:
                labels = reader.labels
                on_prediction([None if k < 0 else labels[k] for k in found.guesses.tolist()])
            if metrics.scores is not None:
                for place in metrics.scores.add(found).tolist():
                    row = self.learner.rows - len(found.codes) + place + 1
                    metrics.drifts.append(row)
                    on_drift(row)

        singly = None
        if isinstance(self.learner.model, PlainLearner):
            if on_prediction is not None or metrics.scores is not None:
                self.learner.watch = watch
        else:
            singly = on_prediction

        def end_window(end: Progress | ProgressiveResult) -> None:
            now = time.perf_counter()
            seconds, self._began, metrics.pending = now - self._began, now, 0.0
            if isinstance(end, Progress):
                counts = end.total_mistakes, seconds, end.total_examples
            else:
                counts = end.mistakes, seconds, end.examples
            on_window(metrics.add_window(end.rows, *counts))

        def first_pass(rows: Iterator[CodedRows]) -> None:
            options = {"window": schedule.window, "delay": schedule.delay}
            end = progressive_validation(self.learner, rows, on_window=end_window, **options)
            # A checkpoint is written before the last window ends.
            if end.rows > (metrics.windows[-1].rows if metrics.windows else 0):
                end_window(end)

        with warnings.catch_warnings(record=True, action="always") as caught:
            rows = self._rows(caught, singly)
            try:
                if schedule.passes == 1 or schedule.test_only:
                    first_pass(rows)
                else:
                    self._several(rows, first_pass, caught)
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

    def _several(
        self, rows: Iterator[CodedRows], first_pass: Callable[..., None], caught: list[Any]
    ) -> None:
        """Go over rows several times, after the first time from a file in binary form."""
        learner = self.learner
        with RowCache() as cache:
            if self._checkpoint is not None:
                self._read_again(cache, self._checkpoint.reader)
            finished, done = self._passed
            if finished == 0:
                first_pass(cache.kept(rows))
                finished = 1
            # What was found on rows that were new.
            learner.tested = learner.mistakes
            for number in range(finished, self._schedule.passes):
                for part in cache.after(done):
                    if self.stopped:
                        return
                    learner.learn_late(*part)
                    done += len(part.codes)
                    self._note(caught)
                    # Times are those of the first pass.
                    self.metrics.pending = 0.0
                    self._passed = number, done
                    if done % self._schedule.every == 0 or self.stopped:
                        self._save()
                done = 0

    def _read_again(self, cache: RowCache, known: dict[str, Any]) -> None:
        """Keep the rows that an earlier run has learned from, for later passes."""
        reader, schedule = self._reader, self._schedule
        while missing := max(0, known["rows"] - reader.rows):
            batch = reader.read(min(missing, schedule.size(reader.rows)))
            if batch is None:
                break
            self._position = batch.position
            cache.keep(_coded(batch, reader.labels[: batch.position.n_labels], plain=True))
        if self._position is None or reader.state(self._position) != known:
            raise DataFileError(reader.source, "not the input of the checkpoint")

    def _save(self) -> None:
        """Write a checkpoint, if there are any."""
        path, options = self._schedule.checkpoint, self._schedule.options
        if path is not None and self._position is not None:
            found = (self.learner, self.metrics, self.messages, self.written(), self._passed)
            write_checkpoint(path, options, self._reader, self._position, *found)

    def _rows(
        self, caught: list[Any], on_prediction: Callable[[Sequence[Any]], None] | None
    ) -> Iterator[CodedRows]:
        """Batches of the reader; what comes after a batch happens when it has been learned from."""
        reader, schedule = self._reader, self._schedule
        learner, metrics = self.learner, self.metrics
        closed = learner.declared
        rows = saved = reader.rows
        last = time.monotonic()
        grows = learner.model._takes_new_features
        wait = not closed and not grows
        with _ahead(reader, schedule, rows, wait=wait, stopped=lambda: self.stopped) as batches:
            for batch in batches:
                due = schedule.live and time.monotonic() > last + _SECONDS
                if batch is None:
                    # No rows arrive, and those before may not be lost.
                    if due and rows > saved:
                        self._save()
                        saved, last = rows, time.monotonic()
                    continue
                if not closed and not grows:
                    _close(reader, learner, len(batch))
                    closed = True
                metrics.count(batch.codes, batch.weights)
                labels = reader.labels[: batch.position.n_labels]
                coded = _coded(batch, labels, plain=isinstance(learner.model, PlainLearner))
                if on_prediction is None:
                    yield coded
                else:
                    # The rows before have been learned from when the next is asked for.
                    for i, (x, _, _) in enumerate(coded.singles()):
                        on_prediction([learner.predict_one(x)[0]])
                        yield coded.part(i, i + 1)
                self._note(caught)
                self._position, rows = batch.position, batch.position.rows
                if rows % schedule.every == 0 or due:
                    self._save()
                    saved, last = rows, time.monotonic()
        if not metrics.examples and not self.stopped:
            weight = " with a weight above 0" if metrics.counts else ""
            raise DataFileError(reader.source, f"expected rows{weight}, got none")
        if rows > saved:
            self._save()

    def _note(self, caught: list[warnings.WarningMessage]) -> None:
        """Keep the time and the warnings of the batch that has been learned from."""
        self.metrics.pending = time.perf_counter() - self._began
        for warning in caught:
            text = str(warning.message)
            ours = warning.category.__name__ == "ConvergenceWarning"
            if ours and text not in self.messages:
                self.messages.append(text)
        caught.clear()


def _coded(batch: Batch, labels: Sequence[Any], *, plain: bool) -> CodedRows:
    """A batch of the reader as the learner takes it."""
    X: Any = batch.values.reshape(len(batch), -1) if batch.columns is None else None
    if batch.columns is not None:
        if plain:
            X = Rows(batch.values, batch.columns, batch.indptr, dense=False, width=batch.width)
        else:
            X = batch.matrix(batch.width)
            X.has_canonical_format = True
    return CodedRows(X, batch.codes, labels, batch.weights)


class RowCache:
    """Rows of a first pass in a file of their own, from which later passes read them."""

    def __enter__(self) -> RowCache:
        self._file = tempfile.TemporaryFile()
        self._parts = 0
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def kept(self, rows: Iterator[CodedRows]) -> Iterator[CodedRows]:
        """The rows, which are kept on their way."""
        for part in rows:
            yield part
            self.keep(part)

    def keep(self, part: CodedRows) -> None:
        """Keep rows behind those that are there."""
        pickle.dump(part, self._file, protocol=pickle.HIGHEST_PROTOCOL)
        self._parts += 1

    def after(self, done: int) -> Iterator[CodedRows]:
        """The rows behind so many."""
        self._file.seek(0)
        for _ in range(self._parts):
            part = pickle.load(self._file)
            n = len(part.codes)
            if done < n:
                yield part.part(done, n) if done else part
            done = max(0, done - n)


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
    reader: RowReader, schedule: Schedule, rows: int, *, wait: bool, stopped: Callable[[], bool]
) -> Iterator[Iterator[Batch | None]]:
    """Read batches on a thread of their own, one ahead of the learner, until it has `stopped`.

    None stands for a tenth of a second without rows. With `wait`, the first batch is used before
    the second is read, and is complete.
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

    def received() -> Iterator[Batch | None]:
        while not stopped():
            try:
                # A signal does not end the wait for rows by itself.
                item = batches.get(timeout=0.1)
            except queue.Empty:
                yield None
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
