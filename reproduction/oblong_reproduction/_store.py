"""Results on disk: cell by cell while an experiment runs, one JSON file in the end."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from oblong.persistence.journal import Journal, atomic_write


class StoreError(RuntimeError):
    """Stored results that do not belong to the run that was asked for."""


class Store:
    """The files of one experiment in a folder.

    While cells are missing, finished ones are lines of ``NAME.cells.jsonl``; the rest is
    ``NAME.json``, ``NAME.md`` and ``NAME.svg``. Quick runs have files of their own.

    Parameters
    ----------
    folder : Path
        Where the files are.
    experiment : str
        Name of the experiment.
    quick : bool
        Whether the run is a quick one.
    seed : int
        Seed of the run. Stored results of another seed are refused.
    """

    def __init__(self, folder: Path, experiment: str, *, quick: bool, seed: int) -> None:
        stem = f"{experiment}.quick" if quick else experiment
        self.journal = Journal(folder / f"{stem}.cells.jsonl")
        self.document = folder / f"{stem}.json"
        self.table = folder / f"{stem}.md"
        self.picture = folder / f"{stem}.svg"
        self.seed = seed

    def clear(self) -> None:
        """Remove what is stored."""
        self.journal.remove()
        for path in (self.document, self.table, self.picture):
            path.unlink(missing_ok=True)

    def processor(self) -> str:
        """Return the processor of the stored run; empty if there is none."""
        if not self.document.is_file():
            return ""
        return json.loads(self.document.read_text(encoding="utf-8"))["machine"]["processor"]

    def finished(self, bulky: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
        """Return the finished cells by name; those without their bulky part do not count."""
        found: dict[str, dict[str, Any]] = {}
        if self.document.is_file():
            stored = json.loads(self.document.read_text(encoding="utf-8"))
            self._check_seed(stored["seed"])
            found = {cell["name"]: cell for cell in stored["cells"]}
        for cell in self.journal.read():
            self._check_seed(cell["seed"])
            found[cell["name"]] = {k: v for k, v in cell.items() if k != "seed"}
        dropped = {name for name, cell in found.items() if cell.get("dropped")}
        return {name: cell for name, cell in found.items() if not (bulky and name in dropped)}

    def append(self, cell: dict[str, Any]) -> None:
        """Store a finished cell, so that it survives whatever happens next."""
        self.journal.append(plain({"seed": self.seed, **cell}))

    def finish(self, document: dict[str, Any], bulky: tuple[str, ...], complete: bool) -> None:
        """Write the JSON file; if nothing is left to do, the cells' own file is needed no more."""
        cells = document["cells"]
        if bulky:
            cells = [
                {
                    **cell,
                    "result": {k: v for k, v in cell["result"].items() if k not in bulky},
                    "dropped": True,
                }
                for cell in cells
            ]
        stored = plain({**document, "cells": cells})
        head = json.dumps({**stored, "cells": None}, indent=1, allow_nan=False, ensure_ascii=False)
        lines = ",\n".join(
            "  " + json.dumps(cell, allow_nan=False, ensure_ascii=False) for cell in stored["cells"]
        )
        listed = f"[\n{lines}\n ]" if lines else "[]"
        write_text(self.document, head.replace('"cells": null', f'"cells": {listed}') + "\n")
        if complete:
            self.journal.remove()

    def _check_seed(self, seed: int) -> None:
        if seed != self.seed:
            raise StoreError(
                f"{self.document.parent} holds results of seed {seed}: choose another folder with "
                f"-o, or start over with --fresh"
            )


def plain(value: Any) -> Any:
    """Turn arrays and NumPy numbers into what JSON has; a number that is none becomes null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path, "w") as stream:
        stream.write(text)
