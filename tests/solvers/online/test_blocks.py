"""Learning block by block is learning row by row, up to rounding."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import ndtri

from oblong.solvers.online import block
from oblong.solvers.online._pass import learn_rows
from oblong.solvers.online.block import learn_blocks, suits_blocks
from oblong.solvers.online.rules import (
    AROW,
    CELLIP,
    CELLIP_SMALLEST,
    CW_STDEV,
    CW_VAR,
    IELLIP,
    MISTAKE,
    NHERD,
    SCW_1,
    SCW_2,
    Rule,
)
from oblong.solvers.online.state import EACH, FULL, RANK, SINGLE, TOP, OnlineState, Rows

PHI = float(ndtri(0.9))
D = 30
RULES = {
    "AROW": Rule(AROW, 1.0, 0.7, soft=True),
    "SOP": Rule(AROW, MISTAKE, 1.0),
    "NHERD": Rule(NHERD, 1.0, 0.4, soft=True),
    "CW-Stdev": Rule(CW_STDEV, np.inf, PHI, invariance=1, floor=1e-12),
    "CW-Var": Rule(CW_VAR, np.inf, PHI),
    "SCW-I": Rule(SCW_1, np.inf, PHI, 0.2, soft=True),
    "SCW-II": Rule(SCW_2, np.inf, PHI, 0.2, soft=True),
    "CELLIP": Rule(CELLIP, 0.1, 0.1, 0.0, D + 1.0),
    "CELLIP-minvol": Rule(CELLIP_SMALLEST, MISTAKE, 0.1, 0.0, D + 1.0),
    "IELLIP": Rule(IELLIP, 0.1, 0.1, 0.3, 0.0, memory=0.1, invariance=2),
    "IELLIP-b1": Rule(IELLIP, 0.1, 0.1, 1.0, 0.0, memory=0.05, invariance=2),
}
TASKS = {"single": (SINGLE, 2), "top": (TOP, 4), "kbest": (TOP, 4), "each": (EACH, 3)}


def stream(classes, n=400, d=D, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    outputs = X @ rng.normal(size=(d, classes)) + noise * rng.normal(size=(n, classes)) / 3
    return X, outputs.argmax(axis=1).astype(np.int32)[:, None]


def model(rule, task="single", d=D, **options):
    kind, classes = TASKS[task]
    return OnlineState.initial(
        rule,
        d,
        1 if kind == SINGLE else classes,
        structure=FULL,
        task=kind,
        steps=3 if task == "kbest" else 1,
        **options,
    )


def by_rows(state, rows, labels, weights, order):
    """The general pass, which knows nothing of blocks."""
    state.codes[5] = rows.dense
    learn_rows(
        rows.data,
        rows.indices,
        rows.indptr,
        order,
        labels,
        weights,
        state.table,
        state.shape,
        state.scale,
        state.total,
        state.counters,
        state.work,
        state.settings,
        state.codes,
    )


def assert_same(a, b, tol=1e-11):
    # Rounds, updates, mistakes, skipped, resets.
    np.testing.assert_array_equal(a.counters[:5], b.counters[:5])
    free = a.codes[4] == 2
    unit = 1.0 if free else 2.0 ** (a.exponent - b.exponent)
    pairs = [(a.table, b.table * unit), (a.total, b.total * unit)]
    shapes = [model.shape * model.scale[:, :1, None] for model in (a, b)]
    # The unit of a shape that may have any is that of its largest entry.
    units = [S.max(initial=1e-300) if free else 1.0 for S in shapes]
    pairs.append((shapes[0] / units[0], shapes[1] / units[1] * unit**2))
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=tol, atol=tol * np.abs(one).max(initial=0.0))
    np.testing.assert_allclose(a.scale[:, 1], b.scale[:, 1], rtol=1e-12)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", RULES)
def test_blocks_are_rows(name, task):
    X, labels = stream(TASKS[task][1])
    one, other = (model(RULES[name], task, average=True) for _ in range(2))
    order, weights = np.arange(len(X)), np.ones(len(X))
    by_rows(one, Rows.of(X), labels, weights, order)
    learn_blocks(other, Rows.of(X), labels, weights, order)
    assert one.counters[1] > 20
    assert_same(one, other)
    assert np.array_equal(other.shape, other.shape.transpose(0, 2, 1))
    assert (weights == 1.0).all()


@pytest.mark.parametrize("name", ["AROW", "NHERD", "SCW-I", "SCW-II"])
@pytest.mark.parametrize("task", ["single", "kbest", "each"])
def test_weights_and_order(name, task):
    X, labels = stream(TASKS[task][1], n=200)
    rng = np.random.default_rng(1)
    weights = rng.choice([0.0, 0.5, 1.0, 2.0, 3.7], 200)
    order = rng.permutation(200)[:150]
    one, other = (model(RULES[name], task, average=True) for _ in range(2))
    by_rows(one, Rows.of(X), labels, weights, order)
    learn_blocks(other, Rows.of(X), labels, weights, order)
    assert_same(one, other)


@pytest.mark.parametrize("task", ["single", "each"])
def test_sparse_rows_and_single_precision(task):
    X, labels = stream(TASKS[task][1])
    X[np.random.default_rng(0).random(X.shape) < 0.7] = 0.0
    order, weights = np.arange(len(X)), np.ones(len(X))
    one, other = (model(RULES["AROW"], task) for _ in range(2))
    learn_blocks(one, Rows.of(X), labels, weights, order)
    learn_blocks(other, Rows.of(sp.csr_matrix(X)), labels, weights, order)
    assert_same(one, other)
    single = model(RULES["AROW"], task, dtype=np.float32)
    learn_blocks(single, Rows.of(X.astype(np.float32)), labels, weights, order)
    assert single.table.dtype == np.float32
    np.testing.assert_allclose(single.table, one.table, rtol=1e-3, atol=1e-4)


def test_label_sets():
    X, _ = stream(2)
    labels = (X @ np.random.default_rng(3).normal(size=(D, 4)) > 0).astype(np.int32)
    order, weights = np.arange(len(X)), np.ones(len(X))
    for task, outputs in ((EACH, 4), (RANK, 5)):
        one, other = (
            OnlineState.initial(RULES["IELLIP-b1"], D, outputs, structure=FULL, task=task)
            for _ in range(2)
        )
        by_rows(one, Rows.of(X), labels, weights, order)
        learn_blocks(other, Rows.of(X), labels, weights, order)
        assert_same(one, other)


def noise(n=600, d=5):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)), rng.integers(0, 2, (n, 1)).astype(np.int32)


def test_resets_of_the_ellipsoid():
    """Noise leaves nothing of the ellipsoid now and then."""
    X, labels = noise()
    one, other = (model(RULES["CELLIP"], d=5) for _ in range(2))
    order, weights = np.arange(len(X)), np.ones(len(X))
    by_rows(one, Rows.of(X), labels, weights, order)
    learn_blocks(other, Rows.of(X), labels, weights, order)
    assert one.counters[4] > 3
    assert_same(one, other, 1e-9)


def test_the_unit_changes_between_blocks():
    """Hard rules shrink the shape on noise without end."""
    X, labels = noise(3000)
    state = model(RULES["CW-Stdev"], d=5)
    learn_blocks(state, Rows.of(X), labels, np.ones(3000), np.arange(3000))
    assert state.counters[5] > 2
    assert np.isfinite(state.table).all()
    assert (np.linalg.eigvalsh(state.shape[0, :6, :6]) > 0).all()


def test_few_updates_make_long_blocks(monkeypatch):
    """Once few rows matter, a block looks at many of them."""
    X, labels = stream(2, n=3000, noise=0.0)
    state = model(RULES["SOP"])
    other = state.copy()
    seen = []
    real = block.replay

    def watched(*arguments):
        row, count = real(*arguments)
        seen.append((row, count))
        return row, count

    monkeypatch.setattr(block, "replay", watched)
    learn_blocks(state, Rows.of(X), labels, np.ones(3000), np.arange(3000))
    by_rows(other, Rows.of(X), labels, np.ones(3000), np.arange(3000))
    assert_same(other, state)
    assert len(seen) < state.counters[1]
    assert max(row for row, _ in seen) > 150


def test_large_shapes_learn_in_blocks(monkeypatch):
    d = 370
    X, labels = stream(2, n=60, d=d)
    state, other = model(RULES["AROW"], d=d), model(RULES["AROW"], d=d)
    assert suits_blocks(state, 60)
    assert not suits_blocks(state, 1)
    assert not suits_blocks(model(RULES["AROW"]), 60)
    assert not suits_blocks(model(RULES["AROW"], "top", d=d), 60)
    assert suits_blocks(model(RULES["AROW"], "each", d=170), 60)
    assert not suits_blocks(model(RULES["AROW"], d=170), 60)
    state.learn(Rows.of(X), labels, np.ones(60))
    by_rows(other, Rows.of(X), labels, np.ones(60), np.arange(60))
    assert_same(other, state)
    # Room for features that have not occurred stays empty.
    assert not state.shape[0, d + 1 :].any()
