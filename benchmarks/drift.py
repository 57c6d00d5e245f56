"""Streams whose rule changes at known rows: mistakes of learners, and alarms of the detector.

The rows are Gaussian; the label is the sign of a linear function, one in twenty flipped. The
function changes at once every so many rows, or turns a little with every row, or never changes.
River's learners have a scaler in front, as its documentation recommends.
"""

from __future__ import annotations

import time

import numpy as np
from _harness import parse_arguments, write

from oblong import AROWClassifier
from oblong.online import progressive_validation
from oblong.solvers.online.drift import Adwin

ROWS, FEATURES, SPAN = 20_000, 10, 4_000
DELTA = 0.002


def make(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, FEATURES))
    if kind == "sudden":
        weights = np.repeat(rng.normal(size=(ROWS // SPAN, FEATURES)), SPAN, axis=0)
    elif kind == "gradual":
        first, second = np.linalg.qr(rng.normal(size=(FEATURES, 2)))[0].T
        angle = 2.0 * np.pi * np.arange(ROWS)[:, None] / ROWS
        weights = np.cos(angle) * first + np.sin(angle) * second
    else:
        weights = np.repeat(rng.normal(size=(1, FEATURES)), ROWS, axis=0)
    y = np.einsum("ij,ij->i", X, weights) > 0
    return X, y ^ (rng.random(ROWS) < 0.05)


def ours(forgetting: float):
    def mistakes(X, y):
        model = AROWClassifier(forgetting=forgetting, normalize=True)
        return progressive_validation(model, [(X, y)]).mistakes

    return mistakes


def river_learner(make_model):
    def mistakes(X, y):
        from river import preprocessing

        model = preprocessing.StandardScaler() | make_model()
        found = 0
        for row, label in zip(X.tolist(), y.tolist()):
            x = dict(enumerate(row))
            found += model.predict_one(x) != label
            model.learn_one(x, label)
        return found

    return mistakes


def learners() -> dict:
    found = {
        "AROW": ours(1.0),
        "AROW, forgetting=0.998": ours(0.998),
        "AROW, forgetting=0.99": ours(0.99),
    }
    try:
        from river import linear_model, tree
    except ImportError:
        print("River is not installed: pip install river")
        return found
    return found | {
        "River, logistic regression": river_learner(linear_model.LogisticRegression),
        "River, PA": river_learner(linear_model.PAClassifier),
        "River, ALMA": river_learner(linear_model.ALMAClassifier),
        "River, Hoeffding adaptive tree": river_learner(
            lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=0)
        ),
    }


def false_alarms() -> list[dict]:
    """Share of the looks of the detector that end with an alarm where nothing changes."""
    rows = []
    for rate in (0.05, 0.2, 0.4):
        rng = np.random.default_rng(7)
        alarms, streams, length = 0, 500, 10_000
        for _ in range(streams):
            alarms += len(Adwin(DELTA).feed(rng.random(length) < rate))
        rows.append({"errors": rate, "alarms per look": alarms / (streams * length / 32)})
    return rows


def main() -> None:
    repeats = parse_arguments(__doc__).repeats
    rows = []
    for name, mistakes in learners().items():
        row: dict = {"learner": name}
        began = time.process_time()
        for kind in ("sudden", "gradual", "none"):
            found = [mistakes(*make(kind, seed)) for seed in range(repeats)]
            row[f"{kind} %"] = 100.0 * float(np.mean(found)) / ROWS
        row["s per stream"] = (time.process_time() - began) / (3 * repeats)
        rows.append(row)
    worst = max(row["alarms per look"] for row in false_alarms())
    write(
        "drift",
        "Streams that drift",
        f"Mistakes in {ROWS:,} rows of {FEATURES} features, 5 % of whose labels are wrong; mean of "
        f"{repeats} streams. The rule changes every {SPAN:,} rows (sudden), turns once around "
        f"(gradual), or stays (none). The detector looks every 32 rows; where errors come at a "
        f"constant rate, at most a fraction of {worst:.1e} of its looks is an alarm, with a "
        f"nominal bound of {DELTA}.",
        ["learner", "sudden %", "gradual %", "none %", "s per stream"],
        rows,
    )


if __name__ == "__main__":
    main()
