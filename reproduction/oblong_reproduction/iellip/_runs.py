"""Data and learners that both figures have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler, normalize

from oblong import ImprovedEllipsoidClassifier, PassiveAggressiveClassifier
from oblong_reproduction._data import Sets
from oblong_reproduction.iellip._mira import Mira

__all__ = [
    "EPOCHS",
    "MARGIN",
    "TITLES",
    "Task",
    "follow",
    "held_out",
    "iellip",
    "mira",
    "passive",
    "prepared",
]

MARGIN = 0.1
EPOCHS = 3
TITLES = {"usps": "USPS", "letter": "Letter", "isolet": "Isolet", "shuttle": "Shuttle"}

Task = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _four_fifths(
    rng: np.random.Generator, y: np.ndarray, most: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Four fifths of each class, and the rest; at most so many rows of a class together."""
    train, test = [], []
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))[:most]
        cut = round(0.8 * len(rows))
        train.append(rows[:cut])
        test.append(rows[cut:])
    return np.concatenate(train), np.concatenate(test)


def prepared(sets: Sets, rng: np.random.Generator, name: str, rows: int | None = None) -> Task:
    """Training and test rows of unit length, after every feature got the variance one.

    With `rows`, only so many rows of the training part are kept, drawn at random.
    """
    data: Any = sets.load(name)
    X, y, X_test, y_test = data.X, data.y, data.X_test, data.y_test
    if name == "isolet":
        # Ten letters, a hundred rows each, two hundred features: the sizes in the paper.
        X, y = np.vstack([X, X_test]), np.concatenate([y, y_test])
        X, y = X[y < 10][:, ::3][:, :200], y[y < 10]
        train, test = _four_fifths(rng, y, 100)
        X, y, X_test, y_test = X[train], y[train], X[test], y[test]
    elif name == "letter":
        train, test = _four_fifths(rng, y)
        X, y, X_test, y_test = X[train], y[train], X[test], y[test]
    if rows is not None and rows < len(y):
        kept = rng.permutation(len(y))[:rows]
        X, y = X[kept], y[kept]
    scaler = StandardScaler().fit(np.asarray(X, dtype=float))
    X, X_test = (normalize(scaler.transform(np.asarray(A, dtype=float))) for A in (X, X_test))
    return X, y, X_test, y_test


def held_out(rng: np.random.Generator, task: Task) -> Task:
    """Four fifths of the training rows, and the rest in the place of the test rows."""
    X, y, _, _ = task
    order = rng.permutation(len(y))
    held, kept = order[: len(y) // 5], order[len(y) // 5 :]
    return X[kept], y[kept], X[held], y[held]


def iellip(b: float, c: float, trigger: str) -> ImprovedEllipsoidClassifier:
    """The improved ellipsoid method with the margin of the paper."""
    return ImprovedEllipsoidClassifier(gamma=MARGIN, b=b, c=c, trigger=trigger)


def passive(C: float | None) -> PassiveAggressiveClassifier:
    """PA or, with a cost, PA-I, for the margin of the paper.

    The learner has the margin 1: with weights ten times as large it takes the same decisions if
    the cost is ten times as large too.
    """
    if C is None:
        return PassiveAggressiveClassifier(variant=0)
    return PassiveAggressiveClassifier(variant=1, C=C / MARGIN)


def mira(task: Task) -> Mira:
    """MIRA with the margin of the paper, and a constant feature as the others have."""
    return Mira(_n_classes(task), task[0].shape[1] + 1, MARGIN)


def _n_classes(task: Task) -> int:
    # A small part of the rows may lack a rare class.
    return int(max(task[1].max(), task[3].max())) + 1


def follow(model: Any, task: Task, orders: list[np.ndarray]) -> dict[str, list[float]]:
    """Test error, in percent, and updates so far after each pass."""
    X, y, X_test, y_test = task
    errors: list[float] = []
    updates: list[float] = []
    given = {}
    if isinstance(model, Mira):
        X, X_test = (np.hstack([A, np.ones((len(A), 1))]) for A in (X, X_test))
    else:
        given = {"classes": np.arange(_n_classes(task))}
    for order in orders:
        model.partial_fit(X[order], y[order], **given)
        errors.append(100.0 * float(np.mean(model.predict(X_test) != y_test)))
        updates.append(int(model.n_updates_))
    return {"error": errors, "updates": updates}
