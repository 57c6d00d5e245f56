"""What probabilities and prediction sets cost, and how good they are.

The time of the folds over the time of a fit to all rows, and the log loss on test rows, beside
scikit-learn's ``CalibratedClassifierCV`` around the same classifier.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from _harness import parse_arguments, run_per_thread_count, write
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from oblong import CalibratedMarginClassifier, RelativeMarginClassifier

# Folder --data: the binary sets of the literature, and some of several classes.
SETS = (
    "ida_banana",
    "ida_breast_cancer",
    "ida_diabetis",
    "ida_flare_solar",
    "ida_german",
    "ida_heart",
    "ida_image",
    "ida_ringnorm",
    "ida_splice",
    "ida_thyroid",
    "ida_titanic",
    "ida_twonorm",
    "ida_waveform",
    "segment",
    "satimage",
    "pendigits",
)
MOST_ROWS = 5000
COLUMNS = [
    "data",
    "rows",
    "classes",
    "spread",
    "threads",
    "seconds of a fit",
    "folds over a fit",
    "scikit-learn over a fit",
    "log loss",
    "log loss of scikit-learn",
    "contradictions of scikit-learn",
]


def tables(data: str | None, only: str) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for load in (load_breast_cancer, load_wine, load_digits):
        name = load.__name__.removeprefix("load_")
        if only in ("", name):
            yield name, *load(return_X_y=True)
    for name in SETS if data else ():
        path = Path(str(data)) / f"{name}.npz"
        if only in ("", name) and path.exists():
            with np.load(path) as file:
                yield name, np.asarray(file["X"], dtype=float), file["y"]


def seconds(model, X: np.ndarray, y: np.ndarray) -> float:
    start = time.process_time()
    model.fit(X, y)
    return time.process_time() - start


def measure(threads: int, repeats: int, data: str | None, only: str) -> list[dict]:
    rows = []
    for name, X, y in tables(data, only):
        order = np.random.default_rng(0).permutation(len(y))[: 2 * MOST_ROWS]
        for spread in (1.0, 0.25):
            model = RelativeMarginClassifier(spread=spread)
            ours = CalibratedMarginClassifier(model)
            theirs = CalibratedClassifierCV(model, ensemble=False)
            times, losses, contradictions = [], [], []
            for seed in range(repeats):
                train, test = train_test_split(
                    order, test_size=0.5, random_state=seed, stratify=y[order]
                )
                scaler = StandardScaler().fit(X[train])
                A, B, a, b = (
                    scaler.transform(X[train]),
                    scaler.transform(X[test]),
                    y[train],
                    y[test],
                )
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    times.append([seconds(m, A, a) for m in (model, ours, theirs)])
                losses.append([log_loss(b, m.predict_proba(B)) for m in (ours, theirs)])
                contradictions.append((theirs.predict(B) != model.predict(B)).sum())
            # The first fit pays for compilation and fresh memory.
            fit, own, other = np.median(times[1:] or times, axis=0)
            row = {
                "data": name,
                "rows": len(train),
                "classes": len(np.unique(y)),
                "spread": spread,
                "threads": threads,
                "seconds of a fit": float(fit),
                "folds over a fit": float(own / fit - 1.0),
                "scikit-learn over a fit": float(other / fit - 1.0),
                "log loss": float(np.mean(losses, axis=0)[0]),
                "log loss of scikit-learn": float(np.mean(losses, axis=0)[1]),
                "contradictions of scikit-learn": int(np.sum(contradictions)),
            }
            print(row, file=sys.stderr)
            rows.append(row)
    return rows


def main() -> None:
    arguments = parse_arguments(__doc__)
    if arguments.child:
        found = measure(arguments.child, arguments.repeats, arguments.data, arguments.only)
        print(json.dumps(found))
        return
    write(
        "calibration_cost",
        "Probabilities and prediction sets",
        "Half of the rows to train on, RBF kernel, C = 1, five folds. Processor time of the folds "
        "over that of a fit (median), and mean log loss on the other half.",
        COLUMNS,
        run_per_thread_count(__file__, arguments),
    )


if __name__ == "__main__":
    main()
