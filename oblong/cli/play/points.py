"""Points to begin with, which go by a name."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import load_iris, make_moons

from oblong.cli.play.models import BadRequest
from oblong.datasets import make_parallel_lines, make_tilted_gaussians


def _stripes() -> tuple[np.ndarray, np.ndarray]:
    """Two lines along the diagonal, where no scaling of the columns undoes a stretch."""
    X, y = make_parallel_lines(60, gap=0.5, offset=0.1, stretch=1.6, random_state=0)
    X = X + np.random.default_rng(0).normal(scale=0.05, size=X.shape)
    return X @ np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2.0), y


def _iris() -> tuple[np.ndarray, np.ndarray]:
    iris = load_iris()
    return iris.data[:, [2, 3]], iris.target


PRESETS: dict[str, tuple[str, Callable[[], Any]]] = {
    "stripes": ("Two stripes along the diagonal", _stripes),
    "gaussians": (
        "Two tilted normal distributions",
        partial(make_tilted_gaussians, 120, random_state=0),
    ),
    "moons": (
        "Two moons (try the rbf kernel)",
        partial(make_moons, 100, noise=0.15, random_state=0),
    ),
    "iris": ("Iris: petal length and width, three classes", _iris),
}


def preset(name: Any) -> dict[str, Any]:
    """Points that go by a name."""
    if not isinstance(name, str) or name not in PRESETS:
        raise BadRequest(f"expected data among {', '.join(PRESETS)}")
    X, y = PRESETS[name][1]()
    return {"points": as_points(X, y)}


def as_points(X: np.ndarray, y: np.ndarray) -> list[list[float]]:
    """Rows ``[x, y, class]`` of five digits, which is what the address of the page holds."""
    return [[float(f"{a:.5g}"), float(f"{b:.5g}"), int(label)] for (a, b), label in zip(X, y)]
