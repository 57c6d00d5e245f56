"""Data and learners that both figures have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler, normalize

from oblong import ImprovedEllipsoidClassifier, PassiveAggressiveClassifier
from oblong_reproduction._data import Sets
from oblong_reproduction.iellip._mira import Mira

MARGIN = 0.1
EPOCHS = 3
# Parts of the last pass whose test errors are averaged.
PARTS = 10
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


def iellip(b: float, c: float, trigger: Any) -> ImprovedEllipsoidClassifier:
    """The improved ellipsoid method with the margin of the paper."""
    return ImprovedEllipsoidClassifier(gamma=MARGIN, b=b, c=c, trigger=trigger)


class Joint:
    """The improved ellipsoid method with one matrix for the weights of all classes, as printed.

    Of an example x of class y whose best wrong class is r, the binary learner sees the vector of
    K d features that has x in the place of y and −x in that of r.
    """

    def __init__(self, n_classes: int, n_features: int, b: float, c: float) -> None:
        self._shape = (n_classes, n_features)
        self._model = ImprovedEllipsoidClassifier(gamma=MARGIN, b=b, c=c, fit_intercept=False)
        self._weights = np.zeros(self._shape)
        self.n_updates_ = 0

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> Joint:
        """Learn from rows, one after the other."""
        for x, label in zip(X, y):
            outputs = self._weights @ x
            wrong = np.where(np.arange(len(outputs)) == label, -np.inf, outputs)
            rival = int(np.argmax(wrong))
            if outputs[label] - outputs[rival] >= MARGIN:
                continue
            z = np.zeros(self._shape)
            z[label], z[rival] = x, -x
            if self.n_updates_ == 0:
                self._model.partial_fit(z.reshape(1, -1), [1], classes=[0, 1])
            else:
                self._model.learn_one(z.ravel(), 1)
            self._weights = np.asarray(self._model.coef_[0]).reshape(self._shape)
            self.n_updates_ = int(self._model.n_updates_)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The class with the largest output."""
        return np.argmax(X @ self._weights.T, axis=1)


def joint(task: Task, b: float, c: float) -> Joint:
    """IELLIP with one matrix for all classes, and a constant feature as the others have."""
    return Joint(_n_classes(task), task[0].shape[1] + 1, b, c)


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


def follow(model: Any, task: Task, orders: list[np.ndarray], parts: int = PARTS) -> dict[str, Any]:
    """Test error, in percent, and updates so far after each pass; the mean error of the last pass.

    The last iterate is noisy: "last" is the mean of the test errors after each of so many parts of
    the last pass.
    """
    X, y, X_test, y_test = task
    errors: list[float] = []
    updates: list[float] = []
    given = {}
    if isinstance(model, Mira | Joint):
        X, X_test = (np.hstack([A, np.ones((len(A), 1))]) for A in (X, X_test))
    else:
        given = {"classes": np.arange(_n_classes(task))}

    def test_error() -> float:
        return 100.0 * float(np.mean(model.predict(X_test) != y_test))

    within: list[float] = []
    for order in orders:
        within = []
        for part in np.array_split(order, parts if order is orders[-1] else 1):
            if part.size:
                model.partial_fit(X[part], y[part], **given)
                within.append(test_error())
        errors.append(within[-1])
        updates.append(int(model.n_updates_))
    return {"error": errors, "updates": updates, "last": float(np.mean(within))}
