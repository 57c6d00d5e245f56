"""How fast the plain SVM (spread=1) is next to scikit-learn's and Intel's SVC.

Same kernel, same tolerance, same data; the dual objectives are compared as well.
"""

from __future__ import annotations

import sys

import numpy as np
from _harness import WARM_MEMORY, interleaved, measured, write
from problems import KERNELS, problems, settled
from sklearn.svm import SVC

from oblong import RelativeMarginClassifier
from oblong.kernels import Kernel

COLUMNS = [
    "data",
    "rows x columns",
    "kernel",
    "threads",
    "oblong (s)",
    "SVC (s)",
    "intelex (s)",
    "SVC / oblong",
    "intelex / oblong",
    "dual difference",
    "dual gap",
]


def dual_objective(model: object, X: np.ndarray, kernel: Kernel) -> float:
    """Value of ``Σ|c| - ½ c'Kc`` in double precision."""
    c = np.asarray(model.dual_coef_)[0]
    K = kernel(X[model.support_])
    return float(np.abs(c).sum() - 0.5 * c @ K @ c)


def measure(threads: int, repeats: int, data: str | None) -> list[dict]:
    try:
        from sklearnex.svm import SVC as IntelSVC
    except ImportError:
        IntelSVC = None
    rows = []
    for name, X, y in problems(data):
        for label, kernel in KERNELS.items():
            parameters = settled(kernel, X)
            models = {
                "oblong": RelativeMarginClassifier(spread=1.0, **parameters),
                "SVC": SVC(cache_size=1000, **parameters),
            }
            if IntelSVC is not None:
                models["intelex"] = IntelSVC(cache_size=1000, **parameters)
            tasks = {n: lambda m=m, X=X, y=y: m.fit(X, y) for n, m in models.items()}
            seconds = interleaved(tasks, repeats)
            function = Kernel(
                parameters["kernel"],
                parameters["gamma"],
                parameters.get("degree", 3),
                parameters.get("coef0", 0.0),
            )
            ours, theirs = (dual_objective(models[m], X, function) for m in ("oblong", "SVC"))
            row = {
                "data": name,
                "rows x columns": f"{X.shape[0]} x {X.shape[1]}",
                "kernel": label,
                "threads": threads,
                **{f"{n} (s)": s for n, s in seconds.items()},
                **{f"{n} / oblong": seconds[n] / seconds["oblong"] for n in list(models)[1:]},
                "dual difference": abs(ours - theirs) / abs(theirs),
                "dual gap": float(models["oblong"].dual_gap_[0]),
            }
            print(row, file=sys.stderr)
            rows.append(row)
    return rows


def main() -> None:
    write(
        "svm_against_peers",
        "The SVM special case next to its peers",
        "Median seconds of a warm fit at tol 1e-3 and C = 1, alternating, in a process that keeps "
        "the memory it has freed; a ratio above one means "
        "that oblong is faster. SVC and intelex have a cache of 1 GB. The dual difference is "
        "relative, between oblong and SVC.",
        COLUMNS,
        measured(__file__, __doc__, measure, WARM_MEMORY),
    )


if __name__ == "__main__":
    main()
