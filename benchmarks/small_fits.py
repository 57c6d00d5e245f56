"""What a fit or a prediction costs where it should cost next to nothing.

Small sets, wide sets, predictions of a few sparse rows and many rows with few columns, next to
scikit-learn's nearest model. The models of oblong solve harder problems than their peers, to more
digits: the ratio shows what that costs a user, and whether the cost is arithmetic or overhead.
Seconds of processor time.

``--only`` takes the first letters of the parts (linear, wide, sparse, many, kernel).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from _harness import interleaved, measured, write
from sklearn.svm import SVC, LinearSVC

from oblong import (
    BayesPointClassifier,
    EllipsoidalKernelClassifier,
    EllipsoidalSVC,
    LinearRelativeMarginClassifier,
    RelativeMarginClassifier,
)

NAME = "small_fits"
COLUMNS = ["task", "rows x columns", "threads", "oblong (ms)", "peer", "peer (ms)", "oblong / peer"]


def overlapping(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two normal classes, one of which covers part of the other."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1, -1)
    y[:2] = -1, 1
    X = rng.normal(size=(n, d))
    X[:, : min(d, 3)] += 0.7 * y[:, None]
    return X, y


def linear() -> Iterator[tuple[str, str, Callable, dict[str, Callable]]]:
    for n, d in ((20, 5), (60, 10), (200, 10)):
        X, y = overlapping(n, d)
        peers = {
            "its kernel form": partial(RelativeMarginClassifier(kernel="linear").fit, X, y),
            "LinearSVC": partial(LinearSVC().fit, X, y),
        }
        fit = partial(LinearRelativeMarginClassifier().fit, X, y)
        yield "LinearRelativeMarginClassifier", f"{n} x {d}", fit, peers


def wide() -> Iterator[tuple[str, str, Callable, dict[str, Callable]]]:
    X, y = overlapping(200, 20_000)
    peers = {
        "its kernel form": partial(RelativeMarginClassifier(kernel="linear").fit, X, y),
        "LinearSVC": partial(LinearSVC().fit, X, y),
    }
    fit = partial(LinearRelativeMarginClassifier().fit, X, y)
    yield "LinearRelativeMarginClassifier", "200 x 20000", fit, peers


def sparse() -> Iterator[tuple[str, str, Callable, dict[str, Callable]]]:
    n, d = 4000, 30_000
    X = sp.random(n, d, density=0.002, format="csr", random_state=0)
    y = np.where(np.arange(n) % 2, 1, -1)
    ours = LinearRelativeMarginClassifier(spread=1.0).fit(X, y)
    theirs = LinearSVC().fit(X, y)
    parts = [X[start : start + 31] for start in range(0, 31 * 20, 31)]
    for part in (parts, [X]):
        size = f"{part[0].shape[0]} x {d}"

        def predict(model: Any, part: list = part) -> None:
            for rows in part:
                model.predict(rows)

        yield (
            "predict, sparse",
            size,
            partial(predict, ours),
            {"LinearSVC": partial(predict, theirs)},
        )


def many() -> Iterator[tuple[str, str, Callable, dict[str, Callable]]]:
    n, d = 1_000_000, 10
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)).astype(np.float32)
    margin = X @ rng.normal(size=d)
    for noise in (0.1, 1.0):
        y = np.where(margin + noise * np.abs(margin).mean() * rng.normal(size=n) > 0, 1, -1)
        peers = {"LinearSVC(dual=False)": partial(LinearSVC(dual=False).fit, X, y)}
        for spread in (1.0, 0.5):
            fit = partial(LinearRelativeMarginClassifier(spread=spread).fit, X, y)
            name = f"LinearRelativeMarginClassifier, spread {spread}, noise {noise}"
            yield name, f"{n} x {d}", fit, peers


def kernel() -> Iterator[tuple[str, str, Callable, dict[str, Callable]]]:
    for n in (60, 200):
        X, y = overlapping(n, 10)
        for model in (
            RelativeMarginClassifier(),
            EllipsoidalSVC(kernel="rbf"),
            BayesPointClassifier(kernel="rbf"),
            EllipsoidalKernelClassifier(),
        ):
            fit = partial(model.fit, X, y)
            yield type(model).__name__, f"{n} x 10", fit, {"SVC": partial(SVC().fit, X, y)}


def measure(threads: int, repeats: int, only: str) -> Iterator[dict]:
    for part in (linear, wide, sparse, many, kernel):
        if only and part.__name__[0] not in only:
            continue
        for task, size, ours, peers in part():
            spent = interleaved({"": ours, **peers}, repeats, least=0.1, processor=True)
            for peer in peers:
                row = {
                    "task": task,
                    "rows x columns": size,
                    "threads": threads,
                    "oblong (ms)": 1e3 * spent[""],
                    "peer": peer,
                    "peer (ms)": 1e3 * spent[peer],
                    "oblong / peer": spent[""] / spent[peer],
                }
                print(row, file=sys.stderr, flush=True)
                yield row


def main() -> None:
    write(
        NAME,
        "Small tasks",
        "Milliseconds of processor time, the median of rounds of a tenth of a second. A ratio "
        "above one means that oblong takes longer. LinearRelativeMarginClassifier solves a support "
        "vector machine and then the problem with the bound; its kernel form is "
        "RelativeMarginClassifier with the linear kernel. Sparse predictions are those of 20 "
        "slices of 31 rows, and of all rows at once.",
        COLUMNS,
        measured(__file__, __doc__, measure),
    )


if __name__ == "__main__":
    main()
