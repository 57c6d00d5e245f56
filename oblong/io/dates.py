"""Dates as numbers: days since the beginning of 1970."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from oblong._core.text import quote
from oblong.io.errors import DataFileError

ISO = "ISO 8601"
_DAYS = ("%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%Y/%m/%d", "%d %b %Y", "%d-%b-%Y")
_FORMATS = (ISO, *(f"{day}{clock}" for day in _DAYS for clock in ("", " %H:%M", " %H:%M:%S")))
_EPOCH, _DAY = datetime(1970, 1, 1), timedelta(days=1)
_SAMPLE = 200


def _days(word: str, form: str) -> float:
    found = datetime.fromisoformat(word) if form == ISO else datetime.strptime(word, form)
    if found.tzinfo is not None:
        found = found.astimezone(UTC).replace(tzinfo=None)
    return (found - _EPOCH) / _DAY


def _parsed(words: Sequence[str], form: str) -> list[float] | None:
    try:
        return [_days(word, form) for word in words]
    except (ValueError, OverflowError):
        return None


def to_days(
    words: Sequence[str], form: str | None, source: str, column: str
) -> tuple[np.ndarray, str]:
    """Days since 1970 of dates, and how they are written, inferred from the dates by default."""
    if form is not None:
        try:
            return np.array([_days(word, form) for word in words]), form
        except (ValueError, OverflowError) as error:
            raise DataFileError(source, f"expected a date: {error}", column=column) from None
    fitting = {f: days for f in _FORMATS if (days := _parsed(words, f)) is not None}
    different = {tuple(days) for days in fitting.values()}
    if len(different) == 1 or ISO in fitting:
        found = next(iter(fitting))
        return np.array(fitting[found]), found
    example = quote(words[0]) if words else "nothing"
    if different:
        problem = f"dates such as {example} can be read in two ways"
    else:
        problem = f"expected dates written in one way, got {example} and others"
    advice = "date_format= says how, such as %d.%m.%Y"
    raise DataFileError(source, problem, column=column, advice=advice)


def looks_like_dates(words: Sequence[str], least: int = 3) -> bool:
    """Whether words are dates, at least so many, by the first of them."""
    some = [word for word in words[:_SAMPLE] if not word.isdigit()]
    return len(some) >= least and any(_parsed(some, form) is not None for form in _FORMATS)
