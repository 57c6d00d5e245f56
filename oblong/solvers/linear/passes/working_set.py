"""Rows that are kept between passes: in memory, or in a scratch file where memory is short."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong.linalg.first_pass import stacked

# Bytes per row that the interior point keeps beside the row itself.
STATE_BYTES = 240


class WorkingSet:
    """Gathered rows with labels, penalties of errors and of outputs beyond the bound.

    Parameters
    ----------
    memory : float
        Bytes of rows in memory; more of them go to a scratch file, which is said.
    """

    def __init__(self, memory: float) -> None:
        self.memory = memory
        self._X: list[Any] = []
        self._columns: list[tuple[np.ndarray, ...]] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._bytes = 0

    def __len__(self) -> int:
        return sum(len(part[0]) for part in self._columns)

    def __enter__(self) -> WorkingSet:
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all rows, and remove the file."""
        self._X, self._columns, self._bytes = [], [], 0
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def add(self, parts: list[Any]) -> None:
        """Add the rows that a pass has gathered."""
        for part in parts:
            if part is None or not len(part[1]):
                continue
            X, *columns = part
            self._columns.append(tuple(columns))
            self._bytes += X.data.nbytes if sp.issparse(X) else X.nbytes
            if self._folder is None and (self._bytes <= self.memory or sp.issparse(X)):
                self._X.append(X)
            else:
                self._spill(X)

    def _spill(self, X: np.ndarray) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="oblong-")
            warnings.warn(
                f"The rows to keep take more than memory={self.memory / 1e6:.0f} MB: they go to a "
                f"scratch file in {self._folder.name}, which is slower and is removed afterwards.",
                UserWarning,
                stacklevel=2,
            )
            held, self._X = self._X, []
            for rows in held:
                self._write(rows)
        self._write(X)

    def _write(self, X: np.ndarray) -> int:
        """Append to the file; return its size before."""
        assert self._folder is not None
        path = Path(self._folder.name, "rows")
        try:
            with path.open("ab") as file:
                size = file.tell()
                np.ascontiguousarray(X, dtype=np.float64).tofile(file)
        except OSError as error:
            raise OSError(
                error.errno,
                f"the scratch file of {self._bytes / 1e6:.0f} MB in {path.parent} cannot be "
                f"written ({error.strerror}): more memory= needs less of it, and TMPDIR names "
                f"another folder",
            ) from None
        return size

    def solved(
        self,
        solve: Callable[..., Any],
        means: np.ndarray,
        columns: tuple[np.ndarray, ...],
    ) -> Any:
        """``solve(X, y, C, U)`` of all rows and of the means of the others, which come last."""
        y, C, U = (
            np.concatenate([part[i] for part in self._columns] + [columns[i]]) for i in range(3)
        )
        if self._folder is None:
            sparse = bool(self._X) and sp.issparse(self._X[0])
            X = stacked([*self._X, sp.csr_matrix(means) if sparse else means])
            return solve(X, y, C, U)
        size = self._write(means)
        path = Path(self._folder.name, "rows")
        mapped = np.memmap(path, dtype=np.float64, mode="r", shape=(len(y), means.shape[1]))
        try:
            return solve(mapped, y, C, U)
        finally:
            del mapped
            os.truncate(path, size)
