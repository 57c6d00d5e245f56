"""Kernel principal coordinates, and the upright factor of a matrix."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.decomposition import KernelPCA

from oblong.linalg.kernel_coordinates import kernel_coordinates
from oblong.linalg.orientation import upright_rotation


def rows(n: int = 60, d: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def rbf(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.exp(-0.3 * cdist(A, B, "sqeuclidean"))


def centred(K: np.ndarray) -> np.ndarray:
    H = np.eye(len(K)) - 1.0 / len(K)
    return H @ K @ H


@pytest.mark.parametrize("rank", [1, 5, 20])
def test_the_components_are_those_of_kernel_pca(rank):
    X, new = rows(), rows(20, seed=1)
    K, K_new = rbf(X, X), rbf(new, X)
    pca = KernelPCA(n_components=rank, kernel="precomputed", eigen_solver="dense").fit(K)
    ours = kernel_coordinates(K, rank=rank)
    np.testing.assert_allclose(ours.eigenvalues, pca.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(np.abs(ours.project(K_new)), np.abs(pca.transform(K_new)), atol=1e-8)
    np.testing.assert_allclose(ours.project(K), ours.coordinates, atol=1e-9)
    assert ours.rank == rank


@pytest.mark.parametrize("center", [True, False])
def test_all_directions_give_the_matrix_back(center):
    X = rows(40)
    K = rbf(X, X)
    ours = kernel_coordinates(K, center=center, rank="full")
    P = ours.coordinates
    np.testing.assert_allclose(P @ P.T, centred(K) if center else K, atol=1e-8)
    assert ours.explained == pytest.approx(1.0)
    assert (np.diff(ours.eigenvalues) <= 0).all()
    assert ours.means.any() == center


@pytest.mark.parametrize("center", [True, False])
def test_linear_kernel_keeps_inner_products_of_new_rows(center):
    X, new = rows(30) + 2.0, rows(10, seed=1)
    ours = kernel_coordinates(X @ X.T, center=center, rank="full")
    assert ours.rank == 3
    mean = X.mean(axis=0) if center else 0.0
    P = ours.project(new @ X.T)
    np.testing.assert_allclose(P @ P.T, (new - mean) @ (new - mean).T, atol=1e-8)


def test_default_rank():
    # A sharp kernel has a flat spectrum: the tenth of the rows is the limit.
    assert kernel_coordinates(np.eye(100)).rank == 10
    assert kernel_coordinates(np.eye(30)).rank == 3
    assert kernel_coordinates(np.eye(5)).rank == 1
    # Of a smooth one few directions take 99 % of the trace.
    spread = np.diag([50.0, 40.0, 9.5] + [0.5 / 97] * 97)
    ours = kernel_coordinates(spread, center=False)
    assert ours.rank == 3
    assert ours.explained == pytest.approx(0.995)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("rank", [None, 4, "full"])
@pytest.mark.parametrize("unit", [1.0, 0.01])
def test_weights_equal_copies(center, rank, unit):
    X, new = rows(50), rows(10, seed=1)
    counts = np.random.default_rng(0).integers(0, 4, size=50)
    many = np.repeat(X, counts, axis=0)
    one = kernel_coordinates(
        rbf(X, X), center=center, rank=rank, sample_weight=unit * counts.astype(float)
    )
    other = kernel_coordinates(rbf(many, many), center=center, rank=rank)
    assert one.rank == other.rank
    P, Q = one.project(rbf(new, X)), other.project(rbf(new, many))
    np.testing.assert_allclose(P @ P.T, Q @ Q.T, atol=1e-7)
    np.testing.assert_allclose(one.coordinates, one.project(rbf(X, X)), atol=1e-7)
    np.testing.assert_allclose(one.explained, other.explained)
    assert not one.directions[counts == 0].any()


def test_signs_do_not_depend_on_the_order():
    X = rows(40)
    order = np.random.default_rng(0).permutation(40)
    one = kernel_coordinates(rbf(X, X), rank=5).coordinates
    other = kernel_coordinates(rbf(X[order], X[order]), rank=5).coordinates
    np.testing.assert_allclose(other, one[order], atol=1e-8)


def test_single_precision_matrix():
    X = rows(40)
    K = rbf(X, X)
    ours = kernel_coordinates(K.astype(np.float32), rank=5)
    np.testing.assert_allclose(
        np.abs(ours.coordinates), np.abs(kernel_coordinates(K, rank=5).coordinates), atol=1e-4
    )
    assert ours.coordinates.dtype == np.float64


@pytest.mark.parametrize(
    ("K", "weight", "message"),
    [
        (np.ones((3, 2)), None, "square"),
        (np.full((3, 3), np.nan), None, "not finite"),
        (np.ones((3, 3)), None, "all rows are the same"),
        (np.eye(3), np.zeros(3), "weight zero"),
    ],
)
def test_bad_matrices(K, weight, message):
    with pytest.raises(ValueError, match=message):
        kernel_coordinates(K, sample_weight=weight)


# The upright factor -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("constant", [(), (0,), (0, 2), (1,)])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_equal_matrices_have_equal_factors(seed, constant, k):
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(k, 6)) * np.geomspace(1e-3, 1e3, 6)
    F[:, constant] = 0.0
    turn = np.linalg.qr(rng.normal(size=(k, k)))[0]
    Q, other = upright_rotation(F), upright_rotation(turn @ F)
    np.testing.assert_allclose(Q @ Q.T, np.eye(k), atol=1e-12)
    scale = np.linalg.norm(F, axis=0) + 1e-300
    np.testing.assert_allclose((Q.T @ F) / scale, (other.T @ turn @ F) / scale, atol=1e-9)
    pivots = [j for j in range(6) if j not in constant][:k]
    square = (Q.T @ F)[:, pivots] / scale[pivots]
    np.testing.assert_allclose(np.tril(square, -1), 0.0, atol=1e-12)
    assert (square.diagonal() > 0).all()


def test_nearly_dependent_columns():
    F = np.array([[1.0, 1.0, 0.0], [0.0, 1e-9, 2.0]])
    G = upright_rotation(F).T @ F
    np.testing.assert_allclose(G, [[1, 1, 0], [0, 1e-9, 2]], atol=1e-12)
    last = F[:, :2] * [1.0, 1.0]
    np.testing.assert_allclose(upright_rotation(last), np.eye(2), atol=1e-12)
    # Nothing but one long column: the rest is any rotation.
    thin = np.array([[1.0, 0.0], [0.0, 1e-14]])
    Q = upright_rotation(thin)
    np.testing.assert_allclose(Q @ Q.T, np.eye(2), atol=1e-12)
