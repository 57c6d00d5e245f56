"""Ellipsoids of least volume: closed forms, an independent solver, certificates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaln

from oblong.solvers.ellipsoid.solve import solve_ellipsoid
from tests.reference.ellipsoid import design_value

FIXTURE = np.array(
    [(2, 1), (1, 2), (1.5, 0.2), (-0.2, 0.4), (-1, -1), (-2, 0.5), (0.5, -1.5), (0.3, 0.6)]
)


def matrix(result):
    return result.inverse_factor.T @ result.inverse_factor


def cloud(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 3.0 * rng.normal(size=d)


def design(result, X, center):
    """``ln|M(u)|`` of the weights, from scratch."""
    Z = np.column_stack([X, np.ones(len(X))]) if center else X
    return np.linalg.slogdet((Z.T * result.weights) @ Z)[1]


# Closed forms.


def test_four_numbers():
    result = solve_ellipsoid(np.array([[0.0], [1.0], [4.0], [3.0]]))
    assert result.center == pytest.approx([2.0], abs=1e-6)
    assert matrix(result) == pytest.approx(np.array([[4.0]]), rel=1e-6)
    assert np.allclose(result.weights, [0.5, 0, 0.5, 0], atol=1e-6)
    assert result.log_volume == pytest.approx(np.log(4.0), abs=1e-6)


def test_square():
    X = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    result = solve_ellipsoid(X)
    assert np.allclose(matrix(result), 2 * np.eye(2))
    assert np.allclose(result.weights, 0.25)
    assert result.log_volume == pytest.approx(np.log(2 * np.pi))


def test_axes():
    lengths = np.array([0.1, 3.0, 20.0])
    X = np.vstack([np.diag(lengths), -np.diag(lengths)])
    assert np.allclose(matrix(solve_ellipsoid(X)), np.diag(lengths**2), rtol=1e-5, atol=1e-5)
    assert np.allclose(matrix(solve_ellipsoid(X, center=False)), np.diag(lengths**2), atol=1e-5)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_simplex(d):
    X = cloud(d + 1, d)
    result = solve_ellipsoid(X)
    assert result.is_simplex
    assert np.allclose(result.weights, 1 / (d + 1))
    assert np.allclose(result.squared_distances, 1.0)
    copies = solve_ellipsoid(np.repeat(X, 30, axis=0))
    assert copies.is_simplex
    assert copies.log_volume == pytest.approx(result.log_volume, abs=1e-5)
    assert not solve_ellipsoid(np.vstack([X, X.mean(axis=0)])).is_simplex


def test_fixture_with_a_free_centre():
    result = solve_ellipsoid(FIXTURE, tol=1e-10)
    assert np.allclose(result.center, [0.02697831, 0.27756597], atol=1e-7)
    assert np.allclose(
        matrix(result), [[4.28916361, 0.3385866], [0.3385866, 3.50189952]], atol=1e-7
    )
    u = [0.14150184, 0.22451072, 0, 0, 0, 0.31901192, 0.31497552, 0]
    assert np.allclose(result.weights, u, atol=1e-7)


def test_fixture_at_the_origin():
    result = solve_ellipsoid(FIXTURE, center=False, tol=1e-10)
    assert np.allclose(matrix(result), [[5, 1], [1, 4.25]], atol=1e-6)
    assert np.allclose(result.weights, [0, 0.5, 0, 0, 0, 0.5, 0, 0], atol=1e-7)
    assert (result.center == 0).all()


def test_fixture_that_leaves_rows_outside():
    result = solve_ellipsoid(FIXTURE, coverage=0.55, tol=1e-11)
    kappa = 1 / (0.45 * 8)
    assert result.cap == pytest.approx(kappa)
    assert np.allclose(result.center, [0.20079541, 0.41208432], atol=1e-7)
    expected = [[3.36859462, 0.49675237], [0.49675237, 2.73997543]]
    assert np.allclose(matrix(result), expected, atol=1e-6)
    assert abs(result.E - 0.21914398) < 1e-7
    u = [0.1834213, 0.25582132, 0, 0, 0.00520183, kappa, kappa, 0]
    assert np.allclose(result.weights, u, atol=1e-7)
    squares = [1, 1, 0.56218, 0.04852, 1, 1.50163, 1.46158, 0.01418]
    assert np.allclose(result.squared_distances, squares, atol=1e-5)
    # And back, from the penalty.
    again = solve_ellipsoid(FIXTURE, E=result.E, tol=1e-10)
    assert again.cap == pytest.approx(kappa, rel=1e-5)
    assert np.allclose(matrix(again), expected, atol=1e-5)


def test_no_coverage_is_the_covariance():
    X = cloud(50, 3)
    result = solve_ellipsoid(X, coverage=0.0)
    assert np.allclose(result.weights, 1 / 50)
    assert np.allclose(result.center, X.mean(axis=0))
    assert np.allclose(matrix(result), np.cov(X.T, bias=True))
    weights = np.arange(50.0)
    result = solve_ellipsoid(X, coverage=0.0, sample_weight=weights)
    assert np.allclose(matrix(result), np.cov(X.T, bias=True, aweights=weights))


# An independent solver.


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("nu", [0.0, 0.1, 0.33, 0.71])
@pytest.mark.parametrize(("n", "d"), [(4, 3), (20, 2), (60, 4), (100, 1)])
def test_agrees_with_a_general_solver(n, d, nu, center):
    X = cloud(n, d, seed=n)
    result = solve_ellipsoid(X, coverage=1 - nu, center=center, tol=1e-9)
    kappa = 1 / (nu * n) if nu * n > 1 else np.inf
    value, _ = design_value(X, kappa=kappa, center=center)
    found = design(result, X, center)
    assert result.status == "converged"
    # A volume is the root of a determinant.
    assert 0.5 * found == pytest.approx(0.5 * value, abs=1e-6)
    # The gap that is reported covers what the weights lack to the reference.
    assert value - found <= (d + center) * result.gap + 1e-7
    rough = solve_ellipsoid(X, coverage=1 - nu, center=center, tol=1e-2)
    assert value - design(rough, X, center) <= (d + center) * rough.gap + 1e-7


# Degenerate data.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [3, 40])
def test_flat_data(n, dtype):
    flat = cloud(n, 2)
    frame = np.linalg.qr(np.random.default_rng(1).normal(size=(5, 2)))[0]
    X = (flat @ frame.T + 7.0).astype(dtype)
    result, inner = solve_ellipsoid(X, tol=1e-9), solve_ellipsoid(flat, tol=1e-9)
    digits = 1e-6 if dtype == np.float64 else 1e-4
    assert result.factor.shape == (5, 2)
    assert result.log_volume == pytest.approx(inner.log_volume, abs=digits)
    assert np.allclose(result.squared_distances, inner.squared_distances, atol=10 * digits)
    # Σ and its inverse on the hull.
    assert np.allclose(result.inverse_factor @ result.factor, np.eye(2), atol=1e-9)
    rebuilt = result.center + (X - result.center) @ result.factor @ result.inverse_factor
    assert np.allclose(rebuilt, X, atol=10 * digits)


@pytest.mark.parametrize("n", [3, 40])
def test_flat_data_off_the_hull(n):
    """The map to the ball is the pseudo-inverse: it sees nothing across the hull."""
    frame = np.random.default_rng(1).normal(size=(2, 5)) * [1, 1e-3, 1e3, 1, 10]
    result = solve_ellipsoid(cloud(n, 2) @ frame + 7.0)
    pseudo = np.linalg.pinv(result.inverse_factor)
    assert np.allclose(result.factor, pseudo, rtol=1e-6, atol=1e-9 * np.abs(pseudo).max())
    across = np.linalg.svd(frame)[2][2:]
    assert np.abs(across @ result.factor).max() < 1e-9 * np.abs(result.factor).max()


@pytest.mark.parametrize("spread", [0.5, 0.1])
@pytest.mark.parametrize("n", [3, 200])
def test_single_precision_far_from_the_origin(n, spread):
    X = (np.random.default_rng(0).normal(size=(n, 2)) * [spread, 3] + 1e6).astype(np.float32)
    if n == 3:
        X = np.column_stack([X, X[:, ::-1] - 1e6])[:, :3].astype(np.float32)
    double = X.astype(float) - 1e6
    result, near = solve_ellipsoid(X, tol=1e-9), solve_ellipsoid(double, tol=1e-9)
    assert result.factor.shape[1] == near.factor.shape[1] == 2
    assert result.status == "converged"
    assert np.allclose(result.squared_distances, near.squared_distances, atol=1e-6)
    one = solve_ellipsoid(np.array([[1e6], [1e6 + 0.0625], [1e6]], dtype=np.float32))
    assert one.center == pytest.approx([1e6 + 0.03125], abs=1e-6)


@pytest.mark.parametrize("n", [4, 200])
def test_nearly_constant_feature_costs_no_direction(n):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(n, 3))
    X = np.column_stack([Z[:, 0], Z[:, 0] + 1e-5 * Z[:, 1], Z[:, 2]])
    assert solve_ellipsoid(X).factor.shape == (3, 3)
    wide = np.column_stack([X, 1 + 1e-13 * rng.normal(size=n)])
    result = solve_ellipsoid(wide)
    assert result.factor.shape == (4, min(4, n - 1))
    # The digits that the feature has left are not its centre's only.
    assert result.status == "converged"


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_tighter_tolerances_are_no_worse(seed, center):
    """Ties and copies, on which thresholds of a penalty are intervals."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, (40, 1 + 2 * seed)).astype(float)
    gaps = [
        solve_ellipsoid(X, E=0.1, center=center, tol=tol).gap for tol in (1e-4, 1e-6, 1e-9, 1e-14)
    ]
    assert gaps[1] <= 1e-6
    assert max(gaps[2:]) <= 1e-8


def test_copies_at_the_origin_are_the_median():
    X = np.zeros((18, 2))
    X[:4] = [[2, 1], [-1, 3], [0, 1], [4, 0]]
    result = solve_ellipsoid(X, E=0.02, center=False)
    assert result.status == "converged"
    assert np.isfinite(result.factor).all()


def test_collinear_and_constant_columns():
    x = np.random.default_rng(0).normal(size=50)
    X = np.column_stack([x, 2 * x - 1, np.full(50, 0.1), -x])
    result = solve_ellipsoid(X)
    assert result.factor.shape == (4, 1)
    assert result.center[0] == pytest.approx((x.min() + x.max()) / 2, abs=1e-6)
    assert result.squared_distances.max() == 1.0


def test_two_rows():
    result = solve_ellipsoid(np.array([[0.0, 1.0], [2.0, 1.0]]))
    assert np.allclose(result.center, [1, 1])
    assert np.allclose(result.weights, 0.5)
    assert np.allclose(np.abs(result.inverse_factor), [[1, 0]])


def test_fewer_rows_than_columns():
    X = cloud(6, 40)
    result = solve_ellipsoid(X)
    assert result.is_simplex
    assert result.factor.shape == (40, 5)
    assert np.allclose(result.squared_distances, 1.0)
    assert solve_ellipsoid(X, center=False).factor.shape == (40, 6)


@pytest.mark.parametrize("nu", [0.0, 0.2, 0.37])
def test_copies_are_weights(nu):
    X = cloud(30, 3)
    counts = np.random.default_rng(2).integers(0, 4, 30)
    copies = solve_ellipsoid(np.repeat(X, counts, axis=0), coverage=1 - nu, tol=1e-9)
    weighted = solve_ellipsoid(X, coverage=1 - nu, sample_weight=counts.astype(float), tol=1e-9)
    assert weighted.log_volume == pytest.approx(copies.log_volume, abs=2e-5)
    assert np.allclose(weighted.center, copies.center, atol=1e-4)
    assert (weighted.weights[counts == 0] == 0).all()
    again = solve_ellipsoid(X, coverage=1 - nu, sample_weight=2.5 * counts.astype(float), tol=1e-9)
    assert again.objective == pytest.approx(weighted.objective, abs=1e-7)


def test_row_of_weight_zero_is_not_there():
    X = cloud(40, 3)
    outlier = np.vstack([X, np.full((1, 3), 1e3)])
    weights = np.append(np.ones(40), 0.0)
    result, without = solve_ellipsoid(outlier, sample_weight=weights), solve_ellipsoid(X)
    assert result.log_volume == pytest.approx(without.log_volume, abs=1e-9)
    assert result.squared_distances[-1] > 1
    assert result.weights[-1] == 0


# Properties.


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 60),
    d=st.integers(1, 5),
    center=st.booleans(),
    lattice=st.booleans(),
)
def test_every_row_is_inside(seed, n, d, center, lattice):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, (n, d)).astype(float) if lattice else rng.standard_t(2, (n, d))
    if not np.ptp(X, axis=0).any() and (center or not X.any()):
        with pytest.raises(ValueError, match="same point"):
            solve_ellipsoid(X, center=center)
        return
    result = solve_ellipsoid(X, center=center)
    assert result.status == "converged"
    assert result.squared_distances.max() == 1.0
    squares = (((X - result.center) @ result.factor) ** 2).sum(axis=1)
    assert np.allclose(squares, result.squared_distances, atol=1e-9)
    assert result.weights.min() >= 0
    assert result.weights.sum() == pytest.approx(1.0, abs=1e-12)
    # On the boundary or without weight, up to the gap.
    k = result.factor.shape[1]
    slack = 2 * (k + 1) * result.gap + 1e-12
    assert result.weights @ (1 - result.squared_distances) <= slack


@given(seed=st.integers(0, 10**6), power=st.floats(0.0, 6.0), nu=st.sampled_from([0.0, 0.23]))
def test_affine_maps_change_nothing(seed, power, nu):
    rng = np.random.default_rng(seed)
    d = 3
    X = rng.normal(size=(30, d))
    left, right = (np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(2))
    G = (left * np.logspace(0, power, d)) @ right
    plain = solve_ellipsoid(X, coverage=1 - nu, tol=1e-9)
    mapped = solve_ellipsoid(X @ G + rng.normal(size=d), coverage=1 - nu, tol=1e-9)
    assert np.allclose(mapped.squared_distances, plain.squared_distances, atol=2e-4)
    change = np.linalg.slogdet(G)[1]
    assert mapped.objective == pytest.approx(plain.objective + 2 * change, abs=1e-7)


@given(seed=st.integers(0, 10**6), nu=st.floats(0.02, 0.95), n=st.integers(10, 80))
def test_share_of_rows_outside(seed, nu, n):
    X = np.random.default_rng(seed).normal(size=(n, 2))
    result = solve_ellipsoid(X, coverage=1 - nu, tol=1e-10)
    q = result.squared_distances * result.scale
    outside = np.mean(q > result.scale + 1e-3)
    touching = np.mean(q > result.scale - 1e-3)
    assert outside <= nu + 1e-9
    assert touching >= nu - 1e-9
    assert result.weights.max() <= (result.cap if np.isfinite(result.cap) else 1) * (1 + 1e-12)


def test_order_and_inner_rows_do_not_matter():
    X = cloud(60, 3)
    result = solve_ellipsoid(X, tol=1e-9)
    order = np.random.default_rng(0).permutation(60)
    mixed = solve_ellipsoid(X[order], tol=1e-9)
    assert np.allclose(mixed.squared_distances, result.squared_distances[order], atol=1e-6)
    more = solve_ellipsoid(np.vstack([X, result.center]), tol=1e-9)
    assert more.log_volume == pytest.approx(result.log_volume, abs=1e-7)


def test_volume_is_that_of_the_matrix():
    result = solve_ellipsoid(cloud(50, 4))
    half = 0.5 * np.linalg.slogdet(matrix(result))[1]
    assert result.log_volume == pytest.approx(half + 2 * np.log(np.pi) - gammaln(3), abs=1e-9)


def test_penalty_grows_with_the_cap():
    X = cloud(41, 2)
    penalties = [solve_ellipsoid(X, coverage=c).E for c in np.linspace(0.2, 0.97, 9)]
    assert (np.diff(penalties) > 0).all()


def test_small_penalty_only_shrinks_the_covariance():
    X = cloud(40, 2)
    first, second = solve_ellipsoid(X, E=1e-4), solve_ellipsoid(X, E=1e-5)
    assert np.allclose(first.weights, 1 / 40)
    assert np.allclose(matrix(first), 10 * matrix(second))


# Options.


def test_warm_start_keeps_the_solution():
    X = cloud(4000, 4)
    cold = solve_ellipsoid(X)
    warm = solve_ellipsoid(X, start=cold.weights)
    assert warm.log_volume == pytest.approx(cold.log_volume, abs=1e-5)
    assert warm.n_passes <= cold.n_passes


def test_progress():
    reports = []
    solve_ellipsoid(cloud(3000, 4), progress=reports.append)
    assert reports[-1].violation <= reports[-1].target
    assert {r.stage for r in reports} == {"ellipsoid"}


@pytest.mark.parametrize("coverage", [1.0, 0.8])
def test_limit_on_iterations(coverage):
    result = solve_ellipsoid(cloud(200, 4), max_iter=2, coverage=coverage)
    assert result.status == "max_iter"
    assert result.gap > 1e-6
    if coverage == 1.0:
        assert result.squared_distances.max() == 1.0


@pytest.mark.parametrize("coverage", [1.0, 0.8, 0.0])
@pytest.mark.parametrize("thickness", [1e-4, 1e-6, 1e-8])
def test_columns_that_nearly_depend_on_others(thickness, coverage):
    """A thin direction is stretched as if it had been measured in other units."""
    rng = np.random.default_rng(5)
    X, thin = rng.normal(size=(200, 3)), rng.normal(size=200)
    flat = np.column_stack([X, X @ [1.0, 2.0, -1.0] + thickness * thin])
    result = solve_ellipsoid(flat, coverage=coverage)
    round_ = solve_ellipsoid(np.column_stack([X, thin]), coverage=coverage)
    assert result.status == "converged"
    assert np.allclose(result.squared_distances, round_.squared_distances, atol=1e-2)
    expected = round_.log_volume + np.log(thickness)
    assert result.log_volume == pytest.approx(expected, abs=1e-2)
