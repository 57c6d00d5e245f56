"""Rows of a file of any size, a batch at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong.datasets import DataFileError
from oblong.streams._formats import Format, OneRow, Parsed, RowError, bad_weight
from oblong.streams._labels import LabelCodes
from oblong.streams._layout import FORMATS, detect_format, make_format
from oblong.streams._source import LineBuffer
from oblong.streams._table import Table

__all__ = ["Batch", "Position", "RowReader"]

# Columns of a file that does not say how many it has.
_MOST_COLUMNS = 1 << 24
# Bytes of a batch. Batches end where the input passes a multiple of it, whatever was read before.
_BLOCK = 1 << 23


@dataclass(frozen=True)
class Position:
    """How far a reader has come.

    Attributes
    ----------
    offset, line : int
        Bytes consumed, decompressed, and the number of the next line.
    rows, skipped : int
        Rows taken, and rows left out because they were wrong.
    n_labels, n_names : int
        Labels and names of columns that were known then.
    """

    offset: int
    line: int
    rows: int
    skipped: int
    n_labels: int
    n_names: int


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of a stream.

    Attributes
    ----------
    values : ndarray of float
        Entries of the rows.
    columns : ndarray of int32, or None
        Their columns, sorted and different within a row; None for rows with all columns.
    indptr : ndarray of int64, of shape (n_rows + 1,)
        Where the rows start.
    codes : ndarray of int32, of shape (n_rows,)
        Numbers of the labels in :attr:`RowReader.labels`.
    position : Position
        Where the reader is after the batch.
    weights : ndarray of float of shape (n_rows,), or None
        Weights of the rows; None for rows without.
    """

    values: np.ndarray
    columns: np.ndarray | None
    indptr: np.ndarray
    codes: np.ndarray
    position: Position
    weights: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def matrix(self, n_columns: int) -> np.ndarray | sp.csr_matrix:
        """The rows as an array, or as a sparse matrix."""
        if self.columns is None:
            return self.values.reshape(len(self), n_columns)
        parts = (self.values, self.columns, self.indptr)
        return sp.csr_matrix(parts, shape=(len(self), n_columns))


class RowReader:
    r"""Rows of a file or of standard input, in memory that does not depend on their number.

    Parameters
    ----------
    path : str or path-like
        The file, or ``"-"``; plain, or compressed by gzip or Zstandard.
    format : {"libsvm", "csv", "tsv", "json"}, default=None
        The format; by default that of the extension, or else of the first row.
    target : str, default=None
        Name of the label in a table (the last column by default) or in JSON objects.
    weight : str, default=None
        Name of the weight in a table or in JSON objects; by default rows have none.
    classes : sequence of str, default=None
        All labels there are; by default labels are taken as they come.
    hash_bits : int, default=0
        Names of features are hashed to this many bits; 0 for no hashing. Words in tables and in
        JSON objects then become features ``name=word``.
    n_features : int, default=None
        Number of columns of LIBSVM rows; by default it is found out as they come.
    zero_based : bool, default=False
        Whether the indices of LIBSVM rows count from 0.
    header : bool, default=None
        Whether a table has a header; by default its first rows decide.
    skip_bad : bool, default=False
        Whether a row that is wrong is skipped and counted, or an error.
    state : dict, default=None
        What :meth:`state` returned in an earlier run over the same input, which goes on there.
    vocabulary : sequence of str, default=()
        What :meth:`vocabulary` returned then.

    Attributes
    ----------
    labels : list of int or str
        The labels seen so far, or declared.
    spellings : list of str
        How each of them was spelled when it first came.
    n_columns : int or None
        Number of columns if it is known.
    names : list of str or None
        Names of the columns so far, where there are such.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from oblong.streams import RowReader
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "rows.libsvm"
    ...     _ = path.write_text("+1 1:0.5 3:2\n-1 2:1 # a comment\n")
    ...     with RowReader(path) as reader:
    ...         batch = reader.read(10)
    >>> batch.matrix(3).toarray()
    array([[0.5, 0. , 2. ],
           [0. , 1. , 0. ]])
    >>> batch.codes, reader.labels
    (array([0, 1], dtype=int32), [1, -1])
    """

    def __init__(
        self,
        path: Any,
        *,
        format: str | None = None,
        target: str | None = None,
        weight: str | None = None,
        classes: Sequence[str] | None = None,
        hash_bits: int = 0,
        n_features: int | None = None,
        zero_based: bool = False,
        header: bool | None = None,
        skip_bad: bool = False,
        state: dict[str, Any] | None = None,
        vocabulary: Sequence[str] = (),
    ) -> None:
        if format is not None and format not in FORMATS:
            raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
        self.skip_bad = skip_bad
        self._lines = LineBuffer(path)
        self._rows = self._skipped = 0
        name = state["format"] if state else format or detect_format(self._lines)
        self._vocabulary = {word: j for j, word in enumerate(vocabulary)}
        self._format: Format = make_format(
            name,
            self._lines,
            bits=hash_bits,
            limit=1 << hash_bits if hash_bits else n_features or _MOST_COLUMNS,
            target=target,
            weight=weight,
            zero_based=zero_based,
            header=header,
            state=None if state is None else state["layout"],
            vocabulary=self._vocabulary,
        )
        self.format = name
        self._weighted = weight is not None
        self._labels = LabelCodes(classes, numbers=self._format.numeric_labels)
        if isinstance(self._format, Table) and not hash_bits:
            self.n_columns: int | None = len(self._format.names) - 1 - self._weighted
        else:
            self.n_columns = 1 << hash_bits if hash_bits else n_features
        if state is not None:
            self._labels.restore(state["labels"], state["spellings"])
            self._rows, self._skipped = state["rows"], state["skipped"]
            self._lines.skip_to(state["offset"], state["line"], state["fingerprint"])

    def __enter__(self) -> RowReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._lines.close()

    @property
    def source(self) -> str:
        """Name of the input for messages."""
        return self._lines.source

    @property
    def labels(self) -> list[int | str]:
        """The labels seen so far, or declared."""
        return self._labels.values

    @property
    def spellings(self) -> list[str]:
        """How each of the labels was spelled when it first came."""
        return self._labels.spellings

    @property
    def dense(self) -> bool:
        """Whether rows have all columns."""
        return self._format.dense

    @property
    def names(self) -> list[str] | None:
        """Names of the columns so far, where there are such."""
        if self._format.bits:
            return None
        if isinstance(self._format, Table):
            return self._format.feature_names if self._format.header else None
        return list(self._vocabulary) or None

    @property
    def rows(self) -> int:
        """Rows read, those of earlier runs included."""
        return self._rows

    @property
    def skipped(self) -> int:
        """Rows left out because they were wrong."""
        return self._skipped

    def close_labels(self) -> None:
        """Take no more labels than there are now."""
        self._labels.closed = True

    def state(self, position: Position) -> dict[str, Any]:
        """Everything it takes to go on after a batch, as JSON values but for the vocabulary.

        The reader may have gone on since. The vocabulary, :meth:`vocabulary`, is left out because
        it may be large.
        """
        return {
            "format": self.format,
            "layout": self._format.state(),
            "labels": self.labels[: position.n_labels],
            "spellings": self.spellings[: position.n_labels],
            "offset": position.offset,
            "line": position.line,
            "rows": position.rows,
            "skipped": position.skipped,
            "fingerprint": self._lines.fingerprint(position.offset),
        }

    def vocabulary(self, position: Position) -> list[str]:
        """Names of columns that were found in the rows before a position."""
        # One step, during which no other thread can add names.
        return list(self._vocabulary)[: position.n_names]

    # Rows ----------------------------------------------------------------------------------------

    def read(self, n: int) -> Batch | None:
        """Read so many rows, or fewer if these are long; None at the end of the input.

        Which rows make a batch depends on the input only, not on where reading started.

        Raises
        ------
        DataFileError
            If a row is wrong, with the number of its line, unless such rows are skipped.
        """
        parts: list[tuple[np.ndarray | None, ...]] = []
        missing, lines = n, self._lines
        limit = 0
        while missing and (missing == n or lines.offset < limit) and lines.fill():
            if missing == n:
                limit = (lines.offset // _BLOCK + 1) * _BLOCK
            stop = lines.stop_after(limit)
            parsed = self._format.parse(lines.text, lines.start, stop, missing)
            part = self._coded(parsed)
            lines.line += parsed.lines
            lines.start = parsed.position
            if len(part[3]):
                parts.append(part)
                missing -= len(part[3])
            if parsed.stuck and missing:
                single = self._careful()
                if single is not None:
                    parts.append(single)
                    missing -= 1
        if missing == n:
            return None
        self._rows += n - missing
        position = Position(
            self._lines.offset,
            self._lines.line,
            self._rows,
            self._skipped,
            len(self._labels.values),
            len(self._vocabulary),
        )
        return self._joined(parts, position)

    def _coded(self, parsed: Parsed) -> Any:
        """Look up the labels of parsed rows; rows without one are left out."""
        lines = self._lines
        codes, problems = self._labels.codes(lines.text, parsed.spans)
        lengths, weights = np.diff(parsed.indptr), parsed.weights
        if weights is not None:
            for row in np.flatnonzero(weights < 0.0).tolist():
                problems.setdefault(row, bad_weight(weights[row]))
        if not problems:
            return parsed.values, parsed.columns, lengths, codes, weights
        for row, problem in sorted(problems.items()):
            line = lines.line + lines.count_lines(lines.start, int(parsed.spans[row, 0]))
            self._reject(problem, line)
        kept = np.ones(len(codes), dtype=bool)
        kept[list(problems)] = False
        entries = np.repeat(kept, lengths)
        columns = None if parsed.columns is None else parsed.columns[entries]
        weights = None if weights is None else weights[kept]
        return parsed.values[entries], columns, lengths[kept], codes[kept], weights

    def _careful(self) -> Any:
        """Read the line that the parser stopped at."""
        number = self._lines.line
        line = self._lines.take_line()
        try:
            row: OneRow | None = self._format.parse_line(line)
            if row is None:
                return None
            try:
                code = self._labels.code(row.label)
            except ValueError as error:
                raise RowError(str(error)) from None
        except RowError as error:
            self._reject(str(error), number, error.column)
            return None
        columns = None if self.dense else row.columns
        weights = np.array([row.weight]) if self._weighted else None
        codes = np.array([code], dtype=np.int32)
        return row.values, columns, np.array([len(row.values)]), codes, weights

    def _reject(self, problem: str, line: int, column: str | None = None) -> None:
        if not self.skip_bad:
            raise DataFileError(self._lines.source, problem, row=line, column=column)
        self._skipped += 1

    def _joined(self, parts: list, position: Position) -> Batch:
        values, columns, lengths, codes, weights = zip(*parts)
        indptr = np.zeros(sum(map(len, lengths)) + 1, dtype=np.int64)
        np.cumsum(np.concatenate(lengths), out=indptr[1:])
        return Batch(
            np.concatenate(values),
            None if columns[0] is None else np.concatenate(columns),
            indptr,
            np.concatenate(codes).astype(np.int32, copy=False),
            position,
            np.concatenate(weights) if self._weighted else None,
        )
