"""How fast a fit of many classes is next to SVC: pairs of 48 to 1,600 rows, 6 to 26 classes."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator

import numpy as np
from _harness import measured, write
from problems import stored
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from oblong import RelativeMarginClassifier

COLUMNS = [
    "data",
    "rows",
    "columns",
    "classes",
    "threads",
    "SVM (ms)",
    "SVC / SVM",
    "wall, SVC / SVM",
    "spread 0.5 / SVM",
    "support vectors, SVM",
    "support vectors, SVC",
    "largest gap",
]
NAMES = ("optdigits", "satimage", "pendigits", "letter", "isolet")
MOST_ROWS = 8000


def generated() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(15), 24)
    return rng.normal(size=(360, 90)) + 0.7 * rng.normal(size=(15, 90))[y], y


def problems(data: str | None) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    yield "generated", *generated()
    for name, X, y in stored(NAMES, data):
        rows = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
        yield name, StandardScaler().fit_transform(X[rows]), y[rows]


def measure(threads: int, repeats: int, data: str | None, only: str) -> list[dict]:
    rows = []
    for name, X, y in problems(data):
        if only and name != only:
            continue
        models = {
            "SVC": SVC(),
            "SVM": RelativeMarginClassifier(spread=1.0, n_jobs=threads),
            "spread 0.5": RelativeMarginClassifier(spread=0.5, n_jobs=threads),
        }
        wall: dict[str, list[float]] = {key: [] for key in models}
        used: dict[str, list[float]] = {key: [] for key in models}
        for turn in range(repeats + 1):
            for key, model in models.items():
                start, cpu = time.perf_counter(), time.process_time()
                model.fit(X, y)
                # The first turn warms up.
                if turn:
                    used[key].append(time.process_time() - cpu)
                    wall[key].append(time.perf_counter() - start)
        cpu_time = {key: statistics.median(values) for key, values in used.items()}
        seconds = {key: statistics.median(values) for key, values in wall.items()}
        ours = models["SVM"]
        row = {
            "data": name,
            "rows": X.shape[0],
            "columns": X.shape[1],
            "classes": len(ours.classes_),
            "threads": threads,
            "SVM (ms)": 1e3 * seconds["SVM"],
            "SVC / SVM": cpu_time["SVC"] / cpu_time["SVM"],
            "wall, SVC / SVM": seconds["SVC"] / seconds["SVM"],
            "spread 0.5 / SVM": cpu_time["spread 0.5"] / cpu_time["SVM"],
            "support vectors, SVM": len(ours.support_),
            "support vectors, SVC": len(models["SVC"].support_),
            "largest gap": float(max(m.dual_gap_.max() for k, m in models.items() if k != "SVC")),
        }
        print(row, file=sys.stderr)
        rows.append(row)
    return rows


def main() -> None:
    write(
        "many_classes",
        "Many classes, one against one",
        "The rbf kernel, C = 1, tol 1e-3, columns of unit variance, SVC alternating with "
        "RelativeMarginClassifier at spread 1 (the same model) and at spread 0.5. Ratios of "
        "processor time, except where it says wall; above one means that oblong is faster. SVC "
        "uses one thread.",
        COLUMNS,
        measured(__file__, __doc__, measure),
    )


if __name__ == "__main__":
    main()
