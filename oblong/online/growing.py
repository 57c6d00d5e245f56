"""Linear models that grow: room for features and classes that are new."""

import math
from typing import Any

import numpy as np

from oblong._core.missing import check_present
from oblong.solvers.online.arrays import covariance_bytes
from oblong.solvers.online.growth import grow, insert_output, keep_diagonal, split
from oblong.solvers.online.slots import DIAGONAL, FULL, SKETCH
from oblong.solvers.online.state import OnlineState

# Most features of which covariance="auto" keeps a full matrix. At 256 it takes half a megabyte per
# class, and AROW five to seven times as long as with variances only (20 µs per row against 4 µs,
# for three classes); at 512 that is 13 to 16 times, at 1,024, beyond the caches, 46 to 62 times.
MOST_FULL = 256

STRUCTURES = {"full": FULL, "diag": DIAGONAL, "sketch": SKETCH}


def structure_of(covariance: str, n_features: int) -> int:
    """Structure of the covariance of so many features."""
    if covariance == "auto":
        return FULL if n_features <= MOST_FULL else DIAGONAL
    return STRUCTURES[covariance]


class TooLarge(ValueError):
    """A model of so many features would not fit in memory."""

    def __init__(self, n_features: int, message: str) -> None:
        super().__init__(message)
        self.n_features = n_features


def check_size(model: Any, structure: int, n_outputs: int, n_features: int) -> None:
    """Refuse a model that would not fit in memory."""
    width = 2 * getattr(model, "sketch_size", 0) + n_outputs
    table = 32.0 * n_outputs * n_features
    if table + covariance_bytes(structure, n_outputs, n_features, width) > model._most_bytes:
        covariance = getattr(model, "covariance", None)
        advice = {"full": '"sketch" or "diag"', "sketch": '"diag"'}.get(covariance or "")
        raise TooLarge(
            n_features,
            f"A model of {n_features} features and {n_outputs} classes does not fit in memory"
            + (f" with covariance={covariance!r}; use covariance={advice}." if advice else "."),
        )


def prepare(model: Any, state: OnlineState, n_features: int) -> None:
    """Prepare a state for more features, of which a covariance may keep its diagonal alone."""
    diagonal = state.structure == FULL and model._structure(n_features) == DIAGONAL
    check_size(model, DIAGONAL if diagonal else state.structure, state.n_outputs, n_features)
    if diagonal:
        keep_diagonal(state)


def add_features(model: Any, n_features: int) -> None:
    """Give a learner more columns, which were zero so far."""
    state = model._state
    prepare(model, state, n_features)
    grow(state, n_features)
    model.n_features_in_ = n_features
    # A rule may depend on the number of features.
    state.set_rule(model._rule(n_features))


def add_class(model: Any, label: Any) -> None:
    """Give a learner one more class; the classes stay sorted."""
    state, classes = model._state, with_label(model.classes_, label)
    check_size(model, state.structure, len(classes), state.n_features)
    if len(model.classes_) == 2:
        split(state, one_vs_rest=model.multi_class == "ovr", steps=model._steps())
    insert_output(state, classes.tolist().index(label))
    model.classes_ = classes


def with_label(classes: np.ndarray, label: Any) -> np.ndarray:
    """Classes with one more, sorted."""
    check_present([label])
    known = {*classes.tolist(), label}
    # Numbers among strings would become strings.
    mixed = len({isinstance(name, str) for name in known}) > 1
    if mixed:
        raise ValueError(f"{label!r} is not of the kind of the classes {classes.tolist()}")
    return np.unique(np.append(classes, [label]))


def checked(values: np.ndarray) -> np.ndarray:
    """Refuse a single example that no learner can learn from."""
    if not math.isfinite(values.dot(values)):
        raise ValueError("The example contains NaN, infinity or numbers that are too large")
    return values


def columns_of(
    vocabulary: dict[Any, int], x: dict[Any, Any], dtype: Any
) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    """Columns and values of the known features of a dict, and the names of the others."""
    n = len(x)
    values = checked(np.fromiter(x.values(), dtype=dtype, count=n))
    try:
        return np.fromiter(map(vocabulary.__getitem__, x), dtype=np.int32, count=n), values, []
    except KeyError:
        known = np.fromiter((name in vocabulary for name in x), dtype=bool, count=n)
        columns = np.array([vocabulary[k] for k in x if k in vocabulary], dtype=np.int32)
        return columns, values[known], [name for name in x if name not in vocabulary]
