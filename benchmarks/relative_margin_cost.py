"""What a relative margin costs on top of the SVM.

The time of a fit at each spread, the fit of the SVM that settles the bound included, over the
time of the SVM alone.
"""

from __future__ import annotations

import sys

from _harness import interleaved, measured, write
from problems import KERNELS, problems, settled

from oblong import RelativeMarginClassifier

SPREADS = (1.0, 0.5, 0.25, 0.1)
COLUMNS = [
    "data",
    "rows x columns",
    "kernel",
    "threads",
    "spread",
    "seconds",
    "ratio to the SVM",
    "support vectors",
    "dual gap",
]


def measure(threads: int, repeats: int, data: str | None) -> list[dict]:
    rows = []
    for name, X, y in problems(data):
        for label, kernel in KERNELS.items():
            models = {
                spread: RelativeMarginClassifier(spread=spread, **settled(kernel, X))
                for spread in SPREADS
            }
            tasks = {s: lambda m=m, X=X, y=y: m.fit(X, y) for s, m in models.items()}
            seconds = interleaved(tasks, repeats)
            for spread, model in models.items():
                row = {
                    "data": name,
                    "rows x columns": f"{X.shape[0]} x {X.shape[1]}",
                    "kernel": label,
                    "threads": threads,
                    "spread": spread,
                    "seconds": seconds[spread],
                    "ratio to the SVM": seconds[spread] / seconds[1.0],
                    "support vectors": int(model.support_.size),
                    "dual gap": float(model.dual_gap_[0]),
                }
                print(row, file=sys.stderr)
                rows.append(row)
    return rows


def main() -> None:
    write(
        "relative_margin_cost",
        "The relative margin machine next to the SVM",
        "Median seconds of a warm fit at tol 1e-3 and C = 1, alternating, the fit of the SVM that "
        "settles the bound included.",
        COLUMNS,
        measured(__file__, __doc__, measure),
    )


if __name__ == "__main__":
    main()
