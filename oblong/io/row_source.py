"""Rows of files that are read several times, a block at a time: what does not fit into memory."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from oblong.io.arrow import arrow_block, arrow_errors, open_npy
from oblong.io.csv import Columns, Csv
from oblong.io.errors import DataFileError
from oblong.io.labels import LabelCodes
from oblong.io.layout import EXTENSIONS, find_column, find_format, make_format, table_columns
from oblong.io.libsvm import LIBSVM
from oblong.io.rows import Rows
from oblong.io.sources import LineBuffer, source_name
from oblong.linalg.row_passes import ArrayRows, Block, Place

_BINARY = {".npy": "npy", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}
_KINDS = ("parquet", "arrow", "csv", "tsv", "libsvm", "npy")
_UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


def as_bytes(memory: str | float) -> float:
    """Bytes of a text such as "256MB"."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]?)i?b?\s*", str(memory).lower())
    value = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not value > 0.0:
        raise ValueError(f'memory must be a number of bytes or a text such as "256MB": {memory!r}')
    return value


class _Piece(NamedTuple):
    """A block of a file: row groups, record batches, a range of rows, or where its text starts."""

    file: int
    where: Any
    first: int
    length: int


class _File(NamedTuple):
    """A file, how it is read, and what it was when it was opened."""

    path: str
    kind: str
    stamp: tuple[int, int]
    layout: Any = None


def open_rows(
    source: Any,
    *,
    target: str | int | None = None,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    format: str | None = None,
    batch_size: int = 131_072,
    memory: str | float = "256MB",
) -> FileRows | ArrayRows:
    """Open rows that estimators read several times, a block at a time.

    Parameters
    ----------
    source : str, path-like, list of them, Arrow data or array
        A file, a folder, or a pattern such as ``"data/*.parquet"``: Parquet, Arrow, NPY, or CSV and
        LIBSVM, which may be compressed. An array or a memory map is taken as it is, and whatever
        exports an Arrow stream as a table.
    target : str or int, default=None
        Name of the labels, or their column in NPY files; by default there are none, but in LIBSVM
        files, where they come first. The labels themselves for arrays.
    columns : sequence of str, default=None
        Names of the features; by default all other columns.
    weight : str, default=None
        Name of the weights; by default every row has the weight one. The weights for arrays.
    format : {"parquet", "arrow", "csv", "tsv", "libsvm", "npy"}, default=None
        The format; by default that of the extension.
    batch_size : int, default=131072
        Rows of a block, about. Parquet files are cut between row groups only.
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
        columns = list(columns)
        others = [name for name in (target, weight) if isinstance(name, str)]
        twice = [name for name in columns if [*columns, *others].count(name) > 1]
        if twice:
            raise ValueError(f"columns, target and weight name {twice[0]!r} more than once")
    if format is not None and format not in _KINDS:
        raise ValueError(f"format must be one of {', '.join(_KINDS)}, got {format!r}")
    if hasattr(source, "__arrow_c_stream__"):
        return _arrow_in_memory(source, target, columns, weight, size, room)
    if isinstance(source, np.ndarray) or sp.issparse(source):
        rows = source.tocsr() if sp.issparse(source) else source
        labels = None if target is None else np.asarray(target)
        weights = None if weight is None else np.asarray(weight)
        return ArrayRows(rows, labels, weights, block_rows=size, memory=room)
    paths = _paths(source, format)
    return FileRows(paths, target, columns, weight, format, size, room)


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


def _stamp(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise DataFileError(source_name(path), problem) from None
    return found.st_mtime_ns, found.st_size


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
        columns: Sequence[str] | None,
        weight: str | None,
        format: str | None,
        size: int,
        memory: float,
    ) -> None:
        self.target, self.weight, self.memory = target, weight, memory
        self.feature_names: list[str] | None = None if columns is None else list(columns)
        self._files: list[_File] = []
        self._pieces: list[_Piece] = []
        self._lock = threading.Lock()
        self._reading: tuple[int, Rows] | None = None
        self.n_features, self._several = 0, len(paths) > 1
        index: dict[str, Callable[..., Any]] = {
            "parquet": self._index_typed,
            "arrow": self._index_typed,
            "npy": self._index_npy,
        }
        for path in paths:
            kind = _kind(path, format)
            if kind is None:
                known = ", ".join([*_BINARY, *(e for e, k in EXTENSIONS.items() if k in _KINDS)])
                raise DataFileError(source_name(path), f"expected one of {known}; choose format=")
            self._files.append(_File(path, kind, _stamp(path)))
            index.get(kind, self._index_text)(path, kind, size)
        kinds = {file.kind == "libsvm" for file in self._files}
        if len(kinds) > 1:
            raise DataFileError(source_name(paths[0]), "LIBSVM rows and tables do not mix")
        self.sparse = kinds == {True}
        self.labelled = self.sparse or target is not None
        self.lengths: Sequence[int] | None = [piece.length for piece in self._pieces]
        self.n_blocks = len(self._pieces)
        if not self.n_blocks or not self.n_features:
            raise DataFileError(source_name(paths[0]), "no rows with features")

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_lock": None, "_reading": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def __len__(self) -> int:
        return sum(self.lengths or ())

    def __iter__(self) -> Iterator[Block]:
        return map(self.block, range(self.n_blocks))

    def place(self, k: int) -> Place:
        """Where a block lies."""
        piece = self._pieces[k]
        return Place(source_name(self._files[piece.file].path), piece.first, piece.length)

    def block(self, k: int) -> Block:
        """Read a block; raises if the file is not the one that was opened."""
        piece = self._pieces[k]
        file = self._files[piece.file]
        if _stamp(file.path) != file.stamp:
            raise DataFileError(source_name(file.path), "the file changed while it was read")
        if file.kind == "npy":
            return self._read_npy(file, piece)
        if file.kind in ("parquet", "arrow"):
            return self._read_table(file, piece)
        return self._read_text(file, k)

    # What is in a file -------------------------------------------------------------------------

    def _add(self, where: Any, first: int, length: int) -> None:
        if length:
            self._pieces.append(_Piece(len(self._files) - 1, where, first, length))

    def _add_grouped(self, lengths: Sequence[int], size: int) -> None:
        """Blocks of neighbours that have about `size` rows together."""
        group: list[int] = []
        first, count = 1, 0
        for g, length in enumerate(lengths):
            if group and count + length > size:
                self._add(tuple(group), first, count)
                first, group, count = first + count, [], 0
            group.append(g)
            count += length
        self._add(tuple(group), first, count)

    def _take_names(self, names: Sequence[str], source: str) -> None:
        """Settle the features by the names in the first file; others must have them too."""
        wanted = [self.target] if isinstance(self.target, str) else []
        wanted += [self.weight] if self.weight is not None else []
        for name in wanted:
            find_column(names, name, source)
        if self.feature_names is None:
            self.feature_names = _features(names, wanted)
        for name in self.feature_names:
            find_column(names, name, source)
        self.n_features = len(self.feature_names)

    def _index_typed(self, path: str, kind: str, size: int) -> None:
        source = source_name(path)
        with arrow_errors(source):
            found = _opened(path, kind)
            if kind == "parquet":
                meta = found.metadata
                lengths = [meta.row_group(g).num_rows for g in range(meta.num_row_groups)]
                names = found.schema_arrow.names
            else:
                lengths = [found.get_batch(g).num_rows for g in range(found.num_record_batches)]
                names = found.schema.names
        self._take_names(names, source)
        self._add_grouped(lengths, size)

    def _index_npy(self, path: str, kind: str, size: int) -> None:
        array = open_npy(path)
        n, d = array.shape
        self._same_width(d - (self.target is not None), path)
        for start in range(0, n, size):
            self._add((start, min(n, start + size)), start + 1, min(size, n - start))

    def _same_width(self, d: int, path: str) -> None:
        if self.n_features not in (0, d):
            problem = f"expected {self.n_features} features as in the files before, got {d}"
            raise DataFileError(source_name(path), problem)
        self.n_features = d

    def _index_text(self, path: str, kind: str, size: int) -> None:
        """Count the rows of a text, and note where its blocks start."""
        try:
            rows = self._open_text(self._files[-1])
        except DataFileError as error:
            # Like Parquet files, one of several may have no rows.
            if error.cause == "empty" and self._several:
                return
            raise
        with rows:
            if isinstance(rows._format, Csv):
                layout = rows._format.layout
                self._files[-1] = self._files[-1]._replace(layout=layout)
                if layout.header:
                    self._take_names(layout.names, rows._lines.source)
                else:
                    self._same_width(len(layout.features), path)
            elif isinstance(rows._format, LIBSVM):
                zero = rows._format.zero_based
                self._files[-1] = self._files[-1]._replace(layout=zero)
            lines = rows._lines
            where, line, count = lines.offset, lines.line, 0
            while (batch := rows.read(size)) is not None:
                if batch.columns is not None and batch.columns.size:
                    self.n_features = max(self.n_features, int(batch.columns.max()) + 1)
                spot = (where, line, lines.fingerprint(where))
                self._add(spot, count + 1, len(batch))
                where, line = batch.position.offset, batch.position.line
                count += len(batch)

    # Reading -----------------------------------------------------------------------------------

    def _open_text(self, file: _File) -> Rows:
        lines = LineBuffer(file.path)
        try:
            labels = None if self.target is None else LabelCodes(steady=True)
            made: Any
            if file.kind == "libsvm":
                labels = LabelCodes(steady=True)
                # Whether indices count from zero, the first file with rows tells for all.
                known = (other.layout for other in self._files if other.layout is not None)
                made = make_format(file.kind, lines, zero_based=next(known, None))
            else:
                layout: Columns = table_columns(
                    lines,
                    target=None if self.target is None else str(self.target),
                    weight=self.weight,
                    delimiter="\t" if file.kind == "tsv" else None,
                    labelled=self.target is not None,
                )
                places = None
                if self.feature_names is not None and layout.header:
                    source = lines.source
                    names = self.feature_names
                    places = [find_column(layout.names, name, source) for name in names]
                made = Csv(0, layout, features=places)
            return Rows(lines, made, labels)
        except BaseException:
            lines.close()
            raise

    def _read_text(self, file: _File, k: int) -> Block:
        piece = self._pieces[k]
        # One at a time and in order: the text before a block of a compressed file has to be read.
        with self._lock:
            rows = None
            if self._reading is not None:
                at, rows = self._reading
                self._reading = None
                if at != k:
                    rows.close()
                    rows = None
            if rows is None:
                rows = self._open_text(file)
                rows._lines.skip_to(*piece.where)
            batch = rows.read(piece.length)
            following = k + 1 < len(self._pieces) and self._pieces[k + 1].file == piece.file
            if following:
                self._reading = (k + 1, rows)
            else:
                rows.close()
            labels = rows._labels.values() if rows._labelled else None
        if batch is None or len(batch) != piece.length:
            raise DataFileError(source_name(file.path), "the file changed while it was read")
        y = None if labels is None else np.array(labels)[batch.codes]
        return Block(batch.matrix(self.n_features), y, batch.weights)

    def _read_npy(self, file: _File, piece: _Piece) -> Block:
        array = open_npy(file.path)[slice(*piece.where)]
        if self.target is None:
            return Block(array)
        column = int(self.target) % array.shape[1]
        y = np.asarray(array[:, column])
        whole = y.dtype.kind == "f" and bool((y == np.round(y)).all())
        return Block(np.delete(array, column, axis=1), y.astype(np.int64) if whole else y)

    def _read_table(self, file: _File, piece: _Piece) -> Block:
        assert self.feature_names is not None
        names = [*self.feature_names]
        names += [str(name) for name in (self.target, self.weight) if name is not None]
        with arrow_errors(source_name(file.path)):
            import pyarrow as pa

            found = _opened(file.path, file.kind)
            if file.kind == "parquet":
                table = found.read_row_groups(list(piece.where), names, use_threads=False)
            else:
                batches = [found.get_batch(g).select(names) for g in piece.where]
                table = pa.Table.from_batches(batches)
        return arrow_block(
            table, self.feature_names, self.target, self.weight, file.path, piece.first
        )


def _features(names: Sequence[str], others: Collection[Any]) -> list[str]:
    """Names of features: neither others nor those of the index of a pandas table."""
    return [name for name in names if not (name in others or name.startswith("__index_level_"))]


def _opened(path: str, kind: str) -> Any:
    """A Parquet file, or one of Arrow's IPC format."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pq.ParquetFile(path) if kind == "parquet" else pa.ipc.open_file(pa.memory_map(path))


def _arrow_in_memory(
    source: Any, target: Any, columns: Any, weight: Any, size: int, memory: float
) -> ArrayRows:
    import pyarrow as pa

    table = pa.table(source)
    others = {target, weight}
    features = list(columns or _features(table.column_names, others))
    for name in [*features, *(name for name in (target, weight) if name is not None)]:
        find_column(table.column_names, name, "Arrow data")
    found = arrow_block(table, features, target, weight, "Arrow data")
    rows = ArrayRows(*found, block_rows=size, memory=memory)
    rows.feature_names = features
    return rows
