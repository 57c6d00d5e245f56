"""MinimumVolumeEllipsoid: closed forms, optimality, invariances, weights, degenerate rows."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import gammaln

from oblong import MinimumVolumeEllipsoid
from oblong.io import open_rows
from tests.reference.ellipsoid import ellipsoid

EIGHT = np.array(
    [[2, 1], [1, 2], [1.5, 0.2], [-0.2, 0.4], [-1, -1], [-2, 0.5], [0.5, -1.5], [0.3, 0.6]]
)


def fit(X, weight=None, **params) -> MinimumVolumeEllipsoid:
    """Fit tightly enough for two ellipsoids to be compared."""
    tol = 1e-9 if "E" in params else 1e-10
    return MinimumVolumeEllipsoid(**{"tol": tol, **params}).fit(X, sample_weight=weight)


def cloud(n=60, d=3, seed=0):
    return np.random.default_rng(seed).standard_t(4, size=(n, d))


def affine(d, condition, seed=0):
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(2))
    return left @ np.diag(np.geomspace(1.0, condition, d)) @ right, rng.normal(size=d)


def measured_gap(X, model, coverage=1.0, weight=None):
    """Bound of the loss in ln|M|, over D, by its definition from the weights alone."""
    n = len(X)
    weight = np.ones(n) if weight is None else weight * n / weight.sum()
    Z = np.column_stack([X, np.ones(n)]) if model.center else X
    u, D = model.weights_, Z.shape[1]
    q = np.einsum("ij,jk,ik->i", Z, np.linalg.inv((Z.T * u) @ Z), Z)
    if (1.0 - coverage) * n <= 1.0:
        return q[weight > 0].max() / D - 1.0
    cap = weight / ((1.0 - coverage) * n)
    assert (u <= cap * (1 + 1e-9)).all()
    return min(rho + cap @ np.maximum(q - rho, 0.0) - D for rho in q) / D


# Closed forms -------------------------------------------------------------------------------------


def test_free_centre():
    model = fit(EIGHT)
    np.testing.assert_allclose(model.center_, [0.02697831, 0.27756597], atol=1e-7)
    np.testing.assert_allclose(
        model.shape_, [[4.28916361, 0.3385866], [0.3385866, 3.50189952]], atol=1e-6
    )
    np.testing.assert_allclose(
        model.weights_,
        [0.14150184, 0.22451072, 0, 0, 0, 0.31901192, 0.31497552, 0],
        atol=1e-6,
    )
    np.testing.assert_array_equal(model.support_, [0, 1, 5, 6])
    assert model.coverage_ == 1.0
    assert np.isinf(model.E_)


def test_centre_at_the_origin():
    model = fit(EIGHT, center=False)
    np.testing.assert_allclose(model.shape_, [[5, 1], [1, 4.25]], atol=1e-6)
    np.testing.assert_allclose(model.weights_[[1, 5]], 0.5, atol=1e-6)
    assert not model.center_.any()


def test_some_rows_outside():
    model = fit(EIGHT, coverage=0.55)
    np.testing.assert_allclose(model.center_, [0.20079541, 0.41208432], atol=1e-6)
    np.testing.assert_allclose(
        model.shape_, [[3.36859462, 0.49675237], [0.49675237, 2.73997543]], atol=1e-5
    )
    np.testing.assert_allclose(model.E_, 0.21914398, atol=1e-6)
    np.testing.assert_allclose(
        model.mahalanobis(EIGHT),
        [1, 1, 0.56218, 0.04852, 1, 1.50163, 1.46158, 0.01418],
        atol=1e-5,
    )
    np.testing.assert_array_equal(model.predict(EIGHT), [1, 1, 1, 1, 1, -1, -1, 1])
    assert model.coverage_ == 0.75


def test_the_price_and_the_share_are_two_names_for_one_ellipsoid():
    share = fit(EIGHT, coverage=0.55)
    price = fit(EIGHT, E=share.E_)
    np.testing.assert_allclose(price.shape_, share.shape_, rtol=1e-5)
    np.testing.assert_allclose(price.center_, share.center_, atol=1e-5)
    np.testing.assert_allclose(price.E_, share.E_, rtol=1e-6)
    np.testing.assert_allclose(fit(EIGHT, E=1e6).shape_, fit(EIGHT).shape_, rtol=1e-6)


def test_boxes_crosses_and_lines():
    square = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    np.testing.assert_allclose(fit(square).shape_, 2 * np.eye(2), atol=1e-9)
    np.testing.assert_allclose(fit(square).weights_, 0.25, atol=1e-8)
    axes = np.diag([1.0, 2.0, 5.0])
    np.testing.assert_allclose(
        fit(np.vstack([axes, -axes])).shape_, np.diag([1.0, 4.0, 25.0]), atol=1e-7
    )
    line = fit(np.array([[0.0], [1.0], [4.0], [3.0]]))
    np.testing.assert_allclose(line.center_, [2.0], atol=1e-9)
    np.testing.assert_allclose(line.shape_, [[4.0]], atol=1e-8)
    assert line.volume_ == pytest.approx(4.0)


@pytest.mark.parametrize("d", [1, 2, 4])
def test_volume(d):
    model = fit(cloud(40, d))
    ball = np.exp(0.5 * d * np.log(np.pi) - gammaln(0.5 * d + 1))
    assert model.volume_ == pytest.approx(ball * np.sqrt(np.linalg.det(model.shape_)))
    assert np.exp(model.log_volume_) == pytest.approx(model.volume_)


@pytest.mark.parametrize("center", [True, False])
def test_no_coverage_is_the_covariance(center):
    X = cloud(50)
    model = fit(X, coverage=0.0, center=center)
    expected = np.cov(X.T, bias=True) if center else X.T @ X / 50
    ratio = model.shape_ / expected
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-9)
    np.testing.assert_allclose(model.weights_, 1 / 50)
    np.testing.assert_allclose(model.center_, X.mean(axis=0) if center else 0.0, atol=1e-12)


# Optimality ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("coverage", [1.0, 0.9, 0.65])
@pytest.mark.parametrize(("n", "d"), [(20, 2), (80, 4), (300, 6)])
def test_certificate_is_honest(n, d, coverage, center):
    X = cloud(n, d, seed=n)
    model = MinimumVolumeEllipsoid(coverage=coverage, center=center).fit(X)
    assert model.converged_
    assert model.gap_ <= 1e-6
    # The definition in double precision is itself only good to so many digits.
    assert measured_gap(X, model, coverage) <= model.gap_ + 1e-11
    # The share of rows outside, and of those that may be: on the boundary but for the gap.
    assert (model.predict(X) == -1).mean() <= 1 - coverage + 1e-9
    assert (model.mahalanobis(X) < 1 - 1e-3).mean() <= coverage + 1e-9
    assert model.coverage_ == np.mean(model.predict(X) == 1)
    mean = model.weights_ @ X
    np.testing.assert_allclose(model.center_, mean if center else 0.0, atol=1e-9)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("E", [None, 0.3, 0.05])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "d"), [(12, 1), (20, 2), (35, 3)])
def test_a_general_solver_finds_the_same(n, d, E, weighted, center):
    X = cloud(n, d, seed=n + d)
    weight = np.random.default_rng(n).integers(0, 4, size=n).astype(float) if weighted else None
    mean, inverse = ellipsoid(X, E=E or np.inf, weights=weight, center=center)
    model = fit(X, weight, E=E, center=center)
    np.testing.assert_allclose(model.center_, mean, atol=2e-4)
    np.testing.assert_allclose(model.factor_ @ model.factor_.T, inverse, rtol=1e-3, atol=2e-4)
    if E is None:
        value = -0.5 * np.linalg.slogdet(inverse)[1]
        assert 0.5 * np.linalg.slogdet(model.shape_)[1] == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("coverage", [1.0, 0.8])
def test_no_smaller_ellipsoid(coverage):
    """By force: scaled to hold the same rows, no perturbed ellipsoid is smaller."""
    X = cloud(40, 2)
    model = fit(X, coverage=coverage)
    price = 1e9 if coverage == 1 else model.E_

    def objective(center, shape):
        squares = np.einsum("ij,jk,ik->i", X - center, np.linalg.inv(shape), X - center)
        if coverage == 1:
            shape = shape * squares.max()
            squares = squares / squares.max()
        return 0.5 * np.linalg.slogdet(shape)[1] + price * np.maximum(squares - 1 - 1e-9, 0).sum()

    best = objective(model.center_, model.shape_)
    rng = np.random.default_rng(0)
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(30):
            step = size * rng.normal(size=(2, 2))
            shape = (np.eye(2) + step) @ model.shape_ @ (np.eye(2) + step).T
            assert objective(model.center_ + size * rng.normal(size=2), shape) >= best - 1e-7


@st.composite
def rows(draw) -> np.ndarray:
    """Draw rows, often repeated, flat, on a lattice, or far from the origin."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(2, 40)), draw(st.integers(1, 4))
    kind = draw(st.sampled_from(["cauchy", "lattice", "binary", "flat", "repeated"]))
    X = rng.standard_cauchy(size=(n, d))
    if kind in ("lattice", "flat"):
        X = rng.integers(-2, 3, size=(n, d)).astype(float)
    if kind == "flat":
        X = X @ rng.integers(-1, 2, size=(d, d))
    elif kind == "binary":
        X = (rng.random(size=(n, d)) < 0.3).astype(float)
    elif kind == "repeated":
        X = X[rng.integers(0, n, size=n)]
    X = X + draw(st.sampled_from([0.0, 10.0, 1e5]))
    assume(len(np.unique(X, axis=0)) > 1)
    return X


@given(rows(), st.booleans())
def test_every_row_is_inside(X, center):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = MinimumVolumeEllipsoid(center=center).fit(X)
    assert (model.predict(X) == 1).all()
    assert model.mahalanobis(X).max() == pytest.approx(1.0, abs=1e-6)
    assert model.coverage_ == 1.0
    assert model.gap_ <= 1e-6
    assert model.weights_.sum() == pytest.approx(1.0)
    scale = np.abs(X).max()
    np.testing.assert_allclose(
        model.inverse_transform(model.transform(X)), X, rtol=1e-6, atol=1e-9 * scale
    )


@given(rows(), st.sampled_from([0.95, 0.7, 0.3]), st.integers(0, 100))
def test_no_more_rows_outside_than_allowed(X, coverage, seed):
    weight = np.random.default_rng(seed).choice([0.5, 1.0, 2.0], size=len(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = MinimumVolumeEllipsoid(coverage=coverage).fit(X, sample_weight=weight)
    outside = model.predict(X) == -1
    assert weight[outside].sum() <= (1 - coverage) * weight.sum() + 1e-9
    assert model.coverage_ == pytest.approx(1 - weight[outside].sum() / weight.sum())
    assert model.gap_ <= 1e-5


# Invariances --------------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("coverage", [1.0, 0.8])
def test_affine_maps(condition, coverage):
    X, new = cloud(60, 4), cloud(20, 4, seed=1)
    G, h = affine(4, condition)
    one, other = fit(X, coverage=coverage), fit(X @ G + h, coverage=coverage)
    np.testing.assert_allclose(other.mahalanobis(new @ G + h), one.mahalanobis(new), rtol=1e-5)
    np.testing.assert_allclose(other.center_, one.center_ @ G + h, rtol=1e-5, atol=1e-5)
    volume = one.log_volume_ + np.linalg.slogdet(G)[1]
    assert other.log_volume_ == pytest.approx(volume, abs=1e-6)


@pytest.mark.parametrize("coverage", [1.0, 0.75])
def test_order_and_copies_of_inner_rows(coverage):
    X = cloud(40, 3)
    model = fit(X, coverage=coverage)
    order = np.random.default_rng(0).permutation(40)
    shuffled = fit(np.asfortranarray(X[order]), coverage=coverage)
    np.testing.assert_allclose(shuffled.transform(X), model.transform(X), atol=1e-7)
    if coverage == 1.0:
        more = fit(np.vstack([X, 0.5 * (X[:20] + model.center_), X[:7]]))
        np.testing.assert_allclose(more.transform(X), model.transform(X), atol=1e-7)


@pytest.mark.parametrize("params", [{"coverage": 0.8}, {"E": 0.1}, {"coverage": 0.0}, {}])
@pytest.mark.parametrize("center", [True, False])
def test_weights_equal_copies(params, center):
    X = cloud(50, 3, seed=5)
    counts = np.random.default_rng(1).integers(0, 4, size=50)
    weighted = fit(X, counts.astype(float), center=center, **params)
    copies = fit(np.repeat(X, counts, axis=0), center=center, **params)
    np.testing.assert_allclose(weighted.transform(X), copies.transform(X), atol=2e-6)
    assert weighted.coverage_ == pytest.approx(copies.coverage_)
    np.testing.assert_allclose(weighted.E_, copies.E_, rtol=1e-5)
    assert not weighted.weights_[counts == 0].any()
    np.testing.assert_allclose(
        weighted.weights_,
        np.bincount(np.repeat(np.arange(50), counts), copies.weights_, minlength=50),
        atol=1e-5,
    )


def test_unit_of_the_weights():
    """In the share they are relative, in the price they are not."""
    X = cloud(50, 3)
    weight = np.random.default_rng(0).uniform(0.5, 2, size=50)
    for factor in (1e-3, 1e3):
        np.testing.assert_allclose(
            fit(X, factor * weight, coverage=0.8).shape_,
            fit(X, weight, coverage=0.8).shape_,
            rtol=1e-5,
        )
        np.testing.assert_allclose(
            fit(X, factor * weight, E=0.1 / factor).shape_,
            fit(X, weight, E=0.1).shape_,
            rtol=1e-5,
        )


@pytest.mark.parametrize("coverage", [1.0, 0.8])
def test_single_precision(coverage):
    X = (cloud(200, 4) + 3).astype(np.float32)
    model, double = fit(X, coverage=coverage), fit(X.astype(float), coverage=coverage)
    np.testing.assert_allclose(model.shape_, double.shape_, rtol=1e-6)
    assert model.transform(X).dtype == np.float32
    assert model.inverse_transform(model.transform(X)).dtype == np.float32
    np.testing.assert_allclose(model.transform(X), double.transform(X), atol=1e-5)
    if coverage == 1.0:
        assert (model.predict(X) == 1).all()


# The two maps -------------------------------------------------------------------------------------


@pytest.mark.parametrize("coverage", [1.0, 0.7])
def test_to_the_ball_and_back(coverage):
    X, new = cloud(60, 4), 10 * cloud(20, 4, seed=3)
    model = fit(X, coverage=coverage)
    T = model.transform(new)
    np.testing.assert_allclose((T**2).sum(axis=1), model.mahalanobis(new))
    np.testing.assert_allclose(model.inverse_transform(T), new, atol=1e-10)
    np.testing.assert_allclose(
        model.mahalanobis(new),
        np.einsum(
            "ij,jk,ik->i", new - model.center_, np.linalg.inv(model.shape_), new - model.center_
        ),
        rtol=1e-8,
    )
    np.testing.assert_allclose(model.factor_ @ model.factor_.T, np.linalg.inv(model.shape_))
    # The factor is that of Cholesky, so that equal ellipsoids map rows alike.
    np.testing.assert_allclose(model.inverse_factor_, np.linalg.cholesky(model.shape_).T, atol=1e-9)
    np.testing.assert_allclose(
        model.decision_function(new), 1.0 - model.mahalanobis(new), atol=1e-8
    )


# Degenerate rows ----------------------------------------------------------------------------------


@pytest.mark.parametrize("coverage", [1.0, 0.8])
@pytest.mark.parametrize("center", [True, False])
def test_flat_rows(coverage, center):
    """Rows in a plane of space, next to a constant feature if the centre is free."""
    plane = cloud(50, 2)
    B = np.array([[1.0, 0.5, 2.0], [0.0, 1.0, -1.0]])
    X = plane @ B
    if center:
        X = np.column_stack([np.full(50, 7.0), X + 1.0])
    model, inner = (
        fit(X, coverage=coverage, center=center),
        fit(plane, coverage=coverage, center=center),
    )
    assert model.rank_ == 2
    assert model.transform(X).shape == (50, 2)
    np.testing.assert_allclose(model.mahalanobis(X), inner.mahalanobis(plane), atol=1e-6)
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X, atol=1e-8)
    assert np.linalg.matrix_rank(model.shape_, tol=1e-8) == 2
    area = 0.5 * np.linalg.slogdet(B @ B.T)[1]
    assert model.log_volume_ == pytest.approx(inner.log_volume_ + area, abs=1e-6)
    # A direction that no row has seen does not count.
    off = np.cross(*B)
    step = np.concatenate([[1.0], off]) if center else off
    np.testing.assert_allclose(model.mahalanobis(X + step), model.mahalanobis(X), atol=1e-6)


def test_fewer_rows_than_features():
    X = cloud(5, 12)
    with pytest.warns(UserWarning, match="determined by a simplex"):
        model = fit(X)
    assert model.rank_ == 4
    np.testing.assert_allclose(model.weights_, 0.2, atol=1e-9)
    np.testing.assert_allclose(model.mahalanobis(X), 1.0, atol=1e-8)


def test_two_rows_and_collinear_ones():
    with pytest.warns(UserWarning, match="simplex"):
        pair = fit(np.array([[0.0, 0.0], [3.0, 4.0]]))
    np.testing.assert_allclose(np.abs(pair.transform([[0.0, 0.0], [3.0, 4.0]])), 1.0)
    np.testing.assert_allclose(pair.center_, [1.5, 2.0])
    assert pair.volume_ == pytest.approx(5.0)
    along = fit(np.outer([0.0, 1.0, 4.0, 3.0], [1.0, 1.0]))
    np.testing.assert_allclose(along.center_, [2.0, 2.0], atol=1e-9)
    np.testing.assert_allclose(along.shape_, np.full((2, 2), 4.0), atol=1e-8)


def test_features_of_very_different_scales():
    X = cloud(80, 4)
    scales = np.array([1e-5, 1.0, 1e2, 1e4])
    one, other = fit(X), fit(X * scales)
    assert other.rank_ == 4
    np.testing.assert_allclose(other.mahalanobis(X * scales), one.mahalanobis(X), atol=1e-6)


# Warm start ---------------------------------------------------------------------------------------


def test_warm_start():
    X = cloud(400, 4)
    model = MinimumVolumeEllipsoid(warm_start=True, coverage=0.9).fit(X)
    cold = model.n_iter_
    again = model.fit(X)
    assert again.n_iter_ <= cold
    assert again.gap_ <= 1e-6
    moved = model.set_params(coverage=0.85).fit(X)
    np.testing.assert_allclose(
        moved.mahalanobis(X), fit(X, coverage=0.85).mahalanobis(X), rtol=1e-3
    )
    # Another number of rows, or none of the support left, is a cold start.
    assert model.fit(X[:100]).weights_.size == 100
    weight = np.where(model.weights_ > 1e-3 * model.weights_.max(), 0.0, 1.0)
    assert not model.fit(X[:100], sample_weight=weight).weights_[weight == 0].any()


@pytest.mark.parametrize("coverage", [1.0, 0.9, 0.5])
@pytest.mark.parametrize(("seed", "distinct", "d"), [(1, 24, 4), (2, 20, 6), (3, 15, 6)])
def test_fit__copies_of_few_rows_do_not_crowd_out_the_others(coverage, seed, distinct, d):
    rng = np.random.default_rng(seed)
    rows = np.round(2.0 * rng.normal(size=(distinct, d)), 6 if seed > 1 else 0)
    X = rows[rng.integers(distinct, size=40_000)]
    expected = MinimumVolumeEllipsoid(coverage=coverage).fit(X)
    model = MinimumVolumeEllipsoid(coverage=coverage).fit(open_rows(X, memory="1MB"))
    assert model.converged_
    assert model.log_volume_ == pytest.approx(expected.log_volume_, abs=1e-5)
