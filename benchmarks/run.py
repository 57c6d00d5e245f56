"""Run the benchmarks and write the tables that the documentation shows; ``--all`` takes longer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPTS = ("start_up", "svm_against_peers", "relative_margin_cost")
# Longer, and not part of every run.
MORE = (
    "calibration",
    "kernel_growth",
    "column_growth",
    "mnist_digits",
    "larger_than_memory",
    "linear_against_peers",
    "many_classes",
    "noisy_against_peers",
    "regression_against_peers",
    "cross_validation",
    "default_spreads",
    "drift",
    "ellipsoid_against_peers",
    "ellipsoidal_kernel_cost",
    "ellipsoidal_svm_against_peers",
    "online_against_peers",
    "online_health",
    "play_latency",
    "reading_files",
    "small_fits",
    "stream_against_vw",
)


def main() -> None:
    here = Path(__file__).parent
    arguments = [a for a in sys.argv[1:] if a != "--all"]
    for script in SCRIPTS + (MORE if "--all" in sys.argv else ()):
        subprocess.run([sys.executable, str(here / f"{script}.py"), *arguments], check=True)


if __name__ == "__main__":
    main()
