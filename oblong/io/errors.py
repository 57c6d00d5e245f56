"""The one error of all readers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from oblong._core.text import printable


class DataFileError(ValueError):
    """Data that cannot be used, and where in it the trouble is.

    The message is one line: source, row, column, what was expected there and what may help.

    Parameters
    ----------
    source : str
        File name, set name or ``"standard input"``.
    problem : str
        What was expected and what was found.
    row : int, optional
        Line of a text file, or row of a binary one, counted from 1.
    column : str, optional
        Name of the column in quotes, or its number counted from 1.
    cause : str, optional
        Kind of trouble: ``"missing"``, ``"text"``, ``"spelling"`` (of a number), ``"infinite"``,
        ``"width"``, ``"columns"``, ``"unnamed"`` (columns that are asked for by name), ``"empty"``
        or ``"encoding"``, and in LIBSVM rows ``"name"`` or ``"index"``.
    advice : str, optional
        What may help. Parameters are written as ``name=``, which commands replace by their
        options.

    Examples
    --------
    >>> from oblong.io import DataFileError
    >>> print(DataFileError("a.csv", "expected a number", row=3, column='"size"'))
    a.csv, row 3, column "size": expected a number
    """

    def __init__(
        self,
        source: str,
        problem: str,
        *,
        row: int | None = None,
        column: str | None = None,
        cause: str | None = None,
        advice: str | None = None,
    ) -> None:
        self.source, self.problem, self.row, self.column = source, problem, row, column
        self.cause, self.advice = cause, advice
        super().__init__(self.message())

    def message(self, option: Callable[[str], str | None] = str) -> str:
        """The message, with parameters in the advice replaced by the options of a command.

        Parts of the advice that name parameters for which there is no option are left out.
        """
        place = [self.source]
        if self.row is not None:
            place.append(f"row {self.row}")
        if self.column is not None:
            place.append(f"column {self.column}")
        parts = [self.problem]
        for part in (self.advice or "").split("; "):
            words = [option(word) if word.endswith("=") else word for word in part.split(" ")]
            if all(word is not None for word in words):
                parts.append(" ".join(map(str, words)))
        return f"{', '.join(place)}: {'; '.join(filter(None, parts))}"


@contextmanager
def advice_for(*parameters: str) -> Iterator[None]:
    """Leave out of errors what names parameters other than these, which the caller has not got."""
    try:
        yield
    except DataFileError as error:
        error.args = (error.message(lambda word: word if word[:-1] in parameters else None),)
        raise


class RowError(ValueError):
    """What is wrong with a row; the arguments are those of :class:`DataFileError`."""

    def __init__(
        self,
        problem: str,
        column: str | None = None,
        *,
        cause: str | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(problem)
        self.column, self.cause, self.advice = column, cause, advice


def first_line(error: BaseException) -> str:
    """What an exception says, in one line that is printable; its type if it says nothing."""
    return printable((str(error).strip() or type(error).__name__).splitlines()[0][:100])


@contextmanager
def foreign_errors(source: str, what: str = "damaged or unreadable") -> Iterator[None]:
    """Turn whatever a library raises over an input that it cannot read into our error."""
    try:
        yield
    except DataFileError:
        raise
    # Of damaged files libraries raise more than they document: tokenize.TokenError, SystemError, …
    except Exception as error:
        raise damaged(source, error, what) from None


def damaged(
    source: str, error: BaseException, what: str = "damaged or unreadable"
) -> DataFileError:
    """An input that a library cannot read."""
    return DataFileError(source, f"{what} ({first_line(error)})")
