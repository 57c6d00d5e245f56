"""What probabilities and prediction sets cost, and how good they are.

Five folds and leave-one-out over a fit to all rows; the log loss on test rows beside scikit-learn's
``CalibratedClassifierCV`` around the same classifier; and how many rows of each class their
prediction sets hold.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from _harness import WARM_MEMORY, parse_arguments, run_per_thread_count, write
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import LeaveOneOut, train_test_split
from sklearn.preprocessing import StandardScaler

from oblong import (
    CalibratedMarginClassifier,
    LinearRelativeMarginClassifier,
    RelativeMarginClassifier,
)

# Folder --data: the binary sets of the literature, and some of several classes.
BINARY = tuple(
    f"ida_{name}"
    for name in (
        "banana", "breast_cancer", "diabetis", "flare_solar", "german", "heart", "image",
        "ringnorm", "splice", "thyroid", "titanic", "twonorm", "waveform",
    )
)  # fmt: skip
SETS = (*BINARY, "segment", "satimage", "pendigits")
LINEAR = ("breast_cancer", "ida_german", "ida_image", "ida_splice", "ida_waveform", "satimage")
ALONE = ("ida_banana", "ida_ringnorm", "ida_twonorm", "ida_waveform", "ida_splice")
COVERED = ("ida_banana", "ida_image", "ida_titanic", "ida_waveform", "satimage", "segment")
LEVELS = (0.8, 0.9, 0.95)
SPLITS = 100
MOST_ROWS = 5000
COST = [
    "data", "model", "rows", "classes", "threads", "seconds of a fit", "five folds",
    "scikit-learn", "log loss", "log loss of scikit-learn", "contradictions",
    "contradictions of scikit-learn",
]  # fmt: skip
LEFT_OUT = [
    "data", "model", "rows", "support vectors", "threads", "seconds of a fit", "leave-one-out",
    "largest gap",
]  # fmt: skip
COVERAGE = [
    "data", "rows", "classes", "least at 80 %", "least at 90 %", "least at 95 %",
    "standard error at 90 %", "largest at 90 %", "mean size at 90 %",
]  # fmt: skip


def tables(
    data: str | None, names: tuple[str, ...], only: str
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for load in (load_breast_cancer, load_wine, load_digits):
        name = load.__name__.removeprefix("load_")
        if name in names and only in ("", name):
            yield name, *load(return_X_y=True)
    for name in names if data else ():
        path = Path(str(data)) / f"{name}.npz"
        if only in ("", name) and path.exists():
            with np.load(path) as file:
                yield name, np.asarray(file["X"], dtype=float), file["y"]


def parts(X: np.ndarray, y: np.ndarray, seed: int, size: int | float = 0.5):
    """Scaled rows and labels to train on and to test on."""
    order = np.random.default_rng(0).permutation(len(y))[: 2 * MOST_ROWS]
    train, test = train_test_split(order, train_size=size, random_state=seed, stratify=y[order])
    scaler = StandardScaler().fit(X[train])
    return scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]


def seconds(model, X: np.ndarray, y: np.ndarray) -> float:
    """Processor time of a fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model.fit(X, y)
        return time.process_time() - start


def measure_cost(threads: int, repeats: int, data: str | None, only: str) -> Iterator[dict]:
    kernel = {f"spread {spread}": RelativeMarginClassifier(spread=spread) for spread in (1.0, 0.25)}
    linear = {"linear": LinearRelativeMarginClassifier()}
    every = ("breast_cancer", "wine", "digits", *SETS)
    for names, models in ((every, kernel), (LINEAR, linear)):
        for name, X, y in tables(data, names, only):
            for title, model in models.items():
                ours = CalibratedMarginClassifier(model)
                theirs = CalibratedClassifierCV(model, ensemble=False)
                times, losses, contradictions = [], [], []
                for seed in range(repeats):
                    A, a, B, b = parts(X, y, seed)
                    times.append([seconds(m, A, a) for m in (model, ours, theirs)])
                    P, Q = ours.predict_proba(B), theirs.predict_proba(B)
                    losses.append([log_loss(b, P), log_loss(b, Q)])
                    own = model.predict(B)
                    contradictions.append(
                        [(model.classes_[R.argmax(axis=1)] != own).sum() for R in (P, Q)]
                    )
                # The first fit pays for compilation and fresh memory.
                fit, own, other = np.median(times[1:] or times, axis=0)
                yield {
                    "data": name,
                    "model": title,
                    "rows": len(a),
                    "classes": len(np.unique(y)),
                    "threads": threads,
                    "seconds of a fit": float(fit),
                    "five folds": float(own / fit - 1.0),
                    "scikit-learn": float(other / fit - 1.0),
                    "log loss": float(np.mean(losses, axis=0)[0]),
                    "log loss of scikit-learn": float(np.mean(losses, axis=0)[1]),
                    "contradictions": int(np.sum(contradictions, axis=0)[0]),
                    "contradictions of scikit-learn": int(np.sum(contradictions, axis=0)[1]),
                }


def measure_left_out(threads: int, repeats: int, data: str | None, only: str) -> Iterator[dict]:
    for name, X, y in tables(data, ALONE, only):
        for rows in (500, 2000):
            if len(y) <= rows:
                continue
            A, a, _, _ = parts(X, y, 0, rows)
            for spread in (1.0, 0.25):
                model = RelativeMarginClassifier(spread=spread)
                ours = CalibratedMarginClassifier(model, cv=LeaveOneOut())
                times = [[seconds(m, A, a) for m in (model, ours)] for _ in range(repeats)]
                fit, own = np.median(times[1:] or times, axis=0)
                yield {
                    "data": name,
                    "model": f"spread {spread}",
                    "rows": len(a),
                    "support vectors": len(model.support_),
                    "threads": threads,
                    "seconds of a fit": float(fit),
                    "leave-one-out": float(own / fit - 1.0),
                    "largest gap": ours.fold_gap_,
                }


def measure_coverage(data: str | None, only: str) -> Iterator[dict]:
    model = CalibratedMarginClassifier(RelativeMarginClassifier(C=10.0, spread=0.25))
    for name, X, y in tables(data, COVERED, only):
        covered, sizes = [], []
        for seed in range(SPLITS):
            A, a, B, b = parts(X, y, seed, 400)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                sets = model.fit(A, a).predict_set(B, confidence=LEVELS)
            own = sets[np.arange(len(b)), np.searchsorted(model.classes_, b)]
            covered.append([own[b == cls].mean(axis=0) for cls in model.classes_])
            sizes.append(sets.sum(axis=1).mean(axis=0))
        mean = np.mean(covered, axis=0)
        worst = mean[:, 1].argmin()
        yield {
            "data": name,
            "rows": len(a),
            "classes": len(mean),
            **{f"least at {100 * c:.0f} %": float(mean[:, i].min()) for i, c in enumerate(LEVELS)},
            "standard error at 90 %": float(np.std(covered, axis=0)[worst, 1] / np.sqrt(SPLITS)),
            "largest at 90 %": float(mean[:, 1].max()),
            "mean size at 90 %": float(np.mean(sizes, axis=0)[1]),
        }


def reported(rows: Iterator[dict]) -> list[dict]:
    found = []
    for row in rows:
        print(row, file=sys.stderr, flush=True)
        found.append(row)
    return found


def main() -> None:
    arguments = parse_arguments(__doc__)
    data, only, repeats = arguments.data, arguments.only, arguments.repeats
    if arguments.child:
        threads = arguments.child
        left_out = reported(measure_left_out(threads, repeats, data, only))
        cost = reported(measure_cost(threads, repeats, data, only))
        print(json.dumps([{"cost": cost, "left out": left_out}]))
        return
    measured = run_per_thread_count(__file__, arguments, WARM_MEMORY)
    write(
        "calibration",
        "Probabilities",
        "Half of the rows to train on, at most 5,000; RBF kernel with `C=1`, or linear. What five "
        "folds cost on top of a fit, in fits of the same model (median of processor times), beside "
        "`CalibratedClassifierCV(ensemble=False)` around it; mean log loss on the other half; and "
        "rows in which the most probable class is not the predicted one.",
        COST,
        [row for part in measured for row in part["cost"]],
    )
    write(
        "leave_one_out",
        "Leave-one-out",
        "What outputs without each of the rows cost on top of a fit, in fits of the same model "
        "(median of processor times). RBF kernel, `C=1`; `fold_tol` is 0.01.",
        LEFT_OUT,
        [row for part in measured for row in part["left out"]],
    )
    write(
        "coverage",
        "Prediction sets",
        f"Fraction of test rows whose set contains their class: mean of {SPLITS} splits with 400 "
        "training rows, for the class where it is lowest. RBF kernel, `C=10`, `spread=0.25`, five "
        "folds.",
        COVERAGE,
        reported(measure_coverage(data, only)),
    )


if __name__ == "__main__":
    main()
