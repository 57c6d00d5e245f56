from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.figure import Figure
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from oblong import EllipsoidalKernelClassifier, MinimumVolumeEllipsoid
from oblong.datasets import make_tilted_gaussians
from oblong.display import EllipsoidDisplay

X, Y = make_tilted_gaussians(60, random_state=0)


class WithEllipsoid(BaseEstimator):
    """A classifier as far as the display is concerned."""

    def fit(self, X, y):
        self.ellipsoid_ = MinimumVolumeEllipsoid(coverage=0.9).fit(X)
        return self


@pytest.fixture
def ax():
    return Figure().add_subplot()


def drawn(display, name="MinimumVolumeEllipsoid"):
    """Vertices of all lines of one ellipsoid, as they are on the axes."""
    lines = [line.get_xydata() for line in display.ax_.lines if len(line.get_xydata()) > 1]
    curves = display.curves[name]
    assert len(lines) == sum(map(len, display.curves.values()))
    for curve in curves:
        assert any(np.array_equal(curve, line) for line in lines)
    return np.concatenate(curves)


@pytest.mark.parametrize("coverage", [1.0, 0.8])
def test_the_line_drawn_is_the_boundary(ax, coverage):
    model = MinimumVolumeEllipsoid(coverage=coverage).fit(X)
    display = EllipsoidDisplay.from_estimator(model, X, ax=ax)
    corners = drawn(display)
    np.testing.assert_allclose(model.mahalanobis(corners), 1.0)
    np.testing.assert_allclose(corners[0], corners[-1])
    np.testing.assert_allclose(corners[:-1].mean(axis=0), model.center_)
    assert len(ax.collections[0].get_offsets()) == 60


def test_several_ellipsoids_and_labels(ax):
    models = {f"{c:g}": MinimumVolumeEllipsoid(coverage=c).fit(X) for c in (1.0, 0.8)}
    display = EllipsoidDisplay.from_estimator(
        models, X, Y, class_names=["far", "near"], axis_labels=("u", "v"), ax=ax
    )
    assert ax.get_legend_handles_labels()[1] == ["far", "near", "1", "0.8"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("u", "v")
    assert len(drawn(display, "0.8")) > 100
    assert ax.get_legend() is not None


def test_a_classifier_with_an_ellipsoid(ax):
    model = WithEllipsoid().fit(X, Y)
    display = EllipsoidDisplay.from_estimator(model, X, Y, ax=ax)
    np.testing.assert_allclose(model.ellipsoid_.mahalanobis(drawn(display, "WithEllipsoid")), 1.0)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_contour_of_a_kernel_form(ax, kernel):
    model = MinimumVolumeEllipsoid(kernel=kernel, coverage=0.9, rank=3, degree=2, coef0=1).fit(X)
    display = EllipsoidDisplay.from_estimator(model, X, ax=ax)
    squares = model.mahalanobis(drawn(display))
    assert np.abs(squares - 1).max() < 0.05
    assert not display.centers


def test_a_pipeline_is_drawn_in_its_own_input(ax):
    scale = np.array([1.0, 1e4])
    pipeline = make_pipeline(StandardScaler(), MinimumVolumeEllipsoid()).fit(X * scale)
    display = EllipsoidDisplay.from_estimator(pipeline, X * scale, ax=ax)
    # The ellipsoid is the same with and without the scaling.
    direct = MinimumVolumeEllipsoid().fit(X * scale)
    np.testing.assert_allclose(direct.mahalanobis(drawn(display)), 1.0, atol=0.02)
    alone = make_pipeline(MinimumVolumeEllipsoid()).fit(X)
    EllipsoidDisplay.from_estimator(alone, X, ax=ax)


def test_a_flat_ellipsoid_is_a_segment(ax):
    line = np.outer([0.0, 1.0, 4.0], [1.0, 2.0])
    model = MinimumVolumeEllipsoid().fit(line)
    corners = drawn(EllipsoidDisplay.from_estimator(model, line, ax=ax))
    np.testing.assert_allclose(np.sort(corners, axis=0), [[0, 0], [4, 8]], atol=1e-6)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_frames_name_the_axes(ax, frame, kernel, recwarn):
    named = frame({"u": X[:, 0], "v": X[:, 1]})
    model = MinimumVolumeEllipsoid(kernel=kernel).fit(named)
    EllipsoidDisplay.from_estimator(model, named, grid_resolution=30, ax=ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("u", "v")
    assert not [w for w in recwarn if "feature names" in str(w.message)]


def test_bad_input(ax, monkeypatch):
    model = MinimumVolumeEllipsoid().fit(X)
    with pytest.raises(ValueError, match=r"2 features, got the shape \(60, 1\)"):
        EllipsoidDisplay.from_estimator(model, X[:, :1], ax=ax)
    with pytest.raises(ValueError, match="expected 2 class names, got 1"):
        EllipsoidDisplay.from_estimator(model, X, Y, class_names=["a"], ax=ax)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        EllipsoidDisplay.from_estimator(model, X, Y[:-1], ax=ax)
    plain = EllipsoidalKernelClassifier(kernel="linear", shape="none").fit(X, Y)
    with pytest.raises(ValueError, match='no ellipsoid: it has shape="none"'):
        EllipsoidDisplay.from_estimator(plain, X, ax=ax)
    with pytest.raises(NotFittedError):
        EllipsoidDisplay.from_estimator(MinimumVolumeEllipsoid(), X, ax=ax)
    with pytest.raises(TypeError, match="or a classifier with an ellipsoid_, got SVC"):
        EllipsoidDisplay.from_estimator(SVC().fit(X, Y), X, ax=ax)
    wide = MinimumVolumeEllipsoid().fit(np.column_stack([X, X[:, :1] ** 2]))
    with pytest.raises(ValueError, match="2 features, got one of 3"):
        EllipsoidDisplay.from_estimator(wide, X, ax=ax)
    given = MinimumVolumeEllipsoid(kernel="precomputed", rank=2).fit(X @ X.T)
    with pytest.raises(ValueError, match="precomputed"):
        EllipsoidDisplay.from_estimator(given, X, ax=ax)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "oblong\[plot\]"'):
        EllipsoidDisplay.from_estimator(model, X)
