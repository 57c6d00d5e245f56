"""What all ten digits of MNIST cost, and how many of the test images are misclassified.

Needs ``mnist.npz`` with its test part in the folder of ``--data``. SVC takes about ten minutes and
is left out. ``--only choice`` shows where C and gamma come from: they are the best of nine for the
SVM, fitted to 10,000 of the training images and judged by 10,000 others.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import numpy as np
from _harness import WARM_MEMORY, measured, parse_arguments, write

from oblong import RelativeMarginClassifier

SETTINGS = {"C": 10.0, "gamma": 0.02, "tol": 1e-3}
GRID = [(C, gamma) for C in (1.0, 10.0, 100.0) for gamma in (0.01, 0.02, 0.04)]


def images(data: str, part: str = "") -> tuple[np.ndarray, np.ndarray]:
    with np.load(Path(data) / "mnist.npz") as file:
        return file[f"X{part}"].reshape(-1, 784) / np.float32(255), file[f"y{part}"]


def choice(data: str) -> list[dict]:
    X, y = images(data)
    order = np.random.default_rng(0).permutation(len(y))
    fitted, judges = order[:10_000], order[10_000:20_000]
    rows = []
    for C, gamma in GRID:
        model = RelativeMarginClassifier(**{**SETTINGS, "C": C, "gamma": gamma}, spread=1.0)
        errors = model.fit(X[fitted], y[fitted]).predict(X[judges]) != y[judges]
        rows.append({"C": C, "gamma": gamma, "validation errors": int(errors.sum())})
        print(rows[-1], file=sys.stderr)
    return rows


def measure(threads: int, repeats: int, data: str) -> list[dict]:
    (X, y), (X_test, y_test) = images(data), images(data, "_test")
    models = {
        "SVM": RelativeMarginClassifier(spread=1.0, n_jobs=threads, **SETTINGS),
        "spread 0.5": RelativeMarginClassifier(spread=0.5, n_jobs=threads, **SETTINGS),
    }
    try:
        from sklearnex.svm import SVC as IntelSVC

        models["intelex"] = IntelSVC(cache_size=4000, **SETTINGS)
    except ImportError:
        print("intelex is not installed", file=sys.stderr)
    rows = []
    for name, model in models.items():
        model.fit(X[:3000], y[:3000])
        used = []
        for _ in range(repeats):
            start = time.process_time()
            model.fit(X, y)
            used.append(time.process_time() - start)
        row = {"model": name, "threads": threads, "processor s": statistics.median(used)}
        row["test errors"] = int((model.predict(X_test) != y_test).sum())
        row["support vectors"] = int(model.n_support_.sum())
        if name != "intelex":
            row["largest gap"] = float(model.dual_gap_.max())
        print(row, file=sys.stderr)
        rows.append(row)
    return rows


def main() -> None:
    arguments = parse_arguments(__doc__)
    if arguments.only == "choice":
        write(
            "mnist_choice",
            "C and gamma of the digits",
            "Errors of the SVM on 10,000 training images, after a fit to 10,000 others; no test "
            "image is used. The next table has the settings with the fewest.",
            ["C", "gamma", "validation errors"],
            choice(arguments.data),
        )
        return
    columns = ["model", "threads", "processor s", "test errors", "support vectors", "largest gap"]
    write(
        "mnist_digits",
        "All ten digits of MNIST",
        "60,000 training and 10,000 test images in single precision, 0 to 1; the rbf kernel, "
        + ", ".join(f"{name} = {value:g}" for name, value in SETTINGS.items())
        + ". Processor seconds, of all threads together, of a fit of all 45 pairs.",
        columns,
        measured(__file__, __doc__, measure, WARM_MEMORY),
    )


if __name__ == "__main__":
    main()
