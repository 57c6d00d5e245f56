"""``oblong datasets list``: the data sets that can be given by name.

Data sets that can be given by name.

examples:
  oblong datasets list
  OBLONG_DATA=~/data oblong datasets list --json
"""  # noqa: D405, D406, D407

import argparse
from dataclasses import asdict
from typing import Any

from oblong.cli.shared.options import add_command, emphasis, print_json


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = add_command(subparsers, "datasets", __doc__)

    def show_help(args: argparse.Namespace) -> int:
        parser.print_help()
        return 0

    parser.set_defaults(run=show_help)
    actions = parser.add_subparsers(title="commands", metavar="COMMAND")
    about = "List the built-in sets, and those in the folder that the variable "
    kind = argparse.RawDescriptionHelpFormatter
    how: Any = {"epilog": parser.epilog, "formatter_class": kind, "help": "list them"}
    listing = actions.add_parser("list", description=about + "OBLONG_DATA names.", **how)
    listing.add_argument("--json", action="store_true", help="print the list as JSON")
    listing.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    # Here, so that help comes at once.
    from oblong.datasets.loading import summaries

    found = summaries()
    if args.json:
        sets = [asdict(each) for each in found]
        print_json({"sets": sets}, indent=2, ensure_ascii=False)
        return 0
    width = max(len(each.name) for each in found)
    print(emphasis(f"{'name':<{width}}  {'rows':>9}  {'features':>9}  description"))
    for each in found:
        size = "  ".join(
            "?".rjust(9) if n is None else f"{n:9,}" for n in (each.rows, each.features)
        )
        print(f"{each.name:<{width}}  {size}  {each.description}".rstrip())
    return 0
