"""UniversumSVC: the Universum in fitting and prediction, and life in scikit-learn."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from oblong import UniversumSVC
from oblong.batch.universum import _different
from tests.batch.data import clouds
from tests.reference.margin import factor
from tests.reference.sigma import universum_svm


def points(m: int = 25, d: int = 3, seed: int = 7) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(m, d)) + 0.5


def fit(X, y, universum=None, weight=None, **params) -> UniversumSVC:
    machine = UniversumSVC(**{"tol": 1e-7, **params})
    return machine.fit(X, y, X_universum=universum, sample_weight=weight)


@parametrize_with_checks(
    [
        UniversumSVC(),
        UniversumSVC(kernel="linear", tol=1e-9),
        UniversumSVC(kernel="precomputed"),
    ]
)
# One of the checks has a matrix of random numbers for a kernel.
@pytest.mark.filterwarnings("ignore:.*not positive semidefinite")
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("classes", [2, 3])
def test_without_a_universum_it_is_the_svm(kernel, classes):
    X, y = clouds(90, classes=classes)
    ours = fit(X, y, kernel=kernel)
    theirs = SVC(kernel=kernel, tol=1e-7).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)
    assert ours.universum_coef_.shape == (classes * (classes - 1) // 2, 0)
    assert ours.universum_vectors_.shape == (0, 3)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("C_universum", [0.1, 10.0])
def test_outputs_on_new_points_against_the_reference(kernel, C_universum):
    X, y = clouds(40)
    U, new = points(), points(20, seed=8)
    together = np.concatenate([X, U, new])
    K = together @ together.T if kernel == "linear" else rbf_kernel(together, gamma=0.3)
    F = factor(K)
    signs = np.where(y == 1, 1.0, -1.0)
    value, w, b = universum_svm(F[:40], signs, np.ones(40), F[40:65], C_universum, 0.1)
    machine = fit(X, y, U, kernel=kernel, gamma=0.3, C_universum=C_universum)
    assert machine.objective_[0] == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(machine.decision_function(new), F[65:] @ w + b, atol=1e-4)
    plain = fit(X, y, kernel=kernel, gamma=0.3).decision_function(new)
    assert np.abs(machine.decision_function(new) - plain).max() > 1e-2


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_attributes_give_the_outputs(kernel):
    X, y = clouds(60)
    U = points()
    machine = fit(X, y, U, kernel=kernel, gamma=0.3, coef0=1.0)
    values = {
        "linear": lambda A, B: A @ B.T,
        "rbf": lambda A, B: rbf_kernel(A, B, gamma=0.3),
        "poly": lambda A, B: (0.3 * A @ B.T + 1.0) ** 3,
    }[kernel]
    outputs = (
        values(X, machine.support_vectors_) @ machine.dual_coef_[0]
        + values(X, machine.universum_vectors_) @ machine.universum_coef_[0]
        + machine.intercept_
    )
    np.testing.assert_allclose(machine.decision_function(X), outputs, atol=1e-9)
    assert np.all(machine.universum_coef_.any(axis=0))
    assert {tuple(row) for row in machine.universum_vectors_} <= {tuple(row) for row in U}


def test_the_universum_is_drawn_to_the_boundary():
    X, y = clouds(80)
    U = points(40)
    sizes = [
        np.abs(fit(X, y, U, C_universum=c).decision_function(U)).mean() for c in (0.01, 1.0, 100.0)
    ]
    assert sizes[0] > sizes[1] > sizes[2]


def test_every_pair_gets_the_universum():
    X, y = clouds(90, classes=3)
    U = points()
    machine = fit(X, y, U, gamma=0.3, decision_function_shape="ovo")
    outputs = machine.decision_function(X)
    for column, (i, j) in zip(outputs.T, [(0, 1), (0, 2), (1, 2)]):
        own = (y == i) | (y == j)
        alone = fit(X[own], y[own] == i, U, gamma=0.3)
        np.testing.assert_allclose(column, alone.decision_function(X), atol=1e-5)


def test_weights_equal_copies():
    X, y = clouds(80, seed=2)
    counts = np.random.default_rng(2).integers(0, 4, size=80)
    U = points()
    weighted = fit(X, y, U, counts.astype(float))
    copies = fit(np.repeat(X, counts, axis=0), np.repeat(y, counts), U)
    np.testing.assert_allclose(
        weighted.decision_function(X), copies.decision_function(X), atol=1e-4
    )


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("which", ["rows", "universum", "both"])
def test_sparse_rows(kernel, which):
    X, y = clouds(60)
    U = points()
    X[np.abs(X) < 0.4] = U[np.abs(U) < 0.4] = 0.0
    dense = fit(X, y, U, kernel=kernel)
    rows = X if which == "universum" else sp.csr_matrix(X)
    others = U if which == "rows" else sp.csr_matrix(U)
    sparse = fit(rows, y, others, kernel=kernel)
    for Z in (X, sp.csr_matrix(X)):
        np.testing.assert_allclose(
            sparse.decision_function(Z), dense.decision_function(X), atol=1e-5
        )


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_single_precision(kernel):
    X, y = clouds(60)
    U = points()
    single = fit(X.astype(np.float32), y, U, kernel=kernel, tol=1e-4)
    assert single.universum_vectors_.dtype == np.float32
    np.testing.assert_allclose(
        single.decision_function(X.astype(np.float32)),
        fit(X, y, U, kernel=kernel).decision_function(X),
        atol=2e-3,
    )


# Input --------------------------------------------------------------------------------------------


def test_precomputed_kernel_has_no_place_for_a_universum():
    X, y = clouds(40)
    with pytest.raises(ValueError, match=r"a Universum is not supported.*precomputed"):
        fit(rbf_kernel(X), y, points(), kernel="precomputed")
    assert fit(rbf_kernel(X), y, kernel="precomputed").score(rbf_kernel(X), y) > 0.5


@pytest.mark.parametrize(
    ("universum", "message"),
    [
        (np.ones((5, 4)), "4 features"),
        (np.full((5, 3), np.nan), "NaN"),
        (np.ones(3), "2D array"),
        (np.empty((0, 3)), "0 sample"),
    ],
)
def test_bad_universum_leaves_the_machine_as_it_was(universum, message):
    X, y = clouds(40)
    machine = UniversumSVC().fit(X, y)
    before = dict(vars(machine))
    with pytest.raises(ValueError, match=message):
        machine.fit(X[:20], y[:20], X_universum=universum)
    assert vars(machine) == before


@pytest.mark.parametrize("params", [{"C_universum": 0.0}, {"C_universum": -1.0}, {"epsilon": -0.1}])
def test_bad_parameters(params):
    X, y = clouds(40)
    with pytest.raises(ValueError, match="parameter of UniversumSVC"):
        UniversumSVC(**params).fit(X, y)


def test_feature_names_are_checked():
    X, y = clouds(40)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    others = pd.DataFrame(points(), columns=["c", "a", "b"])
    with pytest.raises(ValueError, match="feature names should match"):
        UniversumSVC().fit(frame, y, X_universum=others)


def test_refit_and_pickle():
    X, y = clouds(60, classes=3)
    machine = fit(X, y, points(), kernel="linear")
    loaded = pickle.loads(pickle.dumps(machine))
    assert np.array_equal(loaded.decision_function(X), machine.decision_function(X))
    fresh = fit(X, y)
    assert set(vars(machine.set_params(kernel="rbf").fit(X, y))) == set(vars(fresh))


def test_universum_is_routed():
    X, y = clouds(60)
    U = points()
    direct = UniversumSVC(C_universum=5.0).fit(X, y, X_universum=U)
    with config_context(enable_metadata_routing=True):
        machine = UniversumSVC(C_universum=5.0).set_fit_request(X_universum=True)
        piped = make_pipeline(StandardScaler(with_mean=False, with_std=False), machine)
        piped.fit(X, y, X_universum=U)
        results = cross_validate(
            machine, X, y, cv=3, params={"X_universum": U}, return_estimator=True
        )
    np.testing.assert_allclose(piped.decision_function(X), direct.decision_function(X))
    for fitted in results["estimator"]:
        assert fitted.universum_vectors_.shape[0] > 0


@pytest.mark.parametrize("n_classes", [2, 4])
def test_averages_are_of_rows_of_different_classes(n_classes):
    rng = np.random.default_rng(0)
    labels = rng.integers(n_classes, size=60)
    labels[:n_classes] = np.arange(n_classes)
    weights = rng.random(60) + 0.1
    weights[7] = 50.0
    pairs = _different(labels, weights, 5000, np.random.RandomState(0))
    assert (labels[pairs[0]] != labels[pairs[1]]).all()
    # The heavy row is drawn about as often as its weight says.
    assert np.mean(pairs[0] == 7) == pytest.approx(weights[7] / weights.sum(), abs=0.03)
    assert len(np.unique(pairs)) > 40


def test_averages_stand_in_for_a_universum():
    X, y = make_classification(120, 5, random_state=0)
    model = UniversumSVC(n_averages=30, epsilon=0.0, C_universum=100.0, random_state=0).fit(X, y)
    assert 0 < len(model.universum_vectors_) <= 30
    strict = np.abs(model.decision_function(model.universum_vectors_)).mean()
    plain = np.abs(UniversumSVC().fit(X, y).decision_function(model.universum_vectors_)).mean()
    assert strict < 0.5 * plain
    again = UniversumSVC(n_averages=30, epsilon=0.0, C_universum=100.0, random_state=0).fit(X, y)
    np.testing.assert_array_equal(again.universum_vectors_, model.universum_vectors_)
    rows = model.universum_vectors_
    given = UniversumSVC(epsilon=0.0, C_universum=100.0, n_averages=30).fit(X, y, X_universum=rows)
    assert len(given.universum_vectors_) <= len(rows)
    with pytest.raises(ValueError, match="Universum"):
        UniversumSVC(kernel="precomputed", n_averages=3).fit(X @ X.T, y)
