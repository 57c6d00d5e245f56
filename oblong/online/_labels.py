"""Labels and weights of a batch, checked and encoded."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from oblong._core.class_weights import class_factors
from oblong.online.plain import check_copies


def is_multilabel(y: Any) -> bool:
    """Whether the labels are an indicator matrix."""
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None")
    nested = isinstance(y, (list, tuple)) and len(y) and np.ndim(y[0]) == 1
    flat = not sp.issparse(y) and not nested and getattr(y, "ndim", 1) == 1
    return not flat and type_of_target(y) == "multilabel-indicator"


def indicator(y: Any) -> np.ndarray:
    """An indicator matrix of zeros and ones."""
    y = y.toarray() if sp.issparse(y) else np.asarray(y)
    return np.ascontiguousarray(y, dtype=np.int32)


def encode(y: Any, classes: np.ndarray) -> np.ndarray:
    """Numbers of the classes, as a column; an unknown class is an error."""
    y = column_or_1d(y, warn=True)
    if len(classes) == 2 and y.dtype == classes.dtype:
        second = y == classes[1]
        if np.all(second | (y == classes[0])):
            return second.astype(np.int32)[:, None]
    check_classification_targets(y)
    codes = np.searchsorted(classes, y)
    codes[codes == len(classes)] = 0
    known = classes[codes] == y
    if not np.all(known):
        unknown = np.unique(y[~known])
        raise ValueError(
            f"y contains classes that are not among the declared ones: {unknown.tolist()}"
        )
    return codes.astype(np.int32)[:, None]


def check_weights(sample_weight: Any, X: Any, *, soft: bool) -> np.ndarray:
    """Weights of the rows, in double precision."""
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    check_copies(weights, soft)
    return weights


def class_weighted(model: Any, weights: np.ndarray, labels: np.ndarray, *, whole: bool) -> Any:
    """Weights of rows times those of their classes, if a learner has such."""
    given = getattr(model, "class_weight", None)
    if given is None:
        return weights
    if model.multilabel_:
        raise ValueError("class_weight is not supported for multilabel targets")
    if isinstance(given, str) and not whole:
        raise ValueError(
            'class_weight="balanced" needs all rows at once; pass the weights of the classes as a '
            "dict to learn from batches"
        )
    codes = labels[:, 0]
    found = weights * class_factors(given, model.classes_, codes, weights, allow_zero=True)[codes]
    return check_weights(found, found[:, None], soft=model._is_soft())
