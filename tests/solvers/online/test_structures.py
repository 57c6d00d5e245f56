"""What the structures of a covariance do for one example, against matrices written out."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from oblong._core.compile import compiled
from oblong.solvers.online import simd
from oblong.solvers.online.balance import cut, rebalance
from oblong.solvers.online.rows import Rows
from oblong.solvers.online.rules import arow, confidence_weighted
from oblong.solvers.online.slots import (
    DIAGONAL,
    FULL,
    NONE,
    SIGMA,
    SINGLE,
    SKETCH,
    UNIT_OF_BOTH,
)
from oblong.solvers.online.state import OnlineState
from oblong.solvers.online.structures.full import full_product, full_update, rescale
from oblong.solvers.online.structures.sketch import (
    refactor,
    shrink,
    sketch_apply,
    sketch_diagonal,
    sketch_variances,
)
from oblong.solvers.online.structures.table import row_scores, table_update, table_variance
from oblong.solvers.online.variances import difference_variances, output_variances


def definite(n, seed=0):
    A = np.random.default_rng(seed).normal(size=(n, n))
    return A @ A.T / n + np.eye(n)


def test_full_covariance():
    rng = np.random.default_rng(1)
    S, values, columns = definite(8), rng.normal(size=5), np.array([0, 2, 3, 4, 6], dtype=np.int32)
    x = np.zeros(8)
    x[0], x[columns + 1] = 0.7, values
    product, wanted = np.empty(8), S - 0.1 * np.outer(S @ x, S @ x)
    assert full_product(columns, values, 0.7, S, product) == pytest.approx(x @ S @ x)
    np.testing.assert_allclose(product, S @ x)
    table, total, moved = np.zeros((8, 2)), np.zeros((8, 2)), product.copy()
    full_update(S, table, total, 1, product, 0.3, 0.1, 4.0)
    np.testing.assert_allclose(S, wanted)
    np.testing.assert_array_equal(S, S.T)
    np.testing.assert_allclose(table[:, 1], 0.3 * moved)
    np.testing.assert_allclose(total[:, 1], 4.0 * 0.3 * moved)
    assert not table[:, 0].any()


def test_rescaling_a_full_covariance_costs_no_digit():
    state = OnlineState.initial(arow(1.0), 7, 1, structure=FULL, task=SINGLE)
    state.covariance[0] = 2.0**-60 * definite(8)
    state.table[:] = np.arange(8.0)[:, None]
    before = state.covariance.copy(), state.table.copy()
    parts = state.table, state.covariance, state.total, state.scale, state.counters
    assert rescale(UNIT_OF_BOTH, *parts)
    k = state.exponent
    np.testing.assert_array_equal(state.covariance, before[0] * 4.0**k)
    np.testing.assert_array_equal(state.table, before[1] * 2.0**k)
    assert 2.0**-20 < state.covariance[0, 0, 0] < 2.0**20
    assert not rescale(UNIT_OF_BOTH, *parts)


@pytest.mark.parametrize("outputs", [1, 3])
def test_table(outputs):
    rng = np.random.default_rng(2)
    table = np.hstack([rng.normal(size=(9, outputs)), rng.uniform(0.1, 2.0, (9, outputs))])
    values, columns = rng.normal(size=7), np.arange(7, dtype=np.int32)
    x = np.r_[0.5, values, 0.0]
    scores = np.empty(outputs)
    row_scores(columns, values, 0.5, table, scores)
    np.testing.assert_allclose(scores, x @ table[:, :outputs])
    D = table[:, outputs].copy()
    assert table_variance(columns, values, 0.5, table, outputs) == pytest.approx(D @ x**2)
    assert table_variance(columns, values, 0.5, table, -1) == pytest.approx(x @ x)
    weights = table[:, 0].copy()
    held = table_update(
        columns, values, 0.5, table, np.zeros((0, outputs)), 0, outputs, 0.2, 1.5, 0.05, 0.0
    )
    np.testing.assert_allclose(table[:, 0], weights + 0.2 * D * x)
    exact = 1.0 / (1.0 / D + 1.5 * x**2)
    np.testing.assert_allclose(table[:, outputs], np.maximum(exact, 0.05))
    assert held == np.count_nonzero(exact[:8] <= 0.05)


def test_sketch():
    rng = np.random.default_rng(3)
    n, width, rank = 10, 6, 4
    block, inverse = np.zeros((n + width, width)), rng.uniform(0.5, 2.0, n)
    block[:n, :rank] = rng.normal(size=(n, rank))
    refactor(block, inverse, rank)
    B = block[:n, :rank].copy()
    precision = np.diag(1.0 / inverse) + B @ B.T
    S = np.linalg.inv(precision)
    X, h = rng.normal(size=(5, n - 1)), rng.normal(size=n)
    full = np.column_stack([np.full(5, 0.4), X])
    wanted = np.einsum("ij,jk,ik->i", full, S, full)
    for rows in (X, sp.csr_matrix(X)):
        np.testing.assert_allclose(sketch_variances(rows, 0.4, block, inverse, rank), wanted)
    np.testing.assert_allclose(sketch_diagonal(block, inverse, rank), S.diagonal())
    np.testing.assert_allclose(sketch_apply(block, inverse, rank, h), S @ h)
    # The cut keeps the diagonal of the precision, and loses no more than the largest lost value.
    exact = precision.diagonal().copy()
    assert shrink(block, inverse, exact, 2, 0.0) == 2
    B_cut = block[:n, :2]
    cut_precision = np.diag(1.0 / inverse) + B_cut @ B_cut.T
    np.testing.assert_allclose(cut_precision.diagonal(), exact)
    lost = np.linalg.svd(B, compute_uv=False)[2] ** 2
    assert np.linalg.eigvalsh(B @ B.T - B_cut @ B_cut.T)[-1] <= lost * (1 + 1e-9)


def test_vector_instructions():
    @compiled
    def all_three(S, q, x, first, second):
        simd.multiply(S, x, first)
        simd.fold(S, q, x, second)
        simd.subtract(S, q)
        simd.prefetch(S, 3)

    rng = np.random.default_rng(4)
    n = 3 * simd.LANES
    S, q, x = definite(n), rng.normal(size=n), rng.normal(size=n)
    wanted = S.copy()
    first, second = np.empty(n), np.empty(n)
    all_three(S, q, x, first, second)
    np.testing.assert_allclose(first, wanted @ x)
    np.testing.assert_allclose(second, (wanted - np.outer(q, q)) @ x)
    np.testing.assert_allclose(S, wanted - 2.0 * np.outer(q, q))


def learned(structure, rule=None, n=200, seed=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    labels = (X[:, :1] + 0.5 * rng.normal(size=(n, 1)) > 0).astype(np.int32)
    state = OnlineState.initial(
        rule or arow(1.0), 6, 1, structure=structure, task=SINGLE, sketch_size=3
    )
    state.learn(Rows.of(X), labels, np.ones(n))
    return state, X


def test_diagonals_are_brought_near_one_without_a_change():
    state, X = learned(DIAGONAL)
    before = output_variances(state, X)
    state.table[:, 1] *= 2.0**-30
    state.scale[0, SIGMA] *= 2.0**30
    rebalance(state)
    np.testing.assert_array_equal(output_variances(state, X), before)
    assert 2.0**-9 < np.median(state.table[:, 1]) < 2.0**9


def test_a_cut_leaves_room_and_the_diagonal():
    state, _ = learned(SKETCH, confidence_weighted(1.0, floor=1e-12))
    width = state.covariance.shape[2]
    exact = state.table[:, 2].copy()
    cut(state)
    assert state.ranks[0] + state.steps <= width
    B, D = state.covariance[0, :7, : state.ranks[0]], 1.0 / state.table[:7, 1]
    np.testing.assert_allclose(D + (B**2).sum(axis=1), exact, rtol=1e-9)


@pytest.mark.parametrize("structure", [NONE, DIAGONAL, FULL, SKETCH])
def test_variances_of_outputs(structure):
    state, X = learned(structure)
    found = output_variances(state, X)
    full = np.column_stack([np.ones(len(X)), X])
    if structure == FULL:
        S = state.matrices()[0]
    elif structure == SKETCH:
        B, D = state.covariance[0, :7, : state.ranks[0]], 1.0 / state.table[:7, 1]
        S = state.scale[0, SIGMA] * np.linalg.inv(np.diag(D) + B @ B.T)
    else:
        S = np.eye(7) if structure == NONE else np.diag(state.diagonal()[:, 0])
    np.testing.assert_allclose(found[:, 0], np.einsum("ij,jk,ik->i", full, S, full), rtol=1e-9)
    np.testing.assert_allclose(output_variances(state, sp.csr_matrix(X)), found, rtol=1e-9)
    single = output_variances(state, X.astype(np.float32))
    np.testing.assert_allclose(single, found, rtol=1e-4)


def test_variances_of_differences():
    variances, rivals = np.array([[1.0, 2.0, 4.0]]), np.array([[1, 0, 1]])
    np.testing.assert_array_equal(difference_variances(variances, rivals), [[3.0, 3.0, 6.0]])
