"""What the subcommands share: kinds of options, files that are written whole, and advice."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

from oblong._core.text import quote
from oblong.cli.errors import RunError
from oblong.datasets import DataFileError, available
from oblong.datasets.loading import BUILT_IN

__all__ = [
    "busy",
    "check_apart",
    "emphasis",
    "is_set_by_name",
    "output_file",
    "plain_warnings",
    "seed",
    "whole_number",
    "write_whole",
]


def output_file(text: str) -> Path:
    """A file that can be written; the folder has to be there."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"expected a file, got the folder {quote(text, 80)}")
    if path.exists() and not path.is_file():
        # A file is put in place of what has its name, which must not be /dev/null.
        raise argparse.ArgumentTypeError(f"expected a file, got the device {quote(text, 80)}")
    if not os.access(path.parent, os.W_OK):
        reason = "cannot be written to" if path.parent.is_dir() else "does not exist"
        raise argparse.ArgumentTypeError(f"the folder {quote(path.parent, 80)} {reason}")
    return path


def whole_number(least: int) -> Callable[[str], int]:
    """A kind of option: whole numbers from some value up."""

    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(
                f"expected a whole number from {least} up, got {quote(text)}"
            )
        return int(text)

    return parse


def seed(text: str) -> int:
    """A kind of option: seeds that NumPy takes."""
    value = whole_number(0)(text)
    if value >= 2**32:
        raise argparse.ArgumentTypeError(f"expected a number below 2^32, got {quote(text)}")
    return value


def check_apart(inputs: Iterable[str], outputs: Iterable[Path | None]) -> None:
    """Refuse outputs that would replace an input, or one another."""
    taken = {os.path.realpath(name): "is what is read" for name in inputs if name != "-"}
    for path in outputs:
        if path is None:
            continue
        place = os.path.realpath(path)
        if place in taken:
            raise DataFileError(quote(path, 80), f"{taken[place]}; choose another file to write")
        taken[place] = "would be written twice"


def is_set_by_name(data: str) -> bool:
    """Whether ``DATA`` names a set; what is neither a set nor a file is an error with a guess."""
    names = available()
    if data in names:
        return True
    if data != "-" and not os.path.lexists(data):
        close = get_close_matches(data, names, n=1)
        sets = f"the built-in sets are {', '.join(BUILT_IN)}"
        hint = f"did you mean {close[0]}?" if close else sets
        raise DataFileError(quote(data, 80), f"no such file or data set; {hint}")
    return False


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all.

    Raises
    ------
    RunError
        If the file cannot be written; what was there before stays.
    """
    draft = None
    try:
        descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(draft, 0o666 & ~mask)
        os.replace(draft, path)
        draft = None
    except OSError as error:
        raise RunError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        if draft is not None:
            Path(draft).unlink(missing_ok=True)


@contextmanager
def busy(what: str) -> Iterator[None]:
    """Show on a terminal that work goes on."""
    if not sys.stderr.isatty():
        yield
        return
    try:
        # Here, so that all works without the extra too.
        from oblong.cli.progress import waiting
    except ImportError:
        print(f"{what} …", file=sys.stderr)
        yield
        return
    with waiting(what):
        yield


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Say warnings in one line each, once, after the work."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    # Old names inside libraries are no business of who runs a command.
    ours = [w for w in caught if not issubclass(w.category, (DeprecationWarning, FutureWarning))]
    for text in dict.fromkeys(str(warning.message) for warning in ours):
        print(f"oblong: warning: {' '.join(text.split())}", file=sys.stderr)


def emphasis(text: str) -> str:
    """Bold on a terminal, plain elsewhere."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[1m{text}\x1b[0m"
