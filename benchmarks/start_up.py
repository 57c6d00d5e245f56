"""How long until the first answer: imports, commands, and a first fit with nothing compiled yet."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _harness import parse_arguments, write

IMPORT = "import time; {statement}; print(time.process_time())"
STATEMENTS = {
    "import sklearn.svm": "import sklearn.svm",
    "one estimator": "from oblong import RelativeMarginClassifier",
    "one online learner": "from oblong import AROWClassifier",
    "from oblong import *": "from oblong import *",
}
FIRST_FIT = """
import time
from sklearn.datasets import load_digits
X, y = load_digits(return_X_y=True)
t = time.process_time()
from oblong import RelativeMarginClassifier
RelativeMarginClassifier().fit(X, y > 4)
print(time.process_time() - t)
"""


def seconds(code: str, environment: dict[str, str]) -> float:
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def command(words: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds of processor and clock of a command."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "oblong", *words], env=environment, stdout=subprocess.DEVNULL
    )
    _, _, usage = os.wait4(process.pid, 0)
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - began


def main() -> None:
    repeats = parse_arguments(__doc__).repeats
    # As installed packages have it.
    warm = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    imports: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(repeats + 1):
        for name, statement in STATEMENTS.items():
            imports[name].append(seconds(IMPORT.format(statement=statement), warm))
    medians = {name: statistics.median(times[1:]) for name, times in imports.items()}
    rows = [
        {
            "what": name,
            "processor s": value,
            "of sklearn.svm": value / medians["import sklearn.svm"],
        }
        for name, value in medians.items()
    ]
    with tempfile.TemporaryDirectory() as folder:
        ten = Path(folder) / "ten.libsvm"
        ten.write_text("".join(f"{i % 2} 1:{i}.5 3:{i * i % 7}\n" for i in range(10)))
        for words in (["--version"], ["stream", str(ten)]):
            found = [command(words, warm) for _ in range(repeats + 1)][1:]
            processor, clock = map(statistics.median, zip(*found))
            name = " ".join(["oblong", *words]).replace(str(ten), "ten.libsvm")
            rows.append({"what": name, "processor s": processor, "seconds": clock})
        cold = {**warm, "NUMBA_CACHE_DIR": folder}
        for state in ("empty", "filled"):
            what = f"import and first fit, {state} compile cache"
            rows.append({"what": what, "processor s": seconds(FIRST_FIT, cold)})
    write(
        "start_up",
        "Start-up",
        "Fresh processes, medians; one process each for the first fits. Imports are measured from "
        "the start of Python.",
        ["what", "processor s", "seconds", "of sklearn.svm"],
        rows,
    )


if __name__ == "__main__":
    main()
