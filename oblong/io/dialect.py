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
    decimal : str
        What separates the decimals; a comma where points separate thousands.
    thousands : str or None
        What separates groups of three digits: "" for nothing, and None for nothing where that is
        plain: numbers such as 2.033 beside 950, in columns that semicolons separate, are an error
        then.
    encoding : str or None
        Encoding of the text; None for UTF-8.
    missing : tuple of str
        Further words, or numbers, that mean a missing value.
    skip_bad : bool
        Whether rows that are wrong are skipped and counted.
    skip_rows : int
        Lines above the header, or above the first row, such as titles.
    """

    delimiter: str | None = None
    decimal: str = "."
    thousands: str | None = None
    encoding: str | None = None
    missing: tuple[str, ...] = ()
    skip_bad: bool = False
    skip_rows: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no dialect."""
        if self.thousands == "." and self.decimal == ".":
            object.__setattr__(self, "decimal", ",")
        given = (self.missing,) if isinstance(self.missing, str) else tuple(self.missing)
        object.__setattr__(self, "missing", given)
        marks = {name: getattr(self, name) for name in ("delimiter", "decimal", "thousands")}
        for name, mark in marks.items():
            optional = (None, "") if name == "thousands" else (None,) * (name == "delimiter")
            if mark not in optional and not (isinstance(mark, str) and len(mark) == 1):
                raise ValueError(f"{name} must be one character, got {mark!r}")
        said = [mark for mark in marks.values() if mark]
        if len(set(said)) < len(said):
            raise ValueError("delimiter, decimal and thousands must be different characters")
        if not isinstance(self.encoding, (str, type(None))):
            raise ValueError(f"encoding must be the name of one, got {self.encoding!r}")
        if not all(isinstance(word, str) for word in self.missing):
            raise ValueError(f"missing must be words, got {self.missing!r}")
        if type(self.skip_bad) is not bool:
            raise ValueError(f"skip_bad must be True or False, got {self.skip_bad!r}")
        if type(self.skip_rows) is not int or self.skip_rows < 0:
            raise ValueError(f"skip_rows must be a whole number from 0, got {self.skip_rows!r}")

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
        return text.lower() in _TRUTH or is_number(self._standard(text))

    def number(self, text: str) -> float:
        """Convert a text, or raise a :class:`RowError` that says why not."""
        text = text.strip()
        if self.is_missing(text):
            raise RowError(MISSING, cause="missing")
        if text.lower() in _TRUTH:
            return _TRUTH[text.lower()]
        standard = self._standard(text)
        if is_number(standard):
            return number(standard)
        advice, cause = other_spelling(text, self), "spelling"
        if advice is None and text in ("-", "--", ".", "*", "unknown", "missing"):
            advice = f"missing= {text} treats it as a missing value"
        elif advice is None and looks_like_dates([text], 1):
            advice = "dates= reads columns of dates"
        elif advice is None and len(text.split()) > _MOST_WORDS:
            advice, cause = "text= splits it into words", "prose"
        if advice is None:
            cause = "text"
        raise RowError(f"expected a number, got {quote(text)}", cause=cause, advice=advice)

    def _standard(self, text: str) -> str:
        """A number as Python writes it; something else if it is not one."""
        # As texts that were set for print have it.
        text = text.replace("\u2212", "-")
        if self.plain:
            return text
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
            return cls(**(node | {"missing": tuple(node["missing"])}))
        except (TypeError, KeyError, ValueError):
            raise ValueError("not a dialect") from None


_TRUTH = {"true": 1.0, "false": 0.0}
# Words of a name; more are a sentence.
_MOST_WORDS = 4
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_IN_PARENTHESES = re.compile(r"\(\s*[0-9][0-9.,' ]*\)")
_CLOCK = re.compile(r"[0-9]{1,3}:[0-9]{2}(:[0-9]{2})?([.,][0-9]+)?( ?[aApP][mM])?")
_PROGRAM = re.compile(r"[+-]?(0[xXoObB][0-9a-fA-F_]+|[0-9]+(_[0-9]+)+|[0-9.]+[dD][+-]?[0-9]+)")
_POINTS = re.compile(r"[+-]?[0-9]{1,3}(\.[0-9]{3})+")
PLAIN = Dialect()


_OTHERWISE = (
    (_INFINITE, "missing= {0} treats it as a missing value"),
    (_IN_PARENTHESES, "write it with a minus if it is negative"),
    (_CLOCK, "write times of day as one number, such as minutes"),
    (_PROGRAM, "write it as a decimal number"),
)


def other_spelling(text: str, dialect: Dialect = PLAIN) -> str | None:
    """What reads a number that is written another way; None for what is not a number."""
    text = text.strip()
    for pattern, advice in _OTHERWISE:
        if pattern.fullmatch(text):
            return advice.format(text)
    if dialect.decimal == "," and not dialect.thousands and _POINTS.fullmatch(text):
        return "thousands= . reads groups of three digits"
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
