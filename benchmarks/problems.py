"""The binary problems and kernels that the benchmarks of the margin solver share."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import numpy as np
from sklearn.datasets import load_digits, make_classification

from oblong import datasets
from oblong.kernels import resolve_gamma

KERNELS = {
    "rbf": {"kernel": "rbf"},
    "poly 5": {"kernel": "poly", "degree": 5, "coef0": 1.0},
}


def digits() -> tuple[str, np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return "digits 0-4 against 5-9", X / 16.0, (y > 4).astype(int)


def generated() -> tuple[str, np.ndarray, np.ndarray]:
    X, y = make_classification(10_000, 50, n_informative=20, random_state=0)
    return "generated", X, y


def mnist_pair(data: str | None) -> tuple[str, np.ndarray, np.ndarray]:
    mnist = datasets.load("mnist", data_home=data)
    labels = np.asarray(mnist.y).astype(int)
    pair = (labels == 3) | (labels == 5)
    return "MNIST 3 against 5", mnist.X[pair].astype(float) / 255.0, (labels[pair] == 5).astype(int)


def problems(data: str | None) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    yield digits()
    yield generated()
    try:
        yield mnist_pair(data)
    except Exception as error:
        print(f"MNIST not run: {error}", file=sys.stderr)


def stored(names: Iterable[str], data: str | None) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Those of the named data sets that are there, as dense rows."""
    for name in names:
        try:
            found = datasets.load(name, data_home=data)
        except (OSError, ValueError) as reason:
            print(f"without {name}: {reason}", file=sys.stderr)
            continue
        y = np.asarray(found.y)
        yield name, np.asarray(found.X, dtype=np.float64).reshape(len(y), -1), y


def settled(kernel: dict, X: np.ndarray) -> dict:
    """The kernel with its gamma as a number, so that every peer gets the same."""
    return {**kernel, "gamma": resolve_gamma("scale", X)}
