"""Classifiers of the library for whole grids of parameters, over one kernel matrix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from oblong import KernelFisherClassifier, RelativeMarginPath, SigmaSVC, relative_margin_path

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
    own = {family: [_expansion(model) for model in fitted] for family, fitted in models.items()}
    coef, bias = zip(*(one for some in own.values() for one in some))
    ends = np.cumsum([sum(len(b) for _, b in some) for some in own.values()])
    # One product for all: each alone would read the kernel values again, which costs more.
    coefficients, biases = np.concatenate(coef).T, np.concatenate(bias)
    for values in parts:
        second = (values.astype(np.float64, copy=False) @ coefficients + biases).T > 0.0
        for family, part in zip(found, np.split(second, ends[:-1])):
            found[family].append(part)
    return {family: np.concatenate(some, axis=1) for family, some in found.items()}


def _expansion(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of all training rows, a row per model, and biases."""
    if isinstance(model, RelativeMarginPath):
        return model.coef, model.intercept
    coef = np.zeros((1, model.n_features_in_))
    coef[:, model.support_] = model.dual_coef_
    return coef, model.intercept_
