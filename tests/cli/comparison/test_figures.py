from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from oblong import RelativeMarginClassifier
from oblong.cli.comparison.figures import draw_boundaries
from oblong.datasets import make_tilted_gaussians

X, Y = make_tilted_gaussians(60, random_state=0)
NAMES = {"class_names": ["far", "near"], "axis_labels": ("u", "v")}


@pytest.fixture
def ax():
    return Figure().add_subplot()


def contours(ax):
    return [c for c in ax.collections if hasattr(c, "levels")]


def lines(ax):
    """Vertices of all contours drawn."""
    return np.concatenate([path.vertices for c in contours(ax) for path in c.get_paths()])


def test_draw_boundaries__the_line_is_the_boundary(ax):
    svm = SVC(kernel="linear").fit(X, Y)
    draw_boundaries(ax, {"SVM": svm}, X, Y, **NAMES)
    assert np.abs(svm.decision_function(lines(ax))).max() < 0.05


def test_draw_boundaries__names_models_classes_and_axes(ax):
    models = {
        "SVM": SVC(kernel="linear").fit(X, Y),
        "RMM": RelativeMarginClassifier(kernel="linear").fit(X, Y),
    }
    draw_boundaries(ax, models, X, Y, **NAMES)
    assert ax.get_legend_handles_labels()[1] == ["far", "near", "SVM", "RMM"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("u", "v")
    assert len(contours(ax)) == 2


def test_draw_boundaries__several_classes(ax):
    X3, y3 = load_iris(return_X_y=True)
    model = KNeighborsClassifier().fit(X3[:, :2], y3)
    names = {"class_names": "abc", "axis_labels": ("u", "v")}
    draw_boundaries(ax, {"neighbours": model}, X3[:, :2], y3, **names)
    assert len(contours(ax)) == 2


def test_draw_boundaries__without_a_decision_function(ax):
    model = GaussianNB().fit(X, Y)
    draw_boundaries(ax, {"it": model}, X, Y, **NAMES)
    cell = 1.12 * np.ptp(X, axis=0) / 199
    shifts = cell * np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    around = np.array([model.predict(lines(ax) + shift) for shift in shifts])
    assert (np.ptp(around, axis=0) == 1).all()


def test_draw_boundaries__leaves_out_what_is_outside_the_picture(ax):
    model = SVC(kernel="linear").fit([[0.0, 0.0], [500.0, 500.0]], [0, 1])
    draw_boundaries(ax, {"SVM": model}, X, Y, **NAMES)
    assert not contours(ax)
