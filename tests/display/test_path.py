from __future__ import annotations

import sys

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from oblong import RelativeMarginClassifier, RelativeMarginClassifierCV, relative_margin_path
from oblong.datasets import make_tilted_gaussians
from oblong.display import PathDisplay

X, Y = make_tilted_gaussians(80, stretch=3.0, random_state=0)
X_TEST, Y_TEST = make_tilted_gaussians(80, stretch=3.0, random_state=1)


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_errors_of_a_path_are_those_of_the_classifiers(ax):
    options = {"kernel": "linear", "C": 10.0, "tol": 1e-6}
    path = relative_margin_path(X, Y, spreads=(0.1, 1.0, 0.5), **options)
    display = PathDisplay.from_path(path, X_TEST, Y_TEST, ax=ax)
    assert list(display.spreads) == [1.0, 0.5, 0.1]
    for spread, error, margin in zip(display.spreads, display.errors, display.relative_margins):
        machine = RelativeMarginClassifier(spread=spread, **options).fit(X, Y)
        assert error == pytest.approx(1.0 - machine.score(X_TEST, Y_TEST))
        assert margin == pytest.approx(machine.relative_margin_[0], rel=1e-4)
    assert display.ax_ is ax
    np.testing.assert_allclose(ax.lines[0].get_ydata(), display.errors)
    np.testing.assert_allclose(display.margin_ax_.lines[0].get_ydata(), display.relative_margins)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "0.5", "0.1"]


@pytest.mark.parametrize("pipeline", [False, True])
def test_cross_validated_path_at_the_best_penalty(ax, pipeline):
    model = RelativeMarginClassifierCV(Cs=(0.1, 10.0), gammas=(0.1, "scale"), cv=3)
    if pipeline:
        model = make_pipeline(StandardScaler(), model)
    model.fit(X, Y)
    final = model[-1] if pipeline else model
    display = PathDisplay.from_estimator(model, ax=ax)
    assert list(display.spreads) == sorted(final.spreads, reverse=True)
    at = list(display.spreads).index(final.spread_)
    assert display.errors[at] == pytest.approx(1.0 - final.best_score_)
    assert display.errors.min() == pytest.approx(display.errors[at])
    assert display.deviations[at] == final.cv_results_["std_test_score"][final.best_index_]
    assert display.chosen == final.spread_
    ring = ax.lines[-1].get_xydata()
    np.testing.assert_allclose(ring, [[at, display.errors[at]]])


def test_other_estimators_are_refused(ax):
    with pytest.raises(TypeError, match="expected a RelativeMarginClassifierCV, got SVC"):
        PathDisplay.from_estimator(SVC().fit(X, Y), ax=ax)
    with pytest.raises(NotFittedError):
        PathDisplay.from_estimator(RelativeMarginClassifierCV(), ax=ax)


def test_new_figure_by_default():
    display = PathDisplay(
        spreads=np.array([1.0, 0.0]),
        errors=np.array([0.2, 0.1]),
        relative_margins=np.array([0.3, 1.0]),
    )
    assert isinstance(display.plot().figure_, Figure)
    low, high = display.margin_ax_.get_ylim()
    assert low == 0.0
    assert high >= 1.0
    from matplotlib import pyplot

    pyplot.close(display.figure_)


def test_without_matplotlib(monkeypatch):
    display = PathDisplay(
        spreads=np.array([1.0]), errors=np.array([0.2]), relative_margins=np.array([0.3])
    )
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "oblong\[plot\]"'):
        display.plot()
