"""Confidence-weighted learning with kernels."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_circles
from sklearn.metrics.pairwise import rbf_kernel

from oblong import ConfidenceWeightedClassifier, KernelConfidenceWeightedClassifier
from tests.online.learners import clouds

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def stream(model, X, y, size=None):
    for start in range(0, X.shape[0], size or X.shape[0]):
        part = slice(start, start + (size or X.shape[0]))
        model.partial_fit(X[part], y[part], classes=np.unique(y))
    return model


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("average", [True, False])
def test_linear_kernel_is_the_linear_learner(classes, fit_intercept, average):
    X, y = clouds(300, classes=classes, noise=0.0, seed=4)
    params = {"fit_intercept": fit_intercept, "average": average}
    kernel = KernelConfidenceWeightedClassifier(kernel="linear", dictionary_tol=1e-13, **params)
    linear = ConfidenceWeightedClassifier(**params)
    stream(kernel, X, y)
    stream(linear, X, y)
    assert kernel.dictionary_.shape == (6, 6)
    assert (kernel.n_updates_, kernel.n_mistakes_) == (linear.n_updates_, linear.n_mistakes_)
    rtol = 1e-7
    for one, other in zip(kernel.margin_mean_std(X), linear.margin_mean_std(X), strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * np.abs(other).max())
    np.testing.assert_allclose(
        kernel.coef_, linear.coef_, rtol=rtol, atol=rtol * np.abs(linear.coef_).max()
    )
    np.testing.assert_allclose(kernel.intercept_, linear.intercept_, rtol=1e-6, atol=1e-8)


def test_round_off_is_no_direction():
    """On noise the shape collapses, while what sticks out would keep its variance."""
    X, y = clouds(600, noise=0.1)
    kernel = stream(KernelConfidenceWeightedClassifier(kernel="linear"), X, y)
    linear = stream(ConfidenceWeightedClassifier(), X, y)
    assert linear._state.exponent > 20
    assert abs(kernel.n_updates_ - linear.n_updates_) <= 0.01 * linear.n_updates_
    assert abs(kernel.n_mistakes_ - linear.n_mistakes_) <= 0.01 * linear.n_mistakes_


def test_in_explicit_features():
    """An rbf learner is the linear one in the columns of a square root of the kernel matrix."""
    X, y = make_circles(120, factor=0.6, noise=0.05, random_state=0)
    K = rbf_kernel(X, gamma=2.0)
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-10
    features = vectors[:, kept] * np.sqrt(values[kept])
    linear = stream(ConfidenceWeightedClassifier(), features, y)
    kernel = KernelConfidenceWeightedClassifier(gamma=2.0, dictionary_tol=1e-10)
    stream(kernel, X, y)
    assert kernel.n_mistakes_ == linear.n_mistakes_
    np.testing.assert_allclose(
        kernel.decision_function(X), linear.decision_function(features), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("budget", [None, 12])
@pytest.mark.parametrize("classes", [2, 3])
def test_chunks_and_sparse_rows(budget, classes):
    X, y = clouds(200, classes=classes)
    params = {"gamma": 0.1, "budget": budget, "dictionary_tol": 1e-3}
    whole = stream(KernelConfidenceWeightedClassifier(**params), X, y)
    for size in (1, 30, 64):
        other = stream(KernelConfidenceWeightedClassifier(**params), X, y, size)
        assert other.n_updates_ == whole.n_updates_
        np.testing.assert_allclose(
            other.decision_function(X), whole.decision_function(X), rtol=1e-5, atol=1e-6
        )
    assert budget is None or len(whole.dictionary_) == budget
    sparse = stream(KernelConfidenceWeightedClassifier(**params), sp.csr_matrix(X), y)
    np.testing.assert_allclose(
        sparse.predict_proba(sp.csr_matrix(X)), whole.predict_proba(X), rtol=1e-3, atol=1e-4
    )


def test_dictionary():
    X, y = make_circles(600, factor=0.5, noise=0.08, random_state=1)
    T, t = make_circles(600, factor=0.5, noise=0.08, random_state=2)
    sizes, errors = [], []
    for tol in (1e-10, 1e-4, 1e-2):
        model = KernelConfidenceWeightedClassifier(gamma=1.0, dictionary_tol=tol)
        stream(model, X, y)
        sizes.append(len(model.dictionary_))
        errors.append(1 - model.score(T, t))
        S = model._state.inner.covariance[0]
        assert np.linalg.eigvalsh(S).min() > 0
    assert sizes[0] > sizes[1] > sizes[2]
    assert max(errors) < 0.05
    small = stream(KernelConfidenceWeightedClassifier(gamma=1.0, budget=8), X, y)
    assert len(small.dictionary_) == 8
    assert np.linalg.eigvalsh(small._state.inner.covariance[0]).min() > 0
    assert small.score(T, t) > 0.9


def test_after_an_update_the_margin_has_its_confidence():
    X, y = clouds(60)
    model = KernelConfidenceWeightedClassifier(gamma=0.3, dictionary_tol=0.0)
    for i in range(60):
        before = model.n_updates_ if i else 0
        model.partial_fit(X[i : i + 1], y[i : i + 1], classes=[0, 1])
        if model.n_updates_ > before:
            p = model.predict_proba(X[i : i + 1])[0, y[i]]
            assert p == pytest.approx(0.9, abs=1e-7)


def test_one_row_pickle_callable_and_merge():
    X, y = clouds(80)
    model = KernelConfidenceWeightedClassifier(gamma=0.2)
    stream(model, X[:40], y[:40])
    for row, label in zip(X[40:], y[40:]):
        model.learn_one(row, label)
    assert model.predict_one(X[0]) == model.predict(X[:1])[0]
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.decision_function(X), model.decision_function(X))

    called = KernelConfidenceWeightedClassifier(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.2))
    stream(called, X, y)
    np.testing.assert_allclose(
        called.decision_function(X), model.decision_function(X), rtol=1e-5, atol=1e-6
    )
    assert not hasattr(model, "merge")


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_columns_that_later_batches_fill(kernel):
    """The columns of the first rows do not tell how many there are."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 300))
    X[:40, 3:] = 0.0
    y = (X.sum(axis=1) > 0).astype(int)
    models = [
        stream(KernelConfidenceWeightedClassifier(kernel=kernel), part, y, 40)
        for part in (X, sp.csr_matrix(X))
    ]
    assert models[1].dictionary_.shape == models[0].dictionary_.shape
    assert models[1].dictionary_.shape[1] == 300
    assert models[0].gamma_ == pytest.approx(models[1].gamma_, rel=1e-12)
    outputs = [m.decision_function(Z) for m, Z in zip(models, (X, sp.csr_matrix(X)), strict=True)]
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-8, atol=1e-10)
