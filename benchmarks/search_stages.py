"""How often the stages of RelativeMarginClassifierCV choose what the whole grid would.

Generated sets are searched twice: in stages, which leave combinations as soon as they cannot be the
best, and with every combination solved to the last tolerance.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from _harness import write
from sklearn.datasets import make_classification
from sklearn.preprocessing import StandardScaler

from oblong import RelativeMarginClassifierCV
from oblong.batch.margin_path import SPREADS

SETS = 50
GRIDS = {"3 (default)": (1.0, 0.5, 0.25), "7": SPREADS}
COLUMNS = [
    "spreads", "classes", "sets", "same choice", "at most one row fewer", "more rows fewer",
]  # fmt: skip


def sets(classes: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Standardised sets of 150 to 500 rows, easy and noisy ones."""
    for seed in range(SETS):
        rng = np.random.default_rng([classes, seed])
        informative = int(rng.integers(2, 8))
        X, y = make_classification(
            n_samples=int(rng.integers(150, 501)),
            n_features=informative + int(rng.integers(0, 8)),
            n_informative=informative,
            n_redundant=0,
            n_classes=classes,
            n_clusters_per_class=1,
            class_sep=float(rng.uniform(0.3, 1.5)),
            flip_y=float(rng.uniform(0.0, 0.2)),
            random_state=seed,
        )
        yield StandardScaler().fit_transform(X), y


def compare(classes: int, spreads: tuple) -> dict:
    fewer = []
    for X, y in sets(classes):
        stages, whole = (
            RelativeMarginClassifierCV(spreads=spreads, refit=False, **more).fit(X, y)
            for more in ({}, {"fold_tol": 1e-9})
        )
        # Rows of which the choice of the stages is right on fewer, both solved to the end.
        score, best, chosen = (
            whole.cv_results_["mean_test_score"],
            whole.best_index_,
            stages.best_index_,
        )
        fewer.append(-1 if chosen == best else round((score[best] - score[chosen]) * len(y)))
    return {
        "classes": classes,
        "sets": SETS,
        "same choice": fewer.count(-1),
        "at most one row fewer": fewer.count(0) + fewer.count(1),
        "more rows fewer": sum(rows > 1 for rows in fewer),
    }


def main() -> None:
    rows = [
        {"spreads": name, **compare(classes, spreads)}
        for name, spreads in GRIDS.items()
        for classes in (2, 3)
    ]
    write(
        "search_stages",
        "What the stages of a search change",
        "Generated sets of 150 to 500 rows. RelativeMarginClassifierCV in stages, and with every "
        "combination solved to the last tolerance (fold_tol=1e-9); the grid is the default but for "
        "the spreads. Where the choice is another one, that of the stages is right on at most one "
        "row fewer in the cross-validation, or on more rows fewer.",
        COLUMNS,
        rows,
    )


if __name__ == "__main__":
    main()
