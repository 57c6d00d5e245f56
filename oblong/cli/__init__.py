"""The command line.

Exit codes: 0 for success, 1 for a run that failed, 2 for bad input, 130 for Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import NoReturn

__all__ = ["main"]

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

# Commands and their modules, which are loaded when they are needed.
_COMMANDS = {
    "compare": "compare",
    "train": "train",
    "predict": "predict",
    "info": "info",
    "export": "export",
    "datasets": "datasets_list",
    "stream": "stream",
    "bench": "bench",
    "reproduce": "reproduce",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line; the usage is a --help away."""
        self.exit(BAD_INPUT, f"oblong: error: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        Words after ``oblong``; those of the process by default.
    """
    _open_streams()
    try:
        with _ends_at_once():
            args = _parse(argv)
        code = args if isinstance(args, int) else _run(args)
        # Here and not at the end of Python, where nobody can tell of a full disk.
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader has gone.
        _discard_output()
        return OK
    except MemoryError as error:
        reason = (str(error).splitlines() or ["no more can be had"])[0]
        return _complain(f"error: out of memory: {reason}", FAILED)
    except OSError as error:
        _discard_output()
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"error: {where}{error.strerror or error}", FAILED)


def _open_streams() -> None:
    """Make standard streams what the commands expect them to be."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Closed by who called: nothing to read, and nobody to read.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a character gets a question mark, not an error.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _discard_output() -> None:
    """Let what Python flushes at its end not fail a second time."""
    # It need not be a file of the system.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _ends_at_once() -> Iterator[None]:
    """Let Ctrl-C end the program where it is while modules load, which may swallow exceptions."""
    try:
        ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if ours:
            signal.signal(signal.SIGINT, lambda *_: os._exit(_complain("interrupted", INTERRUPTED)))
    except ValueError:
        # Not the main thread, which alone has a say in signals.
        ours = False
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace | int:
    """Read the words; an exit code if that was all there was to do."""
    from oblong import __version__

    parser = _Parser(
        prog="oblong",
        description="Classifiers that use the shape of data.",
        epilog="examples:\n  oblong compare breast_cancer\n"
        "  oblong train iris --model rmm -o iris.oblong\n  oblong predict iris.oblong new.csv",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"oblong {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    words = sys.argv[1:] if argv is None else argv
    named = [word for word in words[:1] if word in _COMMANDS]
    if words[:1] != ["--version"]:
        for name in named or _COMMANDS:
            import_module(f"oblong.cli.{_COMMANDS[name]}").add_parser(commands)
    try:
        args = parser.parse_args(argv)
    except SystemExit as end:
        return int(end.code or OK)
    if not hasattr(args, "run"):
        parser.print_help()
        return OK
    return args


# Options that stand for parameters of the library.
_OPTIONS = {
    "categorical=": "--categorical",
    "classes=": "--classes",
    "hash_bits=": "--hash-bits",
    "n_features=": "--features",
    "target=": "--target",
    "weight=": "--weight",
    "zero_based=": "--zero-based",
}


def _run(args: argparse.Namespace) -> int:
    from oblong.cli.errors import RunError
    from oblong.datasets import DataFileError
    from oblong.persistence import ModelFileError

    try:
        return args.run(args)
    except SystemExit as end:
        return int(end.code or OK)
    except DataFileError as error:
        return _complain(f"error: {error.message(_OPTIONS)}", BAD_INPUT)
    except ModelFileError as error:
        return _complain(f"error: {error}", BAD_INPUT)
    except RunError as error:
        return _complain(f"error: {error}", FAILED)


def _complain(message: str, code: int) -> int:
    # Words of a file, or of a library about it, must not steer the terminal.
    shown = "".join(c if c.isprintable() else "?" for c in message)
    print(f"oblong: {shown}", file=sys.stderr)
    return code
