"""Points to begin with: made up, or two columns of a table."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_iris, make_moons

from oblong.cli.play.models import MOST_CLASSES, BadRequest
from oblong.datasets import DataFileError, make_parallel_lines, make_tilted_gaussians
from oblong.io.tables import Table, read_training_table

# Rows of a table that are drawn; more would be a cloud, and slow to fit while a point is dragged.
_MOST_ROWS = 300


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
    return {"points": _points(X, y)}


def uploaded(node: Any, own: Table | None = None) -> dict[str, Any]:
    """Two columns of a table whose text came from the page, or of the one the command has read.

    Parameters
    ----------
    node : object
        The request: ``text`` of the file, and optionally the names ``target``, ``x`` and ``y``.
    own : Table, optional
        The table that is meant if there is no text.
    """
    if not isinstance(node, dict):
        raise BadRequest("expected an object")
    text, target, x, y = (node.get(name) for name in ("text", "target", "x", "y"))
    if not all(value is None or isinstance(value, str) for value in (text, target, x, y)):
        raise BadRequest("expected text and names of columns")
    if text is None:
        if own is None:
            raise BadRequest("expected the text of a table")
        return columns_of(own, x, y)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_text(text, encoding="utf-8", errors="replace")
        try:
            table = read_training_table(path, target, categorical="auto", gaps=True)
            return columns_of(table, x, y)
        except DataFileError as error:
            raise BadRequest(str(error)) from None


def columns_of(table: Table, x: str | None = None, y: str | None = None) -> dict[str, Any]:
    """Two columns of numbers as points; the first two, unless named."""
    schema, count = table.schema, len(table.target_names)
    place = schema.target_position
    target = schema.target or ("label" if place is None else str(place + 1))
    every = [str(j + 1) for j in range(schema.n_features + (place is not None))]
    labels = schema.feature_names or [name for name in every if name != target]
    names = {labels[j]: j for j in schema.numbers}
    if len(names) < 2:
        raise BadRequest("expected two columns of numbers besides the labels")
    defaults = iter(names)
    x, y = (next(defaults) if name is None else name for name in (x, y))
    if not {x, y} <= set(names):
        raise BadRequest(f"expected columns among {', '.join(names)}")
    X: Any = table.X[:, [names[x], names[y]]]
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=float)
    whole = np.flatnonzero(np.isfinite(X).all(axis=1))
    kept = np.sort(np.random.default_rng(0).permutation(whole)[:_MOST_ROWS])
    message = f"{len(kept)} of {len(X):,} rows are shown." if len(kept) < len(X) else ""
    if count > MOST_CLASSES:
        kept, count = kept[:0], 0
        message = f"{target} has {len(table.target_names):,} classes; choose another label column."
    return {
        "points": _points(X[kept], np.unique(table.y, return_inverse=True)[1][kept]),
        "classes": list(table.target_names[:count]),
        "columns": list(names),
        "axes": [x, y],
        "target": target,
        "all": [*labels, target],
        "message": message,
    }


def _points(X: np.ndarray, y: np.ndarray) -> list[list[float]]:
    return [[float(f"{a:.5g}"), float(f"{b:.5g}"), int(label)] for (a, b), label in zip(X, y)]
