"""Ten million updates of each online learner on noisy labels, and what is left of the shape.

For every rule and structure the stream goes on until there were that many updates, or four times
as many examples; sketches, which are slower, stop after a tenth. Then
the shape has to be finite, symmetric to the last bit and positive definite; its smallest eigenvalue
is given for the matrix scaled to a unit diagonal. Rules that insist on every example are no good
on such data: what counts here is that nothing breaks.

    python benchmarks/online_health.py                  # all
    python benchmarks/online_health.py --only "AROW"    # rows of one learner, others are kept
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from _harness import RESULTS, earlier, parse_arguments, write
from sklearn.exceptions import ConvergenceWarning

from oblong import (
    AROWClassifier,
    ClassicalEllipsoidClassifier,
    ConfidenceWeightedClassifier,
    ImprovedEllipsoidClassifier,
    NormalHerdClassifier,
    OnlineEllipsoidalSVC,
    SecondOrderPerceptron,
    SoftConfidenceWeightedClassifier,
)

UPDATES = 10_000_000
SHORT = 1_000_000
FEATURES, CHUNK, NOISE, SPREAD = 10, 250_000, 0.2, 100.0

LEARNERS = {
    "CW-Stdev": ConfidenceWeightedClassifier(),
    "CW-Var": ConfidenceWeightedClassifier(variant="var"),
    "SCW-I": SoftConfidenceWeightedClassifier(),
    "SCW-II": SoftConfidenceWeightedClassifier(variant=2),
    "AROW": AROWClassifier(),
    "NHERD": NormalHerdClassifier(),
    "SOP": SecondOrderPerceptron(),
    "CELLIP": ClassicalEllipsoidClassifier(),
    "IELLIP": ImprovedEllipsoidClassifier(),
    "IELLIP, b=1": ImprovedEllipsoidClassifier(b=1.0),
}


def draw(rng: np.random.Generator, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose features differ in scale, with wrong labels among the right ones."""
    Z = rng.normal(size=(CHUNK, FEATURES))
    y = Z @ weights > 0
    y ^= rng.random(CHUNK) < NOISE
    return Z * np.geomspace(1.0, SPREAD, FEATURES), y.astype(int)


def run(name: str, model, updates: int) -> dict:
    """Feed a learner, and look at what is left of it."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=FEATURES)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        while True:
            X, y = draw(rng, weights)
            before = getattr(model, "n_mistakes_", 0) if hasattr(model, "_state") else 0
            model.partial_fit(X, y, classes=[0, 1])
            # A step of the ellipsoidal machine takes in a batch.
            done = model.t_ if isinstance(model, OnlineEllipsoidalSVC) else model.n_updates_
            if done >= updates or model.t_ >= 4 * updates:
                break
    seconds = time.perf_counter() - start
    found = condition(model)
    found["healthy"] &= model.n_skipped_ == 0
    return {
        "data": name,
        "updates": done,
        "examples": model.t_,
        **found,
        "skipped": model.n_skipped_,
        "recent mistakes": (model.n_mistakes_ - before) / CHUNK,
        "seconds": seconds,
    }


def condition(model) -> dict:
    """Whether the shape is finite, symmetric and definite."""
    S = model.B_ if isinstance(model, OnlineEllipsoidalSVC) else model.covariance_
    finite = bool(np.isfinite(S).all() and np.isfinite(model.coef_).all())
    diagonal = S.diagonal() if S.ndim == 2 else S
    found = {
        "finite": finite,
        "symmetric": bool(S.ndim == 1 or np.array_equal(S, S.T)),
        "smallest variance": float(diagonal.min()),
        "largest variance": float(diagonal.max()),
        "smallest eigenvalue": None,
        "healthy": finite and bool(diagonal.min() > 0.0),
    }
    if S.ndim == 2 and found["healthy"]:
        scale = np.sqrt(diagonal)
        lowest = float(np.linalg.eigvalsh(S / np.outer(scale, scale)).min())
        found["smallest eigenvalue"] = lowest
        found["healthy"] = found["symmetric"] and lowest > 0.0
    return found


def main() -> None:
    arguments = parse_arguments(__doc__.splitlines()[0])
    cases = {
        f"{name}, {covariance}": (model, covariance)
        for name, model in LEARNERS.items()
        for covariance in ("full", "diag", "sketch")
    }
    cases["e-SVM, full"] = (OnlineEllipsoidalSVC(), None)
    rows = earlier("online_health", arguments.only) if arguments.only else []
    for name, (model, covariance) in cases.items():
        if arguments.only not in name:
            continue
        model = type(model)(**model.get_params())
        if covariance is not None:
            model.set_params(covariance=covariance, sketch_size=4)
        rows.append(run(name, model, SHORT if covariance == "sketch" else UPDATES))
        print(rows[-1], flush=True)
    order = list(cases)
    rows.sort(key=lambda row: order.index(row["data"]))
    columns = list(rows[0])
    note = (
        f"{FEATURES} features whose scales differ by {SPREAD:g}, {NOISE:.0%} of the labels wrong; "
        f"until {UPDATES:,} updates (sketches {SHORT:,}) or four times as many examples. The "
        f"smallest eigenvalue is that of the covariance scaled to a unit diagonal; a sketch shows "
        f"its diagonal. Recent mistakes are those of the last {CHUNK:,} examples, of which "
        f"{NOISE:.0%} are unavoidable. Healthy means finite, symmetric, definite, and no example "
        f"skipped for lack of variance."
    )
    write("online_health", "Online learners after ten million updates", note, columns, rows)


if __name__ == "__main__":
    RESULTS.mkdir(exist_ok=True)
    main()
