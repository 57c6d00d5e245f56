"""Checks of objects from a file, above all of what compiled code reads without checking.

NumPy refuses arrays that do not fit together, with an error at the latest when they meet. The
compiled loops of the online learners do not look, and a file with wrong shapes could make them
read, or write, where they must not. Shapes are declared in :mod:`oblong.persistence._declared`;
here is what a declaration cannot say.
"""

import inspect
import re
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures

from oblong.batch import (
    BayesPointClassifier,
    CalibratedMarginClassifier,
    EllipsoidalSVC,
    MarginRegressor,
    MarginRegressorCV,
    RelativeMarginClassifierCV,
)
from oblong.batch._expansion import KernelExpansion
from oblong.batch.margin_path import RelativeMarginPath, RelativeMarginPathClassifier
from oblong.geometry import MinimumVolumeEllipsoid
from oblong.geometry._kernel_rows import KernelizedRows
from oblong.kernels import KERNELS, Kernel
from oblong.linalg.feature_map import LinearMap, PivotMap
from oblong.online._base import OnlineClassifier
from oblong.persistence._declared import (
    DENSE,
    WIDEST,
    Shapes,
    Unsound,
    check_places,
    declared,
)
from oblong.persistence._online import check_ellipsoidal_state, check_kernel_state, check_state
from oblong.solvers.esvm.online.state import OnlineEllipsoidalState
from oblong.solvers.online import slots
from oblong.solvers.online.kernel import KernelState
from oblong.solvers.online.state import OnlineState

_MOST_FEATURES = 2**31
# Columns that a polynomial may make, its degree, and the number of words of a phrase.
_MOST_PRODUCTS, _HIGHEST_DEGREE, _LONGEST_PHRASE = 1 << 19, 128, 32
# Words that are found in time: signs and sets of signs, of which one may be repeated.
_SIGN = r"(?:\\[bBdDsSwW]|\[\^?[^\[\]\\^]+\]|[^\\\[\]()*+?{}|^$.])"
_PATTERN = re.compile(rf"(?:\(\?u\))?{_SIGN}{{0,40}}[*+]?{_SIGN}{{0,40}}")
# In place of rows, a precomputed kernel has columns of a matrix.
_NO_ROWS = ("support_vectors_", "universum_vectors_", "_kernel_vectors")


def check_sound(value: Any) -> int:
    """Raise :class:`Unsound` if an object is inconsistent.

    Parameters
    ----------
    value : object
        An object of one of the known types, with its attributes set.

    Returns
    -------
    int
        Columns of dense rows that the object says it has, for which there is nothing in the file.
    """
    try:
        if hasattr(value, "_parameter_constraints"):
            value._validate_params()
        shapes = _shapes(value)
        skipped = _NO_ROWS if getattr(value, "kernel", None) == "precomputed" else ()
        for name, text in declared(type(value)).items():
            if _has(value, name) and name not in skipped:
                shapes.check(getattr(value, name), text, name)
        for kind, check in _CHECKS:
            if isinstance(value, kind):
                check(value)
        return _announced(value, shapes)
    except (ArithmeticError, AttributeError, TypeError, LookupError, ValueError) as error:
        if isinstance(error, Unsound):
            raise
        raise Unsound(f"a damaged {type(value).__name__}") from None


def check_attribute(known: type, name: str, value: Any) -> None:
    """Raise :class:`Unsound` for an attribute that no object of a type has."""
    if not name.isidentifier() or name.startswith("__"):
        raise Unsound("an attribute without a proper name")
    if type(value) is int and abs(value) >= 2**63:
        raise Unsound(f"{name[:40]}: a number that is too large")
    default = inspect.getattr_static(known, name, None)
    if default is None or isinstance(default, cached_property):
        return
    field = getattr(known, "__dataclass_fields__", {}).get(name)
    if field is not None and field.init:
        return
    # An attribute never stands in for a method, nor for what a class says of itself.
    if callable(default):
        raise Unsound(f"an attribute in place of the method {name[:40]}")
    if type(value) is not type(default) or (field is not None and value != default):
        raise Unsound(f"an attribute in place of {name[:40]}, which is fixed")


def _require(condition: Any, what: str) -> None:
    if not condition:
        raise Unsound(f"wrong shapes: {what}")


def _has(value: Any, name: str) -> bool:
    """Whether an object has an attribute of its own."""
    return name in vars(value) if hasattr(value, "__dict__") else hasattr(value, name)


def _shapes(value: Any) -> Shapes:
    """The lengths that an object gives names to."""
    known: dict[str, int] = {}
    if _has(value, "n_features_in_"):
        known["n"] = value.n_features_in_
        _require(type(known["n"]) is int and 0 <= known["n"] < _MOST_FEATURES, "n_features_in_")
    if _has(value, "classes_"):
        k = len(value.classes_)
        one = getattr(value, "multilabel_", False) or not hasattr(value, "decision_function")
        _require(k >= 2 or one or isinstance(value, OneVsRestClassifier), "classes")
        pairs, rest = (1, 1) if k == 2 else (k * (k - 1) // 2, k)
        by_rest = isinstance(value, (EllipsoidalSVC, BayesPointClassifier))
        if isinstance(value, CalibratedMarginClassifier):
            by_rest = not vars(value).get("_one_vs_one")
        known |= {"k": k, "c": k - 1, "pairs": k * (k - 1) // 2, "o": rest}
        known["p"] = rest if by_rest else pairs
    if isinstance(value, RelativeMarginPathClassifier) and _has(value, "spreads"):
        known["p"] = len(value.spreads)
    if isinstance(value, MarginRegressor):
        known["p"] = len(np.ravel(value.quantile)) if value._several else 1
    return Shapes(**known)


def _announced(value: Any, shapes: Shapes) -> int:
    """Columns for which there is no array; most of our models have one, or what is inside has."""
    own = not type(value).__module__.startswith("sklearn.")
    if own and getattr(value, "kernel", None) != "precomputed":
        return 0
    count = 0 if shapes.wide else shapes.lengths.get("n", 0)
    if count > WIDEST:
        raise Unsound(f"{count:,} columns, and no numbers for them")
    return min(count, DENSE) + vars(value).get("n_output_features_", 0)


# Kernel models ------------------------------------------------------------------------------------


def _check_kernel(kernel: Kernel) -> None:
    _require(kernel.name in KERNELS and isinstance(kernel.name, str), "kernel")
    _require(isinstance(kernel.gamma, (int, float, str)), "gamma")
    _require(type(kernel.degree) is int and isinstance(kernel.coef0, (int, float)), "kernel")
    # Refuses a degree that is none.
    Kernel(kernel.name, kernel.gamma, kernel.degree, kernel.coef0)


def _check_expansion(model: KernelExpansion) -> None:
    _require(isinstance(model.kernel, str) and model.kernel in KERNELS, "kernel")
    if not _has(model, "support_"):
        return
    n, support = model.n_features_in_, model.support_
    if model.kernel == "linear":
        _require(_has(model, "coef_"), "coefficients")
    elif model.kernel == "precomputed":
        check_places(support, n, "support_")
        for name in _NO_ROWS:
            if _has(model, name):
                _require(isinstance(getattr(model, name), np.ndarray), name)
    else:
        _require(_has(model, "support_vectors_"), "support vectors")
    if _has(model, "n_support_"):
        _require(int(model.n_support_.sum()) == len(support), "support vectors")


def _check_map(model: Any) -> None:
    """The coordinates of a one-vs-rest classifier, and what is in them."""
    if not _has(model, "_map"):
        return
    mapped, n = model._map, model.n_features_in_
    size = model._directions.shape[1]
    _require(isinstance(mapped, (LinearMap, PivotMap)), "map")
    width = n + int(mapped.constant)
    if isinstance(mapped, LinearMap):
        _require(model.kernel == "linear", "map")
        span = mapped.span
        _require(size == width if span is None else span.shape == (width, size), "coordinates")
    else:
        _require(mapped.kernel.name == model.kernel and len(mapped.pivots) == size, "pivots")
        if model.kernel == "precomputed":
            _require(mapped.rows is None, "pivots")
            check_places(mapped.pivots, n, "pivots")
        else:
            _require(mapped.rows.shape[1] == n, "pivots")
    last = vars(model).get("_last")
    if last is not None:
        (likeness, results) = last
        shape = likeness[0]
        _require(all(len(each.alpha) == shape[0] for each in results), "the last solutions")
        _require(all(len(each.w) == shape[1] for each in results), "the last solutions")


def _check_path(path: RelativeMarginPath) -> None:
    inner = path._classifier
    _require(isinstance(inner, RelativeMarginPathClassifier), "path")
    _require(len(inner.intercept_) == len(path.spreads), "path")


def _check_kernel_rows(rows: KernelizedRows) -> None:
    _require(isinstance(rows.kernel, Kernel), "kernel")
    _require(rows.rows is None or len(rows.rows) == rows.n, "rows")
    _require((rows.rows is None) == (rows.kernel.name == "precomputed"), "rows")


def _check_pivots(pivots: PivotMap) -> None:
    _require(isinstance(pivots.kernel, Kernel), "kernel")


def _check_ellipsoid(model: MinimumVolumeEllipsoid) -> None:
    if not _has(model, "center_"):
        return
    rows, width = model._kernel_rows, model.n_features_in_
    if rows is not None:
        _require(isinstance(rows, KernelizedRows), "rows")
        columns = rows.n if rows.rows is None else rows.rows.shape[1]
        _require(columns == width, "rows")
        width = rows.basis.rank
    _require(len(model.center_) == width, "center_")
    _require(len(model.factor_) == width, "factor_")


# Models around models -----------------------------------------------------------------------------


def _check_inside(model: Any) -> None:
    """What a model holds fits it."""
    held = [vars(model).get(name) for name in ("estimator_", "best_estimator_")]
    held += [*vars(model).get("estimators_", ())]
    classes = vars(model).get("classes_")
    if isinstance(model, CalibratedMarginClassifier):
        held += _folds(model)
    for inner in held:
        if inner is None:
            continue
        _require(isinstance(inner, BaseEstimator) and hasattr(inner, "predict"), "model")
        n = getattr(inner, "n_features_in_", None)
        whole = n is None or getattr(model, "_train", None) is not None
        _require(whole or n == model.n_features_in_, "features")
        # Those of one class against others have classes of their own.
        if classes is not None and not _has(model, "estimators_"):
            _require(np.array_equal(inner.classes_, classes), "classes")


def _folds(model: CalibratedMarginClassifier) -> list[Any]:
    """The models of the folds, which know all classes."""
    if not _has(model, "_models"):
        return []
    folds, parts = model._models, model._train
    _require(isinstance(folds, list), "folds")
    if folds:
        check_places(model.fold_of_, len(folds), "fold_of_")
    if parts is not None:
        _require(len(parts) == len(folds), "folds")
        for part in parts:
            check_places(part, model.n_features_in_, "rows of a fold")
    _require(model.temperature_ > 0.0, "temperature_")
    return folds


def _check_one_vs_rest(model: OneVsRestClassifier) -> None:
    if _has(model, "estimators_"):
        k = len(model.classes_)
        _require(len(model.estimators_) == (1 if k <= 2 else k), "a model for each class")


# Steps of pipelines -------------------------------------------------------------------------------


def _check_steps(model: Pipeline) -> None:
    _check_named(model.steps, 2)
    model._validate_steps()


def _check_union(model: FeatureUnion) -> None:
    _check_named(model.transformer_list, 2)
    model._validate_transformers()


def _check_columns(model: ColumnTransformer) -> None:
    _check_named(model.transformers, 3)
    # Words with places for names may make names of any length.
    _require(isinstance(model.verbose_feature_names_out, bool), "names")
    if _has(model, "transformers_"):
        _check_named(model.transformers_, 3)
    else:
        model._validate_transformers()


def _check_named(steps: Any, length: int) -> None:
    fine = isinstance(steps, list) and all(
        isinstance(step, tuple) and len(step) == length and isinstance(step[0], str)
        for step in steps
    )
    _require(fine, "steps")


def _check_identity(step: FunctionTransformer) -> None:
    """A column transformer passes columns through by one without functions."""
    named = step.feature_names_out in (None, "one-to-one")
    nothing = step.func is None and step.inverse_func is None
    if not (named and nothing and not step.kw_args and not step.inv_kw_args):
        raise Unsound("a function")


def _check_words(step: HashingVectorizer) -> None:
    """Words are found by nothing that a file brings along, nor in files that rows may name."""
    _require(step.input == "content" and step.tokenizer is None, "a function")
    _require(step.preprocessor is None and step.analyzer in ("word", "char", "char_wb"), "analyzer")
    _require(step.strip_accents in (None, "ascii", "unicode"), "strip_accents")
    low, high = step.ngram_range
    _require(all(type(n) is int and 1 <= n <= _LONGEST_PHRASE for n in (low, high)), "ngram_range")
    stop = step.stop_words
    words = isinstance(stop, list) and all(isinstance(word, str) for word in stop)
    _require(words or stop in (None, "english"), "stop_words")
    pattern = step.token_pattern
    if pattern is not None and not _PATTERN.fullmatch(pattern):
        raise Unsound("token_pattern: expected one with at most one repetition, and no groups")


def _check_products(step: PolynomialFeatures) -> None:
    """As many columns as the degrees make, which are tried one after the other."""
    if not _has(step, "n_output_features_"):
        return
    low, high = step._min_degree, step._max_degree
    _require(0 <= low <= high <= _HIGHEST_DEGREE, "degree")
    counts = [
        step._num_combinations(step.n_features_in_, least, high, step.interaction_only, constant)
        for least, constant in ((low, step.include_bias), (0, step.include_bias))
    ]
    _require(counts == [step.n_output_features_, step._n_out_full], "columns of a polynomial")
    _require(max(counts) <= _MOST_PRODUCTS, f"more than {_MOST_PRODUCTS} columns of a polynomial")


# Online learners ----------------------------------------------------------------------------------


def _check_online(model: OnlineClassifier) -> None:
    state = vars(model).get("_state")
    if state is None:
        return
    classes, n = len(model.classes_), model.n_features_in_
    _require(isinstance(state, (OnlineState, KernelState, OnlineEllipsoidalState)), "state")
    _require(isinstance(model.multilabel_, bool), "labels")
    inner = state.inner if isinstance(state, KernelState) else state
    task = inner.task
    expected = {slots.SINGLE: 1, slots.RANK: classes + 1}.get(task, classes)
    _require(inner.n_outputs == expected, "a weight vector for each class")
    _require(task == model._task(), "task")
    if isinstance(state, KernelState):
        if state.dictionary is not None:
            _require(state.dictionary.shape[1] == n, "dictionary")
    else:
        _require(state.n_features == n, "features")
    vocabulary = vars(model).get("_vocabulary")
    if vocabulary is not None:
        # Columns that compiled code reads.
        places = list(vocabulary.values())
        _require(all(type(place) is int and 0 <= place < n for place in places), "vocabulary")


_CHECKS: tuple[tuple[Any, Callable[[Any], None]], ...] = (
    (Kernel, _check_kernel),
    (KernelExpansion, _check_expansion),
    ((EllipsoidalSVC, BayesPointClassifier), _check_map),
    (RelativeMarginPath, _check_path),
    (KernelizedRows, _check_kernel_rows),
    (PivotMap, _check_pivots),
    (MinimumVolumeEllipsoid, _check_ellipsoid),
    (
        (
            CalibratedMarginClassifier,
            RelativeMarginClassifierCV,
            MarginRegressorCV,
            FixedThresholdClassifier,
            OneVsOneClassifier,
            OneVsRestClassifier,
        ),
        _check_inside,
    ),
    (OneVsRestClassifier, _check_one_vs_rest),
    (Pipeline, _check_steps),
    (FeatureUnion, _check_union),
    (ColumnTransformer, _check_columns),
    (FunctionTransformer, _check_identity),
    (HashingVectorizer, _check_words),
    (PolynomialFeatures, _check_products),
    (OnlineState, check_state),
    (KernelState, check_kernel_state),
    (OnlineEllipsoidalState, check_ellipsoidal_state),
    (OnlineClassifier, _check_online),
)
