"""A loaded model tried on a few rows: what cannot predict them is no model.

The checks of :mod:`oblong.persistence._soundness` keep compiled code from reading where it must
not. Here all else that a changed file may hold shows itself: wrong shapes and types, parameters
without meaning, and arrays of garbage, which give outputs that are not finite.
"""

import warnings
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import LabelBinarizer, LabelEncoder
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from oblong.batch.margin_path import RelativeMarginPath
from oblong.persistence._declared import DENSE, Unsound

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
# Rows that a model does not take if they are sparse may have so many columns.
_WIDEST = 1_000_000


def check_usable(model: Any) -> None:
    """Raise :class:`Unsound` if a fitted model fails on rows like those it was fitted to."""
    if not isinstance(model, (BaseEstimator, RelativeMarginPath)):
        raise Unsound("expected a model")
    try:
        if hasattr(model, "fit"):
            check_is_fitted(model)
        rows = _rows(model)
    except NotFittedError:
        return
    except Unsound:
        raise
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
    others = _others(model, rows) if isinstance(error, (ValueError, TypeError)) else []
    for another in others:
        try:
            return _outputs(model, another)
        except Exception as second:
            error = second
    if isinstance(error, Unsound):
        raise error
    raise Unsound(f"the model cannot predict ({type(error).__name__})") from None


def _others(model: Any, rows: Any) -> list[Any]:
    if isinstance(rows, list):
        return []
    if sp.issparse(rows):
        return [rows.toarray()] if rows.shape[1] <= _WIDEST else []
    others = [np.zeros(rows.shape)] if rows.dtype.kind == "f" else []
    names = getattr(model, "feature_names_in_", None)
    if names is not None and len(names) == rows.shape[1]:
        # Steps may pick columns by their names, which only a data frame has.
        with suppress(ImportError):
            others.append(import_module("pandas").DataFrame(rows, columns=names))
    return others


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
    first = _first(model)
    if isinstance(first, HashingVectorizer):
        return ["one word and another"] * _ROWS
    model = getattr(model, "_classifier", model)
    count = getattr(model, "n_features_in_", None)
    if count is None:
        # A step that takes rows of any width, or labels.
        of_labels = isinstance(model, (LabelBinarizer, LabelEncoder))
        if first is None or of_labels or not get_tags(model).requires_fit:
            return None
        raise Unsound("n_features_in_")
    if type(count) is not int or not 0 < count < 2**31:
        raise Unsound("n_features_in_")
    cells = _cells(model, count)
    if cells:
        row = np.ones(count, dtype=object)
        row[list(cells)] = [*cells.values()]
        return np.tile(row, (_ROWS, 1))
    if count > DENSE:
        ones, zeros = np.ones(_ROWS), np.zeros(_ROWS, dtype=np.int32)
        return sp.csr_matrix((ones, zeros, np.arange(_ROWS + 1)), shape=(_ROWS, count))
    return np.ones((_ROWS, count))


def _first(model: Any) -> Any:
    """What sees the rows first."""
    if isinstance(model, Pipeline):
        steps = [step for _, step in model.steps if step not in (None, "passthrough")]
        return _first(steps[0]) if steps else None
    if isinstance(model, FeatureUnion):
        return _first(model.transformer_list[0][1])
    inner = getattr(model, "estimator_", None)
    return model if inner is None else _first(inner)


def _cells(model: Any, count: int) -> dict[int, Any]:
    """What a row holds in columns that are not of numbers, by the first steps that know it."""
    if isinstance(model, Pipeline):
        steps = [step for _, step in model.steps if step not in (None, "passthrough")]
        if isinstance(steps[0], SimpleImputer):
            # Columns of indicators come last.
            known = _cells(steps[1], steps[1].n_features_in_) if len(steps) > 1 else {}
            filled = _cells(steps[0], count)
            return filled | {j: cell for j, cell in known.items() if j < count}
        return _cells(steps[0], count)
    if isinstance(model, FeatureUnion):
        return _cells(model.transformer_list[0][1], count)
    if isinstance(model, ColumnTransformer):
        return _cells_of_parts(model, count)
    if hasattr(model, "estimator_"):
        return _cells(model.estimator_, count)
    if isinstance(model, SimpleImputer) and model.statistics_.dtype.kind == "O":
        return dict(enumerate(model.statistics_.tolist()))
    categories = getattr(model, "categories_", None)
    if categories is not None:
        return {j: known[0] for j, known in enumerate(categories) if known[0] != 1.0}
    return {}


def _cells_of_parts(model: ColumnTransformer, count: int) -> dict[int, Any]:
    cells: dict[int, Any] = {}
    names = list(getattr(model, "feature_names_in_", ()))
    for _, part, columns in model.transformers_:
        if isinstance(part, str):
            continue
        if isinstance(columns, slice):
            places: Any = range(count)[columns]
        else:
            columns = [columns] if isinstance(columns, (int, str)) else list(columns)
            columns = [names.index(each) if isinstance(each, str) else each for each in columns]
            places = np.arange(count)[columns]
        if isinstance(part, HashingVectorizer):
            inner: dict[int, Any] = dict.fromkeys(range(len(places)), "word")
        else:
            inner = _cells(part, len(places))
        cells |= {int(places[j]): cell for j, cell in inner.items()}
    return cells
