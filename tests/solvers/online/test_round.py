"""One round: rows, tasks, counting, calibration, and the order of rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from oblong.solvers.online.calibration import (
    DRIFTING,
    STEADY,
    calibrate,
    calibrate_copies,
    fresh_sigmoid,
    logits,
    mirror,
    set_open,
)
from oblong.solvers.online.order import row_keys, shuffled
from oblong.solvers.online.protocol import Health
from oblong.solvers.online.round import answer, begin, rescale_factors, reset, skip_copies
from oblong.solvers.online.rows import Rows, plain
from oblong.solvers.online.rules import arow
from oblong.solvers.online.slots import (
    DIAGONAL,
    EACH,
    FULL,
    KIND,
    MISTAKES,
    N_COUNTERS,
    NOT_YET,
    RANK,
    ROUNDS,
    SIGMA,
    SINGLE,
    SKIPPED,
    SLOPE,
    TOP,
    UPDATES,
)
from oblong.solvers.online.state import OnlineState
from oblong.solvers.online.tasks import mistaken, pick


def test_rows_share_the_memory_of_the_array():
    X = np.arange(12.0).reshape(4, 3)
    rows = Rows.of(X)
    assert rows.dense
    assert rows.width == 3
    assert np.shares_memory(rows.data, X)
    X.flags.writeable = False
    free = plain(X)
    assert free.flags.writeable
    assert np.shares_memory(free, X)
    doubled = sp.csr_matrix(([1.0, 2.0, 4.0], [1, 1, 0], [0, 3]), shape=(1, 5))
    rows = Rows.of(doubled)
    assert rows.width == 5
    np.testing.assert_array_equal(rows.indices, [0, 1])
    np.testing.assert_array_equal(rows.data, [4.0, 3.0])
    assert doubled.nnz == 3


def test_classes_of_a_step():
    scores, taken = np.array([0.2, 0.9, -0.1, 0.5]), np.zeros(4)
    label = np.array([0])
    assert pick(SINGLE, 0, scores, np.array([1]), taken) == (0, -1, 1.0)
    assert pick(SINGLE, 0, scores, np.array([0]), taken) == (0, -1, -1.0)
    assert [pick(TOP, k, scores, label, taken)[:2] for k in range(3)] == [(0, 1), (0, 3), (0, 2)]
    assert pick(TOP, 3, scores, label, taken)[:2] == (-1, -1)
    assert [pick(EACH, k, scores, label, taken)[2] for k in range(4)] == [1.0, -1.0, -1.0, -1.0]
    relevant = np.array([1, 0, 1])
    # The last output is the threshold.
    assert pick(RANK, 0, scores, relevant, taken) == (2, 1, 1.0)
    assert pick(RANK, 1, scores, relevant, taken) == (0, 3, 1.0)
    assert pick(RANK, 2, scores, relevant, taken) == (3, 1, 1.0)


def test_what_counts_as_a_mistake():
    taken = np.zeros(3)
    assert mistaken(SINGLE, np.array([0.0]), np.array([1]), taken)
    assert mistaken(SINGLE, np.array([0.0]), np.array([0]), taken)
    assert not mistaken(SINGLE, np.array([-0.1]), np.array([0]), taken)
    scores = np.array([0.3, 0.3, 0.1])
    assert mistaken(TOP, scores, np.array([0]), taken)
    assert not mistaken(TOP, np.array([0.4, 0.3, 0.1]), np.array([0]), taken)
    assert not mistaken(RANK, np.array([0.4, 0.1, 0.2]), np.array([1, 0]), taken)
    assert mistaken(RANK, np.array([0.4, 0.3, 0.2]), np.array([1, 0]), taken)


def test_counting():
    state = OnlineState.initial(arow(1.0), 2, 1, structure=FULL, task=SINGLE)
    counters, labels, scores = np.zeros(N_COUNTERS, dtype=np.int64), np.array([1]), np.zeros(1)
    record = np.full((1, 1), NOT_YET)
    begin(True, SINGLE, scores, labels, 1.0, state.scale, counters, record, 0)
    assert record[0, 0] == 0.0
    skip_copies(SINGLE, scores, labels, 2.5, True, state.scale, counters)
    assert counters[ROUNDS] == counters[MISTAKES] == 4
    numbers = state.scale[0]
    code = state.codes[1]
    # AROW: step [1 - m]_+ / (v + r) and precision 1 / r.
    step, precision, factor = answer(code, 0.5, 3.0, 1.0, state.settings, numbers, counters, False)
    assert (step, precision, factor) == (pytest.approx(0.5 / 4.0), pytest.approx(1.0), 1.0)
    assert answer(code, 0.5, 0.0, 1.0, state.settings, numbers, counters, False) == (0.0, 0.0, 1.0)
    assert (counters[UPDATES], counters[SKIPPED]) == (1, 1)
    assert Health().skipped == 0


@pytest.mark.parametrize("structure", [DIAGONAL, FULL])
def test_a_reset_restores_the_initial_covariance(structure):
    fresh = OnlineState.initial(arow(1.0), 7, 2, structure=structure, task=EACH, variance=0.3)
    state = fresh.copy()
    state.scale[1, SIGMA] = 5.0
    state.covariance[...] *= 0.1
    state.table[:, 2:] *= 0.1
    for k in range(2):
        reset(structure, state.table, state.covariance, state.scale, k, 0.3)
    np.testing.assert_array_equal(state.diagonal(), fresh.diagonal())
    np.testing.assert_array_equal(state.scale, fresh.scale)


def test_factors_stay_in_range_and_in_proportion():
    scale = np.array([[2.0**250, 0.0, 0.0], [2.0**240, 0.0, 0.0]])
    rescale_factors(scale, 0)
    np.testing.assert_array_equal(scale[:, SIGMA], [1.0, 2.0**-10])
    rescale_factors(scale, 1)
    np.testing.assert_array_equal(scale[:, SIGMA], [1.0, 2.0**-10])


def test_sigmoids_learn_the_log_odds():
    """For the output f, the classes are drawn with the probability 1 / (1 + exp(-3 f - 1))."""
    rng = np.random.default_rng(0)
    scale = np.array([[1.0, 0.0, 0.0, *fresh_sigmoid(STEADY)]])
    outputs = rng.normal(size=20_000)
    right = rng.random(20_000) < 1.0 / (1.0 + np.exp(-3.0 * outputs - 1.0))
    for f, label in zip(outputs, right):
        calibrate(SINGLE, np.array([f]), np.array([int(label)]), scale, 1.0)
    grid = np.linspace(-1.0, 1.0, 5)[:, None]
    np.testing.assert_allclose(logits(grid, scale, SINGLE), 3.0 * grid + 1.0, atol=0.3)
    mirrored = scale.copy()
    mirror(mirrored[0])
    np.testing.assert_allclose(logits(-grid, mirrored, SINGLE), -logits(grid, scale, SINGLE))


def test_closed_sigmoids_learn_the_scale_only():
    scale = np.array([[1.0, 0.0, 0.0, *fresh_sigmoid(DRIFTING)]])
    set_open(scale, False)
    assert scale[0, KIND] == -DRIFTING
    calibrate_copies(SINGLE, np.array([2.0]), np.array([1]), scale, 2.5)
    assert scale[0, SLOPE] == 1.0
    assert logits(np.array([[2.0]]), scale, SINGLE)[0, 0] == pytest.approx(1.0)
    set_open(scale, True)
    calibrate(SINGLE, np.array([2.0]), np.array([1]), scale, 1.0)
    assert scale[0, SLOPE] > 1.0


@pytest.mark.parametrize("sparse", [True, False])
def test_keys_belong_to_rows_and_not_to_places(sparse):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((50, 6)) < 0.5, rng.normal(size=(50, 6)), 0.0)
    X[7], labels = X[3], rng.integers(0, 2, size=(50, 1))
    labels[7] = labels[3]
    permutation = rng.permutation(50)

    def keys(X, labels):
        rows = Rows.of(sp.csr_matrix(X) if sparse else X)
        random_state = np.random.RandomState(1)
        return row_keys(
            rows.data, rows.indices, rows.indptr, rows.dense, labels, random_state
        )  # fmt: skip

    found = keys(X, labels)
    assert found[3] == found[7]
    assert len(set(found.tolist())) == 49
    np.testing.assert_array_equal(keys(X[permutation], labels[permutation]), found[permutation])
    dense = Rows.of(X)
    random_state = np.random.RandomState(1)
    np.testing.assert_array_equal(
        row_keys(dense.data, dense.indices, dense.indptr, True, labels, random_state), found
    )
    order = shuffled(found, np.random.RandomState(2))
    again = shuffled(found[permutation], np.random.RandomState(2))
    np.testing.assert_array_equal(found[order], found[permutation][again])
    assert sorted(order.tolist()) == list(range(50))
    assert math.fabs(np.corrcoef(order, np.arange(50))[0, 1]) < 0.5
