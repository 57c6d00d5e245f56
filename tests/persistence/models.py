"""Fitted models of every estimator in the library."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import make_blobs

import oblong

ESTIMATORS = {
    name: value
    for name in oblong.__all__
    if inspect.isclass(value := getattr(oblong, name)) and issubclass(value, BaseEstimator)
}


def rows(n_classes: int = 3, n: int = 48):
    X, y = make_blobs(n, centers=n_classes, n_features=3, cluster_std=2.0, random_state=0)
    return X, y


def settings_of(name: str) -> list[dict]:
    """Settings under which a model keeps different things."""
    parameters = ESTIMATORS[name]().get_params()
    if "covariance" in parameters:
        shapes = [{"covariance": c, "average": c == "diag"} for c in ("full", "diag", "sketch")]
        return [
            {**each, **({"sketch_size": 4} if each["covariance"] == "sketch" else {})}
            for each in shapes
        ]
    if "kernel" in parameters:
        return [{"kernel": "linear"}, {"kernel": "rbf"}, {"kernel": "poly", "coef0": 1.0}]
    return [{}]


CASES = [
    (name, settings, n_classes)
    for name in ESTIMATORS
    for settings in settings_of(name)
    for n_classes in (2, 3)
]
IDS = [f"{name}-{'-'.join(map(str, s.values())) or 'default'}-{k}" for name, s, k in CASES]


def fitted(name: str, settings: dict, n_classes: int = 3, labels: str = "words"):
    X, y = rows(n_classes)
    if issubclass(ESTIMATORS[name], RegressorMixin):
        y = X @ [1.0, -1.0, 0.5] + y
    elif labels == "words":
        y = np.array(["apple", "pear", "quince"])[y]
    model = ESTIMATORS[name](**settings)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    with warnings.catch_warnings():
        # A few rows and default parameters: not every learner is at its best.
        warnings.simplefilter("ignore")
        return model.fit(X) if name == "MinimumVolumeEllipsoid" else model.fit(X, y)
