"""Universum points in the margin solver, against a general convex solver."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.problem import svm_pieces
from oblong.solvers.margin.solver import solve_margin
from oblong.solvers.margin.universum import solve_universum, universum_pieces
from tests.reference.margin import factor, kernel_matrix
from tests.reference.sigma import universum_svm


def test_pieces_have_the_loss_of_the_tube():
    f = np.linspace(-2, 2, 41)
    pieces = universum_pieces(41, 3.0, 0.25)
    np.testing.assert_allclose(pieces.loss(f), 3.0 * np.maximum(np.abs(f) - 0.25, 0), atol=1e-12)
    right, left = pieces.slopes_at(np.zeros(41))
    assert (right == -0.25).all()
    assert (left == 0.25).all()


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("C_universum", [0.05, 1.0, 50.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.5])
def test_against_the_reference(kernel, C, C_universum, epsilon):
    rng = np.random.default_rng(3)
    n, m = 24, 15
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    centres = np.concatenate([np.outer(y, np.ones(3)), np.tile([1.0, 0.0, -1.0], (m, 1))])
    X = rng.normal(size=(n + m, 3)) + centres
    K = kernel_matrix(X, X, kernel)
    F = factor(K)
    penalties = C * rng.uniform(0.5, 2.0, size=n)
    value, w, _ = universum_svm(F[:n], y, penalties, F[n:], C_universum, epsilon)
    result = solve_universum(
        KernelMatrix(K), y, penalties, C_universum=C_universum, epsilon=epsilon, tol=1e-8
    )
    assert result.margin.status == "converged"
    assert result.margin.objective == pytest.approx(value, rel=1e-6, abs=1e-8)
    assert result.margin.relative_gap < 1e-5
    np.testing.assert_allclose(F @ (F.T @ result.margin.coef), F @ w, atol=2e-3)
    assert (np.abs(result.universum_coef) <= C_universum).all()
    assert result.coef.size == n
    # A point strictly inside the tube has no say.
    inside = np.abs(result.margin.outputs[n:]) < epsilon - 1e-6
    assert (result.universum_coef[inside] == 0).all()


def test_no_points_and_points_that_cost_nothing():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(30) % 2 == 0, 1.0, -1.0)
    X = rng.normal(size=(40, 2))
    K = kernel_matrix(X, X, "rbf")
    C = np.full(30, 2.0)
    svm = solve_margin(KernelMatrix(K[:30, :30]), svm_pieces(y, C), tol=1e-8)
    none = solve_universum(KernelMatrix(K[:30, :30]), y, C, C_universum=1.0, epsilon=0.1, tol=1e-8)
    assert np.array_equal(none.margin.dual_coef, svm.dual_coef)
    assert none.universum_coef.size == 0
    free = solve_universum(KernelMatrix(K), y, C, C_universum=1.0, epsilon=100.0, tol=1e-8)
    assert (free.universum_coef == 0).all()
    assert free.margin.objective == pytest.approx(svm.objective, rel=1e-8)


def test_a_price_of_zero_leaves_a_point_out():
    rng = np.random.default_rng(1)
    y = np.where(np.arange(20) % 2 == 0, 1.0, -1.0)
    X = rng.normal(size=(50, 3)) + 0.5 * np.r_[y, np.zeros(30)][:, None]
    K = kernel_matrix(X, X, "rbf")
    C = np.full(20, 5.0)
    part = np.r_[0:20, 20:50:2]
    few = solve_universum(
        KernelMatrix(K[np.ix_(part, part)]), y, C, C_universum=0.5, epsilon=0.1, tol=1e-8
    )
    prices = np.where(np.arange(30) % 2 == 0, 0.5, 0.0)
    all_of_them = solve_universum(KernelMatrix(K), y, C, C_universum=prices, epsilon=0.1, tol=1e-8)
    assert (all_of_them.universum_coef[1::2] == 0).all()
    assert (all_of_them.universum_coef != 0).any()
    assert all_of_them.margin.objective == pytest.approx(few.margin.objective, rel=1e-8)
    np.testing.assert_allclose(all_of_them.margin.outputs[part], few.margin.outputs, atol=1e-5)
