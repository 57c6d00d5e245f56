"""The regression problems against an interior point method that knows nothing of the package."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from oblong.kernels import Kernel
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.regression import (
    epsilon_pieces,
    quantile_pieces,
    solve_regression,
    solve_regressions,
)
from tests.reference.margin import factor, kernel_matrix, solve_regression_primal

KERNELS = ["linear", "poly", "rbf"]


def problem(kernel, n=40, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.normal(size=n) + shift
    return kernel_matrix(X, X, kernel), y, rng.uniform(0.2, 2.0, n)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5])
def test_epsilon_insensitive(kernel, C, epsilon):
    K, y, weights = problem(kernel)
    found = solve_regression(KernelMatrix(K), y, C * weights, epsilon=epsilon, tol=1e-8)
    expected = solve_regression_primal(K, C * weights, lambda f: cp.pos(cp.abs(f - y) - epsilon))
    assert found.margin.status == "converged"
    assert found.margin.objective == pytest.approx(expected.objective, rel=1e-9)
    assert found.margin.dual_objective == pytest.approx(expected.objective, rel=1e-9)
    assert found.margin.objective - found.margin.dual_objective >= -1e-12 * expected.objective
    np.testing.assert_allclose(found.outputs, expected.outputs, rtol=0, atol=2e-5)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("room", [None, 1.0, 1.5])
def test_quantile(kernel, C, quantile, room):
    """``room`` is the width of the bounds over that of the targets."""
    K, y, weights = problem(kernel)
    bounds = None
    if room is not None:
        middle, half = 0.5 * (y.max() + y.min()), 0.5 * room * (y.max() - y.min())
        bounds = (middle - half, middle + half)
        bounds = (min(bounds[0], y.min()), max(bounds[1], y.max()))
    found = solve_regression(
        KernelMatrix(K), y, C * weights, quantile=quantile, bounds=bounds, tol=1e-8
    )
    expected = solve_regression_primal(
        K,
        C * weights,
        lambda f: quantile * cp.pos(y - f) + (1.0 - quantile) * cp.pos(f - y),
        bounds,
    )
    assert found.margin.status == "converged"
    assert found.margin.objective == pytest.approx(expected.objective, rel=1e-9)
    assert found.margin.dual_objective == pytest.approx(expected.objective, rel=1e-9)
    if bounds is not None:
        assert bounds[0] - 1e-12 <= found.outputs.min()
        assert found.outputs.max() <= bounds[1] + 1e-12


def test_bounds_that_bind():
    K, y, _ = problem("linear")
    y = np.clip(y, 0.0, 0.4)
    C = np.full(len(y), 10.0)
    free = solve_regression(KernelMatrix(K), y, C, quantile=0.5, tol=1e-8)
    bound = solve_regression(KernelMatrix(K), y, C, quantile=0.5, bounds=(0.0, 0.4), tol=1e-8)
    assert free.outputs.max() > 0.4 + 1e-6 or free.outputs.min() < -1e-6
    assert bound.outputs.max() <= 0.4 + 1e-12
    assert bound.outputs.min() >= -1e-12
    wide = solve_regression(KernelMatrix(K), y, C, quantile=0.5, bounds=(-9.0, 9.0), tol=1e-8)
    np.testing.assert_allclose(wide.outputs, free.outputs, rtol=0, atol=1e-7)


def test_bounds_far_from_zero_keep_their_digits():
    K, y, _ = problem("rbf")
    y = (y - y.min()) / np.ptp(y)
    C = np.ones(len(y))
    near = solve_regression(KernelMatrix(K), y, C, quantile=0.3, bounds=(0.0, 1.0), tol=1e-8)
    far = solve_regression(
        KernelMatrix(K), y + 1e6, C, quantile=0.3, bounds=(1e6, 1e6 + 1.0), tol=1e-8
    )
    np.testing.assert_allclose(far.outputs - 1e6, near.outputs, rtol=0, atol=1e-7)
    assert far.margin.relative_gap < 1e-8


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("kernel", KERNELS)
def test_quantile_property(quantile, kernel):
    K, y, _ = problem(kernel, n=101)
    tol = 1e-6
    found = solve_regression(KernelMatrix(K), y, np.ones(len(y)), quantile=quantile, tol=tol)
    below = np.count_nonzero(y < found.outputs - tol)
    not_above = np.count_nonzero(y <= found.outputs + tol)
    assert below <= quantile * len(y) <= not_above


def test_median_is_least_absolute_deviation():
    K, y, weights = problem("rbf")
    median = solve_regression(KernelMatrix(K), y, 2.0 * weights, quantile=0.5, tol=1e-9)
    deviation = solve_regression(KernelMatrix(K), y, weights, epsilon=0.0, tol=1e-9)
    assert median.margin.objective == pytest.approx(deviation.margin.objective, rel=1e-10)
    np.testing.assert_allclose(median.outputs, deviation.outputs, rtol=0, atol=1e-8)


def test_terms_are_the_losses_they_claim():
    rng = np.random.default_rng(0)
    y, f, C = rng.normal(size=50), rng.normal(size=50), rng.uniform(0.1, 2.0, 50)
    np.testing.assert_allclose(
        epsilon_pieces(y, C, 0.3).loss(f), C * np.maximum(np.abs(f - y) - 0.3, 0.0), atol=1e-14
    )
    error = y - f
    expected = C * np.maximum(0.2 * error, -0.8 * error)
    np.testing.assert_allclose(quantile_pieces(y, C, 0.2).loss(f), expected, atol=1e-14)
    inside = quantile_pieces(y, C, 0.2, 10.0)
    np.testing.assert_allclose(inside.loss(f), expected, atol=1e-14)
    assert inside.bound_scale(f) == pytest.approx(10.0 / np.abs(f).max())


def test_needs_a_loss():
    with pytest.raises(ValueError, match="epsilon or quantile"):
        solve_regression(KernelMatrix(np.eye(2)), np.zeros(2), np.ones(2))


def test_reference_factor_is_one():
    K, *_ = problem("rbf")
    F = factor(K)
    np.testing.assert_allclose(F @ F.T, K, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_solve_regressions__penalties_and_tubes_are_those_of_single_problems(kernel):
    K, y, weights = problem(kernel)
    Cs, epsilons = (0.1, 1.0, 30.0), (0.5, 0.1, 0.0)
    found = solve_regressions(KernelMatrix(K), y, weights, Cs, epsilons=epsilons, tol=1e-7)
    for C, row in zip(Cs, found):
        for epsilon, one in zip(epsilons, row):
            expected = solve_regression_primal(
                K, C * weights, lambda f, e=epsilon: cp.pos(cp.abs(f - y) - e)
            )
            assert one.margin.status == "converged"
            assert one.margin.objective == pytest.approx(expected.objective, rel=1e-6)
            np.testing.assert_allclose(one.outputs, expected.outputs, rtol=0, atol=1e-3)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("bounds", [None, (-3.0, 3.0)])
def test_solve_regressions__quantiles_share_a_matrix(bounds, threads):
    K, y, weights = problem("rbf")
    y = np.clip(y, -3.0, 3.0)
    quantiles, Cs = (0.1, 0.5, 0.9), (1.0, 20.0)
    found = solve_regressions(
        KernelMatrix(K), y, weights, Cs, quantiles=quantiles, bounds=bounds, tol=1e-7,
        threads=threads,
    )  # fmt: skip
    for C, row in zip(Cs, found):
        for quantile, one in zip(quantiles, row):
            expected = solve_regression_primal(
                K,
                C * weights,
                lambda f, q=quantile: q * cp.pos(y - f) + (1.0 - q) * cp.pos(f - y),
                bounds,
            )
            assert one.margin.objective == pytest.approx(expected.objective, rel=1e-6)
            if bounds is not None:
                assert np.abs(one.outputs).max() <= 3.0 + 1e-12


@pytest.mark.parametrize("rows", [300, 1100])
@pytest.mark.parametrize("distance", [0.0, 1e5])
def test_solve_regressions__the_bias_is_that_for_the_rows_as_given(distance, rows):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 3)) + distance
    y = (X - distance) @ [1.0, -2.0, 0.5] + 0.2 * rng.normal(size=rows) + 1000.0
    columns = KernelMatrix.of_rows(Kernel("linear"), X)
    ((found,),) = solve_regressions(columns, y, np.ones(rows), epsilons=(0.1,))
    outputs = X @ found.margin.direction + found.bias
    np.testing.assert_allclose(outputs, found.outputs, atol=1e-7)
    assert np.abs(outputs - y).mean() < 0.3
    assert found.margin.relative_gap <= 1e-3


def test_solve_regressions__targets_that_are_all_equal():
    K, y, weights = problem("rbf")
    for one in (
        solve_regression(KernelMatrix(K), np.full(len(y), 7.5), weights, epsilon=0.1),
        solve_regression(KernelMatrix(K), np.full(len(y), 7.5), weights, quantile=0.3),
    ):
        assert not one.margin.coef.any()
        np.testing.assert_allclose(one.outputs, 7.5, atol=0.1 + 1e-9)
        assert one.margin.status == "converged"
        assert one.margin.objective == pytest.approx(0.0, abs=1e-9)
