"""Problems of more rows than one block: samples, single precision, small caches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.svm import SVC, SVR

from oblong.kernels import Kernel, resolve_gamma
from oblong.linalg.columns import ExplicitColumns
from oblong.linalg.kernel_columns import KernelColumns
from oblong.solvers.margin.options import DEFAULTS
from oblong.solvers.margin.problem import relative_margin_pieces, svm_pieces
from oblong.solvers.margin.regression import epsilon_pieces
from oblong.solvers.margin.solver import solve_margin

pytestmark = pytest.mark.large

ROWS = 4500


@pytest.fixture(scope="module")
def problem():
    X, y = make_classification(ROWS, 12, n_informative=8, flip_y=0.02, random_state=3)
    return X, np.where(y > 0, 1.0, -1.0), Kernel("rbf", resolve_gamma("scale", X))


@pytest.fixture(scope="module")
def solved(problem):
    X, y, kernel = problem
    return solve_margin(KernelColumns(kernel, X), svm_pieces(y, np.ones(ROWS)), tol=1e-4)


def test_single_precision_is_used_and_meets_the_tolerance(problem, solved):
    X, y, kernel = problem
    assert KernelColumns(kernel, X).store.dtype == np.float32
    assert solved.status == "converged"
    # The optimality conditions, from scratch and in double precision.
    u = kernel(X) @ solved.dual_coef
    right, left = svm_pieces(y, np.ones(ROWS)).slopes_at(solved.dual_coef)
    assert (right - u).max() - (left - u).min() <= 1.2e-4
    assert abs(solved.dual_coef.sum()) < 1e-10
    assert -1e-9 <= solved.relative_gap <= 1e-4


def test_agrees_with_libsvm(problem, solved):
    X, y, kernel = problem
    svc = SVC(gamma=kernel.gamma, tol=1e-4).fit(X, y)
    np.testing.assert_allclose(solved.outputs, svc.decision_function(X), atol=2e-3)


def test_start_from_a_sample_changes_the_way_and_not_the_solution(problem, solved):
    X, y, kernel = problem
    stages = []
    cold = solve_margin(
        KernelColumns(kernel, X),
        svm_pieces(y, np.ones(ROWS)),
        tol=1e-4,
        start=np.zeros(ROWS),
        progress=lambda report: stages.append(report.stage),
    )
    assert "sample of the rows" not in stages
    assert cold.objective == pytest.approx(solved.objective, rel=1e-5)
    assert cold.n_rounds > solved.n_rounds


def test_sorted_and_unbalanced_rows_give_a_sample_of_both_classes():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(ROWS) < 40, 1.0, -1.0)
    X = rng.normal(size=(ROWS, 3)) + 2.0 * (y > 0)[:, None]
    pieces = svm_pieces(y, np.ones(ROWS))
    stages = []
    result = solve_margin(
        KernelColumns(Kernel("rbf", 0.3), X),
        pieces,
        progress=lambda report: stages.append(report.stage),
    )
    assert stages[0] == "sample of the rows"
    assert result.status == "converged"
    assert np.count_nonzero(result.dual_coef[:40]) > 0


@pytest.mark.parametrize("columns", [40, 700])
def test_a_cache_of_few_columns_gives_the_same_solution(problem, solved, columns):
    X, y, kernel = problem
    tight = KernelColumns(kernel, X, cache_bytes=4.0 * ROWS * columns)
    assert tight.capacity == columns
    result = solve_margin(tight, svm_pieces(y, np.ones(ROWS)), tol=1e-2)
    assert result.status == "converged"
    assert result.objective == pytest.approx(solved.objective, rel=1e-3)


def test_bounded_outputs_from_the_start_of_the_svm(problem, solved):
    X, y, kernel = problem
    bound = 1.0 + 0.25 * (np.abs(solved.outputs).max() - 1.0)
    pieces = relative_margin_pieces(y, np.ones(ROWS), bound)
    columns = KernelColumns(kernel, X)
    warm = solve_margin(columns, pieces, start=solved.dual_coef, start_image=solved.image)
    cold = solve_margin(columns, pieces)
    assert np.abs(warm.outputs).max() <= bound + 1e-3
    assert warm.objective == pytest.approx(cold.objective, rel=2e-3)


def test_single_precision_that_cannot_certify_becomes_double():
    """With this C the rounding of single precision exceeds the tolerance."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2500, 4))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=2500) > 0, 1.0, -1.0)
    kernel = Kernel("linear")
    columns = KernelColumns(kernel, X)
    assert not columns.exact
    pieces = svm_pieces(y, np.full(2500, 100.0))
    result = solve_margin(columns, pieces, tol=1e-5)
    u = (X - X.mean(axis=0)) @ ((X - X.mean(axis=0)).T @ result.dual_coef)
    right, left = pieces.slopes_at(result.dual_coef)
    assert result.status == "converged"
    assert (right - u).max() - (left - u).min() <= 1.1e-5


def test_large_exponents_ask_for_double_precision():
    X = np.random.default_rng(2).normal(size=(2100, 3)) * 1e3
    assert KernelColumns(Kernel("rbf", 1.0), X).store.dtype == np.float64
    assert KernelColumns(Kernel("linear"), 1e-20 * X).store.dtype == np.float64


def test_two_threads_give_the_same_solution(problem, solved):
    X, y, kernel = problem
    two = solve_margin(KernelColumns(kernel, X, threads=2), svm_pieces(y, np.ones(ROWS)), tol=1e-4)
    assert two.status == "converged"
    # Up to the tolerance: some processors round a product by where its tile ends.
    np.testing.assert_allclose(two.outputs, solved.outputs, atol=1e-4)


def test_explicit_matrix_in_blocks(problem, solved):
    X, y, kernel = problem
    result = solve_margin(ExplicitColumns(kernel(X)), svm_pieces(y, np.ones(ROWS)), tol=1e-4)
    np.testing.assert_allclose(result.outputs, solved.outputs, atol=1e-3)


@pytest.mark.parametrize("C", [1.0, 100.0])
def test_a_sample_of_free_coefficients_is_no_start(C, monkeypatch):
    """Rows that all matter say nothing about others: a few of them show that, and nothing else."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(700, 40)), rng.normal(size=700)
    pieces = epsilon_pieces(y, np.full(700, C), 0.01)
    columns = ExplicitColumns(Kernel("rbf", 0.05)(X))
    monkeypatch.delattr("oblong.solvers.margin.solver.spread_solution")
    options = replace(DEFAULTS, sample_above=600, smallest_sample=400, one_block=100)
    found = solve_margin(columns, pieces, tol=1e-6, options=options)
    expected = SVR(gamma=0.05, C=C, epsilon=0.01, tol=1e-8).fit(X, y)
    assert found.status == "converged"
    np.testing.assert_allclose(found.outputs, expected.predict(X), atol=1e-4)
