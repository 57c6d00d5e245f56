"""Checkpoints: the learner, where it is in the input, and what was found so far, in one file.

A checkpoint is a model file with a few words more, so it is written whole or not at all, runs no
code when it is read, and can be used as a model at any time.
"""

from __future__ import annotations

import copy
import glob
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oblong.cli.errors import RunError
from oblong.cli.stream.learner import StreamLearner
from oblong.cli.stream.metrics import Metrics
from oblong.datasets import DataFileError
from oblong.persistence import ModelFileError, load, read_manifest, save
from oblong.streams import Position, RowReader

__all__ = ["Checkpoint", "named", "read_checkpoint", "write_checkpoint"]

_VERSION = 2


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds."""

    model: Any
    reader: dict[str, Any]
    vocabulary: list[str]
    learner: dict[str, Any]
    metrics: dict[str, Any]

    def resume(self, learner: StreamLearner) -> None:
        """Put a learner where that of the checkpoint was."""
        learner.model = self.model
        for name, value in self.learner.items():
            setattr(learner, name, value)


def named(model: Any, names: list[str] | None) -> Any:
    """A copy of a model that knows the names of its columns."""
    model = copy.copy(model)
    if names and len(names) == getattr(model, "n_features_in_", 0):
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def write_checkpoint(
    path: Path,
    options: dict[str, Any],
    reader: RowReader,
    position: Position,
    learner: StreamLearner,
    metrics: Metrics,
) -> None:
    """Write a checkpoint in place of the one before."""
    vocabulary = reader.vocabulary(position)
    model = learner.model
    if vocabulary:
        model = copy.copy(model)
        # Names may outnumber columns: there may be no model yet, and no columns.
        model.feature_names_in_ = np.array(vocabulary, dtype=object)
    stream = {
        "version": _VERSION,
        "options": options,
        "reader": reader.state(position),
        "learner": {
            name: getattr(learner, name)
            for name in ("classes", "declared", "surprises", "waited", "width", "messages")
        },
        "metrics": metrics.state(),
    }
    try:
        save(model, path, training={"stream": stream})
    except ModelFileError as error:
        raise RunError(str(error)) from None


def read_checkpoint(path: Path, options: dict[str, Any]) -> Checkpoint | None:
    """Read a checkpoint, if there is one, and see that it belongs to the command."""
    for draft in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        # What a run that was killed in the middle of writing has left.
        draft.unlink(missing_ok=True)
    if not path.exists():
        return None
    try:
        stream = read_manifest(path).get("training", {}).get("stream")
        model = load(path)
    except ModelFileError as error:
        raise DataFileError(path.name, f"no checkpoint: {error}") from None
    if not isinstance(stream, dict) or stream.get("version") != _VERSION:
        raise DataFileError(path.name, "a model, but no checkpoint of a stream")
    for name, value in options.items():
        before = stream["options"].get(name)
        if before != value:
            problem = f"the checkpoint was made with {name} {before}, not {value}"
            raise DataFileError(path.name, problem)
    vocabulary = [str(name) for name in vars(model).pop("feature_names_in_", ())]
    return Checkpoint(model, stream["reader"], vocabulary, stream["learner"], stream["metrics"])
