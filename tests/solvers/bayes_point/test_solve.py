"""The Bayes point: both methods against brute force, closed forms and each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel

from oblong.solvers.bayes_point.solve import solve_bayes_point
from tests.reference.bayes_point import brute_force, sector


def separable(seed: int, n: int = 8, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(n, d))
    return F, np.where(F @ rng.normal(size=d) > 0, 1.0, -1.0)


def noisy(seed: int, n: int = 30, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(n, d))
    return F, np.where(F[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)


def moons(n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    X, labels = make_moons(n, noise=0.2, random_state=0)
    F = np.linalg.cholesky(rbf_kernel(X, gamma=1.0) + 1.0 + 1e-10 * np.eye(n))
    return F, 2.0 * labels - 1.0


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def sampled(F, y, n_samples=100_000, seed=0, **options):
    rng = np.random.default_rng(seed)
    return solve_bayes_point(F, y, method="sampling", n_samples=n_samples, rng=rng, **options)


@pytest.mark.parametrize("seed", range(6))
def test_hard_against_brute_force(seed):
    F, y = separable(seed, d=2 + seed % 3)
    mean, covariance, evidence = brute_force(F, y, n=1_000_000)
    found = solve_bayes_point(F, y)
    assert found.status == "converged"
    assert cosine(found.w, mean) > 0.9995
    assert np.linalg.norm(found.w) == pytest.approx(np.linalg.norm(mean), rel=0.08)
    assert found.log_evidence == pytest.approx(evidence, abs=0.3)
    walk = sampled(F, y, n_samples=40_000)
    assert cosine(walk.w, mean) > 0.9998
    assert np.linalg.norm(walk.w) == pytest.approx(np.linalg.norm(mean), rel=0.02)
    np.testing.assert_allclose(walk.root @ walk.root.T, covariance, atol=0.04)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("soft", [0.1, 2.0])
def test_soft_against_brute_force(seed, soft):
    F, y = noisy(seed, n=12)
    mean, covariance, evidence = brute_force(F, y, soft)
    found = solve_bayes_point(F, y, soft=soft)
    assert cosine(found.w, mean) > 0.998
    np.testing.assert_allclose(found.w, mean, atol=0.04)
    np.testing.assert_allclose(found.root @ found.root.T, covariance, atol=0.06)
    assert found.log_evidence == pytest.approx(evidence, abs=0.08)
    walk = sampled(F, y, n_samples=20_000, soft=soft)
    np.testing.assert_allclose(walk.w, mean, atol=0.04)
    np.testing.assert_allclose(walk.root @ walk.root.T, covariance, atol=0.04)


@pytest.mark.parametrize("seed", range(5))
def test_in_the_plane_the_bayes_point_halves_the_angle(seed):
    F, y = separable(seed, n=12, d=2)
    low, high = sector(F, y)
    middle = np.array([np.cos((low + high) / 2), np.sin((low + high) / 2)])
    found = solve_bayes_point(F, y)
    assert cosine(found.w, middle) > 1 - 0.003 * (high - low) ** 2
    walk = sampled(F, y, n_samples=20_000)
    assert cosine(walk.w, middle) > 1 - 0.0005 * (high - low) ** 2
    # Length and direction are independent, and the mean over the sector is known.
    half = (high - low) / 2
    assert np.linalg.norm(walk.w) == pytest.approx(
        np.sqrt(np.pi / 2) * np.sin(half) / half, rel=1e-2
    )


def test_one_row_is_exact():
    # E[f | f > 0] of f ~ N(0, |x|²).
    x = np.array([[3.0, 4.0]])
    found = solve_bayes_point(x, np.array([-1.0]), tol=1e-12)
    np.testing.assert_allclose(found.w, -np.sqrt(2 / np.pi) * x[0] / 5.0, rtol=1e-10)
    assert found.log_evidence == pytest.approx(np.log(0.5), abs=1e-12)
    np.testing.assert_allclose(
        x @ found.root @ found.root.T @ x.T, 25.0 * (1 - 2 / np.pi), rtol=1e-10
    )
    soft = solve_bayes_point(x, np.array([1.0]), soft=11.0, tol=1e-12)
    np.testing.assert_allclose(soft.w @ x[0], 25.0 * np.sqrt(2 / np.pi) / 6.0, rtol=1e-10)
    assert soft.log_evidence == pytest.approx(np.log(0.5), abs=1e-12)


def test_orthogonal_rows_are_exact():
    y = np.array([1.0, -1.0, 1.0])
    found = solve_bayes_point(np.diag([1.0, 2.0, 30.0]), y, tol=1e-12)
    np.testing.assert_allclose(found.w, y * np.sqrt(2 / np.pi), rtol=1e-10)
    assert found.log_evidence == pytest.approx(3 * np.log(0.5))
    np.testing.assert_allclose(found.root @ found.root.T, (1 - 2 / np.pi) * np.eye(3), atol=1e-10)


def test_both_methods_agree_with_a_kernel():
    F, y = moons()
    found = solve_bayes_point(F, y)
    walk = sampled(F, y)
    assert walk.status == "converged"
    assert walk.residual < 0.05
    assert cosine(found.w, walk.w) > 0.998


def test_slack_is_the_kernel_matrix_with_a_ridge():
    F, y = noisy(3, n=20)
    soft = 0.7
    found = solve_bayes_point(F, y, soft=soft, tol=1e-10)
    ridged = np.column_stack([F, np.sqrt(soft) * np.eye(20)])
    same = solve_bayes_point(ridged, y, tol=1e-10)
    np.testing.assert_allclose(same.w[:3], found.w, atol=1e-7)
    assert same.log_evidence == pytest.approx(found.log_evidence, abs=1e-7)


@given(seed=st.integers(0, 10_000), factor=st.floats(1e-3, 1e3))
def test_hard_half_spaces_have_no_length(seed, factor):
    F, y = separable(seed)
    found = solve_bayes_point(F, y, tol=1e-9)
    lengths = np.random.default_rng(seed).uniform(0.1, 1.0, size=8) * factor
    other = solve_bayes_point(F * lengths[:, None], y, tol=1e-9)
    np.testing.assert_allclose(other.w, found.w, atol=1e-6)
    assert other.log_evidence == pytest.approx(found.log_evidence, abs=1e-6)


@given(seed=st.integers(0, 10_000), soft=st.sampled_from([0.0, 0.3]))
def test_rotations_and_flips(seed, soft):
    F, y = separable(seed)
    rotation = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
    order = np.random.default_rng(seed).permutation(8)
    found = solve_bayes_point(F, y, soft=soft, tol=1e-9)
    other = solve_bayes_point((F @ rotation)[order], -y[order], soft=soft, tol=1e-9)
    np.testing.assert_allclose(other.w, -found.w @ rotation, atol=1e-6)


@given(seed=st.integers(0, 10_000))
def test_mean_square_length_in_a_cone(seed):
    """In a cone the length of a normal vector is independent of its direction."""
    F, y = separable(seed)
    found = solve_bayes_point(F, y, tol=1e-10)
    assert found.w @ found.w + (found.root**2).sum() == pytest.approx(3.0, abs=1e-6)


@pytest.mark.parametrize("soft", [0.0, 0.5])
@pytest.mark.parametrize("method", ["ep", "sampling"])
def test_weights_are_copies(soft, method):
    F, y = separable(1) if soft == 0.0 else noisy(1)
    counts = np.random.default_rng(1).integers(0, 4, size=len(y))
    options = {"soft": soft, "tol": 1e-10, "method": method, "n_samples": 100}
    weighted = solve_bayes_point(
        F, y, weights=counts.astype(float), rng=np.random.default_rng(0), **options
    )
    copies = solve_bayes_point(
        np.repeat(F, counts, axis=0), np.repeat(y, counts), rng=np.random.default_rng(0), **options
    )
    np.testing.assert_allclose(weighted.w, copies.w, atol=1e-7)


def test_weights_are_continuous_with_slack():
    F, y = noisy(2)
    weights = np.ones(len(y))

    def at(weight):
        weights[0] = weight
        return solve_bayes_point(F, y, soft=0.5, weights=weights, tol=1e-10).w

    np.testing.assert_allclose(at(1e-9), at(0.0), atol=1e-6)
    for whole in (1.0, 2.0):
        np.testing.assert_allclose(at(whole + 1e-9), at(whole), atol=1e-6)
        np.testing.assert_allclose(at(whole - 1e-9), at(whole), atol=1e-6)
    assert np.abs(at(0.5) - at(1.0)).max() > 1e-3


@pytest.mark.parametrize("method", ["ep", "sampling"])
def test_empty_version_space(method):
    F, y = noisy(0, n=60)
    assert solve_bayes_point(F, y, method=method, n_samples=100).status == "empty"
    F, y = separable(0)
    contradiction = np.vstack([F, F[:1]]), np.append(y, -y[0])
    assert solve_bayes_point(*contradiction, method=method, n_samples=100).status == "empty"
    assert solve_bayes_point(*contradiction, soft=0.1).status == "converged"


def test_thin_version_space():
    width = 1e-6
    F = np.array([[np.sin(width), np.cos(width)], [np.sin(width), -np.cos(width)], [1.0, 0.0]])
    found = solve_bayes_point(F, np.ones(3))
    assert found.status == "converged"
    assert abs(found.w[1]) < 1e-3 * width * found.w[0]
    assert found.log_evidence == pytest.approx(np.log(width / np.pi), abs=0.3)


def test_rows_of_zeros_leave_the_prior():
    found = solve_bayes_point(np.zeros((3, 2)), np.array([1.0, -1.0, 1.0]))
    assert not found.w.any()
    np.testing.assert_array_equal(found.root, np.eye(2))


def test_limits_and_reports():
    F, y = moons()
    reports = []
    found = solve_bayes_point(F, y, max_iter=3, progress=reports.append)
    assert found.status == "max_iter"
    assert found.n_iter == len(reports) == 3
    assert found.residual == reports[-1].violation > 1e-5
    reports.clear()
    walk = sampled(F, y, n_samples=40, progress=reports.append)
    assert walk.status == "few_samples"
    assert reports[-1].violation == walk.residual > 0.1


def test_single_precision():
    F, y = separable(5)
    found = solve_bayes_point(F.astype(np.float32), y)
    np.testing.assert_allclose(found.w, solve_bayes_point(F, y).w, atol=1e-4)
