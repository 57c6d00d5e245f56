"""EllipsoidalSVC: its problem, its regimes, kernels and the metric."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from oblong import EllipsoidalSVC
from tests.batch.data import clouds, real
from tests.reference.ellipsoidal_svm import ellipsoidal_svm

FIXTURE = np.array(
    [(2, 1), (1, 2), (1.5, 0.2), (-0.2, 0.4), (-1, -1), (-2, 0.5), (0.5, -1.5), (0.3, 0.6)]
)
LABELS = np.repeat([1, -1], 4)


def fit(X, y, weight=None, **params) -> EllipsoidalSVC:
    params = {"kernel": "linear", "tol": 1e-9, **params}
    return EllipsoidalSVC(**params).fit(X, y, sample_weight=weight)


def separable(n=30, d=3, seed=0, gap=0.5):
    """Rows on either side of a random plane through the origin, at a distance from it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    w = rng.normal(size=d)
    w /= np.linalg.norm(w)
    y = np.where(X @ w > 0, 1, -1)
    y[0], X[0] = 1, w
    y[1], X[1] = -1, -w
    return X + gap * y[:, None] * w, y


def cosine(a, b):
    a, b = np.ravel(a), np.ravel(b)
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


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


@pytest.mark.parametrize("fit_intercept", [True, "augment"])
@pytest.mark.parametrize("normalize", [True, False])
def test_quadratic_kernel_is_linear_in_its_features(fit_intercept, normalize):
    X, y = clouds(40, d=2)
    root = np.sqrt(2)
    phi = np.column_stack([X[:, 0] ** 2, X[:, 1] ** 2, root * X[:, 0] * X[:, 1], root * X, X[:, 0]])
    phi[:, -1] = 1.0
    common = {"fit_intercept": fit_intercept, "normalize": normalize}
    linear = fit(phi, y, **common)
    kernel = fit(X, y, kernel="poly", degree=2, gamma=1.0, coef0=1.0, **common)
    called = fit(X, y, kernel=lambda A, B: polynomial_kernel(A, B, 2, 1.0, 1.0), **common)
    new = clouds(20, d=2, seed=5)[0]
    lifted = np.column_stack(
        [new[:, 0] ** 2, new[:, 1] ** 2, root * new[:, 0] * new[:, 1], root * new, np.ones(20)]
    )
    for machine in (kernel, called):
        for ours, theirs in [
            (machine.decision_function(new), linear.decision_function(lifted)),
            (machine.ellipsoid_norm(new), linear.ellipsoid_norm(lifted)),
            (machine.metric(new, X), linear.metric(lifted, phi)),
        ]:
            np.testing.assert_allclose(ours, theirs, atol=1e-5 * np.abs(theirs).max())
        assert machine.log_det() == pytest.approx(linear.log_det(relative=True), abs=1e-5)
        assert machine.dual_gap_[0] <= 1e-9


def test_fewer_rows_than_features():
    """The machine in the span of the rows is the machine; B goes on outside of it."""
    X, y = clouds(12, d=30)
    machine = fit(X, y)
    padded = np.linalg.qr(np.random.default_rng(0).normal(size=(30, 30)))[0]
    assert machine.coef_.shape == (1, 30)
    assert machine.B_.shape == (30, 30)
    rotated = fit(X @ padded, y)
    np.testing.assert_allclose(machine.coef_ @ padded, rotated.coef_, atol=1e-6)
    new = clouds(9, d=30, seed=2)[0]
    inside = np.einsum("ij,jk,ik->i", new, machine.B_, new)
    np.testing.assert_allclose(machine.ellipsoid_norm(new), inside, rtol=1e-8)
    differences = new[:, None] - X[None]
    expected = np.einsum("ijk,kl,ijl->ij", differences, machine.B_, differences)
    np.testing.assert_allclose(machine.metric(new, X), expected, rtol=1e-8)
    assert machine.log_det() == pytest.approx(np.linalg.slogdet(machine.B_)[1])
    # The same machine by the pivots of the kernel matrix.
    pivots = fit(X, y, kernel=lambda A, B: A @ B.T)
    np.testing.assert_allclose(pivots.decision_function(new), machine.decision_function(new))


def test_features_without_use_are_harmless():
    X, y = clouds(40)
    machine = fit(X, y)
    wide = fit(np.column_stack([X, np.zeros(40)]), y)
    np.testing.assert_allclose(wide.coef_[0], [*machine.coef_[0], 0.0], atol=1e-7)
    constant = fit(np.column_stack([X, np.full(40, 0.3)]), y)
    assert abs(constant.coef_[0, -1]) < 1e-3


def test_rbf_metric_in_terms_of_the_dual():
    """xᵀBx = r/(1-r) (k(x,x) - |L⁻¹ A^½ k(x)|²) with L Lᵀ = (1-r) I + A^½ K A^½."""
    X, y = clouds(30, d=2)
    r, gamma = 0.9, 0.5
    machine = fit(X, y, kernel="rbf", gamma=gamma, r=r, nu=0.3)
    alpha = np.zeros(30)
    # The certificate's weights, from the coefficients: their sum is a multiple of them.
    result = np.abs(machine.dual_coef_[0])
    alpha[machine.support_] = result
    K = rbf_kernel(X, gamma=gamma)
    # Their scale: Σ α q = r df.
    q = machine.ellipsoid_norm(X)
    alpha *= r * machine.effective_dim_[0] / (alpha @ q)
    root = np.sqrt(alpha)
    L = np.linalg.cholesky((1 - r) * np.eye(30) + root[:, None] * K * root)
    new = clouds(15, d=2, seed=7)[0]
    k = rbf_kernel(X, new, gamma=gamma)
    norms = r / (1 - r) * (1 - (np.linalg.solve(L, root[:, None] * k) ** 2).sum(axis=0))
    np.testing.assert_allclose(machine.ellipsoid_norm(new), norms, rtol=1e-6)
    _, inner = np.linalg.slogdet(np.eye(30) + root[:, None] * K * root / (1 - r))
    assert machine.log_det() == pytest.approx(-inner, rel=1e-6)
    with pytest.raises(ValueError, match="relative"):
        machine.log_det(relative=False)


def test_rank_goes_to_the_full_kernel():
    X, y = clouds(80, d=2)
    new = clouds(30, d=2, seed=3)[0]
    full = fit(X, y, kernel="rbf", r=0.9)
    errors = []
    for rank in (3, 10, 30, 79):
        low = fit(X, y, kernel="rbf", r=0.9, rank=rank)
        assert len(low._directions[0]) <= rank
        errors.append(np.abs(low.decision_function(new) - full.decision_function(new)).max())
    assert errors[-1] < 1e-3 * errors[0]
    low, wide = fit(X, y, rank=1), fit(X, y)
    assert low.coef_.shape == wide.coef_.shape
    # One pivot, one direction.
    assert cosine(low.coef_, X[low._map.pivots[0]]) ** 2 == pytest.approx(1.0)


# The metric ---------------------------------------------------------------------------------------


def test_metric_for_nearest_neighbours():
    X, y = real("breast_cancer", 200)
    machine = fit(X, y, nu=0.1, r=0.9)
    new, old, labels = X[150:], X[:150], y[:150]
    by_distances = KNeighborsClassifier(5, metric="precomputed")
    by_distances.fit(np.sqrt(machine.metric(old)), labels)
    by_matrix = KNeighborsClassifier(
        5, metric="mahalanobis", metric_params={"VI": machine.B_}, algorithm="brute"
    ).fit(old, labels)
    predictions = by_distances.predict(np.sqrt(machine.metric(new, old)))
    np.testing.assert_array_equal(predictions, by_matrix.predict(new))
    assert np.mean(predictions == y[150:]) > 0.85


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_metric_is_one(kernel):
    X, y = clouds(40, classes=3)
    machine = fit(X, y, kernel=kernel)
    distances = machine.metric(X[:20])
    assert distances.shape == (20, 20, 3)
    assert machine.ellipsoid_norm(X).shape == (40, 3)
    assert machine.log_det().shape == (3,)
    for k in range(3):
        D = np.sqrt(distances[..., k])
        np.testing.assert_allclose(D, D.T, atol=1e-7)
        np.testing.assert_array_equal(D.diagonal(), 0.0)
        assert (D[:, None, :] <= D[:, :, None] + D[None] + 1e-6).all()
    if kernel == "linear":
        assert machine.B_.shape == (3, 3, 3)
    else:
        with pytest.raises(AttributeError, match="linear kernel"):
            machine.B_  # noqa: B018


# The exact problem --------------------------------------------------------------------------------


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
