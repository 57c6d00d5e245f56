from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.base import BaseEstimator
from sklearn.datasets import make_classification
from sklearn.svm import LinearSVC

from oblong import CalibratedMarginClassifier
from oblong.display import ReliabilityDisplay

X, Y = make_classification(400, 5, n_informative=4, n_redundant=0, flip_y=0.1, random_state=0)
THREE = np.digitize(X[:, 0], [-1.0, 1.0])


@pytest.fixture
def ax():
    return Figure().add_subplot()


class Known(BaseEstimator):
    """A classifier whose probabilities are given."""

    classes_ = np.array(["no", "yes"])

    def __init__(self, p):
        self.p = p

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict_proba(self, X):
        return np.column_stack([1 - self.p, self.p])


def test_frequencies_are_counted(ax):
    y = np.array(["no", "no", "yes", "no", "yes", "yes"])
    model = Known(np.array([0.1, 0.2, 0.3, 0.6, 0.8, 0.9]))
    display = ReliabilityDisplay.from_estimator({"it": model}, np.zeros((6, 1)), y, n_bins=2, ax=ax)
    np.testing.assert_allclose(display.predicted["it"], [0.2, 2.3 / 3])
    np.testing.assert_allclose(display.observed["it"], [1 / 3, 2 / 3])
    assert ax.get_xlabel() == "predicted probability of yes"
    other = ReliabilityDisplay.from_estimator(model, np.zeros((6, 1)), y, label="no", n_bins=1)
    np.testing.assert_allclose(other.observed["Known"], [0.5])


def test_intervals_hold_the_frequencies(ax):
    model = CalibratedMarginClassifier().fit(X[:200], THREE[:200])
    display = ReliabilityDisplay.from_estimator(model, X[200:], THREE[200:], ax=ax)
    (observed,) = display.observed.values()
    segments = ax.collections[0].get_segments()
    for (low, high), frequency in zip(((s[0, 1], s[1, 1]) for s in segments), observed):
        assert 0 <= low <= frequency <= high <= 1
        assert high - low < 1
    assert sum(display.counts["CalibratedMarginClassifier"]) == 600


def test_what_cannot_be_shown_is_a_clear_error(ax):
    with pytest.raises(TypeError, match="no predict_proba"):
        ReliabilityDisplay.from_estimator(LinearSVC().fit(X, Y), X, Y, ax=ax)
    model = CalibratedMarginClassifier().fit(X, Y)
    with pytest.raises(ValueError, match="one of the classes"):
        ReliabilityDisplay.from_estimator(model, X, Y, label=7, ax=ax)
    with pytest.raises(ValueError, match="n_bins"):
        ReliabilityDisplay.from_estimator(model, X, Y, n_bins=0, ax=ax)
