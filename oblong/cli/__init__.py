"""The command line.

Exit codes: 0 for success, 1 for a run that failed, 2 for bad input, 130 for Ctrl-C and 143 for
SIGTERM.
"""

import argparse
import atexit
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

from oblong._core.text import no_such, printable

__all__ = ["main", "program"]

OK, FAILED, BAD_INPUT, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143

# Modules of `oblong.cli.commands` and what they do. A module is loaded when its command is named,
# so that --version and --help need none of the libraries.
_COMMANDS = {
    "play": "open a page to draw points on and watch the boundaries",
    "compare": "find out which classifier suits a data set",
    "train": "fit one model to a file and save it",
    "predict": "predict the rows of a file with a saved model",
    "info": "show what a model file contains",
    "export": "write a saved model as an ONNX graph",
    "datasets": "list the data sets that can be given by name",
    "stream": "run an online learner over a stream of rows",
    "completion": "print a script for completing commands in a shell",
    "warm": "compile in advance what the first fits would compile",
}
# Other distributions add commands by an entry point of this group, which names a function like
# the `add_parser` of those modules. A command may raise DataFileError for bad input.
_GROUP = "oblong.commands"
# Commands of distributions that are known, what they do, and how to get them.
_ELSEWHERE = {
    "reproduce": (
        "run the experiments of the papers and compare the numbers",
        "pip install oblong-reproduction, or, in a checkout, pip install -e reproduction",
    )
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line; the usage is a --help away."""
        self.exit(BAD_INPUT, f"oblong: error: {message} (see {self.prog} --help)\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Let a full disk be an error, which argparse passes over."""
        if file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        Words after ``oblong``; those of the process by default.
    """
    _open_streams()
    try:
        with handling(signal.SIGINT, _interrupted, signal.default_int_handler):
            args = _parse(argv)
        with handling(signal.SIGTERM, _terminated, signal.SIG_DFL):
            code = args if isinstance(args, int) else _run(args)
        # Now, since at exit Python could not report a full disk.
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)
    except _Terminated:
        return _complain("terminated", TERMINATED)
    except BrokenPipeError:
        # The reader has gone.
        _discard_output()
        return OK
    except MemoryError as error:
        reason = (str(error).splitlines() or ["no more is available"])[0]
        return _complain(f"error: out of memory: {reason}", FAILED)
    except OSError as error:
        _discard_output()
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"error: {where}{error.strerror or error}", FAILED)


def program() -> NoReturn:
    """Run the command line of the process, and end it."""
    code = main()
    # Threads of a fit that was interrupted need not come to their end.
    if threading.active_count() == 1 or code in (INTERRUPTED, TERMINATED):
        # Taking modules and compiled code apart one by one takes a quarter of a short command's
        # time, and is where libraries have crashed. What asked to be called at the end is called.
        atexit._run_exitfuncs()
        with suppress(OSError, ValueError):
            sys.stderr.flush()
            sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


def _open_streams() -> None:
    """Make standard streams what the commands expect them to be."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Closed by the caller: nothing to read, and nobody reads.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(getattr(stream, "buffer", None), io.RawIOBase):
            # PYTHONUNBUFFERED: Python would drop what a system call leaves of a text, as on a disk
            # that is nearly full. Lines still come out one by one.
            how: Any = {"encoding": stream.encoding, "closefd": False}
            stream = open(stream.fileno(), "w", buffering=1, **how)  # noqa: SIM115
            setattr(sys, name, stream)
        # A terminal that lacks a character gets a question mark, not an error.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _discard_output() -> None:
    """Let what Python flushes at its end not fail a second time."""
    # It need not be a file of the system.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Terminated(BaseException):
    """A request to end, which clears up what is half done."""


def _interrupted(*_: object) -> NoReturn:
    """End the program where it is: modules that are loading may swallow exceptions."""
    os._exit(_complain("interrupted", INTERRUPTED))


def _terminated(*_: object) -> NoReturn:
    raise _Terminated


@contextmanager
def handling(number: int, handler: Callable[..., object], usual: Any = None) -> Iterator[None]:
    """Handle a signal, unless something else is done about it than what is `usual`, if given."""
    before = signal.getsignal(number)
    # The main thread alone has a say in signals.
    main = threading.current_thread() is threading.main_thread()
    ours = main and usual in (None, before)
    if ours:
        signal.signal(number, handler)
    try:
        yield
    finally:
        if ours:
            signal.signal(number, before)


def command_parsers() -> dict[str, argparse.ArgumentParser]:
    """The parsers of all commands that are installed."""
    parser = _Parser(prog="oblong")
    commands = parser.add_subparsers()
    for name in _COMMANDS:
        import_module(f"oblong.cli.commands.{name}").add_parser(commands)
    for point in _installed().values():
        point.load()(commands)
    return dict(commands.choices)


def _installed() -> dict[str, Any]:
    """Entry points of the commands of other distributions."""
    # Here, since it takes as long as the rest of --version.
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=_GROUP)}


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
    if any("\0" in word for word in words):
        return _complain("arguments must not contain a null character", BAD_INPUT)
    first = words[0] if words else ""
    if first in _COMMANDS:
        import_module(f"oblong.cli.commands.{first}").add_parser(commands)
    elif first != "--version":
        installed = _installed()
        if first in installed:
            installed[first].load()(commands)
        elif first in _ELSEWHERE:
            message = f"error: 'oblong {first}' needs another package: {_ELSEWHERE[first][1]}"
            return _complain(message, BAD_INPUT)
        elif first and not first.startswith("-"):
            problem = no_such("command", first, [*_COMMANDS, *installed])
            return _complain(f"error: {problem} (see oblong --help)", BAD_INPUT)
        else:
            for name, about in _COMMANDS.items():
                commands.add_parser(name, help=about)
            for name, point in installed.items():
                about, _ = _ELSEWHERE.get(name, (f"a command of {point.value}", ""))
                commands.add_parser(name, help=about)
    try:
        args, unknown = parser.parse_known_args(argv)
        if unknown:
            # The command knows better than the program what its options are.
            at = commands.choices.get(first, parser)
            at.error(f"unrecognized arguments: {' '.join(unknown)}")
    except SystemExit as end:
        return int(end.code or OK)
    if not hasattr(args, "run"):
        parser.print_help()
        return OK
    return args


def _option(args: argparse.Namespace, parameter: str) -> str | None:
    """The option that stands for a parameter of the library, ``name=``; None if there is none."""
    other = {"n_features": "features", "delimiter": "sep", "gaps": "impute"}
    name = other.get(parameter[:-1], parameter[:-1])
    return f"--{name.replace('_', '-')}" if hasattr(args, name) else None


def _run(args: argparse.Namespace) -> int:
    from oblong.cli.shared.options import RunError
    from oblong.io.errors import DataFileError
    from oblong.persistence import ModelFileError

    try:
        return args.run(args)
    except SystemExit as end:
        return int(end.code or OK)
    except DataFileError as error:
        return _complain(f"error: {error.message(partial(_option, args))}", BAD_INPUT)
    except ModelFileError as error:
        return _complain(f"error: {error}", BAD_INPUT)
    except RunError as error:
        return _complain(f"error: {error}", FAILED)


def _complain(message: str, code: int) -> int:
    # The exit code says it too, where nothing can be written.
    with suppress(OSError):
        print(f"oblong: {printable(message)}", file=sys.stderr)
    return code
