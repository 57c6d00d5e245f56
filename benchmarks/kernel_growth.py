"""How the time of kernel models grows with the number of rows, and where it goes.

MNIST, digits 0-4 against 5-9, images of unit length, polynomial kernel of degree 5, C = 1, as in
Fig. 10 of Shivaswamy and Jebara (2010), whose tolerance of 0.001 on each side of the bias is
tol = 0.002 here. B1, B2 and B3 are the spreads 1/2, 1/4 and 1/10.

Memory that is freed stays with the process, for oblong and its peers alike: the first fit of a
model and size, which may have to ask the system for gigabytes, has a column of its own.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable

import numpy as np
from _harness import WARM_MEMORY, interleaved, measured, write
from sklearn.svm import SVC

from oblong import RelativeMarginClassifier, datasets
from oblong.linalg import kernel_matrix
from oblong.solvers.margin import working_sets

KERNEL = {"kernel": "poly", "degree": 5, "gamma": 1.0, "coef0": 1.0}
SPREADS = {"SVM": 1.0, "RMM B1": 0.5, "RMM B2": 0.25, "RMM B3": 0.1}
ROWS = (5_000, 10_000, 20_000, 60_000)
# Beyond this one more fit after the first has to do, and SVC's takes many minutes.
REPEATED_ROWS = 20_000
COLUMNS = [
    "rows",
    "threads",
    "model",
    "seconds",
    "first fit (s)",
    "ratio to our SVM",
    "support vectors",
    "dual gap",
    "kernel values (s)",
    "inner loop (s)",
    "kept columns (s)",
    "certificate (s)",
    "kernel values / GEMM rate",
    "kept columns / memory rate",
]


class Stopwatch:
    """Seconds spent in functions of the solver, kernel values computed and bytes read."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.work: dict[str, float] = defaultdict(float)
        self.inside = False

    def clear(self) -> None:
        """Start anew."""
        self.seconds.clear()
        self.work.clear()

    def watch(
        self, owner: object, name: str, label: str, work: Callable[..., float] = lambda *_: 0.0
    ) -> None:
        """Time every call of a function from now on, unless another one that is timed calls it."""
        function: Callable = getattr(owner, name)

        def timed(*arguments: object, **options: object) -> object:
            if self.inside:
                return function(*arguments, **options)
            self.inside = True
            start = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds[label] += time.perf_counter() - start
                self.work[label] += work(*arguments)
                self.inside = False

        setattr(owner, name, timed)

    def watch_solver(self) -> None:
        """Time the parts of the margin solver."""
        kind = kernel_matrix.KernelMatrix
        values = "kernel values"
        self.watch(kind, "block", values, lambda _, rows, cols, *__: len(rows) * len(cols))
        self.watch(kind, "_compute_rows", values, lambda self, rows: len(rows) * self.n)
        self.watch(kernel_matrix, "add_product", values, lambda _, A, B, *__: A.n * B.n)
        self.watch(working_sets, "solve_block", "inner loop")
        self.watch(
            kernel_matrix, "add_columns", "kept columns",
            lambda _, store, slots, *__: len(slots) * store[0].nbytes,
        )  # fmt: skip
        self.watch(kind, "image64", "certificate")


def gemm_rate(features: int) -> float:
    """Operations per second of a single-precision product of the shape of a kernel block."""
    A = np.random.default_rng(0).random((512, features), dtype=np.float32)
    B = np.random.default_rng(1).random((4096, features), dtype=np.float32)
    seconds = interleaved({"gemm": lambda: A @ B.T}, 9)["gemm"]
    return 2.0 * A.shape[0] * B.shape[0] * features / seconds


def memory_rate() -> float:
    """Bytes per second of one processor that reads memory and adds up what it finds."""
    values = np.ones(1 << 28, dtype=np.float32)
    return values.nbytes / interleaved({"sum": lambda: values @ values}, 5)["sum"]


def measure(threads: int, repeats: int, data: str | None) -> list[dict]:
    mnist = datasets.load("mnist", data_home=data)
    X = mnist.X.astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = (np.asarray(mnist.y).astype(int) > 4).astype(int)
    try:
        from sklearnex.svm import SVC as IntelSVC
    except ImportError:
        IntelSVC = None
    rate, memory = gemm_rate(X.shape[1]), memory_rate()
    watch = Stopwatch()
    watch.watch_solver()
    # Compiled functions are loaded, and memory is touched, before anything is timed.
    RelativeMarginClassifier(spread=0.5, tol=2e-3, **KERNEL).fit(X[:5000], y[:5000])
    rows = []
    for n in ROWS:
        models = {
            name: RelativeMarginClassifier(spread=spread, tol=2e-3, cache_size=8192, **KERNEL)
            for name, spread in SPREADS.items()
        }
        if IntelSVC is not None:
            models["intelex"] = IntelSVC(tol=2e-3, cache_size=8192, **KERNEL)
        if n <= REPEATED_ROWS:
            models["SVC"] = SVC(tol=2e-3, cache_size=8192, **KERNEL)
        times: dict[str, list[float]] = {name: [] for name in models}
        shares: dict[str, dict[str, float]] = {}
        for _ in range(1 + (repeats if n <= REPEATED_ROWS else 1)):
            for name, model in models.items():
                if name == "SVC" and n == REPEATED_ROWS and len(times[name]) > 1:
                    continue
                watch.clear()
                start = time.perf_counter()
                model.fit(X[:n], y[:n])
                times[name].append(time.perf_counter() - start)
                shares[name] = {
                    **{f"{k} (s)": v for k, v in watch.seconds.items()},
                    **{f"{k}, work": v for k, v in watch.work.items()},
                }
        seconds = {name: float(np.median(values[1:])) for name, values in times.items()}
        for name, model in models.items():
            row = {
                "rows": n,
                "threads": threads,
                "model": name,
                "seconds": seconds[name],
                "first fit (s)": times[name][0],
                "ratio to our SVM": seconds[name] / seconds["SVM"],
                "support vectors": int(np.sum(model.n_support_)),
            }
            if name in SPREADS:
                row["dual gap"] = float(model.dual_gap_[0])
                share = shares[name]
                for label in ("kernel values", "inner loop", "kept columns", "certificate"):
                    row[f"{label} (s)"] = share.get(f"{label} (s)", 0.0)
                products = 2.0 * share["kernel values, work"] * X.shape[1]
                row["kernel values / GEMM rate"] = products / rate / share["kernel values (s)"]
                if share.get("kept columns, work"):
                    row["kept columns / memory rate"] = (
                        share["kept columns, work"] / memory / share["kept columns (s)"]
                    )
            print(row, file=sys.stderr)
            rows.append(row)
    return rows


def growth(rows: list[dict]) -> str:
    """Exponents of the time in the number of rows, by least squares on the logarithms."""
    texts = []
    for threads in sorted({row["threads"] for row in rows}):
        for name in SPREADS:
            own = [r for r in rows if r["model"] == name and r["threads"] == threads]
            slope = np.polyfit(
                np.log([r["rows"] for r in own]), np.log([r["seconds"] for r in own]), 1
            )[0]
            texts.append(f"{name} {slope:.2f} ({threads} threads)")
    return "; ".join(texts)


def main() -> None:
    rows = measured(__file__, __doc__, measure, WARM_MEMORY)
    write(
        "kernel_growth",
        "Growth with the number of rows",
        "MNIST 0-4 against 5-9, polynomial kernel of degree 5, unit-length images in single "
        "precision, C = 1, tol 2e-3, caches of 8 GB; the fit of the SVM that settles the bound is "
        "included. Seconds are the median of fits after the first, which keep the memory of the "
        "process. The last columns are the fraction of the processor's single-precision product "
        "rate that kernel values are computed at, and the rate at which columns that were kept "
        "are read, next to a dot product over memory. Exponents of the time in the number of rows: "
        + growth(rows)
        + ".",
        COLUMNS,
        rows,
    )


if __name__ == "__main__":
    main()
