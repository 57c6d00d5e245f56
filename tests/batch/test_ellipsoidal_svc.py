"""EllipsoidalSVC: its problem and its regimes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from oblong import EllipsoidalSVC
from tests.batch.data import clouds
from tests.batch.ellipsoidal import FIXTURE, LABELS, cosine, fit, separable
from tests.reference.ellipsoidal_svm import ellipsoidal_svm


def test_signature_of_the_contract():
    defaults = EllipsoidalSVC().get_params()
    expected = {
        "nu": 0.2,
        "r": 0.99,
        "margin": "soft",
        "formulation": "consistent",
        "fit_intercept": True,
        "normalize": False,
        "rank": None,
        "solver": "auto",
        "kernel": "rbf",
        "gamma": "scale",
        "tol": 1e-6,
        "max_iter": -1,
        "class_weight": None,
        "warm_start": False,
        "verbose": 0,
    }
    assert expected.items() <= defaults.items()


# The problem --------------------------------------------------------------------------------------


def test_fixture():
    machine = fit(FIXTURE, LABELS, formulation="paper", nu=0.5, r=0.9)
    assert machine.objective_[0] == pytest.approx(4.6990279002, abs=1e-8)
    np.testing.assert_allclose(machine.coef_, [[0.25159552, 0.42827638]], atol=1e-7)
    assert machine.intercept_[0] == pytest.approx(-0.07422582, abs=1e-7)
    B = [[0.17319142, -0.01690228], [-0.01690228, 0.23208504]]
    np.testing.assert_allclose(machine.B_, B, atol=1e-7)
    assert machine.weight_norm_[0] == pytest.approx(0.496710, abs=1e-5)


@pytest.mark.parametrize(
    ("X", "alpha", "w", "b", "r_star"),
    [
        ([(1.0, 0.0), (-1.0, 0.0)], 0.9 - 0.5, (1, 0), 0.0, 0.5),
        ([(1.0, 0.0), (0.0, 1.0)], 0.9 * 2**0.5 - 0.1, (2**-0.5, -(2**-0.5)), 0.0, None),
        ([(2.0,), (1.0,)], 0.9 - 0.1 / 5, (1,), -1.2, None),
    ],
)
def test_two_rows_in_closed_form(X, alpha, w, b, r_star):
    machine = fit(np.array(X), [1, -1], margin="hard", formulation="paper", r=0.9)
    np.testing.assert_allclose(machine.coef_[0], w, atol=1e-7)
    assert machine.intercept_[0] == pytest.approx(b, abs=1e-7)
    length = np.linalg.norm(alpha * (np.array(X[0]) - X[1]))
    np.testing.assert_allclose(machine.dual_coef_[0], [alpha / length, -alpha / length], atol=1e-6)
    if r_star is not None:
        assert machine.r_star_[0] == pytest.approx(r_star)


@pytest.mark.parametrize("formulation", ["consistent", "paper"])
@pytest.mark.parametrize("fit_intercept", [True, False, "augment"])
@pytest.mark.parametrize(("nu", "r", "seed"), [(0.2, 0.99, 0), (0.7, 0.5, 1), (0.02, 0.9, 2)])
def test_agrees_with_a_general_solver(formulation, fit_intercept, nu, r, seed):
    X, y = clouds(30, d=2, seed=seed)
    X[:, 1] *= 3.0
    signs = np.where(y == 1, 1.0, -1.0)
    machine = fit(X, y, formulation=formulation, fit_intercept=fit_intercept, nu=nu, r=r)
    F = np.column_stack([X, np.ones(30)]) if fit_intercept == "augment" else X
    t = np.linalg.norm(F, axis=1)
    p = F.shape[1]
    if formulation == "paper":
        caps, pi = 1 / (nu * t**2), np.ones(30)
    else:
        caps, pi = r * p / (30 * nu * t), 1 / t
    value, w, b, B = ellipsoidal_svm(F, signs, caps, pi, r, fit_intercept is True)
    assert machine.objective_[0] == pytest.approx(value, abs=1e-5 * max(1.0, abs(value)))
    expected = F @ w + b
    outputs = machine.decision_function(X)
    np.testing.assert_allclose(outputs, expected, atol=2e-3 * np.abs(expected).max())
    np.testing.assert_allclose(machine.B_, B, atol=1e-3 * np.abs(B).max())
    norms = np.einsum("ij,jk,ik->i", F, machine.B_, F)
    np.testing.assert_allclose(machine.ellipsoid_norm(X), norms, rtol=1e-8)
    assert 0 <= machine.dual_gap_[0] <= 1e-9
    assert machine.converged_


def test_attributes_belong_together():
    X, y = clouds(60, d=3)
    machine = fit(X, y, nu=0.4)
    outputs = X @ machine.coef_[0] + machine.intercept_[0]
    np.testing.assert_allclose(machine.decision_function(X), outputs, atol=1e-12)
    rebuilt = machine.dual_coef_ @ machine.support_vectors_
    np.testing.assert_allclose(rebuilt, machine.coef_, atol=1e-6)
    np.testing.assert_array_equal(machine.support_vectors_, X[machine.support_])
    assert machine.support_.size < 60
    assert np.linalg.norm(machine.coef_) == pytest.approx(machine.weight_norm_[0])
    assert machine.effective_dim_[0] <= 3 + 1e-9
    assert machine.log_det() == pytest.approx(np.linalg.slogdet(machine.B_)[1])
    assert np.isnan(machine.r_star_).all()


# The regimes --------------------------------------------------------------------------------------


def test_regime_of_overlapping_classes():
    """For small nu the ball is not in the way, and the classifier does not depend on nu."""
    X, y = clouds(80, d=2, distance=0.7, seed=3)
    machines = [fit(X, y, nu=nu, r=1 - 1e-6, tol=1e-12) for nu in (1e-2, 1e-3, 1e-4)]
    assert all(machine.weight_norm_[0] < 0.5 for machine in machines)
    for machine, nu in zip(machines[1:], (1e-3, 1e-4)):
        factor = nu / 1e-2
        np.testing.assert_allclose(machine.coef_, factor * machines[0].coef_, rtol=2e-3)
        np.testing.assert_allclose(machine.B_, factor * machines[0].B_, rtol=2e-3)
        assert np.array_equal(machine.predict(X), machines[0].predict(X))
    # Coefficients of rows exist here too.
    rebuilt = machines[1].dual_coef_ @ machines[1].support_vectors_
    np.testing.assert_allclose(rebuilt, machines[1].coef_, atol=1e-8)
    # At a larger nu the ball is active.
    assert fit(X, y, nu=0.9).weight_norm_[0] == pytest.approx(1.0, abs=1e-6)


def test_hard_margin_without_a_separating_plane():
    X, y = clouds(60, d=2, distance=0.7, seed=3)
    with pytest.warns(UserWarning, match="no hyperplane separates"):
        hard = fit(X, y, margin="hard")
    soft = fit(X, y, nu=1e-3)
    np.testing.assert_allclose(hard.coef_, soft.coef_, rtol=1e-6)
    assert np.isnan(hard.r_star_[0])


@pytest.mark.parametrize("formulation", ["consistent", "paper"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_regime_from_the_support_vector_machine(formulation, fit_intercept):
    """At r_star the direction is the one of largest margin, in the units of the formulation."""
    X, y = separable()
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    params = {"margin": "hard", "formulation": formulation, "fit_intercept": fit_intercept}
    r_star = fit(X, y, r=0.9, **params).r_star_[0]
    rows, labels, svm_bias = X, y, True
    if not fit_intercept:
        rows, labels = np.vstack([X, -X]), np.append(y, -y)
        svm_bias = False
    svm = SVC(kernel="linear", C=1e8, tol=1e-8).fit(rows, labels)
    rho = 1 / np.linalg.norm(svm.coef_)
    assert r_star == pytest.approx(rho / (1 + rho), rel=1e-5)
    with pytest.warns(UserWarning, match="not above r_star_"):
        below = fit(X, y, r=0.9 * r_star, **params)
    assert cosine(below.coef_, svm.coef_) == pytest.approx(1.0, abs=1e-8)
    assert svm_bias == (below.intercept_[0] != 0.0)
    ball = 0.9 * r_star / (1 - 0.9 * r_star) * np.eye(3)
    np.testing.assert_allclose(below.B_, ball, atol=1e-6)
    just_above = fit(X, y, r=r_star + 1e-4 * (1 - r_star), **params)
    far_above = fit(X, y, r=0.999, **params)
    assert cosine(just_above.coef_, svm.coef_) > 0.999
    assert cosine(far_above.coef_, svm.coef_) < cosine(just_above.coef_, svm.coef_)


def test_regime_of_the_analytic_centre():
    """A nonsingular kernel and r near one: the point with the largest Σ log y f."""
    X, y = separable(40, d=2)
    signs = np.where(y == 1, 1.0, -1.0)
    K = rbf_kernel(X, gamma=2.0)
    machine = fit(
        X, y, kernel="rbf", gamma=2.0, margin="hard", r=1.0, fit_intercept=False, tol=1e-9
    )
    outputs = machine.decision_function(X)
    assert (signs * outputs > 0).all()
    # Optimality of max Σ log y f with c'Kc = 1: c is proportional to 1 / f.
    coef = np.linalg.solve(K, outputs)
    assert cosine(coef, 1 / outputs) == pytest.approx(1.0, abs=1e-6)
    assert machine.effective_dim_[0] == pytest.approx(40, rel=1e-3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("nu", [0.1, 0.4, 0.8])
def test_nu_bounds_the_errors(seed, nu):
    X, y = clouds(80, d=3, seed=seed, distance=0.8)
    machine = fit(X, y, nu=nu, r=0.999, tol=1e-11)
    signs = np.where(y == 1, 1.0, -1.0)
    t = np.linalg.norm(X, axis=1)
    q = machine.ellipsoid_norm(X) / t
    errors = q - signs * machine.decision_function(X) > 1e-6
    bound = nu * machine.effective_dim_[0] / 3
    assert np.mean(q / t * errors) <= bound + 1e-6
    weights = np.zeros(80)
    weights[machine.support_] = 1.0
    if machine.weight_norm_[0] > 0.999:
        assert np.mean(q / t * weights) >= bound - 1e-6


def test_regime_of_the_centroid():
    X, y = clouds(60, d=3, distance=2.0)
    machine = fit(X, y, nu=1.5, r=1 - 1e-6, fit_intercept=False)
    signs = np.where(y == 1, 1.0, -1.0)
    centroid = (signs / np.linalg.norm(X, axis=1)) @ X
    assert cosine(machine.coef_, centroid) == pytest.approx(1.0, abs=1e-6)
    assert machine.support_.size == 60


# Invariances --------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    exponent=st.floats(-6, 6),
    d=st.integers(1, 4),
    nu=st.sampled_from([0.05, 0.2, 0.6]),
)
def test_units_do_not_matter(seed, exponent, d, nu):
    X, y = clouds(25, d=d, seed=seed)
    one, other = fit(X, y, nu=nu), fit(X * 10.0**exponent, y, nu=nu)
    np.testing.assert_allclose(other.coef_, one.coef_, atol=1e-5)
    scale = np.abs(one.decision_function(X)).max()
    np.testing.assert_allclose(
        other.decision_function(X * 10.0**exponent) / 10.0**exponent,
        one.decision_function(X),
        atol=1e-5 * scale,
    )
    assert other.objective_[0] == pytest.approx(one.objective_[0], abs=1e-6)


def test_units_matter_in_the_paper():
    X, y = clouds(40)
    one, other = (fit(k * X, y, formulation="paper", nu=0.5) for k in (1.0, 10.0))
    assert cosine(one.coef_, other.coef_) < 1 - 1e-6
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    one = fit(unit, y, formulation="paper", nu=30.0 / 2)
    other = fit(X, y, formulation="paper", nu=30.0 / 2, normalize=True)
    np.testing.assert_allclose(other.coef_, one.coef_, atol=1e-8)


def test_without_intercept_only_directions_count():
    X, y = clouds(40)
    stretched = X * np.random.default_rng(0).uniform(0.1, 10, size=(40, 1))
    one, other = (fit(rows, y, fit_intercept=False) for rows in (X, stretched))
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-6)
    np.testing.assert_allclose(one.B_, other.B_, rtol=1e-5, atol=1e-6)


def test_rotations_rotate():
    X, y = clouds(40)
    Q = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    one, other = fit(X, y), fit(X @ Q, y)
    np.testing.assert_allclose(one.coef_ @ Q, other.coef_, atol=1e-6)
    np.testing.assert_allclose(Q.T @ one.B_ @ Q, other.B_, atol=1e-5 * np.abs(one.B_).max())


def test_solvers_agree():
    X, y = clouds(150, d=2, distance=3.0)
    ipm = fit(X, y, nu=0.5, solver="ipm")
    assert ipm.weight_norm_[0] == pytest.approx(1.0, abs=1e-6)
    for solver in ("newton", "smo"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            other = fit(X, y, nu=0.5, solver=solver, tol=1e-6)
        np.testing.assert_allclose(other.coef_, ipm.coef_, atol=5e-3)
        assert other.objective_[0] == pytest.approx(ipm.objective_[0], abs=1e-5)


# Kernels ------------------------------------------------------------------------------------------


def test_exact_problem():
    """Equation (5), of which the consistent formulation is a relaxation."""
    X, y = clouds(40, d=2, distance=2.0)
    t = np.linalg.norm(X, axis=1)
    exact = fit(X, y, formulation="exact", nu=1.0, r=0.9, tol=1e-5)
    assert 0 <= exact.dual_gap_[0] <= 1e-5
    assert exact.converged_
    signs = np.where(y == 1, 1.0, -1.0)
    half_axes = np.linalg.norm(X @ exact.B_, axis=1)
    slack = np.maximum(half_axes - signs * exact.decision_function(X), 0.0)
    value = -0.9 * np.linalg.slogdet(exact.B_)[1] + 0.1 * np.trace(exact.B_) + np.sum(slack / t**2)
    assert value == pytest.approx(exact.objective_[0], abs=1e-4)
    # The same prices, relaxed.
    relaxed, w, _, _ = ellipsoidal_svm(X, signs, 1 / t**2, 1 / t, 0.9)
    assert relaxed <= exact.objective_[0] + 1e-6
    assert cosine(exact.coef_, w) > 0.99
    hard = fit(*separable(20, d=2), formulation="exact", margin="hard", r=0.9, tol=1e-5)
    assert hard.score(*separable(20, d=2)) == 1.0
    assert 0.0 < hard.r_star_[0] < 0.9
