"""Finished folds of a comparison in a file, so that a run that was stopped can go on."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong import __version__
from oblong.cli.comparison.models import Model
from oblong.cli.comparison.results import FoldResult, Settings
from oblong.cli.shared.options import writing
from oblong.io.dataset import Dataset
from oblong.io.errors import DataFileError
from oblong.persistence.journal import Journal

_FORMAT = "oblong comparison"
_SECONDS = ("fit_seconds", "predict_seconds", "search_seconds", "seconds")
_NUMBERS = ("error", "balanced_error", *_SECONDS)
_FOREIGN = "not a file of oblong compare; choose another one with --state"


class ComparisonJournal:
    """A record for each model and fold that is done, below one that says what they belong to.

    Parameters
    ----------
    path : Path
        The file.
    dataset : Dataset
        The data.
    """

    def __init__(self, path: Path, dataset: Dataset) -> None:
        self.path = path
        self._journal = Journal(path)
        self._classes = np.unique(dataset.y)
        self._head = {"format": _FORMAT, "oblong": __version__, "data": _digest(dataset)}

    def settle(self, settings: Settings) -> None:
        """Say what the results belong to."""
        self._head |= {f.name: getattr(settings, f.name) for f in fields(settings)}
        # That many were at work does not change a result.
        del self._head["jobs"]

    def plan(self) -> dict[str, Any]:
        """How many rows an earlier run has drawn, if there was one."""
        head = self._records()[0] if self.path.exists() else {}
        return {name: head.get(name) for name in ("search_rows", "kernel_rows")}

    def start(self) -> None:
        """Write a new file, with nothing done.

        Raises
        ------
        DataFileError
            If there is a file of another kind, which would be lost.
        """
        if self.path.exists() and self.path.stat().st_size:
            self._records()
        self._rewrite([])

    def resume(self, models: Sequence[Model]) -> dict[tuple[str, int], FoldResult]:
        """Take over what an earlier run has done; a file that is not there has nothing.

        Raises
        ------
        DataFileError
            If the file belongs to another comparison.
        """
        if not self.path.exists():
            self.start()
            return {}
        head, *records = self._records()
        for name, value in self._head.items():
            if head.get(name) != value:
                shown = {"data": "other data"}.get(name, f"{name} {head.get(name)}")
                raise DataFileError(self.path.name, f"holds the results of {shown}, not these")
        known = {model.name for model in models}
        done = {}
        for record in records:
            try:
                result = self._result(record)
            except (KeyError, TypeError, ValueError, IndexError):
                raise DataFileError(self.path.name, "damaged: a line cannot be read") from None
            if result.model in known:
                done[result.model, result.fold] = result
        self._rewrite(records)
        return done

    def _records(self) -> list[dict[str, Any]]:
        """The records of the file, the first of which says what they belong to."""
        try:
            records = self._journal.read()
        except (OSError, UnicodeDecodeError):
            records = []
        if not records or records[0].get("format") != _FORMAT:
            raise DataFileError(self.path.name, _FOREIGN)
        return records

    def add(self, result: FoldResult) -> None:
        """Write down one more result."""
        with writing(self.path):
            self._journal.append(self._line(result))

    def remove(self) -> None:
        """Delete the file."""
        self._journal.remove()

    def _rewrite(self, records: list[dict[str, Any]]) -> None:
        with writing(self.path):
            self._journal.replace([self._head, *records])

    def _line(self, result: FoldResult) -> dict[str, Any]:
        record = {f.name: getattr(result, f.name) for f in fields(result) if f.name != "estimator"}
        record["predicted"] = np.searchsorted(self._classes, result.predicted).tolist()
        return record

    def _result(self, record: dict[str, Any]) -> FoldResult:
        codes = np.array(record["predicted"], dtype=np.int64)
        if codes.min(initial=0) < 0:
            raise ValueError("a class")
        numbers = {name: float(record[name]) for name in _NUMBERS}
        known = record | numbers | {"predicted": self._classes[codes], "estimator": None}
        return FoldResult(**known)


def _digest(dataset: Dataset) -> str:
    """What identifies the data."""
    digest = hashlib.sha256(repr(dataset.X.shape).encode())
    X: Any = dataset.X
    parts = (X.data, X.indices, X.indptr) if sp.issparse(X) else (np.ascontiguousarray(X),)
    for part in parts:
        digest.update(part.tobytes())
    digest.update(json.dumps([str(label) for label in dataset.y.tolist()]).encode())
    return digest.hexdigest()
