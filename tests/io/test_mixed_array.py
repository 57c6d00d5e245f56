"""Tables of numbers and words next to arrays of objects."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from oblong.io.mixed_array import MixedArray


def mixed(n=60):
    rng = np.random.default_rng(0)
    words = ["red", "green", "blue"]
    codes = [rng.integers(-1, 3, n), rng.integers(0, 3, n)]
    return MixedArray(rng.normal(size=(n, 2)), codes, [words, words], [1, 3])


@pytest.mark.parametrize(
    "key",
    [
        (slice(None), 0),
        (slice(None), 3),
        (slice(None), [0, 2]),
        (slice(None), [2, 0]),
        (slice(None), [1, 3]),
        (slice(None), slice(1, 3)),
        (slice(None), np.array([True, False, True, True])),
        (slice(3, 9), [3, 0]),
        (5, [0, 1]),
        5,
        slice(2, 7),
        np.array([4, 1]),
        (np.array([4, 1]), Ellipsis),
    ],
)
def test_mixed_arrays_are_indexed_as_arrays(key):
    X = mixed()
    whole = np.asarray(X)
    assert whole.dtype == object
    assert whole.shape == X.shape == (len(X), 4)
    assert np.asarray(X[key]).tolist() == whole[key].tolist()


def test_mixed_arrays_give_floats_without_a_copy():
    X = mixed()
    assert X[:, [0, 2]].dtype == np.float64
    assert np.shares_memory(X[:, [0, 2]], X[:, 0])
    with pytest.raises(ValueError, match="a copy is needed"):
        X.__array__(copy=False)


def test_mixed_arrays_in_pipelines():
    X = mixed()
    y = (X[:, 0] + (X[:, 1] == "red") > 0).astype(int)
    encoder = OneHotEncoder(handle_unknown="ignore")
    parts = [("numbers", StandardScaler(), [0, 2]), ("text", encoder, [1, 3])]
    pipeline = make_pipeline(ColumnTransformer(parts), LogisticRegression())
    grid = {"logisticregression__C": [0.1, 1.0]}
    one = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    other = GridSearchCV(pipeline, grid, cv=3).fit(np.asarray(X), y)
    assert one.best_score_ == other.best_score_
    found, expected = one.decision_function(X), other.decision_function(np.asarray(X))
    np.testing.assert_allclose(found, expected, rtol=1e-10)
