"""Examples, labels and parameters that learners must refuse, or must not stumble over."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

from oblong import (
    AROWClassifier,
    ClassicalEllipsoidClassifier,
    ConfidenceWeightedClassifier,
    OnlineEllipsoidalSVC,
)
from tests.online.learners import clouds


def test_nothing_is_learned_from_an_example_that_is_refused():
    X, y = clouds(40)
    model = AROWClassifier()
    for row, label in zip(X, y.tolist()):
        model.learn_one(row, label)
    for x, label, weight, message in (
        (X[0] * np.nan, 9, 1.0, "NaN"),
        (X[0], 9, -1.0, "sample_weight"),
        (X[0, :2], 9, 1.0, "vector"),
        (X[0], "nine", 1.0, "not of the kind"),
    ):
        with pytest.raises(ValueError, match=message):
            model.learn_one(x, label, weight)
        assert model.classes_.tolist() == [0, 1]
        assert model.t_ == 40


@pytest.mark.parametrize("bad", [{"a": np.nan}, {"a": np.inf}, np.array([1.0, np.nan])])
def test_an_example_is_refused_before_there_are_two_classes(bad):
    good = {"a": 1.0} if isinstance(bad, dict) else np.ones(2)
    model = AROWClassifier()
    for label in (0, 0, 1):
        with pytest.raises(ValueError, match="NaN"):
            model.learn_one(bad, label)
        model.learn_one(good, label)
    assert model.t_ == 3


def test_labels_of_two_kinds():
    model = AROWClassifier().learn_one({"a": 1.0}, "x")
    with pytest.raises(ValueError, match="not of the kind"):
        model.learn_one({"a": 1.0}, 3)
    model.learn_one({"a": -1.0}, "longer").learn_one({"a": 0.0}, "the longest")
    assert model.classes_.tolist() == ["longer", "the longest", "x"]
    X, y = clouds(30, classes=3)
    model = AROWClassifier(allow_new_classes=True)
    model.partial_fit(X, (y > 0).astype(str), classes=["False", "True"])
    with pytest.raises(ValueError, match="not of the kind"):
        model.partial_fit(X, y)
    assert model.classes_.tolist() == ["False", "True"]


def test_parameters_are_checked_at_the_first_example():
    with pytest.raises(ValueError, match="'r' parameter"):
        AROWClassifier(r=-1.0).learn_one({"a": 1.0}, 0)


def test_classes_declared_later():
    X, y = clouds(60, classes=3)
    model = AROWClassifier(allow_new_classes=True)
    model.partial_fit(X, np.minimum(y, 1), classes=[0, 1])
    model.partial_fit(X, y, classes=[0, 1])
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.partial_fit(X, y, classes=[0, 1, 2, 5]).classes_.tolist() == [0, 1, 2, 5]
    with pytest.raises(ValueError, match="differ"):
        model.set_params(allow_new_classes=False).partial_fit(X, y, classes=[0, 1])


def test_a_batch_that_is_forgotten_leaves_nothing_behind():
    X, y = clouds(100, noise=0.5)
    model = ClassicalEllipsoidClassifier(on_infeasible="raise", gamma=0.5)
    with pytest.raises(ValueError, match="margin"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    assert not hasattr(model, "classes_")


def test_names_of_features_that_came_with_an_example():
    X, y = clouds(50, d=3)
    frame = pd.DataFrame(X, columns=list("abc"))
    model = AROWClassifier().fit(frame, y)
    model.learn_one({"a": 1.0, "new": 2.0}, 1)
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "new"]
    assert len(model.predict(frame.assign(new=0.0))) == 50
    model.learn_one({7: 1.0}, 1)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 5


def test_shapes_that_grow_too_large(monkeypatch):
    model = AROWClassifier()
    for label in (0, 1):
        model.learn_one({"a": 1.0, "b": float(label)}, label)
    monkeypatch.setattr(AROWClassifier, "_most_bytes", 8.0 * 5**2 + 32.0 * 4)
    model.learn_one({"c": 1.0, "d": 1.0}, 1)
    with pytest.raises(ValueError, match="fit in memory"):
        model.learn_one({"e": 1.0}, 1)
    assert model.n_features_in_ == 4
    assert model.learn_one({"d": 1.0}, 1).coef_.shape == (1, 4)


@pytest.mark.parametrize("covariance", ["full", "diag", "sketch"])
def test_predictions_far_out(covariance):
    X, y = clouds(60, d=3, classes=3)
    model = AROWClassifier(covariance=covariance, random_state=0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for method in (model.predict, model.predict_proba, model.margin_variance):
            with pytest.raises(ValueError, match="1e\\+150"):
                method(X * 1e200)
        far = (X * 1e25).astype(np.float32)
        expected = model.predict_proba(far.astype(np.float64))
        np.testing.assert_allclose(model.predict_proba(far), expected, atol=1e-5)


@pytest.mark.parametrize("unit", [1e-100, 1e100])
def test_rows_beyond_single_precision_are_shuffled(unit):
    X, y = clouds(80)
    options = {"early_stopping": True, "random_state": 0, "max_iter": 2, "fit_intercept": False}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = AROWClassifier(r=unit**2, **options).fit(X * unit, y)
    near = AROWClassifier(**options).fit(X, y)
    assert model.score(X * unit, y) > 0.7
    assert near.score(X, y) > 0.7


def test_a_shape_that_is_gone_is_told():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 12))
    y = rng.integers(0, 3, 60)
    X = X[:, :1] / np.linalg.norm(X, axis=1, keepdims=True)
    model = ConfidenceWeightedClassifier()
    with pytest.warns(ConvergenceWarning, match="separable"):
        model.partial_fit(np.tile(X, (10, 1)), np.tile(y, 10), classes=[0, 1, 2])
    assert model.n_skipped_ > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(X, y)
        # Rows of zeros without an intercept are no sign of that.
        clone(model).set_params(fit_intercept=False).partial_fit(
            np.zeros((3, 1)), [0, 1, 2], classes=[0, 1, 2]
        )


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (AROWClassifier, {"forgetting": 1e-300}),
        (AROWClassifier, {"r": 10**400}),
        (AROWClassifier, {"sketch_size": 2**70}),
        (OnlineEllipsoidalSVC, {"trace_bound": 1e-300}),
        (OnlineEllipsoidalSVC, {"trace_bound": 1e300}),
        (OnlineEllipsoidalSVC, {"batch_size": 2**70}),
    ],
)
def test_fit__parameters_beyond_what_numbers_can_be_are_refused(kind, parameters):
    X, y = clouds(40)
    with pytest.raises(ValueError, match=f"'{next(iter(parameters))}' parameter"):
        kind(**parameters).fit(X, y)


@pytest.mark.parametrize("bound", [1e-100, 1e10])
def test_online_ellipsoidal_svc__bounds_of_any_size_give_numbers(bound):
    X, y = clouds(40)
    model = OnlineEllipsoidalSVC(trace_bound=bound, max_iter=5, tol=None).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("covariance", ["full", "diag", "sketch"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_forgetting__nearly_all_leaves_numbers(covariance, scale):
    X, y = clouds(60)
    model = AROWClassifier(covariance=covariance, forgetting=1e-6).fit(scale * X, y)
    assert np.isfinite(model.decision_function(scale * X)).all()
