from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

import oblong
import oblong.svm
from oblong.online._base import OnlineClassifier

SUPERVISED = [
    kind
    for module in (oblong, oblong.svm)
    for kind in (getattr(module, name) for name in module.__all__)
    if inspect.isclass(kind) and issubclass(kind, BaseEstimator)
    and kind is not oblong.MinimumVolumeEllipsoid
]  # fmt: skip
X = np.random.default_rng(0).normal(size=(20, 3))
TARGETS = {
    "words": np.where(X[:, 0] > 0, "yes", "no").astype(object),
    "truth values": (X[:, 0] > 0).astype(object),
    "numbers": (X[:, 0] > 0).astype(int).astype(object),
}


@pytest.mark.parametrize("kind", SUPERVISED)
@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
@pytest.mark.parametrize("what", TARGETS)
def test_fit__names_the_row_whose_target_is_missing(kind, missing, what):
    y = TARGETS[what].copy()
    y[7] = missing
    model = kind()
    for given in (y, list(y), pd.Series(y)):
        with pytest.raises(ValueError, match=r"y has a missing value, .*, in row 7"):
            model.fit(X, given)
    assert vars(model) == vars(kind())


@pytest.mark.parametrize("kind", [k for k in SUPERVISED if issubclass(k, OnlineClassifier)])
def test_partial_fit__names_the_row_whose_label_is_missing(kind):
    y = TARGETS["words"].copy()
    model = kind().partial_fit(X, y, classes=["no", "yes"])
    before = model.decision_function(X)
    y[7] = None
    with pytest.raises(ValueError, match="y has a missing value, None, in row 7"):
        model.partial_fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), before)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_learn_one__refuses_a_label_that_is_missing(missing):
    model = oblong.AROWClassifier()
    for label in (missing, "a", missing, "b", missing):
        if isinstance(label, str):
            model.learn_one(X[0], label)
            continue
        with pytest.raises(ValueError, match="y has a missing value"):
            model.learn_one(X[0], label)
    assert model.classes_.tolist() == ["a", "b"]


def test_validated_rows__arrays_on_a_device_are_an_error_that_says_so():
    class OnDevice(np.ndarray):
        is_cuda = True

    X, y = np.eye(4).view(OnDevice), [0, 1, 0, 1]
    with pytest.raises(TypeError, match=r"on a CUDA device.*X\.cpu\(\)\.numpy\(\)"):
        oblong.RelativeMarginClassifier().fit(X, y)
