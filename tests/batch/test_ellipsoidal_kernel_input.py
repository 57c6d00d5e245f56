"""EllipsoidalKernelClassifier: invariances, input, degenerate data and life in scikit-learn."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from oblong import EllipsoidalKernelClassifier, MinimumVolumeEllipsoid
from tests.batch.data import clouds, real
from tests.batch.test_ellipsoidal_kernel import assert_same, fit


@parametrize_with_checks(
    [
        EllipsoidalKernelClassifier(),
        EllipsoidalKernelClassifier(kernel="linear", coverage=0.8, tol=1e-9, estimator_tol=1e-9),
        EllipsoidalKernelClassifier(shape="covariance", rank=3, tol=1e-9),
        EllipsoidalKernelClassifier(shape="none"),
    ]
)
@pytest.mark.filterwarnings("ignore:The ellipsoid is determined by a simplex")
def test_estimator_checks(estimator, check):
    check(estimator)


# Invariances --------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 5),
    exponent=st.floats(0.0, 6.0),
    coverage=st.sampled_from([1.0, 0.9, 0.65]),
    shape=st.sampled_from(["mvee", "covariance"]),
)
def test_affine_maps_change_nothing(seed, d, exponent, coverage, shape):
    """Any invertible affine map, with a condition number up to a million."""
    rng = np.random.default_rng(seed)
    X, y = clouds(12 * d + 20, d=d, seed=seed)
    new = 2 * rng.normal(size=(50, d))
    left, right = (np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(2))
    G = left @ np.diag(np.logspace(0, -exponent, d)) @ right * 10.0 ** rng.uniform(-3, 3)
    h = np.linalg.norm(G) * rng.normal(size=d)
    params = {"kernel": "linear", "coverage": coverage, "shape": shape}
    one, other = fit(X, y, **params), fit(X @ G + h, y, **params)
    before, after = one.decision_function(new), other.decision_function(new @ G + h)
    assert_same(before, after, 1e-5)
    sure = np.abs(before) > 1e-4 * np.abs(before).max()
    assert np.array_equal(one.predict(new)[sure], other.predict(new @ G + h)[sure])


@pytest.mark.parametrize(
    "params",
    [
        {"kernel": "linear"},
        {"kernel": "linear", "coverage": 0.7},
        {"kernel": "linear", "shape": "covariance"},
        {"rank": 5, "coverage": 0.8},
        {"coverage": 0.8, "gamma": 0.2},
        {"kernel": "linear", "class_weight": "balanced"},
        {"kernel": "linear", "center": False, "coverage": 0.8},
    ],
)
@pytest.mark.parametrize("classes", [2, 3])
def test_weights_equal_copies(params, classes):
    X, y = clouds(80, classes=classes, seed=2)
    counts = np.random.default_rng(2).integers(0, 4, size=80)
    weighted = fit(X, y, counts.astype(float), **params)
    copies = fit(np.repeat(X, counts, axis=0), np.repeat(y, counts), **params)
    assert_same(copies.decision_function(X), weighted.decision_function(X), 1e-4)
    np.testing.assert_allclose(weighted.objective_, copies.objective_, rtol=1e-5)
    assert not np.isin(weighted.support_, np.flatnonzero(counts == 0)).any()


def test_class_weights_leave_the_ellipsoid_alone():
    X, y = clouds(80)
    one = fit(X, y, kernel="linear", coverage=0.8)
    other = fit(X, y, kernel="linear", coverage=0.8, class_weight={0: 5.0, 1: 1.0})
    np.testing.assert_array_equal(one.ellipsoid_.weights_, other.ellipsoid_.weights_)
    assert np.mean(other.predict(X) == 0) > np.mean(one.predict(X) == 0)


def test_one_ellipsoid_for_all_classes():
    X, y = clouds(90, classes=3)
    machine = fit(X, y, kernel="linear", coverage=0.9)
    alone = MinimumVolumeEllipsoid(coverage=0.9, tol=1e-9).fit(X)
    np.testing.assert_allclose(machine.ellipsoid_.shape_, alone.shape_, rtol=1e-12)
    assert machine.coef_.shape == (3, 3)
    renamed = fit(X, np.array(["c", "a", "b"])[y], kernel="linear", coverage=0.9)
    np.testing.assert_allclose(renamed.ellipsoid_.shape_, alone.shape_, rtol=1e-12)


def test_order_and_interior_rows_change_nothing():
    X, y = clouds(60)
    rng = np.random.default_rng(1)
    order = rng.permutation(60)
    machine = fit(X, y, kernel="linear")
    permuted = fit(X[order], y[order], kernel="linear")
    assert_same(machine.decision_function(X), permuted.decision_function(X))
    # A row at the centre, far from the street on its own side, moves nothing.
    inside = X[np.argmax(np.where(y == 1, machine.decision_function(X), -np.inf))] * 0.999
    more = fit(np.vstack([X, inside]), np.append(y, 1), kernel="linear")
    assert_same(machine.decision_function(X), more.decision_function(X))


@pytest.mark.parametrize("params", [{"kernel": "linear"}, {"rank": 6}, {"shape": "covariance"}])
def test_containers_and_precision(params):
    X, y = clouds(90, classes=3)
    X[np.abs(X) < 0.3] = 0.0
    dense = fit(X, y, **params)
    for rows in (sp.csr_matrix(X), sp.csc_matrix(X), np.asfortranarray(X)):
        other = fit(rows, y, **params)
        assert_same(dense.decision_function(X), other.decision_function(rows))
        assert_same(dense.decision_function(X), other.decision_function(X))
    single = EllipsoidalKernelClassifier(C=10.0, **params).fit(X.astype(np.float32), y)
    assert single.support_vectors_.dtype == np.float32
    outputs = single.decision_function(X.astype(np.float32))
    assert_same(dense.decision_function(X), outputs, 1e-2)


# Degenerate input ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["mvee", "covariance"])
def test_flat_data(shape):
    """Constant and collinear features change nothing, unseen directions are ignored."""
    X, y = clouds(60)
    flat = np.column_stack([X, np.full(60, 0.1), X @ [1.0, -2.0, 0.5]])
    one = fit(X, y, kernel="linear", shape=shape)
    other = fit(flat, y, kernel="linear", shape=shape)
    assert other.ellipsoid_.rank_ == 3
    assert_same(one.decision_function(X), other.decision_function(flat))
    off = flat + 5.0 * np.eye(5)[3]
    assert_same(other.decision_function(flat), other.decision_function(off))


@pytest.mark.filterwarnings("ignore:The ellipsoid is determined by a simplex")
def test_two_rows_and_wide_rows():
    pair = fit(np.array([[0.0, 1.0], [2.0, 1.0]]), [0, 1], kernel="linear")
    np.testing.assert_allclose(pair.decision_function([[0.0, 1.0], [2.0, 5.0]]), [-1, 1], atol=1e-6)
    X, y = clouds(20, d=50)
    with pytest.warns(UserWarning, match="simplex"):
        wide = fit(X, y, kernel="linear")
    assert wide.ellipsoid_.rank_ == 19
    np.testing.assert_allclose(np.abs(wide.decision_function(X)), 1.0, atol=0.1)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_rows_that_are_all_the_same(kernel):
    with pytest.raises(ValueError, match=r"same|distinct|identical"):
        fit(np.ones((6, 2)), [0, 1, 0, 1, 0, 1], kernel=kernel)


@pytest.mark.parametrize(
    "params",
    [
        {"coverage": 1.1},
        {"coverage": -0.1},
        {"E": 0.0},
        {"rank": 0},
        {"ridge": 0.0},
        {"shape": "sphere"},
        {"estimator_tol": 0.0},
        {"C": 0.0},
    ],
)
def test_bad_parameters(params):
    X, y = clouds(20)
    with pytest.raises(ValueError, match=next(iter(params))):
        fit(X, y, **params)


def test_a_failed_fit_leaves_the_machine_as_it_was():
    X, y = clouds(40)
    machine = fit(X, y, kernel="linear")
    before = machine.decision_function(X)
    with pytest.raises(ValueError, match=r"same|distinct|identical"):
        machine.fit(np.ones((6, 2)), [0, 1, 0, 1, 0, 1])
    np.testing.assert_array_equal(machine.decision_function(X), before)


def test_steps_out_of_reach_are_reported():
    X, y = clouds(200)
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        machine = fit(X, y, kernel="linear", max_iter=1)
    assert not machine.converged_


def test_refitting_with_another_kernel():
    X, y = clouds(60)
    machine = EllipsoidalKernelClassifier(rank=5).fit(X, y)
    assert not hasattr(machine, "coef_")
    fresh = EllipsoidalKernelClassifier(kernel="linear").fit(X, y)
    machine.set_params(kernel="linear", rank=None).fit(X, y)
    np.testing.assert_array_equal(machine.decision_function(X), fresh.decision_function(X))


def test_rows_may_change_after_the_fit():
    X, y = clouds(60)
    machine = fit(X, y, rank=5)
    new = clouds(10, seed=3)[0]
    before = machine.decision_function(new)
    X[:] = 0.0
    np.testing.assert_array_equal(machine.decision_function(new), before)


def test_life_in_scikit_learn():
    X, y = real("iris", 120)
    search = GridSearchCV(
        EllipsoidalKernelClassifier(kernel="linear"), {"coverage": [0.7, 1.0], "C": [1, 100]}, cv=3
    ).fit(X, y)
    assert search.best_score_ > 0.9
    machine = search.best_estimator_
    again = pickle.loads(pickle.dumps(machine))
    np.testing.assert_array_equal(again.predict(X), machine.predict(X))
    assert clone(machine).get_params() == machine.get_params()
