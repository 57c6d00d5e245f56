"""How a table is written, and what its columns are asked to be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from oblong._core.text import quote
from oblong.io.dates import looks_like_dates
from oblong.io.errors import DataFileError, RowError
from oblong.io.numbers import MISSING, is_missing, is_number, number

_GROUPED = re.compile(r"[+-]?[0-9]{1,3}([.,' \u00a0\u202f][0-9]{3})+([.,][0-9]+)?")
_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
_UNIT = re.compile(r"[$€£¥]\s*[+-]?[0-9][0-9.,' ]*|[+-]?[0-9][0-9.,' ]*\s*[$€£¥%]")


@dataclass(frozen=True)
class Dialect:
    """How delimited text is written.

    Attributes
    ----------
    delimiter : str or None
        What separates columns; None to infer it from the first row.
    decimal, thousands : str
        What separates the decimals, and groups of three digits ("" for nothing).
    encoding : str or None
        Encoding of the text; None for UTF-8.
    missing : tuple of str
        Further words, or numbers, that mean a missing value.
    skip_bad : bool
        Whether rows that are wrong are skipped and counted.
    """

    delimiter: str | None = None
    decimal: str = "."
    thousands: str = ""
    encoding: str | None = None
    missing: tuple[str, ...] = ()
    skip_bad: bool = False

    @property
    def plain(self) -> bool:
        """Whether numbers are written as Python writes them."""
        return self.decimal == "." and not self.thousands

    @property
    def missing_numbers(self) -> list[float]:
        """Numbers that mean a missing value."""
        return [number(word) for word in self.missing if is_number(word)]

    def is_missing(self, text: str) -> bool:
        """Whether a text stands for a missing value."""
        return text.strip() in self.missing or is_missing(text)

    def is_number(self, text: str) -> bool:
        """Whether a text is a number, or a truth value."""
        text = text.strip()
        return text.lower() in _TRUTH or is_number(text if self.plain else self._standard(text))

    def number(self, text: str) -> float:
        """Convert a text, or raise a :class:`RowError` that says why not."""
        text = text.strip()
        if self.is_missing(text):
            raise RowError(MISSING, cause="missing")
        if text.lower() in _TRUTH:
            return _TRUTH[text.lower()]
        standard = text if self.plain else self._standard(text)
        if is_number(standard):
            return number(standard)
        advice, cause = other_spelling(text, self), "spelling"
        if advice is None and text in ("-", "--", ".", "*", "unknown", "missing"):
            advice = f"missing= {text} treats it as a missing value"
        elif advice is None and looks_like_dates([text], 1):
            advice = "dates= reads columns of dates"
        if advice is None:
            cause = "text"
        raise RowError(f"expected a number, got {quote(text)}", cause=cause, advice=advice)

    def _standard(self, text: str) -> str:
        """A number as Python writes it; something else if it is not one."""
        whole, point, rest = text.partition(self.decimal)
        if self.thousands:
            # A space stands for those that do not break a line, too.
            spaces = whole.maketrans("\u00a0\u202f", "  ") if self.thousands == " " else {}
            first, *groups = whole.translate(spaces).split(self.thousands)
            if all(len(group) == 3 for group in groups):
                whole = "".join([first, *groups])
        if self.decimal != "." and "." in whole + rest:
            return "?"
        return whole + "." * bool(point) + rest

    def to_json(self) -> dict[str, Any]:
        """The dialect as JSON values."""
        return asdict(self) | {"missing": list(self.missing)}

    @classmethod
    def from_json(cls, node: Any) -> Dialect:
        """The way back; raises ``ValueError`` for anything else."""
        try:
            found = cls(**(node | {"missing": tuple(node["missing"])}))
        except (TypeError, KeyError):
            raise ValueError("not a dialect") from None
        texts = (found.decimal, found.thousands, *found.missing)
        optional = (found.delimiter, found.encoding)
        sound = (
            all(isinstance(text, str) for text in texts)
            and all(text is None or isinstance(text, str) for text in optional)
            and len(found.decimal) == 1
            and len(found.delimiter or ",") == 1
            and isinstance(found.skip_bad, bool)
        )
        if not sound:
            raise ValueError("not a dialect")
        return found


_TRUTH = {"true": 1.0, "false": 0.0}
PLAIN = Dialect()


def other_spelling(text: str, dialect: Dialect = PLAIN) -> str | None:
    """What reads a number that is written another way; None for what is not a number."""
    text = text.strip()
    if is_number(text):
        return f"here decimals are written with {dialect.decimal}"
    if _UNIT.fullmatch(text):
        return "write the number without its unit"
    grouped = _GROUPED.fullmatch(text)
    if grouped is not None:
        mark = grouped[1][0]
        if mark == "," and len(text.split(",")) == 2 and "." not in text:
            return "decimal= , reads decimal commas, thousands= , reads groups of three digits"
        decimal = "decimal= , and " if mark == "." else ""
        return f"{decimal}thousands= {mark if mark.strip() else 'space'} reads it"
    if _COMMA.fullmatch(text) and dialect.decimal == ".":
        return "decimal= , reads decimal commas"
    return None


@dataclass(frozen=True)
class Wanted:
    """What the columns of a training table are asked to be.

    Attributes
    ----------
    target : str or None
        Label column.
    categorical : {"none", "auto"} or sequence of str
        Columns of categories: none, those of which most cells are text, or those named. Columns of
        names, dates, or numbers written another way are not guessed to be categories.
    drop, dates, text : sequence of str
        Columns to leave out, columns of dates, and columns of free text.
    date_format : str or None
        How dates are written, as for :meth:`datetime.datetime.strptime`.
    gaps : bool
        Whether cells may be empty. Missing numbers are nan, missing text is the empty string.
    dialect : Dialect
        How delimited text is written.
    """

    target: str | None = None
    categorical: str | Sequence[str] = "none"
    drop: Sequence[str] = ()
    dates: Sequence[str] = ()
    text: Sequence[str] = ()
    date_format: str | None = None
    gaps: bool = False
    dialect: Dialect = field(default_factory=Dialect)

    def named(self) -> dict[str, Sequence[str]]:
        """Columns that are named, by the parameter that names them."""
        categorical = () if isinstance(self.categorical, str) else self.categorical
        named = {"drop": self.drop, "dates": self.dates, "text": self.text}
        return named | {"categorical": categorical}

    def check_format(self, kind: str, source: str) -> None:
        """Refuse what a format without columns of text has no use for."""
        if kind in ("libsvm", "npz"):
            for name, columns in self.named().items():
                if columns:
                    problem, advice = "this format has no columns of text", f"leave out {name}="
                    raise DataFileError(source, problem, advice=advice)
