"""MinimumVolumeEllipsoid in the feature space of a kernel."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import KernelPCA
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from oblong import MinimumVolumeEllipsoid
from tests.geometry.test_ellipsoid import cloud, fit


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("coverage", [1.0, 0.8])
@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_linear_kernel_is_the_linear_ellipsoid(center, coverage, shift):
    X, new = cloud(60, 3) + shift, cloud(20, 3, seed=1) + shift
    options = {"center": center, "coverage": coverage}
    linear, kernel = fit(X, **options), fit(X, kernel="linear", **options)
    given = fit(X @ X.T, kernel="precomputed", rank=3, **options)
    assert kernel.rank_ == 3
    tolerance = 1e-5 if center else 1e-4
    np.testing.assert_allclose(kernel.mahalanobis(new), linear.mahalanobis(new), rtol=tolerance)
    np.testing.assert_allclose(given.mahalanobis(new @ X.T), linear.mahalanobis(new), rtol=1e-3)
    assert kernel.log_volume_ == pytest.approx(linear.log_volume_, abs=1e-5)
    np.testing.assert_allclose(kernel.E_, linear.E_, rtol=1e-4)


@pytest.mark.parametrize("rank", [2, 5])
def test_it_is_the_ellipsoid_of_the_principal_components(rank):
    X, new = cloud(80, 2), cloud(30, 2, seed=1)
    pca = KernelPCA(n_components=rank, kernel="rbf", gamma=0.3).fit(X)
    expected = fit(pca.transform(X), coverage=0.9).mahalanobis(pca.transform(new))
    model = fit(X, kernel="rbf", gamma=0.3, rank=rank, coverage=0.9)
    assert model.shape_.shape == (rank, rank)
    assert model.center_.shape == (rank,)
    np.testing.assert_allclose(model.mahalanobis(new), expected, rtol=1e-5)
    assert model.transform(new).shape == (30, rank)


@pytest.mark.parametrize("kernel", ["poly", "rbf"])
@pytest.mark.parametrize("coverage", [1.0, 0.9])
def test_names_callables_and_matrices_agree(kernel, coverage):
    X, new = cloud(50, 2), cloud(20, 2, seed=1)
    function = {
        "poly": lambda A, B: polynomial_kernel(A, B, degree=2, gamma=0.5, coef0=1.0),
        "rbf": lambda A, B: rbf_kernel(A, B, gamma=0.5),
    }[kernel]
    common = {"rank": 4, "coverage": coverage}
    named = fit(X, kernel=kernel, gamma=0.5, degree=2, coef0=1.0, **common)
    called = fit(X, kernel=function, **common)
    given = fit(function(X, X), kernel="precomputed", **common)
    np.testing.assert_allclose(called.mahalanobis(new), named.mahalanobis(new), rtol=1e-6)
    np.testing.assert_allclose(
        given.mahalanobis(function(new, X)), named.mahalanobis(new), rtol=1e-6
    )


def test_polynomial_kernel_in_its_own_features():
    """(x·z)² in the plane has three features, of which all are used."""
    X = cloud(60, 2)
    explicit = np.column_stack([X[:, 0] ** 2, np.sqrt(2) * X[:, 0] * X[:, 1], X[:, 1] ** 2])
    options = {"center": False, "coverage": 0.9}
    model = fit(X, kernel="poly", degree=2, gamma=1.0, rank=3, **options)
    np.testing.assert_allclose(
        model.mahalanobis(X), fit(explicit, **options).mahalanobis(explicit), rtol=1e-5
    )


def test_default_rank():
    X = cloud(200, 2)
    assert fit(X, kernel="rbf", gamma=100.0).rank_ == 20
    wide = fit(X, kernel="rbf", gamma=1e-3)
    assert wide.rank_ < 10
    assert (wide.predict(X) == 1).all()


def test_a_full_kernel_matrix_has_no_shape():
    X = cloud(30, 2)
    with pytest.warns(UserWarning, match=r"simplex.*smaller rank"):
        model = fit(X, kernel="rbf", gamma=20.0, rank=30)
    assert model.rank_ == 29
    np.testing.assert_allclose(model.weights_, 1 / 30, atol=1e-8)
    np.testing.assert_allclose(model.mahalanobis(X), 1.0, atol=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
@pytest.mark.parametrize("rank", [None, 3])
def test_weights_equal_copies(kernel, rank):
    X = cloud(60, 2, seed=3)
    counts = np.random.default_rng(0).integers(0, 4, size=60)
    many = np.repeat(X, counts, axis=0)
    options = {"kernel": kernel, "rank": rank, "coverage": 0.8}
    if kernel == "linear" and rank == 3:
        options["rank"] = 2
    if kernel == "precomputed":
        one = fit(rbf_kernel(X, gamma=0.5), counts, **options)
        other = fit(rbf_kernel(many, gamma=0.5), **options)
        first, second = rbf_kernel(X, gamma=0.5), rbf_kernel(X, many, gamma=0.5)
    else:
        one, other = fit(X, counts.astype(float), **options), fit(many, **options)
        first = second = X
    assert one.rank_ == other.rank_
    np.testing.assert_allclose(one.mahalanobis(first), other.mahalanobis(second), rtol=1e-4)
    assert one.coverage_ == pytest.approx(other.coverage_)


def test_rows_below_their_caps_are_not_outside():
    """One row is next to its cap, so that the gap leaves an error in its distance."""
    X = np.repeat(cloud(60, 2, seed=3), np.random.default_rng(0).integers(0, 4, size=60), axis=0)
    model = fit(X, kernel="rbf", coverage=0.8)
    cap = 1 / (0.2 * len(X))
    assert (model.predict(X[model.weights_ < cap * (1 - 1e-5)]) == 1).all()
    assert model.coverage_ == np.mean(model.predict(X) == 1)


def test_single_precision():
    X = cloud(100, 2).astype(np.float32)
    model = fit(X, kernel="rbf", coverage=0.9)
    double = fit(X.astype(float), kernel="rbf", coverage=0.9)
    np.testing.assert_allclose(model.mahalanobis(X), double.mahalanobis(X.astype(float)), rtol=1e-5)
    assert model.transform(X).dtype == np.float32


def test_rows_changed_after_the_fit():
    X = cloud(50, 2)
    model, new = fit(X, kernel="rbf", coverage=0.9), cloud(10, 2, seed=1)
    before = model.mahalanobis(new)
    X[:] = 0.0
    np.testing.assert_array_equal(model.mahalanobis(new), before)


def test_no_way_back():
    assert not hasattr(MinimumVolumeEllipsoid(kernel="rbf"), "inverse_transform")
    assert hasattr(MinimumVolumeEllipsoid(), "inverse_transform")


@pytest.mark.parametrize("scale", [-1.0, np.nan])
def test_kernels_that_are_none(scale):
    X = cloud(20, 2)
    with pytest.raises(ValueError, match=r"not positive semidefinite|not finite|NaN"):
        fit(X, kernel=lambda A, B: scale * A @ B.T)


def test_bad_matrices():
    K = rbf_kernel(cloud(20, 2))
    with pytest.raises(ValueError, match="square matrix"):
        fit(K[:, :10], kernel="precomputed")
    with pytest.raises(ValueError, match="all rows are the same"):
        fit(np.ones((5, 2)), kernel="rbf")
    with pytest.raises(ValueError, match="rank is for a kernel form"):
        fit(cloud(), rank=2)
