"""``oblong play``: a local page for moving points and watching the boundaries follow.

Open a page in the browser: add and drag points, choose classifiers, move sliders, stretch the data,
and see which boundaries turn. The page is served to this computer only, and no data leaves it.

examples:
  oblong play
  oblong play flowers.csv --target species --columns petal_length,petal_width
  oblong play --no-browser --port 8000
"""  # noqa: D405, D406, D407

import argparse
import webbrowser
from contextlib import suppress

from oblong.cli.shared.options import add_command, adder, busy, whole_number
from oblong.cli.shared.tables import add_table_options, labelled_table
from oblong.datasets import DataFileError


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = add_command(subparsers, "play", __doc__)
    add = adder(parser)
    add("data DATA", "built-in set or file to start with (default: generated points)", nargs="?")
    add_table_options(parser)
    about = "columns to draw, by name or number (default: the first two that are numbers)"
    add("--columns X,Y", about, _pair)
    add("--port N", "port (default: a free one)", whole_number(0), 0)
    add("--no-browser", "print the address without opening a browser")
    parser.set_defaults(run=_run)


def _pair(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names):
        raise argparse.ArgumentTypeError(f"expected two columns, got {text!r}")
    return names


def _run(args: argparse.Namespace) -> int:
    from oblong.cli.play.models import BadRequest
    from oblong.cli.play.server import PlayServer

    table = None
    if args.data is not None:
        with busy(f"reading {args.data}"):
            table = labelled_table(args)
    elif args.columns:
        raise DataFileError("--columns", "expected DATA to take them from")
    if args.port > 65535:
        raise DataFileError("--port", f"expected a port up to 65535, got {args.port}")
    try:
        server = PlayServer(args.port, table, args.columns or ())
    except BadRequest as error:
        raise DataFileError(args.data, str(error)) from None
    with server:
        print(f"{server.url}\nCtrl-C ends it.", flush=True)
        if not args.no_browser:
            webbrowser.open(server.url)
        with suppress(KeyboardInterrupt):
            server.serve_forever(poll_interval=0.2)
    return 0
