"""The kernel Fisher discriminant against its formula in explicit features."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.solvers.covariance.kernel_fisher import solve_kernel_fisher
from tests.reference.margin import factor, kernel_matrix


def problem(kernel: str = "rbf", n: int = 30, positive: float = 0.4, seed: int = 0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) < max(2, round(positive * n)), 1.0, -1.0)
    X = rng.normal(size=(n, 3)) + 0.5 * y[:, None]
    order = rng.permutation(n)
    return kernel_matrix(X, X, kernel)[np.ix_(order, order)], y[order]


def discriminant(F, y, v, alpha):
    """Direction (S + αI)^-1 (m₊ - m₋) and the midpoint of the projected means."""
    positive = y > 0
    high = np.average(F[positive], axis=0, weights=v[positive])
    low = np.average(F[~positive], axis=0, weights=v[~positive])
    Z = F - np.where(positive[:, None], high, low)
    w = np.linalg.solve(Z.T @ (v[:, None] * Z) + alpha * np.eye(F.shape[1]), high - low)
    return w, w @ (high + low) / 2


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("alpha", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("positive", [0.1, 0.5])
@pytest.mark.parametrize("weighted", [False, True])
def test_against_the_formula(kernel, alpha, positive, weighted):
    K, y = problem(kernel, positive=positive)
    v = np.random.default_rng(1).uniform(0.5, 3, size=30) if weighted else np.ones(30)
    F = factor(K)
    result = solve_kernel_fisher(K, y, v, alpha)
    w, middle = discriminant(F, y, v, alpha)
    expected = F @ w - middle
    scale = (result.outputs @ expected) / (expected @ expected)
    assert scale > 0
    np.testing.assert_allclose(
        result.outputs, scale * expected, atol=1e-7 * np.abs(result.outputs).max()
    )
    np.testing.assert_allclose(K @ result.coef + result.bias, result.outputs, atol=1e-8)
    assert abs(result.coef.sum()) < 1e-9 * np.abs(result.coef).sum()
    # Rounding of the outputs counts, and these are large next to a small ridge.
    assert 0 <= result.relative_gap < 1e-8


def test_features_in_small_units():
    """Where the ridge is all there is, the machine assigns rows to the nearest mean."""
    K, y = problem("linear")
    outputs = solve_kernel_fisher(K, y, np.ones(30), 1e12).outputs
    small = solve_kernel_fisher(1e-40 * K, y, np.ones(30), 1.0)
    np.testing.assert_allclose(1e28 * small.outputs, outputs, rtol=1e-9)
    np.testing.assert_array_equal(1e-40 * K @ small.coef + small.bias, small.outputs)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("alpha", [1e-2, 1.0, 100.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_against_refitting(kernel, alpha, weighted):
    K, y = problem(kernel)
    v = np.random.default_rng(1).uniform(0.5, 3, size=30) if weighted else np.ones(30)
    result = solve_kernel_fisher(K, y, v, alpha)
    outputs = np.empty(30)
    for i in range(30):
        rest = np.arange(30) != i
        others = solve_kernel_fisher(K[np.ix_(rest, rest)], y[rest], v[rest], alpha)
        outputs[i] = K[i, rest] @ others.coef + others.bias
    np.testing.assert_allclose(result.loo_outputs, outputs, atol=1e-7 * np.abs(outputs).max())
    assert result.loo_error == pytest.approx(v[y * outputs <= 0].sum() / v.sum())
    assert np.abs(result.loo_outputs - result.outputs).max() > 1e-6


def test_the_only_row_of_a_class_cannot_be_left_out():
    K, y = problem()
    y[:] = -1.0
    y[7] = 1.0
    result = solve_kernel_fisher(K, y, np.ones(30), 1.0)
    assert np.isnan(result.loo_outputs[7])
    assert np.isfinite(np.delete(result.loo_outputs, 7)).all()
    assert result.loo_error >= 1 / 30


def test_two_rows():
    K = np.array([[1.0, 0.2], [0.2, 2.0]])
    result = solve_kernel_fisher(K, np.array([1.0, -1.0]), np.ones(2), 0.1)
    np.testing.assert_allclose(result.outputs[0], -result.outputs[1])
    assert result.outputs[0] > 0
    assert np.isnan(result.loo_outputs).all()
    assert result.loo_error == 1.0


def test_weights_equal_copies():
    K, y = problem()
    counts = np.random.default_rng(2).integers(1, 4, size=30)
    copies = np.repeat(np.arange(30), counts)
    weighted = solve_kernel_fisher(K, y, counts.astype(float), 0.5)
    copied = solve_kernel_fisher(K[np.ix_(copies, copies)], y[copies], np.ones(copies.size), 0.5)
    np.testing.assert_allclose(copied.outputs, weighted.outputs[copies], rtol=1e-9)
    assert copied.bias == pytest.approx(weighted.bias, rel=1e-8)
    assert copied.objective == pytest.approx(weighted.objective, rel=1e-9)


def test_arguments_are_left_alone():
    K, y = problem()
    before = K.copy()
    solve_kernel_fisher(K, y, np.ones(30), 1.0)
    assert np.array_equal(K, before)


def test_indefinite_and_infinite():
    K, y = problem()
    with pytest.raises(ValueError, match="not positive semidefinite"):
        solve_kernel_fisher(-K, y, np.ones(30), 1e-3)
    K[0, 0] = np.inf
    with pytest.raises(ValueError, match="not finite"):
        solve_kernel_fisher(K, y, np.ones(30), 1.0)
