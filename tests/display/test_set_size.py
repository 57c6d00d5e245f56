from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import make_classification
from sklearn.svm import LinearSVC

from oblong import CalibratedMarginClassifier
from oblong.display import SetSizeDisplay

X, _ = make_classification(400, 5, n_informative=4, n_redundant=0, random_state=0)
Y = np.digitize(X[:, 0], [-1.0, 1.0])


@pytest.fixture(scope="module")
def model():
    return CalibratedMarginClassifier().fit(X[:200], Y[:200])


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_sizes_and_coverage_are_counted(model, ax):
    display = SetSizeDisplay.from_estimator(model, X[200:], Y[200:], confidences=[0.9, 0.5], ax=ax)
    np.testing.assert_array_equal(display.confidences, [0.5, 0.9])
    for place, confidence in enumerate((0.5, 0.9)):
        sets = model.predict_set(X[200:], confidence=confidence)
        counts = np.bincount(sets.sum(axis=1), minlength=4)
        np.testing.assert_allclose(display.shares[place], counts / 200)
        for cls in range(3):
            own = Y[200:] == cls
            assert display.coverage[place, cls] == sets[own, cls].mean()


def test_sets_grow_with_the_confidence(model, ax):
    display = SetSizeDisplay.from_estimator(model, X[200:], Y[200:], ax=ax)
    np.testing.assert_allclose(display.shares.sum(axis=1), 1.0)
    mean_size = display.shares @ np.arange(4)
    assert (np.diff(mean_size) >= 0).all()
    assert mean_size[-1] > mean_size[0]
    assert (np.diff(display.coverage, axis=0) >= 0).all()


def test_what_is_drawn(model, ax):
    display = SetSizeDisplay.from_estimator(model, X[200:], Y[200:], confidences=[0.5, 0.9], ax=ax)
    assert display.ax_ is ax
    # One area for each size, the diagonal, and one line for each class.
    assert len(ax.collections) == 4
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [0.5, 0.9])
    for line, coverage in zip(ax.lines[1:], display.coverage.T, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), coverage)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert {"empty", "1 class", "2 classes", "3 classes"} <= set(texts)


def test_without_labels_there_is_no_coverage(model, ax):
    display = SetSizeDisplay.from_estimator(model, X[200:], ax=ax)
    assert display.coverage is None
    assert not ax.lines


def test_a_class_without_rows_has_no_coverage(model, ax):
    rows = 200 + np.flatnonzero(Y[200:] != 2)
    display = SetSizeDisplay.from_estimator(model, X[rows], Y[rows], confidences=[0.9], ax=ax)
    assert np.isnan(display.coverage[0]).tolist() == [False, False, True]


def test_what_cannot_be_shown_is_a_clear_error(model, ax):
    with pytest.raises(TypeError, match="no predict_set"):
        SetSizeDisplay.from_estimator(LinearSVC().fit(X, Y), X, ax=ax)
    with pytest.raises(ValueError, match="confidence must lie between 0 and 1"):
        SetSizeDisplay.from_estimator(model, X, confidences=[0.5, 1.0], ax=ax)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        SetSizeDisplay.from_estimator(model, X, Y[:10], ax=ax)
