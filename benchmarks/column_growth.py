"""How the time of a fit grows with the number of columns, next to SVC and intelex.

The rows are those of a problem with ten columns, rotated into more of them: distances, and with
them the solution, stay the same, and only a kernel value takes longer. Processor time is measured,
of one thread each.
"""

from __future__ import annotations

import sys

import numpy as np
from _harness import WARM_MEMORY, interleaved, measured, write
from sklearn.svm import SVC

from oblong import RelativeMarginClassifier

ROWS, COLUMNS = 3_000, (10, 30, 100, 300, 1000)


def problem(columns: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(ROWS, 10))
    y = (np.sin(2.0 * Z[:, 0]) + Z[:, 1] * Z[:, 2] + 0.5 * rng.normal(size=ROWS) > 0).astype(int)
    return Z @ np.linalg.qr(rng.normal(size=(columns, 10)))[0].T, y


def measure(threads: int, repeats: int) -> list[dict]:
    settings = {"C": 1.0, "gamma": 0.1, "tol": 1e-3}
    models = {
        "oblong": RelativeMarginClassifier(spread=1.0, **settings),
        "spread 1/2": RelativeMarginClassifier(spread=0.5, **settings),
        "SVC": SVC(cache_size=1000, **settings),
    }
    try:
        from sklearnex.svm import SVC as IntelSVC

        models["intelex"] = IntelSVC(cache_size=1000, **settings)
    except ImportError:
        print("intelex is not installed", file=sys.stderr)
    rows = []
    for columns in COLUMNS:
        X, y = problem(columns)
        tasks = {name: lambda m=m, X=X, y=y: m.fit(X, y) for name, m in models.items()}
        seconds = interleaved(tasks, repeats, processor=True)
        row = {"columns": columns, **{f"{name} (s)": s for name, s in seconds.items()}}
        row["SVC / oblong"] = seconds["SVC"] / seconds["oblong"]
        row["support vectors"] = int(models["oblong"].n_support_.sum())
        row["dual gap"] = float(models["oblong"].dual_gap_[0])
        print(row, file=sys.stderr)
        rows.append(row)
    return rows


def main() -> None:
    rows = measured(__file__, __doc__, measure, WARM_MEMORY, threads=[1])
    write(
        "column_growth",
        "Growth with the number of columns",
        f"{ROWS:,} generated rows with two classes, the rbf kernel, C = 1, tol 1e-3. The same "
        "problem of ten columns is rotated into more. Median processor seconds of a warm fit, "
        "alternating, one thread.",
        list(dict.fromkeys(name for row in rows for name in row)),
        rows,
    )


if __name__ == "__main__":
    main()
