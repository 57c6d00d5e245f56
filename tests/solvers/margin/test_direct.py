"""Large problems without columns: blocks and products from rows, and the start from a sample."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.svm import SVC

from oblong.kernels import Kernel
from oblong.linalg.columns import ExplicitColumns
from oblong.linalg.kernel_columns import KernelColumns
from oblong.solvers.margin.options import MarginOptions
from oblong.solvers.margin.problem import relative_margin_pieces, svm_pieces
from oblong.solvers.margin.regression import epsilon_pieces
from oblong.solvers.margin.relative import solve_relative_margin
from oblong.solvers.margin.sample import sample_rows, scaled, spread_solution
from oblong.solvers.margin.solver import solve_margin

SMALL = MarginOptions(one_block=16, direct_set=48, sample_above=150, smallest_sample=60)
KERNELS = {
    "rbf": Kernel("rbf", 0.3),
    "poly": Kernel("poly", 0.2, 3, 1.0),
    "linear": Kernel("linear"),
}


def _noisy(n, d=5, seed=0, flipped=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + 0.5 * X[:, 1] ** 2 > 0.4, 1.0, -1.0)
    return X, np.where(rng.random(n) < flipped, -y, y)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("B", [np.inf, 1.2])
def test_same_solution_as_with_the_matrix(name, C, B):
    X, y = _noisy(500, seed=1)
    weights = np.random.default_rng(2).uniform(0.5, 2.0, 500)
    penalties = C * weights
    pieces = svm_pieces(y, penalties)
    if np.isfinite(B):
        pieces = relative_margin_pieces(y, penalties, B)
    kernel = KERNELS[name]
    exact = solve_margin(ExplicitColumns(kernel(X)), pieces, tol=1e-7)
    columns = KernelColumns(kernel, X, dtype=np.float32, direct_above=50)
    assert columns.direct
    found = solve_margin(columns, pieces, tol=1e-3, options=SMALL)
    assert found.status == "converged"
    assert found.dual_objective <= exact.objective + exact.gap
    assert exact.objective - found.dual_objective <= found.gap + exact.gap
    assert found.objective >= exact.dual_objective - 1e-9 * abs(exact.objective)
    assert found.relative_gap <= 1e-3
    # The certificate is that of the coefficients: rows that matter have their double precision.
    rows = np.flatnonzero(found.coef)
    lacking = found.outputs[rows] - kernel(X)[rows] @ found.coef
    assert np.ptp(lacking) <= 1e-9 * np.abs(found.outputs).max() * (1.0 + C)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_and_blocks(dtype, threads):
    X, _ = _noisy(400, 60)
    kernel = Kernel("rbf", 0.01)
    columns = KernelColumns(kernel, X, dtype=dtype, direct_above=0, threads=threads)
    K, rng = kernel(X), np.random.default_rng(0)
    image, exact = np.zeros(400), np.zeros(400)
    for _ in range(6):
        some = np.sort(rng.choice(400, 90, replace=False))
        coef = rng.normal(size=90)
        columns.add(image, some, coef, rng.random(90) < 0.3)
        exact += K[:, some] @ coef
        others = np.sort(rng.choice(400, 70, replace=False))
        columns.add_to(image, others, some, coef)
        exact[others] += K[np.ix_(others, some)] @ coef
        rows = np.sort(rng.choice(400, 50, replace=False))
        out = np.full((60, 400), np.nan, dtype=dtype)
        columns.write_rows(rows, some, np.arange(50) + 5, out)
        np.testing.assert_allclose(out[5:55, :90], K[np.ix_(rows, some)], atol=1e-5)
    np.testing.assert_allclose(image, exact, atol=1e-3 if dtype == np.float32 else 1e-10)
    # Those that were asked for again are kept.
    assert (columns.slots(np.arange(400)) >= 0).any()


class _Counted(KernelColumns):
    entries = 0

    def add(self, image, indices, coef, again):
        self.entries += image.size * indices.size
        super().add(image, indices, coef, again)

    def add_to(self, image, rows, indices, coef):
        self.entries += rows.size * indices.size
        super().add_to(image, rows, indices, coef)


@pytest.mark.parametrize("seed", [5, 6])
@pytest.mark.parametrize("limit", [-1, 1000])
@pytest.mark.parametrize("B", [np.inf, 1.2])
def test_rows_that_rest_are_up_to_date_at_the_end(B, limit, seed):
    """Even where rows rest that do not stay satisfied, and where the solver stops early."""
    X, y = _noisy(800, seed=seed)
    kernel = Kernel("rbf", 0.3)
    K = kernel(X)
    pieces = svm_pieces(y, np.ones(800))
    if np.isfinite(B):
        pieces = relative_margin_pieces(y, np.ones(800), B)
    entries = {}
    for far in (np.inf, 0.5, -0.3):
        columns = _Counted(kernel, X, dtype=np.float32, direct_above=50)
        options = replace(SMALL, far=far, sample_above=800)
        found = solve_margin(columns, pieces, options=options, max_iter=limit)
        assert found.status == ("converged" if limit < 0 else "max_iter")
        np.testing.assert_allclose(found.image, K @ found.dual_coef, rtol=0, atol=2e-4)
        assert limit > 0 or found.relative_gap <= 1e-3
        entries[far] = columns.entries
    assert limit > 0 or entries[0.5] < 0.9 * entries[np.inf]


@pytest.mark.parametrize("rows", [1024, 1025, 3000, 3001, 4096, 4097])
def test_against_svc_around_every_threshold(rows):
    X, y = _noisy(rows, seed=rows)
    kernel = Kernel("rbf", 0.2)
    found = solve_margin(KernelColumns(kernel, X), svm_pieces(y, np.ones(rows)))
    peer = SVC(gamma=0.2, cache_size=500).fit(X, y)
    outputs = found.outputs
    np.testing.assert_allclose(outputs, peer.decision_function(X), atol=1e-2)
    assert found.relative_gap <= 1e-3


def test_regression_starts_from_a_sample():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = np.sin(X[:, 0]) + rng.normal(0.0, 0.5, 400)
    kernel = Kernel("rbf", 0.5)
    pieces = epsilon_pieces(y - y.mean(), np.ones(400), 0.1)
    exact = solve_margin(ExplicitColumns(kernel(X)), pieces, tol=1e-7)
    columns = KernelColumns(kernel, X, dtype=np.float32, direct_above=50)
    found = solve_margin(columns, pieces, options=SMALL)
    assert found.relative_gap <= 1e-3
    assert found.objective == pytest.approx(exact.objective, rel=1e-3)


@pytest.mark.parametrize("C", [0.01, 1.0])
def test_start_is_feasible_and_near(C):
    X, y = _noisy(900, seed=3)
    kernel = Kernel("rbf", 0.3)
    pieces = svm_pieces(y, np.full(900, C))
    columns = KernelColumns(kernel, X, direct_above=100)
    rows = sample_rows(pieces, 300)
    assert abs(np.mean(y[rows]) - np.mean(y)) < 0.02
    sample = solve_margin(columns.restricted(rows), scaled(pieces.take(rows), 3.0), rough=True)
    bias = 0.5 * sum(sample.bias_interval)
    start, image = spread_solution(columns, pieces, rows, sample.dual_coef, bias)
    assert abs(start.sum()) <= 1e-9 * np.abs(start).sum()
    assert (start >= pieces.breakpoints[:, 0]).all()
    assert (start <= pieces.breakpoints[:, 3]).all()
    np.testing.assert_allclose(image, kernel(X) @ start, atol=1e-9 * np.abs(start).sum())
    # Most rows are on the piece that they end on.
    best = solve_margin(columns, pieces, start=start, start_image=image)
    same = [a == b for a, b in zip(pieces.slopes_at(start), pieces.slopes_at(best.dual_coef))]
    assert np.logical_and(*same).mean() > 0.7


def test_a_sample_that_is_mostly_free_still_starts_a_noisy_problem():
    """Few rows with the penalties of many are mostly free; those at their caps tell the noise."""
    n, probe = 2000, 100
    options = replace(SMALL, sample_above=450, smallest_sample=4 * probe)
    X, y = _noisy(n, 8, flipped=0.4)
    kernel, pieces = Kernel("rbf", 0.2), svm_pieces(y, np.full(n, 0.1))
    rows = sample_rows(pieces, probe)
    few = scaled(pieces.take(rows), n / probe)
    sample = solve_margin(ExplicitColumns(kernel(X[rows])), few, tol=0.03, polish=False)
    assert 2 * np.count_nonzero(np.equal(*few.slopes_at(sample.dual_coef))) > probe
    columns = KernelColumns(kernel, X, dtype=np.float32, direct_above=50)
    started = solve_margin(columns, pieces, options=options)
    alone = solve_margin(columns, pieces, options=replace(options, sample_above=n))
    assert 2 * started.n_rounds < alone.n_rounds
    assert started.objective == pytest.approx(alone.objective, rel=1e-3)


def test_columns_that_are_kept_anyway_are_computed_for_the_block():
    X, _ = _noisy(400, 60)
    columns = KernelColumns(Kernel("rbf", 0.01), X, direct_above=0)
    first, second, third = np.arange(100), np.arange(100, 200), np.arange(200, 300)
    image, coef = np.zeros(400), np.ones(100)
    assert (columns.slots(first) < 0).all()
    columns.add(image, first, coef, coef > 0.0)
    assert (columns.slots(first) >= 0).all()
    columns.slots(second)
    columns.add(image, second, coef, coef > 0.0)
    # All that were missing have been kept: the next ones are there at once.
    assert (columns.slots(third) >= 0).all()
    columns.add(image, third[:40], coef[:40], coef[:40] > 0.0)
    # Most of these turned out to be of no use.
    assert (columns.slots(np.arange(300, 400)) < 0).all()


class _OwnImages(KernelColumns):
    own_images = 0

    def own_image(self, support, coef):
        self.own_images += 1
        return super().own_image(support, coef)


@pytest.mark.large
def test_a_solution_without_proof_is_the_same_without_its_outputs_in_double_precision():
    X, y = _noisy(3000, seed=7)
    kernel, pieces = Kernel("rbf", 0.3), svm_pieces(y, np.ones(3000))
    for proof in (True, False):
        columns = _OwnImages(kernel, X, direct_above=50)
        found = solve_margin(columns, pieces, proof=proof)
        assert found.status == "converged"
        assert found.violation <= 1e-3
        assert found.relative_gap <= 1e-3
        np.testing.assert_allclose(found.image, kernel(X) @ found.dual_coef, rtol=0, atol=1e-4)
        assert (columns.own_images > 0) == proof


@pytest.mark.large
@pytest.mark.parametrize(("C", "spread"), [(1e-4, 0.5), (1.0, 0.5), (1.0, 0.1), (1.0, 1.0)])
def test_relative_margins_are_certified_whatever_the_svm_was(C, spread):
    """With the least penalty all outputs are below one, and the SVM itself is the solution."""
    X, y = _noisy(3000, seed=9)
    # As many of either class, so that all of them reach that penalty.
    rows = np.concatenate([np.flatnonzero(y == label)[:1100] for label in (-1.0, 1.0)])
    X, y = X[rows], y[rows]
    kernel, penalties = Kernel("rbf", 0.3), np.full(2200, C)
    found = solve_relative_margin(KernelColumns(kernel, X), y, penalties, spread=spread)
    exact = solve_relative_margin(ExplicitColumns(kernel(X)), y, penalties, spread=spread)
    assert (found.theta < 1.0) == (C < 1.0)
    assert found.theta == pytest.approx(exact.theta, abs=2e-3)
    margin, other = found.margin, exact.margin
    assert margin.status == "converged"
    assert 0.0 < margin.rounding <= margin.gap
    assert margin.objective == pytest.approx(other.objective, rel=2e-3)
    support = np.flatnonzero(margin.coef)
    lacking = margin.outputs[support] - kernel(X)[support] @ margin.coef
    assert np.ptp(lacking) <= 1e-9
