"""How fast RelativeMarginClassifierCV is next to a grid search over the same combinations.

The ten digits, and rows of two classes with the default grid; five stratified folds. A grid search
over the SVM, which has no spreads to try, is there for orientation; its time is given per
combination as well. Seven spreads are more than the default. The 10 x 10 grid without spreads is
that of liquidSVM, the one of 50 penalties and ten folds that of TorchKM, where a grid search would
take hours and is left out.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from _harness import (
    RESULTS,
    interleaved,
    parse_arguments,
    processor_name,
    run_per_thread_count,
    write,
)
from sklearn.datasets import load_digits, make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from oblong import RelativeMarginClassifier, RelativeMarginClassifierCV
from oblong.kernels import resolve_gamma

COLUMNS = [
    "grid",
    "combinations",
    "threads",
    "clock",
    "CV (s)",
    "GridSearchCV (s)",
    "GridSearchCV(SVC) (s)",
    "GridSearchCV / CV",
    "SVC / CV",
    "per combination, SVC / CV",
    "scores that differ",
    "largest difference",
    "same best score",
    "best",
    "processor",
]

# Numbers among the gammas are multiples of "scale".
GRIDS = {
    "C x spread": {
        "C": (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0),
        "gamma": ("scale",),
        "spread": (1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.0),
    },
    "C x gamma x spread": {
        "C": (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0),
        "gamma": (0.25, 1.0, 4.0),
        "spread": (1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.0),
    },
}
SPREADS = GRIDS["C x spread"]["spread"]
GRIDS["10 C x 10 gamma"] = {
    "C": tuple(np.geomspace(0.01, 1000.0, 10)),
    "gamma": tuple(np.geomspace(0.1, 10.0, 10)),
    "spread": (1.0,),
}
GENERATED = {
    "800 easy rows": (800, 4, 2.0, 0.01),
    "800 noisy rows": (800, 20, 0.7, 0.1),
    "2000 easy rows": (2000, 6, 2.0, 0.01),
    "2000 noisy rows": (2000, 20, 0.7, 0.1),
    "5000 easy rows": (5000, 6, 2.0, 0.01),
    "5000 noisy rows": (5000, 20, 0.7, 0.1),
}
for _name in GENERATED:
    GRIDS[f"default, {_name}"] = {
        "C": RelativeMarginClassifierCV.Cs,
        "gamma": RelativeMarginClassifierCV.gammas,
        "spread": RelativeMarginClassifierCV.spreads,
    }
    GRIDS[f"seven spreads, {_name}"] = {**GRIDS[f"default, {_name}"], "spread": SPREADS}
CLUSTERS = "50 C, ten folds, 10000 x 1000"
GRIDS[CLUSTERS] = {"C": tuple(np.logspace(-3, 3, 50)), "gamma": ("scale",), "spread": (1.0,)}
# Combinations above which one repeat has to do.
REPEATED_COMBINATIONS = 50


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows for a grid: generated ones for the default grid, else the ten digits."""
    for key, (n, d, distance, noise) in GENERATED.items():
        if key in name:
            return make_classification(
                n, d, n_informative=3, n_redundant=0, class_sep=distance, flip_y=noise,
                random_state=0,
            )  # fmt: skip
    if name == CLUSTERS:
        rng = np.random.default_rng(0)
        means, which = (
            rng.normal(size=(20, 1000)) * (2 / np.sqrt(1000)),
            rng.integers(0, 20, 10_000),
        )
        return means[which] + rng.normal(size=(10_000, 1000)), (which < 10).astype(int)
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


def measure(threads: int, repeats: int, only: str) -> list[dict]:
    rows = []
    for name, grid in GRIDS.items():
        if only and name != only:
            continue
        X, y = load(name)
        scale = resolve_gamma("scale", X)
        gammas = tuple(g if isinstance(g, str) else g * scale for g in grid["gamma"])
        grid = {**grid, "gamma": gammas}
        spreads = grid["spread"]
        count = len(grid["C"]) * len(gammas) * len(spreads)
        ours = RelativeMarginClassifierCV(
            Cs=grid["C"],
            gammas=gammas,
            spreads=spreads,
            n_jobs=threads,
            cv=10 if name == CLUSTERS else 5,
        )
        # Processes are GridSearchCV's way of using several processors.
        plain = GridSearchCV(RelativeMarginClassifier(), grid, n_jobs=threads)
        svm = GridSearchCV(SVC(), {key: grid[key] for key in ("C", "gamma")}, n_jobs=threads)
        models = {"CV": ours}
        if name != CLUSTERS:
            models["GridSearchCV(SVC)"] = svm
            if not name.startswith("seven"):
                models["GridSearchCV"] = plain
        tasks = {n: lambda m=m, X=X, y=y: m.fit(X, y) for n, m in models.items()}
        repeated = count <= REPEATED_COMBINATIONS and name != CLUSTERS
        # Other processes, of several threads, have a processor time of their own.
        seconds = interleaved(tasks, repeats if repeated else 1, processor=threads == 1)
        row = {
            "grid": name,
            "combinations": count,
            "threads": threads,
            "clock": "processor" if threads == 1 else "wall",
            "processor": processor_name(),
            **{f"{n} (s)": s for n, s in seconds.items()},
            "best": ", ".join(
                f"{k} {v:.3g}" if k != "gamma" or not isinstance(v, str) else v
                for k, v in ours.best_params_.items()
            ),
        }
        if name != CLUSTERS:
            ratio = seconds["GridSearchCV(SVC)"] / seconds["CV"]
            row |= {"SVC / CV": ratio, "per combination, SVC / CV": ratio * len(spreads)}
        if "GridSearchCV" in models:
            key = "mean_test_score"
            difference = np.abs(ours.cv_results_[key] - plain.cv_results_[key])
            best = plain.cv_results_[key][ours.best_index_]
            row |= {
                "GridSearchCV / CV": seconds["GridSearchCV"] / seconds["CV"],
                "scores that differ": int((difference > 1e-12).sum()),
                "largest difference": float(difference.max()),
                "same best score": bool(best >= plain.best_score_ - 1e-12),
            }
        print(row, file=sys.stderr)
        rows.append(row)
    return rows


def _others(only: str) -> list[dict]:
    """Rows of an earlier run for the other grids."""
    path = RESULTS / "cross_validation.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    return [row for row in rows if row["grid"] != only]


def main() -> None:
    arguments = parse_arguments(__doc__)
    if arguments.child:
        print(json.dumps(measure(arguments.child, arguments.repeats, arguments.only)))
        return
    rows = _others(arguments.only) if arguments.only else []
    write(
        "cross_validation",
        "Choosing C, gamma and the spread",
        "Median seconds of a search with five stratified folds at tol 1e-3, the last fit to all "
        "rows included, alternating; of the processor where that is the clock. A ratio above one "
        "means that RelativeMarginClassifierCV is faster. GridSearchCV searches over "
        "RelativeMarginClassifier with the same combinations, "
        "GridSearchCV(SVC) without the spreads. A score is the mean accuracy of a combination. "
        "Ratios compare what was measured in one run; the last column says on which processor.",
        COLUMNS,
        rows + run_per_thread_count(__file__, arguments),
    )


if __name__ == "__main__":
    main()
