"""Which spreads the default grid of RelativeMarginClassifierCV needs.

Every combination of the longest grid is scored by cross-validation of training rows, solved to the
last tolerance. Shorter grids choose among the scores of theirs, and the chosen models are fitted to
all training rows and tested on the others.
"""

from __future__ import annotations

import statistics
import sys

import numpy as np
from _harness import parse_arguments, write
from problems import stored
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from oblong import RelativeMarginClassifier, RelativeMarginClassifierCV
from oblong.batch.margin_path import SPREADS

GRIDS = {
    "SVM": (1.0,),
    "three": (1.0, 0.5, 0.25),
    "four": (1.0, 0.5, 0.25, 0.1),
    "five": (1.0, 0.5, 0.25, 0.1, 0.05),
    "seven": SPREADS,
}
COLUMNS = ["data", "rows", "columns", "classes", "splits", *(f"{name} (%)" for name in GRIDS)]
COLUMNS += [f"{name} - seven" for name in list(GRIDS)[:-1]] + ["standard error, three - seven"]
NAMES = (
    "breast_wisconsin", "bupa", "german_numeric", "heart", "ionosphere", "iris", "new_thyroid",
    "pima", "sonar", "wdbc", "dna", "letter", "optdigits", "pendigits", "satimage", "segment",
    "splice", "usps", "waveform", "mnist", "fashion_mnist", "isolet",
)  # fmt: skip
TRAINING_ROWS, TEST_ROWS = 500, 4000


def errors(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, float]:
    """Test errors in per cent of the model that each grid chooses."""
    rows = min(TRAINING_ROWS, 2 * len(y) // 3)
    X, rest, y, truth = train_test_split(X, y, train_size=rows, random_state=seed, stratify=y)
    scaler = StandardScaler().fit(X)
    X, rest, truth = scaler.transform(X), scaler.transform(rest[:TEST_ROWS]), truth[:TEST_ROWS]
    search = RelativeMarginClassifierCV(fold_tol=1e-3, spreads=SPREADS, refit=False).fit(X, y)
    results, known = search.cv_results_, {}
    spreads, score = np.asarray(results["param_spread"]), results["mean_test_score"]
    for name, grid in GRIDS.items():
        among = np.flatnonzero(np.isin(spreads, grid))
        best = among[score[among] >= score[among].max() - 1e-10]
        chosen = min((results["params"][k] for k in best), key=lambda p: (-p["spread"], p["C"]))
        key = tuple(chosen.values())
        if key not in known:
            model = RelativeMarginClassifier(**chosen).fit(X, y)
            known[key] = 100.0 * float(np.mean(model.predict(rest) != truth))
        known[name] = known[key]
    return {name: known[name] for name in GRIDS}


def main() -> None:
    arguments = parse_arguments(__doc__)
    rows = []
    names = [arguments.only] if arguments.only else NAMES
    for name, X, y in stored(names, arguments.data):
        found = [errors(X, y, seed) for seed in range(arguments.repeats)]
        means = {grid: statistics.fmean(one[grid] for one in found) for grid in GRIDS}
        differences = [one["three"] - one["seven"] for one in found]
        rows.append(
            {
                "data": name,
                "rows": min(TRAINING_ROWS, 2 * len(y) // 3),
                "columns": X.shape[1],
                "classes": len(np.unique(y)),
                "splits": len(found),
                **{f"{grid} (%)": mean for grid, mean in means.items()},
                **{f"{grid} - seven": means[grid] - means["seven"] for grid in list(GRIDS)[:-1]},
                "standard error, three - seven": statistics.stdev(differences) / len(found) ** 0.5,
            }
        )
        print(rows[-1], file=sys.stderr)
    write(
        "default_spreads",
        "How many spreads a search needs",
        f"Mean test error in per cent, with at most {TRAINING_ROWS} training rows and over random "
        "splits, of the models that cross-validation of the training rows chooses: among support "
        "vector machines, and with the first three, four, five and all seven of the spreads 1, "
        "0.5, 0.25, 0.1, 0.05, 0.02 and 0; the rest of the grid is the default. A difference below "
        "zero means that the shorter grid has fewer errors.",
        COLUMNS,
        rows,
    )


if __name__ == "__main__":
    main()
