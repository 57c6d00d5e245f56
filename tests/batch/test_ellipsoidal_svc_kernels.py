"""EllipsoidalSVC: kernels and the metric."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.neighbors import KNeighborsClassifier

from tests.batch.data import clouds, real
from tests.batch.ellipsoidal import cosine, fit


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
    # With a wide kernel rounding would decide which directions there are.
    how = {"kernel": "rbf", "gamma": 2.0, "r": 0.9}
    full = fit(X, y, **how)
    errors = []
    for rank in (3, 30, 79, 80):
        low = fit(X, y, rank=rank, **how)
        assert len(low._directions[0]) == rank
        errors.append(np.abs(low.decision_function(new) - full.decision_function(new)).max())
    assert errors[2] < 0.1 * errors[0]
    assert errors[3] < 1e-9
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
