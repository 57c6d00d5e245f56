"""What all ten digits of MNIST cost, and how many of the test images are misclassified.

Needs ``mnist.npz`` with its test part in the folder of ``--data``. SVC takes about ten minutes and
is left out.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import numpy as np
from _harness import WARM_MEMORY, measured, write

from oblong import RelativeMarginClassifier

SETTINGS = {"C": 10.0, "gamma": 0.02, "tol": 1e-3}


def measure(threads: int, repeats: int, data: str) -> list[dict]:
    with np.load(Path(data) / "mnist.npz") as file:
        X, X_test = (file[name].reshape(-1, 784) / np.float32(255) for name in ("X", "X_test"))
        y, y_test = file["y"], file["y_test"]
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
