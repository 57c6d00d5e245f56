"""Many classes in one batch: the models of SVC, and of pairs that are fitted on their own."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel
from sklearn.svm import SVC

from oblong import RelativeMarginClassifier


def _data(n_classes, n=240, d=5, seed=0):
    """Rows of many classes, one of them with one row, and some rows twice."""
    rng = np.random.default_rng(seed)
    y = rng.integers(1, n_classes, size=n)
    y[7] = 0
    X = rng.normal(size=(n, d)) + 1.2 * rng.normal(size=(n_classes, d))[y]
    X[20:30] = X[:10]
    return X, y


def _outputs(model, X):
    return model.set_params(decision_function_shape="ovo").decision_function(X)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("kernel", "C"), [("rbf", 1.0), ("rbf", 50.0), ("poly", 1.0), ("linear", 0.5)]
)
@pytest.mark.parametrize("n_classes", [6, 25])
def test_spread_one_equals_svc(n_classes, kernel, C, weighted):
    X, y = _data(n_classes)
    weights = np.random.default_rng(1).integers(0, 3, size=len(y)) + 0.0 if weighted else None
    if weighted:
        weights[7] = 1.0
    params = {"kernel": kernel, "C": C, "gamma": 0.1, "coef0": 1.0, "tol": 1e-5}
    ours = RelativeMarginClassifier(spread=1.0, **params).fit(X, y, weights)
    theirs = SVC(**params).fit(X, y, weights)
    scale = np.abs(_outputs(theirs, X)).max()
    np.testing.assert_allclose(_outputs(ours, X), _outputs(theirs, X), atol=2e-3 * scale)
    assert ours.converged_
    assert (ours.dual_gap_ <= 1e-3).all()
    np.testing.assert_array_equal(ours.n_support_.sum(), ours.support_.size)
    if kernel == "linear":
        np.testing.assert_allclose(
            X @ ours.coef_.T + ours.intercept_, _outputs(ours, X), atol=1e-9 * scale
        )


@pytest.mark.parametrize("params", [{"spread": 0.4}, {"B": 1.2}, {"spread": 0.0, "C": 20.0}])
def test_pairs_are_those_of_two_classes(params):
    X, y = _data(7)
    params = {"gamma": 0.1, "tol": 1e-5, **params}
    model = RelativeMarginClassifier(**params).fit(X, y)
    outputs = _outputs(model, X)
    for k, (i, j) in enumerate(combinations(range(7), 2)):
        rows = (y == i) | (y == j)
        # Positive outputs mean the second of two classes, but the first of a pair.
        alone = RelativeMarginClassifier(**params).fit(X[rows], -y[rows])
        np.testing.assert_allclose(outputs[:, k], alone.decision_function(X), atol=5e-3)
        assert model.objective_[k] == pytest.approx(alone.objective_[0], rel=2e-3)
        assert model.B_[k] == pytest.approx(alone.B_[0], abs=1e-3)
        assert np.abs(outputs[rows, k]).max() <= model.B_[k] * (1.0 + 1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_precomputed_kernels_and_single_precision(dtype):
    X, y = _data(8)
    X = X.astype(dtype)
    K = pairwise_kernels(X.astype(np.float64), metric="rbf", gamma=0.1)
    named = RelativeMarginClassifier(gamma=0.1, tol=1e-4).fit(X, y)
    given = RelativeMarginClassifier(kernel="precomputed", tol=1e-4).fit(K, y)
    np.testing.assert_allclose(_outputs(given, K), _outputs(named, X), atol=1e-2)


def test_threads_change_nothing():
    X, y = _data(9)
    one = RelativeMarginClassifier(n_jobs=1).fit(X, y)
    two = RelativeMarginClassifier(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
    np.testing.assert_array_equal(one.intercept_, two.intercept_)


def test_too_few_steps_are_told():
    X, y = _data(7)
    with pytest.warns(UserWarning, match="max_iter=5 was reached"):
        model = RelativeMarginClassifier(max_iter=5).fit(X, y)
    assert not model.converged_
    assert (model.dual_gap_ > 1e-3).any()


@pytest.mark.parametrize("container", [np.asarray, csr_matrix])
def test_sparse_rows_and_kernel_functions(container):
    X, y = _data(7)
    X[np.abs(X) < 0.5] = 0.0
    named = RelativeMarginClassifier(gamma=0.1, tol=1e-4).fit(X, y)
    sparse = RelativeMarginClassifier(gamma=0.1, tol=1e-4).fit(container(X), y)
    np.testing.assert_allclose(_outputs(sparse, X), _outputs(named, X), atol=1e-9)
    called = RelativeMarginClassifier(kernel=lambda a, b: rbf_kernel(a, b, gamma=0.1), tol=1e-4)
    outputs = _outputs(called.fit(container(X), y), container(X))
    np.testing.assert_allclose(outputs, _outputs(named, X), atol=1e-2)


def test_indefinite_matrices_have_no_certificate():
    X, y = _data(7)
    K = np.tanh(X @ X.T - 1.0)
    with pytest.warns(UserWarning, match="semidefinite"):
        model = RelativeMarginClassifier(kernel="precomputed", spread=1.0).fit(K, y)
    assert np.isinf(model.dual_gap_).all()


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    "params",
    [
        {"gamma": 0.02, "B": 1.5},
        {"kernel": "poly", "gamma": 0.02, "coef0": 1.0, "spread": 1.0},
        {"kernel": "linear", "C": 0.1, "spread": 1.0},
    ],
    ids=["rbf", "poly", "linear"],
)
def test_large_pairs_are_those_of_two_classes(params, n_jobs):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, size=5400)
    X = (rng.normal(size=(5400, 45)) + 0.4 * rng.normal(size=(3, 45))[y]).astype(np.float32)
    weights = rng.integers(0, 3, size=len(y)) + 0.5
    weights[:60] = 0.0
    model = RelativeMarginClassifier(n_jobs=n_jobs, **params).fit(X, y, weights)
    assert model.converged_
    outputs = _outputs(model, X)
    for k, (i, j) in enumerate(combinations(range(3), 2)):
        of_pair = (y == i) | (y == j)
        alone = RelativeMarginClassifier(**params)
        alone.fit(X[of_pair], np.where(y == i, 1, -1)[of_pair], weights[of_pair])
        gap = model.dual_gap_[k] + alone.dual_gap_[0]
        assert abs(model.objective_[k] / alone.objective_[0] - 1.0) <= gap
        values = alone.decision_function(X)
        assert np.abs(outputs[:, k] - values).max() <= 0.02 * np.abs(values).max()
        np.testing.assert_allclose(model.B_[k], alone.B_[0], rtol=5e-3)
