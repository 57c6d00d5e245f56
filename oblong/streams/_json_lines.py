"""Rows that are JSON objects, one a line."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from oblong.datasets._dataset import quote
from oblong.streams._formats import Format, OneRow, Parsed, RowError, bad_weight
from oblong.streams._hashing import name_column
from oblong.streams._numbers import LARGEST

__all__ = ["JSON", "load_object"]


class JSON(Format):
    """An object a line: numbers by name, one of which is the label.

    Objects and lists inside are flattened to ``outer.inner`` and ``outer.0``. True and false are
    one and zero, and what is null is missing. Words need hashing and become ``name=word``.

    Parameters
    ----------
    target : str
        The name of the label.
    vocabulary : dict of str to int
        Columns of the names that are known, to which new names are added if there is no hashing.
    weight : str, default=None
        The name of the weight, if there is one.
    """

    def __init__(
        self,
        bits: int,
        limit: int,
        *,
        target: str,
        vocabulary: dict[str, int],
        weight: str | None = None,
    ) -> None:
        super().__init__(bits, limit)
        self.target, self.vocabulary, self.weight = target, vocabulary, weight

    def state(self) -> dict[str, Any]:
        """What was found out about the input."""
        return {"target": self.target, "weight": self.weight}

    def parse(self, text: np.ndarray, start: int, stop: int, most: int) -> Parsed:
        """Leave all lines to the careful reader."""
        return Parsed.nothing(start)

    def parse_line(self, line: bytes) -> OneRow | None:
        """Read one line."""
        if not line.strip():
            return None
        row = load_object(line)
        if self.target not in row:
            raise RowError(f"expected a label {quote(self.target)}, got none")
        label = row.pop(self.target)
        if label is None or isinstance(label, (dict, list)):
            raise RowError("expected a label that is a word or a number", quote(self.target))
        weight = 1.0 if self.weight is None else self._weight(row)
        columns, values, new = [], [], {}
        for name, value in _flat(row, "", 0):
            if isinstance(value, str):
                if not self.bits:
                    raise RowError(f"expected a number, got {quote(value)}", quote(name))
                name, value = f"{name}={value}", 1.0
            if not abs(value) <= LARGEST:
                raise RowError(f"expected a finite number, got {value}", quote(name))
            if self.bits:
                columns.append(name_column(name.encode("utf-8", "replace"), self.bits))
            else:
                known = self.vocabulary.get(name)
                if known is None:
                    known = new.setdefault(name, len(self.vocabulary) + len(new))
                columns.append(known)
            values.append(float(value))
        if not self.bits and len(self.vocabulary) + len(new) > self.limit:
            raise RowError(f"more than {self.limit} names; --hash-bits takes any number")
        # A row that is wrong adds no names.
        self.vocabulary.update(new)
        text = label if isinstance(label, str) else json.dumps(label)
        found = self._tidy(text.encode("utf-8", "replace"), columns, values)
        return found._replace(weight=weight)

    def _weight(self, row: dict[str, Any]) -> float:
        """Take the weight out of a row."""
        value = row.pop(self.weight, None)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise RowError("expected a weight that is a number", quote(self.weight))
        if not abs(value) <= LARGEST:
            raise RowError(f"expected a weight of at most {LARGEST:g}", quote(self.weight))
        if value < 0:
            raise RowError(bad_weight(value), quote(self.weight))
        return float(value)


def load_object(line: bytes) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = (str(error).splitlines() or ["too deep"])[0]
        raise RowError(f"expected a JSON object ({reason})") from None
    if not isinstance(row, dict):
        raise RowError("expected a JSON object")
    return row


def _flat(row: Any, prefix: str, depth: int) -> Any:
    """Names and values of an object, those inside included."""
    if depth > 20:
        raise RowError("expected an object that is less deep")
    items = row.items() if isinstance(row, dict) else enumerate(row)
    for name, value in items:
        full = f"{prefix}{name}"
        if isinstance(value, (dict, list)):
            yield from _flat(value, f"{full}.", depth + 1)
        elif isinstance(value, int):
            # A number with hundreds of digits has no double.
            yield full, float(value) if abs(value) < 10**300 else math.inf
        elif value is not None:
            yield full, value
