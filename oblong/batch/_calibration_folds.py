"""The folds of a calibration: where metadata go, and which rows are left out together."""

import warnings
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import LeaveOneOut
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import _routing_enabled, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import has_fit_parameter

# Folds by default, where every class has so many rows.
MOST_FOLDS = 5


@dataclass(frozen=True)
class CrossFit:
    """What the folds give.

    Attributes
    ----------
    outputs : ndarray of shape (n, n_problems)
        Outputs of every binary problem on each row, by the model that has not seen it.
    models : list of estimator
        The model of each fold; empty for too many folds.
    gap : float
        Largest relative duality gap of a fold; NaN where the models prove none.
    n_iter : int
        Steps of the solver in all.
    converged : bool
        Whether every model met its tolerance.
    train : list of ndarray of int or None
        For precomputed kernels: the rows that the model of each fold wants values against, unless
        these are all rows.
    """

    outputs: np.ndarray
    models: list[Any] = field(default_factory=list)
    gap: float = np.nan
    n_iter: int = 0
    converged: bool = True
    train: list[np.ndarray] | None = None


def routed(
    owner: Any, model: Any, sample_weight: Any, fit_params: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """What goes to the fits and to the splitter, and whether the fits take the weights."""
    if _routing_enabled():
        given = dict(fit_params)
        if sample_weight is not None:
            given["sample_weight"] = sample_weight
        routes = process_routing(owner, "fit", **given)
        options = dict(routes.estimator.fit)
        weighted = options.pop("sample_weight", None) is not None
        return options, dict(routes.splitter.split), weighted
    options = dict(fit_params)
    groups = options.pop("groups", None)
    weighted = sample_weight is not None and has_fit_parameter(model, "sample_weight")
    if sample_weight is not None and not weighted:
        warnings.warn(
            f"{type(model).__name__} does not appear to accept sample_weight: the weights are "
            f"used for the calibration only",
            UserWarning,
            stacklevel=5,
        )
    return options, {} if groups is None else {"groups": groups}, weighted


def checked_folds(cv: Any, y: np.ndarray) -> Any:
    """Return ``cv``, or how many folds the smallest class allows in place of None.

    Labels of no class, and more folds than a class has rows, are refused before any work starts.
    """
    if y.dtype.kind not in "biu":
        check_classification_targets(y)
    classes, counts = np.unique(y, return_counts=True)
    # The estimator knows best what to say about a single class.
    if classes.size < 2 or not (cv is None or isinstance(cv, Integral)):
        return MOST_FOLDS if cv is None else cv
    fewest, label = int(counts.min()), classes.tolist()[counts.argmin()]
    if fewest < 2:
        raise ValueError(
            f"calibration needs at least two rows of every class, but the class {label!r} has "
            f"only one"
        )
    if cv is None:
        return min(MOST_FOLDS, fewest)
    if fewest < int(cv):
        raise ValueError(
            f"cv={cv} folds need as many rows of every class, but the class {label!r} has only "
            f"{fewest}: use fewer folds"
        )
    return cv


def stratified(labels: np.ndarray, n_folds: int) -> list[np.ndarray]:
    """The folds of :class:`~sklearn.model_selection.StratifiedKFold`, whose checks take longer."""
    order = np.argsort(labels, kind="stable")
    parts = np.split(order, np.bincount(labels).cumsum()[:-1])
    fold_of = np.empty(labels.size, dtype=np.intp)
    start = 0
    for rows in sorted(filter(len, parts), key=lambda rows: rows[0]):
        fold_of[rows] = np.sort(np.arange(start, start + rows.size) % n_folds)
        start += rows.size
    return [np.flatnonzero(fold_of == fold) for fold in range(n_folds)]


def folds_of(
    cv: Any,
    X: Any,
    y: np.ndarray,
    kept: np.ndarray,
    labels: np.ndarray,
    classes: np.ndarray,
    options: dict[str, Any],
) -> tuple[list[np.ndarray], np.ndarray]:
    """Places in ``kept`` of the rows of each fold, and the fold of each of these rows."""
    if isinstance(cv, LeaveOneOut):
        folds = list(np.arange(kept.size)[:, None])
    elif isinstance(cv, Integral):
        folds = stratified(labels, int(cv))
    elif hasattr(cv, "split"):
        options = {key: _safe_indexing(value, kept) for key, value in options.items()}
        rows = X if kept.size == len(y) else _safe_indexing(X, kept)
        folds = [np.asarray(test) for _, test in cv.split(rows, y[kept], **options)]
    else:
        # Folds that are given as they are count all rows.
        place = np.full(len(y), -1)
        place[kept] = np.arange(kept.size)
        given = (place[np.asarray(test)] for _, test in cv)
        folds = [test[test >= 0] for test in given if (test >= 0).any()]
    if not folds:
        raise ValueError("cv gives no folds")
    every = np.concatenate(folds)
    times = np.bincount(every, minlength=kept.size)
    if len(times) > kept.size or (times != 1).any():
        raise ValueError("cv has to leave out every row exactly once")
    fold_of = np.empty(kept.size, dtype=np.intp)
    fold_of[every] = np.repeat(np.arange(len(folds)), [len(test) for test in folds])
    k = len(classes)
    out = np.bincount(k * fold_of + labels, minlength=k * len(folds)).reshape(len(folds), k)
    whole, gone = np.nonzero(out == np.bincount(labels, minlength=k))
    if whole.size:
        raise ValueError(
            f"without fold {whole[0]} no row of the class {classes.tolist()[gone[0]]!r} is left: "
            f"use fewer folds, or stratified folds"
        )
    return folds, fold_of
