"""Checkpoints: the learner, where it is in the input, and what was found so far, in one file.

A checkpoint is a model file with a few words more, so it is written whole or not at all, runs no
code when it is read, and can be used as a model at any time.
"""

import copy
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oblong.cli.shared.options import RunError, save_model
from oblong.cli.streaming.metrics import Metrics
from oblong.io.errors import DataFileError
from oblong.io.rows import Position, RowReader
from oblong.online.incremental import CodedRows, IncrementalLearner
from oblong.online.plain_learner import PlainLearner
from oblong.persistence import ModelFileError
from oblong.solvers.online.rows import Rows

try:
    import fcntl
except ImportError:
    # There is none on Windows.
    fcntl = None  # type: ignore[assignment]

_VERSION = 3
# What is kept of the learner beside the model, under names that do not change: its attribute and
# type.
_KEPT = {
    "classes": ("classes", list),
    "declared": ("declared", bool),
    "surprises": ("new_class_mistakes", int),
    "waited": ("waited", int),
    "width": ("width", int),
}


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds."""

    model: Any
    reader: dict[str, Any]
    vocabulary: list[str]
    learner: dict[str, Any]
    metrics: Metrics
    messages: list[str]
    late: list[CodedRows]
    written: int | None
    # Passes that are finished, and rows of the next one.
    passed: tuple[int, int]

    def resume(self, learner: IncrementalLearner) -> None:
        """Put a learner where that of the checkpoint was."""
        learner.model = PlainLearner.of(self.model) or self.model
        learner.late.extend(self.late)
        learner.tested = self.learner["tested"]
        for name, (attribute, _) in _KEPT.items():
            setattr(learner, attribute, self.learner[name])


def named(model: Any, names: list[str] | None) -> Any:
    """A copy of a model, as an estimator, that knows the names of its columns."""
    model = model.estimator() if isinstance(model, PlainLearner) else copy.copy(model)
    if names and len(names) == getattr(model, "n_features_in_", 0):
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def write_checkpoint(
    path: Path,
    options: dict[str, Any],
    reader: RowReader,
    position: Position,
    learner: IncrementalLearner,
    metrics: Metrics,
    messages: list[str],
    written: int | None,
    passed: tuple[int, int] = (0, 0),
) -> None:
    """Write a checkpoint in place of the one before; with the bytes of predictions so far."""
    vocabulary = reader.vocabulary(position)
    model = named(learner.model, None)
    if vocabulary:
        # Names may outnumber columns: there may be no model yet, and no columns.
        model.feature_names_in_ = np.array(vocabulary, dtype=object)
    stream = {
        "version": _VERSION,
        "options": options,
        "reader": reader.state(position),
        "learner": {
            **{name: getattr(learner, attribute) for name, (attribute, _) in _KEPT.items()},
            "tested": learner.tested,
            "messages": messages,
            "late": [_listed(row) for row in learner.late],
        },
        "metrics": metrics.state(),
        "written": written,
        "passed": passed,
    }
    save_model(model, path, {"stream": stream})


def read_checkpoint(path: Path, options: dict[str, Any]) -> Checkpoint | None:
    """Read a checkpoint, if there is one, and see that it belongs to the command."""
    if not path.exists():
        return None
    from oblong.persistence import load_with_manifest

    try:
        model, manifest = load_with_manifest(path)
    except ModelFileError as error:
        raise DataFileError(path.name, f"no checkpoint: {error.problem}") from None
    stream = manifest["training"].get("stream")
    if not isinstance(stream, dict):
        raise DataFileError(path.name, "a model, not a checkpoint of a stream")
    if stream.get("version") != _VERSION:
        problem = "a checkpoint of another version of oblong; finish with that one, or start again"
        raise DataFileError(path.name, problem)
    with sound_checkpoint(path):
        made = stream["options"]
        # What it was read from may be a file now and a pipe then: what counts is the format.
        made["--format"] = stream["reader"]["format"]
        for name, value in options.items():
            # Options that are new since have the value that the model has.
            found = name not in made or made[name] == value
            if not found and (name != "--format" or value is not None):
                problem = (
                    f"the checkpoint was made {_with(name, made[name])}, not {_with(name, value)}"
                )
                raise DataFileError(path.name, problem)
        vocabulary = [str(name) for name in vars(model).pop("feature_names_in_", ())]
        reader, learner = stream["reader"], {name: stream["learner"][name] for name in _KEPT}
        tested, written = stream["learner"].get("tested"), stream.get("written")
        messages = stream["learner"]["messages"]
        first, second = passed = stream.get("passed", [0, 0])
        numbers = [reader[name] for name in ("offset", "line", "rows", "skipped")] + passed
        sound = (
            all(type(learner[name]) is kind for name, (_, kind) in _KEPT.items())
            and type(messages) is list
            and type(tested) in (int, type(None))
            and (written is None or (type(written) is int and written >= 0))
            and all(type(value) is int and value >= 0 for value in numbers)
            and all(type(label) in (int, str) for label in reader["labels"])
            and len(reader["labels"]) == len(reader["spellings"])
        )
        if not sound:
            raise ValueError
        metrics = Metrics(stream["metrics"])
        late = [_unlisted(row, reader["labels"]) for row in stream["learner"].get("late", ())]
        learner["tested"] = tested
        found = (model, reader, vocabulary, learner, metrics, messages, late, written)
        return Checkpoint(*found, (first, second))


def _listed(row: CodedRows) -> list[Any]:
    """A single row whose label has not come yet: label, weight, values, columns and width."""
    X = row.X
    rest = [X.data, X.indices, X.width] if isinstance(X, Rows) else [X[0], None, None]
    weight = None if row.weights is None else row.weights[0]
    return [row.codes[0], weight, *(x.tolist() if isinstance(x, np.ndarray) else x for x in rest)]


def _unlisted(row: list[Any], labels: list[Any]) -> CodedRows:
    code, weight, values, columns, width = row
    X: Any = np.array([values], dtype=np.float64)
    sound = np.isfinite(X).all() and 0 <= code < len(labels)
    if columns is not None:
        indices, spans = np.array(columns, dtype=np.int32), np.array([0, len(columns)])
        sound = sound and (indices >= 0).all() and (indices < width).all()
        sound = sound and X.shape == (1, len(columns))
        X = Rows(X[0], indices, spans, dense=False, width=0 + width)
    if not sound:
        raise ValueError
    weights = None if weight is None else np.array([weight], dtype=np.float64)
    return CodedRows(X, np.array([code]), labels, weights)


def _with(name: str, value: Any) -> str:
    """An option in words."""
    if value in (None, False, 0, []):
        return f"without {name}"
    if name == "--param":
        value = ", ".join(f"{key}={setting}" for key, setting in value)
    return f"with {name}" if value is True else f"with {name} {value}"


@contextmanager
def locked(path: Path | None) -> Iterator[None]:
    """Hold a checkpoint, so that no other process writes it meanwhile.

    The lock ends with the process, however that ends. It is on a file beside the checkpoint, which
    is replaced each time it is written.
    """
    if path is None or fcntl is None:
        yield
        return
    lock = path.with_name(f".{path.name}.lock")
    try:
        while True:
            descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Another process may have ended, and removed the file, in between.
                if lock.exists() and os.path.samestat(os.fstat(descriptor), os.stat(lock)):
                    break
            except BlockingIOError:
                os.close(descriptor)
                problem = "another process is writing this checkpoint"
                raise DataFileError(path.name, problem) from None
            except FileNotFoundError:
                pass
            os.close(descriptor)
    except OSError as error:
        raise RunError(f"{lock} cannot be locked: {error.strerror or error}") from None
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


@contextmanager
def sound_checkpoint(path: Path) -> Iterator[None]:
    """Take what goes wrong for the fault of a checkpoint, whose values may be anything."""
    try:
        yield
    except DataFileError:
        raise
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError):
        raise DataFileError(path.name, "damaged: not a checkpoint of a stream") from None
