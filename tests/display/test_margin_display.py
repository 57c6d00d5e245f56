from __future__ import annotations

import itertools
import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from oblong import RelativeMarginClassifier
from oblong.datasets import make_tilted_gaussians
from oblong.display import MarginDisplay

X, Y = make_tilted_gaussians(60, stretch=2.0, random_state=0)
LABELS = np.where(Y == 1, "near", "far")


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_outputs_are_positive_where_right(ax):
    svm = make_pipeline(StandardScaler(), SVC(kernel="linear", C=0.1)).fit(X, LABELS)
    display = MarginDisplay.from_estimator(svm, X, LABELS, ax=ax)
    margins = display.margins["SVC"]
    np.testing.assert_array_equal(margins > 0, svm.predict(X) == LABELS)
    assert display.bounds == {}
    assert display.ax_ is ax


def test_the_bound_is_marked_and_holds(ax):
    models = {
        "SVM": SVC(kernel="linear").fit(X, LABELS),
        "RMM": RelativeMarginClassifier(kernel="linear", spread=0.3, tol=1e-6).fit(X, LABELS),
    }
    display = MarginDisplay.from_estimator(models, X, LABELS, ax=ax)
    assert list(display.bounds) == ["RMM"]
    assert np.abs(display.margins["RMM"]).max() <= display.bounds["RMM"] * (1 + 1e-5)
    assert f"B = {display.bounds['RMM']:.3g}" in [text.get_text() for text in ax.texts]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["SVM", "RMM"]


@pytest.mark.parametrize("frame", [False, True])
def test_pairs_of_several_classes(ax, frame):
    X3, y3 = load_iris(return_X_y=True, as_frame=frame)
    svm = SVC(C=1.0).fit(X3, y3)
    rmm = RelativeMarginClassifier(C=1.0, spread=0.5, tol=1e-6).fit(X3, y3)
    plain = RelativeMarginClassifier(C=1.0, spread=1.0, tol=1e-6).fit(X3, y3)
    for pair in itertools.permutations(range(3), 2):
        models = {"svm": svm, "plain": plain, "rmm": rmm}
        display = MarginDisplay.from_estimator(models, X3, y3, pair=pair, ax=ax)
        assert len(display.margins["svm"]) == 100
        assert (display.margins["svm"] > 0).mean() > 0.9
        np.testing.assert_allclose(display.margins["plain"], display.margins["svm"], atol=5e-3)
        largest = np.abs(display.margins["rmm"]).max()
        assert largest == pytest.approx(display.bounds["rmm"], rel=1e-4)
    assert svm.decision_function_shape == "ovr"


@pytest.mark.parametrize("pair", [(0, 7), (1, 1)])
def test_a_pair_is_two_of_the_classes(ax, pair):
    X3, y3 = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"two of the classes \[0, 1, 2\]"):
        MarginDisplay.from_estimator(SVC().fit(X3, y3), X3, y3, pair=pair, ax=ax)


def test_labels_that_do_not_belong_to_the_classifier(ax):
    svm = SVC().fit(X, LABELS)
    with pytest.raises(ValueError, match="not among the classes"):
        MarginDisplay.from_estimator(svm, X, Y, ax=ax)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        MarginDisplay.from_estimator(svm, X, LABELS[:-1], ax=ax)
    X3, y3 = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="no rows of the classes 0 and 1"):
        MarginDisplay.from_estimator(SVC().fit(X3, y3), X3[100:], y3[100:], ax=ax)


def test_unfitted_and_empty(ax):
    with pytest.raises(NotFittedError):
        MarginDisplay.from_estimator(SVC(), X, Y, ax=ax)
    with pytest.raises(ValueError, match="at least one fitted classifier"):
        MarginDisplay.from_estimator({}, X, Y, ax=ax)


def test_without_matplotlib(monkeypatch):
    display = MarginDisplay(margins={"a": np.array([0.5, 1.5])})
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "oblong\[plot\]"'):
        display.plot()


def test_named_columns_raise_no_warning(ax, recwarn):
    frame = pd.DataFrame(X, columns=["u", "v"])
    MarginDisplay.from_estimator(SVC().fit(frame, Y), frame, Y, ax=ax)
    assert not [w for w in recwarn if "feature names" in str(w.message)]
