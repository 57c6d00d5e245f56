"""Rows of files that are read several times, a block at a time: what does not fit into memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from oblong.io.arrow import arrow_block
from oblong.io.blocks import Asked, BlockFile, NpyFile, TextFile, TypedFile
from oblong.io.errors import DataFileError, advice_for
from oblong.io.layout import EXTENSIONS, find_format
from oblong.io.sources import source_name
from oblong.linalg.row_passes import ArrayRows, Block, Place

_BINARY = {".npy": "npy", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}
_KINDS = ("parquet", "arrow", "csv", "tsv", "libsvm", "npy")
_READERS: dict[str, type[BlockFile]] = {
    "parquet": TypedFile,
    "arrow": TypedFile,
    "npy": NpyFile,
}
# Of open_rows, which errors may name.
_PARAMETERS = ("target", "columns", "weight", "format")
_UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


def as_bytes(memory: str | float) -> float:
    """Bytes of a text such as "256MB"."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]?)i?b?\s*", str(memory).lower())
    value = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not value > 0.0:
        raise ValueError(f'memory must be a number of bytes or a text such as "256MB": {memory!r}')
    return value


class _Piece(NamedTuple):
    """A block of a file: where it is, the number of its first row, and its number of rows."""

    file: BlockFile
    where: Any
    first: int
    length: int


@advice_for(*_PARAMETERS)
def open_rows(
    source: Any,
    *,
    target: Any = None,
    columns: Sequence[str | int] | None = None,
    weight: Any = None,
    format: str | None = None,
    batch_size: int = 131_072,
    memory: str | float = "256MB",
) -> FileRows | ArrayRows:
    """Open rows that estimators read several times, a block at a time.

    Parameters
    ----------
    source : str, path-like, list of them, Arrow data or array
        A file, a folder, or a pattern such as ``"data/*.parquet"``: Parquet, Arrow, NPY, or CSV and
        LIBSVM, which may be compressed. An array or a memory map is used as it is; any object that
        exports an Arrow stream is read as a table.
    target : str, int or array, default=None
        Name of the label column; by default there are no labels, except in LIBSVM files, where they
        come first. Columns without names, in CSV files without a header and in NPY files, have the
        names "1", "2" and so on. In NPY files it may also be the index of the column, from 0, or
        below 0 from the last. For arrays, the labels themselves.
    columns : sequence of str or int, default=None
        The features, in the same way; by default all other columns.
    weight : str, int or array, default=None
        The weight column, in the same way; by default every row has the weight one.
    format : {"parquet", "arrow", "csv", "tsv", "libsvm", "npy"}, default=None
        The format; by default it follows from the extension.
    batch_size : int, default=131072
        Approximate number of rows per block. Parquet files are split between row groups only.
    memory : str or float, default="256MB"
        Bytes for rows that an estimator keeps between passes. If all rows fit, they are kept.

    Returns
    -------
    FileRows or ArrayRows
        The rows, for ``fit``. Iterating gives blocks with ``X``, ``y`` and ``weight``.

    Raises
    ------
    DataFileError
        If a file cannot be read, is malformed, or changes while it is read.

    Examples
    --------
    >>> import os, tempfile
    >>> from oblong import LinearRelativeMarginClassifier
    >>> from oblong.io import open_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in range(2):
    ...         with open(os.path.join(folder, f"part-{part}.csv"), "w") as file:
    ...             print("weight,length,kind", file=file)
    ...             for k in range(20):
    ...                 print(f"{150 + k},{7 + part},apple", file=file)
    ...                 print(f"{120 - k},{19 + part},banana", file=file)
    ...     rows = open_rows(os.path.join(folder, "part-*.csv"), target="kind")
    ...     model = LinearRelativeMarginClassifier().fit(rows)
    >>> model.feature_names_in_, model.converged_
    (array(['weight', 'length'], dtype=object), True)
    """
    size, room = int(batch_size), as_bytes(memory)
    if size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size!r}")
    if columns is not None:
        if isinstance(columns, str):
            raise ValueError(f"columns must be a list of names, got {columns!r}")
        columns = [_name("columns", name) for name in columns]
        others = [name for name in (target, weight) if isinstance(name, (str, int))]
        twice = [name for name in columns if [*columns, *others].count(name) > 1]
        if twice:
            raise ValueError(f"columns, target and weight name {twice[0]!r} more than once")
    if format is not None and format not in _KINDS:
        raise ValueError(f"format must be one of {', '.join(_KINDS)}, got {format!r}")
    if isinstance(source, np.ndarray) or sp.issparse(source):
        if columns is not None:
            raise ValueError("columns are for files and tables; choose those of the array")
        rows = source.tocsr() if sp.issparse(source) else source
        labels, weights = _one_per_row("target", target, rows), _one_per_row("weight", weight, rows)
        return ArrayRows(rows, labels, weights, block_rows=size, memory=room)
    target, weight = _name("target", target), _name("weight", weight)
    if hasattr(source, "__arrow_c_stream__"):
        return _arrow_in_memory(source, Asked(target, weight, columns), size, room)
    paths = _paths(source, format)
    return FileRows(paths, target, columns, weight, format, size, room)


def _name(what: str, value: Any) -> Any:
    """A name or an index of a column; anything else is an error."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    kind = "names, or indices in NPY files," if what == "columns" else "a name, or an index,"
    raise ValueError(f"{what} must be {kind} got {value!r}")


def _one_per_row(what: str, values: Any, rows: Any) -> np.ndarray | None:
    """Labels or weights of an array of rows."""
    if values is None:
        return None
    found = np.asarray(values)
    if rows.ndim != 2 or found.shape != rows.shape[:1]:
        raise ValueError(f"{what} must have one value per row of {rows.shape}, got {found.shape}")
    return found


def _paths(source: Any, format: str | None) -> list[str]:
    given = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    found: list[str] = []
    for item in (str(os.fspath(item)) for item in given):
        if os.path.isdir(item):
            inside = sorted(str(path) for path in Path(item).rglob("*") if path.is_file())
            inside = [p for p in inside if not Path(p).name.startswith((".", "_"))]
            matched = [p for p in inside if format or _kind(p, None)]
        elif not os.path.exists(item) and any(letter in item for letter in "*?["):
            matched = sorted(glob(item, recursive=True))
        else:
            matched = [item]
        if not matched:
            raise DataFileError(item, "no files there that can be read")
        found += matched
    if not found:
        raise DataFileError("open_rows", "expected files, got none")
    return found


def _kind(path: str, format: str | None) -> str | None:
    kind = format or _BINARY.get(Path(path).suffix.lower()) or find_format(path)
    return kind if kind in _KINDS else None


class FileRows:
    """Rows of files in numbered blocks; see :func:`open_rows`.

    Attributes
    ----------
    n_features, n_blocks : int
        Number of columns and of blocks.
    lengths : list of int
        Rows of each block.
    feature_names : list of str or None
        Names of the columns, where the files name them.
    labelled : bool
        Whether rows have labels.
    memory : float
        Bytes for rows that an estimator keeps between passes.
    """

    def __init__(
        self,
        paths: Sequence[str],
        target: str | int | None,
        columns: Sequence[str | int] | None,
        weight: str | int | None,
        format: str | None,
        size: int,
        memory: float,
    ) -> None:
        self.memory = memory
        self._pieces: list[_Piece] = []
        asked = Asked(target, weight, None if columns is None else list(columns))
        kinds = set()
        for path in paths:
            kind = _kind(path, format)
            if kind is None:
                known = ", ".join([*_BINARY, *(e for e, k in EXTENSIONS.items() if k in _KINDS)])
                raise DataFileError(source_name(path), f"expected one of {known}; choose format=")
            kinds.add(kind == "libsvm")
            file, first = _READERS.get(kind, TextFile)(path, kind, asked), 1
            try:
                for where, length in file.pieces(size):
                    if length:
                        self._pieces.append(_Piece(file, where, first, length))
                        first += length
            except DataFileError as error:
                # Like Parquet files, one of several may have no rows.
                if error.cause != "empty" or len(paths) == 1:
                    raise
        if len(kinds) > 1:
            raise DataFileError(source_name(paths[0]), "LIBSVM rows and tables do not mix")
        names = asked.names if all(isinstance(name, str) for name in asked.names or ()) else None
        self.n_features, self.feature_names = asked.n_features, names
        self.sparse = kinds == {True}
        self.labelled = self.sparse or target is not None
        self.lengths: Sequence[int] | None = [piece.length for piece in self._pieces]
        self.n_blocks = len(self._pieces)
        if not self.n_blocks or not self.n_features:
            raise DataFileError(source_name(paths[0]), "no rows with features")

    def __len__(self) -> int:
        return sum(self.lengths or ())

    def __iter__(self) -> Iterator[Block]:
        return map(self.block, range(self.n_blocks))

    def place(self, k: int) -> Place:
        """Where a block lies."""
        piece = self._pieces[k]
        return Place(piece.file.source, piece.first, piece.length)

    def block(self, k: int) -> Block:
        """Read a block; raises if the file is not the one that was opened."""
        file, *piece = self._pieces[k]
        with advice_for(*_PARAMETERS):
            return file.read(*piece)


def _arrow_in_memory(source: Any, asked: Asked, size: int, memory: float) -> ArrayRows:
    import pyarrow as pa

    table, what = pa.table(source), "Arrow data"
    asked.check_names(what)
    asked.take_names(table.column_names, what)
    found = arrow_block(table, asked.names or [], asked.target, asked.weight, what)
    rows = ArrayRows(*found, block_rows=size, memory=memory)
    rows.feature_names = asked.names
    return rows
