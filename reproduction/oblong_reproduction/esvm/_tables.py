"""Sets as these experiments take them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from oblong_reproduction._data import Sets

# Columns of adult in which the code 0 stands for a question mark.
_UNKNOWN = ("workclass", "occupation", "native-country")


def whole(sets: Sets, name: str) -> tuple[np.ndarray, np.ndarray]:
    """All rows of a set, dense, training part first."""
    data: Any = sets.load(name)
    parts = [data.X] if data.X_test is None else [data.X, data.X_test]
    dense = [np.asarray(A.todense() if sp.issparse(A) else A, dtype=float) for A in parts]
    labels = [data.y] if data.y_test is None else [data.y, data.y_test]
    return np.vstack(dense), np.concatenate(labels)


def one_hot(X: np.ndarray) -> np.ndarray:
    """A column for every value of every column."""
    return np.hstack([(column[:, None] == np.unique(column)).astype(float) for column in X.T])


def adult_records(sets: Sets) -> tuple[np.ndarray, np.ndarray]:
    """The 45,222 records of adult without a missing value, in 14 columns."""
    X, y = whole(sets, "adult")
    names = list(sets.load("adult").feature_names or ())
    known = np.all(X[:, [names.index(name) for name in _UNKNOWN]] != 0.0, axis=1)
    return X[known], y[known]


def error(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Share of wrong predictions in percent."""
    return 100.0 * float(np.mean(model.predict(X) != y))
