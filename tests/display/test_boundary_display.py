from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from oblong import RelativeMarginClassifier
from oblong.datasets import make_tilted_gaussians
from oblong.display import BoundaryDisplay

X, Y = make_tilted_gaussians(60, random_state=0)


@pytest.fixture
def ax():
    return Figure().add_subplot()


def lines(ax):
    """Vertices of all contours drawn."""
    paths = [p.vertices for c in ax.collections for p in c.get_paths() if hasattr(c, "levels")]
    return np.concatenate(paths)


def test_the_line_drawn_is_the_boundary(ax):
    svm = SVC(kernel="linear").fit(X, Y)
    BoundaryDisplay.from_estimator(svm, X, Y, ax=ax)
    assert np.abs(svm.decision_function(lines(ax))).max() < 0.05


def test_several_models_and_class_names(ax):
    models = {
        "SVM": SVC(kernel="linear").fit(X, Y),
        "RMM": RelativeMarginClassifier(kernel="linear").fit(X, Y),
    }
    display = BoundaryDisplay.from_estimator(
        models, X, Y, class_names=["far", "near"], axis_labels=("u", "v"), ax=ax
    )
    assert display.ax_.get_legend_handles_labels()[1] == ["far", "near", "SVM", "RMM"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("u", "v")
    assert sum(hasattr(c, "levels") for c in ax.collections) == 2


def test_several_classes(ax):
    X3, y3 = load_iris(return_X_y=True)
    model = KNeighborsClassifier().fit(X3[:, :2], y3)
    display = BoundaryDisplay.from_estimator(model, X3[:, :2], y3, grid_resolution=40, ax=ax)
    assert len(display.responses["KNeighborsClassifier"]) == 2
    assert len(lines(ax)) > 0


def test_a_classifier_without_decision_function(ax):
    model = GaussianNB().fit(X, Y)
    display = BoundaryDisplay.from_estimator(model, X, Y, grid_resolution=80, ax=ax)
    cell = np.array([np.diff(display.xx0[0])[0], np.diff(display.xx1[:, 0])[0]])
    shifts = cell * np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    around = np.array([model.predict(lines(ax) + shift) for shift in shifts])
    assert (np.ptp(around, axis=0) == 1).all()


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_name_the_axes(ax, frame, recwarn):
    named = frame({"u": X[:, 0], "v": X[:, 1]})
    BoundaryDisplay.from_estimator(SVC().fit(named, Y), named, Y, grid_resolution=20, ax=ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("u", "v")
    assert not [w for w in recwarn if "feature names" in str(w.message)]


def test_a_boundary_outside_the_picture_is_left_out(ax):
    model = SVC(kernel="linear").fit([[0.0, 0.0], [500.0, 500.0]], [0, 1])
    BoundaryDisplay.from_estimator(model, X, Y, grid_resolution=20, ax=ax)
    assert not any(hasattr(c, "levels") for c in ax.collections)


def test_bad_input(ax, monkeypatch):
    svm = SVC().fit(X, Y)
    with pytest.raises(ValueError, match=r"2 features, got the shape \(60, 1\)"):
        BoundaryDisplay.from_estimator(svm, X[:, :1], Y, ax=ax)
    with pytest.raises(ValueError, match="expected 2 class names, got 1"):
        BoundaryDisplay.from_estimator(svm, X, Y, class_names=["a"], ax=ax)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        BoundaryDisplay.from_estimator(svm, X, Y[:-1], ax=ax)
    with pytest.raises(NotFittedError):
        BoundaryDisplay.from_estimator(SVC(), X, Y, ax=ax)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "oblong\[plot\]"'):
        BoundaryDisplay.from_estimator(svm, X, Y)
