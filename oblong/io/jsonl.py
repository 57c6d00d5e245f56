"""Rows that are JSON objects, one per line."""

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from oblong._core.text import quote
from oblong.io.errors import RowError, first_line
from oblong.io.formats import Format, Parsed, bad_weight
from oblong.io.hashing import name_column, text_columns, tidied
from oblong.io.numbers import LARGEST, MISSING, checked
from oblong.io.sources import LineBuffer

_Row: TypeAlias = tuple[bytes, np.ndarray, np.ndarray, float]
_NOTHING: _Row = (b"", np.empty(0, dtype=np.int32), np.empty(0), 1.0)


class JSON(Format):
    """One object per line: numbers by name, one of which is the label.

    Objects and lists inside are flattened to ``outer.inner`` and ``outer.0``. True and false are
    one and zero, and a name that is absent is zero. Words need hashing and become ``name=word``;
    null becomes no feature then, and is an error otherwise.

    Parameters
    ----------
    target : str
        The name of the label.
    vocabulary : dict of str to int
        Columns of the names that are known, to which new names are added if there is no hashing.
    weight : str, default=None
        The name of the weight, if there is one.
    labelled : bool, default=True
        Whether rows have labels; if not, names that are not known are passed over.
    texts : collection of str
        Names whose words are hashed one by one.
    drop : collection of str
        Names that are passed over.
    """

    def __init__(
        self,
        bits: int,
        limit: int,
        *,
        target: str | None,
        vocabulary: dict[str, int],
        weight: str | None = None,
        labelled: bool = True,
        texts: Any = (),
        drop: Any = (),
    ) -> None:
        self.bits, self.limit = bits, limit
        self.target, self.vocabulary, self.weight = target, vocabulary, weight
        self.target_label = None if target is None else quote(target)
        self.labelled, self.texts, self.drop = labelled, texts, drop

    def state(self) -> dict[str, Any]:
        """What was found out about the input."""
        return {"target": self.target, "weight": self.weight}

    def parse(self, lines: LineBuffer, stop: int, most: int) -> Parsed:
        """Read lines."""
        place, n_lines = lines.start, 0
        starts: list[int] = []
        rows: list[_Row] = []
        problems: dict[int, RowError] = {}
        while place < stop and len(rows) < most:
            line = lines.peek_line(place)
            if line.strip():
                try:
                    rows.append(self._row(line))
                except RowError as error:
                    problems[len(rows)] = error
                    rows.append(_NOTHING)
                starts.append(place)
            place += len(line) + 1
            n_lines += 1
        # With a row of nothing at the end, where there may be none.
        tokens, columns, values, weights = zip(*rows, _NOTHING)
        lengths = np.array([len(row) for row in values[:-1]], dtype=np.int64)
        found = (np.concatenate(values), np.array(starts, dtype=np.int64), problems)
        weighted = None if self.weight is None else np.array(weights[:-1])
        entries = (np.concatenate(columns), lengths, None, weighted)
        return Parsed(n_lines, place, False, *found, *entries, tokens=tokens[:-1])

    def _row(self, line: bytes) -> _Row:
        """Read one line: label, columns, values and weight."""
        row = load_object(line)
        label = row.pop(self.target, None) if self.target else None
        if self.labelled and isinstance(label, (dict, list)):
            raise RowError("expected a label that is a word or a number", self.target_label)
        weight = 1.0 if self.weight is None else _weight(row, self.weight)
        columns, values = [], []
        new: dict[str, int] = {}
        for name, value in flat_items(row):
            if not self.labelled and not self.bits and name not in self.vocabulary:
                continue
            if name in self.drop or (value is None and self.bits):
                continue
            if value is None:
                advice = "a name that is left out counts as 0"
                raise RowError(MISSING, quote(name), advice=advice)
            if isinstance(value, str):
                if not self.bits:
                    problem = f"expected a number, got {quote(value)}"
                    raise RowError(problem, quote(name), cause="text")
                if name in self.texts:
                    found = text_columns(name, value, self.bits)
                    columns += found
                    values += [1.0] * len(found)
                    continue
                name, value = f"{name}={value}", 1.0
            try:
                checked(value)
            except RowError as error:
                error.column = quote(name)
                raise
            if self.bits:
                columns.append(name_column(name.encode("utf-8", "replace"), self.bits))
            else:
                known = self.vocabulary.get(name)
                if known is None:
                    known = new.setdefault(name, len(self.vocabulary) + len(new))
                columns.append(known)
            values.append(float(value))
        if not self.bits and len(self.vocabulary) + len(new) > self.limit:
            raise RowError(f"more than {self.limit} names", cause="index")
        # A row that is wrong adds no names.
        self.vocabulary.update(new)
        text = label if isinstance(label, str) else json.dumps(label)
        if text.startswith('"'):
            # As a cell of a table would have it.
            text = '"' + text.replace('"', '""') + '"'
        return text.encode("utf-8", "replace"), *tidied(columns, values), weight


def _weight(row: dict[str, Any], name: str) -> float:
    """Take the weight out of a row."""
    value = row.pop(name, None)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RowError("expected a weight that is a number", quote(name))
    if not abs(value) <= LARGEST:
        raise RowError(f"expected a weight of at most {LARGEST:g}", quote(name))
    if value < 0:
        raise RowError(bad_weight(value), quote(name))
    return float(value)


def load_object(line: bytes) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        row = error
    if isinstance(row, dict):
        return row
    if line.lstrip()[:1] == b"[":
        advice = 'pandas writes such lines with to_json(orient="records", lines=True)'
        raise RowError("expected a JSON object on every line, got an array", advice=advice)
    reason = f" ({first_line(row)})" if isinstance(row, Exception) else ""
    raise RowError(f"expected a JSON object on every line{reason}")


def flat_items(row: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Names and values of an object, those inside included, as ``outer.inner`` and ``outer.0``."""
    return _flat(row, "", 0)


def _flat(row: Any, prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > 20:
        raise RowError("the object is nested too deeply")
    items = row.items() if isinstance(row, dict) else enumerate(row)
    for name, value in items:
        full = f"{prefix}{name}"
        if isinstance(value, (dict, list)):
            yield from _flat(value, f"{full}.", depth + 1)
        else:
            yield full, value
