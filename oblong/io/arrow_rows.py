"""Rows of Parquet and Arrow, a batch at a time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from oblong._core.text import quote
from oblong.io.arrow import (
    arrow_errors,
    arrow_labels,
    arrow_numbers,
    feature_names,
    holds_text,
)
from oblong.io.batch import Batch, Position, Reader
from oblong.io.errors import DataFileError
from oblong.io.formats import bad_weight
from oblong.io.hashing import name_column, text_columns, tidied
from oblong.io.labels import LabelCodes
from oblong.io.layout import find_column
from oblong.io.sources import source_name

# Rows that are decoded at once.
_CHUNK = 1 << 16


class ArrowReader(Reader):
    """Rows of a Parquet or Arrow file, or of anything that gives an Arrow stream.

    It is to such rows what :class:`~oblong.io.rows.RowReader` is to rows of text, and has its
    attributes and methods.

    Parameters
    ----------
    source : str, path-like, or object with ``__arrow_c_stream__``
        A file of Parquet or of Arrow's IPC format, or a table or reader of pyarrow, polars, pandas,
        DuckDB and others.
    target, weight, classes, hash_bits, text, steady_labels, state
        As for :class:`~oblong.io.rows.RowReader`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from oblong.streams import ArrowReader
    >>> table = pa.table({"size": [1.0, 2.5], "label": ["small", "large"]})
    >>> with ArrowReader(table) as reader:
    ...     batch = reader.read(10)
    >>> batch.matrix(1).ravel(), reader.labels
    (array([1. , 2.5]), ['small', 'large'])
    """

    format = "arrow"
    _most = _CHUNK

    def __init__(
        self,
        source: Any,
        *,
        target: str | None = None,
        weight: str | None = None,
        classes: Sequence[str] | None = None,
        hash_bits: int = 0,
        text: Sequence[str] = (),
        steady_labels: bool = False,
        state: dict[str, Any] | None = None,
    ) -> None:
        is_file = isinstance(source, (str, os.PathLike))
        self.source = source_name(source) if is_file else type(source).__name__
        with arrow_errors(self.source):
            schema, self._batches = _open_file(source) if is_file else _open_stream(source)
        names = feature_names(schema.names, ())
        if len(names) < 2:
            raise DataFileError(self.source, "expected a label and features, got one column")
        others = [name for name in names if name != weight]
        self._target = names[find_column(names, target, self.source)] if target else others[-1]
        self._weight = weight if weight is None else names[find_column(names, weight, self.source)]
        if self._target == self._weight:
            raise DataFileError(self.source, "the label and the weight are the same column")
        self._features = [name for name in names if name not in (self._target, self._weight)]
        for name in text:
            find_column(names, name, self.source)
        self._bits, self._texts = hash_bits, set(text)
        self._labels = LabelCodes(classes, steady=steady_labels)
        self.rows, self.skipped, self.dense = 0, 0, not hash_bits
        self.n_columns = 1 << hash_bits if hash_bits else len(self._features)
        self.names = None if hash_bits else self._features
        self.target_name = self._target
        self._rest: Any = None
        self._fingerprint = f"{self._target} of {', '.join(names)}"
        if state is not None:
            if state["fingerprint"] != self._fingerprint:
                problem = "not the input of the checkpoint, whose columns are others"
                raise DataFileError(self.source, problem)
            self._labels.restore(state["labels"], state["spellings"])
            left = int(state["rows"])
            while left and (part := self._take(left)) is not None:
                left -= part.num_rows
            self.rows = int(state["rows"])

    def close(self) -> None:
        """Close the file."""
        self._batches.close()

    def vocabulary(self, position: Position) -> list[str]:
        """Names of columns that were found in the rows: none, since all are known."""
        return []

    def state(self, position: Position) -> dict[str, Any]:
        """Everything it takes to go on after a batch, as JSON values."""
        return self._state(position, self.format, {}, self._fingerprint)

    def _take(self, n: int) -> Any:
        """So many rows, or fewer at the end of a chunk; None at the end."""
        while self._rest is None or not self._rest.num_rows:
            with arrow_errors(self.source):
                self._rest = next(self._batches, None)
            if self._rest is None:
                return None
        part, self._rest = self._rest.slice(0, n), self._rest.slice(n)
        return part

    def read(self, n: int, *, wait: bool = True) -> Batch | None:
        """Read this many rows, or fewer at the end of a chunk; None at the end of the input."""
        import pyarrow as pa

        part = self._take(n)
        if part is None:
            return None
        table = pa.Table.from_batches([part])
        columns = {name: table.column(name) for name in table.column_names}
        codes = arrow_labels(columns[self._target], self._labels, self.source, self._target)
        weights = None
        if self._weight is not None:
            weights = arrow_numbers(columns[self._weight], False, self.source, self._weight)
            if (weights < 0.0).any():
                row = int(np.flatnonzero(weights < 0.0)[0])
                problem = bad_weight(float(weights[row]))
                column = quote(self._weight)
                raise DataFileError(self.source, problem, row=self.rows + row + 1, column=column)
        self.rows += len(codes)
        counts = (self.rows, 0, len(self._labels), 0)
        position = Position(0, self.rows + 1, *counts)
        if self._bits:
            values, entries, spans = self._hashed(columns, len(codes))
            return Batch(values, entries, spans, codes, position, weights)
        numbers = [arrow_numbers(columns[f], False, self.source, f) for f in self._features]
        X = np.ascontiguousarray(np.column_stack(numbers))
        spans = np.arange(len(codes) + 1, dtype=np.int64) * X.shape[1]
        return Batch(X.ravel(), None, spans, codes, position, weights)

    def _hashed(self, columns: dict[str, Any], n: int) -> tuple[np.ndarray, ...]:
        """Rows of hashed names; as for tables of text."""
        rows: list[tuple[list[int], list[float]]] = [([], []) for _ in range(n)]
        for name in self._features:
            column = columns[name]
            if not holds_text(column):
                own = name_column(name.encode(), self._bits)
                numbers = arrow_numbers(column, True, self.source, name)
                for i in np.flatnonzero(~np.isnan(numbers)).tolist():
                    rows[i][0].append(own)
                    rows[i][1].append(float(numbers[i]))
                continue
            seen: dict[str, list[int]] = {}
            for i, word in enumerate(column.to_pylist()):
                if word is None or word == "":
                    continue
                if word not in seen:
                    whole = f"{name}={word}".encode("utf-8", "replace")
                    one = [name_column(whole, self._bits)]
                    is_text = name in self._texts
                    seen[word] = text_columns(name, word, self._bits) if is_text else one
                rows[i][0].extend(seen[word])
                rows[i][1].extend([1.0] * len(seen[word]))
        tidy = [tidied(*row) for row in rows]
        spans = np.zeros(n + 1, dtype=np.int64)
        np.cumsum([len(entries) for entries, _ in tidy], out=spans[1:])
        return np.concatenate([v for _, v in tidy]), np.concatenate([c for c, _ in tidy]), spans


def _open_file(path: Any) -> tuple[Any, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with open(path, "rb") as file:
        magic = file.read(6)
    if magic[:4] == b"PAR1":
        found = pq.ParquetFile(path)
        # Threads of Arrow must not outlive memory that Python owns.
        return found.schema_arrow, found.iter_batches(_CHUNK, use_threads=False)
    if magic == b"ARROW1":
        reader = pa.ipc.open_file(pa.OSFile(os.fspath(path)))
        count = reader.num_record_batches
        return reader.schema, (reader.get_batch(i) for i in range(count))
    return _open_stream(pa.ipc.open_stream(pa.OSFile(os.fspath(path))))


def _open_stream(source: Any) -> tuple[Any, Any]:
    import pyarrow as pa

    reader = pa.RecordBatchReader.from_stream(source)
    return reader.schema, (batch for batch in reader)
