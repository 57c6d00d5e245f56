"""Large and noisy problems next to scikit-learn's and Intel's SVC: fits, predictions, single rows.

Half of the rows or more are support vectors. ``--only fit`` or ``--only predict`` runs one part.
Next to the time on the clock there is that of the processors, which other programs on
the machine disturb less.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from _harness import parse_arguments, run_per_thread_count, write
from sklearn.datasets import make_classification
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from oblong import RelativeMarginClassifier

COLUMNS = [
    "data",
    "rows x columns",
    "task",
    "threads",
    "support vectors",
    "oblong (s)",
    "SVC (s)",
    "intelex (s)",
    "SVC / oblong",
    "intelex / oblong",
    "SVC / oblong, processor",
    "intelex / oblong, processor",
    "first / second",
    "dual gap",
]


def noisy(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping clusters, with the labels of 30 % of the rows flipped."""
    rng = np.random.default_rng(seed)
    cluster = rng.integers(8, size=n)
    X = 1.5 * rng.standard_normal((8, d))[cluster] + rng.standard_normal((n, d))
    return X, (cluster + (rng.random(n) < 0.3)) % 2


def larger() -> tuple[np.ndarray, np.ndarray]:
    X, y = make_classification(
        40_000,
        22,
        n_informative=11,
        n_redundant=0,
        n_clusters_per_class=3,
        flip_y=0.03,
        class_sep=1.2,
        random_state=0,
    )
    return StandardScaler().fit_transform(X), y


def problems() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    yield "noisy clusters", *noisy(20_000, 6, 0)
    yield "noisy clusters", *noisy(19_020, 10, 1)
    yield "generated", *larger()


def peers() -> dict[str, Any]:
    models: dict[str, Any] = {
        "oblong": RelativeMarginClassifier(spread=1.0),
        "SVC": SVC(cache_size=1000),
    }
    try:
        from sklearnex.svm import SVC as IntelSVC

        models["intelex"] = IntelSVC(cache_size=1000)
    except ImportError:
        pass
    return models


def timed(task: Callable[[], Any]) -> tuple[float, float]:
    """Seconds on the clock and of the processors."""
    clock, processor = time.perf_counter(), time.process_time()
    task()
    return time.perf_counter() - clock, time.process_time() - processor


def turns(
    tasks: dict[str, Callable[[], Any]], repeats: int, slow: int = 1
) -> dict[str, np.ndarray]:
    """Medians of both times, alternating; SVC is timed ``slow`` times only."""
    times: dict[str, list] = {name: [] for name in tasks}
    for k in range(repeats):
        for name, task in tasks.items():
            if name != "SVC" or k < slow:
                times[name].append(timed(task))
    return {name: np.median(found, axis=0) for name, found in times.items()}


def row(times: dict[str, np.ndarray], **facts: Any) -> dict:
    ours = times["oblong"]
    found = {
        **facts,
        **{f"{name} (s)": float(t[0]) for name, t in times.items()},
        **{f"{name} / oblong": float(t[0] / ours[0]) for name, t in times.items()},
        **{f"{name} / oblong, processor": float(t[1] / ours[1]) for name, t in times.items()},
    }
    print(found, file=sys.stderr)
    return found


def measure(threads: int, repeats: int, only: str) -> list[dict]:
    rows = []
    # Compile what a fit and a prediction need.
    RelativeMarginClassifier(spread=1.0).fit(*noisy(5000, 6, 2)).predict(np.zeros((2, 6)))
    if only in ("", "fit"):
        for name, X, y in problems():
            models = peers()
            first = timed(lambda m=models["oblong"], X=X, y=y: m.fit(X, y))[1]
            second = timed(lambda m=models["oblong"], X=X, y=y: m.fit(X, y))[1]
            tasks = {n: lambda m=m, X=X, y=y: m.fit(X, y) for n, m in models.items()}
            rows.append(
                row(
                    turns(tasks, repeats),
                    data=name,
                    **{"rows x columns": f"{X.shape[0]} x {X.shape[1]}"},
                    task="fit",
                    threads=threads,
                    **{"support vectors": int(models["oblong"].support_.size)},
                    **{"first / second": first / second},
                    **{"dual gap": float(models["oblong"].dual_gap_[0])},
                )
            )
    if only in ("", "predict"):
        X, y = noisy(20_000, 10, 3)
        models = peers()
        for model in models.values():
            model.fit(X[:8400], y[:8400])
        facts = {"rows x columns": "20000 x 10", "threads": threads}
        facts["support vectors"] = int(models["oblong"].support_.size)
        tasks = {n: lambda m=m: m.predict(X) for n, m in models.items()}
        rows.append(row(turns(tasks, repeats), data="noisy clusters", task="predict", **facts))
        single = {n: lambda m=m: m.predict(X[:1]) for n, m in models.items()}
        rows.append(
            row(turns(single, 300, 300), data="noisy clusters", task="predict one row", **facts)
        )
    return rows


def main() -> None:
    arguments = parse_arguments(__doc__)
    if arguments.child:
        print(json.dumps(measure(arguments.child, arguments.repeats, arguments.only)))
        return
    write(
        "noisy_against_peers",
        "Large and noisy problems next to their peers",
        "Median seconds at tol 1e-3 and C = 1, alternating, SVC once; a ratio above one means that "
        "oblong is faster, on the clock or in processor time. Their caches have 1 GB. "
        "First / second is the processor time of the first fit on the data over the second.",
        COLUMNS,
        run_per_thread_count(__file__, arguments),
    )


if __name__ == "__main__":
    main()
