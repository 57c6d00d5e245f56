"""Rows, labels and weights of a batch: checked, encoded, and parted for early stopping."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, column_or_1d, validate_data

from oblong._core.class_weights import class_factors
from oblong._core.missing import check_present
from oblong.online.plain_learner import check_copies
from oblong.solvers.online.order import shuffled


def is_multilabel(y: Any) -> bool:
    """Whether the labels are an indicator matrix."""
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None")
    check_present(y)
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


# Beyond, the square of an entry may overflow.
_LARGEST = 1e150


def checked_rows(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Rows in C order or as CSR, of numbers whose squares are numbers."""
    options = {"dtype": [np.float64, np.float32], "order": "C", "accept_sparse": "csr"}
    X = validate_data(estimator, X, reset=reset, ensure_all_finite=False, **options)
    values = X.data if sp.issparse(X) else X.ravel()
    # One look at the entries: where the sum of their squares is fine, all of them are.
    with np.errstate(over="ignore"):
        fine = float(values.dot(values)) <= _LARGEST**2
    if not fine:
        validate_data(estimator, X, reset=False, **options)
        if max(float(values.max()), -float(values.min())) > _LARGEST:
            raise ValueError(f"Entries of X must be at most {_LARGEST:g} in absolute value")
    return X


def hold_out(
    present: np.ndarray,
    keys: np.ndarray,
    weights: np.ndarray,
    share: float,
    random_state: np.random.RandomState,
) -> tuple[np.ndarray, np.ndarray]:
    """Part rows into those held out for early stopping and those to learn from."""
    ranks = shuffled(keys[present], random_state)
    totals = np.cumsum(weights[present][ranks])
    # Whole groups of equal rows, so that a copy of a held-out row is not learned from.
    _, group = np.unique(keys[present][ranks], return_inverse=True)
    cut = int(np.searchsorted(totals, share * totals[-1]))
    inside = np.isin(group, group[: max(1, cut)])
    held, rest = present[ranks[inside]], np.sort(present[ranks[~inside]])
    if not len(rest):
        raise ValueError("early_stopping left no rows to learn from")
    return held, rest
