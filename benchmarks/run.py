"""Run every benchmark and write the tables that the documentation shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPTS = ("start_up", "svm_against_peers", "relative_margin_cost")


def main() -> None:
    here = Path(__file__).parent
    for script in SCRIPTS:
        subprocess.run([sys.executable, str(here / f"{script}.py"), *sys.argv[1:]], check=True)


if __name__ == "__main__":
    main()
