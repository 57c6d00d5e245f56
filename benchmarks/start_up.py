"""How long until the first answer: imports, and a first fit with nothing compiled yet."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

from _harness import parse_arguments, write

# All names of the package: it loads them only when they are used.
IMPORT = "import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
STATEMENTS = {"sklearn.svm": "import sklearn.svm", "oblong": "from oblong import *"}
FIRST_FIT = """
import time
from sklearn.datasets import load_digits
X, y = load_digits(return_X_y=True)
t = time.perf_counter()
from oblong import RelativeMarginClassifier
RelativeMarginClassifier().fit(X, y > 4)
print(time.perf_counter() - t)
"""


def seconds(code: str, environment: dict[str, str]) -> float:
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def main() -> None:
    repeats = parse_arguments(__doc__).repeats
    warm = dict(os.environ)
    imports: dict[str, list[float]] = {"sklearn.svm": [], "oblong": []}
    for _ in range(repeats + 1):
        for module, times in imports.items():
            times.append(seconds(IMPORT.format(statement=STATEMENTS[module]), warm))
    medians = {module: statistics.median(times[1:]) for module, times in imports.items()}
    with tempfile.TemporaryDirectory() as empty:
        cold = seconds(FIRST_FIT, {**warm, "NUMBA_CACHE_DIR": empty})
        again = seconds(FIRST_FIT, {**warm, "NUMBA_CACHE_DIR": empty})
    rows = [
        {"what": "import sklearn.svm", "seconds": medians["sklearn.svm"]},
        {"what": "from oblong import *", "seconds": medians["oblong"]},
        {
            "what": "from oblong import * / import sklearn.svm",
            "seconds": None,
            "ratio": medians["oblong"] / medians["sklearn.svm"],
        },
        {"what": "import and first fit, empty compile cache", "seconds": cold},
        {"what": "import and first fit, filled compile cache", "seconds": again},
    ]
    write(
        "start_up",
        "Start-up",
        "Medians of fresh processes for the imports; one process each for the first fits.",
        ["what", "seconds", "ratio"],
        rows,
    )


if __name__ == "__main__":
    main()
