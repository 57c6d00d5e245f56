"""The models again in the plane, for a picture."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import delayed
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline

from oblong.cli.comparison import protocol
from oblong.cli.comparison.models import Model
from oblong.cli.comparison.results import Settings
from oblong.geometry import MinimumVolumeEllipsoid
from oblong.io.dataset import Dataset

# More points than this fill the picture without adding to it.
MAX_POINTS = 600
# Fraction of the points of a class that its ellipse holds.
COVERAGE = 0.9


@dataclass(frozen=True, eq=False)
class Projection:
    """Points in the plane and the models fitted to them.

    Attributes
    ----------
    points : ndarray of shape (n, 2)
        The two coordinates.
    y : ndarray of shape (n,)
        Labels.
    axis_labels : tuple of two str
        What the coordinates are.
    estimators : dict of str to Pipeline
        Fitted models by title.
    explained : float or None
        Fraction of the variance in the two components; None where the data has two features.
    ellipsoids : dict of int to MinimumVolumeEllipsoid
        The smallest ellipses around :data:`COVERAGE` of the points of classes, by the position of
        the class; classes without an area have none.
    """

    points: np.ndarray
    y: np.ndarray
    axis_labels: tuple[str, str]
    estimators: dict[str, Pipeline]
    explained: float | None
    ellipsoids: dict[int, MinimumVolumeEllipsoid] = field(default_factory=dict)


def project(dataset: Dataset, models: Sequence[Model], settings: Settings) -> Projection | None:
    """Tune and fit each model on the first two principal components of the scaled data.

    Data with two features is taken as it is; data with one gives None.
    """
    X: Any = dataset.X
    y = dataset.y
    if X.shape[1] < 2:
        return None
    if len(y) > MAX_POINTS:
        rows = protocol.some_rows(y, MAX_POINTS, settings.seed)
        X, y = X[rows], y[rows]
    if settings.impute is not None and not sp.issparse(X):
        X = SimpleImputer(strategy=settings.impute, keep_empty_features=True).fit_transform(X)
    explained = None
    if X.shape[1] == 2:
        points = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=float)
        first, second = dataset.feature_names or ("feature 1", "feature 2")
    else:
        pca = PCA(2, svd_solver="arpack" if sp.issparse(X) else "full", random_state=settings.seed)
        points = pca.fit_transform(protocol.make_scaler(X).fit_transform(X))
        explained = float(pca.explained_variance_ratio_.sum())
        first, second = (
            f"component {k + 1} ({share:.0%} of the variance)"
            for k, share in enumerate(pca.explained_variance_ratio_)
        )
    unit = protocol.width_unit(points)
    models = [model for model in models if model.kind != "baseline"]
    plain = Settings(seed=settings.seed)
    tasks = [delayed(_fit)(model, points, y, unit, plain) for model in models]
    fitted = dict(protocol.in_parallel(tasks, settings.jobs))
    estimators = {model.title: fitted[model.name] for model in models}
    ellipsoids = _ellipsoids(points, y)
    return Projection(points, y, (first, second), estimators, explained, ellipsoids)


def _ellipsoids(points: np.ndarray, y: np.ndarray) -> dict[int, MinimumVolumeEllipsoid]:
    found = {}
    for k, label in enumerate(np.unique(y)):
        mine = points[y == label]
        if np.linalg.matrix_rank(mine - mine.mean(axis=0)) < 2:
            continue
        with warnings.catch_warnings(action="ignore"):
            found[k] = MinimumVolumeEllipsoid(coverage=COVERAGE).fit(mine)
    return found


def _fit(
    model: Model, points: np.ndarray, y: np.ndarray, unit: float, settings: Settings
) -> tuple[str, Pipeline]:
    where = "in the plane"
    with warnings.catch_warnings(action="ignore"):
        parameters = protocol.choose(model, points, y, unit, settings, where)
        return model.name, protocol.fit_with(model, points, y, parameters, settings, where)
