"""Run the command line as ``python -m oblong``."""

import sys

from oblong.cli import main

sys.exit(main())
