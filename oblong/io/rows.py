"""Rows of a file of any size, a batch at a time."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from oblong.io.csv import Csv
from oblong.io.errors import DataFileError, RowError, advice_for
from oblong.io.formats import Format, Parsed
from oblong.io.hints import hint
from oblong.io.labels import LabelCodes
from oblong.io.layout import FORMATS, find_format, make_format
from oblong.io.reader import Batch, Position, Reader
from oblong.io.sources import AnyPath, LineBuffer, source_name

# Most bytes of a batch, which is in one piece then, as a rule. Batches end where the input passes a
# multiple of it, whatever was read before.
_BLOCK = 1 << 20
# Labels of which the lines are kept.
_MOST_LINES = 100


class Rows(Reader):
    """Rows of lines of text in a format, with codes of their labels.

    Parameters
    ----------
    lines : LineBuffer
        The text, beginning with the first row.
    format : Format
        How rows are written.
    labels : LabelCodes or None
        The labels so far; None if nobody asks for them.
    skip_bad : bool
        Whether a row that is wrong is skipped and counted, or an error.
    """

    _most = _BLOCK
    # What helps against some causes of trouble.
    _advice: ClassVar[dict[str | None, str]] = {"width": "skip_bad= skips such rows"}

    def __init__(
        self, lines: LineBuffer, format: Format, labels: LabelCodes | None, skip_bad: bool = False
    ) -> None:
        self._lines, self._format, self._labelled = lines, format, labels is not None
        self._labels = LabelCodes() if labels is None else labels
        self._vocabulary: dict[str, int] = {}
        self.skip_bad = skip_bad
        self._rows = self._skipped = 0
        self.first_skipped: str | None = None
        # The lines in which labels first came, by code; of the first labels only.
        self.label_lines: dict[int, int] = {}
        # Whether somebody has said where the labels are.
        self._target_given = True

    def look_for_labels(self, target: str | None) -> None:
        """Let errors say that a column of words may have the labels, unless these were named."""
        self._target_given = target is not None

    def close(self) -> None:
        """Close the file."""
        self._lines.close()

    @property
    def source(self) -> str:
        """Name of the input for messages."""
        return self._lines.source

    @property
    def skipped(self) -> int:
        """Rows left out because they were wrong."""
        return self._skipped

    def read(self, n: int, *, wait: bool = True) -> Batch | None:
        """Read so many rows, or fewer if these are long; None at the end of the input.

        Which rows make a batch depends on the input only, not on where reading started.

        Parameters
        ----------
        n : int
            Number of rows.
        wait : bool, default=True
            Whether to wait for so many rows of an input that is still being written; if not, the
            rows that are there make a batch, but at least one.

        Raises
        ------
        DataFileError
            If a row is wrong, with the number of its line, unless such rows are skipped.
        """
        parts: list[Parsed] = []
        missing, lines, limit = n, self._lines, 0
        while missing and (missing == n or lines.offset < limit):
            if (not wait and missing < n and lines.start == lines.stop) or not lines.fill():
                break
            if missing == n:
                limit = (lines.offset // _BLOCK + 1) * _BLOCK
            parsed = self._format.parse(lines, lines.stop_after(limit), missing)
            found = [self._coded(parsed)]
            lines.line += parsed.lines
            lines.start = parsed.position
            if parsed.stuck and _count(found) < missing:
                found += self._single()
            parts += found
            missing -= _count(found)
        if missing == n:
            return None
        self._rows += n - missing
        counts = (self._rows, self._skipped, len(self._labels), len(self._vocabulary))
        return _joined(parts, Position(lines.offset, lines.line, *counts))

    def _coded(self, parsed: Parsed, line: int | None = None) -> Parsed:
        """Look up the labels of parsed rows; rows that are wrong are left out.

        The rows are in the buffer, or one that was on a line.
        """
        n, problems = len(parsed.starts), parsed.problems
        codes, known = np.zeros(n, dtype=np.int32), len(self._labels)
        wrong: dict[int, RowError] = {}
        if self._labelled and parsed.spans is not None:
            # Rows that are wrong have no part in which labels there are.
            right = np.setdiff1d(np.arange(n), list(problems)) if problems else np.arange(n)
            codes[right], found = self._labels.codes(self._lines.text, parsed.spans[right])
            wrong = {int(right[row]): error for row, error in found.items()}
        elif self._labelled and parsed.tokens is not None:
            for row, token in enumerate(parsed.tokens):
                try:
                    codes[row] = 0 if row in problems else self._labels.code(token)
                except RowError as error:
                    wrong[row] = error
        for code in range(known, min(len(self._labels), _MOST_LINES)):
            for row in np.flatnonzero(codes == code)[:1].tolist():
                self.label_lines[code] = line or self._lines.line_at(int(parsed.starts[row]))
        for row, problem in wrong.items():
            column = self._format.target_label
            problems.setdefault(row, RowError(str(problem), column, advice=problem.advice))
        lengths = parsed.lengths
        if lengths is None:
            lengths = np.full(n, parsed.values.shape[1])
        for row, problem in sorted(problems.items()):
            self._reject(problem, line or self._lines.line_at(int(parsed.starts[row])))
        parsed = parsed._replace(lengths=lengths, codes=codes)
        if not problems:
            return parsed
        kept = np.ones(n, dtype=bool)
        kept[list(problems)] = False
        entries = kept if parsed.columns is None else np.repeat(kept, lengths)
        by_row = dict.fromkeys(("lengths", "codes", "weights", "words"), kept)
        left = {
            # Words have a row per column.
            name: array[:, kept] if name == "words" else array[rows]
            for name, rows in (by_row | {"values": entries, "columns": entries}).items()
            if (array := getattr(parsed, name)) is not None
        }
        return parsed._replace(**left)

    def _single(self) -> list[Parsed]:
        """Read the row that the parser stopped at; none if it is wrong or there is none."""
        line = self._lines.line_at(self._lines.start)
        try:
            parsed = self._format.parse_one(self._lines)
        except RowError as error:
            self._reject(error, line)
            return []
        return [] if parsed is None else [self._coded(parsed, line)]

    def _reject(self, error: RowError, line: int) -> None:
        if not self.skip_bad:
            advice = self._advice.get(error.cause) or error.advice
            if error.cause in ("text", "spelling", "prose") and isinstance(self._format, Csv):
                how = {"first": not self._rows, "target": self._target_given}
                more = hint(self._lines, self._format, error, **how)
                advice = "; ".join(filter(None, [advice, more])) or None
                error.cause = None if more and "units" in more else error.cause
            place: dict[str, Any] = {"row": line, "column": error.column, "cause": error.cause}
            raise DataFileError(self._lines.source, str(error), advice=advice, **place)
        self._skipped += 1
        if self.first_skipped is None:
            self.first_skipped = f"row {line}: {error}"


def _count(parts: Sequence[Parsed]) -> int:
    return sum(len(part.codes) for part in parts if part.codes is not None)


def _joined(parts: Sequence[Parsed], position: Position) -> Batch:
    def together(name: str, axis: int = 0) -> Any:
        arrays = [getattr(part, name) for part in parts]
        if arrays[0] is None:
            return None
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=axis)

    lengths = together("lengths")
    indptr = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=indptr[1:])
    entries = (together("values").reshape(-1), together("columns"), indptr)
    return Batch(*entries, together("codes"), position, together("weights"), together("words", 1))


# Of RowReader, which errors may name.
_PARAMETERS = [
    "format",
    "target",
    "weight",
    "classes",
    "hash_bits",
    "text",
    "n_features",
    "zero_based",
    "header",
    "skip_bad",
]


class RowReader(Rows):
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
        Full list of labels; by default they are discovered from the data.
    hash_bits : int, default=0
        Names of features are hashed to this many bits; 0 for no hashing. Words in tables and in
        JSON objects then become features ``name=word``.
    text : sequence of str, default=()
        Names of columns whose texts are split into words when they are hashed; ``name=word`` counts
        how often a word occurs.
    n_features : int, default=None
        Number of columns of LIBSVM rows; by default it grows as rows are read.
    zero_based : bool, default=None
        Whether the indices of LIBSVM rows count from 0; by default they do if the first of the
        first row is 0.
    header : bool, default=None
        Whether a table has a header; by default its first rows decide.
    skip_bad : bool, default=False
        Whether a row that is wrong is skipped and counted, or an error.
    steady_labels : bool, default=False
        Whether labels that start as whole numbers must remain so, as learners that take rows one by
        one need. Otherwise all labels become strings when the first word appears.
    state : dict, default=None
        What :meth:`state` returned in an earlier run over the same input; reading continues there.
    vocabulary : sequence of str, default=()
        What :meth:`vocabulary` returned then.

    Attributes
    ----------
    labels : list of int or str
        The labels seen so far, or declared.
    spellings : list of str
        How each of them was spelled when it first appeared.
    n_columns : int or None
        Number of columns, if it is known.
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

    _advice: ClassVar = {
        "width": "skip_bad= skips such rows",
        "encoding": "save the file as UTF-8",
        "spelling": "hash_bits= hashes words",
        "prose": "hash_bits= hashes words",
        "text": "hash_bits= hashes words",
        "name": "hash_bits= hashes names",
        "index": "n_features= or hash_bits= allows more",
    }

    @advice_for(*_PARAMETERS)
    def __init__(
        self,
        path: AnyPath,
        *,
        format: str | None = None,
        target: str | None = None,
        weight: str | None = None,
        classes: Sequence[str] | None = None,
        hash_bits: int = 0,
        text: Sequence[str] = (),
        n_features: int | None = None,
        zero_based: bool | None = None,
        header: bool | None = None,
        skip_bad: bool = False,
        steady_labels: bool = False,
        state: dict[str, Any] | None = None,
        vocabulary: Sequence[str] = (),
    ) -> None:
        if format is not None and format not in FORMATS:
            raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
        name = format or find_format(path)
        if name in ("parquet", "npz"):
            problem = "expected rows of text, CSV, LIBSVM or JSON lines"
            raise DataFileError(source_name(path), problem)
        lines = LineBuffer(path)
        try:
            known = {word: j for j, word in enumerate(vocabulary)}
            name = state["format"] if state else name or find_format(path, lines)
            columns: Any = {"target": target, "weight": weight, "texts": text, "vocabulary": known}
            rows: Any = {"bits": hash_bits, "n_features": n_features, "header": header}
            layout = None if state is None else state["layout"]
            made = make_format(name, lines, zero_based=zero_based, state=layout, **rows, **columns)
            super().__init__(lines, made, LabelCodes(classes, steady=steady_labels), skip_bad)
            self.format, self._vocabulary, self._hashed = name, known, hash_bits > 0
            self.look_for_labels(target)
            self.n_columns: int | None = 1 << hash_bits if hash_bits else n_features
            if isinstance(made, Csv) and made.dense:
                self.n_columns = len(made.features)
                if made.layout.delimiter == ";":
                    made.survey()
            if state is not None:
                self._labels.restore(state["labels"], state["spellings"])
                self._rows, self._skipped = state["rows"], state["skipped"]
                lines.skip_to(state["offset"], state["line"], state["fingerprint"])
        except BaseException:
            lines.close()
            raise

    @property
    def dense(self) -> bool:
        """Whether rows have all columns."""
        return self._format.dense

    @property
    def names(self) -> list[str] | None:
        """Names of the columns so far, where there are such."""
        if self._hashed:
            return None
        if isinstance(self._format, Csv):
            layout = self._format.layout
            return [layout.names[j] for j in layout.features] if layout.header else None
        return list(self._vocabulary) or None

    @property
    def notes(self) -> list[str]:
        """What may not be as it was meant, as far as the rows have been read."""
        if not isinstance(self._format, Csv):
            return []
        return [
            f"column {self._format.layout.label(column)}: {text} was read as a number with decimals"
            for column, text, _, likely in self._format.doubtful_points()
            if likely
        ]

    @property
    def target_name(self) -> str | None:
        """Name of the label, where there is such."""
        if isinstance(self._format, Csv):
            return self._format.layout.target_name
        return getattr(self._format, "target", None)

    @property
    def rows(self) -> int:
        """Rows read, those of earlier runs included."""
        return self._rows

    def state(self, position: Position) -> dict[str, Any]:
        """Everything it takes to go on after a batch, as JSON values but for the vocabulary.

        The reader may have gone on since. The vocabulary, :meth:`vocabulary`, is left out because
        it may be large.
        """
        fingerprint = self._lines.fingerprint(position.offset)
        return self._state(position, self.format, self._format.state(), fingerprint)

    def vocabulary(self, position: Position) -> list[str]:
        """Names of columns that were found in the rows before a position."""
        # One step, during which no other thread can add names.
        return list(self._vocabulary)[: position.n_names]
