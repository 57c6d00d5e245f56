"""KernelFisherClassifier: its formula, leave-one-out, and life in scikit-learn."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, LeaveOneOut, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from oblong import KernelFisherClassifier
from tests.batch.data import clouds, real


def fit(X, y, weight=None, **params) -> KernelFisherClassifier:
    return KernelFisherClassifier(**params).fit(X, y, sample_weight=weight)


@parametrize_with_checks(
    [
        KernelFisherClassifier(),
        KernelFisherClassifier(kernel="linear"),
        KernelFisherClassifier(alpha=0.01, kernel="poly", gamma=0.01, coef0=1.0),
    ]
)
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("alpha", [1e-2, 1.0, 100.0])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_linear_kernel_equals_the_formula(alpha, offset):
    X, y = clouds(60)
    X = X[y * np.arange(60) < 41] + offset
    y = y[y * np.arange(60) < 41]
    means = [X[y == c].mean(axis=0) for c in (0, 1)]
    Z = X - np.array(means)[y]
    w = np.linalg.solve(Z.T @ Z + alpha * np.eye(3), means[1] - means[0])
    machine = fit(X, y, kernel="linear", alpha=alpha)
    direction = machine.coef_[0]
    np.testing.assert_allclose(
        direction / np.linalg.norm(direction), w / np.linalg.norm(w), atol=1e-8
    )
    middle = machine.decision_function(np.array([(means[0] + means[1]) / 2]))
    assert abs(middle[0]) < 1e-6


def test_small_ridge_is_the_linear_discriminant():
    X, y = clouds(120, d=4)
    lda = LinearDiscriminantAnalysis(priors=[0.5, 0.5]).fit(X, y).decision_function(X)
    fisher = fit(X, y, kernel="linear", alpha=1e-8).decision_function(X)
    assert np.corrcoef(lda, fisher)[0, 1] > 1 - 1e-9
    assert np.array_equal(lda > 0, fisher > 0)


def test_same_direction_as_ridge_regression_on_centred_kernel():
    X, y = clouds(60)
    K = rbf_kernel(X, gamma=0.3)
    H = np.eye(60) - 1 / 60
    targets = np.where(y == 1, 2.0, -2.0)
    ridge = KernelRidge(alpha=0.5, kernel="precomputed").fit(H @ K @ H, targets).predict(H @ K @ H)
    fisher = fit(X, y, gamma=0.3, alpha=0.5).decision_function(X)
    np.testing.assert_allclose(fisher - fisher.mean(), ridge - ridge.mean(), atol=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_leave_one_out_error_is_that_of_cross_validation(kernel, alpha):
    X, y = real("breast_cancer", 60)
    machine = fit(X, y, kernel=kernel, alpha=alpha, gamma=0.02)
    scores = cross_val_score(machine, X, y, cv=LeaveOneOut())
    assert machine.loo_error_[0] == pytest.approx(1 - scores.mean())


def test_pairs_have_errors_of_their_own():
    X, y = real("iris")
    machine = fit(X, y)
    assert machine.loo_error_.shape == machine.dual_gap_.shape == (3,)
    for error, (i, j) in zip(machine.loo_error_, [(0, 1), (0, 2), (1, 2)]):
        own = (y == i) | (y == j)
        gamma = 1 / (4 * X.var())
        assert fit(X[own], y[own], gamma=gamma).loo_error_[0] == pytest.approx(error)
    assert machine.converged_
    assert (machine.n_iter_ == 1).all()
    assert (np.abs(machine.dual_gap_) < 1e-10).all()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("classes", [2, 3])
def test_weights_equal_copies(kernel, classes):
    X, y = clouds(80, classes=classes, seed=2)
    counts = np.random.default_rng(2).integers(0, 4, size=80)
    weighted = fit(X, y, counts.astype(float), kernel=kernel)
    copies = fit(np.repeat(X, counts, axis=0), np.repeat(y, counts), kernel=kernel)
    np.testing.assert_allclose(
        weighted.decision_function(X), copies.decision_function(X), atol=1e-8
    )
    assert not np.isin(weighted.support_, np.flatnonzero(counts == 0)).any()


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_sparse_single_precision_and_precomputed(kernel):
    X, y = clouds(80, classes=3)
    X[np.abs(X) < 0.5] = 0.0
    dense = fit(X, y, kernel=kernel)
    expected = dense.decision_function(X)
    sparse = fit(sp.csr_matrix(X), y, kernel=kernel)
    np.testing.assert_allclose(sparse.decision_function(sp.csr_matrix(X)), expected, atol=1e-8)
    single = fit(X.astype(np.float32), y, kernel=kernel)
    outputs = single.decision_function(X.astype(np.float32))
    np.testing.assert_allclose(outputs, expected, atol=1e-3)
    if kernel == "rbf":
        K = rbf_kernel(X, gamma=1 / (3 * X.var()))
        given = fit(K, y, kernel="precomputed")
        np.testing.assert_allclose(given.decision_function(K), expected, atol=1e-8)


@pytest.mark.parametrize("alpha", [0.0, -1.0, "1"])
def test_bad_ridge(alpha):
    X, y = clouds(40)
    with pytest.raises(ValueError, match="'alpha' parameter"):
        fit(X, y, alpha=alpha)


def test_indefinite_kernel():
    X, y = clouds(40)
    with pytest.raises(ValueError, match="not positive semidefinite"):
        fit(X, y, kernel=lambda A, B: -A @ B.T)


def test_saved_and_searched():
    X, y = clouds(90, classes=3)
    names = np.array(["red", "green", "blue"])[y]
    machine = fit(X, names)
    loaded = pickle.loads(pickle.dumps(machine))
    assert np.array_equal(loaded.predict(X), machine.predict(X))
    search = GridSearchCV(KernelFisherClassifier(), {"alpha": [0.1, 10.0]}, cv=3, n_jobs=1)
    assert search.fit(X, names).best_score_ > 0.5
    assert set(search.predict(X)) <= set(names)
