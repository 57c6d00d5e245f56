"""Classifiers of the library for whole grids of parameters, over one kernel matrix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from oblong import KernelFisherClassifier, SigmaSVC, relative_margin_path

__all__ = ["Grid", "Models", "decide", "fit_all", "settings_of"]

Grid: TypeAlias = Mapping[str, Sequence[float]]
# Fitted models of each family. A path holds the models of all its spreads.
Models: TypeAlias = Mapping[Any, list[Any]]


def settings_of(
    grid: Grid, methods: Sequence[str], spreads: Sequence[float]
) -> dict[str, list[dict[str, float]]]:
    """Parameters to try by family, in the order in which `fit_all` fits them.

    The families are "margin" (SVM and RMM: ``penalties``, spreads), "sigma"
    (``sigma_penalties``, ``shares``) and "klda" (``ridges``).
    """
    found = {"margin": [{"C": C, "spread": s} for C in grid["penalties"] for s in spreads]}
    if "sigma" in methods:
        found["sigma"] = [{"C": C, "D": D} for D in grid["shares"] for C in grid["sigma_penalties"]]
    if "klda" in methods:
        found["klda"] = [{"alpha": ridge} for ridge in grid["ridges"]]
    return found


def fit_all(
    K: np.ndarray, y: np.ndarray, grid: Grid, methods: Sequence[str], spreads: Sequence[float]
) -> Models:
    """Fit every setting of a grid to one kernel matrix."""
    settings = settings_of(grid, methods, spreads)
    found: dict[str, list[Any]] = {
        "margin": [
            relative_margin_path(K, y, spreads=spreads, C=C, kernel="precomputed")
            for C in grid["penalties"]
        ]
    }
    classifiers: dict[str, Any] = {"sigma": SigmaSVC, "klda": KernelFisherClassifier}
    for family, classifier in classifiers.items():
        if family in settings:
            found[family] = [
                classifier(kernel="precomputed", **parameters).fit(K, y)
                for parameters in settings[family]
            ]
    return found


def decide(models: Models, parts: Iterable[np.ndarray]) -> dict[Any, np.ndarray]:
    """Say of each row whether it is of the second class, one row of the result per setting.

    Parameters
    ----------
    models : dict
        The models, by family.
    parts : iterable of ndarray of shape (some, n)
        Kernel values of the rows against the training rows, some rows at a time.
    """
    found: dict[Any, list[np.ndarray]] = {family: [] for family in models}
    for values in parts:
        for family, fitted in models.items():
            outputs = [np.atleast_2d(model.decision_function(values)) for model in fitted]
            found[family].append(np.concatenate(outputs) > 0.0)
    return {family: np.concatenate(some, axis=1) for family, some in found.items()}
