"""Problems of more rows than one block: the same solutions, whatever the way to them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification
from sklearn.svm import SVC, SVR

from oblong.kernels import Kernel, resolve_gamma
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.options import DEFAULTS
from oblong.solvers.margin.problem import relative_margin_pieces, svm_pieces
from oblong.solvers.margin.regression import epsilon_pieces
from oblong.solvers.margin.relative import solve_relative_margin
from oblong.solvers.margin.sample import sample_rows, scaled, spread_solution
from oblong.solvers.margin.solver import solve_margin
from oblong.solvers.margin.working_sets import solve_large

# Small sets and samples, so that small problems are large ones.
SMALL = replace(DEFAULTS, one_block=16, working_set=48, sample_above=150, smallest_sample=60)
KERNELS = {
    "rbf": Kernel("rbf", 0.3),
    "poly": Kernel("poly", 0.2, 3, 1.0),
    "linear": Kernel("linear"),
}
ROWS = 4500


def _noisy(n, d=5, seed=0, flipped=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + 0.5 * X[:, 1] ** 2 > 0.4, 1.0, -1.0)
    return X, np.where(rng.random(n) < flipped, -y, y)


def _optimal(K, pieces, found, tol):
    """The optimality conditions, from the coefficients alone."""
    right, left = pieces.slopes_at(found.dual_coef)
    u = K @ found.dual_coef
    assert (right - u).max() - (left - u).min() <= tol
    assert abs(found.dual_coef.sum()) <= 1e-10 * max(1.0, np.abs(found.dual_coef).sum())


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("B", [np.inf, 1.2])
def test_solve_large__has_the_solution_of_the_whole_matrix(name, C, B):
    X, y = _noisy(500, seed=1)
    penalties = C * np.random.default_rng(2).uniform(0.5, 2.0, 500)
    pieces = svm_pieces(y, penalties)
    if np.isfinite(B):
        pieces = relative_margin_pieces(y, penalties, B)
    kernel = KERNELS[name]
    K = kernel(X)
    exact = solve_margin(KernelMatrix(K), pieces, tol=1e-7)
    matrix = KernelMatrix.of_rows(kernel, X, dtype=np.float32)
    found = solve_large(matrix, pieces, tol=1e-3, options=SMALL)
    assert found.status == "converged"
    assert found.dual_objective <= exact.objective + exact.gap
    assert exact.objective - found.dual_objective <= found.gap + exact.gap
    assert found.objective >= exact.dual_objective - 1e-9 * abs(exact.objective)
    assert found.relative_gap <= 1e-3
    # The certificate is that of the coefficients: rows that matter have their double precision.
    rows = np.flatnonzero(found.coef)
    lacking = found.outputs[rows] - K[rows] @ found.coef
    assert np.ptp(lacking) <= 1e-9 * np.abs(found.outputs).max() * (1.0 + C)


@pytest.mark.parametrize("room", [2, 60, 500])
@pytest.mark.parametrize("kind", ["wide", "sparse", "callable", "given"])
@pytest.mark.parametrize("B", [np.inf, 1.2])
def test_solve_large__whatever_is_kept(kind, room, B):
    """Values that are kept, all or few of them, and blocks that use those of the one before."""
    X, y = _noisy(500, 70, seed=3)
    kernel = Kernel("rbf", 0.01)
    if kind == "sparse":
        X = sp.csr_matrix(np.where(np.abs(X) > 1.0, X, 0.0))
    K = kernel(X)
    if kind == "callable":
        kernel = Kernel(lambda A, B: Kernel("rbf", 0.01)(A, B))
    pieces = svm_pieces(y, np.ones(500))
    if np.isfinite(B):
        pieces = relative_margin_pieces(y, np.ones(500), B)
    matrix = KernelMatrix.of_rows(kernel, X, cache_bytes=8.0 * 500 * room)
    if kind == "given":
        matrix = KernelMatrix(K)
    found = solve_large(matrix, pieces, tol=1e-4, options=SMALL)
    assert found.status == "converged"
    assert found.relative_gap <= 1e-3
    _optimal(K, pieces, found, 1.1e-4)


@pytest.mark.parametrize("seed", [5, 6])
@pytest.mark.parametrize("limit", [1, 100, 1000])
def test_solve_large__stops_at_its_limit_with_an_honest_gap(limit, seed):
    X, y = _noisy(800, seed=seed)
    kernel = Kernel("rbf", 0.3)
    K, pieces = kernel(X), svm_pieces(y, np.ones(800))
    matrix = KernelMatrix.of_rows(kernel, X, dtype=np.float32)
    best = solve_margin(KernelMatrix(K), pieces, tol=1e-6)
    found = solve_large(matrix, pieces, options=SMALL, max_iter=limit)
    assert found.status == "max_iter"
    np.testing.assert_allclose(found.image, K @ found.dual_coef, rtol=0, atol=2e-4)
    assert found.dual_objective - found.rounding <= best.objective
    assert found.objective + found.rounding >= best.dual_objective
    assert best.dual_objective >= found.objective - found.gap


def test_solve_large__near_duplicates_and_conflicting_labels():
    """Every row many times, a little apart, with labels that contradict each other."""
    rng = np.random.default_rng(8)
    X = np.repeat(rng.normal(size=(60, 3)), 25, axis=0) + 1e-7 * rng.normal(size=(1500, 3))
    y = np.where(rng.random(1500) < 0.5, 1.0, -1.0)
    for gamma in (1e-6, 1.0, 1e4):
        for C in (0.1, 1e3):
            pieces = svm_pieces(y, np.full(1500, C))
            kernel = Kernel("rbf", gamma)
            matrix = KernelMatrix.of_rows(kernel, X, dtype=np.float32)
            found = solve_large(matrix, pieces, options=SMALL)
            K = kernel(X)
            dual = pieces.dual(found.dual_coef, K @ found.dual_coef)
            size = abs(found.objective)
            assert dual == pytest.approx(found.dual_objective, rel=1e-6, abs=1e-8 * size)
            assert found.relative_gap <= 1e-2
            f = K @ found.coef + found.bias
            primal = 0.5 * found.coef @ K @ found.coef + C * np.maximum(1.0 - y * f, 0.0).sum()
            assert primal <= found.objective + found.rounding + 1e-8 * size


def test_solve_large__rounding_that_single_precision_cannot_certify():
    """With this C the rounding of single precision exceeds the tolerance."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2500, 4))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=2500) > 0, 1.0, -1.0)
    matrix = KernelMatrix.of_rows(Kernel("linear"), X)
    assert not matrix.exact
    pieces = svm_pieces(y, np.full(2500, 100.0))
    found = solve_large(matrix, pieces, tol=1e-5)
    centred = X - X.mean(axis=0)
    assert found.status == "converged"
    _optimal(centred @ centred.T, pieces, found, 1.1e-5)


def test_solve_large__where_pair_steps_crawl():
    """An interior point method on all rows, and on the sets of a problem that is too large."""
    X, y = _noisy(300, seed=11, flipped=0.05)
    K = (X @ X.T + 1.0) ** 2
    pieces = relative_margin_pieces(y, np.full(300, 1e5), 1.0)
    expected = solve_margin(KernelMatrix(K), pieces)
    for most in (300, 100):
        options = replace(
            SMALL, pair_steps=500, pair_steps_per_square=0.0, interior_point_rows=most
        )
        found = solve_large(KernelMatrix(K), pieces, options=options)
        assert found.dual_objective <= expected.objective * (1.0 + 1e-9)
        if most == 300:
            assert found.status == "converged"
            assert found.dual_objective == pytest.approx(expected.dual_objective, rel=2e-3)


def test_solve_large__stalls_where_nothing_helps():
    """A tolerance below what rounding allows for: the best that was found, with its gap."""
    X, y = _noisy(400, seed=12)
    K = 1e10 * Kernel("poly", 0.5, 3, 1.0)(X)
    pieces = svm_pieces(y, np.full(400, 1e3))
    found = solve_large(KernelMatrix(K), pieces, tol=1e-12, options=SMALL)
    assert found.status == "stalled"
    assert np.isfinite(found.objective)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_solve_large__indefinite_matrices_are_found_out(sign):
    X, y = _noisy(300, seed=13)
    v = np.random.default_rng(0).normal(size=300)
    K = Kernel("rbf", 0.3)(X) - 20.0 * np.outer(v, v) / (v @ v)
    pieces = relative_margin_pieces(y, np.ones(300), 1.2)
    with pytest.raises(ValueError, match="not positive semidefinite"):
        solve_large(KernelMatrix(K), pieces, options=SMALL)


@pytest.mark.large
@pytest.mark.parametrize("rows", [1024, 1025, 2048, 2049, 4096, 4097])
def test_solve_margin__agrees_with_libsvm_around_every_threshold(rows):
    X, y = _noisy(rows, seed=rows)
    kernel = Kernel("rbf", 0.2)
    found = solve_margin(KernelMatrix.of_rows(kernel, X), svm_pieces(y, np.ones(rows)))
    peer = SVC(gamma=0.2, cache_size=500).fit(X, y)
    np.testing.assert_allclose(found.outputs, peer.decision_function(X), atol=1e-2)
    assert found.relative_gap <= 1e-3


def test_solve_large__regression_from_a_sample():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = np.sin(X[:, 0]) + rng.normal(0.0, 0.5, 400)
    kernel = Kernel("rbf", 0.5)
    pieces = epsilon_pieces(y - y.mean(), np.ones(400), 0.1)
    exact = solve_margin(KernelMatrix(kernel(X)), pieces, tol=1e-7)
    matrix = KernelMatrix.of_rows(kernel, X, dtype=np.float32)
    found = solve_large(matrix, pieces, options=SMALL)
    assert found.relative_gap <= 1e-3
    assert found.objective == pytest.approx(exact.objective, rel=1e-3)


@pytest.mark.parametrize("C", [1.0, 100.0])
def test_solve_large__a_sample_of_free_coefficients_is_no_start(C):
    """Rows that all matter say nothing about others."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(700, 40)), rng.normal(size=700)
    pieces = epsilon_pieces(y, np.full(700, C), 0.01)
    options = replace(DEFAULTS, sample_above=600, smallest_sample=400, one_block=100)
    found = solve_large(KernelMatrix(Kernel("rbf", 0.05)(X)), pieces, tol=1e-6, options=options)
    expected = SVR(gamma=0.05, C=C, epsilon=0.01, tol=1e-8).fit(X, y)
    assert found.status == "converged"
    np.testing.assert_allclose(found.outputs, expected.predict(X), atol=1e-4)


@pytest.mark.parametrize("C", [0.01, 1.0])
def test_spread_solution__is_feasible_and_near(C):
    X, y = _noisy(900, seed=3)
    kernel = Kernel("rbf", 0.3)
    pieces = svm_pieces(y, np.full(900, C))
    matrix = KernelMatrix.of_rows(kernel, X)
    rows = sample_rows(pieces, 300)
    assert abs(np.mean(y[rows]) - np.mean(y)) < 0.02
    sample = solve_large(matrix.restricted(rows), scaled(pieces.take(rows), 3.0), rough=True)
    bias = 0.5 * sum(sample.bias_interval)
    start, image = spread_solution(matrix, pieces, rows, sample.dual_coef, bias)
    assert abs(start.sum()) <= 1e-9 * np.abs(start).sum()
    assert (start >= pieces.breakpoints[:, 0]).all()
    assert (start <= pieces.breakpoints[:, 3]).all()
    np.testing.assert_allclose(image, kernel(X) @ start, atol=1e-9 * np.abs(start).sum())
    # Most rows are on the piece that they end on.
    best = solve_margin(matrix, pieces, start=start, start_image=image)
    same = [a == b for a, b in zip(pieces.slopes_at(start), pieces.slopes_at(best.dual_coef))]
    assert np.logical_and(*same).mean() > 0.7


@pytest.fixture(scope="module", name="problem")
def _problem():
    X, y = make_classification(ROWS, 12, n_informative=8, flip_y=0.02, random_state=3)
    return X, np.where(y > 0, 1.0, -1.0), Kernel("rbf", resolve_gamma("scale", X))


@pytest.fixture(scope="module", name="solved")
def _solved(problem):
    X, y, kernel = problem
    return solve_margin(KernelMatrix.of_rows(kernel, X), svm_pieces(y, np.ones(ROWS)), tol=1e-4)


@pytest.mark.large
def test_solve_margin__single_precision_meets_the_tolerance(problem, solved):
    X, y, kernel = problem
    assert KernelMatrix.of_rows(kernel, X).dtype == np.float32
    assert solved.status == "converged"
    _optimal(kernel(X), svm_pieces(y, np.ones(ROWS)), solved, 1.2e-4)
    assert -1e-9 <= solved.relative_gap <= 1e-4
    svc = SVC(gamma=kernel.gamma, tol=1e-4).fit(X, y)
    np.testing.assert_allclose(solved.outputs, svc.decision_function(X), atol=2e-3)


@pytest.mark.large
def test_solve_margin__threads_starts_and_precision_give_one_solution(problem, solved):
    X, y, kernel = problem
    pieces = svm_pieces(y, np.ones(ROWS))
    two = solve_margin(KernelMatrix.of_rows(kernel, X, threads=2), pieces, tol=1e-4)
    # Up to the tolerance: some processors round a product by where its tile ends.
    np.testing.assert_allclose(two.outputs, solved.outputs, atol=1e-4)
    for matrix in (KernelMatrix(kernel(X)), KernelMatrix.of_rows(kernel, X, dtype=np.float64)):
        cold = solve_margin(matrix, pieces, tol=1e-4, start=np.zeros(ROWS))
        np.testing.assert_allclose(cold.outputs, solved.outputs, atol=1e-3)


@pytest.mark.large
def test_solve_margin__a_solution_without_proof_is_the_same():
    X, y = _noisy(3000, seed=7)
    kernel, pieces = Kernel("rbf", 0.3), svm_pieces(y, np.ones(3000))
    for proof in (True, False):
        found = solve_margin(KernelMatrix.of_rows(kernel, X), pieces, proof=proof)
        assert found.status == "converged"
        assert found.violation <= 1e-3
        assert found.relative_gap <= 1e-3
        np.testing.assert_allclose(found.image, kernel(X) @ found.dual_coef, rtol=0, atol=1e-4)


@pytest.mark.large
def test_solve_margin__sorted_and_unbalanced_rows_give_a_sample_of_both_classes():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(ROWS) < 40, 1.0, -1.0)
    X = rng.normal(size=(ROWS, 3)) + 2.0 * (y > 0)[:, None]
    stages = []
    result = solve_margin(
        KernelMatrix.of_rows(Kernel("rbf", 0.3), X),
        svm_pieces(y, np.ones(ROWS)),
        progress=lambda report: stages.append(report.stage),
    )
    assert stages[0] == "sample of the rows"
    assert result.status == "converged"
    assert np.count_nonzero(result.dual_coef[:40]) > 0


@pytest.mark.large
def test_solve_margin__bounded_outputs_from_the_start_of_the_svm(problem, solved):
    X, y, kernel = problem
    bound = 1.0 + 0.25 * (np.abs(solved.outputs).max() - 1.0)
    pieces = relative_margin_pieces(y, np.ones(ROWS), bound)
    matrix = KernelMatrix.of_rows(kernel, X)
    warm = solve_margin(matrix, pieces, start=solved.dual_coef, start_image=solved.image)
    cold = solve_margin(matrix, pieces)
    assert np.abs(warm.outputs).max() <= bound + 1e-3
    assert warm.objective == pytest.approx(cold.objective, rel=2e-3)


@pytest.mark.large
@pytest.mark.parametrize(("C", "spread"), [(1e-4, 0.5), (1.0, 0.5), (1.0, 0.1), (1.0, 1.0)])
def test_solve_relative_margin__is_certified_whatever_the_svm_was(C, spread):
    """With the least penalty all outputs are below one, and the SVM itself is the solution."""
    X, y = _noisy(3000, seed=9)
    # As many of either class, so that all of them reach that penalty.
    rows = np.concatenate([np.flatnonzero(y == label)[:1100] for label in (-1.0, 1.0)])
    X, y = X[rows], y[rows]
    kernel, penalties = Kernel("rbf", 0.3), np.full(2200, C)
    found = solve_relative_margin(KernelMatrix.of_rows(kernel, X), y, penalties, spread=spread)
    exact = solve_relative_margin(KernelMatrix(kernel(X)), y, penalties, spread=spread)
    assert (found.theta < 1.0) == (C < 1.0)
    assert found.theta == pytest.approx(exact.theta, abs=2e-3)
    margin, other = found.margin, exact.margin
    assert margin.status == "converged"
    assert 0.0 < margin.rounding <= margin.gap
    assert margin.objective == pytest.approx(other.objective, rel=2e-3)
    support = np.flatnonzero(margin.coef)
    lacking = margin.outputs[support] - kernel(X)[support] @ margin.coef
    assert np.ptp(lacking) <= 1e-9
