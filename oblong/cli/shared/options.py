"""What the subcommands share: kinds of options, files that are written whole, and advice."""

import argparse
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from oblong._core.atomic import atomic_write, remove_drafts
from oblong._core.text import quote
from oblong.io.errors import DataFileError

# Raised when a name in the JSON of a command goes or changes its meaning; names may come.
JSON_VERSION = 1


class RunError(RuntimeError):
    """A run that failed on input that was fine."""


def add_command(
    subparsers: argparse._SubParsersAction, name: str, doc: str | None, **words: str
) -> argparse.ArgumentParser:
    """A parser whose texts are the paragraphs of a docstring after the first, with words put in.

    They are shown as they are written: what the command does, and below the options the rest.
    """
    _, text, *rest = [*(doc or "").format(**words).strip().split("\n\n"), ""]
    how: dict[str, Any] = {"description": text, "epilog": "\n\n".join(rest)}
    kind = argparse.RawDescriptionHelpFormatter
    return subparsers.add_parser(name, formatter_class=kind, **how)


def adder(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> Callable[..., None]:
    """A function that adds an option: ``add("-o --output FILE", about, type, default)``.

    The names end with the metavar; an option that has none, nor anything else, is a switch.
    """

    def add(names: str, about: str, kind: Any = None, default: Any = None, **how: Any) -> None:
        *flags, last = names.split()
        if last.startswith("-"):
            flags.append(last)
            how = how or {"action": "store_true"}
        else:
            how["metavar"] = last
        given = {"type": kind, "default": default}
        how |= {name: value for name, value in given.items() if value is not None}
        parser.add_argument(*flags, help=about, **how)

    return add


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


def whole_number(least: int, most: int = 10**15) -> Callable[[str], int]:
    """A kind of option: whole numbers from some value up."""

    def parse(text: str) -> int:
        # Python reads no number of thousands of digits.
        digits = text.isascii() and text.isdigit() and len(text) < 1000
        value = int(text) if digits else least - 1
        if value < least:
            problem = f"expected a whole number of at least {least}, got {quote(text)}"
            raise argparse.ArgumentTypeError(problem)
        if value > most:
            problem = f"expected a whole number of at most {most}, got {quote(text)}"
            raise argparse.ArgumentTypeError(problem)
        return value

    return parse


# A kind of option: seeds that NumPy takes.
seed = whole_number(0, 2**32 - 1)
# A kind of option: threads or processes; more than the largest computers have are a typing error.
jobs = whole_number(1, 1024)


def parameter(text: str) -> tuple[str, Any]:
    """A kind of option, ``name=value``: a number, true, false, none, JSON, or else a word."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise argparse.ArgumentTypeError(f"expected name=value, got {quote(text)}")
    value = value.strip()
    value = {"none": "null", "true": "true", "false": "false"}.get(value.lower(), value)
    for read in (json.loads, int, float):
        with suppress(ValueError, RecursionError):
            return name.strip(), read(value)
    if value.startswith(("{", "[")):
        raise argparse.ArgumentTypeError(f"expected JSON, got {quote(value)}")
    return name.strip(), value


def option_words(flag: str, value: Any) -> list[str]:
    """The words of a command line that give an option its value; none if it has none."""
    if value in (None, False, 0, [], "none"):
        return []
    if value is True:
        return [flag]
    return [flag, ",".join(value) if isinstance(value, list) else str(value)]


def check_apart(inputs: Iterable[str], outputs: Sequence[Path | None]) -> None:
    """Refuse outputs that would replace an input, or one another; remove drafts of killed runs."""
    taken = {os.path.realpath(name): "is what is read" for name in inputs if name != "-"}
    for path in outputs:
        if path is None:
            continue
        place = os.path.realpath(path)
        if place in taken:
            raise DataFileError(quote(path, 80), f"{taken[place]}; choose another file to write")
        taken[place] = "would be written twice"
    for path in outputs:
        if path is not None:
            remove_drafts(path)


def require(what: str, *packages: str, extra: str = "cli") -> None:
    """Refuse what needs packages that are not there, and say how to get them."""
    missing = " and ".join(name for name in packages if find_spec(name) is None)
    if missing:
        raise DataFileError(what, f'needs {missing}: pip install "oblong[{extra}]"')


def is_set_by_name(data: str) -> bool:
    """Whether ``DATA`` names a set; refuses a file that is not there, with a guess, or empty."""
    # Here, since a stream needs no data sets.
    from oblong.datasets.loading import BUILT_IN, available

    names = available()
    if data in names:
        return True
    if data != "-" and not os.path.lexists(data):
        if "://" in data:
            advice = "download the file, or pipe it: curl ADDRESS | oblong … -"
            raise DataFileError(quote(data, 80), "addresses are not opened", advice=advice)
        close = get_close_matches(data, names, n=1)
        sets = f"the built-in sets are {', '.join(BUILT_IN)}"
        hint = f"did you mean {close[0]}?" if close else sets
        raise DataFileError(quote(data, 80), f"no such file or data set; {hint}")
    if os.path.isfile(data) and not os.path.getsize(data):
        from oblong.io.sources import source_name

        raise DataFileError(source_name(data), "the file is empty", cause="empty")
    return False


def check_model(path: str) -> None:
    """Refuse a model file that is not there, before what reads it is loaded."""
    from oblong.persistence import ModelFileError

    try:
        os.stat(path)
    except OSError as error:
        name = Path(path).name or quote(path)
        raise ModelFileError(name, f"cannot be read: {error.strerror}") from None


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say which file could not be written."""
    try:
        yield
    except OSError as error:
        raise RunError(f"{path} cannot be written: {error.strerror or error}") from None


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all; text in UTF-8.

    Raises
    ------
    RunError
        If the file cannot be written; what was there before stays.
    """
    if isinstance(content, str):
        # File names, which reports show, need not be valid text.
        content = content.encode("utf-8", errors="replace")
    with writing(path), atomic_write(path) as stream:
        stream.write(content)


def write_text(parts: Iterable[str], output: Path | None) -> None:
    """Write text as it comes: to a file, whole or not at all, or to standard output."""
    contents = (part.encode("utf-8", "surrogateescape") for part in parts)
    if output is None:
        sys.stdout.flush()
        # What stands in for it may take only text.
        if hasattr(sys.stdout, "buffer"):
            sys.stdout.buffer.writelines(contents)
            sys.stdout.flush()
        else:
            sys.stdout.writelines(content.decode(errors="replace") for content in contents)
        return
    with writing(output), atomic_write(output) as stream:
        stream.writelines(contents)


def save_model(model: Any, path: Path, training: dict[str, Any]) -> None:
    """Save a model with what is known of its training.

    Raises
    ------
    RunError
        If the model cannot be saved, or the file not be written.
    """
    # Here, since it needs scikit-learn.
    from oblong.persistence import ModelFileError, save

    try:
        save(model, path, training=training)
    except ModelFileError as error:
        raise RunError(str(error)) from None


@contextmanager
def busy(what: str) -> Iterator[None]:
    """Show on a terminal that work goes on."""
    if not sys.stderr.isatty():
        yield
        return
    try:
        # Here, so that all works without the extra too.
        from rich.console import Console
    except ImportError:
        print(f"{what} …", file=sys.stderr)
        yield
        return
    with Console(stderr=True).status(what):
        yield


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Say warnings in one line each, once, after the work."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        yield
    # Deprecations inside libraries mean nothing to whoever runs a command.
    ours = [w for w in caught if not issubclass(w.category, (DeprecationWarning, FutureWarning))]
    for text in dict.fromkeys(str(warning.message) for warning in ours):
        print(f"oblong: warning: {' '.join(text.split())}", file=sys.stderr)


def note(text: str) -> None:
    """Say in a line what may not be as it was meant."""
    print(f"oblong: note: {text}", file=sys.stderr, flush=True)


def spelled(text: str) -> str:
    """A note of the library, in which parameters are written as ``name=``, with options."""
    return re.sub(r"\b(categorical|drop|impute|missing|text|thousands)=", r"--\1", text)


def json_text(found: dict[str, Any], **how: Any) -> str:
    """What a command found, with the version of the names and meanings in it."""
    return json.dumps({"json_version": JSON_VERSION} | found, default=str, **how)


def print_json(found: dict[str, Any], **how: Any) -> None:
    """Print what a command found."""
    print(json_text(found, **how), flush=True)


def tell_saved(
    args: argparse.Namespace,
    model: str,
    training: dict[str, Any],
    seconds: float,
    more: Iterable[str],
    lines: Iterable[str],
) -> None:
    """Say what was trained and saved: as JSON, with `more` of what is known, or in lines."""
    if args.json:
        names = ("source", "rows", "features", "target_names", "training_error", *more)
        found = {name: training[name] for name in names}
        print_json(found | {"model": model, "file": str(args.output), "seconds": round(seconds, 3)})
        return
    size = f"{training['rows']:,} rows, {training['features']:,} features"
    classes = len(training["target_names"])
    print(f"{args.output}: {model}, {size}, {classes} classes, {seconds:.2f} s", *lines, sep="\n")


def emphasis(text: str) -> str:
    """Bold on a terminal, plain elsewhere."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[1m{text}\x1b[0m"
