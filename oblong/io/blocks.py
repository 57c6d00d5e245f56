"""Files as blocks of rows, each of which can be read by itself: text, NPY, Parquet and Arrow."""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from oblong.io.arrow import arrow_block, arrow_errors, check_expansion, feature_names, sound
from oblong.io.csv import Csv
from oblong.io.errors import DataFileError, foreign_errors
from oblong.io.labels import LabelCodes
from oblong.io.layout import find_column, make_format, table_columns
from oblong.io.libsvm import LIBSVM
from oblong.io.rows import Rows
from oblong.io.sources import LineBuffer, source_name
from oblong.linalg.row_passes import Block


@dataclass
class Asked:
    """What is asked for of all files; the first file settles what is not said.

    Columns have names, which without a header are their numbers from "1", or in NPY files indices.

    Attributes
    ----------
    target, weight : str, int or None
        The labels and the weights.
    names : list of str or int, or None
        The features.
    n_features : int
        Number of features.
    zero_based : bool or None
        Whether the indices of LIBSVM rows count from 0.
    """

    target: str | int | None
    weight: str | int | None
    names: list[Any] | None
    n_features: int = 0
    zero_based: bool | None = None

    @property
    def others(self) -> list[Any]:
        """Columns that are no features."""
        return [name for name in (self.target, self.weight) if name is not None]

    def check_names(self, source: str) -> None:
        """Refuse indices of columns that have names."""
        for name in [*self.others, *(self.names or ())]:
            if not isinstance(name, str):
                problem = f"expected names of columns, got {name!r}; indices are for NPY files"
                raise DataFileError(source, problem)

    def take_names(self, names: list[str], source: str) -> None:
        """Settle the features by the names in the first file; others must have them too."""
        if self.names is None:
            self.names = feature_names(names, self.others)
        for name in [*self.others, *self.names]:
            find_column(names, name, source)
        self.n_features = len(self.names)

    def take_width(self, d: int, source: str) -> None:
        """Settle the number of features."""
        if self.n_features not in (0, d):
            problem = f"expected {self.n_features} features as in the files before, got {d}"
            raise DataFileError(source, problem)
        self.n_features = d


class BlockFile(ABC):
    """A file, how it is read, and what it was when it was opened."""

    def __init__(self, path: str, kind: str, asked: Asked) -> None:
        self.path, self.kind, self.asked = path, kind, asked
        self.source = source_name(path)
        self._opened = self._stamp()

    def _stamp(self) -> tuple[int, int]:
        try:
            found = os.stat(self.path)
        except OSError as error:
            problem = f"cannot be read: {error.strerror or error}"
            raise DataFileError(self.source, problem) from None
        return found.st_mtime_ns, found.st_size

    def read(self, where: Any, first: int, length: int) -> Block:
        """Read a block; raises if the file is not the one that was opened."""
        block = self.block(where, first, length) if self._stamp() == self._opened else None
        if block is None or block.X.shape[0] != length:
            raise DataFileError(self.source, "the file changed while it was read")
        return block

    @abstractmethod
    def pieces(self, size: int) -> Iterator[tuple[Any, int]]:
        """Where blocks of about `size` rows are, and their numbers of rows."""

    @abstractmethod
    def block(self, where: Any, first: int, length: int) -> Block | None:
        """Read a block, whose first row is row `first` of the file; None if there are no rows."""


class NpyFile(BlockFile):
    """An NPY file of rows, mapped into memory."""

    def _array(self) -> np.ndarray:
        with foreign_errors(self.source, "damaged NPY file"):
            array = np.load(self.path, mmap_mode="r", allow_pickle=False)
        if array.ndim != 2 or array.dtype.kind not in "fiu":
            problem = f"expected rows of numbers, got shape {array.shape} of {array.dtype}"
            raise DataFileError(self.source, problem)
        return array

    def _columns(self, d: int) -> tuple[list[int], list[int]]:
        """Indices of the features, and of the labels and the weights, as far as these are there."""
        others = [self._column(name, d) for name in self.asked.others]
        if self.asked.names is None:
            features = [j for j in range(d) if j not in others]
        else:
            features = [self._column(name, d) for name in self.asked.names]
        if len({*others, *features}) < len(others) + len(features):
            raise DataFileError(self.source, "target, weight and columns have a column in common")
        return features, others

    def _column(self, name: str | int, d: int) -> int:
        if isinstance(name, str):
            return find_column([str(j + 1) for j in range(d)], name, self.source, unnamed=True)
        if not -d <= name < d:
            problem = f"expected an index of a column from {-d} to {d - 1}, got {name}"
            raise DataFileError(self.source, problem)
        return int(name) % d

    def _labels(self, column: np.ndarray, j: int, first: int) -> np.ndarray:
        """Labels: integers where all of them are."""
        if column.dtype.kind != "f":
            return np.asarray(column)
        y = np.asarray(column, dtype=np.float64)
        wrong = np.flatnonzero(~np.isfinite(y))
        if wrong.size:
            problem = f"expected a class label, got {y[wrong[0]]}"
            place: Any = {"row": first + int(wrong[0]), "column": str(j + 1)}
            raise DataFileError(self.source, problem, **place)
        whole = bool((y == np.round(y)).all() and (np.abs(y) < 2.0**53).all())
        return y.astype(np.int64) if whole else y

    def pieces(self, size: int) -> Iterator[tuple[Any, int]]:
        """Ranges of rows."""
        n, d = self._array().shape
        self.asked.take_width(len(self._columns(d)[0]), self.source)
        return ((None, min(size, n - start)) for start in range(0, n, size))

    def block(self, where: Any, first: int, length: int) -> Block:
        """Read a range of rows."""
        array = self._array()[first - 1 : first - 1 + length]
        features, others = self._columns(array.shape[1])
        y = weights = None
        if self.asked.weight is not None:
            weights = np.asarray(array[:, others[-1]])
        if self.asked.target is not None:
            y = self._labels(array[:, others[0]], others[0], first)
        whole = features == list(range(array.shape[1]))
        return Block(array if whole else array[:, features], y, weights)


class TypedFile(BlockFile):
    """A Parquet file, or one of Arrow's IPC format, in neighbouring row groups or batches."""

    def _file(self) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self.kind == "parquet":
            return pq.ParquetFile(self.path)
        return pa.ipc.open_file(pa.memory_map(self.path))

    def pieces(self, size: int) -> Iterator[tuple[Any, int]]:
        """Numbers of row groups, or of batches."""
        with arrow_errors(self.source):
            found = self._file()
            if self.kind == "parquet":
                meta, names = found.metadata, found.schema_arrow.names
                check_expansion(meta, os.path.getsize(self.path))
                lengths = [meta.row_group(g).num_rows for g in range(meta.num_row_groups)]
            else:
                names = found.schema.names
                lengths = [found.get_batch(g).num_rows for g in range(found.num_record_batches)]
        self.asked.check_names(self.source)
        self.asked.take_names(names, self.source)
        group: list[int] = []
        count = 0
        for g, length in enumerate(lengths):
            if group and count + length > size:
                yield group, count
                group, count = [], 0
            group.append(g)
            count += length
        yield group, count

    def block(self, where: Any, first: int, length: int) -> Block:
        """Read row groups, or batches."""
        features = self.asked.names or []
        names = [*features, *self.asked.others]
        with arrow_errors(self.source):
            import pyarrow as pa

            found = self._file()
            if self.kind == "parquet":
                table = sound(found.read_row_groups(where, names, use_threads=False))
            else:
                batches = [sound(found.get_batch(g)).select(names) for g in where]
                table = pa.Table.from_batches(batches)
        return arrow_block(
            table, features, self.asked.target, self.asked.weight, self.source, first
        )


class TextFile(BlockFile):
    """Delimited text or LIBSVM rows, which may be compressed: read in order if possible."""

    def __init__(self, path: str, kind: str, asked: Asked) -> None:
        super().__init__(path, kind, asked)
        self._lock = threading.Lock()
        # Rows that are open, after a block that was read.
        self._rows: Rows | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_lock": None, "_rows": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def _open(self) -> Rows:
        asked, sparse = self.asked, self.kind == "libsvm"
        asked.check_names(self.source)
        which: Any = {"target": asked.target, "weight": asked.weight}
        lines = LineBuffer(self.path)
        try:
            if sparse:
                if asked.names is not None:
                    problem, advice = "this format has no names of columns", "leave out columns="
                    raise DataFileError(self.source, problem, cause="unnamed", advice=advice)
                made = make_format(self.kind, lines, zero_based=asked.zero_based, **which)
            else:
                layout = table_columns(
                    lines,
                    **which,
                    delimiter="\t" if self.kind == "tsv" else None,
                    labelled=asked.target is not None,
                )
                places = None
                if asked.names is not None:
                    how = {"unnamed": not layout.header}
                    places = [
                        find_column(layout.names, name, self.source, **how) for name in asked.names
                    ]
                made = Csv(0, layout, features=places)
            labelled = sparse or asked.target is not None
            return Rows(lines, made, LabelCodes(steady=True) if labelled else None)
        except BaseException:
            lines.close()
            raise

    def pieces(self, size: int) -> Iterator[tuple[Any, int]]:
        """Places in the text; counts the rows."""
        asked = self.asked
        with self._open() as rows:
            made, lines = rows._format, rows._lines
            if isinstance(made, LIBSVM):
                asked.zero_based = made.zero_based
            elif isinstance(made, Csv) and made.layout.header:
                asked.take_names(made.layout.names, self.source)
            elif isinstance(made, Csv):
                asked.take_width(len(made.features), self.source)
            where, line = lines.offset, lines.line
            while (batch := rows.read(size)) is not None:
                if batch.columns is not None:
                    asked.n_features = max(asked.n_features, int(batch.columns.max(initial=-1)) + 1)
                yield (where, line, lines.fingerprint(where)), len(batch)
                where, line = batch.position.offset, batch.position.line

    def block(self, where: Any, first: int, length: int) -> Block | None:
        """Read the rows that begin at a place."""
        # One at a time and in order: the text before a block of a compressed file has to be read.
        with self._lock:
            rows, self._rows = self._rows, None
            if rows is not None and rows._lines.offset != where[0]:
                rows.close()
                rows = None
            if rows is None:
                rows = self._open()
                rows._lines.skip_to(*where)
            batch = rows.read(length)
            if rows._lines.fill():
                self._rows = rows
            else:
                rows.close()
            labels = np.array(rows.labels) if rows._labelled else None
        if batch is None:
            return None
        y = None if labels is None else labels[batch.codes]
        return Block(batch.matrix(self.asked.n_features), y, batch.weights)
