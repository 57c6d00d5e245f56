"""EllipsoidalKernelClassifier: its problem, special cases, invariances and input."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from sklearn.decomposition import KernelPCA
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

import oblong.batch.ellipsoidal_kernel as module
from oblong import EllipsoidalKernelClassifier, MinimumVolumeEllipsoid
from oblong.solvers.covariance.ellipsoidal_kernel import solve_ellipsoidal_kernel
from oblong.solvers.covariance.options import CovarianceOptions
from tests.batch.data import clouds, parallel_lines, real
from tests.reference.ellipsoidal_kernel import (
    ellipsoidal_machine,
    minimum_volume_ellipsoid,
    ridged_ellipsoid,
)


def fit(X, y, weight=None, **params) -> EllipsoidalKernelClassifier:
    params = {"tol": 1e-8, "estimator_tol": 1e-9, "C": 10.0, **params}
    return EllipsoidalKernelClassifier(**params).fit(X, y, sample_weight=weight)


def assert_same(one, other, atol=1e-6):
    scale = max(1.0, np.abs(one).max())
    np.testing.assert_allclose(other, one, atol=atol * scale)


def test_signature_of_the_contract():
    defaults = EllipsoidalKernelClassifier().get_params()
    assert defaults["coverage"] == 1.0
    assert defaults["E"] is None
    assert defaults["rank"] is None
    assert {"C", "kernel", "gamma", "tol", "estimator_tol", "class_weight"} <= set(defaults)


# The problem --------------------------------------------------------------------------------------


@pytest.mark.parametrize("coverage", [1.0, 0.7])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_solves_the_problem_as_printed(d, coverage):
    """Equation (5) by a general solver, with the ellipsoid found and with an independent one."""
    X, y = clouds(40, d=d)
    X = X @ np.random.default_rng(3).normal(size=(d, d)) + 4.0
    signs = np.where(y == 1, 1.0, -1.0)
    machine = fit(X, y, kernel="linear", coverage=coverage)
    ellipsoid = machine.ellipsoid_
    assert isinstance(ellipsoid, MinimumVolumeEllipsoid)
    C = np.full(40, 10.0)
    value, w, b = ellipsoidal_machine(X, signs, C, ellipsoid.center_, ellipsoid.shape_)
    assert machine.objective_[0] == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(machine.coef_[0], w, atol=1e-4 * np.abs(w).max())
    assert machine.intercept_[0] == pytest.approx(b, abs=1e-3 * max(1.0, abs(b)))
    if coverage == 1.0:
        center, shape = minimum_volume_ellipsoid(X)
        value, _, _ = ellipsoidal_machine(X, signs, C, center, shape)
        assert machine.objective_[0] == pytest.approx(value, rel=1e-3)


def test_objective_belongs_to_the_coefficients():
    X, y = clouds(80)
    signs = np.where(y == 1, 1.0, -1.0)
    machine = fit(X, y, kernel="linear", coverage=0.8)
    w, b = machine.coef_[0], machine.intercept_[0]
    hinge = np.maximum(1 - signs * (X @ w + b), 0).sum()
    value = 0.5 * w @ machine.ellipsoid_.shape_ @ w + 10.0 * hinge
    assert machine.objective_[0] == pytest.approx(value, rel=1e-7)
    assert -1e-12 <= machine.dual_gap_[0] < 1e-6
    assert machine.ellipsoid_.gap_ <= 1e-9
    assert machine.converged_


@pytest.mark.parametrize("shape", ["mvee", "covariance"])
@pytest.mark.parametrize("classes", [2, 3])
def test_transform_then_svm(shape, classes):
    X, y = clouds(90, classes=classes)
    machine = fit(X, y, kernel="linear", shape=shape, decision_function_shape="ovo")
    if shape == "covariance":
        mean, factor = X.mean(axis=0), np.linalg.cholesky(np.linalg.inv(np.cov(X.T, bias=True)))
    else:
        mean, factor = machine.ellipsoid_.center_, machine.ellipsoid_.factor_
    T = (X - mean) @ factor
    svm = SVC(kernel="linear", C=10.0, tol=1e-9, decision_function_shape="ovo").fit(T, y)
    assert_same(svm.decision_function(T), machine.decision_function(X), 1e-5)
    assert_same(svm.coef_ @ factor.T, machine.coef_, 1e-5)
    assert np.array_equal(svm.predict(T), machine.predict(X))


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_without_a_shape_it_is_the_svm(kernel):
    X, y = real("iris", 150)
    rows = rbf_kernel(X) if kernel == "precomputed" else X
    machine = fit(rows, y, kernel=kernel, shape="none", decision_function_shape="ovo")
    svm = SVC(kernel=kernel, C=10.0, tol=1e-8, decision_function_shape="ovo").fit(rows, y)
    np.testing.assert_allclose(
        machine.decision_function(rows), svm.decision_function(rows), atol=1e-3
    )
    assert machine.ellipsoid_ is None
    assert np.array_equal(machine.n_support_, svm.n_support_)


def test_coverage_zero_is_the_covariance():
    X, y = clouds(70)
    assert_same(
        fit(X, y, kernel="linear", shape="covariance").decision_function(X),
        fit(X, y, kernel="linear", coverage=0.0).decision_function(X),
    )


@pytest.mark.parametrize("params", [{"kernel": "linear"}, {"rank": 3}])
def test_many_rows(params, monkeypatch):
    """The solver for many rows gives what the one for few gives."""
    # More rows in a pair than the solver of linear classifiers takes pair steps on.
    X, y = clouds(330, classes=3)
    few = fit(X, y, **params)
    by_weights = partial(solve_ellipsoidal_kernel, options=CovarianceOptions(linear_from=50))
    monkeypatch.setattr(module, "solve_ellipsoidal_kernel", by_weights)
    many = fit(X, y, **params)
    assert_same(few.decision_function(X), many.decision_function(X))
    np.testing.assert_allclose(many.objective_, few.objective_, rtol=1e-6)
    assert np.array_equal(few.support_, many.support_)
    assert_same(few.dual_coef_, many.dual_coef_, 1e-4)
    assert not np.array_equal(few.n_iter_, many.n_iter_)
    assert (many.dual_gap_ <= 1e-6).all()


def test_price_instead_of_coverage():
    X, y = clouds(90)
    soft = fit(X, y, kernel="linear", coverage=0.7)
    priced = fit(X, y, kernel="linear", E=soft.ellipsoid_.E_)
    assert_same(soft.decision_function(X), priced.decision_function(X), 1e-3)
    hard = fit(X, y, kernel="linear", E=1e6)
    assert_same(fit(X, y, kernel="linear").decision_function(X), hard.decision_function(X), 1e-5)


@pytest.mark.parametrize("stretch", [1.0, 1000.0])
def test_stretching_does_not_turn_the_machine(stretch):
    X, y = parallel_lines(stretch)
    w = fit(X, y, kernel="linear", C=1e4).coef_[0]
    unstretched = fit(parallel_lines(1.0)[0], y, kernel="linear", C=1e4).coef_[0]
    np.testing.assert_allclose(w * [stretch, 1], unstretched, rtol=1e-3)


@pytest.mark.parametrize("seed", range(6))
def test_margins_of_the_separable_toy(seed):
    """In the unit ball the machine has the wider street, in the original space the SVM has."""
    rng = np.random.default_rng(seed)
    spread = np.linalg.cholesky([[17.0, 15.0], [15.0, 17.0]])
    X = np.repeat([[1.0, 1.0], [50.0, 25.0]], 50, axis=0) + rng.normal(size=(100, 2)) @ spread.T
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    y = np.repeat([0, 1], 50)
    ekm = fit(X, y, kernel="linear", C=1e6)
    svm = fit(X, y, kernel="linear", C=1e6, shape="none")
    shape = ekm.ellipsoid_.shape_
    original = [2 / np.linalg.norm(m.coef_[0]) for m in (svm, ekm)]
    ball = [2 / np.sqrt(m.coef_[0] @ shape @ m.coef_[0]) for m in (svm, ekm)]
    assert original[0] > 1.05 * original[1]
    assert ball[1] > 1.05 * ball[0]


# Kernels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("coverage", [1.0, 0.7])
@pytest.mark.parametrize("classes", [2, 3])
def test_routes_to_the_linear_machine_agree(center, coverage, classes):
    X, y = clouds(80, classes=classes)
    X = X * [1.0, 20.0, 0.1] + [1.0, 0.0, 0.3]
    new = 3 * clouds(30, seed=5)[0]
    params = {"coverage": coverage, "center": center}
    direct = fit(X, y, kernel="linear", **params)
    matrix = fit(X @ X.T, y, kernel="precomputed", rank=80, **params)
    components = fit(X, y, kernel="linear", rank=3, **params)
    called = fit(X, y, kernel=lambda A, B: A @ B.T, rank=80, **params)
    expected = direct.decision_function(new)
    assert_same(expected, matrix.decision_function(new @ X.T))
    assert_same(expected, components.decision_function(new))
    assert_same(expected, called.decision_function(new))
    assert_same(direct.coef_, components.coef_)
    assert np.array_equal(direct.support_, matrix.support_)
    assert_same(direct.dual_coef_, matrix.dual_coef_, 1e-5)


@pytest.mark.parametrize("center", [True, False])
def test_kernel_machine_is_the_linear_one_on_principal_components(center):
    X, y = clouds(90, classes=3)
    new = clouds(40, seed=6)[0]
    machine = fit(X, y, gamma=0.3, rank=7, coverage=0.9, center=center)
    assert machine.ellipsoid_.rank_ == 7
    if center:
        pca = KernelPCA(7, kernel="rbf", gamma=0.3).fit(X)
        train, test = pca.transform(X), pca.transform(new)
    else:
        values, vectors = np.linalg.eigh(rbf_kernel(X, gamma=0.3))
        basis = vectors[:, -7:] / np.sqrt(values[-7:])
        train, test = (rbf_kernel(Z, X, gamma=0.3) @ basis for Z in (X, new))
    explicit = fit(train, y, kernel="linear", coverage=0.9, center=center)
    assert_same(explicit.decision_function(test), machine.decision_function(new), 1e-5)
    assert np.array_equal(explicit.support_, machine.support_)


def test_default_rank():
    X, y = real("digits", 300)
    machine = fit(X, y > 4, tol=1e-3, estimator_tol=1e-6)
    assert 1 < machine.ellipsoid_.rank_ <= 30
    assert machine.score(X, y > 4) > 0.8
    assert fit(X, y > 4, rank=60, tol=1e-3, estimator_tol=1e-6).ellipsoid_.rank_ == 60


@pytest.mark.filterwarnings("ignore:The ellipsoid is determined by a simplex")
def test_full_rank_has_no_shape():
    """The rows of a nonsingular kernel matrix are a simplex: weights are equal, labels are met."""
    X, y = clouds(40)
    with pytest.warns(UserWarning, match="simplex"):
        machine = fit(X, y, gamma=5.0, rank=40)
    np.testing.assert_allclose(machine.ellipsoid_.weights_, 1 / 40, atol=1e-6)
    np.testing.assert_allclose(np.abs(machine.decision_function(X)), 1.0, atol=0.1)


@pytest.mark.parametrize("shape", ["mvee", "covariance"])
def test_indefinite_kernels(shape):
    K = np.diag([1.0, 1.0, 1.0, -1.0])
    with pytest.raises(ValueError, match="positive semidefinite"):
        fit(K, [0, 0, 1, 1], kernel="precomputed", shape=shape)


@pytest.mark.parametrize("ridge", [0.01, 1.0])
@pytest.mark.parametrize("E", [None, 0.05])
def test_ridge_agrees_with_a_conic_solver(ridge, E):
    X, y = clouds(30)
    machine = fit(X, y, kernel="linear", center=False, ridge=ridge, E=E)
    shape = ridged_ellipsoid(X, ridge, np.inf if E is None else 2.0 * E)
    np.testing.assert_allclose(machine.ellipsoid_.shape_, shape, atol=1e-3 * np.abs(shape).max())
    signs = np.where(y == 1, 1.0, -1.0)
    value, _, _ = ellipsoidal_machine(X, signs, np.full(30, 10.0), np.zeros(3), shape)
    assert machine.objective_[0] == pytest.approx(value, rel=1e-3)


@pytest.mark.filterwarnings("ignore:The ellipsoid is determined by a simplex")
@pytest.mark.parametrize("center", [True, False])
def test_ridge_by_either_route(center):
    X, y = clouds(50)
    new = clouds(20, seed=4)[0]
    direct = fit(X, y, kernel="linear", ridge=0.5, center=center)
    matrix = fit(X @ X.T, y, kernel="precomputed", ridge=0.5, center=center)
    assert_same(direct.decision_function(new), matrix.decision_function(new @ X.T), 1e-5)
    assert fit(X, y, gamma=1.0, ridge=0.1).ellipsoid_.rank_ > 40
    assert fit(X, y, gamma=1.0, ridge=0.1, rank=5).ellipsoid_.rank_ == 5
