"""A loaded model tried on a few rows: what cannot predict them is no model.

The checks of :mod:`oblong.persistence._soundness` keep compiled code from reading where it must
not. Here all else that a changed file may hold shows itself: wrong shapes and types, parameters
without meaning, and arrays of garbage, which give outputs that are not finite.
"""

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils.validation import check_is_fitted

from oblong.persistence._soundness import Unsound

# What gives numbers, one row for each row, for the models that have it.
_METHODS = (
    "predict",
    "decision_function",
    "predict_proba",
    "predict_p",
    "transform",
    "margin_variance",
    "mahalanobis",
    "score_samples",
)
# A number that other sides of arrays rarely have, with which they could be confused.
_ROWS = 7
_BY_CLASS = ("decision_function", "predict_proba", "predict_p")
# With more columns than this, rows are sparse if the model takes such rows.
_WIDE, _WIDEST = 10_000, 1_000_000


def check_usable(model: Any) -> None:
    """Raise :class:`Unsound` if a fitted model fails on rows like those it was fitted to."""
    try:
        if hasattr(model, "fit"):
            check_is_fitted(model)
        rows = _rows(model)
    except NotFittedError:
        return
    except Exception:
        raise Unsound("the model cannot be used") from None
    if rows is None:
        return
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        try:
            found = _outputs(model, rows)
        except Exception as error:
            found = _second_trial(model, rows, error)
    classes = getattr(model, "classes_", None)
    for name, values in found.items():
        # A path has a column per spread.
        by_class = name in _BY_CLASS and not hasattr(model, "spreads")
        if by_class and isinstance(classes, np.ndarray) and values.ndim == 2:
            k = len(classes)
            if values.shape[1] not in (k, k * (k - 1) // 2):
                raise Unsound(f"{name} has other classes than the model")
    if isinstance(classes, np.ndarray) and not _ordered(classes):
        raise Unsound("classes that are not in order")


def _second_trial(model: Any, rows: Any, error: Exception) -> dict[str, np.ndarray]:
    """Try rows of another kind, if there are any: dense ones, or zeros.

    Ones may be so far from the rows of a sound model that its kernel values overflow there.
    """
    another: Any = None
    if not sp.issparse(rows):
        another = np.zeros(rows.shape) if rows.dtype.kind == "f" else None
    elif rows.shape[1] <= _WIDEST:
        another = rows.toarray()
    try:
        if another is not None and isinstance(error, (ValueError, TypeError)):
            return _outputs(model, another)
    except Exception as second:
        error = second
    if isinstance(error, Unsound):
        raise error
    raise Unsound(f"the model cannot predict ({type(error).__name__})") from None


def _ordered(classes: np.ndarray) -> bool:
    try:
        return np.array_equal(np.unique(classes), classes)
    except TypeError:
        # Labels of several types, which have no order.
        return True


def _outputs(model: Any, rows: Any) -> dict[str, np.ndarray]:
    found = {}
    for name in _METHODS:
        # P-values need the models of the folds, which are not kept if they are many.
        if not hasattr(model, name) or (name == "predict_p" and not model._models):
            continue
        values = getattr(model, name)(rows)
        if not sp.issparse(values):
            values = np.asarray(values)
        else:
            values = np.append(values.data, np.zeros(_ROWS))[:_ROWS]
        proper = values.dtype.kind != "f" or np.isfinite(values).all()
        if _ROWS not in values.shape or not proper:
            raise Unsound(f"{name} gives no proper numbers")
        found[name] = values
    return found


def _rows(model: Any) -> Any:
    """Equal rows of ones, or of what stands there in training; None if there is no telling."""
    count = getattr(model, "n_features_in_", None)
    if count is None and "n_features_in_" not in vars(model):
        # It does not say how wide its rows are.
        return None
    if type(count) is not int or not 0 < count < 2**31:
        raise Unsound("n_features_in_")
    cells = _cells(model, count)
    if cells is None:
        return None
    if any(cell != 1.0 for cell in cells):
        return np.array([cells] * _ROWS, dtype=object)
    if count > _WIDE:
        ones, first = np.ones(_ROWS), np.zeros(_ROWS, dtype=np.int32)
        return sp.csr_matrix((ones, first, np.arange(_ROWS + 1)), shape=(_ROWS, count))
    return np.ones((_ROWS, count))


def _cells(model: Any, count: int) -> list[Any] | None:
    """What a row may hold, by the first steps that know it."""
    if isinstance(model, Pipeline):
        steps = [step for _, step in model.steps if step not in (None, "passthrough")]
        if isinstance(steps[0], SimpleImputer) and len(steps) > 1:
            # Columns of indicators come last.
            known = _cells(steps[1], steps[1].n_features_in_)
            return None if known is None or len(known) < count else known[:count]
        return _cells(steps[0], count)
    if isinstance(model, FeatureUnion):
        return _cells(model.transformer_list[0][1], count)
    if isinstance(model, HashingVectorizer):
        return ["word"] * count
    if isinstance(model, ColumnTransformer):
        cells: list[Any] = [1.0] * count
        for _, part, columns in model.transformers_:
            if isinstance(part, str):
                continue
            places = np.arange(count)[columns] if not _named(columns) else None
            if places is None:
                # Columns of a data frame by their names, of which there is none here.
                return None
            places = np.atleast_1d(places)
            inner = _cells(part, len(places))
            if inner is None:
                return None
            for place, cell in zip(places.tolist(), inner):
                cells[place] = cell
        return cells
    if hasattr(model, "estimator_"):
        return _cells(model.estimator_, count)
    categories = getattr(model, "categories_", None)
    if categories is not None:
        return [known[0] for known in categories]
    return [1.0] * count


def _named(columns: Any) -> bool:
    if isinstance(columns, (list, tuple, np.ndarray)):
        return len(columns) > 0 and isinstance(columns[0], str)
    return isinstance(columns, str)
