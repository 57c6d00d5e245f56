"""Penalties, weights and kernel values near the ends of what numbers can be."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from oblong import (
    EllipsoidalKernelClassifier,
    EllipsoidalSVC,
    KernelFisherClassifier,
    LinearRelativeMarginClassifier,
    MarginRegressor,
    RelativeMarginClassifier,
    SigmaSVC,
    UniversumSVC,
)
from oblong.svm import SVC, SVR, LinearSVC

LD = np.longdouble
pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

STAIRS = np.array([[0.0], [1e-6], [2e-6], [3e-6]])


def test_svc__a_large_penalty_is_the_one_asked_for():
    model = SVC(kernel="linear", C=1e13).fit(STAIRS, [0, 0, 1, 1])
    np.testing.assert_allclose(model.decision_function(STAIRS), [-3, -1, 1, 3], rtol=1e-6)
    assert model.objective_[0] == pytest.approx(2e12, rel=1e-6)
    assert model.converged_


def test_svr__a_large_penalty_is_the_one_asked_for():
    model = SVR(kernel="linear", C=1e13, epsilon=0.0).fit(STAIRS, [0.0, 1.0, 2.0, 3.0])
    np.testing.assert_allclose(model.predict(STAIRS), [0, 1, 2, 3], atol=1e-6)
    assert model.converged_


PENALISED = [
    SVC, SVR, LinearSVC, MarginRegressor, RelativeMarginClassifier, SigmaSVC, UniversumSVC,
    LinearRelativeMarginClassifier, EllipsoidalKernelClassifier,
]  # fmt: skip


@pytest.mark.parametrize("kind", PENALISED)
def test_fit__an_infinite_penalty_is_refused(kind):
    with pytest.raises(ValueError, match="'C' parameter"):
        kind(C=np.inf).fit(STAIRS, [0, 0, 1, 1])


@pytest.mark.parametrize("kind", PENALISED)
def test_fit__a_penalty_that_overflows_with_a_weight_is_refused(kind):
    with pytest.raises(ValueError, match="times the weight of a row"):
        kind(C=1e300).fit(1e6 * STAIRS, [0, 0, 1, 1], sample_weight=[1.0, 1e12, 1.0, 1.0])


def universum_gap(model, X, y, U):
    """True gap of a linear model over the best of a few other biases, in long double."""
    signs = np.where(y == model.classes_[1], 1, -1).astype(LD)
    w, b, width = model.coef_[0].astype(LD), LD(model.intercept_[0]), LD(model.epsilon)

    def objective(w, b):
        slack = np.maximum(0, 1 - signs * (X.astype(LD) @ w + b)).sum()
        excess = np.maximum(0, np.abs(U.astype(LD) @ w + b) - width).sum()
        return w @ w / 2 + LD(model.C) * slack + LD(model.C_universum) * excess

    value = objective(w, b)
    others = [(w, b * (1 - LD(1e-14))), (0 * w, width), (0 * w, -width)]
    return float((value - min(value, *(objective(*other) for other in others))) / value)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_universum_svc__the_gap_covers_the_rounding_of_the_universum():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, U = rng.normal(size=(12, 3)), rng.normal(size=(8, 3))
        y = (np.arange(12) < 4).astype(int)
        model = UniversumSVC(
            C=10 ** rng.uniform(-11, -4), C_universum=10 ** rng.uniform(4, 9),
            epsilon=rng.choice([0.1, 0.3]), kernel="linear",
        ).fit(X, y, X_universum=U)  # fmt: skip
        assert universum_gap(model, X, y, U) <= 1.01 * model.dual_gap_[0] + 1e-12


def nearly_semidefinite():
    """Rows whose sigmoid kernel matrix has a small negative eigenvalue."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(12, 2))
    gamma = 1e-3
    values = np.linalg.eigvalsh(np.tanh(gamma * X @ X.T))
    assert -1e-6 < values[0] / values[-1] < -1e-9
    return X, (np.arange(12) % 2), gamma


@pytest.mark.parametrize("kind", [RelativeMarginClassifier, SVC, UniversumSVC, SVR])
def test_sigmoid__an_indefinite_matrix_is_not_certified(kind):
    X, y, gamma = nearly_semidefinite()
    model = kind(kernel="sigmoid", gamma=gamma)
    if kind is RelativeMarginClassifier:
        model.set_params(spread=1.0)
    with pytest.warns(ConvergenceWarning, match="not positive semidefinite"):
        model.fit(X, y)
    assert np.all(np.isinf(model.dual_gap_))
    assert not model.converged_


@pytest.mark.parametrize("kind", [RelativeMarginClassifier, SigmaSVC, KernelFisherClassifier])
def test_sigmoid__an_indefinite_matrix_is_refused(kind):
    X, y, gamma = nearly_semidefinite()
    with pytest.raises(ValueError, match="not positive semidefinite"):
        kind(kernel="sigmoid", gamma=gamma).fit(X, y)


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e150, 1e200, 1e300])
@pytest.mark.parametrize("shape", ["mvee", "covariance"])
def test_ellipsoidal_kernel__kernel_values_of_any_size_are_certified(size, shape):
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(30, 3))) + 3.0
    y = (X[:, 0] > 3.7).astype(int)
    model = EllipsoidalKernelClassifier(kernel=lambda A, B: size * (A @ B.T), shape=shape)
    model.fit(X, y)
    assert model.converged_
    assert model.dual_gap_[0] <= 1e-3


def test_kernel_fisher__labels_are_not_those_of_rounding():
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(30, 3))) + 3.0
    y = (X[:, 0] > 3.7).astype(int)
    model = KernelFisherClassifier(kernel="sigmoid", gamma=10.0).fit(X, y)
    assert model.converged_
    assert not model.decision_function(X).any()
    assert len({model.predict(row[None])[0] for row in X} | set(model.predict(X))) == 1


def test_decision_function__outputs_beyond_single_precision_are_given():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2)).astype(np.float32)
    y = np.arange(20) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KernelFisherClassifier(kernel="poly", degree=8, gamma=1e10).fit(X, y)
    model.dual_coef_ *= 1e60
    outputs = model.decision_function(X)
    assert np.isfinite(outputs).all()
    assert np.abs(outputs).max() > np.finfo(np.float32).max


def test_relative_margin__outputs_may_be_all_but_zero():
    X = np.array([[0.0], [5e-324]])
    for kind in (RelativeMarginClassifier, LinearRelativeMarginClassifier):
        model = kind(C=1e-10, spread=1.0)
        if kind is RelativeMarginClassifier:
            model.set_params(kernel="linear")
        model.fit(X, [0, 1])
        assert model.relative_margin_[0] > 0.0


def test_ellipsoidal_svc__rows_too_short_for_penalties_are_refused():
    rng = np.random.default_rng(0)
    X = 1e-160 * rng.normal(size=(12, 2))
    model = EllipsoidalSVC(kernel="linear", formulation="paper")
    with pytest.raises(ValueError, match="scale the columns"):
        model.fit(X, np.arange(12) % 2)


def test_kernel__gamma_may_be_the_largest_number():
    X = 1e-154 * np.random.default_rng(0).normal(size=(12, 2))
    RelativeMarginClassifier(gamma=1.7e308).fit(X, np.arange(12) % 2)


@pytest.mark.parametrize("solver", ["newton", "ipm"])
def test_ellipsoidal_svc__the_objective_is_that_of_all_penalties(solver):
    # The penalty of the last row is a million times what the other class can balance.
    X, y = np.array([[4.0], [0.0], [0.0], [0.0], [0.0]]), [0, 1, 0, 0, 0]
    weights = np.array([1e2, 0.2, 0.02, 0.005, 8e4])
    nu, r = 8e-4, 0.5
    model = EllipsoidalSVC(kernel="rbf", gamma=0.01, nu=nu, r=r, solver=solver)
    model.fit(X, y, sample_weight=weights)
    G = model._factors[0]
    penalties = weights * (r * len(G) / (weights.sum() * nu))
    side = np.where(y, 1.0, -1.0) * model.decision_function(X)
    value = -r * (len(G) * np.log(r) + 2.0 * np.log(np.abs(G.diagonal())).sum())
    value += (1.0 - r) * r * (G**2).sum()
    value += penalties @ np.maximum(model.ellipsoid_norm(X) - side, 0.0)
    assert model.objective_[0] == pytest.approx(value, abs=1e-9)


def test_kernel_fisher__a_class_may_weigh_next_to_nothing():
    X, y = np.arange(4.0)[:, None], np.array([1, 1, 1, 0])
    weights = np.array([6e5, 3e5, 2e5, 1.743e-6])
    model = KernelFisherClassifier(alpha=1e20).fit(X, y, sample_weight=weights)
    total, light = LD(weights.sum()), LD(weights[3])
    # With such a ridge the weight vector is zero.
    loss = total**2 / (2 * LD(1e20)) * (1 / light + 1 / (total - light))
    assert model.objective_[0] == pytest.approx(float(loss), rel=1e-9)
