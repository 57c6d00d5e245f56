"""Small data sets and a shorthand for the estimator tests."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from oblong import RelativeMarginClassifier

_LOADERS = {
    "iris": load_iris,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
    "digits": load_digits,
}


def real(name: str, limit: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Return a standardised bundled data set, cut to ``limit`` shuffled rows."""
    X, y = _LOADERS[name](return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:limit]
    return StandardScaler().fit_transform(X[rows]), y[rows]


def clouds(
    n: int = 80, d: int = 3, classes: int = 2, seed: int = 0, distance: float = 1.2
) -> tuple[np.ndarray, np.ndarray]:
    """Draw overlapping Gaussian clouds, one per class, on the corners of a random simplex."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    centres = rng.normal(size=(classes, d))
    centres *= distance / np.linalg.norm(centres, axis=1, keepdims=True)
    return rng.normal(size=(n, d)) + centres[y], y


def parallel_lines(stretch: float, n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw two stretched stripes whose best boundary is the first axis.

    The stripes lie along the first axis, a unit apart in the second; the shift between them along
    the first axis tempts a large margin to tilt, more the longer they are.
    """
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = np.column_stack(
        [stretch * (rng.uniform(-1, 1, size=n) + (y - 0.5)), rng.uniform(0.5, 1.0, size=n)]
    )
    X[:, 1] *= np.where(y == 1, 1.0, -1.0)
    return X, y


def fit(X: object, y: object, weight: object = None, **params: object) -> RelativeMarginClassifier:
    """Fit tightly enough for two machines to be compared."""
    params = {"spread": 0.4, "tol": 1e-6, **params}
    return RelativeMarginClassifier(**params).fit(X, y, sample_weight=weight)
