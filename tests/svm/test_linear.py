"""LinearSVC against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from oblong.svm import LinearSVC


def problem(n_classes):
    X, y = load_breast_cancer(return_X_y=True) if n_classes == 2 else load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def objectives(model, X, y, C, sample_weight):
    """Objectives of the binary problems of scikit-learn, by the textbook formula."""
    k = len(model.classes_)
    factors = dict.fromkeys(model.classes_, 1.0)
    factors.update(model.class_weight or {})
    values = []
    for j, w in enumerate(model.coef_):
        positive = model.classes_[1 if k == 2 else j]
        rest = factors[model.classes_[0]] if k == 2 else 1.0
        bias = np.atleast_1d(model.intercept_)[j] if model.fit_intercept else 0.0
        signs = np.where(y == positive, 1.0, -1.0)
        loss = np.maximum(1.0 - signs * (X @ w + bias), 0.0)
        if model.loss == "squared_hinge":
            loss = loss**2
        penalties = C * sample_weight * np.where(y == positive, factors[positive], rest)
        norm = w @ w + (bias / model.intercept_scaling) ** 2
        values.append(0.5 * norm + penalties @ loss)
    return np.array(values)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"fit_intercept": False}, {"intercept_scaling": 10.0, "C": 0.1}, {"class_weight": {0: 5}}],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_results_of_scikit_learn(n_classes, loss, settings, weighted):
    X, y = problem(n_classes)
    weights = np.random.default_rng(0).uniform(0.0, 2.0, len(y)) if weighted else np.ones(len(y))
    settings = {"loss": loss, "tol": 1e-7, **settings}
    ours = LinearSVC(**settings, max_iter=10**5).fit(X, y, sample_weight=weights)
    theirs = sklearn.svm.LinearSVC(**settings, max_iter=10**6).fit(X, y, sample_weight=weights)
    C = settings.get("C", 1.0)
    mine, reference = (objectives(model, X, y, C, weights) for model in (ours, theirs))
    np.testing.assert_allclose(ours.objective_, mine, rtol=1e-9)
    assert (mine <= reference * (1.0 + 1e-7)).all()
    np.testing.assert_allclose(mine, reference, rtol=1e-5)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=5e-3)
    assert np.shape(ours.intercept_) == np.shape(theirs.intercept_)
    assert ours.converged_
    assert (ours.dual_gap_ <= 1e-6).all()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_sparse_rows(loss):
    X, y = problem(2)
    dense = LinearSVC(loss=loss, tol=1e-8).fit(X, y)
    sparse = LinearSVC(loss=loss, tol=1e-8).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"penalty": "l1"}, "penalty='l1' is not supported"),
        ({"multi_class": "crammer_singer"}, "crammer_singer"),
        ({"loss": "hinge", "dual": False}, "Unsupported set of arguments"),
        ({"intercept_scaling": 0.0}, "intercept_scaling"),
    ],
)
def test_clear_errors(settings, message):
    X, y = problem(2)
    with pytest.raises(ValueError, match=message):
        LinearSVC(**settings).fit(X, y)


def test_negative_weights_are_an_error():
    X, y = problem(2)
    with pytest.raises(ValueError, match="weight"):
        LinearSVC().fit(X, y, sample_weight=-np.ones(len(y)))


def test_a_limit_of_steps_is_reported():
    X, y = problem(2)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        model = LinearSVC(max_iter=1).fit(X, y)
    assert not model.converged_
    assert model.n_iter_ == 1


def test_many_columns():
    """The Newton systems of many columns are solved by conjugate gradients."""
    rng = np.random.default_rng(0)
    X = sp.random(300, 3000, 0.02, format="csr", random_state=0)
    y = np.where(X @ rng.normal(size=3000) > 0, "up", "down")
    ours = LinearSVC(tol=1e-6).fit(X, y)
    theirs = sklearn.svm.LinearSVC(tol=1e-6, max_iter=10**5).fit(X, y)
    assert ours.converged_
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
