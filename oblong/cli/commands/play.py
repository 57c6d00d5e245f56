"""``oblong play``: a local page for moving points and watching the boundaries follow.

Open a page in the browser: add and drag points, choose classifiers, move sliders, stretch the data,
and see which boundaries turn. The page is served to this computer only, and no data leaves it.

examples:
  oblong play
  oblong play flowers.csv --target species --columns petal_length,petal_width
  oblong play --no-browser --port 8000
"""  # noqa: D405, D406, D407

from __future__ import annotations

import argparse
import os
import webbrowser
from contextlib import suppress
from typing import TYPE_CHECKING

from oblong.cli.shared.options import add_command, adder, busy, is_set_by_name, whole_number
from oblong.cli.shared.tables import add_table_options, labelled_table
from oblong.datasets import DataFileError

if TYPE_CHECKING:
    from oblong.cli.play.tables import Cells
    from oblong.io.dataset import Table


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


def _table(args: argparse.Namespace) -> Table | Cells:
    """What there is to draw; text of the page's size is read as the page reads it."""
    from oblong.cli.play.server import MOST_BYTES
    from oblong.cli.play.tables import read_cells
    from oblong.io.sources import read_bytes
    from oblong.io.tables import look

    names = "drop text dates date_format impute sep decimal thousands encoding missing skip_bad"
    said = any(getattr(args, name) for name in f"{names} skip_rows zero_based".split())
    small = os.path.isfile(args.data) and os.path.getsize(args.data) <= MOST_BYTES
    if said or args.categorical != "none" or is_set_by_name(args.data) or not small:
        return labelled_table(args)
    if look(args.data)[0] != "csv":
        return labelled_table(args)
    try:
        return read_cells(read_bytes(args.data), args.data)._replace(target=args.target)
    except DataFileError as error:
        if error.cause == "columns":
            error.advice = "choose another separator with --sep"
        raise


def _run(args: argparse.Namespace) -> int:
    from oblong.cli.play.models import BadRequest
    from oblong.cli.play.server import PlayServer

    table = None
    if args.data is not None:
        with busy(f"reading {args.data}"):
            table = _table(args)
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
