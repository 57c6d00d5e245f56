"""Data of the tests of EllipsoidalSVC, and its fit to high accuracy."""

from __future__ import annotations

import numpy as np

from oblong import EllipsoidalSVC

FIXTURE = np.array(
    [(2, 1), (1, 2), (1.5, 0.2), (-0.2, 0.4), (-1, -1), (-2, 0.5), (0.5, -1.5), (0.3, 0.6)]
)
LABELS = np.repeat([1, -1], 4)


def fit(X, y, weight=None, **params) -> EllipsoidalSVC:
    params = {"kernel": "linear", "tol": 1e-9, **params}
    return EllipsoidalSVC(**params).fit(X, y, sample_weight=weight)


def separable(n=30, d=3, seed=0, gap=0.5):
    """Rows on either side of a random plane through the origin, at a distance from it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    w = rng.normal(size=d)
    w /= np.linalg.norm(w)
    y = np.where(X @ w > 0, 1, -1)
    y[0], X[0] = 1, w
    y[1], X[1] = -1, -w
    return X + gap * y[:, None] * w, y


def cosine(a, b):
    a, b = np.ravel(a), np.ravel(b)
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
