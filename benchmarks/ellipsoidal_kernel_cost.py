"""What the ellipsoidal kernel machine costs next to one eigendecomposition of its kernel matrix.

The fit takes the kernel matrix, its leading eigenpairs, an ellipsoid in that many dimensions and
a support vector machine. The yardstick is ``scipy.linalg.eigh`` of the same kernel matrix, all
eigenpairs, the kernel values not counted.
"""

from __future__ import annotations

import sys
from functools import partial

from _harness import interleaved, measured, write
from scipy.linalg import eigh
from sklearn.datasets import load_digits, make_classification

from oblong import EllipsoidalKernelClassifier
from oblong.kernels import Kernel, resolve_gamma

ROWS = 2000
SETTINGS = (
    {"C": 1.0},
    {"C": 1000.0},
    {"C": 1.0, "coverage": 0.9},
    {"C": 1000.0, "coverage": 0.9},
    {"C": 1000.0, "rank": 50},
)
COLUMNS = [
    "data",
    "rows x columns",
    "threads",
    "setting",
    "rank",
    "seconds",
    "seconds of eigh",
    "ratio",
    "gap of the ellipsoid",
    "gap of the classifier",
]


def problems():
    X, y = make_classification(ROWS, 20, n_informative=10, random_state=0)
    yield "generated", X, y
    X, y = load_digits(return_X_y=True)
    yield "digits 0-4 against 5-9", X / 16.0, (y > 4).astype(int)


def measure(threads: int, repeats: int) -> list[dict]:
    rows = []
    for name, X, y in problems():
        K = Kernel("rbf", resolve_gamma("scale", X))(X)
        models = {
            ", ".join(f"{key} = {value:g}" for key, value in setting.items()): (
                EllipsoidalKernelClassifier(**setting)
            )
            for setting in SETTINGS
        }
        tasks = {label: partial(model.fit, X, y) for label, model in models.items()}
        tasks["eigh"] = partial(eigh, K)
        seconds = interleaved(tasks, repeats)
        for label, model in models.items():
            row = {
                "data": name,
                "rows x columns": f"{X.shape[0]} x {X.shape[1]}",
                "threads": threads,
                "setting": label,
                "rank": int(model.ellipsoid_.rank_),
                "seconds": seconds[label],
                "seconds of eigh": seconds["eigh"],
                "ratio": seconds[label] / seconds["eigh"],
                "gap of the ellipsoid": float(model.ellipsoid_.gap_),
                "gap of the classifier": float(model.dual_gap_[0]),
            }
            print(row, file=sys.stderr)
            rows.append(row)
    return rows


def main() -> None:
    write(
        "ellipsoidal_kernel_cost",
        "The ellipsoidal kernel machine next to an eigendecomposition",
        "Median seconds of a warm fit with the RBF kernel, alternating with `scipy.linalg.eigh` of "
        "the kernel matrix.",
        COLUMNS,
        measured(__file__, __doc__, measure),
    )


if __name__ == "__main__":
    main()
