"""Run the command line as ``python -m oblong.cli``."""

from oblong.cli import program

program()
