"""The command itself: from arguments to rows, numbers and files."""

import argparse
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from oblong._core.text import quote
from oblong.cli import TERMINATED, handling
from oblong.cli.shared.options import option_words, print_json, save_model, writing
from oblong.cli.streaming.checkpoint import (
    Checkpoint,
    locked,
    named,
    read_checkpoint,
    sound_checkpoint,
)
from oblong.cli.streaming.learners import make_learner
from oblong.cli.streaming.metrics import Metrics, Window
from oblong.cli.streaming.report import Outcome, write_report
from oblong.cli.streaming.run import Schedule, StreamRun
from oblong.io.errors import DataFileError
from oblong.io.layout import find_format
from oblong.io.rows import RowReader
from oblong.online.incremental import IncrementalLearner
from oblong.online.plain_learner import PlainLearner


def stream(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.data != "-" and not os.path.lexists(args.data):
        raise DataFileError(quote(args.data, 80), "no such file")
    with locked(args.checkpoint):
        return _stream(args)


def _stream(args: argparse.Namespace) -> int:
    initial = _initial(args)
    options = _options(args)
    checkpoint = read_checkpoint(args.checkpoint, options) if args.resume else None
    with _reader(args, checkpoint) as reader:
        if initial is not None:
            model = PlainLearner.of(initial) or initial
        else:
            parameters = dict(args.param)
            if "log-loss" in args.metrics:
                # Probabilities say how often a class was right only if they are calibrated.
                parameters.setdefault("calibration", "platt")
            model = make_learner(args.learner, parameters, normalize=not args.no_normalize)
        _check_plain(args, model)
        learner = IncrementalLearner(model, reader.n_columns)
        learner.declared = args.classes is not None
        learner.frozen = args.test_only
        if checkpoint is not None:
            checkpoint.resume(learner)
            if learner.declared:
                reader.close_labels()
        elif args.resume:
            print("oblong: no checkpoint yet, starting with the first row", file=sys.stderr)
        metrics = checkpoint.metrics if checkpoint else Metrics()
        metrics.ask(args.metrics, args.drift is not None)
        run = StreamRun(learner, metrics, checkpoint)
        names = ("window", "checkpoint", "every", "delay", "passes", "test_only")
        said = {name: getattr(args, name) for name in names}
        schedule = Schedule(options, live=args.data == "-", **said)
        printer = _Printer(args.json)
        # SIGTERM ends the run, but not before the rows that are being learned from.
        with (
            handling(signal.SIGTERM, lambda *_: run.stop()),
            _predictions(args, reader, checkpoint) as (write, run.written),
        ):
            skipped = run.go(reader, schedule, printer, write, printer.drift)
    for text in reader.notes:
        print(f"oblong: note: {reader.source}: {text}", file=sys.stderr)
    for message in run.messages:
        print(f"oblong: warning: {message}", file=sys.stderr)
    if run.stopped:
        kept = "nothing is kept without --checkpoint"
        if args.checkpoint is not None:
            kept = f"--resume continues from {args.checkpoint}"
        print(f"oblong: stopped after {learner.rows:,} rows; {kept}", file=sys.stderr)
        return TERMINATED
    if len(learner.classes) < 2 and (args.output or not args.classes):
        problem = f"expected two or more classes, got only {quote(reader.spellings[0])}"
        raise DataFileError(reader.source, problem)
    counts = (reader.rows, metrics, learner.mistakes, skipped, _command(args))
    outcome = Outcome(reader.source, args.learner, learner.model, reader.labels, *counts)
    _write(args, outcome, reader, options)
    _print_end(args, outcome)
    return 0


def _initial(args: argparse.Namespace) -> Any:
    """The model to start from, if there is one; its rows are read as those it has learned from."""
    if args.initial is None:
        return None
    from oblong.persistence import load_with_manifest

    model, manifest = load_with_manifest(args.initial)
    made = manifest["training"].get("options")
    for name in ("hash_bits", "text"):
        kept = (made or {}).get(f"--{name.replace('_', '-')}")
        if kept and not getattr(args, name):
            setattr(args, name, kept)
    if PlainLearner.of(model) is None:
        problem = f"expected a linear online learner, got {type(model).__name__}"
        raise DataFileError(args.initial.name, problem)
    return model


def _check_plain(args: argparse.Namespace, model: Any) -> None:
    """Refuse what only linear learners can."""
    for name in ("metrics", "drift", "delay", "test_only", "passes"):
        value = getattr(args, name)
        if value and (name != "passes" or value > 1) and not isinstance(model, PlainLearner):
            flag = f"--{name.replace('_', '-')}"
            raise DataFileError(flag, f"needs a linear learner, not {args.learner}")


def _reader(args: argparse.Namespace, checkpoint: Checkpoint | None) -> Any:
    """The rows, from the start or after a checkpoint."""
    options: dict[str, Any] = {
        name: getattr(args, name) for name in ("target", "weight", "classes", "hash_bits", "text")
    }
    if args.passes > 1:
        # Later passes need all rows.
        checkpoint = None
    options |= {"steady_labels": True, "state": checkpoint.reader if checkpoint else None}
    with sound_checkpoint(args.checkpoint) if checkpoint else nullcontext():
        if args.format == "arrow" or (args.format is None and find_format(args.data) == "parquet"):
            from oblong.io.arrow import ArrowReader

            if args.data == "-":
                raise DataFileError("standard input", "Parquet and Arrow need a file")
            return ArrowReader(args.data, **options)
        return RowReader(
            args.data,
            format=args.format,
            n_features=args.features,
            zero_based=args.zero_based or None,
            header=False if args.no_header else None,
            skip_bad=args.skip_bad,
            vocabulary=checkpoint.vocabulary if checkpoint else (),
            **options,
        )


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """What decides the result; a checkpoint belongs to one choice of it."""
    names = "learner param format target weight classes hash_bits text features zero_based"
    names += " no_header skip_bad no_normalize initial metrics drift delay passes test_only window"
    names += " every"
    found = {f"--{n.replace('_', '-')}": getattr(args, n) for n in names.split()}
    return found | {
        "--param": [[name, value] for name, value in args.param],
        "--initial": None if args.initial is None else str(args.initial),
        "--passes": args.passes if args.passes > 1 else None,
    }


@contextmanager
def _predictions(
    args: argparse.Namespace, reader: RowReader, checkpoint: Checkpoint | None
) -> Iterator[tuple[Callable[[Sequence[Any]], None] | None, Callable[[], int | None]]]:
    """Write predicted classes, as the labels are spelled, a line each; and say how many bytes."""
    if args.predictions is None:
        yield None, lambda: None
        return
    kept = checkpoint.written if checkpoint else 0
    if kept is None or (kept and not args.predictions.exists()):
        raise DataFileError("--predictions", "the rows before the checkpoint are missing")
    with writing(args.predictions):
        # Without a buffer, which would fail only when the file is closed.
        file = open(args.predictions, "r+b" if kept else "wb", buffering=0)  # noqa: SIM115
    with file:
        if file.seek(0, os.SEEK_END) < kept:
            raise DataFileError(args.predictions.name, "shorter than it was at the checkpoint")
        # What follows is predicted again.
        file.truncate(file.seek(kept))

        def write(labels: Sequence[Any]) -> None:
            spelled = dict(zip(reader.labels, reader.spellings))
            lines = "".join(f"{'' if x is None else spelled[x]}\n" for x in labels)
            left = memoryview(lines.encode())
            with writing(args.predictions):
                while left:
                    left = left[file.write(left) :]

        yield write, file.tell


def _command(args: argparse.Namespace) -> str:
    """Return the command line with everything that decides the result."""
    words = ["oblong", "stream", args.data, "--learner", args.learner]
    for name, value in args.param:
        spelled = value if isinstance(value, str) else json.dumps(value)
        words += ["--param", f"{name}={spelled}"]
    for flag, value in _options(args).items():
        if flag not in ("--learner", "--param", "--every"):
            words += option_words(flag, value)
    return shlex.join(words)


def _write(args: argparse.Namespace, outcome: Outcome, reader: RowReader, options: dict) -> None:
    if args.output is not None:
        spelled = dict(zip(reader.labels, reader.spellings))
        training = {name: getattr(outcome, name) for name in ("source", "rows", "command")} | {
            "target_names": [spelled[label] for label in outcome.model.classes_.tolist()],
            "progressive_error": outcome.error,
            "options": options,
            "sparse": not reader.dense,
        }
        if args.hash_bits:
            others = [args.target or reader.target_name, args.weight]
            others = [name for name in others if name is not None]
            training["hashing"] = {"bits": args.hash_bits, "text": args.text, "others": others}
        save_model(named(outcome.model, reader.names), args.output, training)
    if args.report is not None:
        with writing(args.report):
            write_report(outcome, args.report)


class _Printer:
    """Prints windows: every one as JSON, or those at which the rows have doubled as a table."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.next = 0
        self.shown = time.monotonic()
        self.live = sys.stderr.isatty() and not as_json

    def drift(self, row: int) -> None:
        """Say that errors have grown."""
        if self.as_json:
            print_json({"drift": True, "row": row})
        else:
            print(f"drift: errors have grown, found at row {row:,}", flush=True)

    def __call__(self, window: Window) -> None:
        if self.as_json:
            print_json(window.as_json())
            return
        if window.rows >= self.next:
            if not self.next:
                more = "".join(f"  {name:>14}" for name in window.scores)
                print(f"{'rows':>15}  {'window error':>12}  {'error':>8}  {'rows/s':>11}{more}")
            more = "".join(f"  {value:>14.4f}" for value in window.scores.values())
            print(
                f"{window.rows:>15,}  {_percent(window.error):>12}  "
                f"{_percent(window.total_error):>8}  {window.speed:>11,.0f}{more}",
                flush=True,
            )
            self.next = 2 * window.rows
        elif self.live and time.monotonic() > self.shown + 0.5:
            self.shown = time.monotonic()
            error = _percent(window.total_error)
            line = f"{window.rows:,} rows, error {error}, {window.speed:,.0f} rows/s"
            print(f"\r{line:<70}\r", end="", file=sys.stderr, flush=True)


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _print_end(args: argparse.Namespace, outcome: Outcome) -> None:
    if args.json:
        print_json(outcome.as_json())
        return
    features = getattr(outcome.model, "n_features_in_", 0)
    print(
        f"\n{outcome.source}  {outcome.rows:,} rows, {features:,} features, "
        f"{len(outcome.labels):,} classes\n{args.learner}: error {_percent(outcome.error)}; always "
        f"the most frequent class: {_percent(outcome.metrics.majority_error)}"
    )
    for name, value in outcome.metrics.totals.items():
        if value is not None:
            print(f"{name}: {value:.4f}, mean over windows")
    if outcome.skipped:
        print(f"Skipped: {outcome.skipped:,} malformed rows")
    for what, path in (("Model", args.output), ("Report", args.report)):
        if path is not None:
            print(f"{what}: {path}")
