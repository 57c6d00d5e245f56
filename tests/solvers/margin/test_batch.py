"""Batches of margin problems: the solutions of problems that were solved one at a time."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from oblong.kernels import Kernel
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.batch.loops import LARGEST, SOURCE, STEPS
from oblong.solvers.margin.batch.problem import STATUS, GramTiles, MarginBatch, RowTiles
from oblong.solvers.margin.batch.solve import solve_batch
from oblong.solvers.margin.batch.tiles import GroupRows, fill_tiles, fresh_image, have_row, prepare
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.problem import relative_margin_pieces, svm_pieces
from oblong.solvers.margin.solver import solve_margin
from tests.reference.margin import solve_primal

KERNELS = (Kernel("linear"), Kernel("rbf", 0.15), Kernel("poly", 0.2, 3, 1.0))


def _rows(sizes, d=4, seed=0, distance=1.5):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(labels.size, d)) + distance * rng.normal(size=(len(sizes), d))[labels]
    return X, labels


def _batch(kernel, sizes, *, gram=False, seed=0, Cs=(1.0,), spreads=(0.4,), bounds=None, **more):
    X, labels = _rows(sizes, seed=seed)
    ends = np.searchsorted(labels, np.arange(len(sizes) + 1))
    spans = np.column_stack([ends[:-1], ends[1:]])
    pairs = np.array(list(combinations(range(len(sizes)), 2)))
    weights = np.random.default_rng(seed).uniform(0.3, 2.0, size=len(X))
    return MarginBatch(
        GramTiles(kernel(X), kernel.always_positive_semidefinite) if gram else RowTiles(kernel, X),
        spans[pairs],
        np.tile([1.0, -1.0], (len(pairs), 1)),
        weights,
        np.array(Cs),
        np.array(spreads if bounds is None else []),
        None if bounds is None else np.full(len(pairs), bounds),
        **more,
    )


def _check(batch, found, gap=1e-3):
    """Every model is what its certificate says, and as good as the careful solver's."""
    own = len(batch.spreads) + 1
    K = (
        batch.matrix.K
        if isinstance(batch.matrix, GramTiles)
        else batch.matrix.kernel(batch.matrix.X)
    )
    for g in range(batch.n_groups):
        rows, y = batch.rows(g), batch.y(g)
        for k in range(batch.n_problems):
            if batch.bounds is None and k % own == 0:
                continue
            C, B = batch.Cs[k // own] * batch.penalties[rows], found.bound[g, k]
            felt = np.isfinite(B) and not found.theta[g, k] <= B
            pieces = relative_margin_pieces(y, C, B) if felt else svm_pieces(y, C)
            exact = solve_margin(KernelMatrix(K[np.ix_(rows, rows)]), pieces, tol=1e-8)
            c = found.coefs[g][k]
            outputs = K[np.ix_(rows, rows)] @ c + found.bias[g, k]
            norm = c @ K[np.ix_(rows, rows)] @ c
            objective = 0.5 * norm + float(C @ np.maximum(0.0, 1.0 - y * outputs))
            scale = max(exact.objective, 1e-9)
            np.testing.assert_array_equal(c, found.coefs[g][found.source[g, k]])
            assert STATUS[found.status[g, k]] == "converged"
            assert found.objective[g, k] == pytest.approx(objective, abs=1e-6 * scale)
            assert objective - exact.objective <= found.relative_gap[g, k] * objective + 1e-9
            assert found.dual_objective[g, k] <= exact.objective * (1 + 1e-6)
            assert found.relative_gap[g, k] <= gap
            assert found.largest[g, k] == pytest.approx(np.abs(outputs).max(), rel=1e-6)
            assert np.abs(outputs).max() <= max(B, 1.0) * (1.0 + 1e-9) or not felt
            assert abs(c.sum()) <= 1e-9 * max(1.0, np.abs(c).max())


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_rows_and_tiles_are_those_of_the_kernel(kernel):
    X, _ = _rows((7, 5, 9), d=6)
    if kernel.name == "linear":
        X -= X.mean(axis=0)
    source, exact = prepare(RowTiles(kernel, X))
    rows = np.r_[12:21, 0:7]
    expected = kernel(X)[np.ix_(rows, rows)]
    parts = np.array([[12, 21, 0, 0], [0, 7, 9, 81]])
    none = np.empty((0, 0), dtype=np.float32)
    group = GroupRows(
        source, parts, np.zeros(16, dtype=bool), np.empty(130, dtype=np.float32),
        np.zeros(21, dtype=bool), exact.diagonal[rows], False, np.empty(0, dtype=np.int64),
        np.zeros(0, dtype=bool), none,
    )  # fmt: skip
    K = np.full((16, 16), np.nan, dtype=np.float32)
    for i in (0, 8, 9, 15):
        have_row(group, K, i)
        np.testing.assert_allclose(K[i], expected[i], rtol=1e-5, atol=1e-5)
    chosen = np.array([1, 8, 12])
    block = group._replace(have=np.zeros(3, dtype=bool), chosen=chosen, there=group.have, matrix=K)
    part = np.full((3, 3), np.nan, dtype=np.float32)
    for i in (1, 2):
        have_row(block, part, i)
    # Row 8 was at hand, row 12 had to be computed, and row 1 nobody asked for.
    assert group.have[chosen].tolist() == [False, True, True]
    np.testing.assert_allclose(part[1:], expected[np.ix_(chosen[1:], chosen)], rtol=1e-5, atol=1e-5)
    group.own_have[:] = False
    fill_tiles(group, K, np.empty(256, dtype=np.float32))
    np.testing.assert_allclose(K, expected, rtol=1e-5, atol=1e-5)
    c = np.where(np.arange(16) % 3 > 0, np.linspace(-1, 1, 16), 0.0)
    u, w = np.full(16, np.nan), np.zeros(6 if kernel.name == "linear" else 0)
    matters = np.arange(16) != 3
    fresh_image(source, exact.rows, rows, c, matters, u, w, np.empty(exact.rows.size))
    np.testing.assert_allclose(u[matters], (expected @ c)[matters], rtol=1e-12, atol=1e-12)
    # The table of values ends with the counts.
    assert (LARGEST, STEPS, SOURCE) == (8, 9, 11)


@pytest.mark.parametrize("C", [0.1, 100.0])
@pytest.mark.parametrize("gram", [False, True])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_pairs_are_solved_and_certified(kernel, gram, C):
    batch = _batch(kernel, (12, 30, 1, 9, 140), gram=gram, Cs=(C,))
    _check(batch, solve_batch(batch))


@pytest.mark.large
@pytest.mark.parametrize("tiled_rows", [0, 400])
@pytest.mark.parametrize("bounds", [1.0, 1.7, np.inf])
def test_given_bounds(bounds, tiled_rows):
    batch = _batch(KERNELS[1], (25, 40, 160), bounds=bounds)
    found = solve_batch(batch, options=replace(DEFAULTS, tiled_rows=tiled_rows))
    _check(batch, found)
    assert np.isnan(found.theta).all()


@pytest.mark.parametrize("seed", range(4))
def test_groups_on_both_sides_of_the_limit_of_tiles(seed):
    # A group of many rows computes some of a block that a small group then needs whole.
    batch = _batch(KERNELS[1], (30, 9, 26, 14, 8, 33), seed=seed)
    _check(batch, solve_batch(batch, options=replace(DEFAULTS, tiled_rows=40)))


def test_grid_of_penalties_and_spreads():
    batch = _batch(
        KERNELS[1], (30, 45, 20), gram=True, Cs=(0.1, 1.0, 50.0), spreads=(1.0, 0.3, 0.0)
    )
    found = solve_batch(batch)
    _check(batch, found)
    # Without a bound that is felt, a problem has the solution of the support vector machine.
    assert (found.source[:, 1] == found.source[:, 0]).all()
    loose = solve_batch(replace(batch, polish=False))
    np.testing.assert_allclose(loose.largest[:, 1:4], found.largest[:, 1:4], atol=0.02)


@pytest.mark.large
@pytest.mark.parametrize("gram", [False, True])
def test_the_careful_solver_takes_over(gram):
    """Where the loop gives up, or is not used at all, the result is the same."""
    batch = _batch(KERNELS[1], (20, 35, 30), gram=gram, Cs=(1.0, 30.0), spreads=(0.5, 0.05))
    usual = solve_batch(batch)
    for options in (replace(DEFAULTS, batch_patience=0), replace(DEFAULTS, batch_rows=0)):
        other = solve_batch(batch, options=options)
        _check(batch, other)
        felt = np.isfinite(usual.objective)
        np.testing.assert_allclose(other.objective[felt], usual.objective[felt], rtol=5e-3)


def test_raw_units_go_to_the_careful_solver():
    batch = _batch(KERNELS[0], (15, 20, 12))
    big = replace(batch, matrix=RowTiles(KERNELS[0], 1e16 * batch.matrix.X), Cs=np.array([1e-32]))
    found = solve_batch(big)
    small = solve_batch(batch)
    np.testing.assert_allclose(found.bias[:, 1], small.bias[:, 1], atol=1e-2)


@pytest.mark.parametrize("sizes", [(20, 20), (18, 24, 21)])
def test_small_penalties_start_from_their_caps(sizes):
    """They take no steps, and are solutions of their own all the same."""
    batch = _batch(KERNELS[1], sizes, gram=True, Cs=(1e-3, 1.1e-3, 3e-3, 0.3), spreads=(0.999, 0.5))
    found = solve_batch(batch)
    _check(batch, found)
    assert found.n_iter[:, :6].sum() <= 2 * batch.n_groups
    assert (found.source[:, ::3] == [0, 3, 6, 9]).all()


def test_threads_and_limits():
    batch = _batch(KERNELS[1], (25, 30, 20, 35))
    options = MarginOptions(thread_entries=1.0)
    one, two = solve_batch(batch), solve_batch(batch, threads=2, options=options)
    for left, right in zip(one.coefs, two.coefs):
        np.testing.assert_array_equal(left, right)
    limited = solve_batch(replace(batch, max_iter=3))
    assert {STATUS[k] for k in limited.status[:, -1]} == {"max_iter"}
    assert (limited.n_iter <= 3).all()
    assert (limited.relative_gap[:, -1] > 1e-3).all()


def test_starts_and_more_segments():
    """Segments of any number: all rows but some, from the solution with all of them."""
    kernel = KERNELS[1]
    X, _ = _rows((30, 40))
    batch = MarginBatch(
        GramTiles(kernel(X)),
        np.array([[[0, 10], [20, 30], [30, 70]], [[0, 30], [30, 50], [60, 70]]]),
        np.array([[1.0, 1.0, -1.0], [1.0, -1.0, -1.0]]),
        np.ones(70),
        np.array([2.0]),
        np.array([]),
        np.array([1.5, np.inf]),
    )
    found = solve_batch(batch)
    _check(batch, found)
    again = solve_batch(replace(batch, starts=[coefs[0] for coefs in found.coefs]))
    _check(batch, again)
    assert again.n_iter.sum() < found.n_iter.sum() // 2


@pytest.mark.parametrize("B", [1.3, np.inf])
def test_against_a_conic_solver(B):
    batch = _batch(KERNELS[1], (14, 17, 12), bounds=B)
    found = solve_batch(replace(batch, tol=1e-5))
    K = batch.matrix.kernel(batch.matrix.X)
    for g in range(batch.n_groups):
        rows = batch.rows(g)
        exact = solve_primal(K[np.ix_(rows, rows)], batch.y(g), batch.penalties[rows], B)
        assert found.objective[g, 0] == pytest.approx(exact.objective, rel=2e-3)
