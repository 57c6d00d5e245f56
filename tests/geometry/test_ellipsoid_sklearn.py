"""MinimumVolumeEllipsoid in scikit-learn, in both of its roles."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone, is_outlier_detector
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import oblong.geometry.ellipsoid as module
from oblong import MinimumVolumeEllipsoid
from tests.geometry.test_ellipsoid import cloud


@parametrize_with_checks(
    [
        MinimumVolumeEllipsoid(),
        MinimumVolumeEllipsoid(coverage=0.9),
        MinimumVolumeEllipsoid(coverage=0.8, center=False),
        MinimumVolumeEllipsoid(E=0.05),
        MinimumVolumeEllipsoid(kernel="rbf", coverage=0.9),
        MinimumVolumeEllipsoid(coverage=0.9, warm_start=True),
    ]
)
def test_estimator_checks(estimator, check):
    check(estimator)


def test_signature_of_the_contract():
    defaults = MinimumVolumeEllipsoid().get_params()
    contract = {"coverage": 1.0, "E": None, "center": True, "kernel": None, "tol": 1e-6}
    assert {name: defaults[name] for name in contract} == contract
    assert {"max_iter", "rank", "gamma", "degree", "coef0", "warm_start"} <= set(defaults)


def test_roles():
    """The checks of an outlier detector run where some row can be one."""
    assert is_outlier_detector(MinimumVolumeEllipsoid(coverage=0.9))
    assert is_outlier_detector(MinimumVolumeEllipsoid(E=1.0))
    assert not is_outlier_detector(MinimumVolumeEllipsoid())
    X = cloud(100)
    np.testing.assert_array_equal(MinimumVolumeEllipsoid().fit_predict(X), 1)
    assert (MinimumVolumeEllipsoid(coverage=0.8).fit_predict(X) == -1).sum() in range(10, 21)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames(frame):
    X = cloud(40, 3)
    named = frame({name: X[:, j] for j, name in enumerate("abc")})
    model = MinimumVolumeEllipsoid().fit(named)
    np.testing.assert_allclose(model.mahalanobis(named), model.fit(X).mahalanobis(X))
    model.fit(named)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    names = [f"minimumvolumeellipsoid{j}" for j in range(3)]
    assert list(model.get_feature_names_out()) == names
    out = model.set_output(transform="pandas").transform(named)
    assert list(out.columns) == names
    with pytest.raises(ValueError, match="feature names"):
        model.transform(pd.DataFrame(X, columns=["c", "b", "a"]))


def test_in_a_pipeline():
    X, y = load_iris(return_X_y=True)
    X = X @ np.diag([1.0, 1e3, 1e-2, 1.0])
    whitened = make_pipeline(MinimumVolumeEllipsoid(), LogisticRegression(C=100.0))
    search = GridSearchCV(
        whitened, {"minimumvolumeellipsoid__coverage": [0.5, 0.9, 1.0]}, cv=3
    ).fit(X, y)
    assert search.best_score_ > 0.9
    outliers = make_pipeline(StandardScaler(), MinimumVolumeEllipsoid(coverage=0.9)).fit(X)
    assert set(outliers.predict(X)) == {-1, 1}


def test_saved_and_cloned():
    X = cloud(50)
    for kernel in (None, "rbf"):
        model = MinimumVolumeEllipsoid(coverage=0.8, kernel=kernel).fit(X)
        loaded = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(loaded.mahalanobis(X), model.mahalanobis(X))
        assert clone(model).get_params() == model.get_params()


def test_documented_attributes():
    """Every attribute of the docstring is there after a fit."""
    X = pd.DataFrame(cloud(40, 3), columns=list("abc"))
    model = MinimumVolumeEllipsoid().fit(X)
    doc = MinimumVolumeEllipsoid.__doc__
    part = doc[doc.index("Attributes\n") : doc.index("See Also")]
    names = [
        n for line in re.findall(r"^    (\w+_(?:, \w+_)*) :", part, re.M) for n in line.split(", ")
    ]
    assert {"center_", "shape_", "gap_", "volume_", "log_volume_", "coverage_"} <= set(names)
    for name in names:
        assert hasattr(model, name), name


# Input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"coverage": 1.1}, "coverage"),
        ({"coverage": -0.1}, "coverage"),
        ({"E": 0.0}, "E"),
        ({"kernel": "cosine"}, "kernel"),
        ({"rank": 0}, "rank"),
        ({"tol": 0.0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"center": "no"}, "center"),
    ],
)
def test_bad_parameters(params, name):
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        MinimumVolumeEllipsoid(**params).fit(cloud())


@pytest.mark.parametrize(
    ("X", "weight", "message"),
    [
        (np.ones((5, 2)), None, "same|distinct"),
        (np.array([[1.0, np.nan], [0.0, 1.0]]), None, "NaN"),
        (np.ones((1, 2)), None, "minimum of 2"),
        (cloud(4), [1, 1, -1, 1], "Negative values in sample_weight"),
        (cloud(4), [0, 0, 0, 0], r"[Ss]ample.weight.*zero"),
        (cloud(4), [0, 0, 1, 0], "same|distinct"),
        (cloud(4), [1, 1], "sample_weight.shape"),
    ],
)
def test_bad_rows_and_weights(X, weight, message):
    with pytest.raises(ValueError, match=message):
        MinimumVolumeEllipsoid().fit(X, sample_weight=weight)


def test_bad_points_of_the_ball():
    with pytest.raises(NotFittedError):
        MinimumVolumeEllipsoid().inverse_transform([[0.0, 0.0]])
    model = MinimumVolumeEllipsoid().fit(cloud(40, 3))
    with pytest.raises(ValueError, match="3 coordinates, got 2"):
        model.inverse_transform([[0.0, 0.0]])
    assert not hasattr(MinimumVolumeEllipsoid(), "shape_")


def test_limit_on_steps_warns_with_the_gap():
    with pytest.warns(ConvergenceWarning, match="gap reached is") as caught:
        model = MinimumVolumeEllipsoid(max_iter=1, tol=1e-12).fit(cloud(500, 6))
    assert not model.converged_
    assert model.gap_ > 1e-12
    assert caught[0].filename == __file__
    # Whatever the gap, at coverage one every row is inside.
    assert (model.predict(cloud(500, 6)) == 1).all()


def test_failed_fit_leaves_the_estimator_as_it_was(monkeypatch):
    X = cloud(50)
    model = MinimumVolumeEllipsoid().fit(X)
    before = model.mahalanobis(X)

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "solve_ellipsoid", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :2])
    np.testing.assert_array_equal(model.mahalanobis(X), before)


def test_progress(capsys):
    MinimumVolumeEllipsoid(verbose=1).fit(cloud(300, 5))
    assert "[oblong]" in capsys.readouterr().err
