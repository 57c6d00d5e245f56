"""Samples of two long Gaussians, and lines that part them."""

from __future__ import annotations

from typing import Any

import numpy as np

from oblong import LinearRelativeMarginClassifier
from oblong.datasets import make_tilted_gaussians

# The direction of the best boundary's normal, S⁻¹ (μ₊ − μ₋), and its offset: equation (34).
_NORMAL = np.linalg.solve([[17.0, 15.0], [15.0, 17.0]], [-18.0, -12.0])
_OFFSET = -float(_NORMAL @ [10.0, 7.0])


def sample(
    rng: np.random.Generator, n: int, stretch: float, held: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
    """Training rows and held-out rows in one unit box, and the best boundary there."""
    seeds = rng.integers(2**31, size=2)
    X, y = make_tilted_gaussians(n, stretch=stretch, random_state=int(seeds[0]))
    Z, z = make_tilted_gaussians(held, stretch=stretch, random_state=int(seeds[1]))
    low = np.minimum(X.min(axis=0), Z.min(axis=0))
    extent = np.maximum(X.max(axis=0), Z.max(axis=0)) - low
    return (
        (X - low) / extent,
        y,
        (Z - low) / extent,
        z,
        _NORMAL * extent,
        _OFFSET + float(_NORMAL @ low),
    )


def errors_of(Z: np.ndarray, z: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """Errors in per cent of lines ``(w1, w2, b)``, on the two halves of the held-out rows."""
    wrong = (Z @ lines[:, :2].T + lines[:, 2] > 0) != (z > 0)[:, None]
    half = len(z) // 2
    return 100.0 * np.array([wrong[:half].mean(axis=0), wrong[half:].mean(axis=0)])


def fit_line(X: np.ndarray, y: np.ndarray, C: float, B: float | None) -> tuple[np.ndarray, float]:
    """Weights and bias of one classifier, and the largest output of the SVM if that was wanted."""
    bound: dict[str, Any] = {"spread": 1.0} if B is None else {"B": B}
    model = LinearRelativeMarginClassifier(C=C, **bound).fit(X, y)
    return np.append(model.coef_[0], model.intercept_[0]), float(model.theta_[0])


def angle(w: np.ndarray, v: np.ndarray) -> float:
    cosine = w @ v / np.linalg.norm(w) / np.linalg.norm(v)
    return float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))
