"""Prediction of kernel expansions: prepared once, tile by tile, on every thread."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from oblong import RelativeMarginClassifier, UniversumSVC

KERNELS = {"rbf": {"gamma": 0.2}, "poly": {"gamma": 0.2, "coef0": 1.0, "degree": 3}}


def _problem(n=400, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    y = np.digitize(X[:, 0] + 0.5 * X[:, 1] ** 2, np.linspace(-0.5, 1.5, classes - 1))
    return X, y


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("rows", [1, 2, 127, 129, 900])
def test_outputs_are_the_expansion(name, rows):
    X, y = _problem()
    model = RelativeMarginClassifier(kernel=name, **KERNELS[name]).fit(X, y)
    Z = _problem(rows, seed=1)[0] * 2.0
    values = pairwise_kernels(Z, model.support_vectors_, name, **KERNELS[name])
    exact = values @ model.dual_coef_[0] + model.intercept_
    for threads in (1, 2):
        with threadpool_limits(threads):
            outputs = model.decision_function(Z)
            np.testing.assert_allclose(
                outputs, exact, rtol=0, atol=1e-12 * np.abs(values).max() * 400
            )
            np.testing.assert_array_equal(
                model.predict(Z), model.classes_[(outputs > 0).astype(int)]
            )
    np.testing.assert_allclose(model.decision_function(sp.csr_matrix(Z)), outputs, atol=1e-9)


def test_several_classes():
    X, y = _problem(600, 4)
    model = RelativeMarginClassifier(spread=1.0, decision_function_shape="ovo", tol=1e-6).fit(X, y)
    peer = SVC(decision_function_shape="ovo", tol=1e-6).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), peer.decision_function(X), atol=1e-4)
    np.testing.assert_array_equal(model.predict(X), peer.predict(X))


def test_another_fit_is_predicted_with():
    X, y = _problem()
    model = RelativeMarginClassifier(gamma=0.2).fit(X, y)
    state = dict(vars(model))
    first = model.decision_function(X)
    assert vars(model) == state
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.decision_function(X), first)
    fresh = RelativeMarginClassifier(gamma=0.2).fit(X[:200], y[:200]).decision_function(X)
    np.testing.assert_array_equal(model.fit(X[:200], y[:200]).decision_function(X), fresh)
    model.dual_coef_ = -model.dual_coef_
    model.intercept_ = -model.intercept_
    np.testing.assert_allclose(model.decision_function(X), -fresh, atol=1e-12)


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
@pytest.mark.parametrize("sparse", [False, True])
def test_evaluate__pairs_a_few_at_a_time(kernel, sparse, monkeypatch):
    """With thousands of classes the coefficients of all pairs would not fit into memory."""
    if sparse and kernel == "precomputed":
        pytest.skip("no sparse kernel matrices")
    X, y = _problem(300, classes=6)
    Z = X[:50] * 1.1
    if kernel == "precomputed":
        X, Z = X @ X.T, Z @ X.T
    X, Z = (sp.csr_matrix(X), sp.csr_matrix(Z)) if sparse else (X, Z)
    given = {"X_universum": X[::5]} if kernel == "rbf" else {}
    for model in (RelativeMarginClassifier(kernel=kernel), UniversumSVC(kernel=kernel)):
        model.fit(X, y, **(given if isinstance(model, UniversumSVC) else {}))
        model.set_params(decision_function_shape="ovo")
        whole = model.decision_function(Z)
        for count in (1, 4 * model.support_.size):
            monkeypatch.setattr("oblong.batch._expansion._COEFFICIENTS", count)
            np.testing.assert_allclose(model.decision_function(Z), whole, rtol=0, atol=1e-11)
        monkeypatch.undo()
