"""Run the command line as ``python -m oblong``."""

from oblong.cli import program

program()
