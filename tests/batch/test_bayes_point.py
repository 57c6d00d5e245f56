"""BayesPointClassifier: what it computes, how it says so, and what it is given."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV

from oblong import BayesPointClassifier
from tests.batch.data import clouds, real
from tests.reference.bayes_point import brute_force


def fit(X, y, weight=None, **params) -> BayesPointClassifier:
    return BayesPointClassifier(**params).fit(X, y, sample_weight=weight)


def far_apart(n: int = 30, d: int = 2, **options) -> tuple[np.ndarray, np.ndarray]:
    return clouds(n, d=d, distance=4.0, **options)


@pytest.mark.parametrize("soft", [0.0, 0.4])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_linear_against_brute_force(soft, fit_intercept):
    X, y = far_apart(10)
    F = np.column_stack([X, np.ones(10)]) if fit_intercept else X
    mean, covariance, evidence = brute_force(F, 2.0 * y - 1.0, soft, n=1_000_000)
    model = fit(X, y, kernel="linear", soft=soft, fit_intercept=fit_intercept)
    point = np.append(model.coef_[0], model.intercept_) if fit_intercept else model.coef_[0]
    assert point @ mean / np.linalg.norm(point) / np.linalg.norm(mean) > 0.9995
    assert model.log_evidence_[0] == pytest.approx(evidence, abs=0.2)
    assert fit_intercept or model.intercept_[0] == 0.0
    # The probability that a classifier of the version space says 1, averaged over all of them.
    new = np.random.default_rng(0).normal(size=(5, 2))
    phi = np.column_stack([new, np.ones(5)]) if fit_intercept else new
    spread = np.sqrt(soft + np.einsum("ij,jk,ik->i", phi, covariance, phi))
    np.testing.assert_allclose(
        model.predict_proba(new)[:, 1], norm.cdf(phi @ mean / spread), atol=0.03 if soft else 0.05
    )


@pytest.mark.parametrize("soft", [0.0, 0.3])
@pytest.mark.parametrize("params", [{}, {"kernel": "linear"}, {"kernel": "poly", "coef0": 1.0}])
def test_methods_agree(soft, params):
    X, y = far_apart(24, seed=1)
    one = fit(X, y, soft=soft, **params)
    other = fit(X, y, soft=soft, method="sampling", n_samples=40_000, random_state=0, **params)
    assert np.corrcoef(one.decision_function(X), other.decision_function(X))[0, 1] > 0.99
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=0.08)
    assert np.isnan(other.log_evidence_).all()
    assert other.converged_
    assert 0.0 < other.residual_[0] < 0.1


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("classes", [2, 3])
def test_decision_probability_and_label_go_together(kernel, classes):
    X, y = far_apart(60, classes=classes, d=3)
    model = fit(X, y, kernel=kernel, soft=0.1)
    scores, labels = model.decision_function(X), model.predict(X)
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.log(probabilities), model.predict_log_proba(X), atol=1e-12)
    assert np.array_equal(model.classes_[probabilities.argmax(axis=1)], labels)
    assert model.score(X, y) > 0.8
    if classes == 2:
        np.testing.assert_allclose(norm.cdf(scores), probabilities[:, 1])
        if kernel == "linear":
            outputs = X @ model.coef_[0] + model.intercept_[0]
            assert np.array_equal(outputs > 0, scores > 0)
    else:
        assert np.array_equal(scores.argmax(axis=1), labels)
        assert model.dual_coef_.shape[0] == len(model.log_evidence_) == 3


def test_classes_are_one_against_the_rest():
    X, y = far_apart(60, classes=3, d=3)
    model = fit(X, y, soft=0.2, gamma=0.5)
    for k in range(3):
        alone = fit(X, y == k, soft=0.2, gamma=0.5)
        np.testing.assert_allclose(
            alone.decision_function(X), model.decision_function(X)[:, k], atol=1e-7
        )


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_dual_coefficients_make_the_outputs(kernel):
    X, y = far_apart(40)
    model = fit(X, y, kernel=kernel, gamma=0.5, soft=0.1)
    V = model.support_vectors_
    np.testing.assert_array_equal(V, X[model.support_])
    K = X @ V.T if kernel == "linear" else rbf_kernel(X, V, gamma=0.5)
    outputs = K @ model.dual_coef_[0] + model.intercept_[0]
    assert np.array_equal(outputs > 0, model.predict(X) == 1)
    if kernel == "linear":
        np.testing.assert_allclose(model.dual_coef_ @ V, model.coef_, atol=1e-8)


def test_evidence_finds_the_width_of_the_kernel():
    X, y = real("breast_cancer", 150)
    widths = [1e-4, 1e-2, 10.0]
    evidence = [fit(X, y, gamma=gamma, soft=0.1).log_evidence_[0] for gamma in widths]
    assert np.argmax(evidence) == 1
    # Far too narrow a kernel makes every label a toss of a coin.
    assert evidence[2] == pytest.approx(150 * np.log(0.5), rel=0.1)


def test_inseparable_classes_get_some_slack():
    X, y = clouds(60)
    with pytest.warns(UserWarning, match="no hyperplane separates the classes"):
        model = fit(X, y, kernel="linear")
    slack = model.soft_[0]
    assert slack == pytest.approx(1e-3 * (1.0 + (X**2).sum(axis=1).mean()))
    same = fit(X, y, kernel="linear", soft=slack)
    np.testing.assert_allclose(model.coef_, same.coef_)
    # The direction is that of the limit for little slack.
    less = fit(X, y, kernel="linear", soft=0.01 * slack)
    cosine = (less.coef_ @ model.coef_.T).item()
    assert cosine > 0.999 * np.linalg.norm(less.coef_) * np.linalg.norm(model.coef_)
    with pytest.warns(UserWarning, match="no hyperplane"):
        sampler = fit(X, y, kernel="linear", method="sampling", random_state=0)
    assert np.corrcoef(sampler.decision_function(X), model.decision_function(X))[0, 1] > 0.99


def test_only_problems_without_version_space_get_slack():
    X, y = clouds(60, classes=2, d=2)
    X, y = np.vstack([X, X[:20] + 100.0]), np.append(y, np.full(20, 2))
    with pytest.warns(UserWarning, match="no hyperplane"):
        model = fit(X, y, kernel="linear")
    assert (model.soft_[:2] > 0).all()
    assert model.soft_[2] == 0.0


def test_warnings_of_convergence():
    X, y = far_apart(40)
    with pytest.warns(ConvergenceWarning, match=r"in 2 sweeps.*disagreement of moments left is"):
        model = fit(X, y, max_iter=2)
    assert not model.converged_
    assert model.n_iter_[0] == 2
    with pytest.warns(ConvergenceWarning, match="n_samples=20 draws leave"):
        fit(X, y, method="sampling", n_samples=20, random_state=0)


@pytest.mark.parametrize("method", ["ep", "sampling"])
@pytest.mark.parametrize("soft", [0.0, 0.5])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.filterwarnings("ignore:.*draws leave:sklearn.exceptions.ConvergenceWarning")
def test_weights_equal_copies(method, soft, kernel):
    X, y = far_apart(40, classes=3, d=4, seed=2)
    params = {"method": method, "soft": soft, "kernel": kernel, "n_samples": 200, "random_state": 0}
    counts = np.random.default_rng(2).integers(0, 4, size=40)
    order = np.random.default_rng(3).permutation(counts.sum())
    weighted = fit(X, y, counts.astype(float), **params)
    copies = fit(np.repeat(X, counts, axis=0)[order], np.repeat(y, counts)[order], **params)
    np.testing.assert_allclose(
        weighted.decision_function(X), copies.decision_function(X), atol=1e-6
    )
    assert not np.isin(weighted.support_, np.flatnonzero(counts == 0)).any()


def test_weights_move_the_boundary_with_slack_only():
    X, y = far_apart(40)
    heavy = np.where(y == 1, 5.0, 0.5)
    np.testing.assert_allclose(
        fit(X, y, heavy, gamma=1.0).decision_function(X), fit(X, y, gamma=1.0).decision_function(X)
    )
    one, other = fit(X, y, heavy, gamma=1.0, soft=1.0), fit(X, y, gamma=1.0, soft=1.0)
    assert one.predict_proba(X)[:, 1].mean() > other.predict_proba(X)[:, 1].mean() + 0.01


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("d", [3, 60])
def test_sparse_single_precision_and_precomputed(kernel, d):
    X, y = clouds(40, d=d, classes=3, distance=4.0)
    X[np.abs(X) < 0.5] = 0.0
    params = {"kernel": kernel, "soft": 0.2, "gamma": 1.0 / d, "coef0": 1.0}
    expected = fit(X, y, **params).predict_proba(X)
    sparse = fit(sp.csr_matrix(X), y, **params)
    np.testing.assert_allclose(sparse.predict_proba(sp.csr_matrix(X)), expected, atol=1e-7)
    single = fit(X.astype(np.float32), y, **params).predict_proba(X.astype(np.float32))
    np.testing.assert_allclose(single, expected, atol=1e-3)
    if kernel == "rbf":
        K = rbf_kernel(X, gamma=1.0 / d)
        weights = np.where(np.arange(40) % 5 == 0, 0.0, 1.0)
        given = fit(K, y, weights, kernel="precomputed", soft=0.2)
        # Outside the span of the rows a given kernel does not tell the variance.
        own = weights > 0
        np.testing.assert_allclose(
            given.decision_function(K)[own],
            fit(X, y, weights, **params).decision_function(X)[own],
            atol=1e-6,
        )


def test_rank_bounds_the_dimension():
    X, y = real("breast_cancer", 200)
    model = fit(X, y, rank=20, soft=0.1)
    assert model.support_.size == 20
    assert model.score(X, y) > 0.9
    full = fit(X, y, soft=0.1)
    assert np.mean(full.predict(X) == model.predict(X)) > 0.9


@pytest.mark.filterwarnings("error")
def test_rows_of_another_unit_have_the_same_version_space():
    X, y = far_apart()
    one, other = (fit(2.0**k * X, y, kernel="linear", fit_intercept=False) for k in (0, 332))
    assert one.n_iter_ == other.n_iter_ > 2
    assert other.residual_[0] == pytest.approx(one.residual_[0], rel=1e-6)
    np.testing.assert_allclose(
        other.predict_proba(2.0**332 * X), one.predict_proba(X), rtol=0.0, atol=1e-9
    )
    with pytest.raises(ValueError, match="not finite: scale the data"):
        fit(2.0**600 * X, y, kernel="linear")


def test_far_from_the_rows_nothing_is_known():
    X, y = far_apart(40)
    model = fit(X, y, fit_intercept=False)
    np.testing.assert_allclose(model.predict_proba([[1e3, 1e3]]), 0.5, atol=1e-9)


def test_identical_rows_with_both_labels():
    X = np.zeros((4, 2))
    with pytest.warns(UserWarning, match="no hyperplane"):
        model = fit(X, [0, 1, 0, 1])
    np.testing.assert_allclose(model.predict_proba(X), 0.5, atol=1e-6)


@pytest.mark.parametrize(
    "params",
    [{"soft": -1.0}, {"method": "mcmc"}, {"n_samples": 0}, {"rank": 0}, {"fit_intercept": "yes"}],
)
def test_bad_parameters(params):
    X, y = clouds(20)
    with pytest.raises(ValueError, match=f"The '{next(iter(params))}' parameter"):
        fit(X, y, **params)


def test_bad_rows():
    X, y = clouds(20)
    with pytest.raises(ValueError, match="at least two classes"):
        fit(X, y, (y == 0).astype(float))
    with pytest.raises(ValueError, match="not positive semidefinite"):
        fit(X, y, kernel=lambda A, B: -A @ B.T)


def test_random_state_decides_the_draws():
    X, y = far_apart(30)
    params = {"kernel": "linear", "method": "sampling", "n_samples": 2000}
    one, same, other = (fit(X, y, random_state=seed, **params).coef_ for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 1e-6


def test_saved_searched_and_reported(capsys):
    X, y = far_apart(60, classes=3)
    names = np.array(["red", "green", "blue"])[y]
    model = fit(X, names, soft=0.1, verbose=1)
    assert "expectation propagation" in capsys.readouterr().err
    loaded = pickle.loads(pickle.dumps(model))
    assert np.array_equal(loaded.predict(X), model.predict(X))
    search = GridSearchCV(
        BayesPointClassifier(), {"soft": [0.01, 1.0]}, cv=3, scoring="neg_log_loss"
    )
    search.fit(X, names)
    assert set(search.predict(X)) <= set(names)
